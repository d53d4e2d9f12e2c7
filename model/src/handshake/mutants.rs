//! The shipped client with one rule broken.

use lockstep_spec::handshake::Rules;

rules_but!(Rules,
    /// Asks where the prefill rank is before each attempt.
    AsksEachTime, keeps_place() -> bool { false });
rules_but!(Rules,
    /// Goes on trying a place that refuses.
    KeepsWhatRefused, forgets_what_refused() -> bool { false });
rules_but!(Rules,
    /// Tries again as soon as it did the first time.
    Hurries, next_pause(_pause: u32, first: u32, _interval: u32) -> u32 { first });
rules_but!(Rules,
    /// Tries twice, and never again.
    GivesUp, next_pause(pause: u32, first: u32, _interval: u32) -> u32 { if pause == 0 { first } else { u32::MAX } });
rules_but!(Rules,
    /// Waits for an answer for ever.
    NeverExhausted, is_exhausted(_ticks: u32, _patience: u32) -> bool { false });
rules_but!(Rules,
    /// Says no hello that came before the connection.
    SaysOnce, says_again() -> bool { false });
rules_but!(Rules,
    /// Takes an answer that it has had.
    TakesEveryAnswer, awaits_answer(_ready: bool) -> bool { true });
rules_but!(Rules,
    /// Keeps what was answered on a connection that has ended.
    KeepsWhatWasReady, ends_with_its_connection(ready: bool) -> bool { !ready });
