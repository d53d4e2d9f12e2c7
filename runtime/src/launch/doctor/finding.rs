//! What was found of one thing, and all of it together.

use std::fmt;

use serde::Serialize;

/// What a finding means for `serve`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Standing {
    /// As it should be.
    Good,
    /// It runs, but could run better.
    Note,
    /// It cannot run.
    Missing,
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Finding {
    pub(super) subject: &'static str,
    pub(super) standing: Standing,
    /// What is there; of what is missing, also what to do.
    pub(super) found: String,
    /// What would make it better.
    pub(super) advice: Option<&'static str>,
}

impl Finding {
    pub(super) fn good(subject: &'static str, found: impl ToString) -> Self {
        Self { subject, standing: Standing::Good, found: found.to_string(), advice: None }
    }

    pub(super) fn note(subject: &'static str, found: impl ToString, advice: &'static str) -> Self {
        Self { subject, standing: Standing::Note, found: found.to_string(), advice: Some(advice) }
    }

    /// Of an error that says what to do.
    pub(super) fn missing(subject: &'static str, error: impl ToString) -> Self {
        Self { subject, standing: Standing::Missing, found: error.to_string(), advice: None }
    }

    /// Good, or missing.
    pub(super) fn judged(subject: &'static str, found: Result<impl ToString, impl ToString>) -> Self {
        match found {
            Ok(found) => Self::good(subject, found),
            Err(error) => Self::missing(subject, error),
        }
    }
}

/// Everything that was looked at.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Report {
    can_serve: bool,
    findings: Vec<Finding>,
}

impl Report {
    pub(super) fn of(findings: Vec<Finding>) -> Self {
        let can_serve = findings.iter().all(|finding| finding.standing != Standing::Missing);
        Self { can_serve, findings }
    }

    pub(super) fn missing(&self) -> usize {
        self.findings.iter().filter(|finding| finding.standing == Standing::Missing).count()
    }

    pub(super) fn json(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_else(|error| format!("{{\"error\": \"{error}\"}}"))
    }
}

/// A line a finding, with its advice below.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Finding { subject, standing, found, advice } in &self.findings {
            let mark = match standing {
                Standing::Good => "ok",
                Standing::Note => "note",
                Standing::Missing => "MISSING",
            };
            writeln!(f, "{mark:<8} {subject:<14} {found}")?;
            if let Some(advice) = advice {
                writeln!(f, "{:<23} ({advice})", "")?;
            }
        }
        match self.can_serve {
            true => writeln!(f, "`lockstep serve` with these flags can run here"),
            false => writeln!(f, "`lockstep serve` with these flags cannot run here yet"),
        }
    }
}

/// Bytes in the largest unit of which there is one.
pub(super) fn size(bytes: u64) -> String {
    const UNITS: [(&str, u64); 3] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    let unit = UNITS.iter().find(|(_, unit)| bytes >= *unit);
    unit.map_or_else(
        || format!("{bytes} B"),
        |(name, unit)| format!("{}.{} {name}", bytes / unit, bytes % unit * 10 / unit),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doctor_report_fails_for_what_is_missing_alone() {
        let good = Finding::good("cores", "2");
        let note = Finding::note("memory", "little", "add some");
        assert_eq!(Report::of(vec![good.clone(), note]).missing(), 0);
        let report = Report::of(vec![good, Finding::missing("port", "taken: choose another")]);
        assert_eq!(report.missing(), 1);
        assert!(report.to_string().contains("MISSING  port           taken: choose another\n"), "{report}");
        assert!(report.to_string().ends_with("cannot run here yet\n"), "{report}");
    }

    #[test]
    fn doctor_sizes_have_the_largest_unit() {
        let sizes = [512, 1 << 10, (3 << 20) + (1 << 19), 139 << 30].map(size);
        assert_eq!(sizes, ["512 B", "1.0 KiB", "3.5 MiB", "139.0 GiB"]);
    }
}
