//! Waiting for a number of tasks to end.

use super::list::{Batch, Node, Signal, WaitList};
use crate::park::{self, SpinLock};
use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::ptr::NonNull;
use std::sync::Arc;

/// Waits until a number of tasks are done, like Go's `sync.WaitGroup`.
///
/// Tasks are counted with [`add`](Self::add) and [`done`](Self::done), or with a
/// [`guard`](Self::guard) that also counts when its task panics. [`wait`](Self::wait) blocks while
/// the count is above zero. A clone stands for the same group; cloning does not count. The group
/// may be used again as soon as the count is zero.
///
/// User threads and ordinary kernel threads may share a group.
///
/// # Examples
///
/// ```
/// use quaver::sync::WaitGroup;
/// use std::sync::atomic::{AtomicU32, Ordering};
///
/// static SUM: AtomicU32 = AtomicU32::new(0);
///
/// let group = WaitGroup::new();
/// for i in 1..=4 {
///     let working = group.guard();
///     std::thread::spawn(move || {
///         let _working = working;
///         SUM.fetch_add(i, Ordering::Relaxed);
///     });
/// }
/// group.wait();
/// assert_eq!(SUM.load(Ordering::Relaxed), 10);
/// ```
#[derive(Clone, Default)]
pub struct WaitGroup {
    shared: Arc<Group>,
}

struct Group {
    state: SpinLock<GroupState>,
}

struct GroupState {
    /// Tasks that are not done.
    tasks: usize,
    /// How many of the list, from the front, may go: the count reached zero while they waited.
    released: usize,
    list: WaitList<()>,
}

impl Default for Group {
    fn default() -> Self {
        Group { state: SpinLock::new(GroupState { tasks: 0, released: 0, list: WaitList::new() }) }
    }
}

impl UnwindSafe for WaitGroup {}
impl RefUnwindSafe for WaitGroup {}

impl WaitGroup {
    /// Creates a group without tasks.
    #[must_use]
    pub fn new() -> WaitGroup {
        WaitGroup::default()
    }

    /// Counts `n` more tasks. Call it before the tasks start, not inside them, or `wait` may see
    /// too few.
    ///
    /// # Panics
    ///
    /// If the count overflows.
    pub fn add(&self, n: usize) {
        let mut state = self.shared.state.lock();
        let sum = state.tasks.checked_add(n);
        if let Some(sum) = sum {
            state.tasks = sum;
        }
        drop(state);
        assert!(sum.is_some(), "too many tasks in a WaitGroup");
    }

    /// Counts one task as done. The last one wakes all who wait.
    ///
    /// # Panics
    ///
    /// If no task is counted.
    pub fn done(&self) {
        let mut state = self.shared.state.lock();
        let Some(left) = state.tasks.checked_sub(1) else {
            drop(state);
            panic!("WaitGroup::done without add");
        };
        state.tasks = left;
        if left > 0 {
            return;
        }
        state.released = state.list.len();
        while state.released > 0 {
            let mut batch = Batch::new();
            while state.released > 0 && !batch.is_full() {
                let Some(first) = state.list.pop_front() else { break };
                batch.push(first.signal(Signal::Granted));
                state.released -= 1;
            }
            batch.unpark(state.unlock());
            state = self.shared.state.lock();
        }
    }

    /// Waits until the count is zero; returns at once if it is. A wait ends even if the count has
    /// risen again before the thread could run.
    pub fn wait(&self) {
        let me = park::current();
        let mut state = self.shared.state.lock();
        if state.tasks == 0 {
            return;
        }
        let node = Node::new(me, ());
        // SAFETY: the node is new, and we leave when it has been signalled.
        unsafe { state.list.push_back(NonNull::from(&node)) };
        drop(state);
        let _waiting = park::waits_for(c"wait group", &raw const *self.shared);
        node.wait();
    }

    /// Counts one task, which is done when the guard is dropped.
    ///
    /// # Panics
    ///
    /// If the count overflows.
    #[must_use = "dropping the guard ends its task"]
    pub fn guard(&self) -> WaitGroupGuard {
        self.add(1);
        WaitGroupGuard { group: self.clone() }
    }

    /// How many tasks are not done at this moment.
    pub fn count(&self) -> usize {
        self.shared.state.lock().tasks
    }
}

impl fmt::Debug for WaitGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WaitGroup").field("count", &self.count()).finish_non_exhaustive()
    }
}

/// A task of a [`WaitGroup`], done when dropped.
#[must_use = "dropping the guard ends its task"]
#[derive(Debug)]
pub struct WaitGroupGuard {
    group: WaitGroup,
}

impl Drop for WaitGroupGuard {
    fn drop(&mut self) {
        self.group.done();
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::thread;

    /// More waiters than a batch holds, and the count rises again at once.
    #[test]
    fn the_last_one_wakes_everybody() {
        const WAITERS: usize = 40;
        let group = WaitGroup::new();
        group.add(1);
        let waiters: Vec<_> = (0..WAITERS)
            .map(|_| {
                let group = group.clone();
                thread::spawn(move || group.wait())
            })
            .collect();
        while group.shared.state.lock().list.len() < WAITERS {
            thread::yield_now();
        }
        group.done();
        group.add(1);
        for w in waiters {
            w.join().unwrap();
        }
        assert_eq!(group.count(), 1);
    }
}
