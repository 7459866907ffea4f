//! A meeting point of a fixed number of threads.

use super::list::{Batch, Node, Signal, WaitList};
use crate::park::shim::const_unless_loom;
use crate::park::{self, SpinLock};
use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::ptr::NonNull;

/// Lets `n` threads wait for each other, again and again, with the interface of
/// [`std::sync::Barrier`].
///
/// User threads and ordinary kernel threads may meet at the same barrier.
///
/// # Examples
///
/// ```
/// use quaver::sync::Barrier;
///
/// static START: Barrier = Barrier::new(3);
///
/// let leaders = std::thread::scope(|s| {
///     let others = [s.spawn(|| START.wait()), s.spawn(|| START.wait())];
///     let mine = START.wait();
///     let results = others.map(|t| t.join().unwrap());
///     usize::from(mine.is_leader()) + results.iter().filter(|r| r.is_leader()).count()
/// });
/// assert_eq!(leaders, 1);
/// ```
pub struct Barrier {
    n: usize,
    round: SpinLock<Round>,
}

struct Round {
    /// How many of the present round wait.
    arrived: usize,
    /// Those of the present round, behind those of completed rounds who have not been woken yet.
    /// Whoever completes a round takes as many from the front as the round has waiters. So all who
    /// are taken belong to completed rounds, and all completed rounds are taken in the end, even
    /// when leaders of several rounds are at it.
    list: WaitList<()>,
}

impl UnwindSafe for Barrier {}
impl RefUnwindSafe for Barrier {}

/// What [`Barrier::wait`] tells about the round.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BarrierWaitResult(bool);

impl BarrierWaitResult {
    /// `true` for exactly one thread in each round: the one that came last.
    #[must_use]
    pub fn is_leader(&self) -> bool {
        self.0
    }
}

impl Barrier {
    const_unless_loom! {
        /// Creates a barrier for `n` threads; 0 is the same as 1.
        pub fn new(n: usize) -> Barrier {
            Barrier { n, round: SpinLock::new(Round { arrived: 0, list: WaitList::new() }) }
        }
    }

    /// Waits until `n` threads wait, counting this one.
    pub fn wait(&self) -> BarrierWaitResult {
        let me = park::current();
        let mut round = self.round.lock();
        if round.arrived + 1 < self.n {
            round.arrived += 1;
            let node = Node::new(me, ());
            // SAFETY: the node is new, and we leave when it has been signalled.
            unsafe { round.list.push_back(NonNull::from(&node)) };
            drop(round);
            let _waiting = park::waits_for(c"barrier", self);
            node.wait();
            return BarrierWaitResult(false);
        }
        let mut others = round.arrived;
        round.arrived = 0;
        loop {
            let mut batch = Batch::new();
            while others > 0 && !batch.is_full() {
                let Some(first) = round.list.pop_front() else { break };
                batch.push(first.signal(Signal::Granted));
                others -= 1;
            }
            batch.unpark(round.unlock());
            if others == 0 {
                return BarrierWaitResult(true);
            }
            round = self.round.lock();
        }
    }
}

impl fmt::Debug for Barrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Barrier").field("n", &self.n).finish_non_exhaustive()
    }
}
