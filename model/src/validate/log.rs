//! A rank's trace as a file: read line by line, so that its size does not matter.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use lockstep_spec::trace::{FORMAT, Header, Line};
use serde::de::DeserializeOwned;
use serde_json::Value;
use thiserror::Error;

/// Longest line, in bytes: far more than any rank writes.
const LONGEST_LINE: u64 = 16 << 20;

/// Why traces cannot be judged.
#[derive(Debug, Error)]
pub enum LogError {
    /// A file cannot be read.
    #[error("cannot read {}: {source}", .path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// A line is not what a rank writes.
    #[error("{}, line {line}: {why}", .path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: u64,
        /// What is wrong.
        why: String,
    },
    /// Another version wrote it.
    #[error("{}: {why}", .path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
        /// What differs, and what to do.
        why: String,
    },
    /// The traces do not make up a group.
    #[error("{0}")]
    Incomplete(String),
}

/// A line with facts `F`; local effects are compared as they are written.
pub type LineOf<F> = Line<F, Value>;

/// A rank's trace that is being read.
#[derive(Debug)]
pub struct Log {
    /// The file.
    pub path: PathBuf,
    /// Whose trace it is.
    pub header: Header,
    /// The last line that was read, counted from 1.
    pub line: u64,
    reader: BufReader<File>,
    /// The beginning of a line that is not whole yet.
    partial: Vec<u8>,
}

impl Log {
    /// Opens a file and reads whose trace it is.
    ///
    /// # Errors
    /// A file that cannot be read, does not begin as a trace does, or is of another protocol.
    pub fn open(path: &Path) -> Result<Self, LogError> {
        let unreadable = |source| LogError::Unreadable { path: path.to_owned(), source };
        let mut reader = BufReader::new(File::open(path).map_err(unreadable)?);
        let mut partial = Vec::new();
        let text = line(&mut reader, &mut partial, path, 1)?;
        let header = text.ok_or_else(|| without_a_line(&partial)).and_then(|text| opened(&text));
        let header = header.map_err(|why| LogError::Damaged { path: path.to_owned(), line: 1, why })?;
        let log = Self { path: path.to_owned(), header, line: 1, reader, partial: Vec::new() };
        log.check_version().map(|()| log)
    }

    fn check_version(&self) -> Result<(), LogError> {
        let Header { format, protocol, .. } = &self.header;
        let foreign = |why| LogError::Foreign { path: self.path.clone(), why };
        if *format != FORMAT {
            return Err(foreign(format!(
                "its lines are of version {format}, and this checker reads version {FORMAT}"
            )));
        }
        if protocol != lockstep_spec::FINGERPRINT {
            let ours = lockstep_spec::FINGERPRINT;
            return Err(foreign(format!(
                "the rank executed protocol {protocol:?}, and this checker has {ours}: use the checker of the same build"
            )));
        }
        Ok(())
    }

    /// The next line; none at the end, or where a line is cut off, as a killed process leaves it. A rank that still runs may write on.
    ///
    /// # Errors
    /// A line that is not what a rank writes.
    pub fn read<F: DeserializeOwned>(&mut self) -> Result<Option<LineOf<F>>, LogError> {
        let Some(text) = line(&mut self.reader, &mut self.partial, &self.path, self.line + 1)? else {
            return Ok(None);
        };
        self.line += 1;
        let damaged = |error| self.damaged(format!("this is not what a rank writes: {error}"));
        serde_json::from_slice(&text).map(Some).map_err(damaged)
    }

    /// Bytes at the end that are no whole line.
    #[must_use]
    pub fn cut_off(&self) -> usize {
        self.partial.len()
    }

    /// The last line that was read is not what it should be.
    #[must_use]
    pub fn damaged(&self, why: String) -> LogError {
        LogError::Damaged { path: self.path.clone(), line: self.line, why }
    }
}

/// Why there is no first line.
fn without_a_line(partial: &[u8]) -> String {
    match partial.len() {
        0 => "the file is empty: the rank ended before it wrote anything".to_owned(),
        bytes => format!("the first line has no end, and no line of a trace is there in its {bytes} bytes"),
    }
}

/// What the first line says.
fn opened(text: &[u8]) -> Result<Header, String> {
    const RULE: &str = "a trace begins with the line `opened`";
    match serde_json::from_slice::<LineOf<Value>>(text) {
        Ok(Line::Opened(header)) => Ok(header),
        Ok(_) => Err(format!("{RULE}, and this file with another line: its beginning is missing")),
        Err(error) => Err(format!("{RULE}, and this one cannot be read: {error}")),
    }
}

/// Reads a whole line without its end; none at the end of the file. What is there of a line without an end is kept in `partial`.
fn line(
    reader: &mut BufReader<File>,
    partial: &mut Vec<u8>,
    path: &Path,
    number: u64,
) -> Result<Option<Vec<u8>>, LogError> {
    let room = LONGEST_LINE.saturating_sub(partial.len() as u64);
    let read = reader.take(room).read_until(b'\n', partial);
    read.map_err(|source| LogError::Unreadable { path: path.to_owned(), source })?;
    if partial.last() == Some(&b'\n') {
        partial.pop();
        return Ok(Some(std::mem::take(partial)));
    }
    if partial.len() as u64 == LONGEST_LINE {
        let why = format!("the line is longer than {LONGEST_LINE} bytes, which no rank writes");
        return Err(LogError::Damaged { path: path.to_owned(), line: number, why });
    }
    Ok(None)
}
