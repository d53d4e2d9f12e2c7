//! Decode forwards that are launched one behind the other while none of them can have run: a peer that has not come holds up the first.

use std::error::Error;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use lockstep_kernels::cuda::{Cuda, Member};
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

/// Forwards of the model's reference prompts, launched ahead one by one and as graphs. The last rank of a group launches once the others
/// have launched everything.
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
        let launched_file = |rank: usize| place.id.with_extension(format!("{way}-{rank}"));
        let mut flights = Vec::new();
        if place.is_last() {
            (0..rank).try_for_each(|other| await_file(&launched_file(other)))?;
        }
        let started = Instant::now();
        for forward in 0..=FORWARDS {
            flights.push(launch(&mut llama, &mut cache, &mut group, (&prompts, forward))?);
        }
        let launched = started.elapsed();
        let early = flights.iter_mut().map(|flight| llama.land(flight)).collect::<Result<Vec<_>, _>>()?;
        let in_the_air = early.iter().filter(|landed| landed.is_none()).count();
        fs::write(launched_file(rank), "")?;
        let tokens = land_all(&mut llama, flights, early)?;
        found.push(json!({
            "way": way,
            "in_the_air": in_the_air,
            "tokens": tokens,
            "micros_to_launch": launched.as_micros(),
            "micros": started.elapsed().as_micros(),
        }));
    }
    Ok(json!({ "forwards": 1 + FORWARDS, "found": found }))
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

/// The tokens of every flight, by forward.
fn land_all(
    llama: &mut OnDevice,
    flights: Vec<Flight<DeviceBackend<Cuda>>>,
    early: Vec<Option<Vec<u32>>>,
) -> Result<Vec<Vec<u32>>, Box<dyn Error>> {
    let started = Instant::now();
    let mut tokens = Vec::new();
    for (mut flight, mut landed) in flights.into_iter().zip(early) {
        while landed.is_none() && started.elapsed() < PATIENCE {
            landed = llama.land(&mut flight)?;
        }
        tokens.push(landed.ok_or("a flight does not land")?);
    }
    Ok(tokens)
}
