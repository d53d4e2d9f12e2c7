//! A group dies, and another takes its place under the other group, which lives on. It is one step: what the living group may do between the
//! death and the next group's first step, it may do before either or after both.
//!
//! A death that falls into a round needs no step of its own. What a decode rank did in it reaches others as words on its links and to the
//! front end; that they are lost from some point on is what a link's end and the line's end say. It is the same with a prefill rank's writes.
//!
//! Assumed: a prefill group does not die before decode's front end knows that the one before it has; the line is silent for a few seconds at
//! most. A deadline of decode passes only while prefill is known to be away.

use crate::two_groups::ends::{DecodeEnd, PrefillEnd, Told};
use crate::two_groups::front_end::Line;
use crate::two_groups::pair::{Action, Held, Pair, Side};
use crate::two_groups::setting::Setting;
use crate::two_groups::wire::Link;
use lockstep_spec::decode::DecodeMachine;
use lockstep_spec::decode::rules::Rules as DecodeRules;
use lockstep_spec::ids::{Epoch, RankIndex};
use lockstep_spec::prefill::PrefillMachine;
use lockstep_spec::prefill::rules::Rules as PrefillRules;
use std::sync::Arc;

impl<D: DecodeRules, P: PrefillRules> Pair<D, P> {
    pub(super) fn replacing_actions(&self, setting: &Setting, actions: &mut Vec<Action>) {
        let most = setting.replacements;
        let up = self.front_end.line == Line::Up;
        let lost = if up { self.legs_no_rank_has() } else { 0 };
        if self.replaced.decode < most.decode {
            actions.extend((0..=lost).map(|lost| Action::Replace(Side::Decode, lost)));
        }
        if self.replaced.prefill < most.prefill && self.front_end.line != Line::Lost {
            actions.push(Action::Replace(Side::Prefill, 0));
        }
        if up && self.replaced.lines < most.lines {
            actions.extend((0..=lost).map(Action::LineBreaks));
        }
        match self.front_end.line {
            Line::Down => actions.push(Action::LineBegins),
            Line::Lost => actions.push(Action::LineEnds),
            Line::Up => {}
        }
    }

    /// The latest legs that no prefill rank has: prefill's front end may not have them either, and hands each to all its ranks at once.
    fn legs_no_rank_has(&self) -> usize {
        let trailing =
            |end: &PrefillEnd| end.told.iter().rev().take_while(|told| matches!(told, Told::Leg(_))).count();
        self.prefill_ends.iter().map(trailing).min().unwrap_or(0)
    }

    fn lose_legs(&mut self, lost: usize) {
        for end in &mut self.prefill_ends {
            let kept = end.told.len().saturating_sub(lost);
            end.told.truncate(kept);
        }
    }

    /// The front end is told of no epoch by anybody: it takes the one behind its last. The new group is told of what is open.
    pub(super) fn replace_decode(&mut self, setting: &Setting, lost: usize) -> Held {
        self.replaced.decode += 1;
        self.block.take_if(|(side, _)| *side == Side::Decode);
        self.lose_legs(lost);
        let parting = setting.coupling.parting;
        let next = Epoch(self.epoch.0 + u64::from(parting.new_epochs));
        for link in &mut self.links {
            link.replace_decode_end(next, !parting.one_epoch_in);
        }
        self.epoch = next;
        let configuration = setting.decode_in(next);
        let ranks = (0..configuration.ranks).map(RankIndex);
        let machine = |rank| DecodeMachine::new(Arc::clone(&configuration), rank).ok();
        self.decode_ends = ranks.clone().map(|_| DecodeEnd::default()).collect();
        self.decode.renew(ranks.filter_map(machine).collect());
        self.front_end.next_epoch();
        self.tell_epoch();
        self.hand_over(setting)
    }

    /// The next group is one of another life; nothing of this one reaches it.
    pub(super) fn replace_prefill(&mut self, setting: &Setting) {
        self.replaced.prefill += 1;
        self.block.take_if(|(side, _)| *side == Side::Prefill);
        let machine = |rank| PrefillMachine::new(Arc::clone(&setting.prefill), RankIndex(rank)).ok();
        let end = |rank| PrefillEnd::new(setting.prefill.pages, setting.links_of_prefill(rank).count());
        self.prefill.renew((0..setting.prefill.ranks).filter_map(machine).collect());
        self.prefill_ends = (0..setting.prefill.ranks as usize).map(end).collect();
        self.links.iter_mut().for_each(Link::replace_prefill_end);
        if self.front_end.line == Line::Up {
            self.front_end.line = Line::Lost;
        }
        self.front_end.told_since = Epoch(0);
    }

    pub(super) fn break_line(&mut self, lost: usize) {
        self.replaced.lines += 1;
        self.lose_legs(lost);
        self.front_end.line = Line::Lost;
    }
}
