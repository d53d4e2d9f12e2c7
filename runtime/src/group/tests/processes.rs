//! Ranks as real processes: this test binary runs itself again, one process a rank, and the
//! children say on standard output what they saw.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use crate::group::{Collectives, Forming, GroupError, Mesh, Tag};

const DIR: &str = "LOCKSTEP_TEST_GROUP_DIR";
const RANK: &str = "LOCKSTEP_TEST_GROUP_RANK";
const STOP: &str = "LOCKSTEP_TEST_GROUP_STOP";
const SIZE: usize = 3;
const ROUNDS: u64 = 20;
const DEADLINE: Duration = Duration::from_secs(2);

fn tag(round: u64) -> Tag {
    Tag { epoch: 1, round, site: 2, kind: 3, shape: 4 }
}

/// The body of one rank: no test of its own, and nothing at all unless a test below started it.
#[test]
fn process_rank() {
    let (Ok(dir), Ok(rank), Ok(stop)) = (std::env::var(DIR), std::env::var(RANK), std::env::var(STOP)) else {
        return;
    };
    let is_stopping = rank == stop;
    let mut mesh = Mesh::form(&Forming {
        dir: dir.into(),
        name: "control".to_owned(),
        rank: rank.parse().unwrap(),
        size: SIZE,
        epoch: 1,
        fingerprint: [1; 32],
        payload_limit: 1024,
        deadline: DEADLINE * 5,
    })
    .unwrap();
    for round in 0.. {
        if round == ROUNDS && is_stopping {
            println!("idle");
            std::thread::sleep(DEADLINE * 5);
        }
        if let Err(error) = mesh.all_reduce_min(tag(round), &mut [round], DEADLINE) {
            println!("error {}", describe(&error));
            return;
        }
    }
}

fn describe(error: &GroupError) -> String {
    let (rank, last) = error.culprit(usize::MAX);
    format!("{rank} {last:?}")
}

struct Rank {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Rank {
    fn start(dir: &Path, rank: usize, stop: usize) -> Self {
        let module = module_path!().split_once("::").unwrap().1;
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([&format!("{module}::process_rank"), "--exact", "--nocapture"])
            .env(DIR, dir)
            .env(RANK, rank.to_string())
            .env(STOP, stop.to_string())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Self { child, lines }
    }

    /// The rest of the next line that contains `mark`.
    fn await_line(&mut self, mark: &str) -> String {
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
fn group_loses(culprit: usize, strike: impl FnOnce(&mut Rank)) -> (Vec<String>, Duration) {
    let dir = tempfile::tempdir().unwrap();
    let mut ranks: Vec<_> = (0..SIZE).map(|rank| Rank::start(dir.path(), rank, culprit)).collect();
    ranks[culprit].await_line("idle");
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
    for culprit in 0..SIZE {
        let (errors, took) = group_loses(culprit, |rank| rank.child.kill().unwrap());
        assert_eq!(errors, expected(culprit));
        assert!(took < DEADLINE, "a death is heard at once, not at the deadline: {took:?}");
    }
}

#[test]
fn process_stuck_is_named_by_all_with_its_last_tag() {
    let (errors, took) = group_loses(2, |_| std::thread::sleep(DEADLINE + DEADLINE / 4));
    assert_eq!(errors, expected(2));
    assert!(took < DEADLINE * 3, "{took:?}");
}
