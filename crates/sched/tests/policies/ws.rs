//! Work stealing.

use super::*;

#[test]
fn own_then_shared_then_stolen() {
    let policy = build("ws", 2, 10);
    enqueue(&*policy, Place::Local(1), Why::New, [5, 6, 7]);
    enqueue(&*policy, Place::Shared, Why::New, [3, 4]);
    enqueue(&*policy, Place::Local(0), Why::New, [1, 2]);
    let dequeued: Vec<_> = (0..5).map(|_| policy.task_dequeue(0, 0).map(|p| p.task.0)).collect();
    assert_eq!(dequeued, [Some(1), Some(2), Some(3), Some(4), None]);
    // The older half of three is two.
    assert_eq!(policy.balance(0, 0).unwrap().task, Task(5));
    assert_eq!(policy.task_dequeue(0, 0).unwrap().task, Task(6));
    assert_eq!(policy.task_dequeue(1, 0).unwrap().task, Task(7));
}

/// A worker whose own queue never runs empty comes to the shared queue at every 31st dispatch, and
/// one that is fed from the shared queue all the time comes to its own.
#[test]
fn neither_own_nor_shared_queue_starves() {
    let policy = build("ws", 1, 3000);
    enqueue(&*policy, Place::Local(0), Why::New, 0..1000);
    enqueue(&*policy, Place::Shared, Why::New, 1000..1010);
    let mut order = drain(&*policy, 0, 0);
    order.truncate(310);
    let shared: Vec<_> = (0..310).filter(|&i| order[i] >= 1000).collect();
    assert_eq!(shared, (0..10).map(|i| 30 + 31 * i).collect::<Vec<_>>());
    order.retain(|&task| task < 1000);
    assert!(order.is_sorted());
}

#[test]
fn yielded_and_preempted_go_to_the_tail() {
    let policy = build("ws", 1, 4);
    enqueue(&*policy, Place::Local(0), Why::New, [0, 1]);
    let first = policy.task_dequeue(0, 0).unwrap().task;
    policy.task_enqueue(Place::Local(0), first, Why::Preempted, 0);
    let second = policy.task_dequeue(0, 0).unwrap().task;
    policy.task_enqueue(Place::Local(0), second, Why::Yielded, 0);
    enqueue(&*policy, Place::Local(0), Why::Woken, [2]);
    assert_eq!(drain(&*policy, 0, 0), [0, 1, 2]);
}

#[test]
fn only_own_and_shared_work_and_timers_preempt() {
    let policy = build("ws:quantum=20us", 2, 4);
    let at = |timer| policy.preempt_at(0, &running(Class::Fresh, 1_000), timer);
    enqueue(&*policy, Place::Local(1), Why::New, [1]);
    assert_eq!(at(None), None, "worker 1 will run it");
    assert!(policy.has_work(0), "but worker 0 would, if it were idle");
    assert_eq!(at(Some(50_000)), Some(50_000));
    enqueue(&*policy, Place::Shared, Why::New, [2]);
    assert_eq!(at(Some(50_000)), Some(21_000));
    assert_eq!(policy.task_dequeue(0, 0).unwrap().task, Task(2));
    assert_eq!(at(None), None);
    enqueue(&*policy, Place::Local(0), Why::New, [3]);
    assert_eq!(at(None), Some(21_000));
}

/// A task that is stopped because shared work waits does not run on before that work.
#[test]
fn a_stopped_task_gives_way_to_shared_work() {
    for why in [Why::Preempted, Why::Yielded] {
        let policy = build("ws", 1, 10);
        enqueue(&*policy, Place::Local(0), Why::New, [0]);
        assert_eq!(policy.task_dequeue(0, 0).unwrap().task, Task(0));
        enqueue(&*policy, Place::Shared, Why::New, [1, 2]);
        for task in [0, 1] {
            enqueue(&*policy, Place::Local(0), why, [task]);
            enqueue(&*policy, Place::Local(0), Why::New, [task + 5]);
            assert_eq!(policy.task_dequeue(0, 0).unwrap().task, Task([1, 0][task as usize]));
        }
    }
}

/// While long tasks wait in both, own and shared queue take turns.
#[test]
fn own_and_shared_queue_take_turns_under_preemption() {
    let policy = build("ws", 1, 20);
    enqueue(&*policy, Place::Local(0), Why::New, 0..4);
    enqueue(&*policy, Place::Shared, Why::New, 10..14);
    let mut order = vec![];
    for _ in 0..8 {
        let task = policy.task_dequeue(0, 0).unwrap().task;
        order.push(task.0);
        policy.task_enqueue(Place::Local(0), task, Why::Preempted, 0);
    }
    assert_eq!(order, [0, 10, 1, 11, 2, 12, 3, 13]);
}
