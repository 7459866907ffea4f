//! A lock between processes that outlives whoever holds it.
//!
//! The word is the holder's number plus one, how often the lock was taken before, and whether
//! somebody sleeps. Who waits for long asks how the holder does, and takes the lock from a dead
//! one: what the lock protects may then be half done.
//!
//! A holder that is stopped is continued, and stops itself again as soon as it has released the
//! lock: who continues it leaves a mark, the word, which names this one turn of the holder's. So
//! its user's `SIGCONT` is lost only between the two.

use super::life::Life;
use super::word::Word;
use std::hint::spin_loop;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::time::Duration;

const SLEEPERS: u32 = 1 << 31;
/// The holder's number plus one; 0: it is free.
const HOLDER: u32 = 0xff;
/// How often it was taken, in the bits between the others.
const TAKEN: u32 = !(SLEEPERS | HOLDER);
/// Looks before a waiter sleeps: the holder needs less than a microsecond.
const LOOKS: u32 = if cfg!(loom) { 0 } else { 500 };
/// Between two questions whether the holder lives.
const NAP: Duration = Duration::from_millis(1);
/// Naps until somebody else continues a holder too: the one that wanted to may be dead.
const PATIENCE: u32 = 20;

/// Those that have the lock in common.
pub(super) trait Members {
    /// Whether the caller may ask how others do. Who may not relies on one who does.
    fn asks(&self) -> bool {
        true
    }
    fn life(&self, member: usize) -> Life;
    /// Continues one that is stopped.
    fn go_on(&self, member: usize);
    /// At the end of which turn this member stops itself; 0: of none.
    fn mark(&self, member: usize) -> &Word;
}

/// Whoever has this holds the lock.
pub(super) struct Held<'a> {
    word: &'a Word,
    turn: u32,
    mark: &'a Word,
    /// Who has died while holding it.
    pub(super) after: Option<usize>,
}

/// Which turn of whose it is; `None`: nobody has the lock.
pub(super) fn turn(word: &Word) -> Option<u32> {
    let seen = word.load(Relaxed);
    (seen & HOLDER != 0).then_some(seen & !SLEEPERS)
}

/// Whether nobody has the lock.
#[cfg(test)]
pub(super) fn is_free(word: &Word) -> bool {
    turn(word).is_none()
}

/// Whether somebody has waited for long.
#[cfg(all(test, not(loom)))]
pub(super) fn has_sleepers(word: &Word) -> bool {
    word.load(Relaxed) & SLEEPERS != 0
}

/// Waits for the lock. `me` is not held by another thread of this process, unless `inherits`: then
/// the process that had this number before may have died with the lock.
pub(super) fn acquire<'a>(
    word: &'a Word,
    me: usize,
    inherits: bool,
    members: &'a impl Members,
) -> Held<'a> {
    let take = |from, to| word.compare_exchange(from, to, Acquire, Relaxed).is_ok();
    let held = |turn, after| Held { word, turn, mark: members.mark(me), after };
    let mut looks = 0;
    let mut naps = 0;
    // Who has slept does not know whether others do.
    let mut sleepers = 0;
    loop {
        let seen = word.load(Relaxed);
        let turn = (seen & TAKEN).wrapping_add(HOLDER + 1) & TAKEN | (me as u32 + 1);
        let holder = (seen & HOLDER).checked_sub(1).map(|holder| holder as usize);
        match holder {
            None if take(seen, turn | sleepers | seen & SLEEPERS) => return held(turn, None),
            None => continue,
            Some(_) if looks < LOOKS && !inherits => {
                looks += 1;
                spin_loop();
                continue;
            }
            Some(holder) => match if members.asks() { members.life(holder) } else { Life::Runs } {
                _ if inherits && holder == me => {}
                Life::Ended => {}
                life => {
                    if life == Life::Stopped {
                        go_on(word, seen, holder, members, naps % PATIENCE == PATIENCE - 1);
                    }
                    sleepers = SLEEPERS;
                    if seen & SLEEPERS != 0 || take(seen, seen | SLEEPERS) {
                        word.sleep(seen | SLEEPERS, NAP);
                        naps += 1;
                    }
                    continue;
                }
            },
        }
        if take(seen, turn | SLEEPERS) {
            return held(turn, holder);
        }
    }
}

/// Continues a holder that was seen stopped, until it has released the lock. One of those who wait
/// does, so that no other continues what has stopped itself meanwhile; `anyway` too.
fn go_on(word: &Word, seen: u32, holder: usize, members: &impl Members, anyway: bool) {
    let turn = seen & !SLEEPERS;
    let is_its_turn = || word.load(Acquire) & !SLEEPERS == turn;
    let mark = members.mark(holder);
    let before = mark.load(Acquire);
    if before == turn {
        if anyway {
            members.go_on(holder);
        }
    } else if is_its_turn() && mark.compare_exchange(before, turn, AcqRel, Relaxed).is_ok() {
        if is_its_turn() && members.life(holder) == Life::Stopped {
            members.go_on(holder);
        } else {
            // It goes on by itself, and is to.
            let _ = mark.compare_exchange(turn, 0, AcqRel, Relaxed);
        }
    }
}

impl Held<'_> {
    /// Releases the lock. Whether the caller's process is to be stopped now: it was when it held
    /// the lock.
    pub(super) fn release(self) -> bool {
        let (mark, turn) = (self.mark, self.turn);
        drop(self);
        mark.load(Acquire) != 0 && mark.swap(0, AcqRel) == turn
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
        if self.word.swap(self.turn & TAKEN, Release) & SLEEPERS != 0 {
            self.word.wake();
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, AtomicU64};

    /// Members that all do the same.
    struct All<'a, F: Fn(usize)> {
        life: Life,
        go_on: F,
        marks: &'a [Word; 4],
    }

    impl<F: Fn(usize)> Members for All<'_, F> {
        fn life(&self, _: usize) -> Life {
            self.life
        }

        fn go_on(&self, member: usize) {
            (self.go_on)(member);
        }

        fn mark(&self, member: usize) -> &Word {
            &self.marks[member]
        }
    }

    fn marks() -> [Word; 4] {
        [(); 4].map(|()| Word::new())
    }

    fn all_are(life: Life, marks: &[Word; 4]) -> All<'_, impl Fn(usize)> {
        All { life, go_on: |_| unreachable!(), marks }
    }

    #[test]
    fn one_at_a_time() {
        let (word, sum) = (Word::new(), AtomicU64::new(0));
        let marks = marks();
        let members = all_are(Life::Runs, &marks);
        std::thread::scope(|scope| {
            for me in 0..4 {
                let (word, sum, members) = (&word, &sum, &members);
                scope.spawn(move || {
                    for _ in 0..20_000 {
                        let held = acquire(word, me, false, members);
                        assert_eq!(held.after, None);
                        sum.store(sum.load(Relaxed) + 1, Relaxed);
                    }
                });
            }
        });
        assert!(sum.load(Relaxed) == 80_000 && is_free(&word));
    }

    #[test]
    fn it_is_taken_from_the_dead() {
        let (word, marks) = (Word::new(), marks());
        let (runs, ended) = (all_are(Life::Runs, &marks), all_are(Life::Ended, &marks));
        std::mem::forget(acquire(&word, 3, false, &runs));
        let held = acquire(&word, 1, false, &ended);
        assert_eq!(held.after, Some(3));
        drop(held);
        assert_eq!(acquire(&word, 1, false, &runs).after, None);
        std::mem::forget(acquire(&word, 1, false, &runs));
        assert_eq!(acquire(&word, 1, true, &runs).after, Some(1), "its number is inherited");
    }

    /// Turns are counted for ever.
    #[test]
    fn the_count_of_turns_begins_again() {
        let (word, marks) = (Word::new(), marks());
        word.store(TAKEN, Relaxed);
        let runs = all_are(Life::Runs, &marks);
        assert!(!acquire(&word, 3, false, &runs).release() && is_free(&word));
        assert_eq!(word.load(Relaxed), 0);
    }

    #[test]
    fn who_is_stopped_with_it_goes_on_for_as_long() {
        let (word, marks, times) = (Word::new(), marks(), AtomicU32::new(0));
        let go_on = |holder: usize| {
            assert_eq!(holder, 3);
            times.fetch_add(1, Relaxed);
            let turn = word.load(Relaxed) & !SLEEPERS;
            let held = Held { word: &word, turn, mark: &marks[holder], after: None };
            assert!(held.release(), "it is to be stopped again");
        };
        let members = All { life: Life::Stopped, go_on, marks: &marks };
        std::mem::forget(acquire(&word, 3, false, &members));
        let held = acquire(&word, 1, false, &members);
        assert_eq!((held.after, times.load(Relaxed)), (None, 1));
        assert!(!held.release());
        assert!(!acquire(&word, 3, false, &members).release(), "once");
    }

    /// Who was to continue the holder may have died before it did.
    #[test]
    fn somebody_continues_it() {
        let (word, marks) = (Word::new(), marks());
        let members = All { life: Life::Stopped, go_on: |_| word.store(0, Release), marks: &marks };
        std::mem::forget(acquire(&word, 3, false, &members));
        let seen = word.load(Relaxed);
        marks[3].store(seen, Relaxed);
        go_on(&word, seen, 3, &members, false);
        assert!(!is_free(&word), "another does it");
        assert_eq!(acquire(&word, 1, false, &members).after, None);
    }

    /// A turn that is over leaves no mark for the next one.
    #[test]
    fn who_goes_on_by_itself_is_not_stopped() {
        let (word, marks) = (Word::new(), marks());
        let runs = all_are(Life::Runs, &marks);
        let held = acquire(&word, 3, false, &runs);
        let seen = word.load(Relaxed);
        go_on(&word, seen, 3, &runs, true);
        assert!(!held.release(), "it was not stopped");
        let held = acquire(&word, 3, false, &runs);
        let stopped = all_are(Life::Stopped, &marks);
        go_on(&word, seen, 3, &stopped, true);
        assert!(!held.release(), "that was the turn before");
        marks[3].store(seen, Relaxed);
        assert!(!acquire(&word, 3, false, &runs).release(), "so was that");
    }
}
