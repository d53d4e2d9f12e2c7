//! The mock rank's loop: drain inputs, take a step, tell progress.

use std::fs::OpenOptions;
use std::io::Write;
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use lockstep_runtime::launch::{Enlisted, RankArguments, RankPlan};
use lockstep_runtime::wire::{
    FrontToRank, Leg, Progress, RankEnd, RankReceiver, RankSender, RankToFront, Role, Room, WireError,
};

use lockstep_spec::ticket::Site;

use crate::decode::Decode;
use crate::peers;

pub(crate) enum Input {
    Front(FrontToRank),
    FrontGone,
    PeerGone(u32),
}

pub(crate) struct Rank {
    pub(crate) plan: RankPlan,
    pub(crate) sender: RankSender,
    pub(crate) forwards: u64,
    round: u64,
    told: Instant,
    paused: bool,
    /// Whether it makes no rounds any more, and reports all the same.
    pub(crate) stalls: bool,
}

pub(crate) fn run(arguments: RankArguments) -> ExitCode {
    match start(arguments) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("mock rank: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Mock ranks meet in a directory of one machine.
pub(crate) fn run_enlisted(enlisted: Enlisted) -> ExitCode {
    eprintln!("mock rank: {} can not be started by a launcher", enlisted.plan.name());
    ExitCode::FAILURE
}

fn start(arguments: RankArguments) -> Result<ExitCode, Box<dyn std::error::Error>> {
    let RankEnd { mut sender, receiver } =
        RankEnd::connect(&arguments.control_socket, arguments.plan.seat())?;
    let plan = arguments.plan;
    while plan.model.join("hold").exists() {
        thread::sleep(Duration::from_millis(10));
    }
    if plan.model.join("refuse").exists() {
        sender.send(&fatal("the weights are not to be had", None))?;
        return Ok(ExitCode::FAILURE);
    }
    let (inputs, queue) = channel();
    peers::form(&plan, &inputs)?;
    let room = Room { pages: plan.pages, page_size: plan.page_size, slots: plan.slots, context: 4096 };
    sender.send(&RankToFront::Ready(room))?;
    thread::spawn(move || receive(receiver, &inputs));
    println!("mock rank up");
    let rank = Rank {
        plan,
        sender,
        forwards: 0,
        round: 0,
        told: Instant::now() - Duration::from_secs(1),
        paused: false,
        stalls: false,
    };
    Ok(rank.turn_until_told(&queue)?)
}

fn receive(mut receiver: RankReceiver, inputs: &std::sync::mpsc::Sender<Input>) {
    loop {
        let input = match receiver.receive(Duration::from_secs(1)) {
            Ok(None) => continue,
            Ok(Some(message)) => Input::Front(message),
            Err(_) => Input::FrontGone,
        };
        let last = matches!(input, Input::FrontGone);
        if inputs.send(input).is_err() || last {
            return;
        }
    }
}

impl Rank {
    fn turn_until_told(mut self, queue: &Receiver<Input>) -> Result<ExitCode, WireError> {
        let mut decode = Decode::default();
        loop {
            match queue.recv_timeout(Duration::from_millis(2)) {
                Ok(Input::Front(FrontToRank::Dismiss | FrontToRank::Shutdown)) => {
                    return Ok(ExitCode::SUCCESS);
                }
                Ok(Input::Front(message)) => self.take(message, &mut decode)?,
                Ok(Input::FrontGone) | Err(RecvTimeoutError::Disconnected) => return Ok(ExitCode::FAILURE),
                Ok(Input::PeerGone(peer)) => return self.peer_gone(peer, queue),
                Err(RecvTimeoutError::Timeout) => {}
            }
            if !self.paused {
                decode.step(&mut self)?;
            }
            self.tell_progress(decode.open())?;
        }
    }

    fn take(&mut self, message: FrontToRank, decode: &mut Decode) -> Result<(), WireError> {
        self.log(&format!("{message:?}"));
        match message {
            FrontToRank::Abort { request } => decode.abort(request, self)?,
            FrontToRank::Leg { leg, tokens, .. } => self.prefill(leg, &tokens),
            FrontToRank::Pause => self.paused = true,
            FrontToRank::Resume => self.paused = false,
            FrontToRank::Attach { .. } | FrontToRank::Dismiss | FrontToRank::Shutdown => {}
            FrontToRank::Submit(request) => decode.submit(request, self)?,
        }
        Ok(())
    }

    /// "Transfers the KV": the leader leaves the tokens where decode finds them.
    fn prefill(&mut self, leg: Leg, tokens: &[u32]) {
        self.forwards += 1;
        if self.plan.rank == 0 {
            let target = self.kv(leg);
            let scratch = target.with_extension("new");
            std::fs::write(&scratch, serde_json::to_vec(tokens).unwrap()).unwrap();
            std::fs::rename(scratch, target).unwrap();
        }
    }

    pub(crate) fn kv(&self, leg: Leg) -> std::path::PathBuf {
        self.plan.run_directory.join(format!("kv-{}-{}-{}", leg.slot, leg.generation, leg.attempt))
    }

    /// An orderly leave of all reaches the ranks one after the other, so a gone peer is only missing when no order follows.
    fn peer_gone(mut self, peer: u32, queue: &Receiver<Input>) -> Result<ExitCode, WireError> {
        let deadline = Instant::now() + Duration::from_millis(200);
        while let Ok(input) = queue.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            if matches!(input, Input::Front(FrontToRank::Dismiss | FrontToRank::Shutdown)) {
                return Ok(ExitCode::SUCCESS);
            }
        }
        self.sender.send(&fatal("a peer did not come to the vote", Some(peer)))?;
        Ok(ExitCode::FAILURE)
    }

    fn tell_progress(&mut self, open: usize) -> Result<(), WireError> {
        self.round += u64::from(!self.stalls);
        if self.told.elapsed() < Duration::from_millis(100) {
            return Ok(());
        }
        self.told = Instant::now();
        let used = u32::try_from(open).unwrap();
        let progress = Progress {
            epoch: self.plan.epoch,
            round: self.round,
            site: Some(Site::Vote),
            votes: self.round,
            briefs: self.round / 10,
            forwards: self.forwards,
            rounds_with_work: self.round / 2,
            vote_wait_micros_total: self.round * 20,
            agreement_micros_total: self.round * 10,
            forward_micros_total: self.round * 100,
            forward_gap_micros_total: self.round * 10,
            slots_used: used,
            pages_free: self.plan.pages.saturating_sub(used),
            paused: self.paused,
            ..Progress::default()
        };
        self.sender.send(&RankToFront::Progress(progress))
    }

    fn log(&self, line: &str) {
        let Ok(path) = std::env::var("MOCK_LOG") else { return };
        let mut file = OpenOptions::new().create(true).append(true).open(path).unwrap();
        file.write_all(format!("{} {line}\n", self.plan.name()).as_bytes()).unwrap();
    }

    pub(crate) fn is_decode_leader(&self) -> bool {
        self.plan.name().is_leader_of(Role::Decode)
    }
}

pub(crate) fn fatal(text: &str, missing_rank: Option<u32>) -> RankToFront {
    RankToFront::Fatal { text: text.into(), missing_rank, last_ticket: Some("epoch 1 round 7 Vote".into()) }
}
