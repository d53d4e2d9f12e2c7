//! Ranks that launchers start: each in a loop of a shell that starts it anew, as a launcher does, with the variables of one of them; on
//! one machine, and on two with a network between them that fails.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use lockstep_tests::golden::goldens;
use lockstep_tests::process::{PATIENCE, kill, lives, wait_for, wait_within};
use lockstep_tests::server::{Scratch, output};
use rustix::process::{Pid, Signal, kill_process_group};

use crate::common::{Deployment, called, command, pieces, request, reserved_port, story, texts};

/// Starts what follows it again and again, until it ends in a way that no new start repairs, and keeps the codes. Ends with the test.
const LOOP: &str = r#"
while kill -0 $PPID; do
    "$@"; code=$?; echo $code >> "$CODES"
    case $code in 0|2) exit $code;; esac
    sleep 0.1
done"#;

/// Tokens of a stream, and after how many of them something happens.
const TOKENS: u32 = 300;
const BEGUN: usize = 20;

/// The variables of a launcher: the rank's index and the number of ranks.
type Variables = [&'static str; 2];

const TORCHRUN: Variables = ["RANK", "WORLD_SIZE"];
const LWS: Variables = ["LWS_WORKER_INDEX", "LWS_GROUP_SIZE"];
const SLURM: Variables = ["SLURM_PROCID", "SLURM_NTASKS"];
const MPI: Variables = ["OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"];

/// Loops of shells, one for each rank. They and all that they started are killed when this is dropped.
struct Launchers(Vec<Child>);

/// Where a rank is started and how it is told which it is.
struct Start<'a> {
    scratch: &'a Scratch,
    /// What runs it on its machine.
    on: &'a [&'a str],
    variables: Variables,
    /// Its flags.
    flags: String,
}

impl Launchers {
    fn start(&mut self, start: &Start<'_>, role: &str, rank: u32, size: u32) {
        let traces = start.scratch.path("traces");
        let mut shell = start.scratch.command("/bin/sh", &["-c", LOOP, "sh"]);
        shell.args(start.on).args([env!("CARGO_BIN_EXE_tested-lockstep"), "rank", "--role", role]);
        shell.args(start.flags.split_whitespace()).arg("--trace").arg(traces);
        shell.env(start.variables[0], rank.to_string()).env(start.variables[1], size.to_string());
        shell.env("CODES", start.scratch.path(&format!("codes-{role}-{rank}")));
        let said = std::fs::File::create(start.scratch.path(&format!("said-{role}-{rank}"))).unwrap();
        shell.stdout(Stdio::null()).stderr(said).process_group(0);
        self.0.push(shell.spawn().unwrap());
    }

    /// Waits until every loop has ended because its rank ended for good.
    fn wait_for_end(&mut self) {
        for shell in &mut self.0 {
            let begun = Instant::now();
            while shell.try_wait().unwrap().is_none() {
                assert!(begun.elapsed() < PATIENCE, "a launcher goes on");
                std::thread::sleep(Duration::from_millis(10));
            }
            assert_eq!(shell.wait().unwrap().code(), Some(0));
        }
    }
}

impl Drop for Launchers {
    fn drop(&mut self) {
        for shell in &mut self.0 {
            let group = Pid::from_raw(i32::try_from(shell.id()).unwrap()).unwrap();
            // It may have ended by itself.
            let _ended = kill_process_group(group, Signal::KILL);
            let _ended = shell.wait();
        }
    }
}

fn codes(scratch: &Scratch, role: &str, rank: u32) -> Vec<String> {
    let codes = std::fs::read_to_string(scratch.path(&format!("codes-{role}-{rank}"))).unwrap_or_default();
    codes.split_whitespace().map(str::to_owned).collect()
}

/// Front end and launchers on this machine.
struct Local {
    launchers: Launchers,
    server: Deployment,
    control: SocketAddr,
    _port: OwnedFd,
}

impl Local {
    fn start(decode: Variables, prefill: Variables, flags: &str) -> Self {
        let (port, control) = reserved_port();
        let scratch = Scratch::default();
        let launchers = Self::launch(&scratch, control, decode, prefill);
        let server = Deployment::called(scratch, control, flags);
        Self { launchers, server, control, _port: port }
    }

    /// Starts two ranks of each group.
    fn launch(scratch: &Scratch, control: SocketAddr, decode: Variables, prefill: Variables) -> Launchers {
        let mut launchers = Launchers(Vec::new());
        for rank in 0..2 {
            for (role, variables) in [("decode", decode), ("prefill", prefill)] {
                let flags = format!("--frontend {control}");
                let start = Start { scratch, on: &[], variables, flags };
                launchers.start(&start, role, rank, 2);
            }
        }
        launchers
    }

    /// Ends the server in an orderly way: every rank exits with 0, and no launcher starts it anew.
    fn end(mut self) {
        let pids = self.server.rank_pids();
        self.server.signal(Signal::TERM);
        let status = self.server.wait_for_end();
        assert_eq!(status.code(), Some(0), "{}", self.server.errors());
        self.launchers.wait_for_end();
        assert!(pids.iter().all(|&pid| !lives(pid)));
    }
}

/// Runs a stream with `disturb` in its midst, and checks that it is the same to the letter.
fn check_stream(server: &Deployment, undisturbed: &[String], disturb: impl FnOnce()) {
    let mut stream = server.stream(&story("The wisdom of", TOKENS));
    let mut told: Vec<String> =
        stream.by_ref().take(BEGUN).map(|event| lockstep_tests::http::text_of(&event)).collect();
    disturb();
    told.extend(texts(stream));
    assert_eq!(told, undisturbed);
}

#[test]
fn launchers_start_killed_ranks_anew_and_streams_go_on() {
    let local = Local::start(TORCHRUN, SLURM, "");
    let server = &local.server;
    for golden in &goldens()[..2] {
        assert_eq!(server.post(&request(golden, false)).text(), pieces(golden).concat());
    }
    let undisturbed = texts(server.stream(&story("The wisdom of", TOKENS)));
    for (epoch, place) in [(2, 1), (3, 2)] {
        let pids = server.rank_pids();
        check_stream(server, &undisturbed, || kill(pids[place], Signal::KILL));
        server.wait_for_epoch(epoch);
        assert!(pids.iter().all(|&pid| !lives(pid)), "a rank of an old epoch lives: {}", server.errors());
    }
    let words = server.errors();
    assert!(words.contains("decode rank 1 closed its line to the front end"), "{words}");
    assert!(words.contains("prefill rank 0 closed its line to the front end"), "{words}");
    // A killed one, one that missed it, and one whose group was asked to leave.
    assert_eq!(codes(&server.scratch, "decode", 1), ["137", "75"], "{words}");
    assert_eq!(codes(&server.scratch, "decode", 0), ["75", "75"], "{words}");
    assert_eq!(codes(&server.scratch, "prefill", 1), ["75", "75"], "{words}");
    server.wait_until_drained(256);
    local.end();
}

/// A stopped rank holds its place until it goes on. What it says then is of an old epoch, and its next life is of the new one.
#[test]
fn launchers_rank_that_comes_late_is_of_no_epoch() {
    let local = Local::start(LWS, MPI, "");
    let server = &local.server;
    let undisturbed = texts(server.stream(&story("The wisdom of", TOKENS)));
    let stopped = server.rank_pids()[1];
    check_stream(server, &undisturbed, || {
        kill(stopped, Signal::STOP);
        wait_for("the loss", || server.errors().contains("missing: rank 1"));
        wait_for("the others", || server.errors().contains("still to come: decode rank 1\n"));
        kill(stopped, Signal::CONT);
    });
    server.wait_for_epoch(2);
    assert!(!lives(stopped));
    assert_eq!(codes(&server.scratch, "decode", 1), ["75"]);
    assert_eq!(server.health().1["restarts"], 1, "{}", server.errors());
    local.end();
}

/// What comes to the control port from others than ranks is turned away, and disturbs nobody; so is a second rank of a name.
#[test]
fn launchers_strangers_are_turned_away() {
    let local = Local::start(TORCHRUN, TORCHRUN, "");
    let server = &local.server;
    let undisturbed = texts(server.stream(&story("The wisdom of", TOKENS)));
    check_stream(server, &undisturbed, || {
        for garbage in [&b"GET / HTTP/1.1\r\n\r\n"[..], b"{\"version\":3}\n", &[b'x'; 200_000]] {
            let mut stranger = TcpStream::connect(local.control).unwrap();
            stranger.set_read_timeout(Some(PATIENCE)).unwrap();
            // It may be cut off while it still speaks.
            let _cut = stranger.write_all(garbage);
            let _cut = stranger.read(&mut [0]);
        }
    });
    wait_for("words of three strangers", || server.errors().matches("was turned away").count() == 3);
    let control = local.control.to_string();
    let rank = |flags: &str| {
        // One that is let in waits for an epoch.
        let program = ["15", env!("CARGO_BIN_EXE_tested-lockstep"), "rank", "--role", "decode", "--frontend"];
        let mut command = server.scratch.command("timeout", &program);
        output(command.arg(&control).args(flags.split_whitespace()))
    };
    let (code, _, errors) = rank("--rank 3 --world-size 4");
    assert_eq!(code, 2, "{errors}");
    assert!(errors.contains("the decode group has 2 ranks: compare --tp"), "{errors}");
    assert_eq!(server.health().1["epoch"], 1, "{}", server.errors());
    local.end();
}

#[test]
fn launchers_that_tell_nothing_or_lead_nowhere_are_told_so() {
    let scratch = Scratch::default();
    let (_port, nobody) = reserved_port();
    let rank = |variables: &[(&str, &str)], flags: &[&str]| {
        let mut command = command(&scratch, &["rank", "--role", "decode", "--frontend", &nobody.to_string()]);
        [TORCHRUN, LWS, SLURM, MPI].iter().flatten().for_each(|name| _ = command.env_remove(name));
        output(command.envs(variables.iter().copied()).args(flags))
    };
    let (code, _, errors) = rank(&[], &[]);
    assert_eq!(code, 2, "{errors}");
    assert!(errors.contains("looked for LWS_WORKER_INDEX (not set)"), "{errors}");
    let (code, _, errors) =
        rank(&[("RANK", "0"), ("WORLD_SIZE", "2"), ("SLURM_PROCID", "1"), ("SLURM_NTASKS", "2")], &[]);
    assert_eq!(code, 2, "{errors}");
    assert!(errors.contains("slurm: rank 1 of 2; torchrun: rank 0 of 2"), "{errors}");
    let (code, _, errors) = rank(&[("RANK", "0"), ("WORLD_SIZE", "2")], &["--frontend-seconds", "1"]);
    assert_eq!(code, 75, "{errors}");
    assert!(errors.contains(&format!("{nobody} was not reached within 1 s")), "{errors}");
}

/// The ranks end with their front end, and the next front end at the same address takes the next ones.
#[test]
fn launchers_outlive_a_front_end() {
    let Local { launchers, server, control, _port } = Local::start(SLURM, LWS, "");
    let pids = server.rank_pids();
    server.signal(Signal::KILL);
    wait_for("the end of its ranks", || pids.iter().all(|&pid| !lives(pid)));
    // Its launcher writes it down a moment later.
    wait_for("a rank's exit code", || !codes(&server.scratch, "prefill", 0).is_empty());
    assert_eq!(codes(&server.scratch, "prefill", 0), ["75"]);
    // The first one's traces would be written over: each front end counts its epochs from one.
    let traces = server.scratch.path("traces");
    std::fs::rename(&traces, server.scratch.path("first")).unwrap();
    let again = called(Scratch::default(), control, "");
    let golden = &goldens()[0];
    assert_eq!(again.post(&request(golden, false)).text(), pieces(golden).concat());
    drop((again, launchers));
}

/// Clients wait for launchers for a while, and not for ever; ranks are waited for all the same.
#[test]
fn launchers_that_stay_away_end_the_streams_and_may_come_later() {
    let mut local = Local::start(MPI, TORCHRUN, "--absence-seconds 1");
    let stream = local.server.long_stream();
    drop(std::mem::replace(&mut local.launchers, Launchers(Vec::new())));
    let error = stream.error();
    assert!(error.contains("did not start decode rank 0, decode rank 1, prefill rank 0"), "{error}");
    let refused = local.server.post(&request(&goldens()[0], false));
    assert_eq!((refused.status, refused.error()["code"].as_str()), (503, Some("not_ready")));
    local.launchers = Local::launch(&local.server.scratch, local.control, MPI, TORCHRUN);
    local.server.wait_for_epoch(2);
    let golden = &goldens()[0];
    assert_eq!(local.server.post(&request(golden, false)).text(), pieces(golden).concat());
    local.end();
}

/// Without an epoch that may follow, there is no place for a rank.
#[test]
fn launchers_ranks_are_refused_when_no_epoch_follows() {
    let local = Local::start(LWS, SLURM, "--restarts 0");
    let stream = local.server.long_stream();
    kill(local.server.rank_pids()[3], Signal::KILL);
    let error = stream.error();
    assert!(error.contains("prefill rank 1"), "{error}");
    let said = || std::fs::read_to_string(local.server.scratch.path("said-decode-0")).unwrap();
    wait_for("a refusal", || said().contains("no epoch follows: 0 of 0 restarts"));
}

fn ip(arguments: &str) -> Result<(), String> {
    let run = Command::new("ip").args(arguments.split(' ')).stdin(Stdio::null()).output();
    let output = run.map_err(|error| format!("ip: {error}"))?;
    let errors = String::from_utf8_lossy(&output.stderr);
    if output.status.success() { Ok(()) } else { Err(format!("ip {arguments}: {errors}")) }
}

/// Another machine, as far as the network can tell: a namespace, and a cable to it.
struct Machine {
    name: String,
    cable: String,
    /// The address of this end of the cable, and of the other.
    addresses: [String; 2],
}

impl Machine {
    fn create() -> Result<Self, String> {
        let number = std::process::id();
        let addresses = [1, 2].map(|end| format!("10.{}.{}.{end}", 64 + number / 256 % 64, number % 256));
        let machine = Self { name: format!("lockstep-{number}"), cable: format!("ls{number}"), addresses };
        let Self { name, cable, addresses: [here, there] } = &machine;
        ip(&format!("netns add {name}"))?;
        ip(&format!("link add {cable} type veth peer name eth0 netns {name}"))?;
        ip(&format!("addr add {here}/24 dev {cable}"))?;
        ip(&format!("link set {cable} up"))?;
        ip(&format!("-n {name} addr add {there}/24 dev eth0"))?;
        ip(&format!("-n {name} link set eth0 up"))?;
        ip(&format!("-n {name} link set lo up"))?;
        Ok(machine)
    }

    fn plug(&self, state: &str) {
        ip(&format!("link set {} {state}", self.cable)).unwrap();
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // What was not made can not be removed.
        drop(ip(&format!("link del {}", self.cable)));
        drop(ip(&format!("netns del {}", self.name)));
    }
}

/// Rank 1 of both groups is on the other machine, and so is half of all KV. The cable is pulled in the middle of a stream.
#[test]
fn launchers_on_two_machines_survive_the_network_between_them() {
    let machine = match Machine::create() {
        Ok(machine) => machine,
        Err(error) => return eprintln!("not tested: no second machine can be made: {error}"),
    };
    let (_port, reserved) = reserved_port();
    let here = &machine.addresses[0];
    let control: SocketAddr = format!("{here}:{}", reserved.port()).parse().unwrap();
    let scratch = Scratch::default();
    let mut launchers = Launchers(Vec::new());
    for role in ["decode", "prefill"] {
        let near = Start {
            scratch: &scratch,
            on: &[],
            variables: TORCHRUN,
            flags: format!("--frontend {control} --bind {here}"),
        };
        launchers.start(&near, role, 0, 2);
        let on = ["ip", "netns", "exec", &machine.name];
        let far = Start {
            scratch: &scratch,
            on: &on,
            variables: TORCHRUN,
            flags: format!("--frontend {control} --bind 0.0.0.0"),
        };
        launchers.start(&far, role, 1, 2);
    }
    let mut server = Deployment::called(scratch, control, "");
    assert!(server.errors().contains(&machine.addresses[1]), "{}", server.errors());
    let golden = &goldens()[0];
    assert_eq!(server.post(&request(golden, false)).text(), pieces(golden).concat());
    let undisturbed = texts(server.stream(&story("The wisdom of", TOKENS)));
    check_stream(&server, &undisturbed, || {
        machine.plug("down");
        wait_within(2 * PATIENCE, "the loss", || server.errors().contains("epoch 2 follows"));
        machine.plug("up");
    });
    server.wait_for_epoch(2);
    server.signal(Signal::TERM);
    assert_eq!(server.wait_for_end().code(), Some(0), "{}", server.errors());
    launchers.wait_for_end();
}
