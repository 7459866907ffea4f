//! Read-write locks in seven words, the number that the C library's structure has before its flags.
//!
//! The state is plain data behind a lock of its own ([`super::lock`]), which is held for a few
//! instructions. Readers and writers sleep on different words.
//!
//! # Protocol
//!
//! Readers that wait are *admitted*: whoever makes the lock readable counts all of them in at once,
//! changes `admissions` and wakes them. So `waiting_readers` counts those who have seen the present
//! value of `admissions`, and a reader owns the lock as soon as that has changed, also when its
//! limit came at the same moment. Writers are woken one at a time and compete with those that come
//! by.
//!
//! # Order
//!
//! Phases of readers and phases of a writer alternate while both wait (phase-fair, as of
//! Brandenburg and Anderson, "Spin-Based Reader-Writer Synchronization for Multiprocessor Real-Time
//! Systems", 2010): a writer that leaves admits the readers that wait, and the last reader that
//! leaves wakes a writer, past which no reader comes that asks for `writers_first`. So neither side
//! keeps the other out. Readers that do not ask for it may starve writers, which POSIX allows.

use super::futex::{self, End, Limits};
use super::lock;
use crate::park::shim::AtomicU32;
use core::sync::atomic::Ordering::*;

/// See the module documentation. All zero: free.
#[derive(Debug, Default)]
#[repr(C)]
pub struct RwLock {
    guard: AtomicU32,
    readers: AtomicU32,
    /// Who writes: a number of the caller's choice, not 0.
    writer: AtomicU32,
    waiting_readers: AtomicU32,
    waiting_writers: AtomicU32,
    /// Where readers sleep.
    admissions: AtomicU32,
    /// Where writers sleep: a count of wake-ups.
    wake_writers: AtomicU32,
}

struct Guard<'a>(&'a RwLock);

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        lock::unlock(&self.0.guard);
    }
}

/// Who is to be woken once the guard is released.
#[derive(Clone, Copy, PartialEq, Eq)]
#[must_use = "somebody waits"]
enum Successor {
    Nobody,
    Writer,
    /// They have been admitted.
    Readers,
}

impl RwLock {
    fn guard(&self) -> Guard<'_> {
        lock::lock(&self.guard, &Limits::NONE);
        Guard(self)
    }

    /// Who writes, or 0.
    pub fn writer(&self) -> u32 {
        self.writer.load(Relaxed)
    }

    fn readable(&self, writers_first: bool) -> bool {
        self.writer.load(Relaxed) == 0
            && !(writers_first && self.waiting_writers.load(Relaxed) != 0)
    }

    fn writable(&self) -> bool {
        self.writer.load(Relaxed) == 0 && self.readers.load(Relaxed) == 0
    }

    /// Reads if that is possible at once. `writers_first`: not past a waiting writer.
    pub fn try_read(&self, writers_first: bool) -> bool {
        let _guard = self.guard();
        let free = self.readable(writers_first);
        self.readers.fetch_add(u32::from(free), Relaxed);
        free
    }

    /// Reads; waits until that is possible. [`End::Woken`]: the caller reads.
    pub fn read(&self, writers_first: bool, limits: &Limits<'_>) -> End {
        let guard = self.guard();
        if self.readable(writers_first) {
            self.readers.fetch_add(1, Relaxed);
            return End::Woken;
        }
        let seen = self.admissions.load(Relaxed);
        self.waiting_readers.fetch_add(1, Relaxed);
        drop(guard);
        loop {
            let end = futex::wait(&self.admissions, seen, limits);
            if self.admissions.load(Acquire) != seen {
                return End::Woken;
            }
            if end != End::Woken {
                let _guard = self.guard();
                if self.admissions.load(Relaxed) != seen {
                    return End::Woken;
                }
                self.waiting_readers.fetch_sub(1, Relaxed);
                return end;
            }
        }
    }

    /// Writes, as `me`, if that is possible at once.
    pub fn try_write(&self, me: u32) -> bool {
        let _guard = self.guard();
        let free = self.writable();
        if free {
            self.writer.store(me, Relaxed);
        }
        free
    }

    /// Writes, as `me`; waits until that is possible. [`End::Woken`]: the caller writes.
    pub fn write(&self, me: u32, limits: &Limits<'_>) -> End {
        let mut guard = self.guard();
        while !self.writable() {
            let seen = self.wake_writers.load(Relaxed);
            self.waiting_writers.fetch_add(1, Relaxed);
            drop(guard);
            let end = futex::wait(&self.wake_writers, seen, limits);
            guard = self.guard();
            self.waiting_writers.fetch_sub(1, Relaxed);
            if end != End::Woken {
                // Readers may have been kept waiting by this writer alone.
                let next = if self.readable(true) { self.admit() } else { Successor::Nobody };
                drop(guard);
                self.wake(next);
                return end;
            }
        }
        self.writer.store(me, Relaxed);
        drop(guard);
        End::Woken
    }

    /// Ends a read or a write. `false`: nobody has the lock.
    pub fn unlock(&self) -> bool {
        let guard = self.guard();
        let next = if self.writer.load(Relaxed) != 0 {
            self.writer.store(0, Relaxed);
            match self.admit() {
                Successor::Nobody => self.choose_writer(),
                readers => readers,
            }
        } else {
            match self.readers.load(Relaxed) {
                0 => return false,
                readers => self.readers.store(readers - 1, Relaxed),
            }
            self.choose_writer()
        };
        drop(guard);
        self.wake(next);
        true
    }

    /// Counts in the readers that wait. Nobody writes.
    fn admit(&self) -> Successor {
        let waiting = self.waiting_readers.load(Relaxed);
        if waiting == 0 {
            return Successor::Nobody;
        }
        self.waiting_readers.store(0, Relaxed);
        self.readers.fetch_add(waiting, Relaxed);
        // Release: an admitted reader need not take the guard to see what the last writer has done.
        self.admissions.fetch_add(1, Release);
        Successor::Readers
    }

    /// A writer is to be woken if one waits and may write.
    fn choose_writer(&self) -> Successor {
        if self.waiting_writers.load(Relaxed) == 0 || !self.writable() {
            return Successor::Nobody;
        }
        self.wake_writers.fetch_add(1, Relaxed);
        Successor::Writer
    }

    fn wake(&self, next: Successor) {
        match next {
            Successor::Nobody => {}
            Successor::Writer => futex::wake(&self.wake_writers, 1),
            Successor::Readers => futex::wake(&self.admissions, u32::MAX),
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::foreign::futex::Deadline;
    use std::sync::atomic::AtomicU64;
    use std::time::Duration;

    #[test]
    fn readers_share_and_writers_do_not() {
        let l = RwLock::default();
        let soon = || Limits {
            deadline: Some(Deadline::after(Duration::from_millis(1))),
            interrupted: None,
        };
        assert!(l.try_read(false) && l.try_read(false) && !l.try_write(7));
        assert_eq!(l.write(7, &soon()), End::TimedOut);
        assert!(l.unlock() && l.unlock() && !l.unlock());
        assert!(l.try_write(7) && l.writer() == 7 && !l.try_read(false));
        assert_eq!(l.read(false, &soon()), End::TimedOut);
        assert!(l.unlock());
    }

    #[test]
    fn kernel_threads_see_whole_writes() {
        let (l, a, b) = (RwLock::default(), AtomicU64::new(0), AtomicU64::new(0));
        std::thread::scope(|s| {
            for i in 1..5u32 {
                let (l, a, b) = (&l, &a, &b);
                s.spawn(move || {
                    for n in 0..1000 {
                        if n % 4 == 0 {
                            l.write(i, &Limits::NONE);
                            a.store(a.load(Relaxed) + 1, Relaxed);
                            b.store(b.load(Relaxed) + 1, Relaxed);
                        } else {
                            l.read(i % 2 == 0, &Limits::NONE);
                            assert_eq!(a.load(Relaxed), b.load(Relaxed));
                        }
                        assert!(l.unlock());
                    }
                });
            }
        });
        assert_eq!(a.into_inner(), 1000);
    }

    /// Writers that come one after the other do not keep a reader out, nor readers a writer.
    #[test]
    fn phases_alternate() {
        let (l, over) = (RwLock::default(), AtomicU32::new(0));
        std::thread::scope(|s| {
            for i in 1..4 {
                let (l, over) = (&l, &over);
                s.spawn(move || {
                    while over.load(Relaxed) == 0 {
                        assert_eq!(l.write(i, &Limits::NONE), End::Woken);
                        std::thread::sleep(Duration::from_micros(20));
                        assert!(l.unlock());
                    }
                });
            }
            for _ in 0..200 {
                assert_eq!(l.read(true, &Limits::NONE), End::Woken);
                assert!(l.unlock());
            }
            over.store(1, Relaxed);
        });
        assert!(l.try_write(9));
    }

    #[test]
    fn a_writer_that_gives_up_lets_readers_in() {
        let l = RwLock::default();
        let deadline = Some(Deadline::after(Duration::from_millis(20)));
        assert!(l.try_read(true));
        std::thread::scope(|s| {
            s.spawn(|| l.write(7, &Limits { deadline, ..Limits::NONE }));
            s.spawn(|| assert_eq!(l.read(true, &Limits::NONE), End::Woken));
        });
        assert!(l.unlock() && l.unlock() && !l.unlock());
    }
}
