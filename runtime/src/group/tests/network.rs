//! Ranks with a network between them: in network namespaces, as if on three machines, where a link is taken down; and on loopback behind
//! a relay that delays, stalls and falls silent.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::processes::{ADVERTISE, DEADLINE, LEADER, LISTEN, Rank, SIZE, command};

const PORT: u16 = 7000;
/// The rank that the network loses.
const LOST: usize = 2;
/// Twice what the system takes to tell of a connection on which nothing is sent that its other end is unreachable.
const IDLE_DEADLINE: Duration = Duration::from_secs(8);

fn ip(arguments: &str) -> Result<(), String> {
    let run = Command::new("ip").args(arguments.split(' ')).stdin(Stdio::null()).output();
    let output = run.map_err(|error| format!("ip: {error}"))?;
    let errors = String::from_utf8_lossy(&output.stderr);
    if output.status.success() { Ok(()) } else { Err(format!("ip {arguments}: {errors}")) }
}

/// A namespace for each rank and one for the switch between them.
struct Machines {
    name: String,
}

impl Machines {
    fn create(test: &str) -> Result<Self, String> {
        let machines = Self { name: format!("lockstep-{}-{test}", std::process::id()) };
        let switch = &machines.name;
        ip(&format!("netns add {switch}"))?;
        ip(&format!("-n {switch} link add switch type bridge"))?;
        ip(&format!("-n {switch} link set switch up"))?;
        for rank in 0..SIZE {
            let machine = machines.machine(rank);
            ip(&format!("netns add {machine}"))?;
            ip(&format!("-n {machine} link add eth0 type veth peer name port{rank} netns {switch}"))?;
            ip(&format!("-n {machine} addr add {}/24 dev eth0", Self::address(rank)))?;
            ip(&format!("-n {machine} link set eth0 up"))?;
            ip(&format!("-n {switch} link set port{rank} master switch up"))?;
        }
        Ok(machines)
    }

    fn machine(&self, rank: usize) -> String {
        format!("{}-{rank}", self.name)
    }

    fn address(rank: usize) -> Ipv4Addr {
        Ipv4Addr::new(10, 77, 0, u8::try_from(rank).unwrap() + 1)
    }

    fn start(&self, dir: &Path, rank: usize, part: &str) -> Rank {
        let machine = self.machine(rank);
        let port = if rank == 0 { PORT } else { 0 };
        let mut command = command(&["ip", "netns", "exec", &machine], dir, rank, part);
        command.env(LEADER, format!("{}:{PORT}", Self::address(0)));
        Rank::start(command.env(LISTEN, format!("{}:{port}", Self::address(rank))))
    }

    /// Pulls the cable of a rank out of the switch.
    fn pull(&self, rank: usize) {
        ip(&format!("-n {} link set port{rank} down", self.name)).unwrap();
    }
}

impl Drop for Machines {
    fn drop(&mut self) {
        // Those that were not made can not be removed.
        (0..SIZE).for_each(|rank| drop(ip(&format!("netns del {}", self.machine(rank)))));
        drop(ip(&format!("netns del {}", self.name)));
    }
}

/// Three ranks whose links to rank 2 go through a relay.
struct Relayed {
    relay: Arc<Relay>,
    base: [u8; 2],
}

#[derive(Default)]
struct Relay {
    silent: AtomicBool,
}

impl Relayed {
    fn create() -> Self {
        static NEXT: AtomicU8 = AtomicU8::new(1);
        let process = u8::try_from(std::process::id() % 250).unwrap() + 2;
        let base = [process, NEXT.fetch_add(1, Ordering::Relaxed)];
        let relayed = Self { relay: Arc::default(), base };
        for rank in 0..LOST {
            let listener = TcpListener::bind(relayed.address(rank + 100)).unwrap();
            let (target, relay) = (relayed.address(rank), Arc::clone(&relayed.relay));
            thread::spawn(move || relay.serve(&listener, target));
        }
        relayed
    }

    fn address(&self, host: usize) -> SocketAddr {
        let [second, third] = self.base;
        SocketAddr::from(([127, second, third, u8::try_from(host).unwrap() + 1], PORT))
    }

    fn start(&self, dir: &Path, rank: usize, part: &str) -> Rank {
        let leader = self.address(if rank == LOST { 100 } else { 0 });
        let advertised = self.address(if rank == 1 { 101 } else { rank });
        let mut command = command(&[], dir, rank, part);
        command.env(LEADER, leader.to_string()).env(ADVERTISE, advertised.to_string());
        Rank::start(command.env(LISTEN, self.address(rank).to_string()))
    }
}

impl Relay {
    fn serve(self: Arc<Self>, listener: &TcpListener, target: SocketAddr) {
        for (seed, stream) in (1..).zip(listener.incoming()) {
            let Ok(stream) = stream else { return };
            // The target may not listen yet; then the caller tries again.
            let Ok(onward) = TcpStream::connect(target) else { continue };
            for (from, to) in [(&stream, &onward), (&onward, &stream)] {
                let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                let relay = Arc::clone(&self);
                thread::spawn(move || relay.pump(from, to, seed));
            }
        }
    }

    /// Passes bytes on late; one chunk in sixteen very late, as a lost segment would be.
    fn pump(&self, mut from: TcpStream, mut to: TcpStream, seed: u64) {
        let mut chunk = [0; 4096];
        let mut dice = seed;
        to.set_nodelay(true).unwrap();
        while let Ok(count @ 1..) = from.read(&mut chunk) {
            dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let late = if dice >> 60 == 0 { 200 } else { 1 + (dice >> 32) % 8 };
            thread::sleep(Duration::from_millis(late));
            while self.silent.load(Ordering::Relaxed) {
                thread::sleep(Duration::from_millis(50));
            }
            if to.write_all(&chunk[..count]).is_err() {
                break;
            }
        }
        drop(to.shutdown(std::net::Shutdown::Both));
    }
}

/// Lets a group play, cuts rank 2 off, and returns whom those of `witnesses` name and how long that took.
fn cut_off(
    start: impl Fn(&Path, usize, &str) -> Rank,
    part: &str,
    cut: impl FnOnce(),
    witnesses: &[usize],
) -> (Vec<String>, Duration) {
    let dir = tempfile::tempdir().unwrap();
    let mut ranks: Vec<_> = (0..SIZE).map(|rank| start(dir.path(), rank, part)).collect();
    ranks.iter_mut().for_each(|rank| drop(rank.await_line(part)));
    let began = Instant::now();
    cut();
    let named = witnesses.iter().map(|rank| {
        let told = ranks[*rank].await_line("error ");
        told.split(' ').next().unwrap_or_default().to_owned()
    });
    (named.collect(), began.elapsed())
}

fn cut_off_by_relay() -> (Vec<String>, Duration) {
    let relayed = Relayed::create();
    let silence = || relayed.relay.silent.store(true, Ordering::Relaxed);
    cut_off(|dir, rank, part| relayed.start(dir, rank, part), "vote", silence, &[0, 1])
}

/// Says, past the test runner's capture, that a test was not what it should have been.
fn say_loudly(why: &str) {
    let line = format!("\nNO NETWORK NAMESPACES ({}): loopback and a relay stand in\n", why.trim());
    std::io::stderr().write_all(line.as_bytes()).unwrap();
}

#[test]
fn network_link_down_is_noticed_by_the_deadline_and_named() {
    let (named, took) = match Machines::create("vote") {
        Ok(machines) => {
            let pull = || machines.pull(LOST);
            cut_off(|dir, rank, part| machines.start(dir, rank, part), "vote", pull, &[0, 1])
        }
        Err(why) => {
            say_loudly(&why);
            cut_off_by_relay()
        }
    };
    assert_eq!(named, ["2", "2"]);
    assert!(took < DEADLINE * 2, "{took:?}");
}

#[test]
fn network_link_down_is_noticed_while_nothing_is_sent() {
    match Machines::create("idle") {
        Ok(machines) => {
            let pull = || machines.pull(LOST);
            let (named, took) =
                cut_off(|dir, rank, part| machines.start(dir, rank, part), "idle", pull, &[1]);
            assert_eq!(named, ["2"]);
            assert!(took < IDLE_DEADLINE, "{took:?}");
        }
        // A relay answers the kernel's questions for the rank behind it, so nothing can stand in.
        Err(why) => say_loudly(&why),
    }
}

#[test]
fn network_delays_break_nothing_and_silence_is_named() {
    let (named, took) = cut_off_by_relay();
    assert_eq!(named, ["2", "2"]);
    assert!(took < DEADLINE * 2, "{took:?}");
}
