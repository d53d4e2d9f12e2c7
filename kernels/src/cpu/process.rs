//! A program of kernels as a [`Device`]: a process that is fed launches through a pipe.
//!
//! The protocol of the pipe is at the head of `shim/harness.cpp`.

use std::io::{self, Read, Write};
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, Stdio};

use thiserror::Error;

use super::compile::{CompileError, Program};
use crate::call::{Argument, Buffer, Call, CallError};
use crate::device::{Device, UNWRITTEN};
use crate::element::{Element, bytes_of};

/// Fibers leave their stacks for good when a launch fails, which is no leak.
const ASAN_OPTIONS: &str = "detect_leaks=0:detect_stack_use_after_return=0";

/// Why the CPU did not run an operation.
#[derive(Debug, Error)]
pub enum CpuError {
    /// Arguments that do not fit one another.
    #[error(transparent)]
    Call(#[from] CallError),
    /// Bytes that are not whole elements.
    #[error("{bytes} bytes are not whole elements of type {element}")]
    Bytes {
        /// Number of bytes.
        bytes: usize,
        /// The element type.
        element: Element,
    },
    /// A buffer beyond the memory.
    #[error("there is no memory for {length} elements of type {element}")]
    Memory {
        /// Number of elements.
        length: u64,
        /// Their type.
        element: Element,
    },
    /// The kernels were not compiled.
    #[error(transparent)]
    Compile(#[from] CompileError),
    /// The kernel's threads diverged, or raced.
    #[error("{report}")]
    Fault {
        /// Which threads, in which block, where.
        report: String,
    },
    /// The process ended.
    #[error("the kernels' process ended ({cause}):\n{log}")]
    Ended {
        /// How the pipe told.
        cause: io::Error,
        /// What it said: a sanitizer's report, if one stopped it.
        log: String,
    },
    /// The process does not start.
    #[error("the kernels' process does not start: {0}")]
    Start(io::Error),
}

/// A running program, which does one launch after another.
#[derive(Debug)]
pub struct Cpu {
    child: Child,
    /// `None` once it is closed, so that the process ends.
    requests: Option<ChildStdin>,
    answers: ChildStdout,
    log: ChildStderr,
    order: u32,
}

/// A buffer in this process's memory; a launch sends a copy.
#[derive(Clone, Debug, PartialEq)]
pub struct CpuBuffer {
    element: Element,
    bytes: Vec<u8>,
}

impl Program {
    /// Starts a process.
    ///
    /// # Errors
    /// [`CpuError::Start`].
    pub fn start(&self) -> Result<Cpu, CpuError> {
        let mut command = Command::new(&self.binary);
        command.env("ASAN_OPTIONS", ASAN_OPTIONS);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(CpuError::Start)?;
        match (child.stdin.take(), child.stdout.take(), child.stderr.take()) {
            (requests @ Some(_), Some(answers), Some(log)) => {
                Ok(Cpu { child, requests, answers, log, order: 0 })
            }
            (_, _, _) => Err(CpuError::Start(io::ErrorKind::BrokenPipe.into())),
        }
    }

    /// The entry points' C++ signatures, in the form of [`Entry::signature`](crate::Entry::signature).
    ///
    /// # Errors
    /// [`CpuError::Start`].
    pub fn signatures(&self) -> Result<Vec<String>, CpuError> {
        let output = Command::new(&self.binary).arg("signatures").output().map_err(CpuError::Start)?;
        Ok(String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect())
    }
}

impl Cpu {
    /// Sets the order of a block's threads: ascending if 0, else drawn from this seed whenever threads are released.
    pub fn order_threads(&mut self, seed: u32) {
        self.order = seed;
    }

    /// Launches an entry point by name, with nothing checked but what the process checks.
    ///
    /// # Errors
    /// [`CpuError::Fault`], [`CpuError::Ended`].
    pub fn launch_unchecked(
        &mut self,
        entry: &str,
        launch: crate::Launch,
        mut arguments: Vec<Argument<'_, CpuBuffer>>,
    ) -> Result<(), CpuError> {
        let request = encode(entry, launch, self.order, &arguments);
        let result = self.exchange(&request, &mut arguments);
        let report = result.map_err(|cause| {
            let mut log = String::new();
            self.requests = None;
            self.log.read_to_string(&mut log).ok();
            CpuError::Ended { cause, log }
        })?;
        report.map_or(Ok(()), |report| Err(CpuError::Fault { report }))
    }

    /// Sends a request and takes the answer: the content of what was written, or the report of a fault.
    fn exchange(
        &mut self,
        request: &[u8],
        arguments: &mut [Argument<'_, CpuBuffer>],
    ) -> io::Result<Option<String>> {
        self.requests.as_mut().ok_or(io::ErrorKind::BrokenPipe)?.write_all(request)?;
        if read_word(&mut self.answers)? != 0 {
            let mut report = vec![0; read_word(&mut self.answers)? as usize];
            self.answers.read_exact(&mut report)?;
            return Ok(Some(String::from_utf8_lossy(&report).into_owned()));
        }
        for argument in arguments {
            match argument {
                Argument::Write(buffer) => self.answers.read_exact(&mut buffer.bytes)?,
                Argument::Read(_) | Argument::F32(_) | Argument::Words(_) => {}
            }
        }
        Ok(None)
    }
}

impl Device for Cpu {
    type Buffer = CpuBuffer;
    type Error = CpuError;

    fn upload_bytes(&mut self, element: Element, bytes: &[u8]) -> Result<CpuBuffer, CpuError> {
        match (bytes.len() as u64).is_multiple_of(element.bytes()) {
            true => Ok(CpuBuffer { element, bytes: bytes.to_vec() }),
            false => Err(CpuError::Bytes { bytes: bytes.len(), element }),
        }
    }

    fn unwritten(&mut self, element: Element, length: u64) -> Result<CpuBuffer, CpuError> {
        let bytes = usize::try_from(length.saturating_mul(element.bytes()));
        let mut memory = Vec::new();
        let room = bytes.ok().filter(|&bytes| memory.try_reserve_exact(bytes).is_ok());
        memory.resize(room.ok_or(CpuError::Memory { length, element })?, UNWRITTEN);
        Ok(CpuBuffer { element, bytes: memory })
    }

    /// Poisons the buffer each time, so that nothing is read which was left in it.
    fn resize(&mut self, buffer: &mut CpuBuffer, length: u64) -> Result<(), CpuError> {
        *buffer = self.unwritten(buffer.element, length)?;
        Ok(())
    }

    fn overwrite_bytes(
        &mut self,
        buffer: &mut CpuBuffer,
        element: Element,
        bytes: &[u8],
    ) -> Result<(), CpuError> {
        if (element, bytes.len()) != (buffer.element, buffer.bytes.len()) {
            return Err(
                CallError::Value { reason: "a buffer is overwritten by as many values of its type" }.into()
            );
        }
        buffer.bytes.copy_from_slice(bytes);
        Ok(())
    }

    fn download_bytes(&mut self, buffer: &CpuBuffer) -> Result<Vec<u8>, CpuError> {
        Ok(buffer.bytes.clone())
    }

    fn launch(&mut self, call: Call<'_, CpuBuffer>) -> Result<(), CpuError> {
        self.launch_unchecked(&call.entry.to_string(), call.launch, call.arguments)
    }
}

impl Buffer for CpuBuffer {
    fn element(&self) -> Element {
        self.element
    }

    fn len(&self) -> u64 {
        self.bytes.len() as u64 / self.element.bytes()
    }
}

impl Drop for Cpu {
    fn drop(&mut self) {
        self.requests = None;
        self.child.wait().ok();
    }
}

fn encode(entry: &str, launch: crate::Launch, order: u32, arguments: &[Argument<'_, CpuBuffer>]) -> Vec<u8> {
    let mut request = Vec::new();
    append_sized(&mut request, entry.as_bytes());
    let ([x, y], [width, height]) = (launch.blocks, launch.threads);
    request.extend([x, y, width, height, launch.shared_bytes, order].into_iter().flat_map(u32::to_ne_bytes));
    for argument in arguments {
        match argument {
            Argument::Read(buffer) => append_sized(&mut request, &buffer.bytes),
            Argument::Write(buffer) => append_sized(&mut request, &buffer.bytes),
            Argument::F32(number) => append_sized(&mut request, &number.to_ne_bytes()),
            Argument::Words(words) => append_sized(&mut request, &bytes_of(words)),
        }
    }
    request
}

/// Appends the number of bytes and the bytes. More than 4 GiB are cut, which the process refuses as a short request.
fn append_sized(request: &mut Vec<u8>, bytes: &[u8]) {
    let size = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    request.extend(size.to_ne_bytes());
    request.extend(bytes);
}

fn read_word(from: &mut impl Read) -> io::Result<u32> {
    let mut word = [0; 4];
    from.read_exact(&mut word)?;
    Ok(u32::from_ne_bytes(word))
}
