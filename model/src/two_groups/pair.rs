//! The state of both groups and what is between them, and its steps.

use crate::group::Group;
use crate::rebase::Renaming;
use crate::traces;
use crate::two_groups::ends::{DecodeEnd, PrefillEnd};
use crate::two_groups::front_end::FrontEnd;
use crate::two_groups::rebase::{Own, Shared};
use crate::two_groups::setting::{Replacements, Setting};
use crate::two_groups::wire::Link;
use crate::world::Interleaving;
use lockstep_spec::counters::{Counter, Counters};
use lockstep_spec::decode::rules::Rules as DecodeRules;
use lockstep_spec::decode::{Decode, DecodeMachine};
use lockstep_spec::ids::{Epoch, Leg, RankIndex, RequestId};
use lockstep_spec::invariant::{agreed_equal, no_stuck};
use lockstep_spec::machine::{Fact, Local, Position, RankMachine};
use lockstep_spec::prefill::rules::Rules as PrefillRules;
use lockstep_spec::prefill::{Prefill, PrefillMachine};
use lockstep_spec::program::{Event, Posted};
use lockstep_spec::role::Role;
use std::sync::Arc;

/// One of the two groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// The decode group.
    Decode,
    /// The prefill group.
    Prefill,
}

/// What is on its way on a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Transit {
    /// The answer to a handshake.
    Answer,
    /// A page list.
    List,
    /// A revocation.
    Revoke,
    /// A write's pages.
    Pages,
    /// A write's row.
    Row,
    /// The prefill rank's word that its write is done.
    Written,
    /// The word that a leg failed at the prefill side.
    Fail,
}

/// One step.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// The front end accepts a request of a kind.
    Submit(usize),
    /// The front end gives a request up.
    Abort(RequestId),
    /// A prefill rank gets what the front end said next.
    Tokens(usize),
    /// Something arrives over a link.
    Deliver(Transit, usize, Leg),
    /// Something is lost on a link.
    Lose(Transit, usize, Leg),
    /// A prefill rank's write fails.
    WriteFails(usize, Leg),
    /// A write that landed is posted once more.
    Repost(usize, Leg),
    /// A prefill rank is told that its write ended, and it has not.
    Yield(usize, Leg),
    /// A decode rank's fence of a leg is done.
    Fenced(usize, Leg),
    /// A link breaks.
    Break(usize),
    /// One end of a link notices that it broke.
    Notice(Side, usize),
    /// A rank's device finishes its oldest forward.
    Retire(Side, usize),
    /// One tick of a rank's clock passes.
    Tick(Side, usize),
    /// A group goes round.
    Round(Side),
    /// A group dies, and another takes its place. Of what decode's leader asked for last and no prefill rank has, so many legs are lost.
    Replace(Side, usize),
    /// The line between the front ends breaks; as many legs are lost.
    LineBreaks(usize),
    /// Decode's front end notices that the line has ended.
    LineEnds,
    /// Decode's front end has a line again.
    LineBegins,
}

/// Both groups, and what is between them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Pair<D: DecodeRules, P: PrefillRules> {
    /// The decode group.
    pub decode: Group<DecodeMachine<D>>,
    /// The prefill group.
    pub prefill: Group<PrefillMachine<P>>,
    /// What joins their ranks.
    pub links: Vec<Link>,
    /// By decode rank.
    pub decode_ends: Vec<DecodeEnd>,
    /// By prefill rank.
    pub prefill_ends: Vec<PrefillEnd>,
    /// Epoch of the decode group.
    pub epoch: Epoch,
    /// Decode's front end, as far as it is concerned by replacements.
    pub front_end: FrontEnd,
    /// How often what was replaced.
    pub replaced: Replacements,
    /// Whose facts have been taken since that group's last round, up to which rank: under [`Interleaving::FixedOrder`] its round comes
    /// before anything happens to the other group.
    pub block: Option<(Side, usize)>,
    /// The property that does not hold, if any: then there is no next state.
    pub violation: Option<&'static str>,
}

impl Action {
    /// The rank that a step is about; none of a round, which is about a whole group.
    #[must_use]
    pub fn rank(&self, setting: &Setting) -> (Side, Option<usize>) {
        match *self {
            Self::Submit(_) | Self::Abort(_) => (Side::Decode, Some(0)),
            Self::Deliver(Transit::Answer | Transit::Pages | Transit::Row | Transit::Fail, link, _)
            | Self::Lose(Transit::Answer | Transit::Pages | Transit::Row | Transit::Fail, link, _)
            | Self::Repost(link, _)
            | Self::Break(link)
            | Self::Notice(Side::Decode, link) => (Side::Decode, Some(setting.decode_rank(link))),
            Self::Deliver(Transit::List | Transit::Revoke | Transit::Written, link, _)
            | Self::Lose(Transit::List | Transit::Revoke | Transit::Written, link, _)
            | Self::WriteFails(link, _)
            | Self::Yield(link, _)
            | Self::Notice(Side::Prefill, link) => (Side::Prefill, Some(setting.prefill_rank(link))),
            Self::Tokens(rank) => (Side::Prefill, Some(rank)),
            Self::Fenced(rank, _) => (Side::Decode, Some(rank)),
            Self::Retire(side, rank) | Self::Tick(side, rank) => (side, Some(rank)),
            Self::Round(side) | Self::Replace(side, _) => (side, None),
            Self::LineBreaks(_) | Self::LineEnds | Self::LineBegins => (Side::Decode, None),
        }
    }

    /// Whether it may come between a fact and the round that votes on it.
    #[must_use]
    pub fn interrupts(&self) -> bool {
        matches!(self, Self::Break(_) | Self::Replace(..))
            || matches!(self, Self::LineBreaks(_) | Self::LineEnds | Self::LineBegins)
    }
}

/// A step's outcome: the property that it violates, if any.
pub(super) type Held = Result<(), &'static str>;

/// What each rank of a group does after a round.
type DoneBy<R> = Vec<(usize, Vec<Local<<R as Role>::Effect>>)>;

impl<D: DecodeRules, P: PrefillRules> Pair<D, P> {
    /// Both groups before anything happens.
    #[must_use]
    pub fn genesis(setting: &Setting) -> Self {
        let decode = |rank| DecodeMachine::new(Arc::clone(&setting.decode), RankIndex(rank)).ok();
        let prefill = |rank| PrefillMachine::new(Arc::clone(&setting.prefill), RankIndex(rank)).ok();
        let (ranks, peers) = (setting.decode.ranks, setting.prefill.ranks);
        let link = Link::new(setting.decode.slots, setting.decode.pages);
        let end = |rank| PrefillEnd::new(setting.prefill.pages, setting.links_of_prefill(rank).count());
        Self {
            decode: Group::new((0..ranks).filter_map(decode).collect()),
            prefill: Group::new((0..peers).filter_map(prefill).collect()),
            links: vec![link; setting.links()],
            decode_ends: vec![DecodeEnd::default(); ranks as usize],
            epoch: Epoch(0),
            front_end: FrontEnd::new(setting),
            replaced: Replacements::default(),
            prefill_ends: (0..peers as usize).map(end).collect(),
            block: None,
            violation: None,
        }
    }

    /// The state after a step.
    #[must_use]
    pub fn after(&self, setting: &Setting, action: &Action) -> Self {
        let mut next = self.clone();
        next.step(setting, action, true);
        next
    }

    /// Takes a step and leaves the counters as the ranks count them.
    pub fn take_as_counted(&mut self, setting: &Setting, action: &Action) {
        self.step(setting, action, false);
    }

    /// Takes a step; `renames` says whether a round renames the counters.
    fn step(&mut self, setting: &Setting, action: &Action, renames: bool) {
        if setting.interleaving == Interleaving::FixedOrder && !action.interrupts() {
            let (side, rank) = action.rank(setting);
            self.block = rank.map(|rank| (side, rank));
        }
        match self.take(setting, action) {
            Ok(()) => {
                if renames && matches!(action, Action::Round(_)) {
                    self.rebase();
                }
                self.tidy(setting);
            }
            Err(property) => self.violation = Some(property),
        }
    }

    /// The traces that a group's ranks write to which this happens, since they were last asked for.
    pub(super) fn written(&mut self, setting: &Setting, side: Side) -> Vec<String> {
        match side {
            Side::Decode => traces::written(&setting.decode_in(self.epoch), self.decode.take_log()),
            Side::Prefill => traces::written(&setting.prefill, self.prefill.take_log()),
        }
    }

    fn take(&mut self, setting: &Setting, action: &Action) -> Held {
        match action {
            Action::Submit(kind) => self.submit(setting, *kind),
            Action::Abort(request) => self.abort(setting, *request),
            Action::Tokens(rank) => self.take_told(setting, *rank),
            Action::Deliver(Transit::Answer, link, leg) => self.answer(setting, *link, *leg),
            Action::Deliver(Transit::List, link, leg) => self.take_list(setting, *link, *leg),
            Action::Deliver(Transit::Revoke, link, leg) => self.take_revoke(setting, *link, *leg),
            Action::Deliver(Transit::Pages, link, leg) => self.land_pages(setting, *link, *leg),
            Action::Deliver(Transit::Row, link, leg) => self.land_row(setting, *link, *leg),
            Action::Deliver(Transit::Written, link, leg) => self.end_write(setting, *link, *leg, false),
            Action::Deliver(Transit::Fail, link, leg) => self.take_fail(setting, *link, *leg),
            Action::Lose(transit, link, leg) => self.lose(*transit, *link, *leg),
            Action::WriteFails(link, leg) => self.end_write(setting, *link, *leg, true),
            Action::Repost(link, leg) => self.repost(*link, *leg),
            Action::Yield(link, leg) => self.yield_write(setting, *link, *leg),
            Action::Fenced(rank, leg) => self.fenced(setting, *rank, *leg),
            Action::Break(link) => {
                self.links[*link].cut();
                Ok(())
            }
            Action::Notice(Side::Decode, link) => self.notice_at_decode(setting, *link),
            Action::Notice(Side::Prefill, link) => self.notice_at_prefill(setting, *link),
            Action::Retire(Side::Decode, rank) => self.retire_decode(setting, *rank),
            Action::Retire(Side::Prefill, rank) => self.retire_prefill(setting, *rank),
            Action::Tick(Side::Decode, rank) => self.tell_decode(setting, *rank, Fact::Tick),
            Action::Tick(Side::Prefill, rank) => self.tell_prefill(setting, *rank, Fact::Tick),
            Action::Round(Side::Decode) => self.round_of_decode(setting),
            Action::Round(Side::Prefill) => self.round_of_prefill(setting),
            Action::Replace(Side::Decode, lost) => self.replace_decode(setting, *lost),
            Action::Replace(Side::Prefill, _) => {
                self.replace_prefill(setting);
                Ok(())
            }
            Action::LineBreaks(lost) => {
                self.break_line(*lost);
                Ok(())
            }
            Action::LineEnds => {
                self.front_end.line_ends(setting);
                Ok(())
            }
            Action::LineBegins => self.begin_line(setting),
        }
    }

    fn lose(&mut self, transit: Transit, link: usize, leg: Leg) -> Held {
        let wire = self.links[link].wire(leg);
        match transit {
            Transit::Revoke => wire.revokes.retain(|revoked| *revoked != leg),
            Transit::Fail => wire.fails.retain(|failed| *failed != leg),
            Transit::Answer | Transit::List | Transit::Pages | Transit::Row | Transit::Written => {}
        }
        Ok(())
    }

    fn repost(&mut self, link: usize, leg: Leg) -> Held {
        let mut writes = self.links[link].wire(leg).writes.iter_mut();
        if let Some(write) = writes.find(|write| write.leg == leg) {
            write.pages = true;
        }
        Ok(())
    }

    fn round_of_decode(&mut self, setting: &Setting) -> Held {
        for (rank, locals) in go_round::<Decode<D>>(&mut self.decode)? {
            self.perform_decode(setting, rank, locals)?;
        }
        self.hand_over(setting)
    }

    fn round_of_prefill(&mut self, setting: &Setting) -> Held {
        for (rank, locals) in go_round::<Prefill<P>>(&mut self.prefill)? {
            self.perform_prefill(setting, rank, locals)?;
        }
        Ok(())
    }

    /// Renames the counters of both groups: between two steps every rank is between rounds.
    pub fn rebase(&mut self) {
        let (mut shared, mut own) = (Renaming::default(), Renaming::default());
        self.decode.collect(&mut shared);
        shared.collect(&mut Between(&mut self.links, &mut self.decode_ends, &mut self.prefill_ends));
        shared.collect(&mut self.front_end);
        for rank in &mut self.prefill.ranks {
            shared.collect(&mut Shared(rank));
            own.collect(&mut Own(rank));
        }
        own.collect(&mut Forwards(&mut self.prefill_ends));
        self.prefill.device.rebase(&mut |ticket| own.collect(&mut ticket.round));

        self.decode.rename(&shared);
        shared.rename(&mut Between(&mut self.links, &mut self.decode_ends, &mut self.prefill_ends));
        shared.rename(&mut self.front_end);
        for rank in &mut self.prefill.ranks {
            shared.rename(&mut Shared(rank));
            own.rename(&mut Own(rank));
        }
        own.rename(&mut Forwards(&mut self.prefill_ends));
        self.prefill.device.rebase(&mut |ticket| own.rename(&mut ticket.round));
    }

    /// Whether nothing is left of any request or leg.
    #[must_use]
    pub fn rested(&self, setting: &Setting) -> bool {
        let links = self.links.iter().all(|link| link.up() && link.wires.iter().all(|wire| wire.quiet()));
        let fences = self.decode_ends.iter().all(|end| end.fences.is_empty());
        let tokens = self.prefill_ends.iter().all(|end| end.told.is_empty());
        let leftovers = setting.trouble.is_lossy() || setting.replacements.any();
        let idle = idle(&self.decode, false) && idle(&self.prefill, leftovers);
        let apart = self.front_end.rests() && !self.remembers_the_gone();
        self.violation.is_none() && idle && links && fences && tokens && apart
    }

    /// Whether a prefill rank still keeps something of a decode group that is gone.
    fn remembers_the_gone(&self) -> bool {
        let waiting = self.prefill.ranks.iter().flat_map(|rank| &rank.intake().arrivals);
        let parts = self.prefill_ends.iter().flat_map(|end| &end.parts).map(|parts| parts.leg);
        waiting.map(|arrival| arrival.leg).chain(parts).any(|leg| leg.epoch < self.epoch)
    }

    /// Whether every accepted request has ended.
    #[must_use]
    pub fn ended(&self) -> bool {
        let leader = &self.decode.ranks[0];
        let slots = &leader.state().value().slots;
        let ended = slots.iter().filter_map(|slot| slot.occupant.as_ref()).all(|tenant| tenant.ended());
        self.violation.is_none() && ended && self.front_end.rests() && leader.intake().arrivals.is_empty()
    }
}

/// Whether a group has nothing to do. `leftovers`: arrivals that cannot be briefed may wait; where a notice is lost, the tokens of a leg
/// that is over stay until the next leg of its decode slot, and take no room.
fn idle<R: Role>(group: &Group<RankMachine<R>>, leftovers: bool) -> bool {
    let nothing_waits =
        |rank: &RankMachine<R>| rank.intake().arrivals.is_empty() || (leftovers && !rank.has_news());
    let idle = |rank: &RankMachine<R>| rank.state().value().idle() && nothing_waits(rank);
    group.is_quiet() && group.ranks.iter().all(idle)
}

/// One round: every rank votes, the vote completes, the brief if there is one, and all have decided.
fn go_round<R: Role>(group: &mut Group<RankMachine<R>>) -> Result<DoneBy<R>, &'static str> {
    let mut locals = Vec::new();
    for rank in 0..group.ranks.len() {
        locals.push((rank, group.step(rank, Event::Turn)?));
    }
    while group.control.full() {
        let Posted { ticket, payload } = group.control.complete()?;
        group.device.check_round()?;
        for (rank, done) in &mut locals {
            done.extend(group.step(*rank, Event::Completed { ticket, payload: payload.clone() })?);
        }
    }
    let outside = group.ranks.iter().all(|rank| *rank.position() == Position::Outside);
    if !group.control.is_empty() || !outside {
        return Err(no_stuck::PROPERTY.id);
    }
    let digests: Vec<(u64, u64)> =
        group.ranks.iter().map(|rank| (0, rank.state().value().digest())).collect();
    if agreed_equal::holds(&digests) { Ok(locals) } else { Err(agreed_equal::PROPERTY.id) }
}

/// What joins the groups, as far as its counters are shared.
struct Between<'a>(&'a mut Vec<Link>, &'a mut Vec<DecodeEnd>, &'a mut Vec<PrefillEnd>);

impl Counters for Between<'_> {
    fn visit(&mut self, visit: &mut dyn FnMut(Counter, &mut u64)) {
        self.0.visit(visit);
        self.1.visit(visit);
        self.2.iter_mut().for_each(|end| end.visit_shared(visit));
    }
}

/// The forwards of the prefill group's devices.
struct Forwards<'a>(&'a mut Vec<PrefillEnd>);

impl Counters for Forwards<'_> {
    fn visit(&mut self, visit: &mut dyn FnMut(Counter, &mut u64)) {
        let queued = self.0.iter_mut().flat_map(|end| &mut end.device);
        queued.for_each(|(forward, _)| visit(Counter::Forward, &mut forward.0));
    }
}
