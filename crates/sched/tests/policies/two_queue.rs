//! New before preempted work, and the bound on its age.

use quaver_sched::policies::{TwoQueue, TwoQueueTimes};

use super::*;

/// No ageing unless a test is about it.
const PLAIN: &str = "two-queue:quantum=20us,long=100us,max-age=none";

#[test]
fn new_work_anywhere_before_preempted_work() {
    let policy = build(PLAIN, 3, 20);
    enqueue(&*policy, Place::Local(0), Why::Preempted, [8]);
    enqueue(&*policy, Place::Local(1), Why::Preempted, [9]);
    enqueue(&*policy, Place::Local(1), Why::New, [5]);
    enqueue(&*policy, Place::Local(2), Why::Woken, [6, 7]);
    enqueue(&*policy, Place::Shared, Why::New, [3, 4]);
    enqueue(&*policy, Place::Local(0), Why::New, [1]);
    enqueue(&*policy, Place::Local(0), Why::Woken, [2]);

    let order: Vec<_> = std::iter::from_fn(|| next(&*policy, 0, 0)).collect();
    let tasks: Vec<_> = order.iter().map(|pick| pick.task.0).collect();
    assert_eq!(tasks[..4], [1, 2, 3, 4], "own, then shared");
    let mut stolen = tasks[4..7].to_vec();
    stolen.sort_unstable();
    assert_eq!(stolen, [5, 6, 7], "then new work of all victims");
    assert_eq!(tasks[7..], [8, 9], "own preempted work, then that of others");
    for pick in order {
        let preempted = pick.task.0 >= 8;
        let class = if preempted { Class::Preempted } else { Class::Fresh };
        assert_eq!(pick.class, class);
    }
}

/// Without preempted work of its own a worker leaves stealing to `balance`, where the host expects
/// it.
#[test]
fn dequeue_steals_only_ahead_of_own_preempted_work() {
    let policy = build(PLAIN, 2, 4);
    enqueue(&*policy, Place::Local(1), Why::New, [1]);
    assert_eq!(policy.task_dequeue(0, 0), None);
    enqueue(&*policy, Place::Local(0), Why::Preempted, [2]);
    assert_eq!(policy.task_dequeue(0, 0).unwrap().task, Task(1));
    assert_eq!(policy.task_dequeue(0, 0).unwrap().task, Task(2));
}

/// As Aspen's code: a worker without threads takes those of a victim before its new requests.
#[test]
fn aspen_steals_last_and_preempted_work_first() {
    let policy = build("aspen:max-age=none", 2, 8);
    enqueue(&*policy, Place::Local(0), Why::Preempted, [4]);
    enqueue(&*policy, Place::Local(0), Why::New, [1]);
    enqueue(&*policy, Place::Local(1), Why::New, [2]);
    enqueue(&*policy, Place::Local(1), Why::Preempted, [5]);
    let order: Vec<_> = std::iter::from_fn(|| next(&*policy, 0, 0)).collect();
    let (fresh, preempted) = (Class::Fresh, Class::Preempted);
    let picks: Vec<_> = order.iter().map(|pick| (pick.task.0, pick.class)).collect();
    assert_eq!(picks, [(1, fresh), (4, preempted), (5, preempted), (2, fresh)]);
}

/// What ran preempted and then yields or blocks is new again.
#[test]
fn yielding_and_waking_make_a_task_fresh() {
    let policy = build(PLAIN, 1, 4);
    for why in [Why::New, Why::Woken, Why::Yielded] {
        enqueue(&*policy, Place::Local(0), Why::Preempted, [1]);
        assert_eq!(next(&*policy, 0, 0).unwrap().class, Class::Preempted);
        enqueue(&*policy, Place::Local(0), why, [1]);
        assert_eq!(next(&*policy, 0, 0).unwrap().class, Class::Fresh);
    }
}

#[test]
fn shared_work_comes_first_at_every_31st_dispatch() {
    let policy = build(PLAIN, 1, 200);
    enqueue(&*policy, Place::Local(0), Why::New, 0..100);
    enqueue(&*policy, Place::Shared, Why::New, 100..103);
    let order = drain(&*policy, 0, 0);
    let shared: Vec<_> = (0..103).filter(|&i| order[i] >= 100).collect();
    assert_eq!(shared, [30, 61, 92]);
}

/// A task that yields does not run on before shared work.
#[test]
fn a_yielding_task_gives_way_to_shared_work() {
    let policy = build(PLAIN, 1, 10);
    enqueue(&*policy, Place::Shared, Why::New, [1]);
    enqueue(&*policy, Place::Local(0), Why::Yielded, [0]);
    assert_eq!(drain(&*policy, 0, 0), [1, 0]);
}

/// Two wait for what the third will do, which goes on soon, again and again.
#[test]
fn yielding_tasks_give_way_to_preempted_work() {
    let policy = build(PLAIN, 1, 10);
    enqueue(&*policy, Place::Local(0), Why::Preempted, [3]);
    enqueue(&*policy, Place::Local(0), Why::New, [1, 2]);
    let order: Vec<_> = (0..9)
        .map(|_| {
            let pick = next(&*policy, 0, 0).unwrap();
            let why = if pick.task.0 == 3 { Why::Preempted } else { Why::Yielded };
            enqueue(&*policy, Place::Local(0), why, [pick.task.0]);
            pick.task.0
        })
        .collect();
    assert_eq!(order, [1, 2, 1, 3, 2, 1, 2, 3, 1]);
}

/// Preempted work does not come before new work because one task yielded.
#[test]
fn new_work_stays_before_preempted_work_when_a_task_yields() {
    let policy = build(PLAIN, 1, 10);
    enqueue(&*policy, Place::Local(0), Why::Preempted, [3]);
    enqueue(&*policy, Place::Local(0), Why::New, [1, 2]);
    enqueue(&*policy, Place::Local(0), Why::Yielded, [0]);
    assert_eq!(drain(&*policy, 0, 0), [1, 2, 0, 3]);
}

#[test]
fn when_a_fresh_task_stops() {
    let at =
        |policy: &dyn Policy, timer| policy.preempt_at(0, &running(Class::Fresh, 1_000), timer);
    let policy = build(PLAIN, 2, 4);
    enqueue(&*policy, Place::Local(1), Why::New, [1]);
    enqueue(&*policy, Place::Local(1), Why::Preempted, [2]);
    assert_eq!(at(&*policy, None), None, "worker 1 will run them");
    assert!(policy.has_work(0));
    assert_eq!(at(&*policy, Some(2_000)), Some(21_000));
    assert_eq!(at(&*policy, Some(70_000)), Some(70_000));
    for (place, why) in [
        (Place::Local(0), Why::New),
        (Place::Local(0), Why::Preempted),
        (Place::Shared, Why::Woken),
    ] {
        let policy = build(PLAIN, 2, 4);
        enqueue(&*policy, place, why, [1]);
        for timer in [None, Some(2_000), Some(70_000)] {
            assert_eq!(at(&*policy, timer), Some(21_000), "{place:?} {why:?} {timer:?}");
        }
    }
}

#[test]
fn when_a_preempted_task_stops() {
    let at =
        |policy: &dyn Policy, timer| policy.preempt_at(0, &running(Class::Preempted, 1_000), timer);
    let policy = build(PLAIN, 2, 4);
    assert_eq!(at(&*policy, None), None);
    assert_eq!(at(&*policy, Some(2_000)), Some(21_000));
    assert_eq!(at(&*policy, Some(70_000)), Some(70_000));
    enqueue(&*policy, Place::Local(1), Why::Preempted, [1]);
    assert_eq!(at(&*policy, None), None, "worker 1 will run it");
    enqueue(&*policy, Place::Local(0), Why::Preempted, [2]);
    assert_eq!(at(&*policy, None), Some(101_000), "only preempted work: the long quantum");
    assert_eq!(at(&*policy, Some(2_000)), Some(21_000), "the timer makes new work");
    assert_eq!(at(&*policy, Some(70_000)), Some(70_000));
    assert_eq!(at(&*policy, Some(500_000)), Some(101_000));
    enqueue(&*policy, Place::Shared, Why::New, [3]);
    assert_eq!(at(&*policy, None), Some(21_000), "new work: the quantum");
}

/// A long quantum below the quantum, which a `Spec` refuses, counts as the quantum.
#[test]
fn long_quantum_is_at_least_the_quantum() {
    let times = TwoQueueTimes { quantum: Some(20), long_quantum: 5, max_age: None, history: None };
    let policy = TwoQueue::new(1, 4, times);
    enqueue(&policy, Place::Local(0), Why::Preempted, [1]);
    assert_eq!(policy.preempt_at(0, &running(Class::Preempted, 100), None), Some(120));
}

#[test]
fn aged_work_takes_turns_with_new_work() {
    let policy = build("two-queue:quantum=20us,max-age=1ms", 1, 100);
    enqueue(&*policy, Place::Local(0), Why::Preempted, [1, 2]);
    enqueue(&*policy, Place::Local(0), Why::New, 10..20);
    let mut now = 1_000_000;
    let mut dequeue = |after| {
        now += after;
        policy.task_dequeue(0, now).unwrap().task.0
    };
    assert_eq!(dequeue(0), 10, "as old as allowed, not older");
    assert_eq!(dequeue(1), 1);
    assert_eq!(dequeue(20_000), 11, "then new work has nine times as long");
    assert_eq!(dequeue(179_999), 12);
    assert_eq!(dequeue(1), 2);
    assert_eq!(dequeue(0), 13, "new work between two dispatches of aged tasks");
    assert_eq!(dequeue(0), 14);
}

/// A task that is preempted again begins to wait anew.
#[test]
fn age_counts_from_the_last_preemption() {
    let policy = build("two-queue:max-age=1ms", 1, 100);
    policy.task_enqueue(Place::Local(0), Task(1), Why::Preempted, 0);
    enqueue(&*policy, Place::Local(0), Why::New, 10..20);
    assert_eq!(policy.task_dequeue(0, 1_000_001).unwrap().task, Task(1));
    policy.task_enqueue(Place::Local(0), Task(1), Why::Preempted, 1_100_000);
    assert_eq!(policy.task_dequeue(0, 1_100_000).unwrap().task, Task(10));
    assert_eq!(policy.task_dequeue(0, 2_000_000).unwrap().task, Task(11));
    assert_eq!(policy.task_dequeue(0, 2_100_000).unwrap().task, Task(12));
    assert_eq!(policy.task_dequeue(0, 2_100_001).unwrap().task, Task(1));
}

/// Ageing reaches tasks that are in the overflow list behind a ring that ageing itself has emptied.
#[test]
fn ageing_reaches_beyond_the_ring() {
    let policy = build("two-queue:max-age=1ms", 1, 10_000);
    let preempted = 1_000;
    enqueue(&*policy, Place::Local(0), Why::Preempted, 0..preempted);
    enqueue(&*policy, Place::Local(0), Why::New, preempted..4 * preempted);
    // Old ones take no time, so new work gets one dispatch for each.
    let order: Vec<_> =
        (0..2 * preempted).map(|_| policy.task_dequeue(0, 2_000_000).unwrap().task.0).collect();
    let aged: Vec<_> = order.iter().copied().step_by(2).collect();
    assert_eq!(aged, (0..preempted).collect::<Vec<_>>());
}

/// Another worker's clock may be a little ahead; that makes no task old.
#[test]
fn a_clock_behind_the_preemption_is_no_age() {
    let policy = build("two-queue:max-age=1us", 2, 4);
    policy.task_enqueue(Place::Local(0), Task(1), Why::Preempted, 1_000_000);
    enqueue(&*policy, Place::Local(0), Why::New, [2]);
    assert_eq!(policy.task_dequeue(0, 999_000).unwrap().task, Task(2));
}

/// A long task is not sent to the tail for each short one that comes, until its turn is over.
#[test]
fn a_preempted_task_goes_on_first_after_new_work() {
    let policy = build("two-queue:quantum=20us,long=50us,max-age=none", 1, 8);
    let run = |now| next(&*policy, 0, now).unwrap().task.0;
    enqueue(&*policy, Place::Local(0), Why::Preempted, [1, 2, 3]);
    let mut now = 0;
    for expected in [1, 1, 1, 2, 2, 2, 3] {
        assert_eq!(run(now), expected, "at {now}");
        now += 20_000;
        enqueue(&*policy, Place::Local(0), Why::New, [7]);
        policy.task_enqueue(Place::Local(0), Task(expected), Why::Preempted, now);
        assert_eq!(run(now), 7);
    }
    // As `aspen` it is.
    let policy = build("aspen:quantum=20us,long=50us,max-age=none", 1, 8);
    enqueue(&*policy, Place::Local(0), Why::Preempted, [1, 2]);
    assert_eq!(next(&*policy, 0, 0).unwrap().task.0, 1);
    enqueue(&*policy, Place::Local(0), Why::Preempted, [1]);
    assert_eq!(next(&*policy, 0, 0).unwrap().task.0, 2);
}

/// A task runs for `ran` and waits.
fn ran(policy: &dyn Policy, worker: usize, task: u32, ran: Time) {
    assert!(policy.accounts());
    policy.task_stopped(worker, Task(task), ran);
}

const HISTORY: &str = "two-queue:quantum=20us,long=50us,max-age=1ms,history=30us";

#[test]
fn who_was_long_is_no_new_work_when_it_wakes() {
    let policy = build(HISTORY, 1, 8);
    ran(&*policy, 0, 1, 30_001);
    ran(&*policy, 0, 2, 30_000);
    enqueue(&*policy, Place::Local(0), Why::Woken, [1, 2]);
    enqueue(&*policy, Place::Shared, Why::Woken, [3]);
    let order: Vec<_> = std::iter::from_fn(|| next(&*policy, 0, 0)).collect();
    let picks: Vec<_> = order.iter().map(|pick| (pick.task.0, pick.class)).collect();
    assert_eq!(picks, [(2, Class::Fresh), (3, Class::Fresh), (1, Class::Preempted)]);
    // Each run counts by itself.
    ran(&*policy, 0, 1, 10_000);
    enqueue(&*policy, Place::Local(0), Why::Woken, [1]);
    assert_eq!(next(&*policy, 0, 0).unwrap().class, Class::Fresh);
}

#[test]
fn a_run_is_long_in_all_its_parts() {
    let policy = build(HISTORY, 1, 8);
    for why in [Why::Preempted, Why::Woken] {
        ran(&*policy, 0, 1, 20_000);
        enqueue(&*policy, Place::Local(0), why, [1]);
        assert_eq!(next(&*policy, 0, 0).unwrap().class, Class::Preempted, "{why:?}");
    }
    // Who yields, and whoever has the number next, has no history.
    for why in [Why::Yielded, Why::New] {
        ran(&*policy, 0, 1, 1_000_000);
        enqueue(&*policy, Place::Local(0), why, [1]);
        assert_eq!(next(&*policy, 0, 0).unwrap().class, Class::Fresh, "{why:?}");
        enqueue(&*policy, Place::Local(0), Why::Woken, [1]);
        assert_eq!(next(&*policy, 0, 0).unwrap().class, Class::Fresh, "{why:?}, then woken");
    }
}

/// Many short requests in one dispatch are no long one; a long one after them is.
#[test]
fn each_request_counts_by_itself() {
    let policy = build(HISTORY, 1, 8);
    for (last, class) in [(10_000, Class::Fresh), (40_000, Class::Preempted)] {
        ran(&*policy, 0, 1, 25_000);
        enqueue(&*policy, Place::Local(0), Why::Preempted, [1]);
        next(&*policy, 0, 0).unwrap();
        (1..5).for_each(|request| policy.task_goes_on(Task(1), request * 20_000));
        ran(&*policy, 0, 1, 80_000 + last);
        enqueue(&*policy, Place::Local(0), Why::Woken, [1]);
        assert_eq!(next(&*policy, 0, 0).unwrap().class, class, "{last}");
    }
}

/// What wakes outside is found by whichever worker looks first, in turn, and stops nobody early.
#[test]
fn who_was_long_may_wake_outside() {
    let policy = build(HISTORY, 2, 8);
    (1..4).for_each(|task| ran(&*policy, 0, task, 40_000));
    enqueue(&*policy, Place::Shared, Why::Woken, [1, 2, 3]);
    assert_eq!((policy.waiting(), policy.has_work(1)), (3, true));
    for (class, at) in [(Class::Fresh, 21_000), (Class::Preempted, 51_000)] {
        assert_eq!(policy.preempt_at(0, &running(class, 1_000), None), Some(at));
    }
    enqueue(&*policy, Place::Local(1), Why::New, [7]);
    assert_eq!(next(&*policy, 1, 0).unwrap().task, Task(7));
    assert_eq!(drain(&*policy, 0, 0), [1, 2, 3]);
    assert!(policy.waiting() == 0 && !policy.has_work(0));
}

/// A wrong guess costs no more than the maximal age.
#[test]
fn who_was_long_comes_of_age() {
    let policy = build(HISTORY, 1, 100);
    ran(&*policy, 0, 1, 40_000);
    enqueue(&*policy, Place::Shared, Why::Woken, [1]);
    enqueue(&*policy, Place::Local(0), Why::New, 10..20);
    assert_eq!(policy.task_dequeue(0, 1_000_000).unwrap().task, Task(10));
    assert_eq!(policy.task_dequeue(0, 1_000_001).unwrap().task, Task(1));
}
