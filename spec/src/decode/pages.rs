//! Pages of the decode group: release, growth with its victims, resume and admission. The account is agreed, so every rank takes and
//! frees the same ids.

use crate::decode::action::Action;
use crate::decode::decide::Deciding;
use crate::decode::phase::{Phase, Tenant};
use crate::decode::rules::Rules;
use crate::host::Direction;
use crate::ids::SlotIndex;
use crate::table::State;
use crate::why::Why;

impl<R: Rules> Deciding<'_, R> {
    /// Frees what nothing can touch any more.
    pub(crate) fn release(&mut self) {
        for slot in self.state.by_age(Tenant::gives_up_pages) {
            let (flying, drained) = (self.flying(slot), self.outcome.drained(slot));
            let Some(tenant) = self.state.slots[slot.index()].occupant.as_mut() else { continue };
            if !R::releasable(flying, drained, self.state.host.touches(&tenant.pages)) {
                continue;
            }
            let mut pages = core::mem::take(&mut tenant.pages);
            if R::returns_pages() {
                self.state.pool.give(&mut pages);
            }
            if tenant.ended() {
                self.state.host.give(&mut tenant.host_pages);
                let leg = self.leg(slot);
                self.actions.push(Action::Release { leg });
                self.state.slots[slot.index()].occupant = None;
                self.reasons.push(Why::Released);
                continue;
            }
            let stored = !tenant.host_pages.is_empty();
            tenant.phase = if stored { Phase::Stored } else { Phase::Retracted };
            self.state.slots[slot.index()].attempt.0 += 1;
            self.reasons.push(if stored { Why::Stored } else { Why::RetractionReleased });
            if !stored {
                self.handshake(slot);
            }
        }
    }

    /// Each running request takes the page of its next launch, oldest first, also in rounds that cannot launch. If pages lack, those
    /// that are being given up count as promised; beyond that the youngest gives its pages up.
    pub(crate) fn grow(&mut self) {
        loop {
            let lacking = self.grow_once();
            self.pressure.growth_lacks = lacking > 0;
            if lacking == 0 {
                return;
            }
            if R::counts_promised() && self.promised() >= lacking {
                return self.reasons.push(Why::GrowthWaitsForPromised);
            }
            if !self.retract_one() {
                return self.reasons.push(Why::GrowthWaitsAlone);
            }
        }
    }

    /// One pass, oldest first. Returns the pages that requests lack after it.
    fn grow_once(&mut self) -> usize {
        let mut lacking = 0;
        for slot in self.state.by_age(Tenant::runs) {
            let flying = self.flying(slot);
            let Some(tenant) = self.state.occupant(slot) else { continue };
            if !R::wants_launch(tenant, flying) {
                continue;
            }
            let needed = self.configuration.pages_for(tenant.next_position(flying) + 1);
            let missing = needed.saturating_sub(tenant.pages.len());
            if missing > 0 && (lacking > 0 || !self.take(slot, missing)) {
                lacking += missing;
            } else if missing > 0 {
                self.reasons.push(Why::Grew);
            }
        }
        lacking
    }

    /// Free pages, and those that are being given up.
    fn promised(&self) -> usize {
        let giving = self.state.slots.iter().filter_map(|slot| slot.occupant.as_ref());
        let promised: usize =
            giving.filter(|tenant| tenant.gives_up_pages()).map(|tenant| tenant.pages.len()).sum();
        promised + self.state.pool.len()
    }

    /// Chooses a victim. The only running request waits instead: its own pages would not help it.
    fn retract_one(&mut self) -> bool {
        let running = self.state.by_age(Tenant::runs);
        if running.len() <= usize::from(!R::retracts_alone()) {
            return false;
        }
        let candidates: alloc::vec::Vec<(SlotIndex, &Tenant)> = running
            .iter()
            .filter_map(|slot| self.state.occupant(*slot).map(|tenant| (*slot, tenant)))
            .collect();
        let Some(victim) = R::victim(&candidates) else { return false };
        if let Some(tenant) = self.tenant(victim) {
            tenant.phase = Phase::Retracting;
        }
        self.reasons.push(Why::Retracted);
        self.store(victim);
        true
    }

    /// Copies a victim's KV to the hosts, behind its forwards in flight, if they have room for all of it.
    fn store(&mut self, victim: SlotIndex) {
        let flying = self.flying(victim);
        let State { slots, host, .. } = &mut self.state;
        let Some(tenant) = slots.get_mut(victim.index()).and_then(|slot| slot.occupant.as_mut()) else {
            return;
        };
        let count = self.configuration.pages_for(R::positions_to_store(tenant, flying));
        let Some(host_pages) = host.take(count) else { return };
        for (page, host_page) in tenant.pages.iter().zip(&host_pages) {
            self.actions.push(Action::Copy(host.issue(Direction::Store, *page, *host_page)));
        }
        tenant.host_pages = host_pages;
    }

    fn take(&mut self, slot: SlotIndex, count: usize) -> bool {
        let Some(mut pages) = self.state.pool.take(count) else { return false };
        if let Some(tenant) = self.tenant(slot) {
            tenant.pages.append(&mut pages);
        }
        true
    }

    /// Takes the pages of a starting transfer and publishes them.
    fn start(&mut self, slot: SlotIndex) -> bool {
        let Some(tenant) = self.state.occupant(slot) else { return false };
        let needed = self.configuration.pages_for(R::positions_to_start(tenant));
        let filled = self.configuration.pages_for(tenant.request.prompt_tokens + tenant.generated);
        if !self.take(slot, needed) {
            return false;
        }
        let leg = self.leg(slot);
        if let Some(tenant) = self.tenant(slot) {
            tenant.phase = Phase::Transferring;
            let pages = tenant.pages.iter().take(filled).copied().collect();
            self.actions.push(Action::Publish { leg, pages });
        }
        true
    }

    /// Takes pages for a copy that comes back, those of the first launch too. The hosts' are free at once: what is copied there next is
    /// copied behind this.
    fn restore(&mut self, slot: SlotIndex) -> bool {
        let Some(tenant) = self.state.occupant(slot) else { return false };
        if !self.take(slot, self.configuration.pages_for(R::positions_to_restore(tenant))) {
            return false;
        }
        let State { slots, host, .. } = &mut self.state;
        let Some(tenant) = slots.get_mut(slot.index()).and_then(|slot| slot.occupant.as_mut()) else {
            return false;
        };
        tenant.phase = Phase::Restoring;
        for (page, host_page) in tenant.pages.iter().zip(&tenant.host_pages) {
            self.actions.push(Action::Copy(host.issue(Direction::Load, *page, *host_page)));
        }
        host.give(&mut tenant.host_pages);
        true
    }

    /// Requests that gave their pages up take pages again, oldest first; the first misfit stops. Those without a copy need their handshake
    /// done on every rank.
    pub(crate) fn resume(&mut self) {
        for slot in self.state.by_age(Tenant::waits_to_resume) {
            self.pressure.retracted_waits = true;
            if !R::may_resume(self.pressure) {
                continue;
            }
            let stored = self.state.occupant(slot).is_some_and(|tenant| tenant.phase == Phase::Stored);
            if !stored && !R::may_start_again(self.fresh_poll(slot)) {
                continue;
            }
            if !(if stored { self.restore(slot) } else { self.start(slot) }) {
                self.reasons.push(Why::ResumeLacksPages);
                if R::first_misfit_stops() {
                    break;
                }
                continue;
            }
            self.reasons.push(Why::Resumed);
        }
        self.pressure.retracted_waits = !self.state.by_age(Tenant::waits_to_resume).is_empty();
    }

    /// Requests whose handshake is done take pages, oldest first; the first misfit stops.
    pub(crate) fn admit(&mut self) {
        let ready = self.state.by_age(|tenant| tenant.phase == Phase::Handshaken);
        if ready.is_empty() {
            return;
        }
        if !R::may_admit(self.pressure) {
            let grows = self.pressure.growth_lacks;
            return self.reasons.push(if grows {
                Why::AdmissionYieldsToGrowth
            } else {
                Why::AdmissionYieldsToResume
            });
        }
        for slot in ready {
            if self.start(slot) {
                self.reasons.push(Why::Admitted);
                continue;
            }
            self.reasons.push(Why::AdmissionLacksPages);
            if R::first_misfit_stops() {
                return;
            }
        }
    }
}
