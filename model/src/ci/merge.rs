//! Merging certificates: whether every run is there, once, from these sources, and as it must be.

use super::certificate::{Certificate, Expected, Fingerprints, RecordedNumbers, SCHEMA};
use crate::runs::{Exit, Failure, Manifest, Registry, Run};

/// Certificates, and what is wrong beside what they say themselves.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Findings {
    /// One certificate a run.
    pub certificates: Vec<Certificate>,
    /// What is wrong with the whole.
    pub failures: Vec<Failure>,
}

impl Findings {
    /// The exit code of the whole: the first failure's.
    #[must_use]
    pub fn exit(&self) -> Exit {
        let whole = self.failures.first().map(|failure| failure.exit);
        let bad = self.certificates.iter().find(|certificate| !certificate.ok);
        let failing = |code| Exit::of_code(code).filter(|exit| *exit != Exit::Ok).unwrap_or(Exit::Internal);
        let of_run = bad.map(|certificate| failing(certificate.exit));
        whole.or(of_run).unwrap_or(Exit::Ok)
    }

    /// Number of certificates that are not as they must be, and of failures of the whole.
    #[must_use]
    pub fn failed(&self) -> usize {
        self.certificates.iter().filter(|certificate| !certificate.ok).count() + self.failures.len()
    }
}

/// A certificate and where it was read.
pub type Source = (String, Certificate);

/// Merges `sources` into one certificate for each of `runs`, in their order.
#[must_use]
pub fn merge(sources: Vec<Source>, runs: &[&Run], registry: &Registry, manifest: &Manifest) -> Findings {
    let (mut findings, mut kept): (Findings, Vec<Source>) = Default::default();
    for (source, certificate) in sources {
        match acceptable(&certificate, registry, manifest) {
            Err((exit, text)) => {
                findings.failures.push(Failure::new(exit, format!("{source}: {}: {text}", certificate.run)));
            }
            Ok(()) => findings.failures.extend(keep(&mut kept, source, certificate)),
        }
    }
    for run in runs {
        match kept.iter().position(|(_, certificate)| certificate.run == run.name) {
            Some(index) => findings.certificates.push(kept.swap_remove(index).1),
            None => {
                let text = format!("no certificate for `{}`: it was not performed, or did not end", run.name);
                findings.failures.push(Failure::new(Exit::Budget, text));
            }
        }
    }
    kept.sort_by(|(_, left), (_, right)| left.run.cmp(&right.run));
    findings.certificates.extend(kept.into_iter().map(|(_, certificate)| certificate));
    findings
}

/// Whether a certificate is of this checker, its list and its manifest, and bears what it claims.
fn acceptable(
    certificate: &Certificate,
    registry: &Registry,
    manifest: &Manifest,
) -> Result<(), (Exit, &'static str)> {
    let run = registry.runs.iter().find(|run| run.name == certificate.run);
    let recorded = manifest.find(&certificate.run).map(RecordedNumbers::of);
    let demands = [
        (certificate.schema == SCHEMA, Exit::Moved, "has another schema; perform the run again"),
        (
            certificate.fingerprints == Fingerprints::of(registry),
            Exit::Moved,
            "was made from other sources; merge with the checker that made it, or perform the run again",
        ),
        (run.is_some(), Exit::Moved, "is no run of this checker; remove the file"),
        (
            run.is_some_and(|run| certificate.expected == Expected::of(run)),
            Exit::Moved,
            "expects what the run does not; perform the run again",
        ),
        (
            !certificate.ok || certificate.recorded == recorded,
            Exit::Moved,
            "was compared with another manifest of runs; perform the run again",
        ),
        (
            !certificate.ok || recorded.is_some_and(|recorded| recorded.spec == registry.spec_fingerprint),
            Exit::Moved,
            "is compared with counts of another specification; run `lockstep-check record`, and perform the run again",
        ),
        (
            certificate.ok == certificate.bears_ok()
                && certificate.ok == (certificate.exit == Exit::Ok.code()),
            Exit::Internal,
            "contradicts itself: what it says of the run does not bear what it says of its being ok",
        ),
    ];
    let broken = demands.into_iter().find(|(met, _, _)| !met);
    broken.map_or(Ok(()), |(_, exit, text)| Err((exit, text)))
}

/// Keeps a certificate; the failure if there is one of the same run that says something else.
fn keep(kept: &mut Vec<Source>, source: String, certificate: Certificate) -> Option<Failure> {
    let Some((before, twin)) = kept.iter().find(|(_, twin)| twin.run == certificate.run) else {
        kept.push((source, certificate));
        return None;
    };
    let text = format!("{before} and {source} say different things of `{}`; keep one", certificate.run);
    (!twin.agrees_with(&certificate)).then(|| Failure::new(Exit::Internal, text))
}
