//! Which reduced votes and briefs are possible in a state of the agreed level.

use crate::agreed_level::{extended, retirements};
use crate::agreed_prefill::{AgreedPrefill, Asked, Ghost, SlotChoice, Turn};
use crate::prefill::setting::PrefillSetting;
use lockstep_spec::brief::{Brief, Verdicts};
use lockstep_spec::counters::{Counter, Counters};
use lockstep_spec::ids::{Attempt, Epoch, Generation, Leg, RequestId, Round, SlotIndex};
use lockstep_spec::poll::KvPoll;
use lockstep_spec::prefill::evidence::Writes;
use lockstep_spec::prefill::leg::{LegPhase, LegTenant, PrefillLeg};
use lockstep_spec::prefill::rules::Rules;
use lockstep_spec::table::Flight;
use lockstep_spec::vote::{Ballot, Outcome, SlotVote};

/// Most legs in one brief.
const MOST_LEGS: usize = 2;
/// Ids from one leg here to the next: those of a brief fit between.
const BETWEEN: u64 = MOST_LEGS as u64 + 1;

impl AgreedPrefill {
    /// Turns that may come next.
    pub(super) fn turns(&self, setting: &PrefillSetting, any_order: bool, turns: &mut Vec<Turn>) {
        let mut choices = vec![Vec::new()];
        for (slot, ghost) in self.state.slots.iter().zip(&self.ghosts) {
            choices = extended(&choices, &self.slot_choices(setting, slot.occupant.as_ref(), ghost));
        }
        let (words, copies) = (self.words(setting, any_order), self.state.host.copies().len());
        for (retired, judged) in retirements(&self.state.flights) {
            for (slots, copied) in
                choices.iter().flat_map(|slots| (0..=copies).map(move |copied| (slots, copied)))
            {
                turns.extend(words.iter().map(|(asked, pause)| Turn {
                    retired,
                    judged,
                    copied,
                    slots: slots.clone(),
                    asked: asked.clone(),
                    pause: *pause,
                }));
            }
        }
    }

    /// What the leader may say: legs, two at most and no more than slots are free, and a word on pausing.
    fn words(&self, setting: &PrefillSetting, any_order: bool) -> Vec<(Vec<Asked>, Option<bool>)> {
        let held = self.tenants().count();
        let places = if any_order { 0..=held } else { held..=held };
        let slots = (0..setting.decode_slots).map(SlotIndex).filter(|slot| self.may_ask(setting, *slot));
        let of_slot = |slot| {
            places.clone().flat_map(move |older| {
                (0..setting.prompts.len()).map(move |prompt| Asked { slot, prompt, older })
            })
        };
        let legs: Vec<Asked> = slots.flat_map(of_slot).collect();
        let mut asked = vec![Vec::new()];
        for count in 0..self.state.free_slots().min(MOST_LEGS) {
            let shorter: Vec<Vec<Asked>> =
                asked.iter().filter(|asked| asked.len() == count).cloned().collect();
            let follows = |asked: &[Asked], next: &Asked| {
                asked.iter().all(|before| before.slot != next.slot && before.older <= next.older)
            };
            for shorter in shorter {
                let next = legs.iter().filter(|next| follows(&shorter, next));
                asked.extend(next.map(|next| [&shorter[..], &[*next]].concat()));
            }
        }
        let pauses = [None, setting.pause.then_some(!self.state.paused)];
        let pauses = if setting.pause { &pauses[..] } else { &pauses[..1] };
        asked.iter().flat_map(|asked| pauses.iter().map(|pause| (asked.clone(), *pause))).collect()
    }

    /// Whether the decode group may ask for another leg of a slot: it is done with those before, which without revocations means that they
    /// are written, though not everyone may have voted so.
    fn may_ask(&self, setting: &PrefillSetting, slot: SlotIndex) -> bool {
        let mut legs = self.tenants().filter(|tenant| tenant.arrival.leg.slot == slot);
        legs.all(|tenant| match tenant.phase {
            LegPhase::Waiting | LegPhase::Running => setting.revocations,
            LegPhase::Inflight | LegPhase::Draining(_) => true,
        })
    }

    fn tenants(&self) -> impl Iterator<Item = &LegTenant> {
        self.state.slots.iter().filter_map(|slot| slot.occupant.as_ref())
    }

    /// Whether a later leg of the same decode slot is here: the leader, which briefed it, gives the earlier up.
    pub(super) fn overtaken(&self, leg: Leg) -> bool {
        self.tenants().any(|tenant| tenant.arrival.leg.slot == leg.slot && tenant.arrival.leg > leg)
    }

    fn slot_choices(
        &self,
        setting: &PrefillSetting,
        tenant: Option<&LegTenant>,
        ghost: &Ghost,
    ) -> Vec<SlotChoice> {
        let completions = if ghost.reads.is_empty() { &[false][..] } else { &[false, true][..] };
        let polls = |completes: bool| match tenant {
            None => vec![KvPoll::Success],
            Some(tenant) => self.polls(setting, tenant, ghost, completes),
        };
        let choices = completions.iter().flat_map(|completes| {
            polls(*completes).into_iter().map(|poll| SlotChoice { poll, completes: *completes })
        });
        choices.collect()
    }

    fn polls(
        &self,
        setting: &PrefillSetting,
        tenant: &LegTenant,
        ghost: &Ghost,
        completes: bool,
    ) -> Vec<KvPoll> {
        let (leg, overtaken) = (tenant.arrival.leg, self.overtaken(tenant.arrival.leg));
        let fallible = setting.fallible(leg);
        let revoked = ((setting.revocations && fallible) || overtaken).then_some(KvPoll::Revoked);
        let late = setting.deadlines.then_some(KvPoll::DeadlinePassed);
        let failed = (setting.write_failures && fallible).then_some(KvPoll::TransferFailed);
        let polls: Vec<Option<KvPoll>> = match tenant.phase {
            LegPhase::Waiting | LegPhase::Running if overtaken => vec![revoked],
            LegPhase::Waiting if ghost.listed => vec![Some(KvPoll::WaitingForInput), revoked],
            LegPhase::Waiting => {
                vec![Some(KvPoll::Bootstrapping), Some(KvPoll::WaitingForInput), revoked, late]
            }
            LegPhase::Running => vec![Some(KvPoll::Success), revoked],
            LegPhase::Inflight if completes => vec![Some(KvPoll::Success), failed],
            LegPhase::Inflight => vec![Some(KvPoll::Transferring), failed, revoked, late],
            LegPhase::Draining(_) => vec![Some(KvPoll::Success)],
        };
        polls.into_iter().flatten().collect()
    }

    /// The reduced vote of a turn.
    pub(super) fn vote<R: Rules>(&self, setting: &PrefillSetting, turn: &Turn) -> Outcome {
        let mut ballot = Ballot::new(&setting.configuration, Epoch(0), Round(0), self.state.digest());
        (0..turn.retired).for_each(|_| ballot.retired(0));
        ballot.copied(turn.copied);
        for (((index, _), ghost), choice) in self.state.enumerate().zip(&self.ghosts).zip(&turn.slots) {
            let writes = if ghost.reads.is_empty() { Writes::None } else { Writes::Outstanding };
            let drained = R::drained(writes);
            ballot.slot(index, SlotVote { poll: choice.poll, first_token: None, drained });
        }
        Outcome::new(ballot.into_words())
    }

    /// What the leader says.
    pub(super) fn brief(&mut self, setting: &PrefillSetting, turn: &Turn) -> Brief<PrefillLeg> {
        let unended = |flight: &Flight| -> Verdicts { flight.rows.iter().map(|_| false).collect() };
        let (queue, pending) = (&self.state.flights.queue, self.state.flights.pending.len());
        let verdicts = queue.iter().take(turn.judged).skip(pending).map(unended).collect();
        let mut ids: Vec<u64> = self.tenants().map(|tenant| tenant.arrival.id.0).collect();
        ids.sort_unstable();
        let arrivals =
            (0..).zip(&turn.asked).map(|(place, asked)| self.leg(setting, *asked, place)).collect();
        // Room for those that were accepted between.
        let place = |id: u64| ids.iter().take_while(|other| **other < id).count() as u64;
        self.state.visit(&mut |counter, id| {
            if counter == Counter::Request {
                *id = (place(*id) + 1) * BETWEEN - 1;
            }
        });
        Brief { pause: turn.pause, verdicts, arrivals, ..Brief::empty() }
    }

    /// A leg of a brief, accepted after so many that are here, and `place` of its brief.
    fn leg(&self, setting: &PrefillSetting, Asked { slot, prompt, older }: Asked, place: u64) -> PrefillLeg {
        let legs = self.tenants().filter(|tenant| tenant.arrival.leg.slot == slot);
        let next = legs.map(|tenant| tenant.arrival.leg.generation.0 + 1).max().unwrap_or(0);
        let leg = Leg { epoch: Epoch(0), slot, generation: Generation(next), attempt: Attempt(0) };
        let id = RequestId(older as u64 * BETWEEN + place);
        let prompt = &setting.prompts[prompt];
        PrefillLeg { id, leg, tokens: prompt.tokens, keys: prompt.keys.clone() }
    }
}
