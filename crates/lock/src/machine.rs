//! One wait on the real instructions: budget, deadline, node.

use crate::algorithm::{AWAITED, Machine};
use crate::asm;
use crate::cell::cell;
use crate::futex::{self, Deadline};
use crate::node::{self, FIRST, Node};
use crate::page;
use std::hint::spin_loop;
use std::ptr;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicI64, AtomicU32, compiler_fence};

/// Cycles of the TSC that a wait may spin while the monitor sees nobody preempted.
pub(crate) const BUDGET: u64 = 1 << 20;
/// Cycles for which the first of a queue stands back from a lock that its threads take again and
/// again: at first, and at most. It is a few times what blocking costs.
const BACK: [u64; 2] = [1 << 10, 1 << 14];
/// So many waits in a row are for the lock that was taken last, before a thread stands back: who
/// uses several locks comes to one of them twice in a row by chance, and would wait for nobody.
const RETURNS: u32 = 4;
/// A thread that stood back within so many cycles does so for longer.
const AGAIN: u64 = 1 << 18;
/// Pauses between two looks at clocks.
const LOOKS: u32 = 32;
/// Pauses before blocking without a monitor: at most.
const SHORT: u32 = 100;
/// Pauses after which a thread that waits for a link gives its CPU away.
const PATIENCE: u32 = 1000;

/// Who stands before us, if that is nobody of this process.
static NOBODY: Node = Node::new();

/// One wait of the calling thread.
pub(crate) struct Waiter<'a> {
    word: &'a AtomicU32,
    tail: &'a AtomicU32,
    /// Above 0: block.
    counter: &'static AtomicI64,
    node: Option<(&'static Node, u32)>,
    deadline: Option<Deadline>,
    monitored: bool,
    pauses: u32,
    begun: u64,
}

impl<'a> Waiter<'a> {
    pub(crate) fn new(
        word: &'a AtomicU32,
        tail: &'a AtomicU32,
        deadline: Option<Deadline>,
    ) -> Self {
        let monitored = page::monitored();
        let counter = page::counter(word);
        Self { word, tail, counter, node: None, deadline, monitored, pauses: 0, begun: cycles() }
    }

    /// Whether somebody is preempted for whom this wait should block.
    fn preempted(&self) -> bool {
        self.counter.load(Relaxed) > 0
    }

    /// Whether the CPU may still be spent, by the clocks.
    fn in_time(&self) -> bool {
        if cycles().wrapping_sub(self.begun) > BUDGET {
            // The monitor should have told us; perhaps it is no more.
            page::look();
            return false;
        }
        self.deadline.is_none_or(|d| !d.has_come())
    }

    /// As glibc's adaptive mutex: twice as many pauses as have been useful lately.
    fn short_limit() -> u32 {
        // SAFETY: the calling thread's cell.
        SHORT.min(unsafe { (*cell()).spins } * 2 + 10)
    }

    /// Remembers how many pauses a wait without a monitor took.
    fn learn(&self) {
        if !self.monitored {
            // SAFETY: the calling thread's cell, of which nobody else uses `spins`.
            unsafe {
                let spins = &mut (*cell()).spins;
                *spins = (*spins * 7 + self.pauses.min(SHORT)) / 8;
            }
        }
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        self.learn();
        // SAFETY: the calling thread's cell, of which nobody else uses `pauses`.
        unsafe { (*cell()).pauses += u64::from(self.pauses) };
    }
}

impl Machine for Waiter<'_> {
    type Node = &'static Node;

    fn try_word(&mut self) -> u32 {
        // SAFETY: any lock will do.
        unsafe { asm::try_word(self.word) }
    }

    fn mark(&mut self) -> u32 {
        // SAFETY: any lock will do.
        unsafe { asm::mark(self.word) }
    }

    fn sleep(&mut self) -> bool {
        page::look();
        futex::wait(self.word, AWAITED, self.deadline)
    }

    fn may_queue(&mut self) -> bool {
        if !self.monitored || self.preempted() {
            return false;
        }
        // A signal handler that has interrupted a wait must leave the node where it is.
        if !claim_node() {
            return false;
        }
        self.node = node::own();
        if self.node.is_none() {
            free_node();
        }
        self.node.is_some()
    }

    fn spin(&mut self) -> bool {
        spin_loop();
        self.pauses += 1;
        if !self.monitored {
            return self.pauses < Self::short_limit();
        }
        if self.preempted() {
            return false;
        }
        !self.pauses.is_multiple_of(LOOKS) || self.in_time()
    }

    fn may_spin_again(&mut self) -> bool {
        self.monitored = page::monitored();
        self.counter = page::counter(self.word);
        if !self.monitored || self.preempted() {
            return false;
        }
        self.begun = cycles();
        true
    }

    fn expired(&mut self) -> bool {
        self.deadline.is_some_and(|d| d.has_come())
    }

    fn enqueue(&mut self) -> Option<&'static Node> {
        let (own, handle) = self.node.expect("may_queue was true");
        own.lock.store(ptr::from_ref(self.word).cast_mut(), Relaxed);
        // SAFETY: the node is the calling thread's, and in no queue.
        match unsafe { asm::enqueue(self.tail, own, handle) } {
            0 => None,
            // A handle that this process has not given out: the memory was another process's. Then
            // nobody tells us, and we spin at our own node until the budget is used up.
            before => Some(node::find(before).unwrap_or(&NOBODY)),
        }
    }

    fn stand_back(&mut self) {
        // SAFETY: the calling thread's cell; the wait uses these fields, and assembly, which does
        // not run meanwhile, writes `last`.
        let cell = unsafe { &mut *cell() };
        // SAFETY: as above. Volatile, because the compiler does not see the write.
        let last = unsafe { (&raw const cell.last).read_volatile() };
        cell.returns = if ptr::eq(last, self.word) { cell.returns.saturating_add(1) } else { 0 };
        if cell.returns < RETURNS {
            return;
        }
        let begun = cycles();
        let hot = begun.wrapping_sub(cell.stood) < AGAIN;
        cell.back = if hot { (2 * cell.back).clamp(BACK[0], BACK[1]) } else { BACK[0] };
        while cycles().wrapping_sub(begun) < cell.back && !self.preempted() {
            spin_loop();
            self.pauses += 1;
        }
        cell.stood = cycles();
    }

    fn link(&mut self, before: &'static Node) {
        let (own, _) = self.node.expect("in the queue");
        before.next.store(ptr::from_ref(own).cast_mut(), Release);
    }

    fn is_first(&mut self) -> bool {
        let (own, _) = self.node.expect("in the queue");
        own.place.load(Acquire) == FIRST
    }

    fn dequeue(&mut self) -> bool {
        let (own, handle) = self.node.expect("in the queue");
        // SAFETY: the node is the calling thread's, and in the queue of this lock.
        let left = unsafe { asm::dequeue(self.tail, own, handle) != 0 };
        if left {
            free_node();
        }
        left
    }

    fn behind(&mut self) -> Option<&'static Node> {
        let (own, _) = self.node.expect("in the queue");
        // SAFETY: null, or a node, and nodes stay.
        unsafe { own.next.load(Acquire).as_ref() }
    }

    fn pass(&mut self, behind: &'static Node) {
        let (own, _) = self.node.expect("in the queue");
        // SAFETY: both are nodes; the own one is behind no other any more.
        unsafe { asm::pass(behind, own) }
        free_node();
    }

    fn pause(&mut self) {
        spin_loop();
        self.pauses += 1;
        if self.pauses.is_multiple_of(PATIENCE) {
            std::thread::yield_now();
        }
    }
}

/// Whether the calling thread may put its node into a queue. It may, unless a wait that this one
/// has interrupted has done so.
fn claim_node() -> bool {
    // SAFETY: the calling thread's cell. Volatile, because a signal handler may come in between.
    unsafe {
        let queued = &raw mut (*cell()).queued;
        queued.read_volatile() == 0 && {
            queued.write_volatile(1);
            true
        }
    }
}

fn free_node() {
    compiler_fence(SeqCst);
    // SAFETY: the calling thread's cell.
    unsafe { (&raw mut (*cell()).queued).write_volatile(0) }
}

pub(crate) fn cycles() -> u64 {
    // SAFETY: every x86-64 has a TSC; where user mode may not read it, glibc does not work either.
    unsafe { core::arch::x86_64::_rdtsc() }
}
