//! The shipped client with one rule broken.

use lockstep_spec::handshake::Rules;

/// A mutant of the rules: its name and the method that it overrides.
macro_rules! mutant {
    ($(#[$doc:meta])* $name:ident, $method:ident($($argument:ident: $type:ty),*) -> $result:ty $body:block) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub struct $name;

        impl Rules for $name {
            fn $method($($argument: $type),*) -> $result $body
        }
    };
}

mutant!(
    /// Asks where the prefill rank is before each attempt.
    AsksEachTime, keeps_place() -> bool { false });
mutant!(
    /// Goes on trying a place that refuses.
    KeepsWhatRefused, forgets_what_refused() -> bool { false });
mutant!(
    /// Tries again as soon as it did the first time.
    Hurries, next_pause(_pause: u32, first: u32, _interval: u32) -> u32 { first });
mutant!(
    /// Tries twice, and never again.
    GivesUp, next_pause(pause: u32, first: u32, _interval: u32) -> u32 { if pause == 0 { first } else { u32::MAX } });
mutant!(
    /// Waits for an answer for ever.
    NeverExhausted, is_exhausted(_ticks: u32, _patience: u32) -> bool { false });
mutant!(
    /// Says no hello that came before the connection.
    SaysOnce, says_again() -> bool { false });
mutant!(
    /// Takes an answer that it has had.
    TakesEveryAnswer, awaits_answer(_ready: bool) -> bool { true });
mutant!(
    /// Keeps what was answered on a connection that has ended.
    KeepsWhatWasReady, ends_with_its_connection(ready: bool) -> bool { !ready });
