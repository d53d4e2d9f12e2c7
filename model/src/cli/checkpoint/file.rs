//! The file of a checkpoint: a line that says what kind of file it is, a line of JSON that says of what, the search, and a checksum.
//!
//! It is written beside its place and then moved there, so that a process that is killed leaves the one before. The checksum is over
//! all before it and is looked at before anything is believed.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Take, Write};
use std::path::{Path, PathBuf};

use std::hash::Hasher;

use crate::ci::Fingerprints;
use crate::cli::files::replace;
use crate::explore::{Fingerprinter, Snapshot};
use crate::runs::{Exit, Registry, Run};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// First line of each file; the number is that of the form.
const MAGIC: &str = "lockstep-check checkpoint 1\n";
/// Bytes that are hashed at once: hashes of streams depend on how they are cut.
const BLOCK: usize = 1 << 16;
const CHECKSUM: usize = size_of::<u128>();

/// What is left of a file after its head, without the checksum.
pub(crate) type Body = BufReader<Take<File>>;

/// What a checkpoint is of. A search goes on only if all of it is the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Subject {
    run: String,
    parameters: String,
    fingerprints: Fingerprints,
}

impl Subject {
    /// The run as this checker knows it.
    pub(crate) fn of(run: &Run, registry: &Registry) -> Self {
        Self {
            run: run.name.to_owned(),
            parameters: run.params.clone(),
            fingerprints: Fingerprints::of(registry),
        }
    }
}

/// Second line of a file.
#[derive(Serialize, Deserialize)]
struct Head {
    #[serde(flatten)]
    subject: Subject,
    /// For whoever looks into the file.
    states: u64,
    depth: u32,
    seconds: f64,
}

/// Why a checkpoint cannot be used or written.
#[derive(Debug, Error)]
pub(crate) enum CheckpointError {
    /// Something in the file is not as it was written.
    #[error(
        "{path} is damaged or cut short: its checksum is another; use a copy, or leave --resume out and explore anew"
    )]
    Damaged {
        /// The file.
        path: PathBuf,
    },
    /// The file is another kind of file.
    #[error("{path} is no checkpoint of this version; give --resume a file that `check --checkpoint` wrote")]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// The file is of another run.
    #[error("{path} is of the run {found}, not of {asked}: name {found} to go on with it")]
    OtherRun {
        /// The file.
        path: PathBuf,
        /// Its run.
        found: String,
        /// The run that was asked for.
        asked: String,
    },
    /// The file is of other sources or bounds.
    #[error(
        "{path} is stale: {what} changed since it was written; leave --resume out and explore anew, or go on with the \
         sources of that time"
    )]
    Stale {
        /// The file.
        path: PathBuf,
        /// What changed.
        what: &'static str,
    },
    /// The file cannot be read.
    #[error("cannot read the checkpoint {path}: {source}")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: io::Error,
    },
    /// The file cannot be written.
    #[error("the last checkpoint is not written to {path}: {source}; what was there before is still there")]
    Unwritable {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: io::Error,
    },
}

impl CheckpointError {
    /// The exit code it asks for.
    pub(crate) const fn exit(&self) -> Exit {
        match self {
            Self::OtherRun { .. } => Exit::Usage,
            Self::Stale { .. } => Exit::Moved,
            Self::Damaged { .. }
            | Self::Foreign { .. }
            | Self::Unreadable { .. }
            | Self::Unwritable { .. } => Exit::Internal,
        }
    }
}

/// Writes a checkpoint of `subject` to `path`, which was examined, whole or not at all.
pub(super) fn write(path: &Path, subject: &Subject, snapshot: &Snapshot<'_>) -> io::Result<()> {
    replace(path, |unfinished| write_to(unfinished, subject, snapshot))
}

fn write_to(path: &Path, subject: &Subject, snapshot: &Snapshot<'_>) -> io::Result<()> {
    let mut out = Sealing { inner: File::create(path)?, block: Vec::new(), digest: Fingerprinter::default() };
    let head = Head {
        subject: subject.clone(),
        states: snapshot.counts.unique,
        depth: snapshot.counts.depth,
        seconds: snapshot.elapsed.as_secs_f64(),
    };
    writeln!(out, "{MAGIC}{}", serde_json::to_string(&head)?)?;
    snapshot.write(&mut out)?;
    out.seal()?.sync_all()
}

/// Opens the checkpoint at `path`, which must be whole and of `subject`.
pub(super) fn open(path: &Path, subject: &Subject) -> Result<Body, CheckpointError> {
    let unreadable = |source| CheckpointError::Unreadable { path: path.to_owned(), source };
    let (mut file, length) = File::open(path)
        .and_then(|file| file.metadata().map(|data| (file, data.len())))
        .map_err(unreadable)?;
    let mut magic = String::new();
    let begins = (&mut file).take(MAGIC.len() as u64).read_to_string(&mut magic);
    if begins.is_err() || magic != MAGIC {
        return Err(CheckpointError::Foreign { path: path.to_owned() });
    }
    let damaged = || CheckpointError::Damaged { path: path.to_owned() };
    let sealed = length.checked_sub(CHECKSUM as u64).ok_or_else(damaged)?;
    if !is_sealed(&mut file, sealed).map_err(unreadable)? {
        return Err(damaged());
    }
    let head = MAGIC.len() as u64;
    file.seek(SeekFrom::Start(head)).map_err(unreadable)?;
    let mut body = BufReader::with_capacity(BLOCK, file.take(sealed - head));
    let mut line = String::new();
    body.read_line(&mut line).map_err(unreadable)?;
    let head: Head = serde_json::from_str(&line).map_err(|_| damaged())?;
    fits(path, head.subject, subject).map(|()| body)
}

fn fits(path: &Path, found: Subject, asked: &Subject) -> Result<(), CheckpointError> {
    let path = path.to_owned();
    let stale = |what| Err(CheckpointError::Stale { path: path.clone(), what });
    if found.run != asked.run {
        return Err(CheckpointError::OtherRun { path, found: found.run, asked: asked.run.clone() });
    }
    match () {
        () if found.fingerprints.spec != asked.fingerprints.spec => stale("the specification"),
        () if found.fingerprints.model != asked.fingerprints.model => stale("the models or the checker"),
        () if found.parameters != asked.parameters => stale("the bounds of the run"),
        () => Ok(()),
    }
}

/// Whether what follows the first `length` bytes is their checksum.
fn is_sealed(file: &mut File, length: u64) -> io::Result<bool> {
    file.seek(SeekFrom::Start(0))?;
    let mut digest = Fingerprinter::default();
    let mut left = length;
    let mut block = vec![0; BLOCK];
    while left > 0 {
        let size = usize::try_from(left).unwrap_or(BLOCK).min(BLOCK);
        file.read_exact(&mut block[..size])?;
        digest.write(&block[..size]);
        left -= size as u64;
    }
    let mut checksum = [0; CHECKSUM];
    file.read_exact(&mut checksum)?;
    Ok(u128::from_le_bytes(checksum) == digest.fingerprint())
}

/// Writes blocks and hashes them.
struct Sealing {
    inner: File,
    block: Vec<u8>,
    digest: Fingerprinter,
}

impl Sealing {
    fn flush_block(&mut self) -> io::Result<()> {
        self.digest.write(&self.block);
        self.inner.write_all(&self.block)?;
        self.block.clear();
        Ok(())
    }

    fn seal(mut self) -> io::Result<File> {
        self.flush_block()?;
        self.inner.write_all(&self.digest.fingerprint().to_le_bytes())?;
        Ok(self.inner)
    }
}

impl Write for Sealing {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = bytes.len().min(BLOCK - self.block.len());
        self.block.extend_from_slice(&bytes[..taken]);
        if self.block.len() == BLOCK {
            self.flush_block()?;
        }
        Ok(taken)
    }

    /// Only whole blocks are written before the seal.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
