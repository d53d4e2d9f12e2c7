//! One rank of the conventional design, executed: the program that the checker explores, over collectives of the ranks' devices and the
//! engine's forwards. Requests come and end as they do in a deployment with one broken way: the first is served, and of the second the last
//! rank alone sees that it cannot be fetched. What it does with that is the variant's rule.

use std::error::Error;
use std::path::Path;
use std::time::{Duration, Instant};

use lockstep_kernels::cuda::{Communicator, Cuda};
use lockstep_kernels::{Device, Reduction};
use lockstep_model::conventional::fact::Fact;
use lockstep_model::conventional::{ConventionalRank, Site, Variant};
use lockstep_runtime::engine::{Backend, CacheType, DeviceBackend, KvCache, Llama, OnDevices, Row, Step};
use lockstep_spec::agreed::Words;
use lockstep_spec::program::{Effect, Event, Posted, RankProgram};
use lockstep_tests::golden::goldens_of;
use serde_json::{Value, json};

use crate::forwards::{PAGE_SIZE, PAGES};
use crate::group::Place;

/// Requests, each of which comes in a lap of its own.
const REQUESTS: usize = 2;
/// Turns of the loop's lap: the requests, the two polls, run or idle.
const TURNS: usize = 4;
/// Laps in which ranks that agree are done with everything, and one more.
const LAPS: usize = REQUESTS + 2;
/// How long a rank waits for the others: in the lap in which they connect, and then.
const PATIENCE: [Duration; 2] = [Duration::from_secs(10), Duration::from_secs(2)];
/// How long an abort may take.
const ABORT: Duration = Duration::from_secs(1);

type Outcome<T> = Result<T, Box<dyn Error>>;

struct Rank {
    program: ConventionalRank,
    /// Where the words of the loop meet, apart from the forwards.
    control: (Cuda, Communicator),
    llama: Llama<DeviceBackend<Cuda>>,
    cache: KvCache<<DeviceBackend<Cuda> as Backend>::Buffer>,
    prompt: Vec<u32>,
    patience: Duration,
    /// What it entered last.
    entered: Option<Site>,
    forwards: usize,
}

/// Goes through all laps, or up to a collective in which it waits in vain.
pub(crate) fn run(place: &Place, variant: Variant, directory: &Path) -> Outcome<Value> {
    let (member, last) = (place.member, place.is_last());
    let cuda = Cuda::open(place.device)?;
    let communicator = Communicator::join(&cuda, &place.beside("control").group()?, member, PATIENCE[0])?;
    let backend = DeviceBackend::new(Cuda::open(place.device)?, CacheType::F32);
    let mut llama = Llama::load_on(backend, directory, member.rank, member.size)?;
    let shard = llama.shard();
    llama.backend().join(&place.group()?.0, shard, PATIENCE[0])?;
    let cache = llama.cache(PAGE_SIZE, PAGES)?;
    let prompt = goldens_of(directory).swap_remove(0).prompt_ids;
    let program = ConventionalRank::new(variant, false, member.rank, REQUESTS, REQUESTS);
    let control = (cuda, communicator);
    let [patience, later] = PATIENCE;
    let mut rank = Rank { program, control, llama, cache, prompt, patience, entered: None, forwards: 0 };
    for lap in 0..LAPS {
        if let Err(error) = rank.lap(lap, last) {
            return rank.stuck(&error.to_string());
        }
        rank.patience = later;
    }
    Ok(json!({ "forwards": rank.forwards, "laps": LAPS }))
}

impl Rank {
    fn lap(&mut self, lap: usize, last: bool) -> Outcome<()> {
        let comes = lap < REQUESTS;
        if comes && self.program.leads() {
            self.take(Event::Fact(Fact::Arrived))?;
        }
        self.take(Event::Turn)?;
        let facts = match (comes, last && lap + 1 == REQUESTS) {
            (false, _) => vec![],
            (true, false) => vec![Fact::HandshakeDone(lap), Fact::KvLanded(lap)],
            (true, true) => vec![Fact::RetriesExhausted],
        };
        facts.into_iter().try_for_each(|fact| self.take(Event::Fact(fact)))?;
        (1..TURNS).try_for_each(|_| self.take(Event::Turn))
    }

    /// Gives the program an event, does what it asks for, and gives it what comes of that.
    fn take(&mut self, event: Event<Fact, Site>) -> Outcome<()> {
        let mut effects = Vec::new();
        self.program.step(event, &mut effects);
        for effect in effects {
            match effect {
                Effect::Enter(posted) => {
                    self.entered = Some(posted.ticket.site);
                    let outcome = self.enter(posted)?;
                    self.take(outcome)?;
                }
                Effect::Local(_) | Effect::Leave => {}
                Effect::Fault(fault) => return Err(format!("{fault:?}").into()),
            }
        }
        Ok(())
    }

    fn enter(&mut self, Posted { ticket, payload }: Posted<Site>) -> Outcome<Event<Fact, Site>> {
        match ticket.site {
            Site::Forward => self.forward().map(|()| Event::Fact(Fact::Retired)),
            Site::Requests | Site::HandshakePoll | Site::TransferPoll | Site::CacheDrain => {
                let payload = self.meet(ticket.site, &payload)?;
                Ok(Event::Completed { ticket, payload })
            }
        }
    }

    fn meet(&mut self, site: Site, words: &[u64]) -> Outcome<Words> {
        let (cuda, communicator) = &mut self.control;
        let mut words = cuda.upload(words)?;
        match site {
            Site::Requests => communicator.broadcast(0, &mut words)?,
            Site::HandshakePoll | Site::TransferPoll | Site::CacheDrain | Site::Forward => {
                communicator.all_reduce(Reduction::Min, &mut words)?
            }
        };
        communicator.wait(self.patience)?;
        Ok(cuda.download(&words)?)
    }

    /// The prompt's forward, whichever request it is of.
    fn forward(&mut self) -> Outcome<()> {
        self.forwards += 1;
        let pages: Vec<u32> = (0..).take(PAGES).collect();
        let rows = [Row { tokens: &self.prompt, start: 0, pages: &pages }];
        let mut group = OnDevices(self.llama.shard());
        let step = Step { rows: &rows, ..Step::default() };
        let mut flight = self.llama.launch(&mut self.cache, step, &mut group)?;
        self.llama.backend().settle(self.patience)?;
        self.llama.land(&mut flight)?.map(drop).ok_or_else(|| "the flight has not landed".into())
    }

    /// Aborts both communicators, and says where it waited and whether the device is free again.
    fn stuck(mut self, why: &str) -> Outcome<Value> {
        let started = Instant::now();
        self.llama.backend().leave();
        self.control.1.watch().abort(ABORT)?;
        let free = self.llama.read_page(&self.cache, 0).is_ok();
        Ok(json!({
            "forwards": self.forwards,
            "site": self.entered.map(|site| format!("{site:?}")),
            "why": why,
            "aborted_within_limit": started.elapsed() < 2 * ABORT,
            "free": free,
        }))
    }
}
