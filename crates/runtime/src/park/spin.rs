//! Short critical sections of the runtime itself.
//!
//! A user thread can be preempted at any instruction and then stay off the processor for long. If
//! it held a spin lock, everybody else would spin for as long. So [`SpinLock`] makes its holder
//! non-preemptible. What remains is a holder that the *kernel* takes off its CPU (a kernel thread,
//! or the carrier of a worker): [`Relax`] yields to it, and sleeps in the end, in case it has a
//! lower real-time priority.
//!
//! Queues and policies have another such lock (`sync::Spin` in quaver-sched, which knows no user
//! threads and so no sections): its holders are in a section or in the scheduler when they call a
//! policy, and who waits for one yields and naps as here (`set_relax`).
//!
//! # Rules inside
//!
//! While a `SpinLock` is held, or any [`Section`] exists:
//!
//! * no code of users runs: no `Drop`, `Clone` or comparison of their values, no closures (moving
//!   values is fine);
//! * nothing parks;
//! * nothing allocates or frees;
//! * nothing panics;
//! * loops are bounded by a small constant.
//!
//! # Waking
//!
//! A thread is unparked after the lock is released but before the waker can be preempted
//! ([`SpinGuard::unlock`] returns the `Section`). Otherwise a waker, preempted in between, would
//! keep a thread waiting that is in no list any more, and that perhaps nobody else will wake.

use super::Waiter;
use super::shim::{
    AtomicBool, Gate, Gated, MutPtr, UnsafeCell, const_unless_loom, os_nap, os_yield, preempt,
    spin_loop,
};
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// A non-preemptible region of the calling thread, from `new` to drop. Regions nest.
pub(crate) struct Section(PhantomData<*mut ()>);

impl Section {
    #[inline(always)]
    pub(crate) fn new() -> Section {
        preempt::disable();
        Section(PhantomData)
    }
}

impl Drop for Section {
    #[inline(always)]
    fn drop(&mut self) {
        preempt::enable();
    }
}

/// How to wait for a holder that is about to be done: a few pauses, then the CPU to others, then
/// short sleeps.
pub(crate) struct Relax(u32);

impl Relax {
    const PAUSES: u32 = 32;
    const YIELDS: u32 = Self::PAUSES + 64;

    #[inline(always)]
    pub(crate) fn new() -> Relax {
        Relax(0)
    }

    #[cold]
    pub(crate) fn relax(&mut self) {
        self.0 = self.0.saturating_add(1);
        if self.0 <= Self::PAUSES {
            spin_loop();
        } else if self.0 <= Self::YIELDS {
            os_yield();
        } else {
            os_nap();
        }
    }
}

/// A test-and-test-and-set lock for a few instructions, whose holder cannot be preempted. Not fair.
pub(crate) struct SpinLock<T> {
    locked: AtomicBool,
    gate: Gate,
    value: UnsafeCell<T>,
}

// SAFETY: the lock gives `&mut T` to one thread at a time, which is all that `Send` values ask for.
unsafe impl<T: Send> Sync for SpinLock<T> {}
// SAFETY: as a plain `T`.
unsafe impl<T: Send> Send for SpinLock<T> {}

impl<T> SpinLock<T> {
    const_unless_loom! {
        pub(crate) fn new(value: T) -> Self {
            let value = UnsafeCell::new(value);
            SpinLock { locked: AtomicBool::new(false), gate: Gate::new(), value }
        }
    }

    /// Takes the lock and makes the calling thread non-preemptible. See the module documentation
    /// for what may be done inside.
    #[inline]
    pub(crate) fn lock(&self) -> SpinGuard<'_, T> {
        let gate = self.gate.enter();
        let mut quiet = Section::new();
        if self.locked.compare_exchange(false, true, Acquire, Relaxed).is_err() {
            quiet = self.lock_contended(quiet);
        }
        SpinGuard {
            lock: self,
            gate: ManuallyDrop::new(gate),
            value: ManuallyDrop::new(self.value.get_mut()),
            quiet: ManuallyDrop::new(quiet),
        }
    }

    #[cold]
    fn lock_contended(&self, quiet: Section) -> Section {
        // Preemptible while waiting.
        drop(quiet);
        let mut relax = Relax::new();
        loop {
            if !self.locked.load(Relaxed) {
                let quiet = Section::new();
                if self.locked.compare_exchange(false, true, Acquire, Relaxed).is_ok() {
                    return quiet;
                }
            }
            relax.relax();
        }
    }
}

/// The held lock. Dropping it releases the lock and ends the non-preemptible region.
pub(crate) struct SpinGuard<'a, T> {
    lock: &'a SpinLock<T>,
    gate: ManuallyDrop<Gated<'a>>,
    value: ManuallyDrop<MutPtr<T>>,
    quiet: ManuallyDrop<Section>,
}

impl<T> SpinGuard<'_, T> {
    /// Releases the lock but stays non-preemptible, to unpark those who were taken out of a list.
    #[inline]
    pub(crate) fn unlock(self) -> Section {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: `this` is not dropped, so nothing is taken or released twice.
        unsafe {
            this.release();
            ManuallyDrop::take(&mut this.quiet)
        }
    }

    /// # Safety
    ///
    /// Once, and the value is not accessed afterwards.
    #[inline(always)]
    unsafe fn release(&mut self) {
        // SAFETY: called once. The access ends before the next one can begin.
        unsafe { ManuallyDrop::drop(&mut self.value) };
        self.lock.locked.store(false, Release);
        // SAFETY: called once.
        unsafe { ManuallyDrop::drop(&mut self.gate) };
    }
}

impl<T> Drop for SpinGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: nothing uses the guard after its drop; `unlock` does not get here.
        unsafe {
            self.release();
            ManuallyDrop::drop(&mut self.quiet);
        }
    }
}

impl<T> Deref for SpinGuard<'_, T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: we hold the lock.
        self.value.with(|value| unsafe { &*value })
    }
}

impl<T> DerefMut for SpinGuard<'_, T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: we hold the lock, and the guard is borrowed exclusively.
        self.value.with(|value| unsafe { &mut *value })
    }
}

/// Do user threads run in parallel? Set by the runtime when it starts.
#[cfg(not(loom))]
static PARALLEL: std::sync::atomic::AtomicBool = std::sync::atomic::AtomicBool::new(false);

/// The runtime says how many workers it has. Only where several run at a time can a user thread
/// hope that the holder of a lock is running.
#[cfg(not(loom))]
pub(crate) fn set_workers(workers: usize) {
    PARALLEL.store(workers > 1 && cpus() > 1, Relaxed);
}

#[cfg(not(loom))]
fn cpus() -> usize {
    static CPUS: std::sync::OnceLock<usize> = std::sync::OnceLock::new();
    *CPUS.get_or_init(|| std::thread::available_parallelism().map_or(1, usize::from))
}

/// How many pauses a thread may spend on a held lock.
#[cfg(not(loom))]
const TRIES: u32 = 32;

/// As [`patience`], of the calling thread. Allocates nothing: it may be in an allocator, whose lock
/// this is about.
#[cfg(not(loom))]
pub(crate) fn patience_here() -> u32 {
    let is_user = super::shim::user::current_handle().is_some();
    if is_user && !PARALLEL.load(Relaxed) { 0 } else { TRIES }
}

/// How many pauses `waiter` may spend on a held lock before it queues: none when the holder cannot
/// be running.
#[cfg(not(loom))]
pub(crate) fn patience(waiter: Waiter) -> u32 {
    let running_elsewhere = match waiter {
        Waiter::User { .. } => PARALLEL.load(Relaxed),
        Waiter::Kernel(_) => cpus() > 1,
    };
    if running_elsewhere { TRIES } else { 0 }
}

/// The same in a model.
#[cfg(shuttle)]
pub(crate) fn patience_here() -> u32 {
    0
}

/// In a model spinning is never worth while.
#[cfg(loom)]
pub(crate) fn patience(_waiter: Waiter) -> u32 {
    0
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn excludes() {
        const EACH: u64 = 5_000;
        let lock = Arc::new(SpinLock::new((0u64, 0u64)));
        let threads: Vec<_> = (0..4)
            .map(|_| {
                let lock = lock.clone();
                std::thread::spawn(move || {
                    for _ in 0..EACH {
                        let mut v = lock.lock();
                        assert_eq!(v.0, v.1);
                        v.0 += 1;
                        v.1 += 1;
                        if v.0.is_multiple_of(2) {
                            drop(v.unlock());
                        }
                    }
                })
            })
            .collect();
        for t in threads {
            t.join().unwrap();
        }
        assert_eq!(*lock.lock(), (4 * EACH, 4 * EACH));
    }

    #[test]
    fn relaxing_never_ends_in_panic() {
        let mut r = Relax::new();
        r.0 = u32::MAX - 1;
        r.relax();
        r.relax();
        assert_eq!(r.0, u32::MAX);
    }
}
