//! Pipeline stages that pass microbatches on, and an abort that reaches each stage at another microbatch.
//!
//! A stage sends the next one as many rows as its batch has requests, and the next one receives as many as its own batch has. Rules:
//! * `Own`: a stage drops a request with its next microbatch once it has seen the abort. Sender and receiver differ in the length.
//! * `First`: the first stage drops it and says so in a header before the rows. A later stage may have to drop what it has not seen
//!   aborted, and cannot let go of.
//! * `Consensus`: the header also collects who has seen the abort. The last stage returns it, and the first one drops what all have seen.

use lockstep_model::protocol::{self, prelude::*};

/// A message to the next stage of the pipeline, or from the last stage to the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Site {
    /// From this stage: whether the request is dropped, and whether every stage so far has seen its abort.
    Header(usize),
    /// From this stage: the rows of the microbatch.
    Rows(usize),
    /// From this stage, the last: whether every stage has seen the abort.
    Return(usize),
}

blocking_sites!(Site);

impl Meeting for Site {
    fn collective(self) -> Collective {
        match self {
            Self::Header(from) | Self::Rows(from) => Collective::message(from, from + 1),
            Self::Return(last) => Collective::message(last, 0),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Rule {
    Own,
    First,
    Consensus,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Aborted;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Stage {
    rule: Rule,
    index: usize,
    last: usize,
    /// This stage has seen the abort.
    aborted: bool,
    /// So has every stage before it, by the header of the microbatch in hand; for the first stage, every stage there is.
    others_aborted: bool,
    /// The request is out of this stage's batches.
    dropped: bool,
    /// Messages of the microbatch in hand that are behind this stage.
    done: usize,
}

impl Stage {
    /// The messages of a microbatch in which this stage takes part, in their order.
    fn messages(&self) -> Vec<Site> {
        let links = [self.index.checked_sub(1), (self.index < self.last).then_some(self.index)];
        let messages = links.into_iter().flatten().flat_map(|from| [Site::Header(from), Site::Rows(from)]);
        let returns = [0, self.last].contains(&self.index).then_some(Site::Return(self.last));
        messages.chain(returns).collect()
    }

    fn enter(&self, site: Site) -> Posted<Site> {
        let aborted = u64::from(self.aborted && (self.others_aborted || self.index == 0));
        match site {
            Site::Header(from) if from == self.index => site.bring([u64::from(self.dropped), aborted]),
            Site::Return(last) if last == self.index => site.bring([aborted]),
            Site::Header(_) => site.enter(2),
            Site::Return(_) => site.enter(1),
            Site::Rows(_) => site.enter(if self.dropped { 1 } else { 2 }),
        }
    }
}

impl RankProgram for Stage {
    type Site = Site;
    type Fact = Aborted;
    type Entry = Posted<Site>;
    type Local = ();

    fn step(&mut self, event: Event<Aborted, Site>, effects: &mut Vec<Effect<Posted<Site>, ()>>) {
        match event {
            Event::Fact(Aborted) => self.aborted = true,
            Event::Turn => {
                let decides = match self.rule {
                    Rule::Own => true,
                    Rule::First => self.index == 0,
                    Rule::Consensus => self.index == 0 && self.others_aborted,
                };
                self.dropped |= self.done == 0 && decides && self.aborted;
                let messages = self.messages();
                effects.push(Effect::Enter(self.enter(messages[self.done])));
                self.done = (self.done + 1) % messages.len();
            }
            Event::Completed { ticket, payload } => match ticket.site {
                Site::Header(from) if from < self.index => {
                    self.dropped |= payload[0] == 1 && self.rule != Rule::Own;
                    self.others_aborted = payload[1] == 1;
                }
                Site::Return(_) if self.index == 0 => self.others_aborted = payload == [1],
                Site::Header(_) | Site::Rows(_) | Site::Return(_) => {}
            },
        }
    }
}

no_counters!(Stage);

/// A pipeline of so many stages, with one request that may be aborted.
#[derive(Debug)]
struct Pipeline(Rule, usize);

impl Protocol for Pipeline {
    type Rank = Stage;
    type Around = ();

    fn ranks(&self) -> Vec<Stage> {
        let (rule, last, no) = (self.0, self.1 - 1, false);
        let first = Stage { rule, index: 0, last, aborted: no, others_aborted: no, dropped: no, done: 0 };
        (0..self.1).map(|index| Stage { index, ..first.clone() }).collect()
    }

    fn facts(&self, state: &StateOf<Self>, rank: usize) -> Vec<Aborted> {
        (!state.ranks[rank].aborted).then_some(Aborted).into_iter().collect()
    }

    fn rested(&self, state: &StateOf<Self>) -> bool {
        state.ranks.iter().all(|stage| stage.dropped == stage.aborted)
    }

    fn claims(&self, claims: &mut Claims<Self>) {
        claims.always("seen-before-drop", "No stage drops what it has not seen aborted.", |_, state| {
            state.ranks.iter().all(|stage| stage.aborted || !stage.dropped)
        });
    }
}

fn main() -> std::process::ExitCode {
    protocol::main([
        protocol::violates("own-abort", "matched", Pipeline(Rule::Own, 2)),
        protocol::violates("first-stage-decides", "seen-before-drop", Pipeline(Rule::First, 2)),
        protocol::holds("consensus", Pipeline(Rule::Consensus, 2)),
        protocol::holds("consensus-of-three", Pipeline(Rule::Consensus, 3)),
    ])
}
