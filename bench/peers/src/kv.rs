//! The key-value service on kernel threads and on tokio. The store is the one that `quaver demo`
//! serves.

use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread;

use crossbeam_queue::ArrayQueue;
use quaver_bench_common::kv::{GET, Job, find_load, on_client_cpu, pin};
use quaver_bench_common::spec::KvSpec;
use quaver_bench_common::{Outcome, Sample};
use quaver_load::Sent;

use crate::tokio_tasks::Flavour;
use quaver_bench_common::store::Store;

/// How many requests can be served at once by kernel threads; more are dropped. At one request in
/// 14 µs and 95 % load a queue is rarely a tenth as long.
const KERNEL_THREADS: usize = 1024;

/// The store and the sizes of requests.
struct Service {
    store: Store,
    get_keys: usize,
    scan_keys: usize,
}

impl Service {
    fn load(spec: &KvSpec) -> Result<Arc<Self>, String> {
        let store = Store::load(spec.keys, spec.seed).map_err(|error| format!("{error:#}"))?;
        let KvSpec { get_keys, scan_keys, .. } = *spec;
        Ok(Arc::new(Self { store, get_keys, scan_keys }))
    }

    fn serve(&self, job: Job) {
        let answer = if job.class == GET {
            self.store.get(job.random, self.get_keys)
        } else {
            self.store.scan(job.random, self.scan_keys)
        };
        answer.expect("the store answers rightly");
        job.finish();
    }
}

/// Each request in a kernel thread of its own, of those that wait for one: making a thread for each
/// would take the client longer than the requests last.
pub fn kernel_threads(spec: &KvSpec) -> Outcome {
    outcome(serve_by_threads(spec))
}

fn serve_by_threads(spec: &KvSpec) -> Result<Sample, String> {
    // Threads run where the one runs that makes them.
    pin(spec.worker_cpu)?;
    let service = Service::load(spec)?;
    let idle = Arc::new(ArrayQueue::new(KERNEL_THREADS));
    let threads = (0..KERNEL_THREADS)
        .map(|me| serving_thread(me, Arc::clone(&service), Arc::clone(&idle)))
        .collect::<Result<Vec<Sender<Job>>, String>>()?;
    let sample = on_client_cpu(spec, || {
        find_load(spec, |load| {
            Ok(load.offer(|job| match idle.pop() {
                Some(thread) => threads[thread].send(job).into(),
                None => Sent::Refused,
            }))
        })
    })?;
    Ok(sample.note(format!("each request wakes one of {KERNEL_THREADS} kernel threads that wait")))
}

fn serving_thread(
    me: usize,
    service: Arc<Service>,
    idle: Arc<ArrayQueue<usize>>,
) -> Result<Sender<Job>, String> {
    let (jobs, inbox) = channel();
    let serve = move || {
        // The queue has room for every thread, and each is in it once.
        while idle.push(me).is_ok() {
            match inbox.recv() {
                Ok(job) => service.serve(job),
                Err(_) => return,
            }
        }
    };
    let started = thread::Builder::new().spawn(serve);
    started.map_err(|error| format!("cannot start thread {me}: {error}"))?;
    Ok(jobs)
}

/// Each request in a task of its own.
pub fn tokio_tasks(flavour: Flavour, spec: &KvSpec) -> Outcome {
    outcome(serve_by_tasks(flavour, spec))
}

fn serve_by_tasks(flavour: Flavour, spec: &KvSpec) -> Result<Sample, String> {
    pin(spec.worker_cpu)?;
    let service = Service::load(spec)?;
    let runtime = flavour.build(1);
    let handle = runtime.handle().clone();
    let (done, wait) = tokio::sync::oneshot::channel();
    thread::scope(|scope| {
        scope.spawn(|| {
            let found = on_client_cpu(spec, || {
                find_load(spec, |load| {
                    Ok(load.offer(|job| {
                        let service = Arc::clone(&service);
                        handle.spawn(async move { service.serve(job) });
                        Sent::Accepted
                    }))
                })
            });
            // The receiver waits below for as long as this runs.
            let _ = done.send(found);
        });
        // Tasks of the current-thread flavour run here.
        runtime.block_on(wait).map_err(|_| "the client went away".to_owned())?
    })
}

fn outcome(result: Result<Sample, String>) -> Outcome {
    result.map_or_else(Outcome::failed, Outcome::from)
}
