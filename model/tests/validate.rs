//! What `validate` says of groups of real machines that are driven here, each with a device and a fabric of its own.

#![expect(clippy::unwrap_used, reason = "a test")]

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use lockstep_model::validate::{Verdict, validate};
use lockstep_spec::configuration::{Collectives, Forwards, GroupConfiguration, Votes};
use lockstep_spec::decode::action::Do;
use lockstep_spec::decode::evidence::{LegFact, MetadataRow};
use lockstep_spec::decode::request::{Request, Sampling};
use lockstep_spec::decode::{Decode, DecodeMachine};
use lockstep_spec::ids::{
    Attempt, Epoch, ForwardId, Generation, Leg, RankIndex, RequestId, SlotIndex, TokenId,
};
use lockstep_spec::machine::{Fact, Local};
use lockstep_spec::program::{Effect, Event, Posted, RankProgram};
use lockstep_spec::role::Role;
use lockstep_spec::ticket::{Kind, Site};
use lockstep_spec::trace::{Closing, FORMAT, GroupName, Header, Line, Observation};

type FactOf<R> = Fact<<R as Role>::Arrival, <R as Role>::Fact>;
type LineOf = Line<FactOf<Decode>, Local<Do>>;

const LEG: Leg = Leg { epoch: Epoch(1), slot: SlotIndex(0), generation: Generation(1), attempt: Attempt(0) };

/// Two decode ranks, and what they write down.
struct Scribe {
    machines: Vec<DecodeMachine>,
    lines: Vec<Vec<LineOf>>,
    entered: Vec<Option<Posted<Site>>>,
}

impl Scribe {
    fn new() -> Self {
        Self::voting(Votes::Host)
    }

    fn voting(votes: Votes) -> Self {
        let configuration = GroupConfiguration {
            epoch: Epoch(1),
            ranks: 2,
            slots: 1,
            pages: 4,
            page_size: 2,
            flights: 1,
            chunk_tokens: 8,
            prefix_pages: 0,
            host_pages: 0,
            brief_words: GroupConfiguration::least_brief_words(1),
            deadline_ticks: 9,
            stop_tokens: Vec::new(),
            collectives: Collectives::Host,
            forwards: Forwards::Eager,
            votes,
        };
        let header = |rank| Header {
            format: FORMAT,
            group: GroupName::Decode,
            rank: RankIndex(rank),
            configuration: configuration.clone(),
            protocol: lockstep_spec::FINGERPRINT.to_owned(),
        };
        let machine = |rank| DecodeMachine::new(Arc::new(configuration.clone()), RankIndex(rank)).unwrap();
        Self {
            machines: [0, 1].map(machine).into(),
            lines: [0, 1].map(|rank| vec![Line::Opened(header(rank))]).into(),
            entered: vec![None, None],
        }
    }

    /// Something reaches a rank's queue, and at once its machine.
    fn see(&mut self, rank: usize, fact: FactOf<Decode>) {
        let seen = Line::Seen(vec![Observation::Fact(fact.clone())]);
        self.lines[rank].extend([seen, Line::Received]);
        self.step(rank, Event::Fact(fact));
    }

    fn see_everywhere(&mut self, fact: &FactOf<Decode>) {
        (0..2).for_each(|rank| self.see(rank, fact.clone()));
    }

    fn step(&mut self, rank: usize, event: Event<FactOf<Decode>, Site>) {
        self.lines[rank].push(Line::Took(event.clone()));
        let mut effects = Vec::new();
        self.machines[rank].step(event, &mut effects);
        effects.into_iter().for_each(|effect| self.perform(rank, effect));
    }

    fn perform(&mut self, rank: usize, effect: Effect<lockstep_spec::agreed::Entry, Local<Do>>) {
        match effect {
            Effect::Enter(entry) => {
                let posted = Posted::from(entry);
                self.lines[rank].push(Line::Entered(posted.clone()));
                if posted.ticket.kind != Kind::Forward {
                    self.entered[rank] = Some(posted);
                }
            }
            Effect::Local(local) => {
                self.lines[rank].push(Line::Did(local.clone()));
                if let Local::Role(Do::Publish { leg, .. }) = local {
                    self.step(rank, Event::Fact(Fact::Role((leg, LegFact::Published))));
                }
            }
            Effect::Fault(fault) => self.lines[rank].push(Line::Closed(Closing::Failed(fault.to_string()))),
            Effect::Leave => self.lines[rank].push(Line::Closed(Closing::Left)),
        }
    }

    /// One round, or its beginning if the machines end in it.
    fn round(&mut self) {
        (0..2).for_each(|rank| self.step(rank, Event::Turn));
        while let [Some(leader), Some(follower)] = self.entered.as_slice() {
            let (ticket, mut payload) = (leader.ticket, leader.payload.clone());
            if ticket.kind == Kind::MinReduce {
                payload
                    .iter_mut()
                    .zip(&follower.payload)
                    .for_each(|(word, other)| *word = (*word).min(*other));
            }
            self.entered.fill(None);
            (0..2).for_each(|rank| self.step(rank, Event::Completed { ticket, payload: payload.clone() }));
        }
    }

    /// Brings a request to its first forward.
    fn launch(&mut self) {
        let request = Request {
            id: RequestId(0),
            prompt_tokens: 3,
            max_tokens: 4,
            generated: 0,
            ignore_eos: true,
            sampling: Sampling::GREEDY,
        };
        self.see(0, Fact::Submitted(request));
        self.round();
        self.see_everywhere(&Fact::Role((LEG, LegFact::HandshakeDone)));
        self.round();
        let row = MetadataRow { echo: LEG, token: TokenId(5), sound: true };
        for fact in [LegFact::PagesLanded, LegFact::RowLanded(row)] {
            self.see_everywhere(&Fact::Role((LEG, fact)));
        }
        self.round();
        self.see_everywhere(&Fact::Role((LEG, LegFact::Fenced)));
        self.round();
    }

    fn retire(&mut self, rank: usize, token: u32) {
        self.see(rank, Fact::Retired { forward: ForwardId(0), tokens: vec![TokenId(token)] });
    }

    fn verdict(&self) -> Verdict {
        self.verdict_with(0, "")
    }

    /// The verdict with a rest of a line at the end of a rank's trace.
    fn verdict_with(&self, rank_with: usize, rest: &str) -> Verdict {
        let folder = tempfile::tempdir().unwrap();
        let write = |(rank, lines): (usize, &Vec<LineOf>)| -> PathBuf {
            let path = folder.path().join(format!("{rank}.ndjson"));
            let lines = lines.iter().map(|line| serde_json::to_string(line).unwrap() + "\n");
            let rest = if rank == rank_with { rest } else { "" };
            fs::write(&path, lines.collect::<String>() + rest).unwrap();
            path
        };
        let paths: Vec<PathBuf> = self.lines.iter().enumerate().map(write).collect();
        validate(&paths).pop().unwrap()
    }
}

/// Whether a forward was launched on both ranks.
fn has_launched(scribe: &Scribe) -> bool {
    let is_forward =
        |line: &LineOf| matches!(line, Line::Entered(posted) if posted.ticket.site == Site::Forward);
    scribe.lines.iter().all(|lines| lines.iter().any(is_forward))
}

#[test]
fn validate_accepts_machines_that_agree() {
    let mut scribe = Scribe::new();
    scribe.launch();
    assert!(has_launched(&scribe));
    (0..2).for_each(|rank| scribe.retire(rank, 6));
    scribe.round();
    let Verdict::Valid(report) = scribe.verdict() else { panic!("{:?}", scribe.verdict()) };
    assert_eq!((report.rounds, report.endings), (5, vec![None, None]));
}

/// Devices that sample different tokens are found out by the next vote, and both ranks end, as they say. No behaviour of the model ends so.
#[test]
fn validate_convicts_machines_that_end_with_a_fault() {
    let mut scribe = Scribe::new();
    scribe.launch();
    scribe.retire(0, 6);
    scribe.retire(1, 7);
    scribe.round();
    let closed = |lines: &Vec<LineOf>| matches!(lines.last(), Some(Line::Closed(Closing::Failed(_))));
    assert!(scribe.lines.iter().all(closed));
    let Verdict::Diverges(divergence) = scribe.verdict() else { panic!("{:?}", scribe.verdict()) };
    assert!(divergence.happened.contains("none does in the model: the ranks diverged"), "{divergence}");
}

#[test]
fn validate_accepts_a_group_that_ends_because_a_rank_says_that_it_is_broken() {
    let mut scribe = Scribe::new();
    scribe.launch();
    scribe.see(1, Fact::Broken);
    scribe.round();
    let Verdict::Valid(report) = scribe.verdict() else { panic!("{:?}", scribe.verdict()) };
    assert!(report.endings.iter().all(|ending| matches!(ending, Some(Closing::Failed(_)))), "{report}");
}

/// A rank that goes on although its peer has not launched: its device cannot have finished.
#[test]
fn validate_convicts_a_forward_that_finishes_before_all_have_launched() {
    let mut scribe = Scribe::new();
    scribe.launch();
    (0..2).for_each(|rank| scribe.retire(rank, 6));
    let launched =
        |line: &LineOf| matches!(line, Line::Entered(posted) if posted.ticket.site == Site::Forward);
    let at = scribe.lines[1].iter().position(launched).unwrap();
    scribe.lines[1].truncate(at);
    let Verdict::Diverges(divergence) = scribe.verdict() else { panic!("{:?}", scribe.verdict()) };
    assert_eq!(divergence.rank, 0, "{divergence}");
    assert!(
        divergence.happened.contains("for a forward that it launched and others did not"),
        "{divergence}"
    );
    assert!(divergence.happened.contains("1.ndjson (rank 1) after line"), "{divergence}");
}

/// In a device's queue, a forward is behind the vote that it was launched with, whatever its host takes first.
#[test]
fn validate_convicts_a_forward_that_finishes_before_the_vote_ahead_of_it() {
    let mut scribe = Scribe::voting(Votes::Stream);
    scribe.launch();
    scribe.round();
    (0..2).for_each(|rank| scribe.retire(rank, 6));
    let Verdict::Valid(_) = scribe.verdict() else { panic!("{:?}", scribe.verdict()) };
    let mut scribe = Scribe::voting(Votes::Stream);
    scribe.launch();
    (0..2).for_each(|rank| scribe.step(rank, Event::Turn));
    assert!(has_launched(&scribe));
    (0..2).for_each(|rank| scribe.retire(rank, 6));
    let Verdict::Diverges(divergence) = scribe.verdict() else { panic!("{:?}", scribe.verdict()) };
    assert!(divergence.happened.contains("before what came out of StreamVote"), "{divergence}");
}

/// The first line of rank 0, and what is said of a file with this text instead, beside a sound one of rank 1.
fn unjudged(change: impl Fn(&str) -> Vec<u8>) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let scribe = Scribe::new();
    let line = |rank: usize| serde_json::to_string(&scribe.lines[rank][0]).unwrap() + "\n";
    let paths = ["0", "1"].map(|name| folder.path().join(name));
    fs::write(&paths[0], change(&line(0))).unwrap();
    fs::write(&paths[1], line(1)).unwrap();
    let text = |verdict| match verdict {
        Verdict::Unjudged(error) => error.to_string(),
        Verdict::Valid(_) | Verdict::Diverges(_) => panic!("{verdict:?}"),
    };
    validate(&paths).into_iter().map(text).collect()
}

#[test]
fn validate_says_why_a_first_line_is_none() {
    let said = |change: fn(&str) -> Vec<u8>, why: &str| {
        let all = unjudged(change);
        assert!(all[0].contains(why), "{why}: {all:?}");
        assert!(all[1].contains("a file that could not be read, or is not named"), "{all:?}");
    };
    said(|_| Vec::new(), "the file is empty");
    said(|_| vec![0; 5000], "the first line has no end, and no line of a trace is there in its 5000 bytes");
    said(|line| line.replace("\"ranks\":2", "\"ranks\":-2").into(), "invalid value: integer `-2`");
    said(|line| format!("\u{feff}{line}").into(), "cannot be read: expected value");
    said(|line| line.replace("decode", "encode").into(), "unknown variant");
    said(|_| b"\"received\"\n".to_vec(), "its beginning is missing");
}

#[test]
fn validate_sees_bytes_after_the_end() {
    let mut scribe = Scribe::new();
    scribe.launch();
    scribe.see(1, Fact::Broken);
    scribe.round();
    let closed = scribe.verdict_with(0, "");
    assert!(matches!(closed, Verdict::Valid(_)), "{closed:?}");
    let Verdict::Unjudged(error) = scribe.verdict_with(0, "abc") else { panic!("{closed:?}") };
    assert!(error.to_string().contains("3 bytes follow the line that closes the trace"), "{error}");
}
