//! `mutate`: each fault put into the protocol, and what notices it.

use std::io::{self, Write};

use crate::explore::Settings;
use crate::runs::{Exit, Expect, Failure, Performed, Purpose, Registry, Run, Tier, Verdict};
use serde::Serialize;

use super::Trouble;

/// What became of a mutant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Fate {
    /// What must notice it does.
    Killed,
    /// Nothing notices it, or something else than must.
    Survived,
    /// No verdict: a budget was spent.
    Unknown,
    /// It could not be performed.
    Broken,
}

impl Fate {
    fn of(failure: Option<&Failure>) -> Self {
        match failure.map(|failure| failure.exit) {
            None | Some(Exit::Ok) => Self::Killed,
            Some(Exit::Budget) => Self::Unknown,
            Some(Exit::Internal | Exit::Usage) => Self::Broken,
            Some(
                Exit::Stuck
                | Exit::Safety
                | Exit::Liveness
                | Exit::Assertion
                | Exit::Vacuous
                | Exit::Moved
                | Exit::NotFound,
            ) => Self::Survived,
        }
    }

    /// The word for those of this fate, and the exit code that they ask for.
    const fn judged(self) -> (&'static str, Exit) {
        match self {
            Self::Killed => ("killed", Exit::Ok),
            Self::Survived => ("survivors, or killed by what must not notice them", Exit::NotFound),
            Self::Unknown => ("unknown, because a budget was spent", Exit::Budget),
            Self::Broken => ("not performed", Exit::Internal),
        }
    }
}

/// A mutant as JSON.
#[derive(Serialize)]
struct Line<'a> {
    run: &'a str,
    rule: Option<&'a str>,
    fate: Fate,
    said: String,
    steps: Option<u32>,
}

/// Performs the mutants of a tier, and fails if one is not killed by what must notice it.
pub(crate) fn mutate(
    registry: &Registry,
    tier: Tier,
    json: bool,
    settings: &Settings,
) -> Result<Exit, Trouble> {
    let mutants: Vec<&Run> = registry.of_tier(tier).filter(|run| run.purpose == Purpose::Mutant).collect();
    let mut fates = Vec::new();
    for run in mutants {
        let mut performed = Performed::new(run, settings, None);
        if let (None, Expect::Moves(shipped)) = (&performed.failure, run.expect) {
            performed.failure = unmoved(registry, &performed, shipped, settings)?;
        }
        let fate = Fate::of(performed.failure.as_ref());
        show(&performed, fate, json)?;
        fates.push((run.name, fate));
    }
    // What is known to survive outweighs what is not known.
    let bad = [Fate::Broken, Fate::Survived, Fate::Unknown];
    let failures: Vec<Failure> = bad.into_iter().filter_map(|fate| failure(fate, &fates)).collect();
    let Some(exit) = failures.first().map(|failure| failure.exit) else { return Ok(Exit::Ok) };
    let texts: Vec<&str> = failures.iter().map(|failure| failure.text.as_str()).collect();
    Err(Trouble::Failure(Failure::new(exit, texts.join("; "))))
}

/// What is to be said of all mutants of this fate; nothing if there is none.
fn failure(fate: Fate, fates: &[(&str, Fate)]) -> Option<Failure> {
    let names: Vec<&str> = fates.iter().filter(|(_, other)| *other == fate).map(|(name, _)| *name).collect();
    let (word, exit) = fate.judged();
    (!names.is_empty()).then(|| Failure::new(exit, format!("{word}: {}", names.join(", "))))
}

/// The failure of a mutant that has the states of the shipped rules, or of which that is not known.
fn unmoved(
    registry: &Registry,
    mutant: &Performed<'_>,
    shipped: &str,
    settings: &Settings,
) -> Result<Option<Failure>, Trouble> {
    let named = registry.named(&[shipped.to_owned()]).map_err(Trouble::Failure)?;
    let sound: Vec<_> = named.into_iter().map(|run| Performed::new(run, settings, None)).collect();
    let given_up = |performed: &Performed<'_>| {
        performed.outcome.as_ref().is_none_or(|outcome| matches!(outcome.verdict, Verdict::Unknown(_)))
    };
    if sound.iter().any(given_up) {
        let text = format!("no verdict on `{shipped}`, with which it is compared: the budget is spent");
        return Ok(Some(Failure::new(Exit::Budget, text)));
    }
    let counts = |performed: &Performed<'_>| performed.outcome.as_ref().map(|outcome| outcome.counts);
    let same = sound.iter().any(|performed| counts(performed) == counts(mutant));
    Ok(same.then(|| Failure::new(Exit::NotFound, format!("has the states of `{shipped}`"))))
}

fn show(performed: &Performed<'_>, fate: Fate, json: bool) -> Result<(), Trouble> {
    let (run, said) = (performed.run, said(performed, fate));
    if json {
        let steps = performed.outcome.as_ref().and_then(|outcome| outcome.path());
        let line = Line { run: run.name, rule: run.rule, fate, said, steps };
        writeln!(io::stdout(), "{}", serde_json::to_string(&line).map_err(io::Error::from)?)?;
    } else {
        writeln!(anstream::stdout(), "{:<46}  {:<34}  {said}", run.name, run.rule.unwrap_or(""))?;
    }
    Ok(())
}

fn said(performed: &Performed<'_>, fate: Fate) -> String {
    match (&performed.failure, performed.run.expect) {
        (Some(failure), _) => match fate {
            Fate::Unknown => format!("unknown: {}", failure.text),
            Fate::Broken => format!("not performed: {}", failure.text),
            Fate::Survived | Fate::Killed => format!("SURVIVES: {}", failure.text),
        },
        (None, Expect::Violates(property)) => format!("killed by {property}{}", steps(performed)),
        (None, Expect::Loses(situation)) => format!("killed by never reaching \"{situation}\""),
        (None, Expect::Moves(shipped)) => format!("killed by going other ways than {shipped}"),
        (None, Expect::Holds) => "harmless, as expected".to_owned(),
    }
}

fn steps(performed: &Performed<'_>) -> String {
    let path = performed.outcome.as_ref().and_then(|outcome| outcome.path());
    path.map_or_else(String::new, |path| format!(" in {path} steps"))
}
