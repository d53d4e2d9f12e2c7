//! Who acts the script: pace, hands, and a group that is not there.

use super::roles::Rehearsed;
use super::script::{Script, did, entered};
use crate::group::{Collectives, GroupError, Tag};
use crate::rank::collective;
use crate::rank::device::{Batch, BatchRow, InStream};
use crate::rank::error::RankError;
use crate::rank::hands::{FactOf, Hands};
use crate::rank::inputs::Input;
use crate::rank::pacing::Pace;
use lockstep_spec::agreed::{Entry, Words};
use lockstep_spec::ids::{Epoch, Round};
use lockstep_spec::machine::{Local, RankMachine};
use lockstep_spec::program::Posted;
use lockstep_spec::role::Role;
use lockstep_spec::table::Row;
use lockstep_spec::ticket::{Kind, Site, Ticket};
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

/// The script, as each of those who act it has it.
pub(super) struct Scripted<R: Role>(Rc<RefCell<Script<R>>>);

impl<R: Rehearsed> Scripted<R> {
    pub(super) fn new(script: Script<R>) -> Self {
        Self(Rc::new(RefCell::new(script)))
    }

    /// The script, when everybody else has let go of it or is done with it.
    pub(super) fn read<T>(&self, read: impl FnOnce(&mut Script<R>) -> T) -> T {
        read(&mut self.0.borrow_mut())
    }
}

impl<R: Role> Clone for Scripted<R> {
    fn clone(&self) -> Self {
        Self(Rc::clone(&self.0))
    }
}

impl<R: Rehearsed> Pace for Scripted<R> {
    fn stir(&mut self) {}

    fn round_ended(&mut self, _: bool) {
        self.0.borrow_mut().round_ended();
    }

    /// What is not due at once is in the queue.
    fn due_in(&mut self, _: bool) -> Duration {
        if self.0.borrow_mut().round_is_due() { Duration::ZERO } else { Duration::from_millis(1) }
    }

    fn overdue(&self) -> bool {
        false
    }

    fn ticks(&mut self) -> bool {
        self.0.borrow_mut().ticks()
    }

    fn reports(&mut self) -> bool {
        false
    }
}

impl<R: Rehearsed> Hands for Scripted<R> {
    type Role = R;

    fn take(&mut self, input: Input, facts: &mut Vec<FactOf<R>>) -> Result<(), RankError> {
        facts.extend(R::fact(&input));
        Ok(())
    }

    fn perform(&mut self, effect: R::Effect, facts: &mut Vec<FactOf<R>>) -> Result<(), RankError> {
        facts.extend(self.0.borrow_mut().act(did::<R>(Local::Role(effect))));
        Ok(())
    }

    fn batch(&self, _: &RankMachine<R>, rows: Vec<Row>) -> Result<Batch, RankError> {
        let row = |Row { slot, position, tokens, pages }: Row| BatchRow {
            slot,
            position,
            tokens: vec![0; tokens as usize],
            pages: pages.iter().map(|page| page.0).collect(),
            draw: None,
        };
        Ok(rows.into_iter().map(row).collect())
    }
}

impl<R: Rehearsed> InStream for Scripted<R> {
    fn enter(&mut self, entry: Entry) -> Result<(), RankError> {
        self.0.borrow_mut().enters_vote(entered::<R>(entry.into()));
        Ok(())
    }

    fn awaited(&mut self) {
        self.0.borrow_mut().vote_comes_out();
    }
}

/// One rank's end of a group that is not there.
pub(super) struct Absent<R: Role> {
    pub(super) script: Scripted<R>,
    pub(super) rank: usize,
    pub(super) size: usize,
}

impl<R: Rehearsed> Absent<R> {
    /// Notes what was entered, and reads what comes out of it.
    fn meet(&self, tag: Tag, kind: Kind, payload: &[u64]) -> Result<Words, GroupError> {
        let mut script = self.script.0.borrow_mut();
        let site = Site::ALL.into_iter().find(|site| site.code() == tag.site);
        let ticket =
            |site| Ticket { epoch: Epoch(tag.epoch), round: Round(tag.round), site, kind, shape: tag.shape };
        let Some(ticket) = site.map(ticket).filter(|ticket| collective::tag(ticket) == tag) else {
            return Err(GroupError::Misuse("the tag is of no site, or of another kind"));
        };
        script.by_hands.push_back(entered::<R>(Posted { ticket, payload: payload.to_vec() }));
        script.outcome(&tag)
    }
}

impl<R: Rehearsed> Collectives for Absent<R> {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn all_reduce_min(&mut self, tag: Tag, values: &mut [u64], _: Duration) -> Result<(), GroupError> {
        let outcome = self.meet(tag, Kind::MinReduce, values)?;
        if outcome.len() != values.len() {
            return Err(GroupError::Misuse("the trace's outcome has another length"));
        }
        values.copy_from_slice(&outcome);
        Ok(())
    }

    fn broadcast(
        &mut self,
        tag: Tag,
        _: usize,
        payload: Option<&[u8]>,
        _: usize,
        _: Duration,
    ) -> Result<Vec<u8>, GroupError> {
        let words: Words =
            payload.unwrap_or_default().as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
        let outcome = self.meet(tag, Kind::Broadcast, &words)?;
        Ok(outcome.iter().flat_map(|word| word.to_le_bytes()).collect())
    }

    fn wait_for_leader(&mut self, _: Duration) -> Result<bool, GroupError> {
        Ok(self.script.0.borrow_mut().round_is_due())
    }
}
