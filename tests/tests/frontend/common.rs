//! The front end's program around mock ranks, which write what they are told into a log.

use std::ops::{Deref, DerefMut};
use std::path::PathBuf;
use std::process::Command;

pub(crate) use lockstep_tests::http::{Events, completion, post, text_of};
pub(crate) use lockstep_tests::process::{kill, lives, wait_for};
pub(crate) use lockstep_tests::server::output;
use lockstep_tests::server::{self, Scratch as Directory};

/// A scratch directory with a "model" of 256 tokens.
pub(crate) struct Scratch(Directory);

impl Scratch {
    pub(crate) fn new() -> Self {
        let directory = Directory::default();
        std::fs::create_dir(directory.path("bytes-256")).unwrap();
        std::fs::write(directory.path("bytes-256/config.json"), r#"{"vocab_size": 256}"#).unwrap();
        Self(directory)
    }

    pub(crate) fn model(&self) -> PathBuf {
        self.0.path("bytes-256")
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.0.path("log")).unwrap_or_default()
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.0.command(env!("CARGO_BIN_EXE_mock-rank"), arguments);
        command.env("MOCK_LOG", self.0.path("log"));
        command
    }

    pub(crate) fn left_behind(&self) -> usize {
        self.0.left_behind()
    }
}

/// A server with mock ranks.
pub(crate) struct Server(server::Server);

impl Server {
    pub(crate) fn start(arguments: &[&str]) -> Self {
        Self::start_with(arguments, None)
    }

    /// Starts a server whose supervisor's deadlines are `millis`.
    pub(crate) fn start_with(arguments: &[&str], millis: Option<u64>) -> Self {
        let scratch = Scratch::new();
        let model = scratch.model();
        let mut command = scratch.command(&["serve", "--port", "0", "--model", model.to_str().unwrap()]);
        command.args(arguments);
        if let Some(millis) = millis {
            command.env("MOCK_MILLIS", millis.to_string());
        }
        let server = server::Server::start(scratch.0, &mut command);
        assert!(
            server.ready.ends_with("(model bytes-256, prefill tp 2, decode tp 2, over shm)\n"),
            "{}",
            server.ready
        );
        Self(server)
    }

    /// Starts a server in `scratch`, on a port that is known before it is ready.
    pub(crate) fn start_on(scratch: Scratch, port: u16) -> Self {
        let (model, port) = (scratch.model(), port.to_string());
        let mut command = scratch.command(&["serve", "--port", &port, "--model", model.to_str().unwrap()]);
        Self(server::Server::start(scratch.0, &mut command))
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.scratch.path("log")).unwrap_or_default()
    }
}

impl Deref for Server {
    type Target = server::Server;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl DerefMut for Server {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}
