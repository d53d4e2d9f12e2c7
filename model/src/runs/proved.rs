//! The text of `proved.json`, which the runtime embeds: which classes of group are proved, for which specification.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::listing::Registry;
use super::manifest::{Manifest, Record};
use super::run::{Class, Expect};

/// The content of `proved.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proved {
    /// Fingerprint of the specification that was checked.
    pub spec_fingerprint: String,
    /// The classes, in order.
    pub classes: Vec<ProvedClass>,
}

/// A class with the runs that prove it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProvedClass {
    /// The class.
    #[serde(flatten)]
    pub class: Class,
    /// Names of the runs, in the order of the registry.
    pub runs: Vec<String>,
    /// Sum of their distinct states.
    pub unique_states: u64,
}

impl Proved {
    /// What the recorded runs prove: the classes of which every run is recorded for the present specification.
    #[must_use]
    pub fn new(registry: &Registry, manifest: &Manifest) -> Self {
        let spec = &registry.spec_fingerprint;
        let mut classes: BTreeMap<Class, Vec<Option<&Record>>> = BTreeMap::new();
        for run in registry.runs.iter().filter(|run| run.expect == Expect::Holds) {
            let record =
                manifest.find(run.name).filter(|record| record.is_for(run.expect) && record.spec == *spec);
            if let Some(class) = run.proves {
                classes.entry(class).or_default().push(record);
            }
        }
        let whole = classes
            .into_iter()
            .filter_map(|(class, records)| Some(ProvedClass::new(class, &whole(records)?)));
        Self { spec_fingerprint: spec.clone(), classes: whole.collect() }
    }

    /// The text of the file.
    ///
    /// # Errors
    /// None that its types allow; the signature is `serde_json`'s.
    pub fn to_text(&self) -> serde_json::Result<String> {
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }
}

impl ProvedClass {
    fn new(class: Class, records: &[&Record]) -> Self {
        let runs = records.iter().map(|record| record.name.clone()).collect();
        Self { class, runs, unique_states: records.iter().map(|record| record.unique).sum() }
    }
}

fn whole(records: Vec<Option<&Record>>) -> Option<Vec<&Record>> {
    records.into_iter().collect()
}
