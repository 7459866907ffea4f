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

use anyhow::{Result, bail};
use quaver::Handle;
use quaver_bench_common::client::Answers;
pub use quaver_bench_common::client::Client;
use quaver_bench_common::store::{Store, Wrong};
use quaver_load::{Request, Schedule, Summary};

use super::calibrate::Services;
use crate::interrupt::Interrupt;
use crate::slice;

/// Beyond this number of requests that wait or run, more are dropped: it bounds the memory of their
/// stacks.
const MAX_OUTSTANDING: u64 = 20_000;

/// How much longer than planned the client may take, and how long it waits for the last answers.
const GRACE: Duration = Duration::from_millis(500);

/// How long abandoned threads may take to end before something must be wrong.
const PATIENCE: Duration = Duration::from_secs(30);

/// The class of GETs in schedules; the other is SCANs.
pub const GET: u32 = 0;

/// What all requests of a run share.
struct Run {
    store: Arc<Store>,
    services: Services,
    answers: Answers,
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
            Ok(()) => self.answers.complete(request.id),
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
        answers: client.answers(schedule)?,
        abandoned: AtomicBool::new(false),
        wrong: OnceLock::new(),
    });
    let offer = || -> Result<Summary> {
        if client.spin_ns > 0 {
            slice::prefer_wakers();
        }
        let requests = schedule
            .iter()
            .take_while(|_| interrupt.raised().is_none() && run.wrong.get().is_none());
        let limit = planned + GRACE;
        let summary = run.answers.offer(
            |open| open.max_outstanding(MAX_OUTSTANDING).time_limit(limit).grace(GRACE),
            requests,
            |request| {
                let (run, request) = (Arc::clone(&run), *request);
                handle.spawn_detached(move || run.serve(&request))
            },
        );
        run.abandoned.store(true, Ordering::Relaxed);
        Ok(summary)
    };
    let offered = client.run(offer);
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
