//! One rank of a group that exists for a scenario. The first rank writes the group's id to a file; the others read it there.

use std::error::Error;
use std::fs;
use std::num::ParseIntError;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use lockstep_kernels::cuda::{Communicator, Cuda, CudaBuffer, CudaError, GroupId, Member, Watch};
use lockstep_kernels::{Device, Element, Reduction};
use serde_json::{Value, json};

/// Rounds of a measurement, and words of its vote.
const ROUNDS: usize = 200;
const WORDS: usize = 64;
/// Words of more than the driver takes over at once.
const LONG: usize = 40_000;
/// How long ranks wait for each other where nobody is to fail.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long they wait for one that will not come.
const SHORT: Duration = Duration::from_millis(300);
/// How long an abort may take.
const ABORT: Duration = Duration::from_secs(1);
/// The collective that the last rank does not enter, where one is skipped.
const SKIPPED: u64 = 3;

/// Who this process is, and how the group finds itself.
pub(crate) struct Place {
    pub(crate) device: usize,
    pub(crate) member: Member,
    /// The file of the group's id; others of the group lie beside it.
    pub(crate) id: PathBuf,
    scenario: String,
}

impl Place {
    /// Of `<device> <rank> <size> <id's file> <scenario>`.
    pub(crate) fn parse(numbers: [&str; 3], id: &str, scenario: &str) -> Result<Self, ParseIntError> {
        let [device, rank, size] = numbers.map(str::parse);
        let member = Member { rank: rank?, size: size? };
        Ok(Self { device: device?, member, id: id.into(), scenario: scenario.to_owned() })
    }

    /// The same in another group, whose id lies beside.
    pub(crate) fn beside(&self, name: &str) -> Self {
        Self { id: self.id.with_extension(name), scenario: self.scenario.clone(), ..*self }
    }

    pub(crate) fn is_last(&self) -> bool {
        self.member.rank + 1 == self.member.size
    }

    pub(crate) fn group(&self) -> Result<GroupId, Box<dyn Error>> {
        if self.member.rank == 0 {
            let id = GroupId::new()?;
            let fresh = self.id.with_extension("fresh");
            fs::write(&fresh, id.0)?;
            fs::rename(fresh, &self.id)?;
            return Ok(id);
        }
        await_file(&self.id)?;
        Ok(GroupId(fs::read(&self.id)?.try_into().map_err(|_| "the file holds no id of a group")?))
    }
}

/// Until the file is there.
pub(crate) fn await_file(path: &Path) -> Result<(), Box<dyn Error>> {
    let start = Instant::now();
    while !path.exists() {
        if start.elapsed() > PATIENCE {
            return Err(format!("nobody writes {}", path.display()).into());
        }
        thread::sleep(Duration::from_millis(2));
    }
    Ok(())
}

/// Plays the scenario; what the rank found.
pub(crate) fn run(place: &Place) -> Result<Value, Box<dyn Error>> {
    let mut cuda = Cuda::open(place.device)?;
    let lonely = ["alone", "first"].contains(&place.scenario.as_str());
    let patience = if lonely { SHORT } else { PATIENCE };
    let communicator = Communicator::join(&cuda, &place.group()?, place.member, patience)?;
    match place.scenario.as_str() {
        "reduce" => reduce(&mut cuda, communicator),
        "skip" => skip(&mut cuda, communicator, place.is_last()),
        "first" => first(&mut cuda, communicator, place.is_last()),
        "hang" => hang(&mut cuda, communicator, place.is_last()),
        "mismatch" => mismatch(&mut cuda, communicator, place.is_last()),
        "graph" => graph(&mut cuda, communicator),
        "graph-skip" => graph_skip(&mut cuda, communicator, place.is_last()),
        "fence" => fence(&mut cuda, communicator, place),
        "latency" => latency(&mut cuda, communicator),
        "die" => die(&mut cuda, communicator, place.is_last()),
        other => Err(format!("no scenario {other}").into()),
    }
}

/// Collectives of every kind and of sizes that need several pieces; the ranks' inputs differ.
fn reduce(cuda: &mut Cuda, mut communicator: Communicator) -> Result<Value, Box<dyn Error>> {
    let Member { rank, size } = communicator.watch().member();
    let rank = u32::try_from(rank)?;
    let mut sums = Vec::new();
    for length in [1, 1000, 40_000] {
        let mut buffer =
            cuda.upload(&(0..length).map(|index| (index % 7 + rank) as f32).collect::<Vec<_>>())?;
        communicator.all_reduce(Reduction::Sum, &mut buffer)?;
        communicator.wait(PATIENCE)?;
        let found = cuda.download::<f32>(&buffer)?;
        sums.push(json!([found[0], found[found.len() - 1], found.iter().sum::<f32>()]));
    }
    let halves = [1.0f32, 2.5].map(|number| ((number + rank as f32).to_bits() >> 16) as u16);
    let mut narrow = cuda.upload_bytes(Element::Bf16, &halves.map(u16::to_le_bytes).concat())?;
    let mut votes = cuda.upload(&[u64::MAX - u64::from(rank), 5 + u64::from(rank), 0])?;
    let mut word = cuda.upload(&[rank + 40])?;
    communicator.all_reduce(Reduction::Sum, &mut narrow)?;
    communicator.all_reduce(Reduction::Min, &mut votes)?;
    let entered = communicator.broadcast(size - 1, &mut word)?;
    communicator.wait(PATIENCE)?;
    let answer = json!({
        "sums": sums,
        "narrow": cuda.download_bytes(&narrow)?,
        "votes": cuda.download::<u64>(&votes)?,
        "word": cuda.download::<u32>(&word)?,
        "entered": entered,
    });
    communicator.finish(PATIENCE)?;
    Ok(answer)
}

/// The last rank goes on without entering a collective. The others' own deadline notices, and they abort.
fn skip(cuda: &mut Cuda, mut communicator: Communicator, last: bool) -> Result<Value, Box<dyn Error>> {
    let mut votes = cuda.upload(&[1u64; 8])?;
    let stuck = loop {
        if last && communicator.watch().entered() + 1 == SKIPPED {
            thread::sleep(3 * SHORT);
            return Ok(json!({ "skipped": SKIPPED }));
        }
        let entered = communicator.all_reduce(Reduction::Min, &mut votes)?;
        if let Err(stuck) = communicator.wait(if entered == SKIPPED { SHORT } else { PATIENCE }) {
            break stuck;
        }
    };
    let start = Instant::now();
    communicator.watch().abort(ABORT)?;
    // The stream goes on, so the device can be asked again.
    let free = cuda.download::<u64>(&votes).is_ok();
    let after = communicator.all_reduce(Reduction::Min, &mut votes).err().map(|error| error.to_string());
    Ok(json!({
        "stuck": stuck.to_string(),
        "aborted_within_limit": start.elapsed() < ABORT,
        "free": free,
        "after": after,
    }))
}

/// The last rank enters nothing at all, so that the others do not even connect.
fn first(cuda: &mut Cuda, mut communicator: Communicator, last: bool) -> Result<Value, Box<dyn Error>> {
    let mut votes = cuda.upload(&[1u64; 8])?;
    if last {
        thread::sleep(3 * SHORT);
        return Ok(json!({}));
    }
    let error = communicator.all_reduce(Reduction::Min, &mut votes).err().map(|error| error.to_string());
    communicator.watch().abort(ABORT)?;
    Ok(json!({ "error": error, "freed": cuda.download::<u64>(&votes).is_ok() }))
}

/// The last rank enters no second collective; the others' thread hangs in a download, and a watchdog frees it.
fn hang(cuda: &mut Cuda, mut communicator: Communicator, last: bool) -> Result<Value, Box<dyn Error>> {
    let mut votes = cuda.upload(&[1u64; 8])?;
    communicator.all_reduce(Reduction::Min, &mut votes)?;
    communicator.wait(PATIENCE)?;
    if last {
        thread::sleep(3 * SHORT);
        return Ok(json!({}));
    }
    communicator.all_reduce(Reduction::Min, &mut votes)?;
    let watch = communicator.watch();
    let watchdog = thread::spawn(move || bark(&watch));
    let freed = cuda.download::<u64>(&votes).is_ok();
    let barked = watchdog.join().map_err(|_| "the watchdog panicked")?;
    Ok(json!({
        "barked": barked,
        "freed": freed,
        "check": communicator.check().err().map(|error| error.to_string()),
        // The stream has ended, but with void results.
        "wait": communicator.wait(PATIENCE).err().map(|error| error.to_string()),
    }))
}

/// Waits until the collectives have had their time, and aborts.
fn bark(watch: &Watch) -> Value {
    thread::sleep(SHORT);
    let aborted = watch.abort(ABORT);
    json!({ "entered": watch.entered(), "error": aborted.err().map(|error| error.to_string()) })
}

/// The last rank asks for another reduction than the others.
fn mismatch(cuda: &mut Cuda, mut communicator: Communicator, last: bool) -> Result<Value, Box<dyn Error>> {
    let mut votes = cuda.upload(&[1u64; 8])?;
    let reduction = if last { Reduction::Sum } else { Reduction::Min };
    // Whether the call or the wait notices depends on when the other rank comes.
    let entered = communicator.all_reduce(reduction, &mut votes);
    let error = entered.and_then(|_| communicator.wait(PATIENCE)).err().map(|error| error.to_string());
    Ok(json!({ "error": error }))
}

/// The last rank is gone after the first collective.
fn die(cuda: &mut Cuda, mut communicator: Communicator, last: bool) -> Result<Value, Box<dyn Error>> {
    let mut votes: CudaBuffer = cuda.upload(&[1u64; 8])?;
    communicator.all_reduce(Reduction::Min, &mut votes)?;
    communicator.wait(PATIENCE)?;
    if last {
        std::process::abort();
    }
    communicator.all_reduce(Reduction::Min, &mut votes)?;
    let error = communicator.wait(SHORT).err().map(|error| error.to_string());
    Ok(json!({ "error": error }))
}

/// A graph with a collective, replayed while its input changes.
fn graph(cuda: &mut Cuda, mut communicator: Communicator) -> Result<Value, Box<dyn Error>> {
    let rank = u64::try_from(communicator.watch().member().rank)?;
    let mut votes = cuda.upload(&[0u64; 2])?;
    // What a collective sets up when it is the first of its communicator is not to be captured.
    communicator.all_reduce(Reduction::Min, &mut votes)?;
    communicator.wait(PATIENCE)?;
    let graph = cuda.capture(|_| enter(&mut communicator, &mut votes, 1))?;
    let mut found = Vec::new();
    for step in 1..=3 {
        cuda.overwrite(&mut votes, &[10 * step + rank, 100 - rank])?;
        cuda.replay(&graph)?;
        communicator.wait(PATIENCE)?;
        found.push(cuda.download::<u64>(&votes)?);
    }
    let entered = communicator.watch().entered();
    let early = communicator.finish(PATIENCE).err().map(|error| error.to_string());
    let void = cuda.replay(&graph).err().map(|error| error.to_string());
    Ok(json!({ "found": found, "entered": entered, "early": early, "void": void }))
}

fn enter(communicator: &mut Communicator, votes: &mut CudaBuffer, times: u32) -> Result<(), CudaError> {
    for _ in 0..times {
        communicator.all_reduce(Reduction::Min, votes)?;
    }
    Ok(())
}

/// The last rank replays a graph of four collectives once less than the others.
fn graph_skip(cuda: &mut Cuda, mut communicator: Communicator, last: bool) -> Result<Value, Box<dyn Error>> {
    let mut votes = cuda.upload(&[0u64; 2])?;
    let graph = cuda.capture(|_| enter(&mut communicator, &mut votes, 4))?;
    cuda.replay(&graph)?;
    communicator.wait(PATIENCE)?;
    if last {
        thread::sleep(3 * SHORT);
        return Ok(json!({}));
    }
    cuda.replay(&graph)?;
    let stuck = communicator.wait(SHORT).err().map(|error| error.to_string());
    communicator.watch().abort(ABORT)?;
    let void = cuda.replay(&graph).err().map(|error| error.to_string());
    Ok(json!({ "stuck": stuck, "void": void }))
}

/// A fence behind a collective that the last rank enters once another has looked, and the same fence once more.
fn fence(cuda: &mut Cuda, mut communicator: Communicator, place: &Place) -> Result<Value, Box<dyn Error>> {
    let mut votes = cuda.upload(&[0u64; 2])?;
    // Ranks connect in their first collective: they leave it together.
    communicator.all_reduce(Reduction::Min, &mut votes)?;
    let mut fence = cuda.fence()?;
    communicator.wait(PATIENCE)?;
    let mut seen = vec![fence.reached()?];
    for looked in ["first", "second"].map(|round| place.id.with_extension(round)) {
        if place.is_last() {
            await_file(&looked)?;
        }
        communicator.all_reduce(Reduction::Min, &mut votes)?;
        // Returns although the device has not come to it.
        cuda.upload(&vec![0u64; LONG])?;
        cuda.renew(&mut fence)?;
        seen.push(fence.reached()?);
        fs::write(looked, "")?;
        communicator.wait(PATIENCE)?;
        seen.push(fence.reached()?);
    }
    Ok(json!({ "seen": seen }))
}

/// The vote in the device's stream: how long a rank waits for one, by itself and as a graph.
fn latency(cuda: &mut Cuda, mut communicator: Communicator) -> Result<Value, Box<dyn Error>> {
    let mut votes = cuda.upload(&[1u64; WORDS])?;
    communicator.all_reduce(Reduction::Min, &mut votes)?;
    communicator.wait(PATIENCE)?;
    let graph = cuda.capture(|_| enter(&mut communicator, &mut votes, 1))?;
    let eager = median_micros(|| {
        communicator.all_reduce(Reduction::Min, &mut votes)?;
        Ok(communicator.wait(PATIENCE)?)
    })?;
    let replayed = median_micros(|| {
        cuda.replay(&graph)?;
        Ok(communicator.wait(PATIENCE)?)
    })?;
    drop(graph);
    communicator.finish(PATIENCE)?;
    Ok(json!({ "words": WORDS, "rounds": ROUNDS, "eager_us": eager, "graph_us": replayed }))
}

fn median_micros(mut round: impl FnMut() -> Result<(), CudaError>) -> Result<f64, CudaError> {
    let mut times = Vec::new();
    for _ in 0..ROUNDS {
        let start = Instant::now();
        round()?;
        times.push(start.elapsed());
    }
    times.sort();
    Ok(times[ROUNDS / 2].as_secs_f64() * 1e6)
}
