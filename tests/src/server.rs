//! A `lockstep` program as a child of the test: its scratch directory, its output, its end.

use std::io::{BufRead, BufReader, Read};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;

use crate::http::{Answer, Events, post, send};
use crate::process::{PATIENCE, kill};

/// The directory of one run; its `tmp` is the program's `TMPDIR`, so that what is left behind is seen.
#[derive(Debug)]
pub struct Scratch(TempDir);

impl Default for Scratch {
    fn default() -> Self {
        let scratch = TempDir::with_prefix("lt").unwrap();
        std::fs::create_dir(scratch.path().join("tmp")).unwrap();
        Self(scratch)
    }
}

impl Scratch {
    /// A path in it.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// A command of `program` that runs here, with its output captured.
    #[must_use]
    pub fn command(&self, program: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(arguments).env("TMPDIR", self.path("tmp"));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Entries that the program left in its `TMPDIR`, apart from the evidence of losses, which is to stay.
    ///
    /// # Panics
    /// If it cannot be read.
    #[must_use]
    pub fn left_behind(&self) -> usize {
        let names = std::fs::read_dir(self.path("tmp")).unwrap().map(|entry| entry.unwrap().file_name());
        names.filter(|name| name != "lockstep-evidence").count()
    }
}

/// Runs a command to its end; exit code, output and errors.
///
/// # Panics
/// If it cannot be run, or writes no UTF-8.
pub fn output(command: &mut Command) -> (i32, String, String) {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (status.code().unwrap_or(-1), text(stdout), text(stderr))
}

/// A server that is ready. It is killed when dropped.
#[derive(Debug)]
pub struct Server {
    /// Its directory.
    pub scratch: Scratch,
    /// Where it listens.
    pub address: String,
    /// The line that told so.
    pub ready: String,
    child: Child,
    errors: Arc<Mutex<String>>,
}

impl Server {
    /// Starts `command` and waits until it says that it is ready.
    ///
    /// # Panics
    /// If it ends before that.
    #[must_use]
    pub fn start(scratch: Scratch, command: &mut Command) -> Self {
        let mut child = command.spawn().unwrap();
        let errors = collect(child.stderr.take().unwrap());
        let mut ready = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut ready).unwrap();
        let Some(address) =
            ready.strip_prefix("lockstep: ready on http://").and_then(|line| line.split(' ').next())
        else {
            panic!("not ready ({:?}): {ready:?} {}", child.wait(), errors.lock().unwrap());
        };
        Self { scratch, address: address.to_owned(), ready, child, errors }
    }

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What it has written to stderr so far.
    ///
    /// # Panics
    /// If the thread that reads it panicked.
    #[must_use]
    pub fn errors(&self) -> String {
        self.errors.lock().unwrap().clone()
    }

    /// Status and body of `/health`.
    #[must_use]
    pub fn health(&self) -> (u16, Value) {
        let answer = self.get("/health");
        (answer.status, answer.json())
    }

    /// What `/health` says of every rank: the decode group's, then the prefill group's.
    ///
    /// # Panics
    /// If it says nothing of them.
    #[must_use]
    pub fn ranks(&self) -> Vec<Value> {
        let health = self.health().1;
        let groups = health["groups"].as_array().unwrap().iter();
        groups.flat_map(|group| group["ranks"].as_array().unwrap()).cloned().collect()
    }

    /// The ranks' process ids: the decode group's, then the prefill group's.
    ///
    /// # Panics
    /// If `/health` does not tell them.
    #[must_use]
    pub fn rank_pids(&self) -> Vec<u32> {
        self.ranks().iter().map(|rank| u32::try_from(rank["pid"].as_u64().unwrap()).unwrap()).collect()
    }

    /// Answers a GET.
    #[must_use]
    pub fn get(&self, path: &str) -> Answer {
        self.request(&format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"))
    }

    /// Answers a completion.
    #[must_use]
    pub fn post(&self, body: &Value) -> Answer {
        self.request(&post("application/json", &body.to_string()))
    }

    /// Answers a request as it is written.
    #[must_use]
    pub fn request(&self, request: &str) -> Answer {
        Answer::read(self.send(request))
    }

    /// Sends a request and leaves its answer unread.
    #[must_use]
    pub fn send(&self, request: &str) -> TcpStream {
        send(&self.address, request)
    }

    /// Opens a stream and reads its head.
    #[must_use]
    pub fn stream(&self, body: &Value) -> Events {
        Events::open(self.send(&post("application/json", &body.to_string())))
    }

    /// Sends the program a signal.
    pub fn signal(&self, signal: Signal) {
        kill(self.pid(), signal);
    }

    /// Waits for the program's end.
    ///
    /// # Panics
    /// If it does not come in time.
    pub fn wait_for_end(&mut self) -> ExitStatus {
        let start = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(start.elapsed() < PATIENCE, "the server does not end; it said: {}", self.errors());
            thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("server {:?} said: {}", self.child.try_wait(), self.errors());
        }
        // It may have ended by itself.
        let _ended = self.child.kill();
        let _ended = self.child.wait();
    }
}

fn collect(mut source: impl Read + Send + 'static) -> Arc<Mutex<String>> {
    let collected = Arc::new(Mutex::new(String::new()));
    let target = Arc::clone(&collected);
    thread::spawn(move || {
        let mut chunk = [0; 4096];
        while let Ok(length @ 1..) = source.read(&mut chunk) {
            target.lock().unwrap().push_str(&String::from_utf8_lossy(&chunk[..length]));
        }
    });
    collected
}
