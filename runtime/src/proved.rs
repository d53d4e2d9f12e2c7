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

fn check<'a>(record: Option<&'a Record>, class: &Class) -> Result<&'a ProvedClass, String> {
    let advice = "run `lockstep-check record` and build again, or start with --unchecked";
    let record = record.ok_or_else(|| format!("proved.json is not a record of proofs; {advice}"))?;
    let (executed, proved) = (lockstep_spec::FINGERPRINT, &record.spec_fingerprint);
    if proved != executed {
        return Err(format!("this program executes protocol {executed}, but {proved} was proved; {advice}"));
    }
    let covers = |proved: &&ProvedClass| {
        proved.role == class.role.name() && proved.mode == class.mode.name() && proved.ranks == class.ranks()
    };
    record
        .classes
        .iter()
        .find(covers)
        .ok_or_else(|| format!("nothing is proved of a {}; {advice}", class.name()))
}

/// Checks that this program executes what was proved, and that the class is covered.
///
/// # Errors
/// What is not covered, and what to do.
pub fn require(class: &Class) -> Result<(), String> {
    check(record(), class).map(|_| ())
}

/// What is proved of a class, and what is only argued, for a person.
#[must_use]
pub fn statement(class: &Class) -> String {
    check(record(), class).map_or_else(|problem| problem, |proved| proved.statement(class))
}

impl ProvedClass {
    fn statement(&self, class: &Class) -> String {
        let argued = if class.ranks > 3 { "this number of ranks and " } else { "" };
        format!(
            "proved of a {}: {} distinct states exhausted in {} runs, and this program executes the same types (protocol {});\n  \
             argued, not exhausted: {argued}tables larger than the explored ones (CHECKS.md has their sizes)",
            class.name(),
            self.unique_states,
            self.runs.len(),
            lockstep_spec::FINGERPRINT,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLASS: Class = Class { role: Role::Decode, mode: Mode::Overlap, ranks: 4 };

    fn record_of(fingerprint: &str) -> Record {
        let class = ProvedClass {
            role: "decode".into(),
            mode: "overlap".into(),
            ranks: ">=3".into(),
            runs: vec!["decode-overlap-3".into()],
            unique_states: 77,
        };
        Record { spec_fingerprint: fingerprint.into(), classes: vec![class] }
    }

    #[test]
    fn proved_a_covered_class_is_told_with_what_is_only_argued() {
        let record = record_of(lockstep_spec::FINGERPRINT);
        let told = check(Some(&record), &CLASS).unwrap().statement(&CLASS);
        assert!(told.contains("77 distinct states exhausted in 1 runs"), "{told}");
        assert!(told.contains("argued, not exhausted: this number of ranks"), "{told}");
        let three = Class { ranks: 3, ..CLASS };
        assert!(!check(Some(&record), &three).unwrap().statement(&three).contains("number of ranks"));
    }

    #[test]
    fn proved_refuses_another_protocol_another_class_and_no_record() {
        let problem = |record: Option<&Record>, class: &Class| check(record, class).map(|_| ()).unwrap_err();
        let other = problem(Some(&record_of("0123")), &CLASS);
        assert!(other.contains("0123 was proved") && other.contains("lockstep-check record"), "{other}");
        let record = record_of(lockstep_spec::FINGERPRINT);
        for class in [
            Class { ranks: 2, ..CLASS },
            Class { mode: Mode::Normal, ..CLASS },
            Class { role: Role::Prefill, ..CLASS },
        ] {
            assert!(problem(Some(&record), &class).contains("nothing is proved"), "{class:?}");
        }
        assert!(problem(None, &CLASS).contains("not a record of proofs"));
    }
}
