//! `estimate`: how many states a run has, and what it takes, from a look at its beginning.

use std::io::{self, Write};
use std::time::Duration;

use crate::explore::{Forecast, Settings, forecast};
use crate::report::grouped;
use crate::runs::{Exit, Failure, Manifest, Outcome, Places, Registry, Run, Verdict};
use serde::Serialize;

use super::Trouble;
use crate::cli::options::Effort;
use crate::cli::watch::{Display, Watch};

/// Time to look for when nobody says how long.
const LOOK: Duration = Duration::from_secs(5);

/// What is likely of a run.
#[derive(Debug, Serialize)]
struct Estimate<'a> {
    run: &'a str,
    /// Whether the numbers are exact, because the look came to the end of the run.
    exact: bool,
    seen: u64,
    depth: u32,
    looked_seconds: f64,
    states: Option<u64>,
    least_states: Option<u64>,
    most_states: Option<u64>,
    seconds: Option<f64>,
    bytes: Option<u64>,
    recorded_states: Option<u64>,
}

/// Looks at the beginning of a run and says what is likely of the whole.
pub(crate) fn estimate(
    registry: &Registry,
    places: &Places,
    (name, json, effort): (String, bool, Effort),
) -> Result<Exit, Trouble> {
    let run = registry.named(&[name]).map_err(Trouble::Failure)?.swap_remove(0);
    let recorded = recorded_states(run, places)?;
    let display = if json { Display::Nothing } else { Display::of_stderr() };
    let watch = Watch::new(run.name, None, effort.memory_limit()?, display);
    let mut settings = Settings { observer: Some(&watch), ..effort.into() };
    if settings.most_states.is_none() {
        settings.most_time.get_or_insert(LOOK);
    }
    let outcome = run.model.run(&settings);
    watch.clear();
    let outcome = outcome.map_err(|refused| {
        Trouble::Failure(Failure::new(Exit::Internal, format!("{name} {refused}", name = run.name)))
    })?;
    let estimate = Estimate::new(run, &outcome, watch.grown(), recorded);
    if json {
        estimate.print_json()?
    } else {
        estimate.print()?
    }
    Ok(if estimate.states.is_some() { Exit::Ok } else { Exit::Budget })
}

/// States recorded of the run, if there is a manifest.
fn recorded_states(run: &Run, places: &Places) -> Result<Option<u64>, Trouble> {
    let manifest =
        if places.manifest.exists() { Manifest::read(&places.manifest)? } else { Manifest::default() };
    Ok(manifest.find(run.name).map(|record| record.unique))
}

impl<'a> Estimate<'a> {
    fn new(run: &'a Run, outcome: &Outcome, grown: Option<u64>, recorded: Option<u64>) -> Self {
        let exact = !matches!(outcome.verdict, Verdict::Unknown(_));
        let seen = outcome.counts.unique;
        let whole = Forecast { seen, states: seen, factor: 1.0 };
        let forecast = if exact { Some(whole) } else { forecast(&outcome.scope.levels) };
        let states = forecast.map(|forecast| forecast.states.max(seen));
        let share = states.map(|states| ratio(states, seen));
        let looked_seconds = outcome.elapsed.as_secs_f64();
        Self {
            run: run.name,
            exact,
            seen,
            depth: outcome.counts.depth,
            looked_seconds,
            states,
            least_states: forecast.map(|forecast| forecast.least().max(seen)),
            most_states: forecast.map(|forecast| forecast.most()),
            seconds: share.map(|share| share * looked_seconds),
            bytes: states.zip(grown).map(|(states, grown)| scaled(grown, states, seen)),
            recorded_states: recorded,
        }
    }

    fn print_json(&self) -> io::Result<()> {
        writeln!(io::stdout(), "{}", serde_json::to_string(self)?)
    }

    fn print(&self) -> io::Result<()> {
        let mut out = anstream::stdout().lock();
        let (seen, depth) = (grouped(self.seen), self.depth);
        let end = if self.exact { "the end of the run" } else { "its beginning" };
        writeln!(out, "{}: {end}: {seen} states, depth {depth}, in {:.1} s", self.run, self.looked_seconds)?;
        let (Some(states), Some(least), Some(most)) = (self.states, self.least_states, self.most_states)
        else {
            writeln!(
                out,
                "  no estimate: growth does not slow down yet. At least {seen} states; look longer with --most-seconds"
            )?;
            return self.print_recorded(&mut out);
        };
        if self.exact {
            writeln!(out, "  states  {} exactly; the run ends here", grouped(states))?;
        } else {
            writeln!(
                out,
                "  states  about {}, likely {} to {}",
                grouped(states),
                grouped(least),
                grouped(most)
            )?;
        }
        if let Some(seconds) = self.seconds {
            writeln!(out, "  time    about {seconds:.0} s here, if it goes on as it began")?;
        }
        if let Some(bytes) = self.bytes {
            writeln!(out, "  memory  about {} MiB", grouped(bytes >> 20))?;
        }
        self.print_recorded(&mut out)?;
        if !self.exact {
            writeln!(
                out,
                "  The line through the growth of levels says so. For the beginnings of recorded runs, three in four of such\n  ranges held; the others were wrong, mostly too low. An estimate is no verdict."
            )?;
        }
        Ok(())
    }

    fn print_recorded(&self, out: &mut impl Write) -> io::Result<()> {
        self.recorded_states.map_or(Ok(()), |states| writeln!(out, "  record  {} states", grouped(states)))
    }
}

fn scaled(bytes: u64, states: u64, seen: u64) -> u64 {
    u64::try_from(u128::from(bytes) * u128::from(states) / u128::from(seen.max(1))).unwrap_or(u64::MAX)
}

#[expect(clippy::cast_precision_loss, reason = "an estimate")]
fn ratio(states: u64, seen: u64) -> f64 {
    states as f64 / seen.max(1) as f64
}
