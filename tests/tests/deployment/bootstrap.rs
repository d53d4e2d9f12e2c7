//! KV over TCP between ranks that find each other through a bootstrap server: the reference answers, a rank that dies, and a server that is
//! late, talks nonsense or is gone while all else goes on.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use lockstep_tests::golden::goldens;
use lockstep_tests::http::completion;
use lockstep_tests::process::{PATIENCE, kill, lives, wait_within};
use rustix::process::Signal;

use crate::common::{Deployment, pieces, request, reserved_port, story, texts};

/// How late an answer is that is late.
const LATE: Duration = Duration::from_millis(1200);

/// How long a request is watched that can not go on.
const WATCHED: Duration = Duration::from_millis(1500);

/// What the relay does with a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mood {
    /// Nobody listens.
    Gone,
    /// It is passed on, a second late.
    Late,
    /// It is answered with something else.
    Nonsense,
    /// It is passed on.
    Passing,
}

impl Mood {
    const ALL: [Self; 4] = [Self::Gone, Self::Late, Self::Nonsense, Self::Passing];
}

/// Stands between the ranks and the bootstrap server.
struct Relay {
    address: SocketAddr,
    server: SocketAddr,
    mood: Arc<AtomicU8>,
    ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    _ports: [OwnedFd; 2],
}

impl Relay {
    fn start(mood: Mood) -> Self {
        let ((own, address), (other, server)) = (reserved_port(), reserved_port());
        let (shared, ended) = (Arc::new(AtomicU8::new(mood as u8)), Arc::new(AtomicBool::new(false)));
        let (mood, end) = (Arc::clone(&shared), Arc::clone(&ended));
        let stand = move || {
            let mut listener = None;
            while !end.load(Ordering::SeqCst) {
                let mood = Mood::ALL[usize::from(mood.load(Ordering::SeqCst))];
                if mood == Mood::Gone {
                    listener = None;
                } else {
                    let listener = listener.get_or_insert_with(|| listen(address));
                    while let Ok((stream, _)) = listener.accept() {
                        thread::spawn(move || drop(relay(mood, stream, server)));
                    }
                }
                thread::sleep(Duration::from_millis(2));
            }
        };
        let thread = Some(thread::spawn(stand));
        Self { address, server, mood: shared, ended, thread, _ports: [own, other] }
    }

    fn turn(&self, mood: Mood) {
        self.mood.store(mood as u8, Ordering::SeqCst);
    }

    /// A deployment whose ranks reach its bootstrap server through the relay.
    fn deployment(&self, arguments: &str) -> Deployment {
        let (relay, port) = (self.address, self.server.port());
        Deployment::start(&format!(
            "--fabric tcp --bootstrap-port {port} --bootstrap-server {relay} {arguments}"
        ))
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::SeqCst);
        self.thread.take().unwrap().join().unwrap();
    }
}

fn listen(address: SocketAddr) -> TcpListener {
    let listener = TcpListener::bind(address).unwrap();
    listener.set_nonblocking(true).unwrap();
    listener
}

fn relay(mood: Mood, mut stream: TcpStream, server: SocketAddr) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    match mood {
        Mood::Gone => {}
        Mood::Nonsense => {
            let _asked = stream.read(&mut [0; 4096])?;
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{\"rank_ip")?;
        }
        Mood::Late | Mood::Passing => {
            if mood == Mood::Late {
                thread::sleep(LATE);
            }
            let mut upstream = TcpStream::connect(server)?;
            let (mut from, mut to) = (stream.try_clone()?, upstream.try_clone()?);
            thread::spawn(move || {
                drop(io::copy(&mut from, &mut to));
                drop(to.shutdown(Shutdown::Write));
            });
            io::copy(&mut upstream, &mut stream)?;
            stream.shutdown(Shutdown::Both)?;
        }
    }
    Ok(())
}

#[test]
fn bootstrap_over_tcp_gives_the_reference_answers_and_recovers_from_a_death() {
    let server = Deployment::start("--fabric tcp");
    assert!(server.ready.contains("KV over tcp by way of 127.0.0.1:"), "{}", server.ready);
    for golden in &goldens()[..2] {
        assert_eq!(server.post(&request(golden, false)).text(), pieces(golden).concat());
    }
    let undisturbed = texts(server.stream(&story("The wisdom of", 200)));
    let pids = server.rank_pids();
    let stream = server.stream(&story("The wisdom of", 200));
    kill(pids[3], Signal::KILL);
    assert_eq!(texts(stream), undisturbed);
    server.wait_for_epoch(2);
    assert!(pids.iter().all(|&pid| !lives(pid)), "{}", server.errors());
    server.wait_until_drained(256);
    let pids = server.rank_pids();
    server.end(&pids);
}

/// Each trouble meets a fresh epoch, in which no rank knows where its peer is.
#[test]
fn bootstrap_server_in_trouble_delays_requests_and_no_round() {
    let relay = Relay::start(Mood::Gone);
    let server = relay.deployment("");
    let golden = &goldens()[0];
    for (place, mood) in [Mood::Gone, Mood::Nonsense, Mood::Late].into_iter().enumerate() {
        relay.turn(mood);
        if place > 0 {
            kill(server.rank_pids()[0], Signal::KILL);
            server.wait_for_epoch(1 + place as u64);
        }
        let answered = Mutex::new(None);
        thread::scope(|scope| {
            scope.spawn(|| *answered.lock().unwrap() = Some(server.post(&request(golden, false)).text()));
            let before = server.round();
            thread::sleep(WATCHED);
            if mood != Mood::Late {
                assert_eq!(*answered.lock().unwrap(), None, "{mood:?}");
                let rounds = server.round() - before;
                assert!(rounds > 100, "{rounds} rounds while the server is in trouble ({mood:?})");
                assert_eq!(server.health().0, 200, "{mood:?}");
                relay.turn(Mood::Passing);
            }
        });
        assert_eq!(answered.into_inner().unwrap(), Some(pieces(golden).concat()), "{mood:?}");
    }
    let words = server.errors();
    assert!(
        words.contains("prefill rank 0: not registered yet, and tries again: the bootstrap server"),
        "{words}"
    );
    server.wait_until_drained(256);
}

/// A request whose ranks find no peer ends with a reason, and the groups are ready for the next.
#[test]
fn bootstrap_server_that_stays_away_fails_requests_with_a_reason() {
    let relay = Relay::start(Mood::Gone);
    let server = relay.deployment("--tp 1 --handshake-tries 2");
    let before = server.round();
    let refused = server.post(&completion("In the beginning", 4, false));
    assert!(refused.status >= 500, "{}", refused.body);
    assert!(refused.body.contains("the prefill side could not be reached"), "{}", refused.body);
    assert!(server.round() > before + 300, "{} rounds", server.round() - before);
    let words = server.errors();
    assert!(words.contains("has no prefill rank: the prefill rank's address is not known"), "{words}");
    assert!(words.contains("can not be reached"), "{words}");
    relay.turn(Mood::Passing);
    wait_within(PATIENCE, "a request that goes on", || {
        server.post(&completion("In the beginning", 4, false)).status == 200
    });
    server.wait_until_drained(256);
}
