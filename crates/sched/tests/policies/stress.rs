//! Real threads as workers: every task runs the right number of times, never on two workers at
//! once.

use std::{
    sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::*},
    thread,
};

use super::*;

const WORKERS: usize = 4;
const TASKS: u32 = 2_000;
const RUNS: u32 = 100;

/// Everything that the threads share.
struct Shared {
    policy: Box<dyn Policy>,
    running: Vec<AtomicBool>,
    runs: Vec<AtomicU32>,
    ended: AtomicUsize,
}

impl Shared {
    /// Run a task once: it is stopped by one of the four causes, chosen by its number and count, or
    /// ends.
    fn run(&self, worker: usize, task: Task, now: Time) {
        let index = task.0 as usize;
        assert!(!self.running[index].swap(true, Relaxed), "{task:?} runs twice at once");
        // Not an atomic addition: that no other worker writes is what queues have to guarantee.
        let runs = self.runs[index].load(Relaxed) + 1;
        self.runs[index].store(runs, Relaxed);
        assert!(self.running[index].swap(false, Relaxed), "{task:?} was run elsewhere");
        if self.policy.accounts() {
            self.policy.task_stopped(worker, task, Time::from(runs % 4) * 1_000);
        }
        if runs == RUNS {
            self.policy.task_terminate(task, now);
            self.ended.fetch_add(1, Relaxed);
            return;
        }
        let place =
            if (task.0 + runs).is_multiple_of(7) { Place::Shared } else { Place::Local(worker) };
        let why = [Why::Woken, Why::Yielded, Why::Preempted][(runs as usize + index) % 3];
        self.policy.task_enqueue(place, task, why, now);
    }

    fn work(&self, worker: usize) {
        let mut now = 0;
        while self.ended.load(Relaxed) < TASKS as usize {
            now += 1_000;
            match next(&*self.policy, worker, now) {
                Some(pick) => self.run(worker, pick.task, now),
                None => thread::yield_now(),
            }
            // What a clock does meanwhile, about any worker.
            let other = now as usize / 1_000 % WORKERS;
            self.policy.preempt_at(other, &running(Class::Fresh, now), None);
            self.policy.has_work(other);
            // And what users do.
            if (now / 1_000).is_multiple_of(97) {
                self.policy.set_priority(Task(now as u32 / 97_000 % TASKS), other as u8);
            }
        }
    }
}

#[test]
fn nothing_is_lost_or_run_twice_at_once() {
    for spec in all().chain(["two-queue:history=1us"]) {
        let shared = Shared {
            policy: build(spec, WORKERS, TASKS),
            running: (0..TASKS).map(|_| AtomicBool::new(false)).collect(),
            runs: (0..TASKS).map(|_| AtomicU32::new(0)).collect(),
            ended: AtomicUsize::new(0),
        };
        thread::scope(|scope| {
            for worker in 0..WORKERS {
                let shared = &shared;
                scope.spawn(move || shared.work(worker));
            }
            // From outside, while the workers are at it; more than a ring holds, and all at once.
            enqueue(&*shared.policy, Place::Shared, Why::New, 0..TASKS);
        });
        assert!(shared.runs.iter().all(|runs| runs.load(Relaxed) == RUNS), "{spec}");
        assert_eq!((shared.policy.waiting(), shared.policy.has_work(0)), (0, false), "{spec}");
    }
}
