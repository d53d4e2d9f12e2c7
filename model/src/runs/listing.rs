//! The registry as a whole: the runs, the documents of their properties, and what must be true of them together.

use super::judge::Failure;
use super::manifest::Manifest;
use super::outcome::Exit;
use super::run::{Expect, PropertyDoc, Run, Tier};
use super::runner::ASSERTION;

/// Most runs that are named where a name is not known.
const MOST_LIKE: usize = 4;

/// Every run, and what is said about them in documents.
pub struct Registry {
    /// The runs, in the order in which they are performed.
    pub runs: Vec<Run>,
    /// The properties, in the order in which they are documented.
    pub properties: Vec<PropertyDoc>,
    /// What no run covers, one sentence each.
    pub not_covered: Vec<&'static str>,
    /// Rules that no mutant breaks, each with the reason.
    pub unbroken: Vec<(&'static str, &'static str)>,
    /// Fingerprint of the specification that is checked.
    pub spec_fingerprint: String,
}

impl Registry {
    /// The runs of `tier` and the tiers before it.
    pub fn of_tier(&self, tier: Tier) -> impl Iterator<Item = &Run> {
        self.runs.iter().filter(move |run| run.tier <= tier)
    }

    /// The runs called `names`, in that order.
    ///
    /// # Errors
    /// A usage [`Failure`] for the first name that no run has.
    pub fn named(&self, names: &[String]) -> Result<Vec<&Run>, Failure> {
        let unknown = |name: &String| {
            let like = self.like(name);
            Failure::new(
                Exit::Usage,
                format!("no run is called `{name}`{like}; `lockstep-check list` shows them all"),
            )
        };
        names
            .iter()
            .map(|name| self.runs.iter().find(|run| run.name == name).ok_or_else(|| unknown(name)))
            .collect()
    }

    /// Some runs in whose names all words of `name` are, as a part of a sentence; nothing if there are none.
    fn like(&self, name: &str) -> String {
        let words: Vec<&str> = name.split('-').filter(|word| !word.is_empty()).collect();
        let has_all = |run: &str| !words.is_empty() && words.iter().all(|word| run.contains(word));
        let like: Vec<&str> = self.runs.iter().map(|run| run.name).filter(|run| has_all(run)).collect();
        let named = &like[..like.len().min(MOST_LIKE)];
        match like.len() {
            0 => String::new(),
            1..=MOST_LIKE => format!(", but {}", named.join(", ")),
            all => format!(", but {} and {} more", named.join(", "), all - named.len()),
        }
    }

    /// What property `id` says; empty if it is not documented.
    #[must_use]
    pub fn sentence(&self, id: &str) -> &'static str {
        self.properties.iter().find(|property| property.id == id).map_or("", |property| property.sentence)
    }

    /// The runs that must violate property `id`.
    pub fn breaking(&self, id: &str) -> impl Iterator<Item = &Run> {
        self.runs.iter().filter(move |run| matches!(run.expect, Expect::Violates(property) if property == id))
    }

    /// Checks what must be true of the runs together, and of the manifest's entries.
    ///
    /// # Errors
    /// The first [`Failure`]: a name used twice, a property without document, a property that no run breaks, or an
    /// entry without run.
    pub fn validate(&self, manifest: &Manifest) -> Result<(), Failure> {
        let twice =
            |(index, run): (usize, &Run)| self.runs[..index].iter().any(|other| other.name == run.name);
        if let Some((_, run)) = self.runs.iter().enumerate().find(|(index, run)| twice((*index, run))) {
            return Err(Failure::new(
                Exit::Internal,
                format!("two runs are called `{}`; rename one", run.name),
            ));
        }
        self.all_documented()?;
        self.all_moved(manifest)?;
        if let Some(property) =
            self.properties.iter().find(|property| self.breaking(property.id).next().is_none())
        {
            let text =
                format!("no run breaks property `{}`: add a mutant or a hazard that does", property.id);
            return Err(Failure::new(Exit::Vacuous, text));
        }
        match manifest.records.iter().find(|record| self.runs.iter().all(|run| run.name != record.name)) {
            Some(record) => {
                let text = format!(
                    "runs.toml lists `{}`, which is no run; run `lockstep-check record`",
                    record.name
                );
                Err(Failure::new(Exit::Moved, text))
            }
            None => Ok(()),
        }
    }

    /// A fault that changes nothing is not noticed.
    fn all_moved(&self, manifest: &Manifest) -> Result<(), Failure> {
        let unmoved = |run: &&Run| match run.expect {
            Expect::Holds | Expect::Loses(_) | Expect::Violates(_) => false,
            Expect::Moves(shipped) => {
                let size = |name| manifest.find(name).map(|record| (record.unique, record.transitions));
                size(run.name).is_some() && size(run.name) == size(shipped)
            }
        };
        match self.runs.iter().find(unmoved) {
            Some(run) => Err(Failure::new(
                Exit::NotFound,
                format!(
                    "`{}` has the states of the shipped rules: the fault put in changes nothing",
                    run.name
                ),
            )),
            None => Ok(()),
        }
    }

    fn all_documented(&self) -> Result<(), Failure> {
        let expected = |run: &Run| match run.expect {
            Expect::Holds | Expect::Loses(_) | Expect::Moves(_) => None,
            Expect::Violates(property) => Some(property),
        };
        let documented =
            |id: &str| id == ASSERTION || self.properties.iter().any(|property| property.id == id);
        match self.runs.iter().filter_map(expected).find(|id| !documented(id)) {
            Some(id) => Err(Failure::new(
                Exit::Internal,
                format!("property `{id}` has no document; add one to the registry"),
            )),
            None => Ok(()),
        }
    }
}
