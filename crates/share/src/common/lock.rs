//! A lock between processes that outlives whoever holds it.
//!
//! The word is the holder's number plus one, and whether somebody sleeps. Who waits for long asks
//! how the holder does, and takes the lock from a dead one: what the lock protects may then be half
//! done. One that is stopped is continued, until it has released the lock, and then stopped again.

use super::life::Life;
use super::word::Word;
use rustix::process::Signal;
use std::hint::spin_loop;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::Duration;

const SLEEPERS: u32 = 1 << 31;
/// Looks before a waiter sleeps: the holder needs less than a microsecond.
const LOOKS: u32 = if cfg!(loom) { 0 } else { 500 };
/// Between two questions whether the holder lives.
const NAP: Duration = Duration::from_millis(1);

/// Whoever has this holds the lock.
pub(super) struct Held<'a> {
    word: &'a Word,
    /// Who has died while holding it.
    pub(super) after: Option<usize>,
}

/// Waits for the lock. `me` is not held by another thread of this process, unless `inherits`: then
/// the process that had this number before may have died with the lock.
pub(super) fn acquire<'a>(
    word: &'a Word,
    me: usize,
    inherits: bool,
    life: impl Fn(usize) -> Life,
    signal: impl Fn(usize, Signal),
) -> Held<'a> {
    let mut continued = None;
    let held = wait(word, me, inherits, |holder| {
        let life = life(holder);
        if life == Life::Stopped {
            continued = Some(holder);
            signal(holder, Signal::CONT);
        }
        life == Life::Ended
    });
    if let Some(holder) = continued {
        signal(holder, Signal::STOP);
    }
    held
}

fn wait<'a>(
    word: &'a Word,
    me: usize,
    inherits: bool,
    mut has_ended: impl FnMut(usize) -> bool,
) -> Held<'a> {
    let mine = me as u32 + 1;
    let take = |from, to| word.compare_exchange(from, to, Acquire, Relaxed).is_ok();
    let mut looks = 0;
    // Who has slept does not know whether others do.
    let mut sleepers = 0;
    loop {
        let seen = word.load(Relaxed);
        let holder = (seen & !SLEEPERS).checked_sub(1).map(|holder| holder as usize);
        match holder {
            None if take(seen, mine | sleepers | seen) => return Held { word, after: None },
            None => continue,
            Some(_) if looks < LOOKS && !inherits => {
                looks += 1;
                spin_loop();
                continue;
            }
            Some(holder) if inherits && holder == me || has_ended(holder) => {
                if take(seen, mine | SLEEPERS) {
                    return Held { word, after: Some(holder) };
                }
                continue;
            }
            Some(_) => {}
        }
        sleepers = SLEEPERS;
        if seen & SLEEPERS == 0 && !take(seen, seen | SLEEPERS) {
            continue;
        }
        word.sleep(seen | SLEEPERS, NAP);
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // Half done: whoever waits must see a dead holder.
            #[cfg(not(test))]
            std::process::abort();
            #[cfg(test)]
            return;
        }
        if self.word.swap(0, Release) & SLEEPERS != 0 {
            self.word.wake();
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, AtomicU64};

    fn acquire_among(
        word: &Word,
        me: usize,
        inherits: bool,
        life: impl Fn(usize) -> Life,
    ) -> Held<'_> {
        acquire(word, me, inherits, life, |_, _| {})
    }

    #[test]
    fn one_at_a_time() {
        let (word, sum) = (Word::new(), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for me in 0..4 {
                let (word, sum) = (&word, &sum);
                scope.spawn(move || {
                    for _ in 0..20_000 {
                        let held = acquire_among(word, me, false, |_| Life::Runs);
                        assert_eq!(held.after, None);
                        sum.store(sum.load(Relaxed) + 1, Relaxed);
                    }
                });
            }
        });
        assert_eq!((sum.load(Relaxed), word.load(Relaxed)), (80_000, 0));
    }

    #[test]
    fn it_is_taken_from_the_dead() {
        let word = Word::new();
        let runs = |_| Life::Runs;
        std::mem::forget(acquire_among(&word, 3, false, runs));
        let life = |holder| if holder == 3 { Life::Ended } else { Life::Runs };
        let held = acquire_among(&word, 1, false, life);
        assert_eq!(held.after, Some(3));
        drop(held);
        assert_eq!(acquire_among(&word, 1, false, runs).after, None);
        std::mem::forget(acquire_among(&word, 1, false, runs));
        assert_eq!(acquire_among(&word, 1, true, runs).after, Some(1), "its number is inherited");
    }

    #[test]
    fn who_is_stopped_with_it_goes_on_for_as_long() {
        let (word, signals) = (Word::new(), AtomicU32::new(0));
        std::mem::forget(acquire_among(&word, 3, false, |_| Life::Runs));
        let signal = |holder, signal| {
            assert_eq!(holder, 3);
            if signal == Signal::CONT {
                word.store(0, Release);
            }
            let count = if signal == Signal::CONT { 1 } else { 16 };
            signals.fetch_add(count, Relaxed);
        };
        let held = acquire(&word, 1, false, |_| Life::Stopped, signal);
        assert_eq!((held.after, signals.load(Relaxed)), (None, 17));
    }
}
