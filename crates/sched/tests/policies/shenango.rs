//! Latency-critical and best-effort tasks: cores are lent to the latter, and taken back.

use super::{
    host::{Host, Job},
    *,
};

const US: Time = 1_000;

fn critical_and_best_effort(workers: usize, critical: u32, best_effort: u32) -> Box<dyn Policy> {
    let spec = "shinjuku-shenango:quantum=20us,delay=5us,be=100us";
    let policy = build(spec, workers, critical + best_effort);
    for task in 0..critical + best_effort {
        let service = if task < critical { Service::LatencyCritical } else { Service::BestEffort };
        let attributes = Attributes { service, ..Attributes::default() };
        policy.task_init(Task(task), &attributes, 0);
    }
    policy
}

#[test]
fn cores_are_lent_and_as_many_taken_back_as_wanted() {
    let policy = critical_and_best_effort(3, 10, 5);
    enqueue(&*policy, Place::Shared, Why::New, [10, 11, 0]);
    assert_eq!(policy.task_dequeue(0, 0).unwrap().task, Task(0), "critical ones first");
    assert_eq!(policy.task_dequeue(1, 0).unwrap().task, Task(10));
    assert_eq!(policy.task_dequeue(2, 0).unwrap().task, Task(11));
    let at = |worker, task| {
        let running = Running { task: Task(task), since: 0, class: Class::Fresh };
        policy.preempt_at(worker, &running, None)
    };
    assert_eq!([at(0, 0), at(1, 10), at(2, 11)], [None; 3]);
    policy.task_enqueue(Place::Shared, Task(1), Why::New, 40 * US);
    assert_eq!([at(0, 0), at(1, 10), at(2, 11)], [Some(20 * US), Some(45 * US), None]);
    policy.task_enqueue(Place::Shared, Task(2), Why::New, 41 * US);
    assert_eq!([at(1, 10), at(2, 11)], [Some(45 * US); 2]);
    enqueue(&*policy, Place::Shared, Why::New, [12]);
    assert_eq!(drain(&*policy, 1, 42 * US), [1, 2, 12]);
    enqueue(&*policy, Place::Shared, Why::New, [12]);
    assert_eq!(at(2, 11), Some(100 * US), "best-effort work takes turns");
}

#[test]
fn where_all_cores_are_lent_the_first_one_is_taken_at_once() {
    let policy = critical_and_best_effort(2, 10, 5);
    enqueue(&*policy, Place::Shared, Why::New, [10, 11]);
    let at = |worker, task| {
        let running = Running { task: Task(task), since: 0, class: Class::Fresh };
        policy.preempt_at(worker, &running, None)
    };
    assert_eq!(policy.task_dequeue(0, 0).unwrap().task, Task(10));
    assert_eq!(policy.task_dequeue(1, 0).unwrap().task, Task(11));
    policy.task_enqueue(Place::Shared, Task(1), Why::New, 40 * US);
    assert_eq!([at(0, 10), at(1, 11)], [Some(40 * US), None]);
    policy.task_enqueue(Place::Shared, Task(2), Why::New, 41 * US);
    assert_eq!([at(0, 10), at(1, 11)], [Some(40 * US), Some(45 * US)]);
    assert_eq!(policy.task_dequeue(0, 40 * US).unwrap().task, Task(1));
    assert_eq!(at(1, 11), Some(46 * US), "there is one by now");
}

/// The times at which a critical task ends do not depend on whether best-effort work fills the
/// gaps, but for the delay.
#[test]
fn best_effort_work_costs_critical_tasks_the_delay_only() {
    let policy = critical_and_best_effort(1, 100, 1);
    let job = |i: Time| Job { arrives: i * 50 * US, service: 10 * US, place: Place::Shared };
    let hog = Job { arrives: 0, service: 3_000 * US, place: Place::Local(0) };
    let jobs: Vec<_> = (0..100).map(job).chain([hog]).collect();
    // The host announces every task with default attributes: restore what they are.
    struct Announced(Box<dyn Policy>);
    impl Policy for Announced {
        fn name(&self) -> &'static str {
            self.0.name()
        }
        fn task_enqueue(&self, place: Place, task: Task, why: Why, now: Time) {
            self.0.task_enqueue(place, task, why, now);
        }
        fn task_dequeue(&self, worker: usize, now: Time) -> Option<Pick> {
            self.0.task_dequeue(worker, now)
        }
        fn balance(&self, worker: usize, now: Time) -> Option<Pick> {
            self.0.balance(worker, now)
        }
        fn preempt_at(&self, worker: usize, run: &Running, timer: Option<Time>) -> Option<Time> {
            self.0.preempt_at(worker, run, timer)
        }
        fn has_work(&self, worker: usize) -> bool {
            self.0.has_work(worker)
        }
        fn waiting(&self) -> usize {
            self.0.waiting()
        }
    }
    let outcomes = Host::new(&Announced(policy), 1, &jobs).run();
    for (job, outcome) in jobs[..100].iter().zip(&outcomes) {
        assert!(outcome.ended - job.arrives <= 15 * US, "{outcome:?}");
    }
    // It had four fifths of the worker while it ran.
    assert!(outcomes[100].ended <= 3_900 * US, "{:?}", outcomes[100]);
}
