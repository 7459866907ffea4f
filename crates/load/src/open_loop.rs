//! The open loop: sends every request at its time, whatever became of the earlier ones.
//!
//! For each request, in order:
//!
//! 1. If the time limit has come, or lies before its intended time, it and all that follow are
//!    *unsent*.
//! 2. Wait for its intended time. If that has passed already (the sending function took long, or
//!    this thread did not run) there is no wait: the request goes out late, and its latency counts
//!    from the intended time all the same.
//! 3. Record how late it is.
//! 4. If too many requests are outstanding, or the recorder has no slot for it, it is *dropped*.
//! 5. Mark its slot outstanding and call the sending function. If that refuses, it is *dropped*
//!    too.
//!
//! After the last request the loop waits for outstanding ones, for as long as the grace period at
//! most. What has not completed by then is *unfinished*. Responses have no other influence on the
//! loop.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::clock::Clock;
use crate::distribution::Values;
use crate::recorder::Recorder;
use crate::schedule::{Request, saturating_ns};
use crate::summary::{GeneratorSummary, Summary};

/// How often the loop looks for the last completions, in nanoseconds.
const GRACE_STEP_NS: u64 = 200_000;

/// The answer of the function that sends a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// It is on its way (or served already).
    Accepted,
    /// It could not be sent and never will be: the request counts as dropped.
    Refused,
}

impl<E> From<Result<(), E>> for Sent {
    fn from(sent: Result<(), E>) -> Self {
        if sent.is_ok() { Sent::Accepted } else { Sent::Refused }
    }
}

/// Why requests were dropped, without those of the warm-up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Drops {
    /// As many as allowed were outstanding.
    pub outstanding: u64,
    /// The sending function refused.
    pub refused: u64,
    /// The recorder had no slot.
    pub no_slot: u64,
}

/// The open loop, with its limits.
#[derive(Clone)]
pub struct OpenLoop<'a> {
    recorder: &'a Recorder,
    max_outstanding: u64,
    time_limit_ns: u64,
    grace_ns: u64,
}

/// What the loop knows at its end; the rest is in the recorder.
pub struct Outcome {
    lateness: Values,
    drops: Drops,
    start_ns: u64,
    sent_all_ns: u64,
    end_ns: u64,
}

impl<'a> OpenLoop<'a> {
    /// A loop that records in `recorder`, without limits, and waits up to a second for the last
    /// completions.
    pub fn new(recorder: &'a Recorder) -> Self {
        Self {
            recorder,
            max_outstanding: u64::MAX,
            time_limit_ns: u64::MAX,
            grace_ns: 1_000_000_000,
        }
    }

    /// While this many requests are outstanding, those that come due are dropped.
    #[must_use]
    pub fn max_outstanding(mut self, requests: u64) -> Self {
        self.max_outstanding = requests;
        self
    }

    /// Requests that are not sent within this time from the start of the run are unsent.
    #[must_use]
    pub fn time_limit(mut self, span: Duration) -> Self {
        self.time_limit_ns = saturating_ns(span);
        self
    }

    /// How long to wait for outstanding requests after the last send.
    #[must_use]
    pub fn grace(mut self, span: Duration) -> Self {
        self.grace_ns = saturating_ns(span);
        self
    }

    /// Sends the requests; returns when all have completed or the grace period is over.
    ///
    /// Intended times count from the moment of this call. The request that `send` gets has its
    /// intended time in the time of the clock. `send` should return quickly; while it runs no other
    /// request can go out. It, or whoever serves the request, calls [`Recorder::complete`] with the
    /// number of the request and the time of the clock.
    ///
    /// Waits on the clock, so with a [`RealClock`](crate::RealClock) it blocks in the kernel: run
    /// it on a kernel thread of its own.
    ///
    /// # Panics
    ///
    /// When the recorder has been used before, or does not know the class of a request.
    pub fn run<C: Clock>(
        &self,
        requests: impl IntoIterator<Item = Request>,
        clock: &C,
        mut send: impl FnMut(&Request) -> Sent,
    ) -> Outcome {
        let mut lateness = Values::preallocated();
        let mut drops = Drops::default();
        let mut admission = Admission::new(self.recorder, self.max_outstanding);
        let start_ns = clock.now_ns();
        let limit_ns = start_ns.saturating_add(self.time_limit_ns);
        let mut over = false;

        for mut request in requests {
            request.intended_ns = request.intended_ns.saturating_add(start_ns);
            over = over || request.intended_ns >= limit_ns;
            let mut now = clock.now_ns();
            if !over && now < request.intended_ns {
                clock.wait_until(request.intended_ns);
                now = clock.now_ns();
            }
            over = over || now >= limit_ns;
            if over {
                self.recorder.unsent(&request);
                continue;
            }
            let counts = u64::from(!request.warm_up);
            if counts == 1 {
                lateness.record(now.saturating_sub(request.intended_ns));
            }
            if !admission.admits() {
                self.recorder.dropped(&request);
                drops.outstanding += counts;
            } else if !self.recorder.sent(&request) {
                drops.no_slot += counts;
            } else if send(&request) == Sent::Refused && self.recorder.refused(request.id) {
                drops.refused += counts;
            } else {
                admission.sent += 1;
            }
        }

        let sent_all_ns = clock.now_ns();
        let end_ns = self.wait_for_the_last(clock, sent_all_ns);
        Outcome { lateness, drops, start_ns, sent_all_ns, end_ns }
    }

    fn wait_for_the_last(&self, clock: &impl Clock, from_ns: u64) -> u64 {
        let until = from_ns.saturating_add(self.grace_ns);
        loop {
            let now = clock.now_ns();
            if self.recorder.outstanding() == 0 || now >= until {
                return now;
            }
            clock.wait_until(until.min(now.saturating_add(GRACE_STEP_NS)));
        }
    }
}

/// The limit on outstanding requests. The recorder's count is read only when it could matter: it
/// lies in cache lines that the handlers write.
struct Admission<'a> {
    recorder: &'a Recorder,
    limit: u64,
    /// Requests sent, less those known to have completed: never fewer than are outstanding.
    sent: u64,
}

impl<'a> Admission<'a> {
    fn new(recorder: &'a Recorder, limit: u64) -> Self {
        Self { recorder, limit, sent: recorder.outstanding() }
    }

    fn admits(&mut self) -> bool {
        if self.sent >= self.limit {
            self.sent = self.recorder.outstanding();
        }
        self.sent < self.limit
    }
}

impl Outcome {
    /// The results, with those of the generator.
    pub fn summary(&self, recorder: &Recorder) -> Summary {
        let mut summary = recorder.summary(self.end_ns);
        summary.generator = Some(GeneratorSummary {
            lateness_ns: self.lateness.distribution(),
            drops: self.drops,
            start_ns: self.start_ns,
            sent_all_ns: self.sent_all_ns,
            end_ns: self.end_ns,
        });
        summary
    }

    /// Actual minus intended send times in nanoseconds, of all requests that came to be sent or
    /// dropped, without the warm-up.
    pub fn lateness(&self) -> &Histogram<u64> {
        self.lateness.histogram()
    }

    /// Why requests were dropped.
    pub fn drops(&self) -> Drops {
        self.drops
    }

    /// When the run ended, in nanoseconds of the clock.
    pub fn end_ns(&self) -> u64 {
        self.end_ns
    }
}
