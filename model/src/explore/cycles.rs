//! Search for fair cycles: behaviours in which an obligation stays pending for ever although every fairness
//! constraint is served again and again.
//!
//! A maximal strongly connected component that serves every constraint somewhere contains such a cycle, and if
//! none does there is none (weak fairness). A pending state without successors is the shortest of them.

use std::collections::VecDeque;

use super::components::{NO_COMPONENT, Region, components};
use super::graph::Graph;

/// A way to stay for ever: from state `at`, the edges as ordinals among each state's steps; none if it just ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lasso {
    /// First state of the cycle.
    pub(crate) at: u32,
    /// Which of its steps each state of the cycle takes.
    pub(crate) cycle: Vec<u32>,
}

/// A fair cycle on which `obligation` stays pending, entered at the state with the smallest id.
pub(crate) fn fair_cycle(graph: &Graph, obligation: usize, constraints: usize) -> Option<Lasso> {
    let region = Region { graph, obligation };
    let component = components(region);
    let every = u32::try_from((1u64 << constraints) - 1).unwrap_or(u32::MAX);
    let tour = Tour { region, component, every };
    let served = tour.served();
    let forever = |node: &u32| {
        let own = tour.component[*node as usize];
        own != NO_COMPONENT && (graph.edges(*node).is_empty() || served[own as usize] == Some(every))
    };
    graph.nodes().find(forever).map(|at| Lasso { at, cycle: tour.cycle(at) })
}

struct Tour<'a> {
    region: Region<'a>,
    component: Vec<u32>,
    every: u32,
}

impl Tour<'_> {
    /// The constraints each component serves; `None` for one without an edge.
    fn served(&self) -> Vec<Option<u32>> {
        let graph = self.region.graph;
        let count = self
            .component
            .iter()
            .filter(|own| **own != NO_COMPONENT)
            .max()
            .map_or(0, |most| *most as usize + 1);
        let mut served = vec![None; count];
        for node in graph.nodes().filter(|node| self.region.holds(*node)) {
            for edge in graph.edges(node).filter(|edge| self.inside(node, *edge)) {
                let bits = self.edge_serves(edge) | graph.disabled(node) & self.every;
                *served[self.component[node as usize] as usize].get_or_insert(0) |= bits;
            }
        }
        served
    }

    fn inside(&self, node: u32, edge: usize) -> bool {
        let target = self.region.graph.target(edge);
        self.region.stays(edge) && self.component[target as usize] == self.component[node as usize]
    }

    /// The constraints served by taking `edge` and being where it leads.
    fn edge_serves(&self, edge: usize) -> u32 {
        let graph = self.region.graph;
        (graph.taken(edge) | graph.disabled(graph.target(edge))) & self.every
    }

    /// A closed walk through `start` that serves every constraint, as ordinals.
    fn cycle(&self, start: u32) -> Vec<u32> {
        let graph = self.region.graph;
        let mut walk = Vec::new();
        let (mut node, mut served) = (start, 0);
        while served != self.every {
            let leg = self.shortest(node, |edge| self.edge_serves(edge) & !served != 0);
            let Some((last, _)) = leg.last() else { break };
            node = graph.target(*last);
            served |= leg.iter().fold(0, |bits, (edge, _)| bits | self.edge_serves(*edge));
            walk.extend(leg);
        }
        if node != start || walk.is_empty() {
            walk.extend(self.shortest(node, |edge| graph.target(edge) == start));
        }
        walk.into_iter().map(|(_, ordinal)| ordinal).collect()
    }

    /// The shortest walk inside the component of `from` whose last edge is `wanted`: edges with their ordinals.
    fn shortest(&self, from: u32, wanted: impl Fn(usize) -> bool) -> Vec<(usize, u32)> {
        let graph = self.region.graph;
        let mut came: Vec<Option<(u32, usize)>> = vec![None; graph.len()];
        let mut open = VecDeque::from([from]);
        while let Some(node) = open.pop_front() {
            for edge in graph.edges(node).filter(|edge| self.inside(node, *edge)) {
                let target = graph.target(edge);
                if wanted(edge) {
                    return self.unwind(&came, from, (node, edge));
                }
                if target != from && came[target as usize].is_none() {
                    came[target as usize] = Some((node, edge));
                    open.push_back(target);
                }
            }
        }
        Vec::new()
    }

    fn unwind(&self, came: &[Option<(u32, usize)>], from: u32, last: (u32, usize)) -> Vec<(usize, u32)> {
        let mut walk = Vec::new();
        let mut step = Some(last);
        while let Some((node, edge)) = step {
            let ordinal = edge - self.region.graph.edges(node).start;
            walk.push((edge, u32::try_from(ordinal).unwrap_or(u32::MAX)));
            step = if node == from { None } else { came[node as usize] };
        }
        walk.reverse();
        walk
    }
}
