//! Files that the program writes: examined before anything costs time, and replaced only by what is whole.
//!
//! Two kinds of writing. *Text* goes into whatever has its name: a file, a pipe, a device. What is *replaced* is written beside its place
//! and moved there when it is whole, which is for regular files alone: a device or a link that is moved over is gone.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use thiserror::Error;

/// Links that are followed one after another; more are a circle.
const MOST_LINKS: usize = 40;

/// Why a file cannot be written where it was asked for.
#[derive(Debug, Error)]
pub(crate) enum TargetError {
    /// The name of standard output elsewhere, and of a file here.
    #[error("`-` names no file: write /dev/stdout for standard output, or ./- for a file of that name")]
    Dash,
    /// Something is there that cannot be written to as a file is.
    #[error("{path} is {what}; name {instead}")]
    Other {
        /// The place.
        path: PathBuf,
        /// What is there.
        what: &'static str,
        /// What may be there.
        instead: &'static str,
    },
    /// The file cannot be made or opened.
    #[error("cannot write {path}: {source}; name a file that can be written")]
    Unwritable {
        /// The place.
        path: PathBuf,
        /// What is wrong.
        source: io::Error,
    },
}

/// Examines a place where text will be written: a regular file or none yet, or anything that is written into, such as a pipe.
///
/// # Errors
/// [`TargetError`] when nothing could be written there. Nothing is left behind.
pub(crate) fn examine_text(path: &Path) -> Result<(), TargetError> {
    if path == Path::new("-") {
        return Err(TargetError::Dash);
    }
    match fs::metadata(path) {
        Ok(found) if found.is_dir() => Err(other(path, "a folder", "a file")),
        Ok(found) if !found.is_file() => Ok(()),
        Ok(_) => unwritable(path, OpenOptions::new().append(true).open(path).map(drop)),
        Err(_) => unwritable(path, target(path).and_then(|place| probe(&place))),
    }
}

/// Examines a place where a file will be replaced, and says where that is: what links lead to.
///
/// # Errors
/// [`TargetError`] when there is anything but a regular file, or none can be made beside it. Nothing is left behind.
pub(crate) fn examine_replaced(path: &Path) -> Result<PathBuf, TargetError> {
    if path == Path::new("-") {
        return Err(other(path, "no name of a file", "./- for a file of that name"));
    }
    refuse_irregular(path)?;
    let place = unwritable(path, target(path))?;
    refuse_irregular(&unfinished(&place))?;
    unwritable(path, probe(&unfinished(&place)))?;
    Ok(place)
}

/// Examines a folder into which files will be written, and makes it.
///
/// # Errors
/// [`TargetError`] when it is no folder, or nothing can be written into it.
pub(crate) fn examine_folder(folder: &Path) -> Result<(), TargetError> {
    unwritable(folder, fs::create_dir_all(folder).and_then(|()| probe(&folder.join(".part"))))
}

/// Writes text to `path`, and makes the folders above it.
///
/// # Errors
/// What keeps it from being written.
pub(crate) fn write_text(path: &Path, text: &str) -> io::Result<()> {
    // Where standard output is a file, opening it by this name would begin anew at its start.
    if path == Path::new("/dev/stdout") {
        return io::stdout().write_all(text.as_bytes());
    }
    make_folders(path)?;
    fs::write(path, text)
}

/// Replaces the file at `place`, which was examined, by what `write` writes to the path that it is given: whole, or not at all.
///
/// # Errors
/// What keeps it from being written.
pub(crate) fn replace(place: &Path, write: impl FnOnce(&Path) -> io::Result<()>) -> io::Result<()> {
    let unfinished = unfinished(place);
    let written = write(&unfinished).and_then(|()| fs::rename(&unfinished, place));
    if written.is_err() {
        // Whatever filled the disk must not stay; that it may not be there at all is as good.
        drop(fs::remove_file(&unfinished));
    }
    written
}

fn other(path: &Path, what: &'static str, instead: &'static str) -> TargetError {
    TargetError::Other { path: path.to_owned(), what, instead }
}

fn unwritable<T>(path: &Path, result: io::Result<T>) -> Result<T, TargetError> {
    result.map_err(|source| TargetError::Unwritable { path: path.to_owned(), source })
}

fn refuse_irregular(path: &Path) -> Result<(), TargetError> {
    match fs::metadata(path) {
        Ok(found) if found.is_dir() => Err(other(path, "a folder", "a file")),
        Ok(found) if !found.is_file() => Err(other(path, "no regular file", "one, which can be replaced")),
        Ok(_) | Err(_) => Ok(()),
    }
}

/// What `path` leads to, link by link; it need not be there.
fn target(path: &Path) -> io::Result<PathBuf> {
    let mut place = path.to_owned();
    for _ in 0..MOST_LINKS {
        match fs::read_link(&place) {
            Ok(to) => place = place.parent().unwrap_or(Path::new("")).join(to),
            Err(_) => return Ok(place),
        }
    }
    Err(io::Error::other("its links lead in a circle"))
}

/// Makes a file at `place`, with the folders above it, and removes it again.
fn probe(place: &Path) -> io::Result<()> {
    make_folders(place)?;
    File::create(place)?;
    fs::remove_file(place)
}

fn make_folders(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    folder.map_or(Ok(()), fs::create_dir_all)
}

/// Where a file is written before it is whole: beside its place, and hidden, so that nobody takes it for one.
fn unfinished(place: &Path) -> PathBuf {
    let mut name = std::ffi::OsString::from(".");
    name.push(place.file_name().unwrap_or_default());
    name.push(".part");
    place.with_file_name(name)
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn files_are_replaced_where_links_lead() {
        let folder = tempfile::tempdir().unwrap();
        let (link, far) = (folder.path().join("link"), folder.path().join("far/file"));
        symlink("far/file", &link).unwrap();
        let place = examine_replaced(&link).unwrap();
        assert_eq!(place, far);
        assert!(!far.exists(), "examining leaves nothing behind");
        replace(&place, |path| fs::write(path, "whole")).unwrap();
        assert!(link.is_symlink() && fs::read_to_string(&far).unwrap() == "whole");
        let failed = replace(&place, |path| fs::write(path, "half").and(Err(io::Error::other("full"))));
        assert!(failed.is_err() && fs::read_to_string(&far).unwrap() == "whole");
        assert_eq!(fs::read_dir(folder.path().join("far")).unwrap().count(), 1);
    }

    #[test]
    fn files_that_are_no_files_are_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let circle = folder.path().join("circle");
        symlink("circle", &circle).unwrap();
        let places =
            [Path::new("/dev/full"), Path::new("/proc/nope/x"), Path::new("-"), folder.path(), &circle];
        for place in places {
            assert!(examine_replaced(place).is_err(), "{}", place.display());
        }
    }

    #[test]
    fn files_of_text_may_be_anything_that_is_written_into() {
        let folder = tempfile::tempdir().unwrap();
        let (old, new) = (folder.path().join("old"), folder.path().join("new/file"));
        fs::write(&old, "old").unwrap();
        for place in [Path::new("/dev/full"), Path::new("/dev/stdout"), &old, &new] {
            assert!(examine_text(place).is_ok(), "{}", place.display());
        }
        assert!(fs::read_to_string(&old).unwrap() == "old" && !new.exists());
        for place in [Path::new("-"), folder.path(), Path::new("/proc/nope/x"), &old.join("below")] {
            assert!(examine_text(place).is_err(), "{}", place.display());
        }
        assert!(examine_folder(&old).is_err() && examine_folder(&folder.path().join("a/b")).is_ok());
    }
}
