//! A host in simulated time: workers that run tasks as a policy says, with tickless preemption.
//!
//! It does what a runtime does. A worker polls its timers only between tasks, asks the policy what
//! is next, and is interrupted at the moment that `preempt_at` names; the clock asks again after
//! every event. A task arrives by a timer of a worker or from outside, runs for its service time in
//! as many pieces as the policy makes, and ends.
//!
//! The host checks at every event that no worker idles while work waits, that nobody is interrupted
//! in vain, and that every task runs for its service time exactly.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use quaver_sched::{TimerHeap, TimerTable};

use super::*;

/// What is to be run.
#[derive(Clone, Copy, Debug)]
pub struct Job {
    pub arrives: Time,
    pub service: Time,
    pub place: Place,
}

/// What became of a task.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    pub ended: Time,
    /// The longest time between a preemption and the next dispatch.
    pub longest_wait: Time,
    pub preemptions: u32,
}

struct Worker {
    timers: TimerHeap,
    running: Option<Running>,
}

pub struct Host<'a> {
    policy: &'a dyn Policy,
    jobs: &'a [Job],
    now: Time,
    workers: Vec<Worker>,
    /// From outside, by time of arrival.
    arrivals: BTreeSet<(Time, u32)>,
    /// Service time that is left.
    left: Vec<Time>,
    preempted_at: BTreeMap<u32, Time>,
    outcomes: Vec<Outcome>,
}

impl<'a> Host<'a> {
    pub fn new(policy: &'a dyn Policy, workers: usize, jobs: &'a [Job]) -> Self {
        let table = Arc::new(TimerTable::new(jobs.len() as u32));
        let worker =
            |id| Worker { timers: TimerHeap::new(id as u32, table.clone()), running: None };
        let mut host = Host {
            policy,
            jobs,
            now: 0,
            workers: (0..workers).map(worker).collect(),
            arrivals: BTreeSet::new(),
            left: jobs.iter().map(|job| job.service).collect(),
            preempted_at: BTreeMap::new(),
            outcomes: vec![Outcome::default(); jobs.len()],
        };
        for (task, job) in jobs.iter().enumerate() {
            match job.place {
                Place::Local(w) => host.workers[w].timers.insert(Task(task as u32), job.arrives),
                Place::Shared => {
                    host.arrivals.insert((job.arrives, task as u32));
                }
            }
        }
        host
    }

    /// Run until all jobs have ended.
    pub fn run(mut self) -> Vec<Outcome> {
        while let Some(next) = self.next_event() {
            assert!(next >= self.now, "time goes on");
            self.now = next;
            self.arrive();
            (0..self.workers.len()).for_each(|worker| self.stop(worker));
            // What one worker's timers make runnable, another may take.
            while (0..self.workers.len()).any(|worker| self.dispatch(worker)) {}
            self.check();
        }
        assert!(self.left.iter().all(|&left| left == 0), "every task has ended");
        self.outcomes
    }

    fn next_event(&self) -> Option<Time> {
        let worker = |(index, worker): (usize, &Worker)| match &worker.running {
            Some(running) => {
                let end = running.since + self.left[running.task.0 as usize];
                let stop = self.preempt_at(index, running);
                Some(end.min(stop.unwrap_or(end)))
            }
            None => worker.timers.peek(),
        };
        let workers = self.workers.iter().enumerate().filter_map(worker);
        workers.chain(self.arrivals.first().map(|first| first.0)).min()
    }

    fn preempt_at(&self, worker: usize, running: &Running) -> Option<Time> {
        let timer = self.workers[worker].timers.peek();
        self.policy.preempt_at(worker, running, timer).map(|at| at.max(self.now))
    }

    fn arrive(&mut self) {
        while let Some(&(at, task)) = self.arrivals.first()
            && at <= self.now
        {
            self.arrivals.pop_first();
            self.policy.task_init(Task(task), &Attributes::default(), self.now);
            self.policy.task_enqueue(Place::Shared, Task(task), Why::New, self.now);
        }
    }

    /// End or preempt what the worker runs, if it is time.
    fn stop(&mut self, worker: usize) {
        let Some(running) = self.workers[worker].running else { return };
        let task = running.task;
        let ran = self.now - running.since;
        let left = &mut self.left[task.0 as usize];
        let ended = ran == *left;
        assert!(ran <= *left, "it has run for too long");
        if !ended && self.preempt_at(worker, &running).is_none_or(|at| at > self.now) {
            return;
        }
        self.left[task.0 as usize] -= ran;
        self.workers[worker].running = None;
        if self.policy.accounts() {
            self.policy.task_stopped(worker, task, ran);
        }
        // A timer that has expired is what the worker was interrupted for, or something that waits.
        let polled = self.poll_timers(worker);
        if ended {
            self.outcomes[task.0 as usize].ended = self.now;
            self.policy.task_terminate(task, self.now);
        } else {
            assert!(polled || self.policy.waiting() > 0, "preempted in vain");
            self.outcomes[task.0 as usize].preemptions += 1;
            self.preempted_at.insert(task.0, self.now);
            self.policy.task_enqueue(Place::Local(worker), task, Why::Preempted, self.now);
        }
    }

    fn poll_timers(&mut self, worker: usize) -> bool {
        let mut polled = false;
        while let Some(task) = self.workers[worker].timers.pop_expired(self.now) {
            self.policy.task_init(task, &Attributes::default(), self.now);
            self.policy.task_enqueue(Place::Local(worker), task, Why::Woken, self.now);
            polled = true;
        }
        polled
    }

    /// Give a worker that runs nothing something to run. False: it runs something already, or there
    /// is nothing.
    fn dispatch(&mut self, worker: usize) -> bool {
        if self.workers[worker].running.is_some() {
            return false;
        }
        self.poll_timers(worker);
        let Some(Pick { task, class }) = next(self.policy, worker, self.now) else { return false };
        let elsewhere = |w: &Worker| w.running.is_some_and(|running| running.task == task);
        assert!(!self.workers.iter().any(elsewhere), "{task:?} is running already");
        assert!(self.left[task.0 as usize] > 0, "{task:?} has ended");
        assert!(self.jobs[task.0 as usize].arrives <= self.now, "{task:?} has not arrived");
        if let Some(since) = self.preempted_at.remove(&task.0) {
            // With several workers, another one may have been faster with what it was preempted
            // for. EEVDF compares averages, which are rounded: it may stop a task an instant too
            // early.
            let exact = self.workers.len() == 1 && self.policy.name() != "eevdf";
            let in_vain = since == self.now && exact;
            assert!(!in_vain, "{task:?} goes on as if it had not been preempted");
            let outcome = &mut self.outcomes[task.0 as usize];
            outcome.longest_wait = outcome.longest_wait.max(self.now - since);
        }
        self.workers[worker].running = Some(Running { task, since: self.now, class });
        true
    }

    fn check(&self) {
        for (index, worker) in self.workers.iter().enumerate() {
            if worker.running.is_none() {
                assert!(!self.policy.has_work(index), "worker {index} idles while work waits");
                assert_eq!(self.policy.waiting(), 0);
            }
        }
    }
}
