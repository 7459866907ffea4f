//! An unbounded queue of tasks in the order of a key, linked through a table, under a tiny spin
//! lock.
//!
//! A leftist heap (Crane 1972): a binary tree in which every task's key is not above those of its
//! children, and in which the way to the nearest free place is never longer to the right than to
//! the left. So the rightmost path has at most `log2(n + 1)` tasks, and both adding and taking are
//! a merge along two such paths: logarithmic always, not only on average, which matters under a
//! spin lock. As in a [`List`](super::List) there is no node to allocate.
//!
//! Among equal keys the order is first in, first out: each addition takes a number, which is
//! compared after the key.
//!
//! # Ordering
//!
//! The lock orders everything in the heap: who takes a task sees what was done before it was added.
//! `len` is stored under the lock with release. Who sees the length without the lock sees what the
//! holder did before; the root and its key are only hints then.

use crate::{
    Task,
    sync::{AtomicU32, AtomicU64, AtomicUsize, Ordering::*, Spin},
    table::{self, Table},
};

/// The place of each task in whichever [`Heap`] holds it. Share one table among all heaps of a
/// policy.
#[derive(Debug)]
pub struct Nodes(Table<HeapNode>);

/// A link holds a task's number plus one, 0 for none. All are accessed relaxed, under the lock of
/// the heap.
#[derive(Debug, Default)]
pub(crate) struct HeapNode {
    left: AtomicU32,
    right: AtomicU32,
    /// The number of tasks on the path to the right, with this one.
    rank: AtomicU32,
    key: AtomicU64,
    /// When it was added, among those with this key.
    number: AtomicU64,
}

impl Nodes {
    /// Nodes for the tasks `0..max_tasks`: 32 bytes each, physically allocated as tasks are first
    /// queued.
    ///
    /// # Panics
    ///
    /// If `max_tasks` is `u32::MAX`, or if memory cannot be reserved.
    pub fn new(max_tasks: u32) -> Self {
        assert!(max_tasks < u32::MAX, "max_tasks must be below 2^32 - 1");
        Nodes(table::zeroed_nodes(max_tasks))
    }

    fn of(&self, link: u32) -> &HeapNode {
        &self.0[link as usize - 1]
    }

    fn rank(&self, link: u32) -> u32 {
        if link == NIL { 0 } else { self.of(link).rank.load(Relaxed) }
    }

    fn order(&self, link: u32) -> (u64, u64) {
        let node = self.of(link);
        (node.key.load(Relaxed), node.number.load(Relaxed))
    }

    /// Merge two trees: their rightmost paths are threaded into one, in order, and ranks restored
    /// from below.
    fn merge(&self, mut a: u32, mut b: u32) -> u32 {
        let mut path = [NIL; 2 * LONGEST_PATH];
        let mut length = 0;
        while a != NIL && b != NIL {
            if self.order(b) < self.order(a) {
                (a, b) = (b, a);
            }
            path[length] = a;
            length += 1;
            a = self.of(a).right.load(Relaxed);
        }
        let mut tree = if a == NIL { b } else { a };
        for &link in path[..length].iter().rev() {
            let node = self.of(link);
            let left = node.left.load(Relaxed);
            let (left, right) =
                if self.rank(left) < self.rank(tree) { (tree, left) } else { (left, tree) };
            node.left.store(left, Relaxed);
            node.right.store(right, Relaxed);
            node.rank.store(self.rank(right) + 1, Relaxed);
            tree = link;
        }
        tree
    }
}

/// No task, as a link.
const NIL: u32 = 0;

/// A path to the right of `n` tasks means at least `2^n - 1` tasks, of which there are less than
/// 2^32.
const LONGEST_PATH: usize = 32;

/// A queue of tasks with the smallest key first, which anyone may add to and take from. Every
/// operation that needs nodes must be given the same table. See the [module](super) rules.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct Heap {
    spin: Spin,
    root: AtomicU32,
    numbers: AtomicU64,
    len: AtomicUsize,
    /// The smallest key; meaningful while `len` is not 0.
    least: AtomicU64,
}

impl Heap {
    /// An empty heap.
    pub fn new() -> Self {
        Self::default()
    }

    /// Add a task. `O(log n)`.
    ///
    /// # Panics
    ///
    /// If the task is outside the table of nodes.
    pub fn push(&self, nodes: &Nodes, task: Task, key: u64) {
        let link = task.0 + 1;
        let node = nodes.of(link);
        let _guard = self.spin.lock();
        let number = self.numbers.load(Relaxed);
        self.numbers.store(number + 1, Relaxed);
        node.left.store(NIL, Relaxed);
        node.right.store(NIL, Relaxed);
        node.rank.store(1, Relaxed);
        node.key.store(key, Relaxed);
        node.number.store(number, Relaxed);
        let root = nodes.merge(self.root.load(Relaxed), link);
        self.set_root(nodes, root, self.len.load(Relaxed) + 1);
    }

    /// Take the task with the smallest key. `O(log n)`; does not touch the lock if the heap is
    /// empty.
    pub fn pop(&self, nodes: &Nodes) -> Option<(Task, u64)> {
        self.pop_if(nodes, |_| true)
    }

    /// Take the task with the smallest key if `wanted` says so of the key, which is asked under the
    /// lock.
    pub fn pop_if(&self, nodes: &Nodes, wanted: impl FnOnce(u64) -> bool) -> Option<(Task, u64)> {
        if self.is_empty() {
            return None;
        }
        let _guard = self.spin.lock();
        let root = self.root.load(Relaxed);
        if root == NIL {
            return None;
        }
        let node = nodes.of(root);
        let key = node.key.load(Relaxed);
        if !wanted(key) {
            return None;
        }
        let rest = nodes.merge(node.left.load(Relaxed), node.right.load(Relaxed));
        self.set_root(nodes, rest, self.len.load(Relaxed) - 1);
        Some((Task(root - 1), key))
    }

    fn set_root(&self, nodes: &Nodes, root: u32, len: usize) {
        self.root.store(root, Relaxed);
        if root != NIL {
            self.least.store(nodes.order(root).0, Relaxed);
        }
        self.len.store(len, Release);
    }

    /// The smallest key; two loads. Others may change it at any moment.
    pub fn least(&self) -> Option<u64> {
        (!self.is_empty()).then(|| self.least.load(Relaxed))
    }

    /// The task with the smallest key, without taking it; two loads. Others may take it at any
    /// moment.
    pub fn peek(&self) -> Option<Task> {
        (!self.is_empty()).then(|| self.root.load(Relaxed))?.checked_sub(1).map(Task)
    }

    /// How many tasks wait; one load.
    pub fn len(&self) -> usize {
        self.len.load(Acquire)
    }

    /// Is the heap empty? One load.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use proptest::prelude::*;
    use std::{collections::BTreeSet, vec, vec::Vec};

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None,
            rng_seed: proptest::test_runner::RngSeed::Fixed(1),
            ..ProptestConfig::default() })]

        /// Any additions and removals: the same order as a sorted set, first in, first out among
        /// equals.
        #[test]
        fn order_is_that_of_keys_and_then_of_arrival(
            steps in prop::collection::vec(prop::option::weighted(0.6, 0..20u64), 1..400),
        ) {
            let (nodes, heap) = (Nodes::new(400), Heap::new());
            let mut model = BTreeSet::new();
            for (number, step) in steps.into_iter().enumerate() {
                match step {
                    Some(key) => {
                        heap.push(&nodes, Task(number as u32), key);
                        model.insert((key, number as u32));
                    }
                    None => {
                        let expected = model.pop_first().map(|(key, task)| (Task(task), key));
                        prop_assert_eq!(heap.pop(&nodes), expected);
                    }
                }
                prop_assert_eq!(heap.len(), model.len());
                prop_assert_eq!(heap.peek(), model.first().map(|first| Task(first.1)));
                prop_assert_eq!(heap.least(), model.first().map(|first| first.0));
            }
        }
    }

    /// The bound that makes `merge` safe with a fixed array: ascending keys make a path to the
    /// left.
    #[test]
    fn paths_to_the_right_stay_short() {
        let count = 1 << 12;
        for keys in [|i: u64| i, |i: u64| u64::MAX - i, |i: u64| i % 3] {
            let (nodes, heap) = (Nodes::new(count), Heap::new());
            for task in 0..count {
                heap.push(&nodes, Task(task), keys(u64::from(task)));
                let (mut link, mut length) = (heap.root.load(Relaxed), 0u32);
                while link != NIL {
                    link = nodes.of(link).right.load(Relaxed);
                    length += 1;
                }
                assert!(length <= (task + 2).ilog2());
            }
            let taken: Vec<_> = std::iter::from_fn(|| heap.pop(&nodes)).collect();
            assert!(taken.is_sorted_by_key(|&(_, key)| key));
            assert_eq!(taken.len(), count as usize);
        }
    }

    #[test]
    fn a_task_that_is_not_wanted_stays() {
        let (nodes, heap) = (Nodes::new(2), Heap::new());
        heap.push(&nodes, Task(1), 5);
        assert_eq!(heap.pop_if(&nodes, |key| key < 5), None);
        assert_eq!(vec![heap.pop_if(&nodes, |key| key == 5)], [Some((Task(1), 5))]);
        assert_eq!(heap.pop_if(&nodes, |_| true), None);
    }
}
