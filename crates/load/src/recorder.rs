//! What became of every request.

use std::collections::TryReserveError;
use std::sync::atomic::{AtomicU64, Ordering};

use hdrhistogram::Histogram;

use crate::distribution;
use crate::schedule::{Request, Schedule};
use crate::slots::{Completed, Label, Opening, Slots, State};
use crate::summary::Summary;

/// Records the fate of each request of one run.
///
/// It has a slot of 32 bytes for each request, made and written in advance. Any thread may complete
/// requests: [`complete`](Self::complete) is wait-free, enters no kernel, allocates nothing, and
/// does no harm when its thread is preempted within it. The rest is called by whoever sends:
/// [`OpenLoop`](crate::OpenLoop), or a generator of one's own.
///
/// A recorder serves one run.
pub struct Recorder {
    classes: Box<[String]>,
    slots: Slots,
    /// Dropped and unsent requests for which there was no slot, for each class.
    without_slot: Box<[WithoutSlot]>,
    stray: AtomicU64,
}

#[derive(Default)]
struct WithoutSlot {
    dropped: AtomicU64,
    unsent: AtomicU64,
    /// How many of both have a known service time.
    timed: AtomicU64,
}

/// The values of [`WithoutSlot`].
pub(crate) struct WithoutSlotCounts {
    pub(crate) dropped: u64,
    pub(crate) unsent: u64,
    pub(crate) timed: u64,
}

/// Why there is no recorder.
#[derive(Debug, thiserror::Error)]
pub enum RecorderError {
    /// The slots do not fit into memory.
    #[error(
        "cannot reserve 32 bytes for each of {requests} requests: {source}; lower the rate or the \
         duration"
    )]
    TooLarge {
        /// The requests.
        requests: u64,
        /// The error of the allocator.
        source: TryReserveError,
    },
}

/// The answer to [`Recorder::complete`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completion {
    /// The completion is recorded.
    Recorded,
    /// The request had been completed before; the first time stays.
    Duplicate,
    /// No such request is outstanding.
    Unknown,
}

/// What has become of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It was sent and completed.
    Completed {
        /// When, in nanoseconds of the clock.
        at_ns: u64,
    },
    /// It was sent and has not completed.
    Unfinished,
    /// It was due and not sent, because too many were outstanding, or the sending function refused
    /// it.
    Dropped,
    /// The time limit came before it could be sent.
    Unsent,
}

/// A request and its fate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// The number of the request.
    pub id: u64,
    /// The index of its class.
    pub class: u32,
    /// When it should have been sent, in nanoseconds of the clock.
    pub intended_ns: u64,
    /// How long it takes to serve, in nanoseconds; 0 when unknown.
    pub service_ns: u64,
    /// Belongs to the warm-up.
    pub warm_up: bool,
    /// What has become of it.
    pub fate: Fate,
}

impl Sample {
    /// The latency in nanoseconds: completion minus intended send time. `None` when it has not
    /// completed.
    pub fn latency_ns(&self) -> Option<u64> {
        match self.fate {
            Fate::Completed { at_ns } => Some(at_ns.saturating_sub(self.intended_ns)),
            _ => None,
        }
    }
}

impl Recorder {
    /// A recorder for requests of these classes, numbered below `capacity`.
    ///
    /// # Errors
    ///
    /// When the memory cannot be reserved. (Where the kernel promises more than it has, a recorder
    /// that is too large is killed while being made.)
    pub fn new<C: Into<String>>(
        classes: impl IntoIterator<Item = C>,
        capacity: usize,
    ) -> Result<Self, RecorderError> {
        let classes: Box<[String]> = classes.into_iter().map(Into::into).collect();
        let slots = Slots::new(capacity)
            .map_err(|source| RecorderError::TooLarge { requests: capacity as u64, source })?;
        let without_slot = classes.iter().map(|_| WithoutSlot::default()).collect();
        Ok(Self { classes, slots, without_slot, stray: AtomicU64::new(0) })
    }

    /// A recorder that has a slot for each request of `schedule`.
    ///
    /// # Errors
    ///
    /// As for [`new`](Self::new).
    pub fn for_schedule(schedule: &Schedule) -> Result<Self, RecorderError> {
        let requests = usize::try_from(schedule.count()).unwrap_or(usize::MAX);
        Self::new(schedule.classes().iter().cloned(), requests)
    }

    /// The names of the classes.
    pub fn classes(&self) -> &[String] {
        &self.classes
    }

    /// How many requests it has slots for.
    pub fn capacity(&self) -> usize {
        self.slots.capacity()
    }

    /// Completes a request at `now_ns`, a time of the clock that it was sent by. Wait-free; from
    /// any thread.
    ///
    /// Completions of requests that are not outstanding change nothing and are counted as stray.
    pub fn complete(&self, id: u64, now_ns: u64) -> Completion {
        let completion = match self.slots.complete(id, now_ns) {
            Completed::Now => return Completion::Recorded,
            Completed::Before => Completion::Duplicate,
            Completed::NotOutstanding => Completion::Unknown,
        };
        self.stray.fetch_add(1, Ordering::Relaxed);
        completion
    }

    /// Notes that a request is about to be sent; to be called before it is, so that it cannot
    /// complete earlier. `false` when there is no slot for it: it must not be sent then, and is
    /// counted as dropped.
    ///
    /// # Panics
    ///
    /// When the number has been used before, or there is no such class.
    pub fn sent(&self, request: &Request) -> bool {
        let has_slot = self.open(request, Opening::Outstanding);
        if !has_slot {
            self.count_without_slot(request, |counts| &counts.dropped);
        }
        has_slot
    }

    /// Takes back that a request was sent: the send failed, and it counts as dropped. `false` when
    /// it is not outstanding, because it has completed nevertheless.
    pub fn refused(&self, id: u64) -> bool {
        self.slots.refuse(id)
    }

    /// Notes that a request was due and not sent.
    ///
    /// # Panics
    ///
    /// As for [`sent`](Self::sent).
    pub fn dropped(&self, request: &Request) {
        if !self.open(request, Opening::Dropped) {
            self.count_without_slot(request, |counts| &counts.dropped);
        }
    }

    /// Notes that the run ended before a request was sent.
    ///
    /// # Panics
    ///
    /// As for [`sent`](Self::sent).
    pub fn unsent(&self, request: &Request) {
        if !self.open(request, Opening::Unsent) {
            self.count_without_slot(request, |counts| &counts.unsent);
        }
    }

    /// How many requests, also of the warm-up, are sent and not completed; perhaps a few too many
    /// while others complete some, never too few on the sending thread.
    pub fn outstanding(&self) -> u64 {
        self.slots.outstanding()
    }

    /// The requests so far, also those of the warm-up, in the order of their numbers. Requests
    /// without a slot are not among them.
    pub fn samples(&self) -> impl Iterator<Item = Sample> + '_ {
        (0..self.slots.capacity() as u64).filter_map(|id| {
            let (label, state) = self.slots.get(id)?;
            let Label { intended_ns, service_ns, class, warm_up } = label;
            let fate = match state {
                State::Completed { at_ns } => Fate::Completed { at_ns },
                State::Outstanding => Fate::Unfinished,
                State::Dropped => Fate::Dropped,
                State::Unsent => Fate::Unsent,
            };
            Some(Sample { id, class, intended_ns, service_ns, warm_up, fate })
        })
    }

    /// The latencies of the *completed* requests of a class, or of all, in nanoseconds, without the
    /// warm-up.
    ///
    /// For merging and plotting. Percentiles of it are those of the survivors; the honest ones are
    /// in the [`Summary`].
    pub fn completed_latencies(&self, class: Option<u32>) -> Histogram<u64> {
        let mut histogram = distribution::empty_histogram();
        for sample in self.samples() {
            let wanted = !sample.warm_up && class.is_none_or(|class| class == sample.class);
            if let (true, Some(latency)) = (wanted, sample.latency_ns()) {
                distribution::record(&mut histogram, latency);
            }
        }
        histogram
    }

    /// The results, if the run ended at `end_ns` of the clock; [`Summary`] says how they are
    /// computed.
    ///
    /// Requests that complete while it is made may be counted as completed or not. Allocates; takes
    /// up to some 100 ns a request.
    pub fn summary(&self, end_ns: u64) -> Summary {
        Summary::of(self, end_ns)
    }

    /// Completions of requests that were not outstanding.
    pub(crate) fn stray(&self) -> u64 {
        self.stray.load(Ordering::Relaxed)
    }

    /// Dropped and unsent requests of a class that had no slot.
    pub(crate) fn without_slot(&self, class: usize) -> WithoutSlotCounts {
        let WithoutSlot { dropped, unsent, timed } = &self.without_slot[class];
        WithoutSlotCounts {
            dropped: dropped.load(Ordering::Relaxed),
            unsent: unsent.load(Ordering::Relaxed),
            timed: timed.load(Ordering::Relaxed),
        }
    }

    fn open(&self, request: &Request, opening: Opening) -> bool {
        let &Request { id, intended_ns, class, service_ns, warm_up, .. } = request;
        assert!((class as usize) < self.classes.len(), "request {id} has no known class: {class}");
        self.slots.open(id, Label { intended_ns, service_ns, class, warm_up }, opening)
    }

    fn count_without_slot(&self, request: &Request, which: impl Fn(&WithoutSlot) -> &AtomicU64) {
        if !request.warm_up {
            let counts = &self.without_slot[request.class as usize];
            which(counts).fetch_add(1, Ordering::Relaxed);
            counts.timed.fetch_add(u64::from(request.service_ns > 0), Ordering::Relaxed);
        }
    }
}
