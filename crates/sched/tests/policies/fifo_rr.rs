//! The policies with one shared queue.

use super::*;

#[test]
fn one_queue_in_order_of_arrival_whoever_enqueues_and_dequeues() {
    for spec in ["fifo", "rr"] {
        let policy = build(spec, 3, 10);
        let whys = [Why::New, Why::Woken, Why::Yielded, Why::Preempted];
        for task in 0..9 {
            let place = match task % 4 {
                3 => Place::Shared,
                worker => Place::Local(worker as usize),
            };
            enqueue(&*policy, place, whys[task as usize * 7 % 4], [task]);
        }
        for task in 0..9 {
            let worker = task as usize % 3;
            assert!(policy.has_work(worker));
            assert_eq!(policy.waiting(), 9 - task as usize);
            assert_eq!(
                policy.task_dequeue(worker, 0),
                Some(Pick { task: Task(task), class: Class::Fresh })
            );
            assert_eq!(policy.balance(worker, 0), None, "there is nothing to balance");
        }
        assert_eq!((policy.task_dequeue(0, 0), policy.has_work(0)), (None, false));
    }
}

#[test]
fn fifo_never_preempts() {
    let policy = build("fifo", 1, 4);
    enqueue(&*policy, Place::Local(0), Why::New, [1, 2]);
    enqueue(&*policy, Place::Shared, Why::Preempted, [3]);
    for class in [Class::Fresh, Class::Preempted] {
        assert_eq!(policy.preempt_at(0, &running(class, 0), Some(5)), None);
    }
}

#[test]
fn rr_preempts_at_the_end_of_the_quantum_if_something_waits() {
    let policy = build("rr:quantum=20us", 2, 4);
    let at = |timer| policy.preempt_at(1, &running(Class::Fresh, 1_000), timer);
    assert_eq!(at(None), None);
    assert_eq!(at(Some(5_000)), Some(21_000), "the timer expires within the quantum");
    assert_eq!(at(Some(50_000)), Some(50_000), "nothing waits before the timer expires");
    enqueue(&*policy, Place::Local(0), Why::New, [1]);
    assert_eq!(at(None), Some(21_000));
    assert_eq!(at(Some(50_000)), Some(21_000));
    policy.task_dequeue(0, 0);
    assert_eq!(at(None), None, "it has gone to another worker");
}

#[test]
fn without_a_quantum_nothing_is_preempted() {
    for spec in ["rr:quantum=none", "ws:quantum=none", "two-queue:quantum=none"] {
        let policy = build(spec, 1, 4);
        enqueue(&*policy, Place::Local(0), Why::New, [1]);
        enqueue(&*policy, Place::Local(0), Why::Preempted, [2]);
        enqueue(&*policy, Place::Shared, Why::Woken, [3]);
        for class in [Class::Fresh, Class::Preempted] {
            assert_eq!(policy.preempt_at(0, &running(class, 0), Some(1)), None, "{spec}");
        }
    }
}

/// The end of a quantum near the end of time does not wrap around.
#[test]
fn quanta_saturate() {
    for spec in ["rr", "ws", "two-queue"] {
        let policy = build(spec, 1, 4);
        enqueue(&*policy, Place::Local(0), Why::New, [1]);
        let at = policy.preempt_at(0, &running(Class::Preempted, Time::MAX - 1), None);
        assert_eq!(at, Some(Time::MAX));
    }
}
