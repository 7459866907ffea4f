//! Message threads that wake worker threads, which work and wait for the next message (schbench).

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use quaver_sched::{Attributes, Place, Task, Why};

use super::{Engine, SLEEPERS};
use crate::calendar::NEVER;
use crate::job::Kind;
use crate::scenario::Schbench;

/// What is measured instead of classes of requests: from a message to its worker thread's first
/// instruction, and to its end.
pub(super) const CLASSES: [&str; 2] = ["wakeup", "request"];
/// The index of the first.
pub(super) const WAKEUP: usize = 0;
/// The index of the second.
const REQUEST: usize = 1;

/// The threads that are not runnable.
pub(super) struct Messages {
    bench: Schbench,
    /// How many requests there are.
    pub(super) limit: u64,
    sleeping: BinaryHeap<Reverse<(u64, u32)>>,
    /// Message threads, and the worker threads that wait for each.
    threads: Vec<(u32, Vec<u32>)>,
}

impl Messages {
    pub(super) fn new(bench: Schbench, limit: u64) -> Self {
        Messages { bench, limit, sleeping: BinaryHeap::new(), threads: Vec::new() }
    }

    /// Worker threads that sleep, those that wait, and message threads.
    pub(super) fn count(&self) -> [usize; 3] {
        let waiting = self.threads.iter().map(|(_, mail)| mail.len()).sum();
        [self.sleeping.len(), waiting, self.threads.len()]
    }

    fn next(&self) -> u64 {
        self.sleeping.peek().map_or(NEVER, |sleeper| sleeper.0.0)
    }
}

impl Engine<'_> {
    /// The threads that are there from the beginning, if this is a message benchmark.
    pub(super) fn start_messages(&mut self) {
        let Some(bench) = self.messages.as_ref().map(|messages| messages.bench) else { return };
        for message in 0..bench.messages {
            let task = self.new_job(Kind::Message(message), 0, 0);
            self.policy.task_init(Task(task), &Attributes::default(), 0);
            self.messages().threads.push((task, Vec::new()));
        }
        for message in 0..bench.messages {
            for _ in 0..bench.workers {
                let task = self.new_job(Kind::Bench(message), 0, bench.request);
                self.jobs[task].worker = (task as usize % self.workers.len()) as u32;
                self.policy.task_init(Task(task), &Attributes::default(), 0);
                self.post(message, task);
            }
        }
    }

    fn messages(&mut self) -> &mut Messages {
        self.messages.as_mut().expect("only a message benchmark has such threads")
    }

    pub(super) fn wake_sleepers(&mut self) {
        if let Some(Reverse((_, task))) = self.messages().sleeping.pop()
            && let Kind::Bench(message) = self.jobs[task].kind
        {
            self.post(message, task);
        }
        let next = self.messages().next();
        self.calendar.set(SLEEPERS, next);
    }

    /// A worker thread waits for its message.
    fn post(&mut self, message: u16, task: u32) {
        let (_, mail) = &mut self.messages().threads[usize::from(message)];
        mail.push(task);
        if mail.len() == 1 {
            self.wake_message(message);
        }
    }

    /// The message thread of this number sleeps: it is woken for what is there.
    fn wake_message(&mut self, message: u16) {
        let wake = self.messages().bench.wake;
        let (task, mail) = &self.messages().threads[usize::from(message)];
        let (task, count) = (*task, mail.len() as u64);
        let left = self.rules.stretched((wake * count).max(1));
        let job = &mut self.jobs[task];
        (job.left, job.service, job.class) = (left, left, count as u32);
        (job.arrived, job.started) = (self.now, false);
        let place = Place::Local(job.worker as usize);
        self.make_runnable(place, task, Why::Woken);
    }

    fn wake_bench(&mut self, task: u32) {
        let left = self.rules.stretched(self.jobs[task].service);
        let counted = self.books.is_warm();
        let job = &mut self.jobs[task];
        (job.arrived, job.left, job.started, job.counted) = (self.now, left, false, counted);
        let place = Place::Local(job.worker as usize);
        self.make_runnable(place, task, Why::Woken);
    }

    /// The message thread has sent the messages that there were when it was woken; who waits since
    /// waits for the next round.
    pub(super) fn message_ends(&mut self, message: u16, task: u32) {
        let sent = self.jobs[task].class as usize;
        let (_, mail) = &mut self.messages().threads[usize::from(message)];
        let later = mail.split_off(sent.min(mail.len()));
        let woken = std::mem::replace(mail, later);
        for thread in woken {
            self.wake_bench(thread);
        }
        if !self.messages().threads[usize::from(message)].1.is_empty() {
            self.wake_message(message);
        }
    }

    /// A worker thread has done its work.
    pub(super) fn bench_ends(&mut self, message: u16, task: u32, latency: u64) {
        self.books.counts.completed += 1;
        let job = &self.jobs[task];
        if job.counted {
            self.books.record(REQUEST, latency, job.service);
        }
        let sleep = self.messages().bench.sleep;
        if sleep == 0 {
            self.post(message, task);
        } else {
            let until = self.now + sleep;
            self.messages().sleeping.push(Reverse((until, task)));
            let next = self.messages().next();
            self.calendar.set(SLEEPERS, next);
        }
    }
}
