//! A worker that the operating system does not run: others take what waits there.

use crate::{all, build, enqueue};
use quaver_sched::{Attributes, Place, Policy, Task, Why};
use std::collections::HashSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::*};

/// Tasks `0..n` exist, and the even ones are queued where worker 0 is, the others at worker 1.
fn with_tasks(name: &str, n: u32) -> Box<dyn Policy> {
    let policy = build(name, 2, n);
    (0..n).for_each(|task| policy.task_init(Task(task), &Attributes::default(), 0));
    for (worker, whose) in [(0, 0), (1, 1)] {
        let own = || (0..n).filter(move |task| task % 2 == whose);
        enqueue(&*policy, Place::Local(worker), Why::New, own().filter(|task| task % 3 > 0));
        enqueue(&*policy, Place::Local(worker), Why::Preempted, own().filter(|task| task % 3 == 0));
    }
    policy
}

/// The other worker, which has work of its own, gets all without stealing.
#[test]
fn what_waits_there_is_for_the_others() {
    for name in all() {
        let policy = with_tasks(name, 12);
        let moved = policy.worker_lost(0, 10);
        assert!(policy.central() || name == "shinjuku-shenango" || moved == 6, "{name}: {moved}");
        assert_eq!(policy.waiting(), 12, "{name}");
        let mut taken: Vec<u32> =
            std::iter::from_fn(|| policy.task_dequeue(1, 20)).map(|pick| pick.task.0).collect();
        taken.sort_unstable();
        assert_eq!(taken, (0..12).collect::<Vec<_>>(), "{name}");
        assert_eq!(policy.worker_lost(0, 30), 0, "{name}: nothing is left");
    }
}

/// Who is alone keeps what it has.
#[test]
fn who_is_alone_keeps_its_tasks() {
    for name in all() {
        let policy = build(name, 1, 4);
        (0..4).for_each(|task| policy.task_init(Task(task), &Attributes::default(), 0));
        enqueue(&*policy, Place::Local(0), Why::New, 0..4);
        assert_eq!(policy.worker_lost(0, 1), 0, "{name}");
        assert_eq!(std::iter::from_fn(|| policy.task_dequeue(0, 2)).count(), 4, "{name}");
    }
}

/// Both workers go on while a third thread says again and again that one of them is lost: each task
/// is taken once.
#[test]
fn nothing_is_lost_or_taken_twice() {
    const TASKS: u32 = 3000;
    for name in all() {
        let policy = &*with_tasks(name, TASKS);
        let (done, taken) = (AtomicBool::new(false), Mutex::new(Vec::new()));
        std::thread::scope(|s| {
            let lost = s.spawn(|| {
                let mut now = 0;
                while !done.load(Acquire) {
                    now += 1;
                    policy.worker_lost(now as usize % 2, now);
                }
            });
            let workers = [0, 1].map(|worker| {
                let taken = &taken;
                s.spawn(move || {
                    let mut again = HashSet::new();
                    for now in 0.. {
                        if taken.lock().unwrap().len() == TASKS as usize {
                            return;
                        }
                        let Some(pick) = crate::next(policy, worker, now) else {
                            std::thread::yield_now();
                            continue;
                        };
                        policy.task_stopped(worker, pick.task, 1);
                        // Each is queued a second time here by whoever has it first.
                        if pick.task.0 % 4 == 0 && again.insert(pick.task) {
                            let place = Place::Local(worker);
                            policy.task_enqueue(place, pick.task, Why::Yielded, now);
                        } else {
                            taken.lock().unwrap().push(pick.task.0);
                        }
                    }
                })
            });
            workers.into_iter().for_each(|worker| worker.join().unwrap());
            done.store(true, Release);
            lost.join().unwrap();
        });
        let mut taken = taken.into_inner().unwrap();
        taken.sort_unstable();
        assert_eq!(taken, (0..TASKS).collect::<Vec<_>>(), "{name}");
    }
}
