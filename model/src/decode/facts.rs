//! Which facts may reach a decode rank, and what their arrival changes at the fabric.

use crate::decode::fabric::{Handshake, Port, Writer};
use crate::decode::setting::{Breakage, DecodeSetting, PLAIN, STOP};
use crate::decode::{DecodeFact, Surroundings};
use lockstep_spec::decode::DecodeMachine;
use lockstep_spec::decode::evidence::{LegFact, MetadataRow, Receipt};
use lockstep_spec::decode::phase::{Phase, Tenant};
use lockstep_spec::decode::rules::Rules;
use lockstep_spec::host::{Copy, HostMemory};
use lockstep_spec::ids::{Attempt, Epoch, Generation, Leg, RequestId, SlotIndex, TokenId};
use lockstep_spec::local::Intake;
use lockstep_spec::machine::Fact;
use lockstep_spec::poll::KvPoll;

impl<R: Rules> Surroundings<R> {
    /// The front end always has another request, and may give up any that it has not heard the end of. One word a round, or as many as the
    /// setting lets wait.
    pub(super) fn front_end_facts(
        &self,
        setting: &DecodeSetting,
        machine: &DecodeMachine<R>,
        facts: &mut Vec<DecodeFact>,
    ) {
        if setting.shutdown && !self.shutdown {
            facts.push(Fact::ShutdownWanted);
        }
        if machine.leads() {
            self.words(setting, machine, facts);
        }
    }

    fn words(&self, setting: &DecodeSetting, machine: &DecodeMachine<R>, facts: &mut Vec<DecodeFact>) {
        let Intake { arrivals, aborts, pause } = machine.intake();
        let (state, several) = (machine.state().value(), setting.words > 1);
        let quiet = arrivals.is_empty() && aborts.is_empty() && pause.is_none();
        let room = quiet || (several && arrivals.len() + aborts.len() < setting.words);
        if room && (several || (!state.closing && state.free_slots() > 0)) {
            let next = self.next_request(machine);
            facts.extend(setting.kinds.iter().map(|kind| Fact::Submitted(kind.request(next))));
        }
        // The last word on pausing counts, so it takes no room.
        if setting.pause && !state.closing && (quiet || several) {
            facts.push(Fact::PauseWanted(!pause.unwrap_or(state.paused)));
        }
        if setting.aborts && room {
            let live = tenants(machine).filter(|tenant| several || !tenant.ended());
            let named = live.map(|tenant| tenant.request.id).filter(|id| !aborts.contains(id));
            facts.extend(named.map(Fact::AbortWanted));
        }
        if setting.aborts && several {
            // Giving up an older one that waits leaves the intake as if it had never come.
            facts.extend(arrivals.last().map(|arrival| Fact::AbortWanted(arrival.id)));
        }
    }

    /// A number that no request has that is open, or of which the leader still knows: also not one that is gone and whose abort waits.
    fn next_request(&self, machine: &DecodeMachine<R>) -> RequestId {
        let known = tenants(machine).map(|tenant| tenant.request.id);
        let known = known.chain(machine.intake().aborts.iter().copied()).chain(self.clients.requests());
        RequestId(known.map(|id| id.0 + 1).max().unwrap_or(0))
    }

    pub(crate) fn fabric_facts(
        &self,
        setting: &DecodeSetting,
        machine: &DecodeMachine<R>,
        rank: usize,
        facts: &mut Vec<DecodeFact>,
    ) {
        for (slot, port) in (0..).map(SlotIndex).zip(&self.ports[rank]) {
            let tenant = machine.state().value().occupant(slot);
            let mut push = |(leg, fact)| facts.push(Fact::Role((leg, fact)));
            handshake_facts(setting, port, &mut push);
            // The last rank's first token is right, so that those on which all agree are.
            let errs = setting.breaks(Breakage::FirstToken) && rank + 1 < self.ports.len();
            transfer_facts(setting, port, tenant, errs, &mut push);
        }
        if setting.breaks(Breakage::Deadline) && clock_matters(setting, machine) {
            facts.push(Fact::Tick);
        }
    }
}

fn tenants<R: Rules>(machine: &DecodeMachine<R>) -> impl Iterator<Item = &Tenant> {
    machine.state().value().slots.iter().filter_map(|slot| slot.occupant.as_ref())
}

fn handshake_facts(setting: &DecodeSetting, port: &Port, push: &mut dyn FnMut((Leg, LegFact))) {
    if let Some(late) = port.late {
        push((late, LegFact::HandshakeDone));
    }
    if let Handshake::Open(leg) = port.handshake {
        push((leg, LegFact::HandshakeDone));
        if setting.breaks(Breakage::Handshake) {
            push((leg, LegFact::HandshakeFailed));
        }
    }
}

fn transfer_facts(
    setting: &DecodeSetting,
    port: &Port,
    tenant: Option<&Tenant>,
    errs: bool,
    push: &mut dyn FnMut((Leg, LegFact)),
) {
    let Some(grant) = &port.grant else { return };
    let leg = grant.leg;
    if grant.fencing {
        push((leg, LegFact::Fenced));
    } else if grant.writer == Writer::Queued {
        push((leg, LegFact::Published));
    }
    if !grant.lands(setting.late_facts) {
        return;
    }
    if !grant.pages_written {
        push((leg, LegFact::PagesLanded));
    }
    if !grant.row_written {
        let kind =
            tenant.and_then(|tenant| setting.kind(&tenant.request).map(|kind| (kind, tenant.generated)));
        if let Some((kind, index)) = kind {
            let mut row =
                |token| push((leg, LegFact::RowLanded(MetadataRow { echo: leg, token, sound: true })));
            row(kind.token(index));
            if errs {
                row(another(kind.token(index)));
            }
        }
    }
    if setting.breaks(Breakage::Transfer) && !(grant.pages_written && grant.row_written) {
        broken_rows(leg).for_each(push);
    }
}

fn another(token: TokenId) -> TokenId {
    if token == PLAIN { STOP } else { PLAIN }
}

/// The ways in which a transfer breaks.
fn broken_rows(leg: Leg) -> impl Iterator<Item = (Leg, LegFact)> {
    let others = [
        Leg { epoch: Epoch(leg.epoch.0 + 1), ..leg },
        Leg { slot: SlotIndex(leg.slot.0 + 1), ..leg },
        Leg { generation: Generation(leg.generation.0 + 1), ..leg },
        Leg { attempt: Attempt(leg.attempt.0 + 1), ..leg },
    ];
    let row = |echo, sound| LegFact::RowLanded(MetadataRow { echo, token: PLAIN, sound });
    let foreign = others.map(|other| row(other, true));
    foreign.into_iter().chain([LegFact::TransferFailed, row(leg, false)]).map(move |fact| (leg, fact))
}

/// Whether a request in this phase waits for the prefill side.
pub(crate) fn waits_for_prefill(phase: Phase) -> bool {
    match phase {
        Phase::Bootstrapping | Phase::Retracted | Phase::Transferring => true,
        Phase::Handshaken
        | Phase::Ready
        | Phase::Running
        | Phase::Retracting
        | Phase::Stored
        | Phase::Restoring
        | Phase::Draining(_) => false,
    }
}

/// Whether a tick would change a vote.
fn clock_matters<R: Rules>(setting: &DecodeSetting, machine: &DecodeMachine<R>) -> bool {
    let slots = machine.evidence().slots.iter().zip(&machine.state().value().slots);
    slots.into_iter().any(|(seen, slot)| {
        let young = seen.age_ticks < setting.configuration.deadline_ticks;
        let waits = slot.occupant.as_ref().is_some_and(|tenant| waits_for_prefill(tenant.phase));
        young && waits
    })
}

/// A rank for a person.
pub(super) fn describe<R: Rules>(
    surroundings: &Surroundings<R>,
    machine: &DecodeMachine<R>,
    index: usize,
) -> Vec<(String, String)> {
    let state = machine.state().value();
    let mut cells = vec![("round".to_string(), machine.round().0.to_string())];
    for (slot, entry) in state.enumerate() {
        let occupant = entry.occupant.as_ref().map_or("free".to_string(), |tenant| {
            let Tenant { request, phase, pages, host_pages, generated } = tenant;
            format!("{} {phase:?} {pages:?} {host_pages:?} +{generated}", request.id)
        });
        cells.push((slot.to_string(), occupant));
        let seen = machine.evidence().slots.get(slot.index());
        cells.push((
            format!("{slot} seen"),
            seen.map_or(String::new(), |seen| {
                format!("{:?} {:?} {}", seen.handshake, seen.grant, receipt(seen.receipt))
            }),
        ));
    }
    let flights: Vec<String> = state.flights.queue.iter().map(|flight| flight.id.to_string()).collect();
    cells.push(("free pages".to_string(), format!("{:?}", state.pool.free())));
    cells.push(("in flight".to_string(), flights.join(" ")));
    cells.push(("retired ahead".to_string(), machine.retired_ahead().to_string()));
    cells.push(("copies".to_string(), copies(&state.host)));
    cells.push(("device".to_string(), surroundings.devices[index].len().to_string()));
    cells
}

/// Copies that are under way, for a person.
pub(crate) fn copies(host: &HostMemory) -> String {
    host.copies().iter().map(Copy::to_string).collect::<Vec<_>>().join(", ")
}

fn receipt(receipt: Receipt) -> String {
    match receipt {
        Receipt::Nothing => "-".to_string(),
        Receipt::Pages => "pages".to_string(),
        Receipt::Row(token) => format!("row {token}"),
        Receipt::Whole(token) => format!("whole {token}"),
        Receipt::Broken(poll) => broken(poll),
    }
}

fn broken(poll: KvPoll) -> String {
    format!("broken {poll:?}")
}
