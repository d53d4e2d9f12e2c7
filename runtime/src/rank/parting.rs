//! What the front end said last: whether the rank is to be started anew. The group leaves when one rank has heard the word, which may be
//! before this one has.

use super::inputs::Input;
use crate::wire::FrontToRank;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// A word that ends a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Word {
    /// An epoch of other processes follows.
    Again,
    /// The deployment ends.
    ForGood,
}

/// The word, once it has come.
#[derive(Debug, Default)]
pub(super) struct Parting {
    word: Mutex<Option<Word>>,
    said: Condvar,
}

impl Parting {
    /// Takes note of what the front end's reader hears; that the deployment ends counts more than what was said before, or after.
    pub(super) fn note(&self, input: &Input) {
        let word = match input {
            Input::Front(FrontToRank::Shutdown) => Word::ForGood,
            Input::Front(FrontToRank::Dismiss) | Input::FrontGone(_) => Word::Again,
            Input::Front(
                FrontToRank::Abort { .. }
                | FrontToRank::Attach { .. }
                | FrontToRank::Leg { .. }
                | FrontToRank::Pause
                | FrontToRank::Resume,
            )
            | Input::Front(FrontToRank::Submit(_))
            | Input::Copied(_)
            | Input::DeviceFailed(_)
            | Input::Leg(..)
            | Input::Prefill(_)
            | Input::Retired { .. }
            | Input::Voted { .. }
            | Input::WriteFailed(_) => return,
        };
        let mut said = self.word.lock().unwrap_or_else(PoisonError::into_inner);
        *said = Some(word).max(*said);
        drop(said);
        self.said.notify_all();
    }

    /// The word, waited for.
    pub(super) fn wait(&self, patience: Duration) -> Option<Word> {
        let word = self.word.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.said.wait_timeout_while(word, patience, |word| word.is_none());
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parting_keeps_the_last_farewell_and_waits_for_a_word() {
        let parting = Parting::default();
        parting.note(&Input::Front(FrontToRank::Pause));
        assert_eq!(parting.wait(Duration::from_millis(1)), None);
        parting.note(&Input::Front(FrontToRank::Dismiss));
        assert_eq!(parting.wait(Duration::ZERO), Some(Word::Again));
        std::thread::scope(|scope| {
            scope.spawn(|| parting.note(&Input::Front(FrontToRank::Shutdown)));
        });
        assert_eq!(parting.wait(Duration::ZERO), Some(Word::ForGood));
        parting.note(&Input::Front(FrontToRank::Dismiss));
        assert_eq!(parting.wait(Duration::ZERO), Some(Word::ForGood));
    }
}
