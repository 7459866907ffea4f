//! The lock in parts, for objects whose layout is given: the two words where there is room for
//! them, and ways of waiting that are no locks.
//!
//! The word has the values of the [lock](crate#the-lock), which are also those of glibc's locks:
//! 0 free, 1 held, 2 held and awaited.

use crate::algorithm::{self, AWAITED, FREE};
use crate::asm;
use crate::cell::cell;
use crate::futex;
pub use crate::futex::{ANYONE, Deadline, UnknownClock, wait_as, wake_as};
use crate::machine::{BUDGET, Waiter, cycles};
use crate::page;
use std::hint::spin_loop;
use std::sync::atomic::AtomicU32;

/// Takes the lock if it is free; never waits.
#[inline]
pub fn try_lock(word: &AtomicU32) -> bool {
    // SAFETY: any word will do.
    unsafe { asm::try_word(word) == FREE }
}

/// Takes the lock; waits for it spinning, or blocked in the kernel. False: the deadline came first.
/// Takes a free lock even then. Not a cancellation point.
#[inline]
pub fn lock(word: &AtomicU32, tail: &AtomicU32, deadline: Option<Deadline>) -> bool {
    try_lock(word) || contended(word, tail, deadline)
}

#[cold]
fn contended(word: &AtomicU32, tail: &AtomicU32, deadline: Option<Deadline>) -> bool {
    algorithm::wait(&mut Waiter::new(word, tail, deadline))
}

/// Frees the lock; a system call only if somebody sleeps. The word's memory may be gone when this
/// returns, if whoever took the lock next has freed it.
///
/// # Safety
///
/// The calling thread has taken it.
#[inline]
pub unsafe fn unlock(word: &AtomicU32) {
    let at = word.as_ptr();
    // SAFETY: held by the calling thread, as the caller sees to.
    if unsafe { asm::release(word) } == AWAITED {
        futex::wake(at);
    }
}

/// The calling thread is in a critical section from now on, whatever kind of lock it is of.
///
/// Call it before the instruction that takes the lock, and [`leave`] behind the one that frees it:
/// then a preemption in between is always seen.
#[inline]
pub fn enter() {
    // SAFETY: the calling thread's cell. One instruction, so a signal handler that does the same
    // comes before or after it.
    unsafe {
        std::arch::asm!("inc dword ptr [{}]", in(reg) &raw mut (*cell()).held, options(nostack));
    }
}

/// The end of [`enter`]. Without one it does nothing: another thread, or the parent of this
/// process, has entered.
#[inline]
pub fn leave() {
    // SAFETY: as in `enter`. A signal handler in between leaves the counter as it was.
    unsafe {
        std::arch::asm!("cmp dword ptr [{0}], 0", "je 2f", "dec dword ptr [{0}]", "2:",
            in(reg) &raw mut (*cell()).held, options(nostack));
    }
}

/// The calling thread holds nothing from now on: in a child of `fork`, where who frees a lock of
/// the parent's thread does so by other means than [`unlock`].
pub fn forget() {
    // SAFETY: the calling thread's cell. Volatile, because assembly uses it too.
    unsafe { (&raw mut (*cell()).held).write_volatile(0) };
}

/// Takes the calling thread's node, so that its first wait for a lock takes no memory. False: there
/// is none.
pub fn prepare() -> bool {
    crate::node::own().is_some()
}

/// A wait that spins as long as that is useful: while the monitor sees no preempted holder, and not
/// longer than some hundred times what blocking takes. Without a monitor, shortly.
#[derive(Debug)]
pub struct Spin {
    monitored: bool,
    pauses: u32,
    begun: u64,
}

/// Pauses without a monitor.
const SHORT: u32 = 100;
/// Pauses between two looks at the clock.
const LOOKS: u32 = 32;

impl Spin {
    /// Begins.
    pub fn new() -> Self {
        Self { monitored: page::monitored(), pauses: 0, begun: cycles() }
    }

    /// Pauses. False: look once more, and then block.
    #[inline]
    pub fn again(&mut self) -> bool {
        spin_loop();
        self.pauses += 1;
        if !self.monitored {
            return self.pauses < SHORT;
        }
        if page::anyone_preempted() {
            return false;
        }
        if self.pauses.is_multiple_of(LOOKS) && cycles().wrapping_sub(self.begun) > BUDGET {
            page::look();
            return false;
        }
        true
    }

    /// Whether a monitor was there when the wait began.
    pub fn is_monitored(&self) -> bool {
        self.monitored
    }
}

impl Default for Spin {
    fn default() -> Self {
        Self::new()
    }
}
