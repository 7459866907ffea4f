//! What the waiting code stands on, so that loom can stand in for it.
//!
//! Atomics, cells and the futex come from here. With `--cfg loom` they are loom's, there are no
//! user threads, and the models (`sync::models`) explore every interleaving and every value that
//! the C11 memory model lets a load return. Only `park` and `sync` are compiled then.
//!
//! With `--cfg shuttle` besides, shuttle stands in for loom: one run after the other, each long, in
//! an order of events that a scheduler of ours decides (`sync::fairness`).

/// Declares a function `const`, except under loom, whose atomics have no `const` constructor.
macro_rules! const_unless_loom {
    ($(#[$m:meta])* $v:vis fn $($rest:tt)*) => {
        #[cfg(not(loom))]
        $(#[$m])*
        $v const fn $($rest)*
        #[cfg(loom)]
        $(#[$m])*
        $v fn $($rest)*
    };
}
pub(crate) use const_unless_loom;

#[cfg(not(loom))]
pub(crate) use real::*;

#[cfg(loom)]
pub(crate) use model::*;

#[cfg(not(loom))]
mod real {
    pub(crate) use super::cell::{MutPtr, UnsafeCell};
    pub(crate) use crate::arch::fence;
    pub(crate) use crate::preempt;
    pub(crate) use crate::thread::raw as user;
    pub(crate) use std::hint::spin_loop;
    pub(crate) use std::sync::Arc;
    pub(crate) use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize};

    use std::marker::PhantomData;
    use std::time::Duration;

    /// Gives up the CPU of the kernel thread.
    pub(crate) fn os_yield() {
        crate::sys::sched_yield();
    }

    /// Sleeps in the kernel for a moment, so that a holder of lower priority can run.
    pub(crate) fn os_nap() {
        let word = AtomicU32::new(0);
        // Nobody wakes this futex: the result is a timeout, or an interruption that only makes the
        // nap shorter.
        let _ = crate::sys::futex_wait(&word, 0, Some(Duration::from_micros(50)));
    }

    /// A word on which kernel threads sleep.
    #[repr(transparent)]
    pub(crate) struct Futex(AtomicU32);

    impl Futex {
        pub(crate) const fn new(value: u32) -> Futex {
            Futex(AtomicU32::new(value))
        }

        /// The word itself.
        pub(crate) fn word(&self) -> &AtomicU32 {
            &self.0
        }

        /// Sleeps while the word is `expected`; may return early.
        pub(crate) fn wait(&self, expected: u32, timeout: Option<Duration>) {
            // All outcomes mean "look again": the caller rereads the word and the clock.
            let _ = crate::sys::futex_wait(&self.0, expected, timeout);
        }

        /// Wakes one sleeper.
        pub(crate) fn wake(&self) {
            let _ = crate::sys::futex_wake(&self.0, 1);
        }

        /// The same for a word that may be gone: only its address counts.
        pub(crate) fn wake_at(this: *const Futex) {
            let _ = crate::sys::futex_wake(this.cast::<AtomicU32>(), 1);
        }
    }

    /// Nothing: see the model's.
    pub(crate) struct Gate;

    /// Nothing.
    pub(crate) struct Gated<'a>(PhantomData<&'a ()>);

    impl Gate {
        pub(crate) const fn new() -> Gate {
            Gate
        }

        #[inline(always)]
        pub(crate) fn enter(&self) -> Gated<'_> {
            Gated(PhantomData)
        }
    }

    impl Drop for Gated<'_> {
        /// The gate opens: in a model somebody may be waiting.
        #[inline(always)]
        fn drop(&mut self) {}
    }
}

#[cfg(any(not(loom), shuttle))]
mod cell {
    use std::cell;

    /// `std`'s cell with the access guards that loom's has.
    #[derive(Debug)]
    pub(crate) struct UnsafeCell<T>(cell::UnsafeCell<T>);

    impl<T> UnsafeCell<T> {
        pub(crate) const fn new(value: T) -> Self {
            UnsafeCell(cell::UnsafeCell::new(value))
        }

        /// Starts an exclusive access, which ends when the result is dropped.
        #[inline(always)]
        pub(crate) fn get_mut(&self) -> MutPtr<T> {
            MutPtr(self.0.get())
        }
    }

    /// An exclusive access that is under way.
    pub(crate) struct MutPtr<T>(*mut T);

    impl<T> Drop for MutPtr<T> {
        /// The access ends here: loom's checks it.
        #[inline(always)]
        fn drop(&mut self) {}
    }

    impl<T> MutPtr<T> {
        /// Calls `f` with the address of the value.
        #[inline(always)]
        pub(crate) fn with<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
            f(self.0)
        }
    }
}

#[cfg(loom)]
mod model {
    #[cfg(not(shuttle))]
    use loom as checker;
    #[cfg(shuttle)]
    use shuttle as checker;

    #[cfg(shuttle)]
    pub(crate) use super::cell::{MutPtr, UnsafeCell};
    pub(crate) use checker::hint::spin_loop;
    pub(crate) use checker::sync::Arc;
    pub(crate) use checker::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, fence};
    pub(crate) use checker::thread_local;
    #[cfg(not(shuttle))]
    pub(crate) use loom::cell::{MutPtr, UnsafeCell};

    use checker::sync::{Condvar, Mutex, MutexGuard};
    use std::cell::Cell;
    use std::sync::atomic::Ordering::Relaxed;
    use std::time::Duration;

    /// Preemption is what a model is about.
    pub(crate) mod preempt {
        pub(crate) fn disable() {}
        pub(crate) fn enable() {}
        pub(crate) fn assert_enabled() {}
    }

    /// No user threads: all waiters are kernel threads, which stand in the same lists.
    pub(crate) mod user {
        use std::time::Instant;

        pub(crate) fn current_handle() -> Option<u32> {
            None
        }

        pub(crate) fn park_current(_deadline: Option<Instant>) -> bool {
            unreachable!("no user threads in models")
        }

        pub(crate) fn set_waits(_what: *const core::ffi::c_char, _at: usize) {}

        pub(crate) fn unpark(_handle: u32) {
            unreachable!("no user threads in models")
        }
    }

    pub(crate) fn os_yield() {
        checker::thread::yield_now();
    }

    pub(crate) fn os_nap() {
        checker::thread::yield_now();
    }

    /// A gate before a lock that spins. Two threads that spin for a third have infinitely many
    /// schedules, so in models of three they queue here instead; models of two threads leave the
    /// gates open and really spin.
    pub(crate) struct Gate(Option<Mutex<()>>);

    /// The passed gate, closed for others.
    pub(crate) type Gated<'a> = Option<MutexGuard<'a, ()>>;

    std::thread_local! {
        /// Do locks that are made from now on have gates? A model runs on one kernel thread.
        pub(crate) static GATES: Cell<bool> = const { Cell::new(false) };
    }

    impl Gate {
        pub(crate) fn new() -> Gate {
            Gate(GATES.get().then(|| Mutex::new(())))
        }

        pub(crate) fn enter(&self) -> Gated<'_> {
            self.0.as_ref().map(|gate| gate.lock().unwrap())
        }
    }

    /// A futex as the kernel has it: comparing and falling asleep are one step for those who wake.
    ///
    /// The condition variable's mutex is the kernel's bucket lock: a waker that took it earlier has
    /// published its word, one that takes it later finds the sleeper.
    pub(crate) struct Futex {
        word: AtomicU32,
        bucket: Mutex<()>,
        sleeper: Condvar,
    }

    impl Futex {
        pub(crate) fn new(value: u32) -> Futex {
            Futex { word: AtomicU32::new(value), bucket: Mutex::new(()), sleeper: Condvar::new() }
        }

        pub(crate) fn word(&self) -> &AtomicU32 {
            &self.word
        }

        pub(crate) fn wait(&self, expected: u32, timeout: Option<Duration>) {
            if timeout.is_some() {
                // In a model time passes when others run.
                return checker::thread::yield_now();
            }
            let bucket = self.bucket.lock().unwrap();
            if self.word.load(Relaxed) == expected {
                drop(self.sleeper.wait(bucket).unwrap());
            }
        }

        pub(crate) fn wake(&self) {
            drop(self.bucket.lock().unwrap());
            self.sleeper.notify_one();
        }

        /// In a model nothing is gone.
        pub(crate) fn wake_at(this: *const Futex) {
            // SAFETY: models keep their objects until all threads have been joined.
            unsafe { &*this }.wake();
        }
    }
}
