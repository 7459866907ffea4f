//! The client of every server that is measured: an open loop on a kernel thread of its own.

use std::sync::Arc;

use anyhow::{Context as _, Result};
use quaver_load::{
    Clock, OpenLoop, RealClock, Recorder, Request, Schedule, Sent, Summary, reduce_timer_slack,
};

use crate::affinity;

/// Where the client runs and how it waits.
#[derive(Clone, Copy, Debug)]
pub struct Client {
    /// Its CPU, which it should have for itself.
    pub cpu: usize,
    /// How long before a send time it stops sleeping and spins, in nanoseconds.
    pub spin_ns: u64,
}

impl Client {
    /// Runs `work` on the client's kernel thread, and waits for it.
    ///
    /// # Errors
    ///
    /// The CPU cannot be used, the thread cannot be started, or those of `work`.
    ///
    /// # Panics
    ///
    /// When `work` does.
    pub fn run<T: Send>(self, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
        affinity::on_cpu("client", self.cpu, || {
            reduce_timer_slack().context("cannot make the client's sleeps exact")?;
            work()
        })
    }

    /// A place for the answers to the requests of `schedule`.
    ///
    /// # Errors
    ///
    /// There is not enough memory for so many.
    pub fn answers(self, schedule: &Schedule) -> Result<Answers> {
        let recorder = Arc::new(Recorder::for_schedule(schedule)?);
        Ok(Answers { recorder, clock: RealClock::with_spin_ns(self.spin_ns) })
    }
}

/// What client and server share of a run: when each request was answered, and the clock that says
/// it.
#[derive(Clone)]
pub struct Answers {
    recorder: Arc<Recorder>,
    clock: RealClock,
}

impl Answers {
    /// The request of this number has been served. On any thread.
    pub fn complete(&self, id: u64) {
        // It comes too late if the client waits no longer.
        let _ = self.recorder.complete(id, self.clock.now_ns());
    }

    /// What has been written down.
    pub fn recorder(&self) -> &Recorder {
        &self.recorder
    }

    /// The clock of the run.
    pub fn clock(&self) -> &RealClock {
        &self.clock
    }

    /// Offers the requests from the calling thread, which should be the client's: `send` gives one
    /// to a thread that serves it. `limits` are those of the loop.
    pub fn offer<S: Into<Sent>>(
        &self,
        limits: impl for<'a> FnOnce(OpenLoop<'a>) -> OpenLoop<'a>,
        requests: impl IntoIterator<Item = Request>,
        send: impl FnMut(&Request) -> S,
    ) -> Summary {
        offer_by(&self.clock, &self.recorder, limits, requests, send)
    }
}

/// Offers the requests by any clock: to a server in another process, or a simulated one.
pub fn offer_by<S: Into<Sent>>(
    clock: &impl Clock,
    recorder: &Recorder,
    limits: impl for<'a> FnOnce(OpenLoop<'a>) -> OpenLoop<'a>,
    requests: impl IntoIterator<Item = Request>,
    mut send: impl FnMut(&Request) -> S,
) -> Summary {
    let open_loop = limits(OpenLoop::new(recorder));
    open_loop.run(requests, clock, |request| send(request).into()).summary(recorder)
}
