//! A deployment, and when it holds nothing.

use std::fmt::Debug;
use std::net::SocketAddr;
use std::ops::{Deref, DerefMut};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::Command;
use std::str::FromStr;
use std::thread;
use std::time::{Duration, Instant};

use lockstep_model::validate::{Verdict, validate};
use lockstep_runtime::engine::Text;
use lockstep_tests::golden::Golden;
use lockstep_tests::http::{Events, text_of};
use lockstep_tests::places::model_directory;
use lockstep_tests::process::{PATIENCE, lives, wait_for};
use lockstep_tests::server::{self, Scratch};
use rustix::net::{AddressFamily, SocketType, bind, getsockname, socket, sockopt};
use serde_json::{Value, json};

/// More tokens than are produced before a test has done its part.
pub(crate) const LONG: u32 = 1000;

pub(crate) fn command(scratch: &Scratch, arguments: &[&str]) -> Command {
    scratch.command(env!("CARGO_BIN_EXE_tested-lockstep"), arguments)
}

/// The traces that a deployment's ranks wrote.
pub(crate) fn traces_in(scratch: &Scratch) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(scratch.path("traces")).unwrap();
    entries.map(|entry| entry.unwrap().path()).collect()
}

/// A `lockstep serve` whose ranks are started by launchers, and call at `control`.
pub(crate) fn called(scratch: Scratch, control: SocketAddr, flags: &str) -> server::Server {
    let control = control.to_string();
    let external = ["serve", "--port", "0", "--ranks", "external", "--control", &control];
    let mut command = command(&scratch, &external);
    command.args(["--transport", "tcp", "--fabric", "tcp"]).args(flags.split_whitespace());
    server::Server::start(scratch, &mut command)
}

/// A `lockstep serve` with real ranks, which write traces. When it is dropped, they must be behaviours of the model.
pub(crate) struct Deployment(server::Server);

impl Drop for Deployment {
    fn drop(&mut self) {
        if thread::panicking() {
            return;
        }
        for verdict in validate(&traces_in(&self.scratch)) {
            match verdict {
                Verdict::Valid(_) => {}
                Verdict::Diverges(divergence) => panic!("{divergence}"),
                // A rank that ends before its group forms has written nothing.
                Verdict::Unjudged(error) => assert!(error.to_string().contains("is missing"), "{error}"),
            }
        }
    }
}

impl Deployment {
    pub(crate) fn start(arguments: &str) -> Self {
        Self::start_where(arguments, |command| command)
    }

    /// The same with what `prepare` makes of the command.
    pub(crate) fn start_where(arguments: &str, prepare: impl FnOnce(&mut Command) -> &mut Command) -> Self {
        Self::run("serve", arguments, prepare)
    }

    /// A `lockstep prefill` or `lockstep decode`.
    pub(crate) fn of_side(side: &str, arguments: &str) -> Self {
        Self::run(side, arguments, |command| command)
    }

    fn run(subcommand: &str, arguments: &str, prepare: impl FnOnce(&mut Command) -> &mut Command) -> Self {
        let scratch = Scratch::default();
        let traces = scratch.path("traces");
        let arguments = arguments.split_whitespace();
        let arguments: Vec<&str> = [subcommand, "--port", "0", "--trace", traces.to_str().unwrap()]
            .into_iter()
            .chain(arguments)
            .collect();
        let mut command = command(&scratch, &arguments);
        Self(server::Server::start(scratch, prepare(&mut command)))
    }

    /// One whose ranks are started by launchers, which have them write traces into the same directory.
    pub(crate) fn called(scratch: Scratch, control: SocketAddr, flags: &str) -> Self {
        Self(called(scratch, control, flags))
    }

    /// A stream that goes on for long and has begun.
    pub(crate) fn long_stream(&self) -> Events {
        let mut stream = self.stream(&long_request());
        stream.next().unwrap();
        stream
    }

    /// The decode leader's round, as told last.
    pub(crate) fn round(&self) -> u64 {
        self.ranks()[0]["round"].as_u64().unwrap()
    }

    /// Waits until every rank has told, of a round from now on, that no slot and none of its `pages` is taken.
    pub(crate) fn wait_until_drained(&self, pages: u32) {
        let rounds =
            |ranks: &[Value]| ranks.iter().map(|rank| rank["round"].as_u64().unwrap()).collect::<Vec<_>>();
        let before = rounds(&self.ranks());
        let is_drained = || {
            let ranks = self.ranks();
            let later = rounds(&ranks).iter().zip(&before).all(|(now, before)| now > before);
            later && ranks.iter().all(|rank| rank["slots_used"] == 0 && rank["pages_free"] == pages)
        };
        let begun = Instant::now();
        while !is_drained() {
            assert!(begun.elapsed() < PATIENCE, "slots or pages are taken: {:#?}", self.ranks());
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Waits until `epoch` serves.
    pub(crate) fn wait_for_epoch(&self, epoch: u64) {
        wait_for(&format!("epoch {epoch} serves"), || {
            let (status, health) = self.health();
            status == 200 && health["epoch"] == epoch && health["groups"][0]["ranks"][0]["epoch"] == epoch
        });
    }

    /// Asks for an orderly end and checks that it leaves nothing.
    pub(crate) fn end(mut self, pids: &[u32]) {
        self.signal(rustix::process::Signal::TERM);
        let status = self.wait_for_end();
        assert_eq!(status.code(), Some(0), "{}", self.errors());
        assert!(pids.iter().all(|&pid| !lives(pid)), "a rank is left: {}", self.errors());
        assert_eq!(self.scratch.left_behind(), 0);
    }
}

impl Deref for Deployment {
    type Target = server::Server;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl DerefMut for Deployment {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

pub(crate) fn long_request() -> Value {
    story("The wisdom of", LONG)
}

/// A stream of so many tokens, whatever they are.
pub(crate) fn story(prompt: &str, max_tokens: u32) -> Value {
    json!({"prompt": prompt, "max_tokens": max_tokens, "ignore_eos": true, "stream": true})
}

/// The text of each token of a stream that ends well.
pub(crate) fn texts(stream: Events) -> Vec<String> {
    ended(stream, || {}).unwrap_or_else(|error| panic!("{error}"))
}

/// The text of each token of a stream, or the error that ended it; after each event, `pause`.
pub(crate) fn ended(stream: Events, pause: impl Fn()) -> Result<Vec<String>, String> {
    let mut texts = Vec::new();
    for event in stream {
        if event == "[DONE]" {
            return Ok(texts);
        }
        let parsed: Value = serde_json::from_str(&event).unwrap();
        if let Some(error) = parsed["error"]["message"].as_str() {
            return Err(error.to_owned());
        }
        texts.push(text_of(&event));
        pause();
    }
    panic!("the stream broke off after {texts:?}")
}

/// The request that a reference answer answers.
pub(crate) fn request(golden: &Golden, stream: bool) -> Value {
    let count = golden.greedy_ids.len();
    json!({"prompt": golden.prompt_ids, "max_tokens": count, "temperature": 0, "ignore_eos": true, "stream": stream})
}

/// The text that each token of a reference answer adds.
pub(crate) fn pieces(golden: &Golden) -> Vec<String> {
    let mut detokenizer = Text::load(&model_directory()).unwrap().detokenizer();
    let mut pieces: Vec<String> =
        golden.greedy_ids.iter().map(|&token| detokenizer.push(token).unwrap().unwrap_or_default()).collect();
    pieces.last_mut().unwrap().push_str(&detokenizer.finish().unwrap());
    pieces
}

/// A port that nobody is given who asks for a free one, and at which nobody listens; whoever names it may bind it.
pub(crate) fn reserved_port() -> (OwnedFd, SocketAddr) {
    let port = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    sockopt::set_socket_reuseaddr(&port, true).unwrap();
    bind(&port, &SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    let address = getsockname(&port).unwrap().try_into().unwrap();
    (port, address)
}

/// A counter or gauge of a group's leader.
pub(crate) fn leaders<T: FromStr<Err: Debug>>(server: &Deployment, role: &str, name: &str) -> T {
    let metrics = server.get("/metrics").body;
    let start = format!("lockstep_rank_{name}{{role=\"{role}\",rank=\"0\"}} ");
    let line = metrics.lines().find_map(|line| line.strip_prefix(&start)).unwrap();
    line.parse().unwrap()
}
