//! `mutate`: each fault put into the protocol, and what notices it.

use std::io::Write;

use crate::explore::Settings;
use crate::runs::{Exit, Expect, Failure, Performed, Purpose, Registry, Run, Tier};

use super::Trouble;

/// Performs the mutants of a tier, and fails if one survives.
pub(crate) fn mutate(registry: &Registry, tier: Tier, settings: &Settings) -> Result<Exit, Trouble> {
    let mutants: Vec<&Run> = registry.of_tier(tier).filter(|run| run.purpose == Purpose::Mutant).collect();
    let mut survivors = Vec::new();
    for run in mutants {
        let mut performed = Performed::new(run, settings, None);
        if let (None, Expect::Moves(shipped)) = (&performed.failure, run.expect) {
            performed.failure = unmoved(registry, &performed, shipped, settings)?;
        }
        show(&performed)?;
        survivors.extend(performed.failure.is_some().then_some(run.name));
    }
    if survivors.is_empty() {
        return Ok(Exit::Ok);
    }
    let text = format!("survivors, or killed by what must not notice them: {}", survivors.join(", "));
    Err(Trouble::Failure(Failure::new(Exit::NotFound, text)))
}

/// The failure of a mutant that has the states of the shipped rules.
fn unmoved(
    registry: &Registry,
    mutant: &Performed<'_>,
    shipped: &str,
    settings: &Settings,
) -> Result<Option<Failure>, Trouble> {
    let named = registry.named(&[shipped.to_owned()]).map_err(Trouble::Failure)?;
    let sound: Vec<_> = named.into_iter().map(|run| Performed::new(run, settings, None)).collect();
    let counts = |performed: &Performed<'_>| performed.outcome.as_ref().map(|outcome| outcome.counts);
    let same = sound.iter().any(|performed| counts(performed) == counts(mutant));
    Ok(same.then(|| Failure::new(Exit::NotFound, format!("has the states of `{shipped}`"))))
}

fn show(performed: &Performed<'_>) -> Result<(), Trouble> {
    let run = performed.run;
    let killed = match (&performed.failure, run.expect) {
        (Some(failure), _) => format!("SURVIVES: {}", failure.text),
        (None, Expect::Violates(property)) => format!("killed by {property}{}", steps(performed)),
        (None, Expect::Loses(situation)) => format!("killed by never reaching \"{situation}\""),
        (None, Expect::Moves(shipped)) => format!("killed by going other ways than {shipped}"),
        (None, Expect::Holds) => "harmless, as expected".to_owned(),
    };
    writeln!(anstream::stdout(), "{:<46}  {:<34}  {killed}", run.name, run.rule.unwrap_or(""))?;
    Ok(())
}

fn steps(performed: &Performed<'_>) -> String {
    let path = performed.outcome.as_ref().and_then(|outcome| outcome.path());
    path.map_or_else(String::new, |path| format!(" in {path} steps"))
}
