//! What is proved of the protocol that this program executes: the checker's record, embedded when the program was built.

use crate::launch::Mode;
use crate::wire::Role;
use serde::Deserialize;
use std::sync::OnceLock;

/// The record, as `lockstep-check record` wrote it.
const RECORD: &str = include_str!("../../proved.json");

/// What a proof is about: a group of this role, in this mode, of this many ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Class {
    /// The group's role.
    pub role: Role,
    /// The group's mode.
    pub mode: Mode,
    /// The group's ranks.
    pub ranks: u32,
}

#[derive(Debug, Deserialize)]
struct Record {
    spec_fingerprint: String,
    classes: Vec<ProvedClass>,
}

#[derive(Debug, Deserialize)]
struct ProvedClass {
    role: String,
    mode: String,
    ranks: String,
    runs: Vec<String>,
    unique_states: u64,
}

impl Class {
    fn ranks(&self) -> &'static str {
        match self.ranks {
            0 | 1 => "1",
            2 => "2",
            _ => ">=3",
        }
    }

    fn name(&self) -> String {
        format!("{} group, {} mode, {} ranks", self.role.name(), self.mode.name(), self.ranks())
    }
}

fn record() -> Option<&'static Record> {
    static PARSED: OnceLock<Option<Record>> = OnceLock::new();
    PARSED.get_or_init(|| serde_json::from_str(RECORD).ok()).as_ref()
}

fn find(record: &'static Record, class: &Class) -> Option<&'static ProvedClass> {
    record.classes.iter().find(|proved| {
        proved.role == class.role.name() && proved.mode == class.mode.name() && proved.ranks == class.ranks()
    })
}

/// Checks that this program executes what was proved, and that the class is covered.
///
/// # Errors
/// What is not covered, and what to do.
pub fn require(class: &Class) -> Result<(), String> {
    let advice = "run `lockstep-check record` and build again, or start with --unchecked";
    let record = record().ok_or_else(|| format!("proved.json is not a record of proofs; {advice}"))?;
    if record.spec_fingerprint != lockstep_spec::FINGERPRINT {
        return Err(format!(
            "this program executes protocol {}, but {} was proved; {advice}",
            lockstep_spec::FINGERPRINT,
            record.spec_fingerprint
        ));
    }
    find(record, class)
        .map(|_| ())
        .ok_or_else(|| format!("nothing is proved of a {}; {advice}", class.name()))
}

/// What is proved of a class, and what is only argued, for a person.
#[must_use]
pub fn statement(class: &Class) -> String {
    let proved = record().and_then(|record| find(record, class));
    match (require(class), proved) {
        (Ok(()), Some(proved)) => {
            let argued = if class.ranks > 3 {
                "\n  argued, not exhausted, for this number of ranks: explored at 3; ranks meet only in a minimum"
            } else {
                ""
            };
            format!(
                "proved of a {}: {} distinct states exhausted in {} runs ({}); this program executes the same types \
                 (protocol {}){argued}",
                class.name(),
                proved.unique_states,
                proved.runs.len(),
                proved.runs.join(", "),
                lockstep_spec::FINGERPRINT,
            )
        }
        (Err(problem), _) => problem,
        (Ok(()), None) => format!("nothing is proved of a {}", class.name()),
    }
}
