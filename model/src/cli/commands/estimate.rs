//! `estimate`: how many states a run has, and what it takes, from a look at its beginning.

use std::io::{self, Write};
use std::time::Duration;

use crate::explore::{Settings, real, rounded};
use crate::report::grouped;
use crate::runs::{
    Exit, Failure, Foreseen, Levels, Manifest, Outcome, Places, Registry, Run, Verdict, widest_of,
};
use serde::Serialize;

use super::Trouble;
use crate::cli::options::Effort;
use crate::cli::watch::{Display, Watch};

/// Time to look for when nobody says how long.
const LOOK: Duration = Duration::from_secs(5);

/// Bytes that a search keeps of each state: its place in the tables (half empty when they are largest), its origin, its marks.
const BYTES_OF_STATE: f64 = 70.0;
/// Bytes that a search keeps of each step, and as many again while progress is judged.
const BYTES_OF_STEP: f64 = 12.0;
/// The share of all states that are whole in memory at the same time, where no recorded run says another.
const WIDEST: f64 = 0.08;

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
    most_seconds: Option<f64>,
    bytes: Option<u64>,
    most_bytes: Option<u64>,
    recorded_states: Option<u64>,
}

/// Looks at the beginning of a run and says what is likely of the whole.
pub(crate) fn estimate(
    registry: &Registry,
    places: &Places,
    (name, json, effort): (String, bool, Effort),
) -> Result<Exit, Trouble> {
    let run = registry.named(&[name]).map_err(Trouble::Failure)?.swap_remove(0);
    let (recorded, levels) = (recorded_states(run, places)?, Levels::read(&places.levels())?);
    let display = Display::unless(json);
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
    let look = Look { run, outcome: &outcome, grown: watch.grown(), levels: &levels };
    let estimate = Estimate::new(&look, recorded);
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

/// The beginning of a run, and what is known of others.
struct Look<'a> {
    run: &'a Run,
    outcome: &'a Outcome,
    /// Bytes by which the process grew meanwhile.
    grown: Option<u64>,
    levels: &'a Levels,
}

impl Look<'_> {
    fn is_whole(&self) -> bool {
        !matches!(self.outcome.verdict, Verdict::Unknown(_))
    }

    fn seen(&self) -> u64 {
        self.outcome.counts.unique
    }

    /// What is likely of the states. Those of the level that is being found are seen, too.
    fn foreseen(&self) -> Option<Foreseen> {
        let seen = self.seen();
        if self.is_whole() {
            return Some(Foreseen { least: seen, likely: seen, most: seen });
        }
        let Foreseen { least, likely, most } =
            self.levels.foresee(self.run.name, &self.outcome.scope.levels)?;
        Some(Foreseen { least: least.max(seen), likely: likely.max(seen), most: most.max(seen) })
    }

    /// Seconds for so many states, if it goes on as it began.
    fn seconds(&self, states: u64) -> f64 {
        self.outcome.elapsed.as_secs_f64() * real(states) / real(self.seen().max(1))
    }

    /// Bytes for so many states: what is kept of each, and the larger of what judging progress takes and the states that are whole. Those
    /// grow with the widest levels; what they took so far is never given back.
    fn bytes(&self, states: u64) -> Option<u64> {
        let counts = self.outcome.counts;
        let steps = BYTES_OF_STEP * real(counts.transitions) / real(self.seen().max(1));
        let kept = BYTES_OF_STATE + steps;
        let whole = (real(self.grown?) - kept * real(self.seen())).max(0.0);
        let widest = self.levels.widest(self.run.name).unwrap_or(WIDEST) * real(states);
        let wider = (widest / real(widest_of(&self.outcome.scope.levels).max(1))).max(1.0);
        Some(rounded(real(states) * kept + (real(states) * steps).max(whole * wider)))
    }
}

impl<'a> Estimate<'a> {
    fn new(look: &Look<'a>, recorded: Option<u64>) -> Self {
        let foreseen = look.foreseen();
        let [likely, most] = [|foreseen: Foreseen| foreseen.likely, |foreseen: Foreseen| foreseen.most]
            .map(|of| foreseen.map(of));
        Self {
            run: look.run.name,
            exact: look.is_whole(),
            seen: look.seen(),
            depth: look.outcome.counts.depth,
            looked_seconds: look.outcome.elapsed.as_secs_f64(),
            states: likely,
            least_states: foreseen.map(|foreseen| foreseen.least),
            most_states: most,
            seconds: likely.map(|states| look.seconds(states)),
            most_seconds: most.map(|states| look.seconds(states)),
            bytes: likely.and_then(|states| look.bytes(states)),
            most_bytes: most.and_then(|states| look.bytes(states)),
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
        self.lines().iter().try_for_each(|line| writeln!(out, "  {line}"))
    }

    fn lines(&self) -> Vec<String> {
        let mut lines = match (self.states, self.least_states, self.most_states) {
            (Some(states), ..) if self.exact => {
                vec![format!("states  {} exactly; the run ends here", grouped(states))]
            }
            (Some(states), Some(least), Some(most)) => {
                let [states, least, most] = [states, least, most].map(grouped);
                vec![format!("states  about {states}; four in five such runs had {least} to {most}")]
            }
            (..) => vec![self.nothing()],
        };
        lines.extend(self.seconds.zip(self.most_seconds).map(|(likely, most)| {
            format!("time    about {likely:.0} s here, or up to {most:.0} s, if it goes on as it began")
        }));
        lines.extend(self.bytes.zip(self.most_bytes).map(|(likely, most)| {
            format!("memory  about {} MiB, or up to {} MiB", grouped(likely >> 20), grouped(most >> 20))
        }));
        lines.extend(self.recorded_states.map(|states| format!("record  {} states", grouped(states))));
        if self.states.is_some() && !self.exact {
            lines.push(
                "An estimate is no verdict; `estimate --help` says how it is made and how often it is right."
                    .to_owned(),
            );
        }
        lines
    }

    fn nothing(&self) -> String {
        let seen = grouped(self.seen);
        format!(
            "no estimate: growth does not slow down yet, or no recorded run looked like this. At least {seen} states; look longer with --most-seconds"
        )
    }
}
