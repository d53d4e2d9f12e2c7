//! Which reduced votes and briefs are possible in a state of the agreed level.

use crate::agreed_level::{AgreedLevel, Ghost, SlotChoice, Turn, Word};
use crate::decode::setting::{Breakage, DecodeSetting};
use lockstep_spec::brief::{Brief, Verdicts};
use lockstep_spec::decode::evidence::Grant;
use lockstep_spec::decode::phase::{Phase, Tenant};
use lockstep_spec::decode::request::Request;
use lockstep_spec::decode::rules::Rules;
use lockstep_spec::ids::{Epoch, RequestId, Round};
use lockstep_spec::poll::KvPoll;
use lockstep_spec::table::{Flight, Flights, Slot, State};
use lockstep_spec::vote::{Ballot, Outcome, SlotVote};

impl AgreedLevel {
    /// Turns that may come next.
    pub(super) fn turns(&self, setting: &DecodeSetting, turns: &mut Vec<Turn>) {
        let mut choices = vec![Vec::new()];
        for (slot, ghost) in self.state.slots.iter().zip(&self.ghosts) {
            choices = extended(&choices, &slot_choices(setting, slot, ghost));
        }
        let (said, copies) = (self.said(setting), self.state.host.copies().len());
        for (retired, judged) in retirements(&self.state.flights) {
            for (slots, copied) in
                choices.iter().flat_map(|slots| (0..=copies).map(move |copied| (slots, copied)))
            {
                turns.extend(said.iter().map(|(words, pause, shutdown)| Turn {
                    retired,
                    judged,
                    copied,
                    slots: slots.clone(),
                    words: words.clone(),
                    pause: *pause,
                    shutdown: *shutdown,
                }));
            }
        }
    }

    /// What may be said beside what is seen: the leader's words, the one on pausing, and whether some rank asks to leave.
    fn said(&self, setting: &DecodeSetting) -> Vec<(Vec<Word>, Option<bool>, bool)> {
        let State { closing, paused, .. } = self.state;
        let asks = if setting.shutdown && !closing { &[false, true][..] } else { &[false][..] };
        let mut said = Vec::new();
        for words in self.words(setting) {
            let turns = setting.pause && !closing && (words.is_empty() || setting.words > 1);
            let pauses = [None].into_iter().chain(turns.then_some(Some(!paused)));
            said.extend(pauses.flat_map(|pause| {
                asks.iter().map({
                    let words = &words;
                    move |shutdown| (words.clone(), pause, *shutdown)
                })
            }));
        }
        said
    }

    /// What the leader may say: no more requests than slots are free, and aborts of those that live.
    fn words(&self, setting: &DecodeSetting) -> Vec<Vec<Word>> {
        let mut all = vec![Vec::new()];
        let room = if self.state.closing { 0 } else { self.state.free_slots() };
        for length in 0..setting.words.min(room) {
            let longest: Vec<Vec<Word>> = all.iter().filter(|words| words.len() == length).cloned().collect();
            let arrivals = || (0..setting.kinds.len()).map(Word::Arrival);
            all.extend(longest.iter().flat_map(|words| arrivals().map(|arrival| said(words, arrival))));
        }
        let tenants = self.state.slots.iter().filter_map(|slot| slot.occupant.as_ref());
        for tenant in tenants.filter(|tenant| setting.aborts && !tenant.ended()) {
            let shorter = all.iter().filter(|words| words.len() < setting.words);
            let longer: Vec<Vec<Word>> =
                shorter.map(|words| said(words, Word::Abort(tenant.request.id))).collect();
            all.extend(longer);
        }
        all
    }

    /// The reduced vote and the brief of a turn.
    pub(super) fn vote<R: Rules>(&self, setting: &DecodeSetting, turn: &Turn) -> (Outcome, Brief<Request>) {
        let mut ballot = Ballot::new(&setting.configuration, Epoch(0), Round(0), self.state.digest());
        (0..turn.retired).for_each(|_| ballot.retired(0));
        ballot.copied(turn.copied);
        if turn.shutdown {
            ballot.shutdown();
        }
        for (((index, slot), ghost), choice) in self.state.enumerate().zip(&self.ghosts).zip(&turn.slots) {
            let arrives = |tenant: &&Tenant| {
                tenant.phase == Phase::Transferring && choice.poll == KvPoll::Success && !choice.differs
            };
            let first_token =
                slot.occupant.as_ref().filter(arrives).and_then(|tenant| {
                    setting.kind(&tenant.request).map(|kind| kind.token(tenant.generated))
                });
            ballot.slot(index, SlotVote { poll: choice.poll, first_token, drained: R::drained(ghost.grant) });
        }
        (Outcome::new(ballot.into_words()), self.brief(setting, turn))
    }

    fn brief(&self, setting: &DecodeSetting, turn: &Turn) -> Brief<Request> {
        let Flights { queue, pending, .. } = &self.state.flights;
        let judged = queue.iter().take(turn.judged).skip(pending.len());
        let newest = self.state.slots.iter().filter_map(|slot| slot.occupant.as_ref());
        let mut next = newest.map(|tenant| tenant.request.id.0 + 1).max().unwrap_or(0);
        let mut brief = Brief {
            verdicts: judged.map(|flight| self.verdicts(setting, flight)).collect(),
            pause: turn.pause,
            ..Brief::empty()
        };
        for word in &turn.words {
            match word {
                Word::Arrival(kind) => {
                    brief.arrivals.push(setting.kinds[*kind].request(RequestId(next)));
                    next += 1;
                }
                Word::Abort(request) => brief.aborts.push(*request),
            }
        }
        brief
    }

    fn verdicts(&self, setting: &DecodeSetting, flight: &Flight) -> Verdicts {
        let stops = |slot, position: u32| {
            let request = self.state.occupant(slot)?.request;
            let kind = setting.kind(&request)?;
            Some(setting.configuration.stop_tokens.contains(&kind.token(position + 1 - kind.prompt)))
        };
        flight.rows.iter().map(|row| stops(row.slot, row.position).unwrap_or(false)).collect()
    }
}

/// How many forwards every rank may have retired, with how many the leader has judged: never fewer.
pub(crate) fn retirements(Flights { queue, pending, .. }: &Flights) -> Vec<(usize, usize)> {
    let ahead =
        |retired: usize| (retired.max(pending.len())..=queue.len()).map(move |judged| (retired, judged));
    (0..=queue.len()).flat_map(ahead).collect()
}

/// The words with one more.
fn said(words: &[Word], word: Word) -> Vec<Word> {
    words.iter().copied().chain([word]).collect()
}

/// Each of the choices with each of the options.
pub(crate) fn extended<T: Copy>(choices: &[Vec<T>], options: &[T]) -> Vec<Vec<T>> {
    let with = |prefix: &Vec<T>, option: &T| prefix.iter().chain([option]).copied().collect::<Vec<_>>();
    choices.iter().flat_map(|prefix| options.iter().map(move |option| with(prefix, option))).collect()
}

/// What one slot may contribute.
fn slot_choices(setting: &DecodeSetting, slot: &Slot<Tenant>, ghost: &Ghost) -> Vec<SlotChoice> {
    let phase = slot.occupant.as_ref().map(|tenant| tenant.phase);
    let publishes = if ghost.grant == Grant::Queued { &[false, true][..] } else { &[false][..] };
    let fencing = matches!(ghost.grant, Grant::Cancelling | Grant::Revoking);
    let fences = if fencing { &[false, true][..] } else { &[false][..] };
    let mut choices = Vec::new();
    for publishes in publishes {
        let published = *publishes || ghost.grant == Grant::Published;
        for poll in polls(setting, phase, published) {
            let arrives = phase == Some(Phase::Transferring) && poll == KvPoll::Success;
            let differ = setting.breaks(Breakage::FirstToken) && arrives;
            let differs = if differ { &[false, true][..] } else { &[false][..] };
            choices.extend(fences.iter().flat_map(|fences| {
                differs.iter().map(move |differs| SlotChoice {
                    poll,
                    publishes: *publishes,
                    fences: *fences,
                    differs: *differs,
                })
            }));
        }
    }
    choices
}

fn polls(setting: &DecodeSetting, phase: Option<Phase>, published: bool) -> Vec<KvPoll> {
    let mut polls = match phase {
        None
        | Some(
            Phase::Ready
            | Phase::Running
            | Phase::Retracting
            | Phase::Stored
            | Phase::Restoring
            | Phase::Draining(_),
        ) => {
            return vec![KvPoll::Success];
        }
        Some(Phase::Handshaken) => return vec![KvPoll::WaitingForInput],
        Some(Phase::Bootstrapping | Phase::Retracted) => {
            let mut polls = vec![KvPoll::Bootstrapping, KvPoll::WaitingForInput];
            polls.extend(setting.breaks(Breakage::Handshake).then_some(KvPoll::HandshakeFailed));
            polls
        }
        Some(Phase::Transferring) => {
            let mut polls = vec![KvPoll::Transferring];
            polls.extend(published.then_some(KvPoll::Success));
            if setting.breaks(Breakage::Transfer) && published {
                polls.extend([KvPoll::TransferFailed, KvPoll::Corrupt, KvPoll::WrongLeg]);
            }
            polls
        }
    };
    polls.extend(setting.breaks(Breakage::Deadline).then_some(KvPoll::DeadlinePassed));
    polls
}
