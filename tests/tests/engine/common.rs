//! What the engine's tests share: where the model is, its reference answers, groups of threads, and a greedy loop.

use std::collections::BTreeSet;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use lockstep_runtime::engine::{
    AllReduce, Backend, Choice, CollectiveError, CpuBackend, Draw, KvCache, Llama, Row, Step,
};
pub(crate) use lockstep_tests::golden::goldens;
pub(crate) use lockstep_tests::places::model_directory;

pub(crate) const PAGE_SIZE: usize = 4;
pub(crate) const PAGES: u32 = 8;
/// How long a rank of a test group waits for a peer.
const PEER_DEADLINE: Duration = Duration::from_secs(30);

/// One rank of a group of threads; counts its collectives.
pub(crate) struct Mesh {
    rank: usize,
    senders: Vec<Sender<Part>>,
    receivers: Vec<Receiver<Part>>,
    /// Of the sums.
    pub(crate) lengths: Vec<usize>,
    /// Of the minima.
    pub(crate) bids: Vec<usize>,
}

/// What a rank brings to a collective.
#[derive(Clone)]
enum Part {
    Summand(Vec<f32>),
    Bids(Vec<u64>),
}

impl Mesh {
    /// Each rank's part, in the order of ranks.
    fn meet(&mut self, part: &Part) -> Result<Vec<Part>, CollectiveError> {
        for sender in &self.senders {
            sender.send(part.clone()).map_err(|_| CollectiveError::new("a peer is gone"))?;
        }
        let parts = self.receivers.iter().map(|receiver| receiver.recv_timeout(PEER_DEADLINE));
        parts.collect::<Result<_, _>>().map_err(CollectiveError::new)
    }
}

impl AllReduce for Mesh {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.senders.len()
    }

    fn all_reduce_sum(&mut self, data: &mut [f32]) -> Result<(), CollectiveError> {
        self.lengths.push(data.len());
        let parts = self.meet(&Part::Summand(data.to_vec()))?;
        data.fill(0.0);
        for part in parts {
            let Part::Summand(part) = part else { return Err(CollectiveError::new("a sum meets a minimum")) };
            data.iter_mut().zip(part).for_each(|(sum, value)| *sum += value);
        }
        Ok(())
    }

    fn all_reduce_min(&mut self, bids: &mut [u64]) -> Result<(), CollectiveError> {
        self.bids.push(bids.len());
        for part in self.meet(&Part::Bids(bids.to_vec()))? {
            let Part::Bids(part) = part else { return Err(CollectiveError::new("a minimum meets a sum")) };
            bids.iter_mut().zip(part).for_each(|(least, bid)| *least = bid.min(*least));
        }
        Ok(())
    }
}

/// All ranks of a group of `size`.
pub(crate) fn meshes(size: usize) -> Vec<Mesh> {
    let mut channels: Vec<Vec<_>> = (0..size).map(|_| (0..size).map(|_| Some(channel())).collect()).collect();
    let mut sides: Vec<(Vec<_>, Vec<_>)> = (0..size).map(|_| (Vec::new(), Vec::new())).collect();
    for from in 0..size {
        for to in 0..size {
            let (sender, receiver) = channels[from][to].take().unwrap();
            sides[from].0.push(sender);
            sides[to].1.push(receiver);
        }
    }
    let mesh = |(rank, (senders, receivers))| Mesh {
        rank,
        senders,
        receivers,
        lengths: Vec::new(),
        bids: Vec::new(),
    };
    sides.into_iter().enumerate().map(mesh).collect()
}

/// Runs `work` on every rank of a group of `size`, each in its own thread with its part of the model on the CPU.
pub(crate) fn on_every_rank<T: Send>(
    size: usize,
    work: impl Fn(&mut Llama, &mut Mesh) -> T + Sync,
) -> Vec<T> {
    on_every_rank_of(size, CpuBackend::default, work)
}

/// Likewise, on a backend.
pub(crate) fn on_every_rank_of<B: Backend, T: Send>(
    size: usize,
    backend: impl Fn() -> B + Sync,
    work: impl Fn(&mut Llama<B>, &mut Mesh) -> T + Sync,
) -> Vec<T> {
    let (backend, work) = (&backend, &work);
    std::thread::scope(|scope| {
        let threads: Vec<_> = meshes(size)
            .into_iter()
            .map(|mut mesh| {
                scope.spawn(move || {
                    let llama = Llama::load_on(backend(), &model_directory(), mesh.rank, size);
                    work(&mut llama.unwrap(), &mut mesh)
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

/// One request that is decoded greedily.
pub(crate) struct Request {
    pub(crate) tokens: Vec<u32>,
    pub(crate) pages: Vec<u32>,
    pub(crate) done: usize,
}

impl Request {
    pub(crate) fn new(prompt: &[u32], pages: Vec<u32>) -> Self {
        Self { tokens: prompt.to_vec(), pages, done: 0 }
    }

    /// Has everything computed, and this token next.
    fn go_on(&mut self, token: u32) {
        self.done = self.tokens.len();
        self.tokens.push(token);
    }

    /// The row that computes everything not computed yet.
    pub(crate) fn row(&self) -> Row<'_> {
        Row { tokens: &self.tokens[self.done..], start: self.done, pages: &self.pages }
    }
}

/// One batch over all requests; appends each one's next token and returns the choices.
pub(crate) fn step<B: Backend>(
    llama: &mut Llama<B>,
    cache: &mut KvCache<B::Buffer>,
    requests: &mut [Request],
    group: &mut dyn AllReduce,
) -> Vec<Choice> {
    let rows: Vec<_> = requests.iter().map(Request::row).collect();
    let choices = llama.forward_with_margins(cache, &rows, group).unwrap();
    for (request, choice) in requests.iter_mut().zip(&choices) {
        request.go_on(choice.token);
    }
    choices
}

/// `count` page lists of `length` pages that share no page, interleaved and backwards.
pub(crate) fn scattered_pages(count: u32, length: u32) -> Vec<Vec<u32>> {
    (0..count).map(|row| (0..length).rev().map(|page| page * count + row).collect()).collect()
}

/// Requests of the first two reference prompts, their pages interleaved.
pub(crate) fn requests() -> Vec<Request> {
    let pages = scattered_pages(2, PAGES / 2);
    goldens().iter().zip(pages).map(|(golden, pages)| Request::new(&golden.prompt_ids, pages)).collect()
}

/// A row of each.
pub(crate) fn rows(requests: &[Request]) -> Vec<Row<'_>> {
    requests.iter().map(Request::row).collect()
}

/// Checks that ranks that share the vocabulary draw what is drawn from all logits together, in one row beside another that is not drawn.
pub(crate) fn check_draws<B: Backend>(llama: &mut Llama<B>, mesh: &mut Mesh) {
    let mut cache = llama.cache(PAGE_SIZE, PAGES as usize).unwrap();
    let logits = llama.logits(&mut cache, &rows(&requests()), mesh).unwrap();
    let (first, second) = logits.split_at(llama.config().vocabulary);
    let likeliest = Choice::of(second).unwrap().token;
    let mut drawn = BTreeSet::new();
    for index in 0..12 {
        let draw = Draw::new(5, 900, index).unwrap();
        let draws = [Some(draw), None];
        let found = llama.forward_drawing(&mut cache, &rows(&requests()), &draws, mesh).unwrap();
        assert_eq!(found, [draw.token(first).unwrap(), likeliest]);
        drawn.insert(found[0]);
    }
    assert!(drawn.len() > 1, "every draw is the same");
}

/// The requests of one forward after another: the same again, in another order, one alone, and one that comes back.
const ORDERS: [&[usize]; 6] = [&[0, 1], &[0, 1], &[1, 0], &[1, 0], &[1], &[0, 1]];

/// The draw of each of these requests' tokens.
fn draws_of(order: &[usize]) -> Vec<Option<Draw>> {
    order.iter().map(|request| Draw::new(3, 700, u32::from(*request == 1))).collect()
}

/// The tokens of each forward, one forward after another.
fn tokens_in_turn<B: Backend>(llama: &mut Llama<B>, mesh: &mut Mesh) -> Vec<Vec<u32>> {
    let (mut requests, mut found) = (requests(), Vec::new());
    let mut cache = llama.cache(PAGE_SIZE, PAGES as usize).unwrap();
    for order in ORDERS {
        let rows: Vec<_> = order.iter().map(|request| requests[*request].row()).collect();
        let tokens = llama.forward_drawing(&mut cache, &rows, &draws_of(order), mesh).unwrap();
        order.iter().zip(&tokens).for_each(|(request, token)| requests[*request].go_on(*token));
        found.push(tokens);
    }
    found
}

/// Checks that rows which go on from what the forward before chose do as those do that the host gives the token.
pub(crate) fn check_follows<B: Backend>(llama: &mut Llama<B>, mesh: &mut Mesh) {
    let expected = tokens_in_turn(llama, mesh);
    let (mut requests, mut flights) = (requests(), Vec::new());
    let mut cache = llama.cache(PAGE_SIZE, PAGES as usize).unwrap();
    for (step, order) in ORDERS.into_iter().enumerate() {
        let rows: Vec<_> = order.iter().map(|request| requests[*request].row()).collect();
        let before = step.checked_sub(1).map_or(&[][..], |before| ORDERS[before]);
        let place = |request: &usize| before.iter().position(|one| one == request);
        let follows: Vec<_> = order.iter().map(place).collect();
        let work = Step { rows: &rows, draws: &draws_of(order), follows: &follows };
        flights.push(llama.launch(&mut cache, work, mesh).unwrap());
        let next = ORDERS.get(step + 1).copied().unwrap_or_default();
        for (request, token) in order.iter().zip(&expected[step]) {
            // Nobody reads the token of a row that goes on from the forward before.
            requests[*request].go_on(if next.contains(request) { 0 } else { *token });
        }
    }
    let found = flights.iter_mut().map(|flight| llama.land(flight).unwrap().unwrap());
    assert_eq!(found.collect::<Vec<_>>(), expected);
}
