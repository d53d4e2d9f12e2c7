//! A link between a decode rank and a prefill rank: what each end has noted of a leg, and what is on its way. A ghost of the world: it
//! never asks a machine what it believes.

use lockstep_spec::counters::{Counter, Counters};
use lockstep_spec::ids::{Epoch, Leg, PageId};
use lockstep_spec::invariant::kv_before_run;

/// How far a leg is at the decode end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stage {
    /// Its handshake is not answered.
    Greeting,
    /// Its handshake is answered.
    Ready,
    /// Its page list was handed over.
    Granted,
}

/// A leg and the decode pages that it fills, in the order of positions.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct List {
    /// The leg.
    pub leg: Leg,
    /// The pages.
    pub pages: Vec<PageId>,
}

/// A write that a prefill rank posted: a leg's pages and its row.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Write {
    /// Whose KV.
    pub leg: Leg,
    /// The pages that it reads.
    pub from: Vec<PageId>,
    /// Where it goes; a write without waits for it.
    pub to: Option<List>,
    /// Whether the prefill rank has not been told of its end, so that it may still be reading.
    pub reading: bool,
    /// Whether it has failed.
    pub failed: bool,
    /// Whether its pages may still land.
    pub pages: bool,
    /// Whether its row may still land.
    pub row: bool,
}

/// What of a transfer has landed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Landed {
    /// All pages.
    pub pages: bool,
    /// The row.
    pub row: bool,
}

/// What concerns one decode slot on one link.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Wire {
    /// The decode end's current leg; none once it is over there.
    pub entry: Option<(Leg, Stage)>,
    /// What of it has landed.
    pub landed: Landed,
    /// Which pages the prefill end can write, whatever the decode end believes.
    pub keys: Vec<List>,
    /// Page lists on their way.
    pub lists: Vec<List>,
    /// Revocations on their way.
    pub revokes: Vec<Leg>,
    /// Revocations that the prefill end has acknowledged.
    pub acknowledged: Vec<Leg>,
    /// Writes, by the slot of the leg that they are of.
    pub writes: Vec<Write>,
    /// Failures on their way.
    pub fails: Vec<Leg>,
}

impl Wire {
    /// Whether the decode end has a leg in a stage.
    #[must_use]
    pub fn is(&self, leg: Leg, stage: Stage) -> bool {
        self.entry == Some((leg, stage))
    }

    /// Whether the decode end's handshake of a leg is answered.
    #[must_use]
    pub fn shaken(&self, leg: Leg) -> bool {
        self.is(leg, Stage::Ready) || self.is(leg, Stage::Granted)
    }

    /// Ends a leg at the decode end. The prefill end is told unless there is nothing to give up.
    pub fn revoke(&mut self, leg: Leg, up: bool) {
        if self.entry.take_if(|(entry, _)| *entry == leg).is_some() && up {
            self.revokes.push(leg);
        }
    }

    /// Notes that the pages have landed, or the row; once both have, there is nothing to give up.
    pub fn land(&mut self, pages: bool) {
        self.landed.pages |= pages;
        self.landed.row |= !pages;
        if self.landed.pages && self.landed.row {
            self.entry = None;
        }
    }

    /// What is left once the decode end is gone: words on their way to the prefill end, and writes that land nowhere.
    fn orphaned(self) -> Self {
        let writes = self.writes.into_iter().filter(|write| write.reading);
        let lost = |write| Write { pages: false, row: false, ..write };
        let writes = writes.map(lost).collect();
        Self { lists: self.lists, revokes: self.revokes, writes, ..Self::default() }
    }

    /// Whether nothing is open and nothing is on its way.
    #[must_use]
    pub fn quiet(&self) -> bool {
        self.entry.is_none()
            && self.lists.is_empty()
            && self.revokes.is_empty()
            && self.writes.iter().all(|write| !write.reading)
            && self.fails.is_empty()
    }

    /// Legs about which something is on its way to the prefill end.
    pub fn announced(&self) -> impl Iterator<Item = Leg> + '_ {
        self.lists.iter().map(|list| list.leg).chain(self.revokes.iter().copied())
    }

    /// Whether a write of a leg may still be reading.
    #[must_use]
    pub fn reads(&self, leg: Leg) -> bool {
        self.writes.iter().any(|write| write.leg == leg && write.reading)
    }

    /// Whether a write of a leg has failed.
    #[must_use]
    pub fn failed(&self, leg: Leg) -> bool {
        self.writes.iter().any(|write| write.leg == leg && write.failed)
    }

    fn lose_everything(&mut self) {
        self.lists.clear();
        self.revokes.clear();
        self.fails.clear();
        self.writes.iter_mut().for_each(|write| (write.pages, write.row) = (false, false));
    }
}

/// Which ends of a broken link have not noticed yet. It comes up again when both have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Break {
    /// The decode end has not.
    pub decode_unaware: bool,
    /// The prefill end has not.
    pub prefill_unaware: bool,
}

/// A connection whose decode end is gone, and of which the prefill end does not know that yet.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Gone {
    /// Epoch of the decode group that it was to.
    pub epoch: Epoch,
    /// By decode slot: what is still on its way.
    pub wires: Vec<Wire>,
    /// Whether the door lets the next connection in all the same.
    pub passed: bool,
}

/// A link.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Link {
    /// Epoch of the decode group that is at it.
    pub epoch: Epoch,
    /// By decode slot.
    pub wires: Vec<Wire>,
    /// The connection before, while the prefill end is unaware of its end.
    pub gone: Option<Gone>,
    /// By decode page: whose KV it holds, where that is the leg of the slot that holds the page.
    pub kv: Vec<Option<Leg>>,
    /// What is not known yet of its break.
    pub broken: Break,
}

impl Link {
    /// A link on which nothing was sent.
    #[must_use]
    pub fn new(slots: u32, pages: u32) -> Self {
        Self {
            epoch: Epoch(0),
            wires: vec![Wire::default(); slots as usize],
            gone: None,
            kv: vec![None; pages as usize],
            broken: Break::default(),
        }
    }

    /// Whether it carries messages.
    #[must_use]
    pub fn up(&self) -> bool {
        self.broken == Break::default() && self.gone.as_ref().is_none_or(|gone| gone.passed)
    }

    /// The wire of a leg's slot.
    pub fn wire(&mut self, leg: Leg) -> &mut Wire {
        &mut self.wires[leg.slot.index()]
    }

    /// The wire of a leg's slot as the prefill end sees it: it is of the connection that the leg belongs to.
    #[must_use]
    pub fn at_prefill(&self, leg: Leg) -> &Wire {
        let gone = self.gone.as_ref().filter(|gone| gone.epoch == leg.epoch);
        &gone.map_or(&self.wires, |gone| &gone.wires)[leg.slot.index()]
    }

    /// The same, to be changed.
    pub fn at_prefill_mut(&mut self, leg: Leg) -> &mut Wire {
        let gone = self.gone.as_mut().filter(|gone| gone.epoch == leg.epoch);
        &mut gone.map_or(&mut self.wires, |gone| &mut gone.wires)[leg.slot.index()]
    }

    /// All that is on it, of the connection before as well.
    pub fn all_wires(&self) -> impl Iterator<Item = &Wire> {
        self.wires.iter().chain(self.gone.iter().flat_map(|gone| &gone.wires))
    }

    /// Whether the prefill end has a connection, as far as it knows, to which a leg of an epoch belongs.
    #[must_use]
    pub fn reaches(&self, epoch: Epoch) -> bool {
        match &self.gone {
            Some(gone) if gone.epoch == epoch => true,
            Some(gone) => gone.passed && epoch == self.epoch,
            None => epoch == self.epoch && (self.up() || self.broken.prefill_unaware),
        }
    }

    /// Another decode group takes the place of the one at it, which is gone with its memory.
    pub fn replace_decode_end(&mut self, next: Epoch, passed: bool) {
        let connected = self.broken == Break::default() || self.broken.prefill_unaware;
        let blank = vec![Wire::default(); self.wires.len()];
        let wires = std::mem::replace(&mut self.wires, blank).into_iter().map(Wire::orphaned).collect();
        let epoch = std::mem::replace(&mut self.epoch, next);
        if self.gone.is_none() && connected {
            self.gone = Some(Gone { epoch, wires, passed });
        }
        self.broken = Break::default();
        self.kv.fill(None);
    }

    /// Another prefill group takes the place of the one at it. What it wrote may land until the decode end notices.
    pub fn replace_prefill_end(&mut self) {
        self.broken.decode_unaware |= self.up();
        self.broken.prefill_unaware = false;
        self.gone = None;
        for wire in &mut self.wires {
            wire.lists.clear();
            wire.revokes.clear();
            wire.writes.iter_mut().for_each(|write| (write.reading, write.failed) = (false, false));
        }
    }

    /// The decode end takes nothing more from a connection that has ended.
    pub fn silence(&mut self) {
        self.wires.iter_mut().for_each(Wire::lose_everything);
    }

    /// Hands a page list over, and gives the key to it. Refused if the leg is over here.
    pub fn grant(&mut self, list: &List) -> bool {
        let up = self.up();
        let decode_unaware = self.broken.decode_unaware;
        let wire = self.wire(list.leg);
        if !wire.is(list.leg, Stage::Ready) || !(up || decode_unaware) {
            return false;
        }
        wire.entry = Some((list.leg, Stage::Granted));
        wire.landed = Landed::default();
        wire.keys.push(list.clone());
        if up {
            wire.lists.push(list.clone());
        }
        true
    }

    /// Runs a leg's next forward at `position`: its KV must be whole here and its own, and no key may let anybody write over it.
    ///
    /// # Errors
    /// The violated property.
    pub fn run(&mut self, leg: Leg, position: usize, pages: &[PageId]) -> Result<(), &'static str> {
        let whole = pages.iter().take(position).all(|page| self.kv[page.0 as usize] == Some(leg));
        let keyed = self.wires.iter().flat_map(|wire| &wire.keys).any(|key| key.leg == leg);
        if !whole || keyed {
            return Err(kv_before_run::PROPERTY.id);
        }
        if let Some(page) = pages.get(position) {
            self.kv[page.0 as usize] = Some(leg);
        }
        Ok(())
    }

    /// All that is on it is lost.
    pub fn cut(&mut self) {
        self.broken = Break { decode_unaware: true, prefill_unaware: true };
        self.silence();
    }

    /// Whether there is a key to where a list leads.
    pub(super) fn keyed(&self, to: &List) -> bool {
        self.wires[to.leg.slot.index()].keys.contains(to)
    }
}

impl Counters for List {
    fn visit(&mut self, visit: &mut dyn FnMut(Counter, &mut u64)) {
        self.leg.visit(visit);
    }
}

impl Counters for Wire {
    fn visit(&mut self, visit: &mut dyn FnMut(Counter, &mut u64)) {
        if let Some((leg, _)) = &mut self.entry {
            leg.visit(visit);
        }
        self.keys.visit(visit);
        self.lists.visit(visit);
        self.revokes.visit(visit);
        self.acknowledged.visit(visit);
        self.fails.visit(visit);
        for write in &mut self.writes {
            write.leg.visit(visit);
            write.to.visit(visit);
        }
    }
}

impl Counters for Link {
    fn visit(&mut self, visit: &mut dyn FnMut(Counter, &mut u64)) {
        self.wires.visit(visit);
        if let Some(gone) = &mut self.gone {
            gone.wires.visit(visit);
        }
        self.kv.visit(visit);
    }
}
