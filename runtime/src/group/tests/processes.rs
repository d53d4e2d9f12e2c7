//! Ranks as real processes: this test binary runs itself again, one process a rank, and the
//! children say on standard output what they saw.

use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use clap::ValueEnum;

use super::rate;
use crate::group::{
    Collectives, Forming, GroupError, Leader, Line, Member, Tag, TcpMesh, TcpPlace, Transport,
};

const DIR: &str = "LOCKSTEP_TEST_GROUP_DIR";
const RANK: &str = "LOCKSTEP_TEST_GROUP_RANK";
const PART: &str = "LOCKSTEP_TEST_GROUP_PART";
pub(super) const GROUP_SIZE: &str = "LOCKSTEP_TEST_GROUP_SIZE";
pub(super) const TRANSPORT: &str = "LOCKSTEP_TEST_GROUP_TRANSPORT";
pub(super) const LEADER: &str = "LOCKSTEP_TEST_GROUP_LEADER";
pub(super) const LISTEN: &str = "LOCKSTEP_TEST_GROUP_LISTEN";
pub(super) const ADVERTISE: &str = "LOCKSTEP_TEST_GROUP_ADVERTISE";
pub(super) const SIZE: usize = 3;
const ROUNDS: u64 = 20;
pub(super) const DEADLINE: Duration = Duration::from_secs(2);

fn tag(round: u64) -> Tag {
    Tag { epoch: 1, round, site: 2, kind: 3, shape: 4 }
}

/// The body of one rank: no test of its own, and nothing at all unless a test below or in `network` started it.
#[test]
fn process_rank() {
    let (Ok(dir), Ok(rank), Ok(part)) = (var(DIR), var(RANK), var(PART)) else { return };
    let forming = Forming {
        dir: dir.into(),
        name: "control".to_owned(),
        rank: rank.parse().unwrap(),
        size: var(GROUP_SIZE).map_or(SIZE, |size| size.parse().unwrap()),
        epoch: 1,
        fingerprint: [1; 32],
        payload_limit: 4 << 20,
        deadline: DEADLINE * 5,
    };
    match (var(LISTEN), var(LEADER)) {
        (Ok(listen), Ok(leader)) => {
            let (leader, advertise) = (Leader::At(leader), var(ADVERTISE).ok());
            let advertise = advertise.map(|address| address.parse().unwrap());
            let place = TcpPlace { leader, listen: listen.parse().unwrap(), advertise };
            play(&part, TcpMesh::form_at(&forming, &place).unwrap());
        }
        _ => {
            let transport = Transport::from_str(&var(TRANSPORT).unwrap(), false).unwrap();
            play(&part, transport.form(&forming).unwrap());
        }
    }
}

/// Goes through some rounds, does its part, and says what came of it: `stop` stops, `idle` waits for the leader, `vote` goes on.
fn play<L: Line>(part: &str, mut member: Member<L>) {
    if let Some(words) = part.strip_prefix("rate") {
        return rate::vote(&mut member, words.parse().unwrap());
    }
    let waited = (0..).find_map(|round| {
        if round == ROUNDS {
            println!("{part}");
            if part == "stop" || (part == "idle" && member.rank() == 0) {
                std::thread::sleep(DEADLINE * 5);
            }
            if part == "idle" {
                return Some(member.wait_for_leader(DEADLINE * 5).map(drop));
            }
        }
        let voted = member.all_reduce_min(tag(round), &mut [round], DEADLINE);
        voted.is_err().then_some(voted)
    });
    if let Some(Err(error)) = waited {
        println!("error {}", describe(&error));
    }
}

fn var(name: &str) -> Result<String, std::env::VarError> {
    std::env::var(name)
}

fn describe(error: &GroupError) -> String {
    let (rank, last) = error.culprit(usize::MAX);
    format!("{rank} {last:?}")
}

/// A rank that runs.
pub(super) struct Rank {
    child: Child,
    lines: BufReader<ChildStdout>,
}

/// The command that runs a rank, to be told where and over what it meets the others.
pub(super) fn command(launcher: &[&str], dir: &Path, rank: usize, part: &str) -> Command {
    let module = module_path!().split_once("::").unwrap().1;
    let program = std::env::current_exe().unwrap();
    let words = launcher.iter().map(OsString::from).chain([program.into_os_string()]);
    let mut words = words.collect::<Vec<_>>().into_iter();
    let mut command = Command::new(words.next().unwrap());
    command.args(words).args([&format!("{module}::process_rank"), "--exact", "--nocapture"]);
    command.env(DIR, dir).env(RANK, rank.to_string()).env(PART, part).stdout(Stdio::piped());
    command
}

impl Rank {
    pub(super) fn start(command: &mut Command) -> Self {
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Self { child, lines }
    }

    /// The rest of the next line that contains `mark`.
    pub(super) fn await_line(&mut self, mark: &str) -> String {
        loop {
            let mut line = String::new();
            assert!(self.lines.read_line(&mut line).unwrap() > 0, "the rank ended without {mark:?}");
            if let Some((_, rest)) = line.split_once(mark) {
                return rest.trim().to_owned();
            }
        }
    }
}

impl Drop for Rank {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// Starts a group in which `culprit` stops after its rounds; `strike` is done to it then.
fn group_loses(
    transport: Transport,
    culprit: usize,
    strike: impl FnOnce(&mut Rank),
) -> (Vec<String>, Duration) {
    let dir = tempfile::tempdir().unwrap();
    let part = |rank| if rank == culprit { "stop" } else { "vote" };
    let start =
        |rank| Rank::start(command(&[], dir.path(), rank, part(rank)).env(TRANSPORT, transport.name()));
    let mut ranks: Vec<_> = (0..SIZE).map(start).collect();
    ranks[culprit].await_line("stop");
    let started = Instant::now();
    strike(&mut ranks[culprit]);
    ranks.swap_remove(culprit);
    let errors = ranks.iter_mut().map(|rank| rank.await_line("error ")).collect();
    (errors, started.elapsed())
}

fn expected(culprit: usize) -> Vec<String> {
    vec![format!("{culprit} {:?}", Some(tag(ROUNDS - 1))); SIZE - 1]
}

#[test]
fn process_killed_is_named_by_all_with_its_last_tag() {
    for transport in Transport::value_variants() {
        for culprit in 0..SIZE {
            let (errors, took) = group_loses(*transport, culprit, |rank| rank.child.kill().unwrap());
            assert_eq!(errors, expected(culprit), "{transport}");
            assert!(took < DEADLINE, "a death is heard at once, not at the deadline: {transport} {took:?}");
        }
    }
}

#[test]
fn process_stuck_is_named_by_all_with_its_last_tag() {
    std::thread::scope(|scope| {
        for transport in Transport::value_variants() {
            scope.spawn(move || {
                let (errors, took) =
                    group_loses(*transport, 2, |_| std::thread::sleep(DEADLINE + DEADLINE / 4));
                assert_eq!(errors, expected(2), "{transport}");
                assert!(took < DEADLINE * 3, "{transport} {took:?}");
            });
        }
    });
}
