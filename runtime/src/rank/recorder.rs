//! What a rank records of itself: its last lines always, for the evidence that a loss leaves; all of them in a file, if a trace is wanted.
//!
//! It is double entry: what was seen is told from the inputs themselves, not from what the loop makes of them.

use super::inputs::Input;
use crate::fabric::PrefillInbound;
use crate::supervisor::say;
use crate::wire::FrontToRank;
use lockstep_spec::decode::Decode;
use lockstep_spec::ids::RequestId;
use lockstep_spec::machine::{Fact, Local};
use lockstep_spec::prefill::Prefill;
use lockstep_spec::prefill::evidence::WriteFact;
use lockstep_spec::prefill::leg::PrefillLeg;
use lockstep_spec::prefill::parts::Part;
use lockstep_spec::program::{Event, Posted};
use lockstep_spec::role::Role;
use lockstep_spec::ticket::Site;
use lockstep_spec::trace::{Closing, Header, Line, Observation};
use serde::Serialize;
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Lines kept as evidence: some hundred rounds.
const KEPT_LINES: usize = 2048;

type FactOf<R> = Fact<<R as Role>::Arrival, <R as Role>::Fact>;
type LineOf<R> = Line<FactOf<R>, Local<<R as Role>::Effect>>;

/// A rank's record.
#[derive(Default)]
pub(super) struct Recorder(Mutex<Book>);

#[derive(Default)]
struct Book {
    header: Option<String>,
    kept: VecDeque<String>,
    left_out: u64,
    /// Whether something was seen since the queue was last found empty.
    seen: bool,
    /// Whether the rank has ended: what other threads still see is not recorded.
    closed: bool,
    leads: bool,
    file: Option<TraceFile>,
}

struct TraceFile {
    file: File,
    pending: Vec<u8>,
}

impl Recorder {
    /// Names the rank, and begins its file, if one is wanted.
    pub(super) fn open(&self, header: Header, path: Option<&Path>) -> io::Result<()> {
        let mut book = self.book();
        book.leads = header.rank.0 == 0;
        let line = json(&LineOf::<Decode>::Opened(header));
        book.file =
            path.map(File::create_new).transpose()?.map(|file| TraceFile::new(file, &line, &book.kept));
        book.header = Some(line);
        book.file.as_mut().map_or(Ok(()), TraceFile::save)
    }

    /// Records what an input says while it is put into the queue: nothing comes between the two.
    pub(super) fn while_seen<T>(&self, input: Input, send: impl FnOnce(Input) -> T) -> T {
        let mut book = self.book();
        book.saw(&input);
        send(input)
    }

    /// Records that an input was taken from the queue.
    pub(super) fn received(&self) {
        self.book().write::<Decode>(&Line::Received);
    }

    /// Looks for an input, and records what came of it.
    pub(super) fn unless_drained(&self, next: impl FnOnce() -> Option<Input>) -> Option<Input> {
        let mut book = self.book();
        let input = next();
        match &input {
            Some(_) => book.write::<Decode>(&Line::Received),
            None if std::mem::take(&mut book.seen) => book.write::<Decode>(&Line::Drained),
            None => {}
        }
        input
    }

    /// Records that the machine takes an event.
    pub(super) fn took<R: Role>(&self, event: &Event<FactOf<R>, Site>) {
        self.book().write::<R>(&Line::Took(event.clone()));
    }

    /// Records that a collective is entered, and makes sure of all that was recorded before the rank can wait in it.
    pub(super) fn entered(&self, entry: Posted<Site>) {
        let mut book = self.book();
        book.write::<Decode>(&Line::Entered(entry));
        book.save();
    }

    /// Records what the rank does alone.
    pub(super) fn did<R: Role>(&self, local: &Local<R::Effect>) {
        self.book().write::<R>(&Line::Did(local.clone()));
    }

    /// Records the end.
    pub(super) fn closed(&self, closing: Closing) {
        let mut book = self.book();
        book.write::<Decode>(&Line::Closed(closing));
        book.closed = true;
        book.save();
    }

    /// Takes the lines that are kept.
    pub(super) fn take_kept(&self) -> Vec<String> {
        self.book().kept.drain(..).collect()
    }

    /// Leaves the last lines in a file.
    pub(super) fn leave(&self, path: &Path) -> io::Result<()> {
        let book = self.book();
        let skipped = (book.left_out > 0).then(|| json(&LineOf::<Decode>::Skipped(book.left_out)));
        let lines: Vec<&str> =
            book.header.iter().chain(&skipped).chain(&book.kept).map(String::as_str).collect();
        std::fs::write(path, lines.concat())
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Book {
    fn write<R: Role>(&mut self, line: &LineOf<R>) {
        if self.closed {
            return;
        }
        let line = json(line);
        if let Some(trace) = &mut self.file {
            trace.pending.extend(line.as_bytes());
        }
        if self.kept.len() == KEPT_LINES {
            self.kept.pop_front();
            self.left_out += 1;
        }
        self.kept.push_back(line);
    }

    /// Hands what is pending to the system, which keeps it when the process is killed. A file that cannot be written ends the trace, not
    /// the rank.
    fn save(&mut self) {
        let saved = self.file.as_mut().map_or(Ok(()), TraceFile::save);
        if let Err(error) = saved {
            say(&format!("lockstep: the trace ends here, since its file cannot be written: {error}"));
            self.file = None;
        }
    }

    fn saw(&mut self, input: &Input) {
        self.seen = true;
        match input {
            Input::Leg(leg, fact) => self.fact::<Decode>(Fact::Role((*leg, *fact))),
            Input::Retired { forward, tokens, .. } => {
                self.fact::<Decode>(Fact::Retired { forward: *forward, tokens: tokens.clone() });
            }
            Input::Copied(copy) => self.fact::<Decode>(Fact::Copied(*copy)),
            Input::DeviceFailed(_) => self.fact::<Decode>(Fact::Broken),
            Input::Front(message) => self.heard(message),
            Input::Prefill(inbound) => self.met(inbound),
            Input::WriteFailed(leg) => self.fact::<Prefill>(Fact::Role((*leg, WriteFact::WriteFailed))),
            Input::FrontGone(_) | Input::Voted { .. } => self.observe::<Decode>(None),
        }
    }

    fn heard(&mut self, message: &FrontToRank) {
        match message {
            FrontToRank::Submit(request) => self.fact::<Decode>(Fact::Submitted(*request)),
            FrontToRank::Abort { request } => self.fact::<Decode>(Fact::AbortWanted(RequestId(*request))),
            FrontToRank::Attach { since, .. } => self.observe::<Prefill>([Observation::Detached(*since)]),
            FrontToRank::Pause => self.fact::<Decode>(Fact::PauseWanted(true)),
            FrontToRank::Resume => self.fact::<Decode>(Fact::PauseWanted(false)),
            FrontToRank::Dismiss | FrontToRank::Shutdown => self.fact::<Decode>(Fact::ShutdownWanted),
            FrontToRank::Leg { leg, acceptance, tokens, keys, .. } => {
                let tokens = u32::try_from(tokens.len()).unwrap_or(u32::MAX);
                let id = RequestId(*acceptance);
                let arrival = || PrefillLeg { id, leg: *leg, tokens, keys: keys.clone() };
                let submitted = self.leads.then(|| Observation::Fact(Fact::Submitted(arrival())));
                let part = Observation::Part(*leg, Part::Tokens);
                self.observe::<Prefill>(submitted.into_iter().chain([part]));
            }
        }
    }

    fn met(&mut self, inbound: &PrefillInbound) {
        match inbound {
            PrefillInbound::List { leg, .. } => {
                self.observe::<Prefill>([Observation::Part(*leg, Part::Pages)]);
            }
            PrefillInbound::Revoked { leg } => self.fact::<Prefill>(Fact::Role((*leg, WriteFact::Revoked))),
            PrefillInbound::Written { leg } => self.fact::<Prefill>(Fact::Role((*leg, WriteFact::Written))),
            PrefillInbound::PeerGone { .. } => self.observe::<Prefill>([Observation::PeerGone]),
            PrefillInbound::Rejected { .. } => self.observe::<Prefill>(None),
        }
    }

    fn fact<R: Role>(&mut self, fact: FactOf<R>) {
        self.observe::<R>([Observation::Fact(fact)]);
    }

    fn observe<R: Role>(&mut self, seen: impl IntoIterator<Item = Observation<FactOf<R>>>) {
        self.write::<R>(&Line::Seen(seen.into_iter().collect()));
    }
}

impl TraceFile {
    fn new(file: File, header: &str, kept: &VecDeque<String>) -> Self {
        let lines = std::iter::once(header).chain(kept.iter().map(String::as_str));
        Self { file, pending: lines.flat_map(str::bytes).collect() }
    }

    fn save(&mut self) -> io::Result<()> {
        self.file.write_all(&self.pending)?;
        self.pending.clear();
        Ok(())
    }
}

/// The line, with its end. Nothing that is recorded can fail to be JSON: no maps, no foreign types.
fn json(line: &impl Serialize) -> String {
    serde_json::to_string(line).map_or_else(|_| String::new(), |line| line + "\n")
}
