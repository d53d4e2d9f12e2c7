//! What a person sees while a run goes: a line that is drawn again and again on a terminal, or a line now and then in a log.

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use crate::explore::{Pulse, forecast};
use crate::report::grouped;
use crate::screen::{DEFAULT_WIDTH, stderr_width};

const DRAW_EVERY: Duration = Duration::from_millis(200);
const LOG_EVERY: Duration = Duration::from_secs(10);
const BAR_WIDTH: u64 = 20;

/// Where progress is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Display {
    /// On a terminal, in one line.
    Bar,
    /// In a log, a line now and then.
    Lines,
    /// Nowhere.
    Nothing,
}

impl Display {
    /// The display for people, on standard error.
    pub(crate) fn of_stderr() -> Self {
        if io::stderr().is_terminal() { Self::Bar } else { Self::Lines }
    }

    /// The display for people, unless there is output for `machines`.
    pub(crate) fn unless(machines: bool) -> Self {
        if machines { Self::Nothing } else { Self::of_stderr() }
    }

    /// The display of a run that has others beside it, which cannot share one line.
    pub(crate) const fn of_several(self) -> Self {
        match self {
            Self::Bar | Self::Nothing => Self::Nothing,
            Self::Lines => Self::Lines,
        }
    }

    const fn interval(self) -> Option<Duration> {
        match self {
            Self::Bar => Some(DRAW_EVERY),
            Self::Lines => Some(LOG_EVERY),
            Self::Nothing => None,
        }
    }
}

/// How far a run is, as far as is known.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reading<'a> {
    /// What the explorer says.
    pub(super) pulse: &'a Pulse<'a>,
    /// Bytes that the process has.
    pub(super) resident: Option<u64>,
    /// States that are recorded of the run.
    pub(super) recorded: Option<u64>,
}

/// Draws the progress of one run.
#[derive(Debug)]
pub(super) struct Meter {
    name: String,
    display: Display,
    next: Duration,
    drawn: bool,
}

impl Meter {
    pub(super) fn new(name: &str, display: Display) -> Self {
        let next = display.interval().unwrap_or(Duration::MAX);
        Self { name: name.to_owned(), display, next, drawn: false }
    }

    /// Shows a reading if it is time to. A terminal that is gone is no reason to end a run.
    pub(super) fn show(&mut self, reading: &Reading<'_>) {
        let Some(interval) = self.display.interval().filter(|_| reading.pulse.elapsed >= self.next) else {
            return;
        };
        self.next = reading.pulse.elapsed + interval;
        let mut out = io::stderr().lock();
        let written = match self.display {
            Display::Bar => {
                // The last column stays free: a terminal that is full to it may go to the next line.
                let line = reading.drawn(stderr_width().unwrap_or(DEFAULT_WIDTH).saturating_sub(1));
                write!(out, "\r\x1b[2K{line}").and_then(|()| out.flush())
            }
            Display::Lines | Display::Nothing => writeln!(out, "{}: {}", self.name, reading.line()),
        };
        self.drawn = written.is_ok() && self.display == Display::Bar;
    }

    /// Takes away what is drawn.
    pub(super) fn clear(&mut self) {
        if std::mem::take(&mut self.drawn) {
            let mut out = io::stderr().lock();
            let cleared = write!(out, "\r\x1b[2K").and_then(|()| out.flush());
            self.drawn = cleared.is_err();
        }
    }
}

impl Reading<'_> {
    /// The states that the run is likely to have, and whether that is recorded.
    fn expected(&self) -> Option<(u64, bool)> {
        let unique = self.pulse.counts.unique;
        let recorded = self.recorded.filter(|recorded| *recorded >= unique).map(|states| (states, true));
        recorded.or_else(|| forecast(self.pulse.levels).map(|states| (states.max(unique), false)))
    }

    /// The reading in one line, without bound.
    fn line(&self) -> String {
        self.fields().join(", ")
    }

    /// The bar and as many fields behind it, from the left, as `most` columns hold; not even the bar where it is too long.
    fn drawn(&self, most: usize) -> String {
        let mut drawn = bar(self);
        for (index, field) in self.fields().into_iter().enumerate() {
            let longer = format!("{drawn}{}{field}", if index == 0 { " " } else { ", " });
            if longer.chars().count() > most {
                break;
            }
            drawn = longer;
        }
        drawn.chars().take(most).collect()
    }

    /// What there is to say, the most important first.
    fn fields(&self) -> Vec<String> {
        let Pulse { counts, frontier, levels, elapsed, .. } = *self.pulse;
        let rate = u128::from(counts.unique) * 1_000 / elapsed.as_millis().max(1);
        let rate = u64::try_from(rate).unwrap_or(u64::MAX);
        let mut parts = vec![
            format!("{} states", grouped(counts.unique)),
            format!("{}/s", grouped(rate)),
            format!("depth {}", counts.depth),
            format!("{} to expand{}", grouped(frontier), growth(levels)),
        ];
        parts.extend(self.resident.map(|bytes| format!("{} MiB", grouped(bytes >> 20))));
        parts.push(format!("{} s", elapsed.as_secs()));
        parts.push(self.left(rate));
        parts
    }

    fn left(&self, rate: u64) -> String {
        let Some((states, recorded)) = self.expected() else {
            return "time left unknown".to_owned();
        };
        let left = states.saturating_sub(self.pulse.counts.unique) / rate.max(1);
        let source = if recorded { "as recorded" } else { "a guess" };
        format!("about {left} s left ({source})")
    }
}

/// By how much the last complete level is larger than the one before.
fn growth(levels: &[u64]) -> String {
    match levels {
        [.., before, last] => {
            let percent = last.saturating_mul(100) / (*before).max(1);
            format!(" (each level × {}.{:02})", percent / 100, percent % 100)
        }
        [_] | [] => String::new(),
    }
}

/// How much of what is expected is done; dots when nothing is expected.
fn bar(reading: &Reading<'_>) -> String {
    let unique = reading.pulse.counts.unique;
    let done = reading.expected().map(|(states, _)| unique.saturating_mul(BAR_WIDTH) / states.max(1));
    let cell = |index: u64| match done {
        Some(done) if index < done => '█',
        Some(_) => '░',
        None => '·',
    };
    (0..BAR_WIDTH).map(cell).collect()
}

#[cfg(test)]
mod tests {
    use crate::explore::Counts;

    use super::*;

    const COUNTS: Counts = Counts { unique: 20_000, transitions: 30_000, depth: 12 };

    const fn pulse(levels: &[u64]) -> Pulse<'_> {
        Pulse { counts: COUNTS, frontier: 500, levels, elapsed: Duration::from_secs(2), ahead: 0 }
    }

    #[test]
    fn meter_says_how_far_and_how_long() {
        let pulse = pulse(&[100, 110]);
        let reading = Reading { pulse: &pulse, resident: Some(3 << 20), recorded: Some(40_000) };
        let line = "20,000 states, 10,000/s, depth 12, 500 to expand (each level × 1.10), 3 MiB, 2 s, about 2 s left (as recorded)";
        assert_eq!(reading.line(), line);
        assert_eq!(bar(&reading), "██████████░░░░░░░░░░");
        assert_eq!(reading.drawn(200), format!("██████████░░░░░░░░░░ {line}"));
    }

    #[test]
    fn meter_keeps_to_the_terminal() {
        let pulse = pulse(&[100, 110]);
        let reading = Reading { pulse: &pulse, resident: Some(3 << 20), recorded: Some(40_000) };
        for most in 0..160 {
            assert!(reading.drawn(most).chars().count() <= most, "{}", reading.drawn(most));
        }
        assert_eq!(reading.drawn(70), "██████████░░░░░░░░░░ 20,000 states, 10,000/s, depth 12");
        assert_eq!(reading.drawn(9), "█████████");
    }

    #[test]
    fn meter_does_not_promise_what_it_cannot_know() {
        let pulse = pulse(&[1]);
        let reading = Reading { pulse: &pulse, resident: None, recorded: Some(19_999) };
        assert!(reading.line().ends_with("2 s, time left unknown"), "{}", reading.line());
        assert_eq!(bar(&reading), "····················");
    }

    #[test]
    fn meter_is_silent_when_asked_to_be() {
        assert_eq!(Display::Nothing.interval(), None);
        assert!(Display::Bar.interval() < Display::Lines.interval());
    }
}
