//! One run: a schedule of requests, each served by a user thread of its own.
//!
//! The client is a kernel thread on a CPU of its own. For each request it starts a detached user
//! thread; that looks into the store, checks the answer, and completes the request in the recorder.
//! Latency counts from the intended send time to this moment, so it includes how late the client
//! was, the start of the thread, waiting, preemptions and service.
//!
//! When the run is over, requests that have not begun are abandoned: their threads end at once. The
//! next run starts only when all threads of this one have ended, so runs do not disturb each other.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use quaver::Handle;
use quaver_load::{
    Clock, OpenLoop, RealClock, Recorder, Request, Schedule, Sent, Summary, reduce_timer_slack,
};

use super::calibrate::Services;
use crate::affinity;
use crate::interrupt::Interrupt;
use crate::slice;
use quaver_bench_common::store::{Store, Wrong};

/// Beyond this number of requests that wait or run, more are dropped: it bounds the memory of their
/// stacks.
const MAX_OUTSTANDING: u64 = 20_000;

/// How much longer than planned the client may take, and how long it waits for the last answers.
const GRACE: Duration = Duration::from_millis(500);

/// How long abandoned threads may take to end before something must be wrong.
const PATIENCE: Duration = Duration::from_secs(30);

/// The class of GETs in schedules; the other is SCANs.
pub const GET: u32 = 0;

/// Where the client runs and how it waits.
#[derive(Clone, Copy, Debug)]
pub struct Client {
    /// Its CPU.
    pub cpu: usize,
    /// How long before a send time it stops sleeping and spins, in nanoseconds.
    pub spin_ns: u64,
}

/// What all requests of a run share.
struct Run {
    store: Arc<Store>,
    services: Services,
    recorder: Recorder,
    clock: RealClock,
    /// Nobody waits for answers any more.
    abandoned: AtomicBool,
    /// The first wrong answer.
    wrong: OnceLock<Wrong>,
}

impl Run {
    /// Serves a request; on a user thread.
    fn serve(&self, request: &Request) {
        if self.abandoned.load(Ordering::Relaxed) {
            return;
        }
        let answer = match request.class {
            GET => self.store.get(request.key_random, self.services.get_keys),
            _ => self.store.scan(request.key_random, self.services.scan_keys),
        };
        match answer {
            Ok(()) => drop(self.recorder.complete(request.id, self.clock.now_ns())),
            Err(wrong) => drop(self.wrong.set(wrong)),
        }
    }
}

/// Offers `schedule` to the runtime of `handle`. Returns when all its threads have ended, or soon
/// after `interrupt`.
///
/// # Errors
///
/// The store gave a wrong answer, the client's CPU cannot be used, or threads do not end.
pub fn serve(
    handle: Handle,
    store: &Arc<Store>,
    services: &Services,
    schedule: &Schedule,
    planned: Duration,
    client: Client,
    interrupt: &Interrupt,
) -> Result<Summary> {
    let run = Arc::new(Run {
        store: Arc::clone(store),
        services: services.clone(),
        recorder: Recorder::for_schedule(schedule)?,
        clock: RealClock::with_spin_ns(client.spin_ns),
        abandoned: AtomicBool::new(false),
        wrong: OnceLock::new(),
    });
    let offer = || -> Result<Summary> {
        if client.spin_ns > 0 {
            slice::prefer_wakers();
        }
        reduce_timer_slack().context("cannot make the client's sleeps exact")?;
        let requests = schedule
            .iter()
            .take_while(|_| interrupt.raised().is_none() && run.wrong.get().is_none());
        let outcome = OpenLoop::new(&run.recorder)
            .max_outstanding(MAX_OUTSTANDING)
            .time_limit(planned + GRACE)
            .grace(GRACE)
            .run(requests, &run.clock, |request| {
                let (run, request) = (Arc::clone(&run), *request);
                match handle.spawn_detached(move || run.serve(&request)) {
                    Ok(()) => Sent::Accepted,
                    Err(_) => Sent::Refused,
                }
            });
        run.abandoned.store(true, Ordering::Relaxed);
        Ok(outcome.summary(&run.recorder))
    };
    let offered = affinity::on_cpu("client", client.cpu, offer);
    run.abandoned.store(true, Ordering::Relaxed);

    // Each thread owns a reference until it has ended.
    let deadline = Instant::now() + PATIENCE;
    while Arc::strong_count(&run) > 1 {
        if Instant::now() > deadline {
            bail!("{} user threads did not end", Arc::strong_count(&run) - 1);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    if let Some(wrong) = run.wrong.get() {
        return Err(wrong.clone().into());
    }
    offered
}
