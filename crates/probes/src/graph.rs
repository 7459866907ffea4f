//! Directed graphs of small integers: dominators, loops, cycles.

/// A directed graph.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    /// Successors of each node.
    pub next: Vec<Vec<usize>>,
    /// Predecessors of each node.
    pub before: Vec<Vec<usize>>,
}

/// A natural loop: the nodes from which its header can be reached again without leaving it.
#[derive(Clone, Debug)]
pub struct Loop {
    /// The node through which it is entered, if it can be entered through one only.
    pub header: usize,
    /// The nodes that jump back to the header.
    pub latches: Vec<usize>,
    /// All its nodes, sorted.
    pub body: Vec<usize>,
}

impl Loop {
    /// Whether `node` is in the loop.
    pub fn contains(&self, node: usize) -> bool {
        self.body.binary_search(&node).is_ok()
    }
}

impl Graph {
    /// A graph of `nodes` nodes without edges.
    pub fn new(nodes: usize) -> Self {
        Graph { next: vec![Vec::new(); nodes], before: vec![Vec::new(); nodes] }
    }

    /// Number of nodes.
    pub fn len(&self) -> usize {
        self.next.len()
    }

    /// Whether it has no nodes.
    pub fn is_empty(&self) -> bool {
        self.next.is_empty()
    }

    /// Adds an edge, once.
    pub fn add(&mut self, from: usize, to: usize) {
        if !self.next[from].contains(&to) {
            self.next[from].push(to);
            self.before[to].push(from);
        }
    }

    /// The nodes that can be reached from `roots`, each after its successors as far as there is
    /// no cycle.
    pub fn postorder(&self, roots: &[usize]) -> Vec<usize> {
        let mut seen = vec![false; self.len()];
        let mut order = Vec::new();
        let mut stack: Vec<(usize, usize)> = Vec::new();
        for &root in roots {
            if std::mem::replace(&mut seen[root], true) {
                continue;
            }
            stack.push((root, 0));
            while let Some((node, at)) = stack.last_mut() {
                match self.next[*node].get(*at) {
                    Some(&next) => {
                        *at += 1;
                        if !std::mem::replace(&mut seen[next], true) {
                            stack.push((next, 0));
                        }
                    }
                    None => {
                        order.push(*node);
                        stack.pop();
                    }
                }
            }
        }
        order
    }

    /// The loops: those of each edge back to a dominator, and of each other edge that closes a
    /// cycle on the way from `roots`. Loops with the same header are one.
    pub fn loops(&self, roots: &[usize]) -> Vec<Loop> {
        let mut order = self.postorder(roots);
        order.reverse();
        let mut rank = vec![usize::MAX; self.len()];
        for (at, &node) in order.iter().enumerate() {
            rank[node] = at;
        }
        let mut loops: Vec<Loop> = Vec::new();
        for &header in &order {
            // A successor that comes no later on the way closes a cycle; from a reducible loop
            // these are just the edges to its header.
            let back = |&&from: &&usize| rank[from] != usize::MAX && rank[from] >= rank[header];
            let latches: Vec<usize> = self.before[header].iter().filter(back).copied().collect();
            if !latches.is_empty() {
                let body = self.body(header, &latches, &rank);
                loops.push(Loop { header, latches, body });
            }
        }
        loops
    }

    /// The nodes from which `latches` can be reached without `header`, and `header`. What comes
    /// before the header on the way from the roots belongs to a cycle around it, not to this one.
    fn body(&self, header: usize, latches: &[usize], rank: &[usize]) -> Vec<usize> {
        let mut inside = vec![false; self.len()];
        inside[header] = true;
        let mut body = vec![header];
        let mut work = latches.to_vec();
        while let Some(node) = work.pop() {
            if rank[node] < rank[header] || rank[node] == usize::MAX {
                continue;
            }
            if !std::mem::replace(&mut inside[node], true) {
                body.push(node);
                work.extend(&self.before[node]);
            }
        }
        body.sort_unstable();
        body
    }

    /// A set of nodes that lie on a common cycle, if any does among those that `allowed` admits
    /// over edges that `open` admits.
    pub fn cycle(
        &self,
        nodes: &[usize],
        allowed: impl Fn(usize) -> bool,
        open: impl Fn(usize, usize) -> bool,
    ) -> Option<Vec<usize>> {
        // Tarjan's components, without recursion.
        const NEW: u32 = u32::MAX;
        let mut index = vec![NEW; self.len()];
        let mut low = vec![0u32; self.len()];
        let mut on_stack = vec![false; self.len()];
        let mut stack = Vec::new();
        let mut calls: Vec<(usize, usize)> = Vec::new();
        let mut count = 0;
        for &root in nodes {
            if index[root] != NEW || !allowed(root) {
                continue;
            }
            calls.push((root, 0));
            while let Some(&(node, at)) = calls.last() {
                if at == 0 {
                    index[node] = count;
                    low[node] = count;
                    count += 1;
                    stack.push(node);
                    on_stack[node] = true;
                }
                if let Some(&next) = self.next[node].get(at) {
                    if let Some(top) = calls.last_mut() {
                        top.1 += 1;
                    }
                    if !allowed(next) || !open(node, next) {
                        continue;
                    }
                    if next == node {
                        return Some(vec![node]);
                    }
                    if index[next] == NEW {
                        calls.push((next, 0));
                    } else if on_stack[next] {
                        low[node] = low[node].min(index[next]);
                    }
                    continue;
                }
                calls.pop();
                if let Some(&(parent, _)) = calls.last() {
                    low[parent] = low[parent].min(low[node]);
                }
                if low[node] == index[node] {
                    let from = stack.iter().rposition(|&other| other == node).unwrap_or(0);
                    let component = stack.split_off(from);
                    for &other in &component {
                        on_stack[other] = false;
                    }
                    if component.len() > 1 {
                        return Some(component);
                    }
                }
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(edges: &[(usize, usize)]) -> Graph {
        let nodes = edges.iter().map(|&(a, b)| a.max(b)).max().unwrap() + 1;
        let mut graph = Graph::new(nodes);
        for &(from, to) in edges {
            graph.add(from, to);
        }
        graph
    }

    #[test]
    fn nested_loops() {
        let graph = graph(&[(0, 1), (1, 2), (2, 2), (2, 3), (3, 1), (3, 4)]);
        let loops = graph.loops(&[0]);
        let found: Vec<_> = loops.iter().map(|a| (a.header, a.body.clone())).collect();
        assert_eq!(found, [(1, vec![1, 2, 3]), (2, vec![2])]);
        assert_eq!(loops[0].latches, [3]);
    }

    #[test]
    fn a_cycle_with_two_entries_is_a_loop_too() {
        let graph = graph(&[(0, 1), (0, 2), (1, 2), (2, 1)]);
        assert_eq!(graph.loops(&[0]).len(), 1);
    }

    #[test]
    fn cycles_end_where_nodes_or_edges_are_taken_out() {
        let graph = graph(&[(0, 1), (1, 2), (2, 1), (2, 3), (3, 3)]);
        let nodes = [0, 1, 2, 3];
        let mut found = graph.cycle(&nodes, |node| node != 3, |_, _| true).unwrap();
        found.sort_unstable();
        assert_eq!(found, [1, 2]);
        assert_eq!(graph.cycle(&nodes, |node| node != 1, |_, _| true), Some(vec![3]));
        assert_eq!(graph.cycle(&nodes, |node| node != 1, |a, b| a != b), None);
    }
}
