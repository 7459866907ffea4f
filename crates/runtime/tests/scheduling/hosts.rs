//! Every policy in the runtime: chosen by name, one's own, and what a thread's creator says of it.

use crate::support::{Setup, on_runtime, spin, until_preempted, with_runtime};
use quaver::sched::queue::{Links, List};
use quaver::sched::{Attributes, Class, Pick, Place, Running, Task, Time, Why};
use quaver::thread::{self, Service};
use quaver::{Builder, Clock, Policy, PolicySpec};
use std::sync::atomic::{AtomicBool, Ordering::*};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Threads that compute, yield, wait for one another and are preempted all come to their ends.
#[test]
fn threads_end_under_every_policy() {
    for (policy, _) in PolicySpec::names() {
        for setup in Setup::all_clocks() {
            println!("-- {policy}");
            let preempts = policy.parse::<PolicySpec>().unwrap().quantum().is_some();
            let builder = Builder::new().clock(setup.clock).workers(setup.workers);
            let sum = setup.run_with(builder.policy_str(policy), || {
                let computing = (0..4).map(|_| {
                    quaver::spawn(move || {
                        if preempts {
                            until_preempted(5, |i| _ = spin(1_000 + i % 2));
                        }
                        1
                    })
                });
                let computing: Vec<_> = computing.collect();
                let waiting = (0..100u64).map(|n| {
                    quaver::spawn(move || {
                        quaver::yield_now();
                        quaver::spawn(move || n).join().unwrap()
                    })
                });
                let waiting: Vec<_> = waiting.collect();
                waiting
                    .into_iter()
                    .chain(computing)
                    .map(|thread| thread.join().unwrap())
                    .sum::<u64>()
            });
            assert_eq!(sum, 4950 + 4, "{policy}");
        }
    }
}

/// First in, first out; keeps what it is told of threads.
struct Told {
    links: Links,
    queue: List,
    told: Arc<Mutex<Vec<Attributes>>>,
}

impl Policy for Told {
    fn name(&self) -> &'static str {
        "told"
    }

    fn task_init(&self, _task: Task, attributes: &Attributes, _now: Time) {
        self.told.lock().unwrap().push(*attributes);
    }

    fn task_enqueue(&self, _place: Place, task: Task, _why: Why, _now: Time) {
        self.queue.push(&self.links, task);
    }

    fn task_dequeue(&self, _worker: usize, _now: Time) -> Option<Pick> {
        Some(Pick { task: self.queue.pop(&self.links)?, class: Class::Fresh })
    }

    fn central(&self) -> bool {
        true
    }

    fn balance(&self, _worker: usize, _now: Time) -> Option<Pick> {
        None
    }

    fn preempt_at(&self, _worker: usize, _run: &Running, _timer: Option<Time>) -> Option<Time> {
        None
    }

    fn has_work(&self, _worker: usize) -> bool {
        self.waiting() > 0
    }

    fn waiting(&self) -> usize {
        self.queue.len()
    }
}

#[test]
fn a_policy_is_told_what_the_creator_of_a_thread_says() {
    let told = Arc::new(Mutex::new(Vec::new()));
    let policy_told = Arc::clone(&told);
    let builder = Builder::new().workers(1).custom_policy(None, move |room| {
        Box::new(Told {
            links: Links::new(room.max_threads),
            queue: List::new(),
            told: Arc::clone(&policy_told),
        })
    });
    with_runtime(builder, |rt| {
        assert_eq!(rt.policy().to_string(), "told");
        rt.run(|| {
            let builder =
                thread::Builder::new().weight(700).priority(6).service(Service::BestEffort);
            builder.spawn(|| ()).unwrap().join().unwrap();
            quaver::spawn(|| ()).join().unwrap();
        });
    });
    let special = Attributes { weight: 700, priority: 6, service: Service::BestEffort };
    let told = told.lock().unwrap();
    assert_eq!(told.iter().filter(|&&told| told == special).count(), 1, "{told:?}");
    assert!(told.iter().filter(|&&told| told == Attributes::default()).count() >= 1, "{told:?}");
}

/// The more urgent thread runs first, whichever was spawned first.
#[test]
fn priorities_decide_in_the_runtime() {
    let builder = Builder::new().workers(1).policy_str("priority:quantum=1s,max-age=none");
    let order = on_runtime(builder, || {
        let order = Arc::new(Mutex::new(Vec::new()));
        let threads = [1, 7, 4].map(|priority| {
            let order = Arc::clone(&order);
            let work = move || order.lock().unwrap().push(priority);
            thread::Builder::new().priority(priority).spawn(work).unwrap()
        });
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        order.lock().unwrap().clone()
    });
    assert_eq!(order, [7, 4, 1]);
}

/// A thread's priority changes while it waits and while it runs; other policies say that they heed
/// none.
#[test]
fn priorities_change_in_the_runtime() {
    let builder = Builder::new().workers(1).policy_str("priority:quantum=1ms,max-age=none");
    let builder = builder.clock(Clock::PosixTimer);
    let order = on_runtime(builder, || {
        let order = Arc::new(Mutex::new(Vec::new()));
        let (urgent, done) = (Arc::clone(&order), Arc::clone(&order));
        let spawn = |priority, work: Box<dyn FnOnce() + Send>| {
            thread::Builder::new().priority(priority).spawn(work).unwrap()
        };
        // It would keep the worker for ever if its priority did not fall below that of this thread.
        let stop = Arc::new(std::sync::atomic::AtomicBool::new(false));
        let (seen, relaxed) = (Arc::clone(&stop), std::sync::atomic::Ordering::Relaxed);
        let hog = spawn(
            2,
            Box::new(move || {
                while !seen.load(relaxed) {
                    spin(100);
                }
            }),
        );
        let first = spawn(1, Box::new(move || urgent.lock().unwrap().push("raised")));
        let second = spawn(1, Box::new(move || done.lock().unwrap().push("as it was")));
        assert!(first.set_priority(6));
        quaver::sleep(Duration::from_millis(2));
        assert!(hog.set_priority(0));
        second.join().unwrap();
        stop.store(true, relaxed);
        [first, hog].into_iter().for_each(|thread| thread.join().unwrap());
        order.lock().unwrap().clone()
    });
    assert_eq!(order, ["raised", "as it was"]);
    on_runtime(Builder::new().workers(1), || {
        assert!(!quaver::spawn(|| ()).set_priority(7));
    });
}

/// Endless best-effort work does not keep requests from ending.
#[test]
fn best_effort_work_gives_way() {
    let builder = Builder::new().workers(1).clock(Clock::PosixTimer);
    let builder = builder.policy_str("shinjuku-shenango:quantum=100us,delay=50us");
    on_runtime(builder, || {
        let stop = Arc::new(std::sync::atomic::AtomicBool::new(false));
        let (seen, done) = (Arc::clone(&stop), std::sync::atomic::Ordering::Relaxed);
        let background = thread::Builder::new().service(Service::BestEffort).spawn(move || {
            while !seen.load(done) {
                spin(100);
            }
        });
        for _ in 0..20 {
            quaver::spawn(|| spin(100)).join().unwrap();
            quaver::sleep(Duration::from_micros(100));
        }
        stop.store(true, done);
        background.unwrap().join().unwrap();
    });
}

/// How long the threads of [`order_of_waking`] compute.
const TIMES: [Duration; 4] = [LONG, Duration::ZERO, LONG, LONG];
const LONG: Duration = Duration::from_millis(3);

/// Four threads compute, wait, and are woken one after the other while the worker is busy: in which
/// order they run, the first time and the second. `outside`: they are woken by a kernel thread.
fn order_of_waking(outside: bool) -> Vec<usize> {
    let policy = "two-queue:quantum=none,history=2ms";
    on_runtime(Builder::new().workers(1).policy_str(policy), || {
        let order = Mutex::new(Vec::new());
        let all_have_run = |times| {
            while order.lock().unwrap().len() < times * TIMES.len() {
                quaver::sleep(Duration::from_micros(100));
            }
        };
        quaver::scope(|s| {
            let order = &order;
            let compute = |i: usize| {
                for _ in 0..2 {
                    thread::park();
                    let end = Instant::now() + TIMES[i];
                    while Instant::now() < end {
                        spin(100);
                    }
                    order.lock().unwrap().push(i);
                }
            };
            let threads = [0, 1, 2, 3].map(|i| s.spawn(move || compute(i)).thread().clone());
            let wake_all = || threads.iter().for_each(thread::Thread::unpark);
            wake_all();
            all_have_run(1);
            if outside {
                let (begin, woken) = (AtomicBool::new(false), AtomicBool::new(false));
                let until = |flag: &AtomicBool| {
                    while !flag.load(Acquire) {
                        spin(100);
                    }
                };
                std::thread::scope(|os| {
                    os.spawn(|| {
                        until(&begin);
                        wake_all();
                        woken.store(true, Release);
                    });
                    begin.store(true, Release);
                    until(&woken);
                });
            } else {
                wake_all();
            }
            all_have_run(2);
        });
        order.into_inner().unwrap()
    })
}

/// Who computed for long the last time runs after the others when all wake, whoever wakes them.
#[test]
fn who_was_long_wakes_behind_others() {
    for outside in [false, true] {
        // Beside other programs a short run may look long: the worker has lost its CPU meanwhile.
        let expected = |_| order_of_waking(outside) == [0, 1, 2, 3, 1, 0, 2, 3];
        assert!((0..20).any(expected), "outside: {outside}");
    }
}
