//! Decode forwards that are launched one behind the other while none of them can have run (a peer that has not come holds up the first),
//! beside forwards each of which waits until the one before has landed: tokens, and what lies between two forwards on the device.

use std::error::Error;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use lockstep_kernels::cuda::{Cuda, CudaError, Fence, Member};
use lockstep_runtime::engine::{
    Backend, CacheType, DeviceBackend, Flight, KvCache, Llama, OnDevices, Row, Step,
};
use lockstep_tests::golden::goldens_of;
use serde_json::{Value, json};

use crate::forwards::{PAGE_SIZE, PAGES};
use crate::group::{Place, await_file};

/// Decode forwards behind that of the prompts.
const FORWARDS: usize = 4;
/// How long a flight may take to land once nothing holds it up.
const PATIENCE: Duration = Duration::from_secs(30);

type OnDevice = Llama<DeviceBackend<Cuda>>;
type Cache = KvCache<<DeviceBackend<Cuda> as Backend>::Buffer>;

/// Forwards of the model's reference prompts, eagerly and as graphs, with and without overlap: launched one behind the other, where the
/// last rank of a group launches once the others have launched everything, and each once the one before has landed.
pub(crate) fn run(place: &Place, directory: &Path) -> Result<Value, Box<dyn Error>> {
    let Member { rank, size } = place.member;
    let backend = DeviceBackend::new(Cuda::open(place.device)?, CacheType::F32);
    let mut llama = Llama::load_on(backend, directory, rank, size)?;
    let shard = llama.shard();
    let mut group = OnDevices(shard);
    if size > 1 {
        llama.backend().join(&place.group()?.0, shard, PATIENCE)?;
    }
    let prompts: Vec<Vec<u32>> = goldens_of(directory).into_iter().map(|golden| golden.prompt_ids).collect();
    let mut cache = llama.cache(PAGE_SIZE, prompts.len() * PAGES)?;
    let mut found = Vec::new();
    for way in ["eager", "captured"] {
        if way == "captured" {
            llama.capture(&mut cache, prompts.len())?;
        }
        for overlap in [true, false] {
            let launched_file = |rank: usize| place.id.with_extension(format!("{way}-{overlap}-{rank}"));
            if overlap && place.is_last() {
                (0..rank).try_for_each(|other| await_file(&launched_file(other)))?;
            }
            let started = Instant::now();
            let mut launched = Vec::new();
            for forward in 0..=FORWARDS {
                let mut one = Launched::start(&mut llama, &mut cache, &mut group, (&prompts, forward))?;
                if !overlap {
                    one.await_landed(&mut llama)?;
                }
                launched.push(one);
            }
            let micros_to_launch = started.elapsed().as_micros();
            launched.iter_mut().try_for_each(|one| one.land(&mut llama))?;
            let in_the_air = launched.iter().filter(|one| one.tokens.is_none()).count();
            fs::write(launched_file(rank), "")?;
            launched.iter_mut().try_for_each(|one| one.await_landed(&mut llama))?;
            found.push(json!({
                "way": way,
                "overlap": overlap,
                "in_the_air": in_the_air,
                "tokens": launched.iter().map(|one| &one.tokens).collect::<Vec<_>>(),
                "micros_to_launch": micros_to_launch,
                "micros": started.elapsed().as_micros(),
                "step_micros": median_between(&launched, |before, one| one.end.since(&before.end))?,
                "gap_micros": median_between(&launched, |before, one| one.begin.since(&before.end))?,
            }));
        }
    }
    Ok(json!({ "forwards": 1 + FORWARDS, "found": found }))
}

/// A forward that was launched, and the places in the device's queue before and behind it.
struct Launched {
    flight: Flight<DeviceBackend<Cuda>>,
    begin: Fence,
    end: Fence,
    /// Once it has landed.
    tokens: Option<Vec<u32>>,
}

impl Launched {
    fn start(
        llama: &mut OnDevice,
        cache: &mut Cache,
        group: &mut OnDevices,
        forward: (&[Vec<u32>], usize),
    ) -> Result<Self, Box<dyn Error>> {
        let begin = llama.backend().device().fence()?;
        let flight = launch(llama, cache, group, forward)?;
        let end = llama.backend().device().fence()?;
        Ok(Self { flight, begin, end, tokens: None })
    }

    /// Takes its tokens if it has landed.
    fn land(&mut self, llama: &mut OnDevice) -> Result<(), Box<dyn Error>> {
        if self.tokens.is_none() {
            self.tokens = llama.land(&mut self.flight)?;
        }
        Ok(())
    }

    /// Until it has landed and the device has come to the place behind it.
    fn await_landed(&mut self, llama: &mut OnDevice) -> Result<(), Box<dyn Error>> {
        let started = Instant::now();
        while self.tokens.is_none() || !self.end.reached()? {
            if started.elapsed() > PATIENCE {
                return Err("a flight does not land".into());
            }
            self.land(llama)?;
        }
        Ok(())
    }
}

/// The median of a time between two decode forwards that follow one another, by the device's clock.
fn median_between(
    launched: &[Launched],
    time: impl Fn(&Launched, &Launched) -> Result<Option<Duration>, CudaError>,
) -> Result<f64, Box<dyn Error>> {
    let times = launched[1..].windows(2).map(|pair| Ok(time(&pair[0], &pair[1])?.ok_or("a fence is ahead")?));
    let mut times = times.collect::<Result<Vec<Duration>, Box<dyn Error>>>()?;
    times.sort();
    Ok(times[times.len() / 2].as_secs_f64() * 1e6)
}

/// Launches forward `forward`: of the prompts first, and then of what the forward before chose.
fn launch(
    llama: &mut OnDevice,
    cache: &mut Cache,
    group: &mut OnDevices,
    (prompts, forward): (&[Vec<u32>], usize),
) -> Result<Flight<DeviceBackend<Cuda>>, Box<dyn Error>> {
    let count = u32::try_from(prompts.len())?;
    let pages: Vec<Vec<u32>> =
        (0..count).map(|row| (0..).take(PAGES).map(|page| page * count + row).collect()).collect();
    let rows: Vec<Row<'_>> = prompts
        .iter()
        .zip(&pages)
        .map(|(prompt, pages)| match forward {
            0 => Row { tokens: prompt, start: 0, pages },
            _ => Row { tokens: &[0], start: prompt.len() + forward - 1, pages },
        })
        .collect();
    let follows: Vec<Option<usize>> = (0..rows.len()).map(|row| (forward > 0).then_some(row)).collect();
    Ok(llama.launch(cache, Step { rows: &rows, draws: &[], follows: &follows }, group)?)
}
