//! The one place where atomics come from, so that loom can stand in for them.
//!
//! Everything that threads share in this crate goes through these names. With `--cfg loom` they are
//! loom's, and the models in `queue::model` explore every interleaving and every value that the C11
//! memory model lets a load return.

#[cfg(not(loom))]
pub(crate) use core::{
    hint::spin_loop,
    sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering},
};

#[cfg(loom)]
pub(crate) use loom::{
    hint::spin_loop,
    sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering},
};

/// Keeps a value on cache lines of its own. Two lines, because the adjacent-line prefetcher of x86
/// fetches pairs.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct CachePadded<T>(pub(crate) T);

impl<T> core::ops::Deref for CachePadded<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

/// What a thread does that has waited for a [`Spin`] for longer than its holder can need.
#[cfg(not(loom))]
mod patience {
    use super::spin_loop;
    use core::sync::atomic::{AtomicPtr, Ordering::*};

    /// Looks at the lock before the holder is taken to have lost its CPU.
    const PAUSES: u32 = 128;

    /// Null or a `fn(u32)`.
    static HOST: AtomicPtr<()> = AtomicPtr::new(core::ptr::null_mut());

    /// Tell this crate how a thread of the host lets the operating system run others.
    ///
    /// The locks of the queues and policies are held for some instructions, by threads that the
    /// host does not preempt. But the operating system may take the CPU from a holder, and one that
    /// waits for it on the same CPU would spin for a whole time slice. So who has waited for long
    /// calls `relax`, with the number of times that it has done so for this lock. It may be called
    /// in a signal handler, and must neither allocate nor use these locks. Without it, threads
    /// spin.
    pub fn set_relax(relax: fn(u32)) {
        HOST.store(relax as *mut (), Release);
    }

    /// Waits a little, for the `tries`th time.
    pub(crate) fn relax(tries: u32) {
        let host = HOST.load(Acquire);
        if tries < PAUSES || host.is_null() {
            return spin_loop();
        }
        // SAFETY: not null, so it is what `set_relax` has stored: a function of this type.
        let host = unsafe { core::mem::transmute::<*mut (), fn(u32)>(host) };
        host(tries - PAUSES);
    }
}

#[cfg(loom)]
mod patience {
    /// As in a build without loom; models need no host.
    pub fn set_relax(_relax: fn(u32)) {}

    pub(crate) fn relax(_tries: u32) {
        super::spin_loop();
    }
}

pub use patience::set_relax;

/// A spin lock without data: what it protects are atomics, accessed relaxed.
///
/// Not the runtime's (`park::spin` in crates/runtime), which also makes its holder non-preemptible:
/// nothing here knows threads. Whoever calls a queue or a policy sees to it that the call is not
/// preempted.
#[derive(Debug, Default)]
pub(crate) struct Spin(AtomicU32);

impl Spin {
    /// Waits until nobody else has it. The holder must not be preempted by the host's scheduler;
    /// see [`set_relax`] for the operating system's.
    pub(crate) fn lock(&self) -> SpinGuard<'_> {
        use Ordering::{Acquire, Relaxed};
        let mut tries = 0;
        while self.0.compare_exchange_weak(0, 1, Acquire, Relaxed).is_err() {
            while self.0.load(Relaxed) != 0 {
                patience::relax(tries);
                tries = tries.saturating_add(1);
            }
        }
        SpinGuard(self)
    }
}

/// Whoever has this holds the lock.
pub(crate) struct SpinGuard<'a>(&'a Spin);

impl Drop for SpinGuard<'_> {
    fn drop(&mut self) {
        self.0.0.store(0, Ordering::Release);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use core::sync::atomic::{AtomicBool, Ordering::SeqCst};

    static RELAXED: AtomicBool = AtomicBool::new(false);

    /// The holder goes on only when the waiter has given up its CPU.
    #[test]
    fn who_waits_for_long_lets_the_holder_run() {
        static SPIN: Spin = Spin(AtomicU32::new(0));
        set_relax(|_| {
            RELAXED.store(true, SeqCst);
            std::thread::yield_now();
        });
        let held = SPIN.lock();
        let waiter = std::thread::spawn(|| drop(SPIN.lock()));
        while !RELAXED.load(SeqCst) {
            std::thread::yield_now();
        }
        drop(held);
        waiter.join().unwrap();
    }
}
