//! Forming: what is compared, who is told, and what a dead process leaves behind.

use std::io::Write;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use clap::ValueEnum;

use crate::group::{Collectives, Forming, GroupError, Line, Member, Mesh, Setting, Tag, Transport};

const LONG: Duration = Duration::from_secs(10);
const TAG: Tag = Tag { epoch: 1, round: 0, site: 0, kind: 0, shape: 1 };

fn forming(dir: &Path, rank: usize) -> Forming {
    Forming {
        dir: dir.to_owned(),
        name: "control".to_owned(),
        rank,
        size: 3,
        epoch: 1,
        fingerprint: [7; 32],
        payload_limit: 1024,
        deadline: LONG,
    }
}

/// Forms a group of three by `form`; the results by rank.
fn form<M: Send>(form: impl Fn(Forming) -> Result<M, GroupError> + Sync) -> Vec<Result<M, GroupError>> {
    let dir = tempfile::tempdir().unwrap();
    let form = |rank| form(forming(dir.path(), rank));
    thread::scope(|scope| {
        let ranks: Vec<_> = (0..3).map(|rank| scope.spawn(move || form(rank))).collect();
        ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
    })
}

fn difference<L: Line>(result: Result<Member<L>, GroupError>) -> (usize, Setting) {
    let error = result.unwrap_err();
    let GroupError::Differs { rank, setting, .. } = error else {
        panic!("{error}");
    };
    (rank, setting)
}

type Change = fn(&mut Forming);

#[test]
fn forming_names_what_differs_on_every_rank() {
    let cases: [(Setting, Change); 3] = [
        (Setting::Epoch, |forming| forming.epoch = 2),
        (Setting::Fingerprint, |forming| forming.fingerprint[31] = 8),
        (Setting::Size, |forming| forming.size = 4),
    ];
    let check = |transport: Transport, (setting, change): (Setting, Change)| {
        let mut results = form(|mut forming| {
            if forming.rank == 2 {
                change(&mut forming);
            }
            transport.form(&forming)
        });
        let odd = difference(results.pop().unwrap());
        assert_eq!(odd.1, setting, "{transport}");
        for result in results {
            assert_eq!(difference(result), (2, setting), "{transport}");
        }
    };
    let started = Instant::now();
    thread::scope(|scope| {
        for transport in Transport::value_variants() {
            cases.iter().for_each(|case| drop(scope.spawn(|| check(*transport, *case))));
        }
    });
    assert!(started.elapsed() < LONG);
}

#[test]
fn forming_refuses_a_rank_over_another_transport() {
    let results = form(|forming| match forming.rank {
        2 => Transport::Shm.form(&forming),
        _ => Transport::Unix.form(&forming),
    });
    for (rank, result) in results.into_iter().enumerate() {
        let (named, setting) = difference(result);
        assert_eq!((named == 2, setting), (rank != 2, Setting::Transport));
    }
}

#[test]
fn forming_takes_ranks_in_whatever_order_they_come() {
    for transport in Transport::value_variants() {
        for order in [[2, 1, 0], [0, 2, 1], [1, 0, 2]] {
            let results = form(|forming| {
                thread::sleep(Duration::from_millis(30) * order[forming.rank]);
                transport.form(&forming)?.all_reduce_min(TAG, &mut [1], LONG)
            });
            assert!(results.iter().all(Result::is_ok), "{transport} {order:?} {results:?}");
        }
    }
}

/// Ranks hear of each other as they come, so those that are there agree on who is not.
#[test]
fn forming_names_the_rank_that_does_not_come_on_every_other() {
    for transport in Transport::value_variants() {
        let results = form(|mut forming| {
            forming.deadline = Duration::from_secs(1);
            forming.size = 4;
            transport.form(&forming).map(drop)
        });
        for result in results {
            assert!(matches!(result, Err(GroupError::Missing { rank: 3, .. })), "{transport} {result:?}");
        }
    }
}

#[test]
fn forming_names_the_rank_that_does_not_come() {
    let dir = tempfile::tempdir().unwrap();
    let mut alone = forming(dir.path(), 0);
    alone.deadline = Duration::from_millis(100);
    let waited = alone.deadline;
    assert_eq!(Mesh::form(&alone).unwrap_err(), GroupError::Missing { rank: 1, waited, last: None });
}

#[test]
fn forming_refuses_a_second_process_of_one_rank() {
    let dir = tempfile::tempdir().unwrap();
    let _first = UnixListener::bind(dir.path().join("control.1.sock")).unwrap();
    let error = Mesh::form(&forming(dir.path(), 1)).unwrap_err();
    assert!(matches!(error, GroupError::Io { kind: std::io::ErrorKind::AddrInUse, .. }), "{error}");
}

#[test]
fn forming_refuses_a_rank_outside_the_group() {
    let dir = tempfile::tempdir().unwrap();
    assert!(matches!(Mesh::form(&forming(dir.path(), 3)), Err(GroupError::Misuse(_))));
}

fn call(path: &Path) -> UnixStream {
    let until = Instant::now() + LONG;
    loop {
        match UnixStream::connect(path) {
            Ok(stream) => return stream,
            Err(error) => assert!(Instant::now() < until, "{error}"),
        }
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn forming_survives_stale_files_and_strangers() {
    let dir = tempfile::tempdir().unwrap();
    for rank in 0..3 {
        drop(UnixListener::bind(dir.path().join(format!("control.{rank}.sock"))).unwrap());
    }
    let dir = dir.path();
    let run = move |rank: usize| {
        let mut mesh = Mesh::form(&forming(dir, rank)).unwrap();
        let mut values = [rank as u64 + 1];
        mesh.all_reduce_min(TAG, &mut values, LONG).unwrap();
        assert_eq!(values, [1]);
    };
    thread::scope(|scope| {
        scope.spawn(move || run(0));
        // Strangers at the door of rank 0 while it waits for the others: one says nothing that is
        // a hello, one says nothing at all.
        let mut loud = call(&dir.join("control.0.sock"));
        loud.write_all(&[0xee; 100]).unwrap();
        let _silent = call(&dir.join("control.0.sock"));
        scope.spawn(move || run(2));
        scope.spawn(move || run(1));
    });
    assert_eq!(std::fs::read_dir(dir).unwrap().count(), 0, "each rank removes its socket file");
}

#[test]
fn mesh_refuses_a_frame_over_its_own_limit() {
    let mut meshes = form(|mut forming| {
        if forming.rank == 1 {
            forming.payload_limit *= 2;
        }
        Mesh::form(&forming)
    });
    let mut sender = meshes.remove(1).unwrap();
    let mut receiver = meshes.remove(0).unwrap();
    let (length, limit) = (1025, 1024);
    thread::scope(|scope| {
        scope.spawn(move || sender.all_gather(TAG, &vec![0; length], LONG).unwrap_err());
        let error = receiver.all_gather(TAG, &[], LONG).unwrap_err();
        assert_eq!(error, GroupError::Oversize { rank: 1, length, limit });
    });
}
