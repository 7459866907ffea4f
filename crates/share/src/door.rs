//! Giving a core up, and having it back.
//!
//! ```text
//!  LC's worker on core c            who brings work (LC's)              BE's worker on core c
//!  ---------------------------      ------------------------------      -----------------------
//!  1 word = PARKED                  a  the work is there                at each look (<= 1 us):
//!  2 full fence                     b  full fence                        x word == RUNG, and not
//!  3 work? word = AWAKE, run it     c  PARKED -> RUNG, else done           this ring already?
//!  4 futex: sleep while PARKED      d  nobody looks: wake                y heard = this ring
//!  5 word = AWAKE                   e  somebody looks: wait for          z wake (the kernel puts
//!                                      `heard`, for the bound at           LC in BE's place at
//!                                      most; then wake                     once)
//! ```
//!
//! Of the two fences one is first: either the worker sees the work in 3, or the other sees PARKED
//! in c. Who wakes is in the kernel on the worker's own core in z, which spares the interrupt of
//! another core that d and e cost.
//!
//! Nothing depends on the best-effort side: one that is dead, stopped or lies in y costs the bound
//! (y without z: until the worker's sleep ends by itself, [`BACKSTOP`]). Nothing depends on the
//! broker, except that who rings does not wait in e while the broker [guards](Doors::guard) the
//! bell.

use crate::futex;
use crate::layout::{AWAKE, PARKED, Page, RUNG, Table, ring_of};
use crate::layout::{MOST_APPS, MOST_PLACES};
use crate::map::Mapping;
use crate::pages::Pages;
use std::array;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicU32, AtomicU64, fence};
use std::time::{Duration, Instant};

/// No sleep in [`Doors::park`] is longer: should a best-effort application be killed between saying
/// that it wakes and doing so, the worker looks by itself.
const BACKSTOP: Duration = Duration::from_millis(10);

/// How often [`Doors::look`] gives way to the thread that hears of others, where it should have
/// heard, in microseconds.
const LET_HEAR_US: u64 = 1000;

/// What became of a ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rung {
    /// The worker was not asleep, or is being woken already.
    Awake,
    /// Nobody looked at the bell, so the caller has woken it.
    Woken,
    /// A best-effort application wakes it.
    Answered,
    /// Nobody answered within the bound, so the caller has woken it.
    Forced,
    /// The broker watches the bell.
    Guarded,
}

/// What counts up at a core of a member's, since it joined.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tally {
    /// How often its worker has parked.
    pub parks: u64,
    /// How often its bell was rung.
    pub rings: u64,
    /// Of a latency-critical member: rings that somebody has answered. Of a best-effort one: rings
    /// of others that it has answered.
    pub answered: u64,
    /// Rings that nobody has answered in time.
    pub forced: u64,
    /// From rings until the worker ran, in all.
    pub waited: Duration,
}

/// The bells of all cores, as one member sees them.
#[derive(Debug)]
pub struct Doors {
    table: Mapping,
    own: Mapping,
    me: usize,
    places: usize,
    pub(crate) pages: Pages,
    /// The last ring of each application that was answered here, by core.
    seen: Box<[[AtomicU32; MOST_PLACES]; MOST_APPS]>,
    /// See [`Doors::let_hear`], in ticks.
    let_heard_at: AtomicU64,
}

/// The time, in ticks of the TSC.
#[inline(always)]
pub(crate) fn ticks() -> u64 {
    // SAFETY: every x86-64 has this instruction.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// The TSC's rate, from ten milliseconds of it.
pub(crate) fn ticks_per_us() -> u32 {
    let (begun, from) = (Instant::now(), ticks());
    std::thread::sleep(Duration::from_millis(10));
    let (to, took) = (ticks(), begun.elapsed());
    (u128::from(to - from) * 1000 / took.as_nanos().max(1)).clamp(1, u128::from(u32::MAX)) as u32
}

impl Doors {
    pub(crate) fn new(table: Mapping, own: Mapping, me: usize) -> Doors {
        quaver_rsb::prepare();
        let seen = Box::new(array::from_fn(|_| array::from_fn(|_| AtomicU32::new(0))));
        let mut doors = Doors {
            table,
            own,
            me,
            places: 0,
            pages: Pages::new(),
            seen,
            let_heard_at: AtomicU64::new(0),
        };
        doors.places = (doors.table().places.load(Relaxed) as usize).min(MOST_PLACES);
        doors
    }

    pub(crate) fn table(&self) -> &Table {
        // SAFETY: a table consists of atomics.
        unsafe { self.table.cast() }
    }

    pub(crate) fn own(&self) -> &Page {
        // SAFETY: a page consists of atomics.
        unsafe { self.own.cast() }
    }

    /// How many cores are shared.
    pub fn places(&self) -> usize {
        self.places
    }

    /// The CPU of a core.
    pub fn cpu(&self, place: usize) -> usize {
        self.table().cpus[place].load(Relaxed) as usize
    }

    /// The place of a CPU, if it is shared.
    pub fn place_of(&self, cpu: usize) -> Option<usize> {
        (0..self.places).find(|&place| self.cpu(place) == cpu)
    }

    /// What it takes to give a core up and have it back, as the broker has measured it.
    pub fn cycle(&self) -> Duration {
        self.time(self.cycle_ticks())
    }

    /// What has happened at a core of this member's.
    ///
    /// # Panics
    ///
    /// If there is no such core.
    pub fn tally(&self, place: usize) -> Tally {
        let at = &self.own().places[place];
        Tally {
            parks: at.parks.load(Relaxed),
            rings: at.rings.load(Relaxed).into(),
            answered: at.answered.load(Relaxed),
            forced: at.forced.load(Relaxed),
            waited: self.time(at.waited.load(Relaxed)),
        }
    }

    fn time(&self, ticks: u64) -> Duration {
        let ticks_per_us = u128::from(self.table().ticks_per_us.load(Relaxed).max(1));
        Duration::from_nanos((u128::from(ticks) * 1000 / ticks_per_us) as u64)
    }

    pub(crate) fn cycle_ticks(&self) -> u64 {
        // Far beyond any, so that no product overflows.
        self.table().cycle.load(Relaxed).min(1 << 40)
    }

    /// Of a latency-critical member: sleeps until the bell of this core is rung, `limit` is over or
    /// 10 ms are. `asleep` is asked once, when a ring would be heard: is there still nothing to do?
    /// May return early. Blocks the calling kernel thread, which must be the core's. When the bell
    /// was rung, in ticks of the TSC, if it was.
    ///
    /// # Panics
    ///
    /// If there is no such core.
    pub fn park(
        &self,
        place: usize,
        asleep: impl FnOnce() -> bool,
        limit: Option<Duration>,
    ) -> Option<u64> {
        let place = &self.own().places[place];
        place.word.store(PARKED, Relaxed);
        fence(SeqCst);
        if asleep() {
            place.parks.fetch_add(1, Relaxed);
            let limit = limit.map_or(BACKSTOP, |limit| limit.min(BACKSTOP));
            let _ = futex::wait(&place.word, PARKED, Some(limit));
        }
        if place.word.swap(AWAKE, AcqRel) != RUNG {
            return None;
        }
        let rung_at = place.rung_at.load(Relaxed);
        place.waited.fetch_add(ticks().saturating_sub(rung_at), Relaxed);
        Some(rung_at)
    }

    /// Of a latency-critical member: there is work for the worker of this core. The caller has made
    /// it visible before. Spins for the bound at most, and makes one system call at most.
    ///
    /// # Panics
    ///
    /// If there is no such core.
    pub fn ring(&self, place: usize) -> Rung {
        let at = &self.own().places[place];
        fence(SeqCst);
        if at.word.load(Relaxed) != PARKED {
            return Rung::Awake;
        }
        let begun = ticks();
        let rings = at.rings.fetch_add(1, Relaxed).wrapping_add(1);
        at.rung_at.store(begun, Relaxed);
        if at.word.compare_exchange(PARKED, RUNG, AcqRel, Relaxed).is_err() {
            return Rung::Awake;
        }
        if !self.is_looked_at(place) {
            futex::wake(&at.word);
            return Rung::Woken;
        }
        let (table, ring) = (self.table(), ring_of(self.me, rings));
        let bound = table.bound.load(Relaxed);
        if begun.saturating_sub(table.guarded_at.load(Relaxed)) < bound {
            return Rung::Guarded;
        }
        loop {
            let sleeps = at.word.load(Acquire) == RUNG;
            if self.is_heard(place, ring) {
                at.answered.fetch_add(1, Relaxed);
                return Rung::Answered;
            }
            if !sleeps {
                return Rung::Awake;
            }
            if ticks().saturating_sub(begun) > bound {
                at.forced.fetch_add(1, Relaxed);
                futex::wake(&at.word);
                return Rung::Forced;
            }
            std::hint::spin_loop();
        }
    }

    /// The pages of best-effort applications.
    fn best_effort(&self) -> impl Iterator<Item = &Page> {
        bits(self.table().best_effort.load(Relaxed)).filter_map(|app| self.pages.get(app))
    }

    fn is_looked_at(&self, place: usize) -> bool {
        self.best_effort().any(|page| page.places[place].looking.load(Relaxed) == 1)
    }

    fn is_heard(&self, place: usize, ring: u32) -> bool {
        self.best_effort().any(|page| page.places[place].heard.load(Relaxed) == ring)
    }

    /// Of a best-effort member: whether the worker of this core looks at bells from now on, once in
    /// a microsecond or so. The caller is that worker.
    ///
    /// # Panics
    ///
    /// If there is no such core.
    #[inline]
    pub fn looks(&self, place: usize, looks: bool) {
        let looking = &self.own().places[place].looking;
        if looking.load(Relaxed) != u32::from(looks) {
            looking.store(looks.into(), Relaxed);
        }
    }

    /// Whether there is a bell that could ring.
    #[inline]
    pub fn has_bells(&self) -> bool {
        self.table().critical.load(Relaxed) != 0
    }

    /// Of a best-effort member: looks at the bells of this core and answers those that ring.
    /// Returns how many did; whoever was woken has run before it returns. The caller is the worker
    /// of this core. Makes no system call unless a bell rings.
    ///
    /// # Panics
    ///
    /// If there is no such core.
    #[inline]
    pub fn look(&self, place: usize) -> usize {
        let mut answered = 0;
        for app in bits(self.table().critical.load(Relaxed)) {
            let Some(page) = self.pages.get(app) else {
                self.let_hear();
                continue;
            };
            if page.places[place].word.load(Acquire) == RUNG && self.answer(app, page, place) {
                answered += 1;
            }
        }
        answered
    }

    /// There is an application whose page this process has not got. The thread that hears of it may
    /// be bound to this core, too, and in the same class, where it does not run by itself.
    #[cold]
    fn let_hear(&self) {
        let (now, last) = (ticks(), self.let_heard_at.load(Relaxed));
        let ticks_per_us = u64::from(self.table().ticks_per_us.load(Relaxed));
        if now.saturating_sub(last) > ticks_per_us * LET_HEAR_US {
            self.let_heard_at.store(now, Relaxed);
            rustix::thread::sched_yield();
        }
    }

    #[cold]
    fn answer(&self, app: usize, page: &Page, place: usize) -> bool {
        let at = &page.places[place];
        let ring = ring_of(app, at.rings.load(Relaxed));
        // One answer to a ring, whatever the other writes: its page is its own affair.
        if self.seen[app][place].swap(ring, Relaxed) == ring {
            return false;
        }
        let own = &self.own().places[place];
        own.heard.store(ring, Release);
        own.answered.fetch_add(1, Relaxed);
        futex::wake(&at.word);
        true
    }
}

/// The numbers of the bits that are set.
pub(crate) fn bits(mut mask: u32) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let bit = mask.trailing_zeros();
        mask &= mask.wrapping_sub(1);
        (bit < 32).then_some(bit as usize)
    })
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn bits_are_counted_from_below() {
        assert_eq!(bits(0).count(), 0);
        assert_eq!(bits(0x8000_0005).collect::<Vec<_>>(), [0, 2, 31]);
    }

    #[test]
    fn rings_are_told_apart() {
        assert_ne!(ring_of(0, 1), ring_of(1, 1));
        assert_ne!(ring_of(0, 1), ring_of(0, 2));
        assert_ne!(ring_of(0, 0), 0);
        assert_eq!(ring_of(31, 1 << 24), ring_of(31, 0));
    }
}
