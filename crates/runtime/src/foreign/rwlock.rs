//! Read-write locks in seven words, the number that the C library's structure has before its flags.
//!
//! The state is plain data behind a lock of its own ([`super::lock`]), which is held for a few instructions. Readers and
//! writers wait for different words, each a count of wake-ups.

use super::futex::{self, End, Limits};
use super::lock;
use core::sync::atomic::{AtomicU32, Ordering::*};

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
    wake_readers: AtomicU32,
    wake_writers: AtomicU32,
}

struct Guard<'a>(&'a RwLock);

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        lock::unlock(&self.0.guard);
    }
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
        let mut guard = self.guard();
        while !self.readable(writers_first) {
            let seen = self.wake_readers.load(Relaxed);
            self.waiting_readers.fetch_add(1, Relaxed);
            drop(guard);
            let end = futex::wait(&self.wake_readers, seen, limits);
            guard = self.guard();
            self.waiting_readers.fetch_sub(1, Relaxed);
            if end != End::Woken {
                return end;
            }
        }
        self.readers.fetch_add(1, Relaxed);
        drop(guard);
        End::Woken
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
                let wake = self.wake_both(false);
                drop(guard);
                self.wake(wake);
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
        if self.writer.load(Relaxed) != 0 {
            self.writer.store(0, Relaxed);
        } else if self.readers.load(Relaxed) != 0 {
            self.readers.fetch_sub(1, Relaxed);
        } else {
            return false;
        }
        let wake = self.wake_both(true);
        drop(guard);
        self.wake(wake);
        true
    }

    /// Decides who is to be woken: (readers, a writer).
    fn wake_both(&self, writer: bool) -> (bool, bool) {
        let writer = writer && self.waiting_writers.load(Relaxed) != 0 && self.writable();
        let readers = self.waiting_readers.load(Relaxed) != 0 && self.writer.load(Relaxed) == 0;
        if writer {
            self.wake_writers.fetch_add(1, Relaxed);
        }
        if readers {
            self.wake_readers.fetch_add(1, Relaxed);
        }
        (readers, writer)
    }

    fn wake(&self, (readers, writer): (bool, bool)) {
        if writer {
            futex::wake(&self.wake_writers, 1);
        }
        if readers {
            futex::wake(&self.wake_readers, u32::MAX);
        }
    }
}

#[cfg(test)]
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
}
