//! `sim`: random walks through a run's model, for what is too large to be exhausted.
//!
//! A swarm of seeds, each a walk of so many steps. What is found depends on the seeds alone, not on threads: what the seeds met is put
//! together in their order, and nothing after the first fault counts.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::thread::{self, available_parallelism};
use std::time::{Duration, Instant};

use crate::explain::Trace;
use crate::explore::{ExploreError, Wandered};
use crate::report::{Story, grouped};
use crate::runs::{Exit, Expect, Failure, Registry, Run, Sampled, Verdict, judge_fault};
use serde_json::json;

use super::Trouble;
use crate::cli::chance::Chance;
use crate::cli::files::examine_text;
use crate::cli::options::Effort;
use crate::cli::outputs::{Program, write_trace};
use crate::cli::watch::MemoryLimit;
use crate::screen::Screen;

/// What to walk through and how.
pub(crate) struct Sim {
    /// Name of the run.
    pub(crate) name: String,
    /// First seed.
    pub(crate) seed: u64,
    /// Number of seeds.
    pub(crate) seeds: u64,
    /// Steps of each seed.
    pub(crate) steps: u64,
    /// Whether to print JSON.
    pub(crate) json: bool,
    /// Where to write the counterexample.
    pub(crate) trace: Option<PathBuf>,
    /// How much it may cost.
    pub(crate) effort: Effort,
}

/// Walks through a run's model and judges what the walks meet.
pub(crate) fn sim(registry: &Registry, sim: &Sim) -> Result<Exit, Trouble> {
    let run = registry.named(std::slice::from_ref(&sim.name)).map_err(Trouble::Failure)?.swap_remove(0);
    sim.trace.as_deref().map_or(Ok(()), examine_text)?;
    let swarm = Swarm::walk(run, sim, sim.effort.memory_limit()?);
    if let Some(refused) = &swarm.refused {
        return Err(Trouble::Failure(Failure::new(Exit::Internal, format!("{} {refused}", run.name))));
    }
    let failure = judged(run, sim, &swarm).err();
    if sim.json {
        print_json(run, sim, &swarm, failure.as_ref())?;
    } else {
        print(registry, run, &swarm, (&said(sim, &swarm), failure.as_ref()))?;
    }
    if let Some(path) = &sim.trace {
        write_trace(
            (path, Program::Checker),
            swarm.trace(run, registry).as_ref(),
            (run.name, &said(sim, &swarm)),
        )?;
    }
    Ok(failure.map_or(Exit::Ok, |failure| failure.exit))
}

/// A fault is judged as `check` does; without one, only a swarm that did all that was asked for may pass.
fn judged(run: &Run, sim: &Sim, swarm: &Swarm) -> Result<(), Failure> {
    if let Some((_, Verdict::Fault { kind, property }, _)) = &swarm.fault {
        return judge_fault(*kind, property, run.expect);
    }
    if let Some(spent) = swarm.spent {
        let text = format!("no verdict: the budget of {spent} is spent; raise it or ask for fewer seeds");
        return Err(Failure::new(Exit::Budget, text));
    }
    match run.expect {
        Expect::Holds | Expect::Loses(_) | Expect::Moves(_) if swarm.met.steps > 0 => Ok(()),
        Expect::Holds | Expect::Loses(_) | Expect::Moves(_) => {
            Err(Failure::new(Exit::Vacuous, format!("no step was taken in {} seeds", sim.seeds)))
        }
        Expect::Violates(property) => {
            let text =
                format!("must violate `{property}`, and these walks do not; `check` tells whether it does");
            Err(Failure::new(Exit::NotFound, text))
        }
    }
}

/// What the walks show, never more than that.
fn said(sim: &Sim, swarm: &Swarm) -> String {
    let steps = grouped(swarm.met.steps);
    match &swarm.fault {
        Some((seed, verdict, _)) => format!("{} with seed {seed}", verdict.in_words()),
        None if swarm.done < sim.seeds => {
            format!("no violation in {steps} steps of {} of {} seeds", swarm.done, sim.seeds)
        }
        None => format!("no violation in {steps} steps of {} seeds", sim.seeds),
    }
}

fn print(
    registry: &Registry,
    run: &Run,
    swarm: &Swarm,
    (said, failure): (&str, Option<&Failure>),
) -> Result<(), Trouble> {
    let met = &swarm.met;
    let mut out = anstream::stdout().lock();
    writeln!(out, "{}: {said}", run.name)?;
    writeln!(
        out,
        "  {} distinct states, up to {} steps from the start; reached: {}",
        grouped(met.states.len() as u64),
        grouped(met.deepest),
        if met.reached.is_empty() { "nothing".to_owned() } else { names(met).join(", ") }
    )?;
    writeln!(out, "  Walks show faults, never their absence, and say nothing of progress.")?;
    if let Some(failure) = failure {
        writeln!(out, "  {} {}", run.name, failure.text)?;
    }
    drop(out);
    match &swarm.fault {
        Some((_, Verdict::Fault { property, .. }, story)) => {
            Ok(Screen::new(registry, false, true).show_story(property, story)?)
        }
        Some((_, Verdict::Holds | Verdict::Unknown(_) | Verdict::Vacuous { .. }, _)) | None => Ok(()),
    }
}

fn names(met: &Wandered) -> Vec<&str> {
    met.reached.iter().map(String::as_str).collect()
}

fn print_json(run: &Run, sim: &Sim, swarm: &Swarm, failure: Option<&Failure>) -> io::Result<()> {
    let met = &swarm.met;
    let fault = swarm.fault.as_ref();
    let line = json!({
        "run": run.name,
        "said": said(sim, swarm),
        "first_seed": sim.seed,
        "seeds": swarm.done,
        "seeds_asked": sim.seeds,
        "steps": met.steps,
        "distinct_states": met.states.len(),
        "deepest": met.deepest,
        "reached": names(met),
        "seed_of_fault": fault.map(|(seed, ..)| seed),
        "found": fault.map(|(_, verdict, _)| verdict),
        "story": fault.map(|(.., story)| story),
        "exit": failure.map_or(Exit::Ok, |failure| failure.exit).code(),
        "failure": failure.map(|failure| &failure.text),
    });
    writeln!(io::stdout(), "{line}")
}

/// What all seeds met, put together in their order.
#[derive(Default)]
struct Swarm {
    met: Wandered,
    /// Seeds that count.
    done: u64,
    fault: Option<(u64, Verdict, Story)>,
    refused: Option<ExploreError>,
    spent: Option<&'static str>,
    /// Seeds that are done before one ahead of them is.
    waiting: BTreeMap<u64, Sampled>,
    claimed: u64,
}

impl Swarm {
    fn walk(run: &Run, sim: &Sim, memory: Option<MemoryLimit>) -> Self {
        let swarm = Mutex::new(Self::default());
        let budget = Budget {
            started: Instant::now(),
            most: sim.effort.bounds.most_seconds,
            memory,
            states: sim.effort.bounds.most_states,
        };
        let cores = available_parallelism().map_or(1, usize::from);
        let threads = if sim.effort.bounds.threads == 0 { cores } else { sim.effort.bounds.threads };
        // Of its own, so that the lock is not held while a seed walks.
        let claim = || lock(&swarm).claim(sim.seeds, &budget);
        let work = || {
            while let Some(index) = claim() {
                let seed = sim.seed.wrapping_add(index);
                let mut chance = Chance::new(seed);
                let sampled = run.model.sample(sim.steps, &mut |ways| chance.below(ways));
                lock(&swarm).take(index, seed, sampled);
            }
        };
        thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
        swarm.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// The counterexample that was met first.
    fn trace(&self, run: &Run, registry: &Registry) -> Option<Trace> {
        let Some((_, Verdict::Fault { kind, property }, story)) = &self.fault else { return None };
        Some(Trace {
            run: run.name.to_owned(),
            params: run.params.clone(),
            spec: registry.spec_fingerprint.clone(),
            model: crate::FINGERPRINT.to_owned(),
            kind: *kind,
            property: property.clone(),
            sentence: registry.sentence(property).to_owned(),
            story: story.clone(),
        })
    }

    /// The next seed to walk with, by its place; `None` when all are claimed or nothing more counts.
    fn claim(&mut self, seeds: u64, budget: &Budget) -> Option<u64> {
        if self.claimed == seeds || self.fault.is_some() || self.refused.is_some() || self.spent.is_some() {
            return None;
        }
        self.spent = budget.spent(self.met.states.len() as u64);
        if self.spent.is_some() {
            return None;
        }
        self.claimed += 1;
        Some(self.claimed - 1)
    }

    fn take(&mut self, index: u64, seed: u64, sampled: Result<Sampled, ExploreError>) {
        match sampled {
            Ok(sampled) => drop(self.waiting.insert(index, sampled)),
            Err(refused) => self.refused = Some(refused),
        }
        let first = seed.wrapping_sub(index);
        while self.fault.is_none()
            && let Some(Sampled { wandered, fault }) = self.waiting.remove(&self.done)
        {
            self.met.merge(wandered);
            self.fault = fault.map(|(verdict, story)| (first.wrapping_add(self.done), verdict, story));
            self.done += 1;
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What the swarm may cost, looked at before each seed.
struct Budget {
    started: Instant,
    most: Option<u64>,
    memory: Option<MemoryLimit>,
    states: Option<u64>,
}

impl Budget {
    fn spent(&self, states: u64) -> Option<&'static str> {
        let late = self.most.is_some_and(|most| self.started.elapsed() > Duration::from_secs(most));
        let full = self
            .memory
            .as_ref()
            .is_some_and(|limit| limit.machine.memory().is_some_and(|memory| limit.is_spent(&memory, 0)));
        let many = self.states.is_some_and(|most| states > most);
        let budgets = [(late, "time"), (full, "memory"), (many, "states")];
        budgets.into_iter().find(|(spent, _)| *spent).map(|(_, name)| name)
    }
}
