//! Strongly connected components of the part of the graph in which one obligation stays pending (Tarjan's
//! algorithm, with a stack of its own because graphs are deeper than the thread's).

use super::graph::Graph;

/// Component of the states outside the region.
pub(crate) const NO_COMPONENT: u32 = u32::MAX;
const UNVISITED: u32 = u32::MAX;

/// The part of a graph in which an obligation is pending and no step meets it.
#[derive(Clone, Copy)]
pub(crate) struct Region<'a> {
    /// The whole graph.
    pub(crate) graph: &'a Graph,
    /// The obligation.
    pub(crate) obligation: usize,
}

impl Region<'_> {
    /// Whether `node` is in the region.
    pub(crate) fn holds(&self, node: u32) -> bool {
        self.graph.pending(node, self.obligation)
    }

    /// Whether `edge`, which leaves a node of the region, stays in it.
    pub(crate) fn stays(&self, edge: usize) -> bool {
        !self.graph.discharged(edge, self.obligation) && self.holds(self.graph.target(edge))
    }
}

/// The component of each state, by id.
pub(crate) fn components(region: Region<'_>) -> Vec<u32> {
    let unvisited = || vec![UNVISITED; region.graph.len()];
    let mut tarjan = Tarjan {
        region,
        order: unvisited(),
        lowest: unvisited(),
        component: vec![NO_COMPONENT; region.graph.len()],
        open: Vec::new(),
        visited: 0,
        closed: 0,
    };
    for node in region.graph.nodes() {
        if region.holds(node) && tarjan.order[node as usize] == UNVISITED {
            tarjan.visit(node);
        }
    }
    tarjan.component
}

struct Tarjan<'a> {
    region: Region<'a>,
    order: Vec<u32>,
    lowest: Vec<u32>,
    component: Vec<u32>,
    open: Vec<u32>,
    visited: u32,
    closed: u32,
}

impl Tarjan<'_> {
    fn visit(&mut self, root: u32) {
        let mut frames = vec![self.enter(root)];
        while let Some((node, edges)) = frames.last_mut() {
            let node = *node;
            match edges.next() {
                Some(edge) => frames.extend(self.follow(node, edge)),
                None => {
                    frames.pop();
                    self.leave(node, frames.last().map(|(parent, _)| *parent));
                }
            }
        }
    }

    fn enter(&mut self, node: u32) -> (u32, std::ops::Range<usize>) {
        self.order[node as usize] = self.visited;
        self.lowest[node as usize] = self.visited;
        self.visited += 1;
        self.open.push(node);
        (node, self.region.graph.edges(node))
    }

    /// Follows an edge; the frame of its target if that is new.
    fn follow(&mut self, node: u32, edge: usize) -> Option<(u32, std::ops::Range<usize>)> {
        let target = self.region.graph.target(edge);
        if !self.region.stays(edge) {
            return None;
        }
        if self.order[target as usize] == UNVISITED {
            return Some(self.enter(target));
        }
        if self.component[target as usize] == NO_COMPONENT {
            self.lower(node, self.order[target as usize]);
        }
        None
    }

    fn leave(&mut self, node: u32, parent: Option<u32>) {
        let lowest = self.lowest[node as usize];
        if let Some(parent) = parent {
            self.lower(parent, lowest);
        }
        if lowest == self.order[node as usize] {
            self.close(node);
        }
    }

    fn lower(&mut self, node: u32, to: u32) {
        let lowest = &mut self.lowest[node as usize];
        *lowest = (*lowest).min(to);
    }

    fn close(&mut self, root: u32) {
        while let Some(node) = self.open.pop() {
            self.component[node as usize] = self.closed;
            if node == root {
                break;
            }
        }
        self.closed += 1;
    }
}
