//! The form of `runs.toml`: a table a run. Lists that an earlier run has, too, are written as its name, so that each is there once and
//! a change of it is one change.

use serde::{Deserialize, Serialize};

use super::{Manifest, Record, RecordedExpect, Stated};
use crate::runs::Tier;

/// The file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Form {
    #[serde(default)]
    run: Vec<Entry>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    name: String,
    tier: Option<Tier>,
    parameters: Option<String>,
    budget: Option<String>,
    expect: RecordedExpect,
    property: Option<String>,
    spec: String,
    unique: u64,
    transitions: u64,
    depth: u32,
    path: Option<u32>,
    properties: Option<Names>,
    witnesses: Option<Names>,
}

/// A list of names, or the run that has the same.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Names {
    As(String),
    These(Vec<String>),
}

/// One of the lists of a run.
type ListOf = fn(&Stated) -> &Vec<String>;

impl From<&Manifest> for Form {
    fn from(manifest: &Manifest) -> Self {
        let entry = |(index, record)| Entry::new(record, &manifest.records[..index]);
        Self { run: manifest.records.iter().enumerate().map(entry).collect() }
    }
}

impl From<Form> for Manifest {
    fn from(form: Form) -> Self {
        let mut records: Vec<Record> = Vec::new();
        for entry in form.run {
            let record = entry.record(&records);
            records.push(record);
        }
        Self { records }
    }
}

impl Entry {
    /// The entry of a record after those of `earlier` ones.
    fn new(record: &Record, earlier: &[Record]) -> Self {
        let Record { name, expect, spec, property, unique, transitions, depth, path, stated } =
            record.clone();
        let names = |list: ListOf| Some(Names::of(list(record.stated.as_ref()?), earlier, list));
        Self {
            properties: names(|stated| &stated.properties),
            witnesses: names(|stated| &stated.witnesses),
            tier: stated.as_ref().map(|stated| stated.tier),
            budget: stated.as_ref().map(|stated| stated.budget.clone()),
            parameters: stated.map(|stated| stated.parameters),
            name,
            expect,
            property,
            spec,
            unique,
            transitions,
            depth,
            path,
        }
    }

    /// The record after `earlier` ones. One of which anything is missing was written before there was such a thing.
    fn record(self, earlier: &[Record]) -> Record {
        let Self { name, expect, property, spec, unique, transitions, depth, path, .. } = self;
        let names = |names: Option<Names>, list: ListOf| names?.found(earlier, list);
        let (properties, witnesses) = (
            names(self.properties, |stated| &stated.properties),
            names(self.witnesses, |stated| &stated.witnesses),
        );
        let stated = || {
            let (properties, witnesses) = (properties?, witnesses?);
            Some(Stated {
                tier: self.tier?,
                parameters: self.parameters?,
                budget: self.budget?,
                properties,
                witnesses,
            })
        };
        let stated = stated();
        Record { name, expect, spec, property, unique, transitions, depth, path, stated }
    }
}

impl Names {
    fn of(names: &Vec<String>, earlier: &[Record], list: ListOf) -> Self {
        let same = |record: &&Record| record.stated.as_ref().is_some_and(|stated| list(stated) == names);
        let twin = earlier.iter().find(same).filter(|_| !names.is_empty());
        twin.map_or_else(|| Self::These(names.clone()), |twin| Self::As(format!("{AS}{}", twin.name)))
    }

    fn found(self, earlier: &[Record], list: ListOf) -> Option<Vec<String>> {
        match self {
            Self::These(names) => Some(names),
            Self::As(text) => {
                let name = text.strip_prefix(AS)?;
                let twin = earlier.iter().find(|record| record.name == name)?;
                twin.stated.as_ref().map(|stated| list(stated).clone())
            }
        }
    }
}

/// What stands before the name of the run that has the same list.
const AS: &str = "as ";
