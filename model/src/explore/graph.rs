//! The recorded state graph, and which of its states cannot reach a goal.
//!
//! Edges are kept in the order of their source, 12 bytes each; a state's edges are its steps in the model's order.

use std::io::{self, Read, Write};
use std::ops::Range;

use super::expand::Edges;
use super::model::{StateMarks, StepMarks};
use super::seen::Claim;
use super::snapshot::{Store, load_all, store_all, unfit};

/// Number of obligations that fit into the marks of a state or step.
pub(crate) const MOST_OBLIGATIONS: usize = 31;
/// Number of fairness constraints that fit into the marks of a state or step.
pub(crate) const MOST_FAIRNESS: usize = 32;

const FLAG: u64 = 1 << 63;
const OBLIGATIONS_FROM: u32 = 32;

impl StateMarks {
    /// The marks in one word.
    pub(crate) fn pack(self) -> u64 {
        pack(self.goal, self.pending, self.enabled)
    }
}

impl StepMarks {
    /// The marks in one word.
    pub(crate) fn pack(self) -> u64 {
        pack(self.benign, self.discharged, self.taken)
    }
}

fn pack(flag: bool, obligations: u32, fairness: u32) -> u64 {
    let obligations = u64::from(obligations) << OBLIGATIONS_FROM & !FLAG;
    if flag { FLAG | obligations | u64::from(fairness) } else { obligations | u64::from(fairness) }
}

/// States by id, with their edges.
#[derive(Default)]
pub(crate) struct Graph {
    ends: Vec<u64>,
    states: Vec<u64>,
    targets: Vec<u32>,
    steps: Vec<u64>,
}

impl Graph {
    /// Appends the edges of the next states.
    pub(crate) fn extend(&mut self, edges: Edges, id_of: impl Fn(Claim) -> u32) {
        for (claim, marks) in edges.steps {
            self.targets.push(id_of(claim));
            self.steps.push(marks);
        }
        for (degree, marks) in edges.degrees.into_iter().zip(edges.states) {
            self.ends.push(self.ends.last().copied().unwrap_or_default() + u64::from(degree));
            self.states.push(marks);
        }
    }

    /// What [`Store::store`] wrote of a search that knows so many states.
    pub(crate) fn load(input: &mut dyn Read, known: u32) -> io::Result<Self> {
        let graph = Self {
            ends: load_all(input)?,
            states: load_all(input)?,
            targets: load_all(input)?,
            steps: load_all(input)?,
        };
        let edges = graph.targets.len();
        let whole = graph.ends.len() == graph.states.len()
            && graph.ends.last().copied().unwrap_or_default() == edges as u64
            && graph.steps.len() == edges;
        let sound = graph.ends.is_sorted() && graph.targets.iter().all(|target| *target < known);
        if whole && sound { Ok(graph) } else { Err(unfit("its graph is not one")) }
    }

    /// Number of states.
    pub(crate) fn len(&self) -> usize {
        self.states.len()
    }

    /// All states.
    pub(crate) fn nodes(&self) -> Range<u32> {
        0..u32::try_from(self.states.len()).unwrap_or(u32::MAX)
    }

    /// The edges out of `node`.
    pub(crate) fn edges(&self, node: u32) -> Range<usize> {
        let end = |node: usize| usize::try_from(self.ends[node]).unwrap_or(usize::MAX);
        let start = (node as usize).checked_sub(1).map_or(0, end);
        start..end(node as usize)
    }

    /// The state that `edge` leads to.
    pub(crate) fn target(&self, edge: usize) -> u32 {
        self.targets[edge]
    }

    /// Whether `obligation` is pending in `node`.
    pub(crate) fn pending(&self, node: u32, obligation: usize) -> bool {
        self.states[node as usize] & obligation_bit(obligation) != 0
    }

    /// Whether `edge` meets `obligation`.
    pub(crate) fn discharged(&self, edge: usize, obligation: usize) -> bool {
        self.steps[edge] & obligation_bit(obligation) != 0
    }

    /// Bits of the fairness constraints that `node` serves by their being disabled.
    pub(crate) fn disabled(&self, node: u32) -> u32 {
        !low_half(self.states[node as usize])
    }

    /// Bits of the fairness constraints that `edge` serves by taking them.
    pub(crate) fn taken(&self, edge: usize) -> u32 {
        low_half(self.steps[edge])
    }

    /// Bits of the obligations that are pending somewhere.
    pub(crate) fn ever_pending(&self) -> u32 {
        high_half(self.states.iter().fold(0, |all, marks| all | marks)) & !(1 << MOST_OBLIGATIONS)
    }

    /// Bits of the fairness constraints that are enabled somewhere and taken nowhere.
    pub(crate) fn never_taken(&self) -> u32 {
        let enabled = self.states.iter().fold(0, |all, marks| all | low_half(*marks));
        self.steps.iter().fold(enabled, |open, marks| open & !low_half(*marks))
    }

    /// The states from which no benign edges lead to a goal, in breadth-first order.
    pub(crate) fn trapped(&self) -> Vec<u32> {
        let backward = Backward::benign(self);
        let mut free: Vec<bool> = self.states.iter().map(|marks| marks & FLAG != 0).collect();
        let mut open: Vec<u32> = self.nodes().filter(|node| free[*node as usize]).collect();
        while let Some(node) = open.pop() {
            for source in backward.sources(node) {
                if !std::mem::replace(&mut free[*source as usize], true) {
                    open.push(*source);
                }
            }
        }
        self.nodes().filter(|node| !free[*node as usize]).collect()
    }
}

impl Store for Graph {
    fn store(&self, out: &mut dyn Write) -> io::Result<()> {
        store_all(out, self.ends.len(), self.ends.iter().copied())?;
        store_all(out, self.states.len(), self.states.iter().copied())?;
        store_all(out, self.targets.len(), self.targets.iter().copied())?;
        store_all(out, self.steps.len(), self.steps.iter().copied())
    }
}

const fn obligation_bit(obligation: usize) -> u64 {
    1 << (OBLIGATIONS_FROM as usize + obligation)
}

#[expect(clippy::cast_possible_truncation, reason = "the fairness bits are the low half")]
const fn low_half(marks: u64) -> u32 {
    marks as u32
}

const fn high_half(marks: u64) -> u32 {
    (marks >> OBLIGATIONS_FROM) as u32
}

/// The benign edges, by target.
struct Backward {
    ends: Vec<usize>,
    sources: Vec<u32>,
}

impl Backward {
    fn benign(graph: &Graph) -> Self {
        let benign = |edge: &usize| graph.steps[*edge] & FLAG != 0;
        let mut ends = vec![0; graph.len()];
        for edge in (0..graph.targets.len()).filter(benign) {
            ends[graph.target(edge) as usize] += 1;
        }
        let mut total = 0;
        for end in &mut ends {
            total += std::mem::replace(end, total);
        }
        // Each entry starts as the begin of its range and is moved to the end by the edges put into it.
        let mut sources = vec![0; total];
        for node in graph.nodes() {
            for edge in graph.edges(node).filter(benign) {
                let slot = &mut ends[graph.target(edge) as usize];
                sources[*slot] = node;
                *slot += 1;
            }
        }
        Self { ends, sources }
    }

    fn sources(&self, node: u32) -> &[u32] {
        let start = (node as usize).checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.sources[start..self.ends[node as usize]]
    }
}
