//! The demonstration's numbers: what each group did, and what agreement cost it.

use std::collections::BTreeMap;

use super::DemoError;
use super::listen::Heard;
use crate::supervisor::tell;
use crate::wire::{Progress, RankName, Role};

/// Prints the numbers of both leaders.
///
/// # Errors
/// [`DemoError::NoProgress`] when a leader told nothing of a forward.
pub(super) fn print(heard: &[Heard], progress: &BTreeMap<RankName, Progress>) -> Result<(), DemoError> {
    let tokens: usize = heard.iter().map(|heard| heard.tokens).sum();
    let seconds = heard.iter().map(|heard| heard.seconds).fold(0.0, f32::max);
    tell(&format!("clients: {tokens} tokens in {seconds:.2} s; every slot and page is free again"));
    for role in [Role::Decode, Role::Prefill] {
        let leader = RankName { role, rank: 0 };
        let worked = progress.get(&leader).filter(|progress| progress.votes > 0 && progress.forwards > 0);
        tell(&line(role, worked.ok_or(DemoError::NoProgress(leader))?));
    }
    Ok(())
}

fn line(role: Role, progress: &Progress) -> String {
    let Progress { round, votes, briefs, forwards, rounds_with_work, .. } = *progress;
    let collectives = ratio(votes + briefs + forwards, round);
    let cost = ratio(progress.agreement_micros_total, rounds_with_work);
    let share = 100.0 * ratio(progress.agreement_micros_total, progress.forward_micros_total);
    format!(
        "{role} group: {round} rounds ({rounds_with_work} with work), {votes} votes, {briefs} briefs, {forwards} forwards, \
         {collectives:.2} collectives a round; agreement cost {cost:.0} µs a round with work, {share:.1} % of the time in forwards"
    )
}

#[expect(clippy::cast_precision_loss, reason = "counters of one demonstration are far below 2^52")]
fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn report_tells_collectives_and_cost_per_round() {
        let progress = Progress {
            round: 100,
            votes: 100,
            briefs: 4,
            forwards: 46,
            rounds_with_work: 50,
            agreement_micros_total: 1000,
            forward_micros_total: 20_000,
            ..Progress::default()
        };
        let line = line(Role::Decode, &progress);
        assert!(line.contains("1.50 collectives a round"), "{line}");
        assert!(line.contains("20 µs a round with work, 5.0 % of the time"), "{line}");
    }
}
