//! What came of a run: the books that are kept, and the outcome made of them.

use quaver_sched::Task;

use super::Engine;
use super::worker::Worker;
use crate::job::Kind;
use crate::outcome::{ClassOutcome, Counts, Outcome, Recorder, WorkerUse};
use crate::timeline::Timeline;

/// What is written down while it runs.
pub(super) struct Books {
    rate: f64,
    /// The rate as a share of what keeps all workers busy.
    load: f64,
    /// How many requests at the beginning are not counted.
    warm_up: u64,
    /// What network and client add to each latency.
    network: u64,
    classes: Vec<Class>,
    total: Class,
    pub(super) counts: Counts,
    /// There are more tasks than the simulator can have.
    pub(super) overrun: bool,
    /// Service times of the requests that have come, and of those that are not over.
    work: u64,
    work_left: u64,
    longest: u64,
    /// When the last request came, and what was done, left and spent by then.
    last_arrival: u64,
    completed_by_last: u64,
    backlog: u64,
    work_late: u64,
    best_effort_time: u64,
    pub(super) timeline: Timeline,
}

/// The requests of one class.
struct Class {
    name: String,
    latency: Recorder,
    slowdown: Recorder,
}

impl Class {
    fn new(name: &str) -> Self {
        Class { name: name.into(), latency: Recorder::new(1e3), slowdown: Recorder::new(1e3) }
    }

    fn record(&mut self, latency: u64, service: u64) {
        self.latency.record(latency);
        self.slowdown.record((latency as f64 * 1e3 / service as f64) as u64);
    }

    fn outcome(&self) -> ClassOutcome {
        ClassOutcome {
            name: self.name.clone(),
            completed: self.latency.count(),
            latency_us: self.latency.latency(),
            slowdown: self.slowdown.latency(),
        }
    }
}

impl Books {
    pub(super) fn new(
        classes: Vec<String>,
        rate: f64,
        load: f64,
        warm_up: u64,
        network: Option<u64>,
    ) -> Self {
        let mut names = classes.clone();
        names.push("best-effort".into());
        Books {
            rate,
            load,
            warm_up,
            network: network.unwrap_or(0),
            classes: classes.iter().map(|name| Class::new(name)).collect(),
            total: Class::new("all"),
            counts: Counts::default(),
            overrun: false,
            work: 0,
            work_left: 0,
            longest: 0,
            last_arrival: 0,
            completed_by_last: 0,
            backlog: 0,
            work_late: 0,
            best_effort_time: 0,
            timeline: Timeline { classes: names, spans: Vec::new() },
        }
    }

    /// The class of best-effort threads, which have no outcome.
    pub(super) fn best_effort_class(&self) -> u32 {
        self.classes.len() as u32
    }

    /// A request comes; is it counted?
    pub(super) fn arrives(&mut self, service: u64) -> bool {
        self.counts.arrived += 1;
        self.work += service;
        self.work_left += service;
        self.longest = self.longest.max(service);
        self.counts.arrived > self.warm_up
    }

    /// Are enough requests over that the next ones are counted?
    pub(super) fn is_warm(&self) -> bool {
        self.counts.completed >= self.warm_up
    }

    /// A request of the class is over.
    pub(super) fn record(&mut self, class: usize, latency: u64, service: u64) {
        self.classes[class].record(latency, service);
        self.total.record(latency, service);
    }

    /// A time of that kind, which is no request.
    pub(super) fn record_time(&mut self, class: usize, time: u64) {
        self.classes[class].latency.record(time);
    }
}

impl Engine<'_> {
    /// The running task has run for its time, and was taken off the worker's books.
    pub(super) fn complete(&mut self, worker: usize, task: u32) {
        let job = &self.jobs[task];
        let (class, service, port) = (job.class as usize, job.service, job.port);
        let latency = self.now - job.arrived + self.books.network;
        match job.kind {
            Kind::Request => {
                assert!(latency >= service, "a request ended before its service time was over");
                self.books.counts.completed += 1;
                self.books.work_left -= service;
                if job.counted {
                    self.books.record(class, latency, service);
                }
                self.policy.task_terminate(Task(task), self.now);
                self.jobs.remove(task);
                self.thread_is_free(port, worker);
            }
            Kind::BestEffort => unreachable!("best-effort threads do not end"),
            Kind::Message(message) => self.message_ends(message, task),
            Kind::Bench(message) => self.bench_ends(message, task, latency),
        }
    }

    /// The last request has come: rates and shares are those up to here.
    pub(super) fn close_books(&mut self) {
        let running = self.workers.iter().filter(|worker| {
            worker.running.is_some_and(|running| self.jobs[running.task.0].is_best_effort())
        });
        let current: u64 = running.map(|worker| worker.ran(self.now)).sum();
        let books = &mut self.books;
        books.last_arrival = self.now;
        books.completed_by_last = books.counts.completed;
        books.backlog = books.counts.arrived - books.counts.completed;
        books.work_late = books.work_left;
        books.best_effort_time =
            current + self.workers.iter().map(|worker| worker.best_effort).sum::<u64>();
    }

    pub(super) fn finish(self) -> (Outcome, Timeline) {
        let Engine { books, workers, core, .. } = self;
        let end = self.now.max(1) as f64;
        let span = if books.last_arrival > 0 { books.last_arrival as f64 } else { end };
        let used = |worker: &Worker| WorkerUse {
            busy: worker.busy as f64 / end,
            best_effort: worker.best_effort as f64 / end,
            overhead: worker.overhead as f64 / end,
        };
        let completed = match self.messages {
            Some(_) => books.counts.completed,
            None => books.completed_by_last,
        };
        // What grows without bound shows by a backlog that is a good part of all requests, or,
        // where those are few that are long, of all work. In a short run there may be as much at
        // any time.
        let limit = (books.counts.arrived / 20).max(1_000.max(20 * workers.len() as u64));
        let many_long = books.longest.saturating_mul(100 + 20 * workers.len() as u64);
        let much_work = (books.work / 20).max(many_long);
        let grows = books.backlog > limit || books.work_late > much_work;
        let outcome = Outcome {
            rate: books.rate,
            load: books.load,
            throughput: completed as f64 / span * 1e9,
            unstable: books.overrun || books.load >= 1.0 || grows,
            seconds: end / 1e9,
            classes: books.classes.iter().map(Class::outcome).collect(),
            total: books.total.outcome(),
            best_effort_share: books.best_effort_time as f64 / span / workers.len() as f64,
            workers: workers.iter().map(used).collect(),
            timer_core: core.busy as f64 / end,
            counts: books.counts,
        };
        (outcome, books.timeline)
    }
}
