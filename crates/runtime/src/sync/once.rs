//! One-time execution.
//!
//! # States
//!
//! Two bits of a [`WaitWord`]: `Incomplete` → `Running` → `Complete`, or back to `Poisoned` when
//! the closure panics, from where only a forced call goes on. Those who find `Running` wait in the
//! list and look again when woken.

use super::list::{Batch, Node, Signal};
use super::word::{FIRST_FREE, WaitWord};
use crate::park;
use crate::park::shim::const_unless_loom;
use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::ptr::NonNull;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

const INCOMPLETE: u32 = 0;
const RUNNING: u32 = FIRST_FREE;
const POISONED: u32 = FIRST_FREE << 1;
const COMPLETE: u32 = RUNNING | POISONED;
const PHASE: u32 = COMPLETE;

/// Runs a closure exactly once, with the interface of [`std::sync::Once`].
///
/// Threads that come while the closure runs wait for it; user threads give their worker to others.
/// Calling the same `Once` from inside its closure waits for ever.
///
/// # Examples
///
/// ```
/// use quaver::sync::Once;
///
/// static INIT: Once = Once::new();
///
/// INIT.call_once(|| println!("once"));
/// INIT.call_once(|| unreachable!());
/// assert!(INIT.is_completed());
/// ```
pub struct Once {
    word: WaitWord<()>,
}

impl UnwindSafe for Once {}
impl RefUnwindSafe for Once {}

/// What a closure run by [`Once::call_once_force`] can learn about earlier runs.
#[derive(Debug)]
pub struct OnceState {
    poisoned: bool,
}

impl OnceState {
    /// Did an earlier run panic?
    #[must_use]
    pub fn is_poisoned(&self) -> bool {
        self.poisoned
    }
}

impl Once {
    const_unless_loom! {
        /// Creates a `Once` whose closure has not run.
        pub fn new() -> Once {
            Once { word: WaitWord::new(INCOMPLETE) }
        }
    }

    /// Runs `f` if no closure has run to its end, and waits for one that is running. When this
    /// returns, one has.
    ///
    /// # Panics
    ///
    /// If an earlier closure panicked (see [`call_once_force`](Self::call_once_force)), or `f`
    /// does.
    #[inline]
    #[track_caller]
    pub fn call_once<F: FnOnce()>(&self, f: F) {
        if !self.is_completed() {
            let mut f = Some(f);
            self.call(false, &mut |_| run(&mut f, |f| f()));
        }
    }

    /// As [`call_once`](Self::call_once), but runs `f` even if earlier closures panicked.
    ///
    /// # Panics
    ///
    /// If `f` does.
    #[inline]
    pub fn call_once_force<F: FnOnce(&OnceState)>(&self, f: F) {
        if !self.is_completed() {
            let mut f = Some(f);
            self.call(true, &mut |state| run(&mut f, |f| f(state)));
        }
    }

    /// Has a closure run to its end? What it did is visible if so. Never waits.
    #[inline]
    pub fn is_completed(&self) -> bool {
        self.word.load(Acquire) & PHASE == COMPLETE
    }

    /// Waits until a closure has run to its end, without running one.
    ///
    /// # Panics
    ///
    /// If a closure panicked.
    #[track_caller]
    pub fn wait(&self) {
        self.wait_completed(false);
    }

    /// As [`wait`](Self::wait), but goes on waiting when a closure panics.
    pub fn wait_force(&self) {
        self.wait_completed(true);
    }

    #[cold]
    #[track_caller]
    fn call(&self, force: bool, f: &mut dyn FnMut(&OnceState)) {
        while !self.is_completed() {
            let state = self.word.settled();
            match state & PHASE {
                COMPLETE => {}
                RUNNING => self.wait_while_phase(RUNNING),
                phase => {
                    if phase == POISONED && !force {
                        panic!("Once instance has previously been poisoned");
                    }
                    if self.word.swap(state, state & !PHASE | RUNNING, Acquire) {
                        let mut run = Run { once: self, outcome: POISONED };
                        f(&OnceState { poisoned: phase == POISONED });
                        run.outcome = COMPLETE;
                        return;
                    }
                }
            }
        }
    }

    #[track_caller]
    fn wait_completed(&self, force: bool) {
        while !self.is_completed() {
            let phase = self.word.load(Relaxed) & PHASE;
            if phase == POISONED && !force {
                panic!("Once instance has previously been poisoned");
            }
            if phase != COMPLETE {
                self.wait_while_phase(phase);
            }
        }
    }

    /// Waits for the next change, if the phase is still `phase`.
    #[cold]
    fn wait_while_phase(&self, phase: u32) {
        let me = park::current();
        let mut held = self.word.hold();
        let state = held.state();
        if state & PHASE != phase {
            drop(held.release(state));
            return;
        }
        let node = Node::new(me, ());
        // SAFETY: the node is new, and we leave when it has been signalled.
        unsafe { held.list().push_back(NonNull::from(&node)) };
        drop(held.release(state));
        let _waiting = park::waits_for(c"once", self);
        node.wait();
    }

    /// Ends a run and wakes all who wait at this moment.
    fn finish(&self, phase: u32) {
        let mut held = self.word.hold();
        let mut left = held.list().len();
        let mut state = held.state() & !PHASE | phase;
        loop {
            let mut batch = Batch::new();
            while left > 0 && !batch.is_full() {
                let Some(first) = held.list().pop_front() else { break };
                batch.push(first.signal(Signal::Woken));
                left -= 1;
            }
            batch.unpark(held.release(state));
            if left == 0 {
                return;
            }
            held = self.word.hold();
            state = held.state();
        }
    }
}

/// Takes the closure out and runs it; [`Once::call`] comes here once at most.
fn run<F>(f: &mut Option<F>, with: impl FnOnce(F)) {
    if let Some(f) = f.take() {
        with(f);
    }
}

/// A closure that is running. Dropped by its end or its panic.
struct Run<'a> {
    once: &'a Once,
    outcome: u32,
}

impl Drop for Run<'_> {
    fn drop(&mut self) {
        self.once.finish(self.outcome);
    }
}

impl Default for Once {
    fn default() -> Self {
        Once::new()
    }
}

impl fmt::Debug for Once {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Once").field("completed", &self.is_completed()).finish_non_exhaustive()
    }
}
