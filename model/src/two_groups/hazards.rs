//! What goes wrong between two groups under rules that engines use: each breaks one rule of the coupling, or one of a group. Beside each
//! stands the control: the same setting under the shipped rule.
//!
//! What makes each visible: an inversion needs as many requests as both tables have slots, and pages for one of them; a notice that
//! overtakes its leg, a fence that lets a list live and a page that goes back at once need a request that is given up.

use crate::agreed_level::mutants::LaunchesUnfenced;
use crate::prefill::mutants::DrainedIgnoresWrites;
use crate::two_groups::model::TwoGroups;
use crate::two_groups::setting::{
    Coupling, Fence, Goal, Names, Notices, Parting, Replacements, Setting, Size, Starts, Trouble,
};
use lockstep_spec::decode::rules::{Rules as DecodeRules, Shipped};
use lockstep_spec::invariant::{Property, ends, kv_before_run, no_stuck, no_write_after_free};
use lockstep_spec::prefill::rules::{Rules as PrefillRules, Shipped as ShippedPrefill};

/// Pages of a request that ends go back at once, whatever a peer may still write.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ReusesAtOnce;

impl DecodeRules for ReusesAtOnce {
    fn releasable(flying: u32, _: bool, _: bool) -> bool {
        flying == 0
    }
}

/// Both groups under a broken rule, and what falls.
pub struct Hazard<D: DecodeRules = Shipped, P: PrefillRules = ShippedPrefill> {
    /// Name in runs.
    pub name: &'static str,
    /// What the rule is.
    pub rule: &'static str,
    /// Where it is used or told of; empty for a rule of our own.
    pub sources: &'static str,
    /// The setting, with the broken rule.
    pub setting: Setting,
    /// What falls.
    pub property: Property,
    rules: std::marker::PhantomData<(D, P)>,
}

impl<D: DecodeRules, P: PrefillRules> Hazard<D, P> {
    fn new(name: &'static str, rule: &'static str, setting: Setting, property: Property) -> Self {
        Self { name, rule, sources: "", setting, property, rules: std::marker::PhantomData }
    }

    fn from(self, sources: &'static str) -> Self {
        Self { sources, ..self }
    }

    /// The model that fails.
    #[must_use]
    pub fn model(&self) -> TwoGroups<D, P> {
        TwoGroups::new(self.setting.clone())
    }

    /// The same setting under the shipped rules.
    #[must_use]
    pub fn control(&self) -> TwoGroups<Shipped, ShippedPrefill> {
        TwoGroups::new(Setting { coupling: Coupling::SHIPPED, ..self.setting.clone() })
    }
}

/// One rank on each side, one prefill slot, and as many decode slots.
fn one_each() -> Setting {
    let mut setting = sized(1, 2);
    setting.lag = 0;
    setting
}

fn sized(slots: u32, pages: u32) -> Setting {
    let prefill = Size { ranks: 1, slots: 1, pages: 1 };
    Setting::new(Size { ranks: 1, slots, pages }, prefill, false)
}

fn aborting(setting: Setting) -> Setting {
    Setting { trouble: Trouble { aborts: true, ..setting.trouble }, ..setting }
}

fn coupled(setting: Setting, change: fn(&mut Coupling)) -> Setting {
    let mut setting = setting;
    change(&mut setting.coupling);
    setting
}

/// Prefill takes its slot for a request that decode has no room for yet; the one that decode has room for finds no slot.
#[must_use]
pub fn capacity_inversion() -> Hazard {
    let setting = coupled(sized(2, 2), |coupling| coupling.starts = Starts::Optimistic);
    let rule = "a leg takes room at the prefill side before its page list is there";
    Hazard::new("capacity-inversion", rule, Setting { goal: Goal::Ended, ..setting }, ends::PROPERTY)
        .from("sglang #31473")
}

/// The pages of a posted write are given to another leg while it may still read them.
#[must_use]
pub fn inflight_yield() -> Hazard {
    let setting = coupled(one_each(), |coupling| coupling.yields = true);
    let rule = "a leg whose write is posted gives its pages away, to break an inversion";
    Hazard::new("inflight-yield", rule, setting, no_write_after_free::PROPERTY)
}

/// A page list that arrives after the disconnect still leads to memory that has a new owner.
#[must_use]
pub fn disconnect_fence() -> Hazard {
    let setting = coupled(aborting(one_each()), |coupling| coupling.fence = Fence::Disconnects);
    let rule = "an aborted transfer is fenced by cutting the connection, and the memory keys live on";
    Hazard::new("disconnect-fence", rule, setting, no_write_after_free::PROPERTY)
}

/// The acknowledgement never comes when the word that asks for it was lost; no deadline frees the pages.
#[must_use]
pub fn ack_fence() -> Hazard {
    let mut setting = coupled(aborting(one_each()), |coupling| coupling.fence = Fence::Acknowledged);
    (setting.trouble.losses, setting.trouble.deadlines) = (true, true);
    let rule = "an aborted transfer's pages wait for the peer's acknowledgement";
    Hazard::new("ack-fence", rule, setting, no_stuck::PROPERTY).from("sglang #28651, #38961")
}

/// The notice of an abort finds no leg; the leg that comes after it computes, and waits in prefill's slot for a page list for ever. The
/// next request never gets there.
#[must_use]
pub fn edge_triggered_abort() -> Hazard {
    let setting = coupled(aborting(one_each()), |coupling| {
        (coupling.starts, coupling.notices) = (Starts::Optimistic, Notices::Edge);
    });
    let rule = "prefill computes before the page list is there, and learns of an abort from one notice";
    Hazard::new("edge-triggered-abort", rule, Setting { goal: Goal::Ended, ..setting }, ends::PROPERTY)
        .from("sglang #28651, #31206")
}

/// Two clients chose the same room: the one's page list is filled with the other's KV.
#[must_use]
pub fn room_only_match() -> Hazard {
    let setting = coupled(sized(2, 4), |coupling| coupling.names = Names::Room);
    let rule = "prompts and page lists are matched by the client's room alone";
    Hazard::new("room-only-match", rule, setting, kv_before_run::PROPERTY).from("sglang #40125, #17259")
}

/// A write lands in pages that were given back when the request was aborted.
#[must_use]
pub fn page_reuse_in_flight() -> Hazard<ReusesAtOnce> {
    let rule = "pages of an aborted transfer go back at once";
    Hazard::new("page-reuse-in-flight", rule, aborting(one_each()), no_write_after_free::PROPERTY)
        .from("sglang #35049, #37454; vLLM #21570")
}

/// The first launch does not wait for the fence, and the peer may still write.
#[must_use]
pub fn launches_unfenced() -> Hazard<LaunchesUnfenced> {
    let mut setting = one_each();
    setting.trouble.reposts = true;
    let rule = "a request runs before its grant is revoked, and prefill may write again";
    Hazard::new("launches-unfenced", rule, setting, kv_before_run::PROPERTY)
}

/// A prefill rank votes drained while its write is outstanding, and the leg is given up.
#[must_use]
pub fn drained_ignores_writes() -> Hazard<Shipped, DrainedIgnoresWrites> {
    let rule = "prefill gives pages back under a posted write";
    Hazard::new("drained-ignores-writes", rule, aborting(one_each()), no_write_after_free::PROPERTY)
}

/// Both groups have room for a prompt and its output but for the last token: what an epoch's end interrupts is computed anew.
fn apart(ranks: u32, replacements: Replacements, change: fn(&mut Parting)) -> Setting {
    let size = Size { ranks: 1, slots: 1, pages: 2 };
    let trouble = Trouble { deadlines: replacements.prefill > 0, ..Trouble::default() };
    let setting =
        Setting { replacements, trouble, lag: 0, ..Setting::new(Size { ranks, ..size }, size, false) };
    let mut parting = Parting::SHIPPED;
    change(&mut parting);
    Setting { coupling: Coupling { parting, ..setting.coupling }, ..setting }
}

const DECODE_ONCE: Replacements = Replacements { decode: 1, prefill: 0, lines: 0 };
const PREFILL_ONCE: Replacements = Replacements { decode: 0, prefill: 1, lines: 0 };

/// A leg of a decode group that is gone waits in prefill's intake for a page list that nobody will send.
#[must_use]
pub fn keeps_tokens_alone() -> Hazard {
    let setting = aborting(apart(1, DECODE_ONCE, |parting| parting.purges = false));
    let rule = "legs of a decode group that is gone are kept where only their tokens came";
    Hazard::new("keeps-tokens-alone", rule, setting, no_stuck::PROPERTY)
}

/// A leg of the next decode group has the name of one that prefill has given up for good.
#[must_use]
pub fn reuses_epoch() -> Hazard {
    let setting = apart(1, DECODE_ONCE, |parting| parting.new_epochs = false);
    Hazard::new(
        "reuses-epoch",
        "a decode group takes the epoch of the one before it",
        setting,
        no_stuck::PROPERTY,
    )
}

/// The end of the old connection is told after the next group's first page list has come, and that is given up with it.
#[must_use]
pub fn lets_two_epochs_in() -> Hazard {
    let setting = apart(1, DECODE_ONCE, |parting| parting.one_epoch_in = false);
    let rule = "the door lets a connection of the next epoch in before the end of the last one was told";
    Hazard::new("lets-two-epochs-in", rule, setting, no_stuck::PROPERTY)
}

/// A request fails at prefill's end, is submitted again, and fails since there is no prefill.
#[must_use]
pub fn counts_absence() -> Hazard {
    let setting = apart(1, PREFILL_ONCE, |parting| parting.holds_back = false);
    let rule = "requests are submitted while prefill is away, and their failures count";
    Hazard::new("counts-absence", rule, setting, ends::PROPERTY)
}

/// The connection of one decode rank ends and fails an attempt, then that of another fails the next one, and the front end knows of nothing.
#[must_use]
pub fn retries_once() -> Hazard {
    let setting = apart(2, PREFILL_ONCE, |parting| parting.retries_each_link = false);
    Hazard::new("retries-once", "a request whose attempt failed is tried again once", setting, ends::PROPERTY)
}

/// A leg was asked for over a line that had ended unnoticed. The next prefill group answers its handshake and gets its page list, and never
/// its tokens.
#[must_use]
pub fn asks_once() -> Hazard {
    let setting = apart(1, PREFILL_ONCE, |parting| parting.asks_again = false);
    Hazard::new(
        "asks-once",
        "a leg is asked for once, over whichever line there is",
        setting,
        no_stuck::PROPERTY,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explore::{End, Live, Settings, Stall, agree_with_stateright, explore_live, stall};
    use crate::world::Interleaving;

    /// The property that falls, if any.
    fn verdict<D: DecodeRules, P: PrefillRules>(model: &TwoGroups<D, P>) -> Option<&'static str> {
        let found = explore_live(model, &Settings::default()).unwrap();
        if let End::Violated { property, .. } = found.end {
            return Some(property);
        }
        assert_eq!(found.end, End::Exhausted);
        stall(model, &found).map(|stall| match stall {
            Stall::Trapped { .. } => model.goal_property(),
            Stall::Starved { obligation, .. } => model.obligations()[obligation].property,
        })
    }

    /// The property falls, and nothing does under the shipped rules.
    fn falls<D: DecodeRules, P: PrefillRules>(hazard: &Hazard<D, P>) {
        assert_eq!(verdict(&hazard.model()), Some(hazard.property.id), "{}", hazard.name);
        assert_eq!(verdict(&hazard.control()), None, "{}", hazard.name);
    }

    #[test]
    fn hazards_fall_and_their_controls_hold() {
        falls(&capacity_inversion());
        falls(&inflight_yield());
        falls(&disconnect_fence());
        falls(&ack_fence());
        falls(&room_only_match());
        falls(&page_reuse_in_flight());
        falls(&launches_unfenced());
        falls(&drained_ignores_writes());
        falls(&edge_triggered_abort());
    }

    #[test]
    fn hazards_of_groups_apart_fall_and_their_controls_hold() {
        falls(&keeps_tokens_alone());
        falls(&reuses_epoch());
        falls(&lets_two_epochs_in());
        falls(&counts_absence());
        falls(&asks_once());
        falls(&retries_once());
    }

    fn fully(setting: &Setting) -> Setting {
        Setting { interleaving: Interleaving::Full, ..setting.clone() }
    }

    #[test]
    fn interleavings_agree_on_hazards() {
        let hazards = [inflight_yield(), disconnect_fence(), capacity_inversion(), edge_triggered_abort()];
        for hazard in hazards {
            falls(&Hazard { setting: fully(&hazard.setting), ..hazard });
        }
        let reuse = page_reuse_in_flight();
        falls(&Hazard { setting: fully(&reuse.setting), ..reuse });
    }

    /// Optimistic prefill alone is no fault where decode has room for all that prefill may take.
    #[test]
    fn optimistic_prefill_holds_with_room_and_lasting_notices() {
        let setting = coupled(aborting(one_each()), |coupling| coupling.starts = Starts::Optimistic);
        let model: TwoGroups<Shipped, ShippedPrefill> =
            TwoGroups::new(Setting { goal: Goal::Ended, ..setting });
        assert_eq!(verdict(&model), None);
    }

    #[test]
    fn stateright_counts_the_same() {
        let model: TwoGroups<Shipped, ShippedPrefill> = TwoGroups::new(aborting(one_each()));
        let ours = explore_live(&model, &Settings::default()).unwrap().counts;
        assert_eq!(agree_with_stateright(model).unwrap(), ours);
    }
}
