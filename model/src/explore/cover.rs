//! Ways through a small model that leave nothing of it out: what a program is to be led along, for its every turn to be compared with the
//! model's. A way is the indices of the actions taken, from the first initial state.
//!
//! The *boundary graph* has the states in which all ranks are between rounds; an edge leads from one to the next on whatever way. Of the ways
//! between the same two, a shortest stands for all.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::fingerprint::fingerprint;
use super::model::Explorable;
use super::notes::Notes;
use super::trail::actions;

/// Steps after which a way ends at the next boundary, so that what goes wrong on it is found near its end.
const LONG: usize = 4_000;

/// Ways that take every edge of a boundary graph.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tours {
    /// States of the graph.
    pub states: usize,
    /// Its edges.
    pub edges: usize,
    /// The ways.
    pub ways: Vec<Vec<u32>>,
}

/// Ways that take every edge of the boundary graph of `model`, whose states must fit into memory.
pub fn tours<M: Explorable>(model: &M) -> Tours {
    let mut tourist = Tourist::new(boundary_graph(model));
    let ways = std::iter::from_fn(|| tourist.tour()).collect();
    let edges = tourist.graph.iter().map(Vec::len).sum();
    Tours { states: tourist.graph.len(), edges, ways }
}

/// For each of `wanted` that is reached: a shortest way to the step that covers it. What is reached is taken out of `wanted`.
pub fn ways_to_points<M: Explorable>(model: &M, wanted: &mut BTreeSet<String>) -> Vec<(String, Vec<u32>)> {
    let points = model.points();
    let Some(start) = model.init_states().into_iter().next() else { return Vec::new() };
    let mut seen = BTreeSet::from([fingerprint(&start)]);
    // By state: the state before it, and the action taken there.
    let mut origins = vec![(0, 0)];
    let (mut queue, mut ways) = (VecDeque::from([(0, start)]), Vec::new());
    while let Some((id, state)) = queue.pop_front().filter(|_| !wanted.is_empty()) {
        for (choice, action) in (0..).zip(actions(model, &state)) {
            let mut notes = Notes::default();
            let Some(next) = model.next_noted(&state, action, &mut notes) else { continue };
            let covered = points.iter().enumerate().filter(|(point, _)| notes.noted(*point));
            for (_, point) in covered.filter(|(_, name)| wanted.remove(*name)) {
                ways.push((point.clone(), way_back(&origins, id, choice)));
            }
            if seen.insert(fingerprint(&next)) {
                queue.push_back((origins.len(), next));
                origins.push((id, choice));
            }
        }
    }
    ways
}

/// A way of so many steps at most, drawn by `seed`; of the actions that come `first`, where some are offered, it takes the first one.
pub fn drawn<M: Explorable>(model: &M, seed: u64, steps: usize, first: fn(&M::Action) -> bool) -> Vec<u32> {
    let (mut state, mut number, mut way) = (model.init_states().into_iter().next(), seed, Vec::new());
    while let Some(at) = state.take().filter(|_| way.len() < steps) {
        let mut offered = actions(model, &at);
        number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let any = (number >> 33).checked_rem(offered.len() as u64).and_then(|any| usize::try_from(any).ok());
        let Some(choice) = offered.iter().position(first).or(any) else { break };
        way.extend(u32::try_from(choice));
        state = model.next_state(&at, offered.swap_remove(choice));
    }
    way
}

fn way_back(origins: &[(usize, u32)], mut id: usize, last: u32) -> Vec<u32> {
    let mut way = vec![last];
    while id != 0 {
        let (before, choice) = origins[id];
        way.push(choice);
        id = before;
    }
    way.reverse();
    way
}

struct Edge {
    to: usize,
    way: Vec<u32>,
}

/// By state: the edges that leave it. The first state is the initial one.
type BoundaryGraph = Vec<Vec<Edge>>;

fn boundary_graph<M: Explorable>(model: &M) -> BoundaryGraph {
    let mut ids = BTreeMap::new();
    let mut states = VecDeque::new();
    let mut graph = Vec::new();
    let Some(start) = model.init_states().into_iter().next() else { return graph };
    ids.insert(fingerprint(&start), 0);
    states.push_back(start);
    while let Some(state) = states.pop_front() {
        let mut edges = Vec::new();
        for (next, way) in next_boundary(model, &state) {
            let (fresh, print) = (ids.len(), fingerprint(&next));
            let to = *ids.entry(print).or_insert(fresh);
            if to == fresh {
                states.push_back(next);
            }
            edges.push(Edge { to, way });
        }
        graph.push(edges);
    }
    graph
}

/// The states between rounds that come next, each with a shortest way.
fn next_boundary<M: Explorable>(model: &M, from: &M::State) -> Vec<(M::State, Vec<u32>)> {
    let mut seen = BTreeSet::new();
    let (mut queue, mut found) = (VecDeque::from([(from.clone(), Vec::new())]), Vec::new());
    while let Some((state, way)) = queue.pop_front() {
        for (choice, action) in (0..).zip(actions(model, &state)) {
            let next = model.next_state(&state, action).filter(|next| seen.insert(fingerprint(next)));
            let Some(next) = next else { continue };
            let mut way = way.clone();
            way.push(choice);
            if model.between_rounds(&next) {
                found.push((next, way));
            } else {
                queue.push_back((next, way));
            }
        }
    }
    found
}

/// Who takes every edge once at least.
struct Tourist {
    graph: BoundaryGraph,
    /// By state: how many of its edges were taken, the first ones.
    taken: Vec<usize>,
    /// By state: in which search it was last seen, from which state, by which edge.
    seen: Vec<(usize, usize, usize)>,
    searches: usize,
}

impl Tourist {
    fn new(graph: BoundaryGraph) -> Self {
        let states = graph.len();
        Self { graph, taken: vec![0; states], seen: vec![(0, 0, 0); states], searches: 0 }
    }

    /// A way from the initial state with edges that no way before has taken; none if all are taken.
    fn tour(&mut self) -> Option<Vec<u32>> {
        let (mut at, mut way) = (0, Vec::new());
        while way.len() < LONG {
            let Some((state, known)) = self.nearest_untaken(at) else { break };
            way.extend(known);
            let edge = &self.graph[state][self.taken[state]];
            way.extend(&edge.way);
            self.taken[state] += 1;
            at = edge.to;
        }
        (!way.is_empty()).then_some(way)
    }

    /// The nearest state with an edge that is not taken, and the way there; none if there is none in reach.
    fn nearest_untaken(&mut self, from: usize) -> Option<(usize, Vec<u32>)> {
        self.searches += 1;
        self.seen.get_mut(from)?.0 = self.searches;
        let mut queue = VecDeque::from([from]);
        while let Some(at) = queue.pop_front() {
            if self.taken[at] < self.graph[at].len() {
                return Some((at, self.way_between(from, at)));
            }
            for (edge, Edge { to, .. }) in self.graph[at].iter().enumerate() {
                if self.seen[*to].0 != self.searches {
                    self.seen[*to] = (self.searches, at, edge);
                    queue.push_back(*to);
                }
            }
        }
        None
    }

    /// The way that the last search went.
    fn way_between(&self, from: usize, mut to: usize) -> Vec<u32> {
        let mut edges = Vec::new();
        while to != from {
            let (_, before, edge) = self.seen[to];
            edges.push(&self.graph[before][edge].way);
            to = before;
        }
        edges.into_iter().rev().flatten().copied().collect()
    }
}
