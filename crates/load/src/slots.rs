//! One slot for each request: the place where generator and handlers meet.
//!
//! # Why slots
//!
//! Handlers run on preemptible user threads, so completing a request must neither wait nor leave
//! something half done that others wait for. Shared histograms (an atomic counter for each bucket)
//! would do that in constant memory, but every completion would fight for the few hot buckets, and
//! the histogram cannot tell which requests are missing. With a slot for each request a completion
//! is one compare-and-swap on a line that hardly anybody else touches, the recording is exact, and
//! what has not finished is simply still there at the end. The price is 32 bytes a request. They
//! are written once when made, so that no completion takes a page fault.
//!
//! # Protocol
//!
//! The state of a slot is one word: a completion time, or one of four values above all times.
//!
//! ```text
//!            open                complete (handler, any thread)
//!   EMPTY ---------> OUTSTANDING -----------------------------> completion time
//!     |                   |
//!     | open              | refuse (generator: the send failed after all)
//!     +----> UNSENT       v
//!     +--------------> DROPPED
//! ```
//!
//! * Only the generator opens a slot; it writes what the request is before the state (release).
//! * Both ways out of OUTSTANDING are compare-and-swaps, so exactly one wins and is counted.
//! * A completion is counted after the state has changed (release). Whoever sees no request
//!   outstanding (acquire) therefore sees every completion time. A handler preempted between the
//!   two leaves the count one too low until it goes on: for that long a request too many seems
//!   outstanding, which is the harmless side.
//! * The count is spread over several lines by request number; the generator adds them up only when
//!   it must know.

#[cfg(loom)]
use loom::sync::atomic::{AtomicU64, Ordering};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU64, Ordering};

use std::collections::TryReserveError;

const EMPTY: u64 = u64::MAX;
const OUTSTANDING: u64 = u64::MAX - 1;
const DROPPED: u64 = u64::MAX - 2;
const UNSENT: u64 = u64::MAX - 3;
/// The latest completion time that can be told from a state.
const LATEST: u64 = u64::MAX - 4;

/// Lines over which the count of completions is spread.
const COUNTERS: u64 = 8;

/// What a slot is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Opening {
    Outstanding,
    Dropped,
    Unsent,
}

/// What has become of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Outstanding,
    Completed { at_ns: u64 },
    Dropped,
    Unsent,
}

/// What a request was when its slot was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Label {
    pub(crate) intended_ns: u64,
    pub(crate) service_ns: u64,
    pub(crate) class: u32,
    pub(crate) warm_up: bool,
}

/// The answer to a completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Completed {
    Now,
    Before,
    NotOutstanding,
}

pub(crate) struct Slots {
    slots: Box<[Slot]>,
    opened: Line,
    closed: [Line; COUNTERS as usize],
}

/// Two to a cache line, none across.
#[repr(align(32))]
struct Slot {
    state: AtomicU64,
    intended_ns: AtomicU64,
    service_ns: AtomicU64,
    /// The class, and above it whether it is warm-up.
    class: AtomicU64,
}

/// A counter that shares its cache line, and the neighbour that the processor fetches with it, with
/// nothing.
#[repr(align(128))]
struct Line(AtomicU64);

impl Line {
    fn new() -> Self {
        Self(AtomicU64::new(0))
    }
}

impl Slots {
    pub(crate) fn new(capacity: usize) -> Result<Self, TryReserveError> {
        let mut slots = Vec::new();
        slots.try_reserve_exact(capacity)?;
        slots.extend((0..capacity).map(|_| Slot {
            state: AtomicU64::new(EMPTY),
            intended_ns: AtomicU64::new(0),
            service_ns: AtomicU64::new(0),
            class: AtomicU64::new(0),
        }));
        let closed = std::array::from_fn(|_| Line::new());
        Ok(Self { slots: slots.into_boxed_slice(), opened: Line::new(), closed })
    }

    pub(crate) fn capacity(&self) -> usize {
        self.slots.len()
    }

    /// Opens a slot. `false` when there is no slot of this number.
    ///
    /// # Panics
    ///
    /// When the slot has been opened before.
    pub(crate) fn open(&self, id: u64, label: Label, opening: Opening) -> bool {
        let Some(slot) = self.slot(id) else {
            return false;
        };
        let state = slot.state.load(Ordering::Relaxed);
        assert!(state == EMPTY, "request number {id} is used twice in one recorder");
        slot.intended_ns.store(label.intended_ns, Ordering::Relaxed);
        slot.service_ns.store(label.service_ns, Ordering::Relaxed);
        let class = u64::from(label.class) | u64::from(label.warm_up) << 32;
        slot.class.store(class, Ordering::Relaxed);
        let state = match opening {
            Opening::Outstanding => {
                self.opened.0.fetch_add(1, Ordering::Relaxed);
                OUTSTANDING
            }
            Opening::Dropped => DROPPED,
            Opening::Unsent => UNSENT,
        };
        slot.state.store(state, Ordering::Release);
        true
    }

    /// Completes an outstanding request. Wait-free.
    pub(crate) fn complete(&self, id: u64, at_ns: u64) -> Completed {
        match self.close(id, at_ns.min(LATEST)) {
            Ok(()) => Completed::Now,
            Err(Some(state)) if state <= LATEST => Completed::Before,
            Err(_) => Completed::NotOutstanding,
        }
    }

    /// Turns an outstanding request into a dropped one. `false` when it is not outstanding.
    pub(crate) fn refuse(&self, id: u64) -> bool {
        self.close(id, DROPPED).is_ok()
    }

    /// How many requests are outstanding; perhaps too many while handlers complete some, never too
    /// few on the thread that opens slots.
    pub(crate) fn outstanding(&self) -> u64 {
        let closed: u64 = self.closed.iter().map(|line| line.0.load(Ordering::Acquire)).sum();
        self.opened.0.load(Ordering::Relaxed).saturating_sub(closed)
    }

    /// What the slot holds; `None` when it has not been opened or does not exist.
    pub(crate) fn get(&self, id: u64) -> Option<(Label, State)> {
        let slot = self.slot(id)?;
        let state = match slot.state.load(Ordering::Acquire) {
            EMPTY => return None,
            OUTSTANDING => State::Outstanding,
            DROPPED => State::Dropped,
            UNSENT => State::Unsent,
            at_ns => State::Completed { at_ns },
        };
        let class = slot.class.load(Ordering::Relaxed);
        let label = Label {
            intended_ns: slot.intended_ns.load(Ordering::Relaxed),
            service_ns: slot.service_ns.load(Ordering::Relaxed),
            class: class as u32,
            warm_up: class >> 32 != 0,
        };
        Some((label, state))
    }

    fn slot(&self, id: u64) -> Option<&Slot> {
        self.slots.get(usize::try_from(id).ok()?)
    }

    /// From OUTSTANDING to `state`, or the state that it has instead, if there is such a slot.
    fn close(&self, id: u64, state: u64) -> Result<(), Option<u64>> {
        let slot = self.slot(id).ok_or(None)?;
        slot.state
            .compare_exchange(OUTSTANDING, state, Ordering::Relaxed, Ordering::Relaxed)
            .map_err(Some)?;
        self.closed[(id % COUNTERS) as usize].0.fetch_add(1, Ordering::Release);
        Ok(())
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const LABEL: Label = Label { intended_ns: 1, service_ns: 2, class: u32::MAX, warm_up: true };

    #[test]
    fn a_slot_goes_through_its_states() {
        let slots = Slots::new(4).unwrap();
        assert_eq!(slots.get(0), None);
        assert_eq!(slots.complete(0, 5), Completed::NotOutstanding);
        assert!(slots.open(0, LABEL, Opening::Outstanding));
        assert_eq!(slots.get(0), Some((LABEL, State::Outstanding)));
        assert_eq!(slots.outstanding(), 1);
        assert_eq!(slots.complete(0, 5), Completed::Now);
        assert_eq!(slots.complete(0, 6), Completed::Before);
        assert!(!slots.refuse(0));
        assert_eq!(slots.get(0), Some((LABEL, State::Completed { at_ns: 5 })));
        assert_eq!(slots.outstanding(), 0);

        let other = Label { class: 0, warm_up: false, ..LABEL };
        assert!(slots.open(1, other, Opening::Outstanding));
        assert!(slots.refuse(1));
        assert_eq!(slots.get(1), Some((other, State::Dropped)));
        assert_eq!(slots.outstanding(), 0);
        assert!(slots.open(2, other, Opening::Unsent));
        assert_eq!(slots.complete(2, 9), Completed::NotOutstanding);
        assert!(slots.open(3, other, Opening::Outstanding));
        assert_eq!(slots.complete(3, u64::MAX), Completed::Now);
        assert_eq!(slots.get(3), Some((other, State::Completed { at_ns: LATEST })));
    }

    #[test]
    fn numbers_beyond_the_slots_do_no_harm() {
        let slots = Slots::new(1).unwrap();
        for id in [1, u64::MAX] {
            assert!(!slots.open(id, LABEL, Opening::Outstanding));
            assert_eq!(slots.complete(id, 1), Completed::NotOutstanding);
            assert!(!slots.refuse(id));
            assert_eq!(slots.get(id), None);
        }
        assert!(Slots::new(usize::MAX).is_err());
    }

    #[test]
    #[should_panic(expected = "used twice")]
    fn a_number_is_used_once() {
        let slots = Slots::new(1).unwrap();
        slots.open(0, LABEL, Opening::Outstanding);
        slots.open(0, LABEL, Opening::Outstanding);
    }

    #[test]
    fn a_slot_is_32_bytes() {
        assert_eq!((size_of::<Slot>(), align_of::<Slot>()), (32, 32));
    }
}

#[cfg(all(test, loom))]
mod models {
    use super::*;
    use loom::sync::Arc;
    use loom::thread;

    const LABEL: Label = Label { intended_ns: 3, service_ns: 4, class: 5, warm_up: false };

    /// Two handlers complete the same request while the generator takes it back: one of the three
    /// wins, one is counted.
    #[test]
    fn one_way_out_wins() {
        loom::model(|| {
            let slots = Arc::new(Slots::new(1).unwrap());
            slots.open(0, LABEL, Opening::Outstanding);
            let handlers = [7, 8].map(|at_ns| {
                let slots = Arc::clone(&slots);
                thread::spawn(move || slots.complete(0, at_ns) == Completed::Now)
            });
            let refused = slots.refuse(0);
            let completed = handlers.map(|handler| handler.join().unwrap());
            let wins = completed.iter().filter(|&&won| won).count() + usize::from(refused);
            assert_eq!(wins, 1);
            assert_eq!(slots.outstanding(), 0);
            let state = match completed {
                [true, _] => State::Completed { at_ns: 7 },
                [_, true] => State::Completed { at_ns: 8 },
                _ => State::Dropped,
            };
            assert_eq!(slots.get(0), Some((LABEL, state)));
        });
    }

    /// Who sees nothing outstanding sees all completion times, without having joined the handlers.
    #[test]
    fn nothing_outstanding_means_all_times_are_there() {
        loom::model(|| {
            let slots = Arc::new(Slots::new(2).unwrap());
            slots.open(0, LABEL, Opening::Outstanding);
            slots.open(1, LABEL, Opening::Outstanding);
            for id in 0..2 {
                let slots = Arc::clone(&slots);
                thread::spawn(move || slots.complete(id, 9));
            }
            if slots.outstanding() == 0 {
                for id in 0..2 {
                    assert_eq!(slots.get(id), Some((LABEL, State::Completed { at_ns: 9 })));
                }
            }
        });
    }

    /// A third party that reads while the generator opens and a handler completes sees the label
    /// that belongs to it.
    #[test]
    fn a_state_comes_with_its_label() {
        loom::model(|| {
            let slots = Arc::new(Slots::new(1).unwrap());
            let generator = {
                let slots = Arc::clone(&slots);
                thread::spawn(move || slots.open(0, LABEL, Opening::Outstanding))
            };
            let handler = {
                let slots = Arc::clone(&slots);
                thread::spawn(move || slots.complete(0, 9))
            };
            if let Some((label, _)) = slots.get(0) {
                assert_eq!(label, LABEL);
            }
            generator.join().unwrap();
            handler.join().unwrap();
        });
    }
}
