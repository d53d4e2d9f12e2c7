//! The directory of one run: its sockets, for this user only, removed at the end.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// Longest path of a Unix socket in bytes, the closing zero left out (`sun_path`).
const SOCKET_PATH_BYTES: usize = 107;

/// Longest file name that ranks may give a socket, in bytes, and before it the name of their epoch's directory.
const SOCKET_NAME_BYTES: usize = 32 + "e999999/".len();

/// Names to try: one may be left from a killed process of the same number, or be somebody else's.
const NAMES: usize = 64;

static NEXT: AtomicU32 = AtomicU32::new(0);

/// A directory that goes when this value goes.
#[derive(Debug)]
pub struct RunDirectory {
    path: PathBuf,
}

impl RunDirectory {
    /// Makes a fresh directory under the system's directory for temporary files.
    ///
    /// # Errors
    /// The system's reason, or that the path leaves no room for a socket's name.
    pub fn create() -> io::Result<Self> {
        let mut made = Self::create_next();
        for _ in 1..NAMES {
            match made {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => made = Self::create_next(),
                Ok(_) | Err(_) => break,
            }
        }
        made
    }

    fn create_next() -> io::Result<Self> {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("lockstep-{}-{number}", std::process::id()));
        if path.as_os_str().len() + 1 + SOCKET_NAME_BYTES > SOCKET_PATH_BYTES {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "the path is too long for sockets; set TMPDIR to a shorter one",
            ));
        }
        DirBuilder::new().mode(0o700).create(&path)?;
        Ok(Self { path })
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The control socket in it.
    pub fn control_socket(&self) -> PathBuf {
        self.path.join("control.sock")
    }
}

impl Drop for RunDirectory {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.path) {
            super::say(&format!("lockstep: {} could not be removed: {error}", self.path.display()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn run_directory_passes_over_names_that_are_taken() {
        let next = NEXT.load(Ordering::Relaxed);
        let names = (next..next + 8).map(|number| format!("lockstep-{}-{number}", std::process::id()));
        let taken: Vec<PathBuf> = names.map(|name| std::env::temp_dir().join(name)).collect();
        taken.iter().for_each(|path| drop(std::fs::create_dir(path)));
        let directory = RunDirectory::create().unwrap();
        assert!(!taken.contains(&directory.path().to_owned()));
        taken.iter().for_each(|path| drop(std::fs::remove_dir(path)));
    }

    #[test]
    fn run_directory_is_private_and_goes_with_its_value() {
        let directory = RunDirectory::create().unwrap();
        let path = directory.path().to_owned();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
        std::fs::write(directory.control_socket(), "").unwrap();
        drop(directory);
        assert!(!path.exists());
    }
}
