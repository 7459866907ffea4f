//! Priorities: who is above runs first, and who waits for long climbs.

use super::*;

const US: Time = 1_000;

fn with_priorities(spec: &str, workers: usize, priorities: &[u8]) -> Box<dyn Policy> {
    let policy = build(spec, workers, priorities.len() as u32);
    for (task, &priority) in priorities.iter().enumerate() {
        let attributes = Attributes { priority, ..Attributes::default() };
        policy.task_init(Task(task as u32), &attributes, 0);
    }
    policy
}

#[test]
fn higher_priorities_run_first_and_stop_lower_ones_at_once() {
    let policy = with_priorities("priority:quantum=10us,max-age=none", 2, &[1, 7, 3, 3, 0]);
    enqueue(&*policy, Place::Local(0), Why::New, 0..5);
    assert_eq!(drain(&*policy, 0, 1_000_000 * US), [1, 2, 3, 0, 4]);

    // Worker 0 runs level 3, worker 1 level 1.
    enqueue(&*policy, Place::Shared, Why::New, [2, 0]);
    assert_eq!(policy.task_dequeue(0, 0).unwrap().task, Task(2));
    assert_eq!(policy.task_dequeue(1, 0).unwrap().task, Task(0));
    let at = |worker, task| {
        let running = Running { task: Task(task), since: 50 * US, class: Class::Fresh };
        policy.preempt_at(worker, &running, None)
    };
    assert_eq!((at(0, 2), at(1, 0)), (None, None));
    enqueue(&*policy, Place::Shared, Why::New, [1]);
    assert_eq!((at(0, 2), at(1, 0)), (None, Some(50 * US)), "the less urgent one stops");
    enqueue(&*policy, Place::Shared, Why::New, [3]);
    assert_eq!(at(0, 2), Some(60 * US), "an equal one waits for the quantum");
}

#[test]
fn aging_lets_every_level_run() {
    let policy = with_priorities("priority:quantum=10us,max-age=100us", 1, &[0, 7, 7]);
    enqueue(&*policy, Place::Local(0), Why::New, [0]);
    policy.task_enqueue(Place::Local(0), Task(1), Why::New, 650 * US);
    // After 699 us it has climbed six levels, after 700 seven.
    assert_eq!(policy.task_dequeue(0, 699 * US).unwrap().task, Task(1));
    policy.task_enqueue(Place::Local(0), Task(1), Why::Preempted, 699 * US);
    let running = Running { task: Task(2), since: 600 * US, class: Class::Fresh };
    assert_eq!(policy.preempt_at(0, &running, None), Some(610 * US), "for its equal");
    assert_eq!(policy.task_dequeue(0, 700 * US).unwrap().task, Task(0));
    policy.task_enqueue(Place::Local(0), Task(0), Why::Preempted, 710 * US);
    assert_eq!(policy.task_dequeue(0, 711 * US).unwrap().task, Task(1), "back on its level");
    assert_eq!(policy.preempt_at(0, &running, None), Some(1_410 * US), "when it is old enough");
}

/// One worker with all of `tasks` to run for ever, for `span`; it stops them when the policy says
/// so, in the runtime's order of calls. How long each has run.
fn contend(policy: &dyn Policy, tasks: u32, span: Time) -> Vec<Time> {
    let mut ran = vec![0; tasks as usize];
    enqueue(policy, Place::Local(0), Why::New, 0..tasks);
    let mut now = 0;
    let mut pick = policy.task_dequeue(0, now).unwrap();
    while now < span {
        let Pick { task, class } = pick;
        let at = policy.preempt_at(0, &Running { task, since: now, class }, None);
        let at = at.expect("others wait").max(now + 1);
        pick = policy.task_dequeue(0, at).unwrap();
        ran[task.0 as usize] += at - now;
        now = at;
        policy.task_enqueue(Place::Local(0), task, Why::Preempted, now);
    }
    ran
}

/// A task that was dispatched for its age has its quantum, also where the clock asks `preempt_at`
/// all the time.
#[test]
fn aging_prevents_starvation() {
    for priorities in [&[1, 3][..], &[0, 7], &[0, 3, 3, 7, 7]] {
        let policy = with_priorities("priority:quantum=50us,max-age=1ms", 1, priorities);
        let span = 1_000_000 * US;
        let ran = contend(&*policy, priorities.len() as u32, span);
        let highest = *priorities.iter().max().unwrap();
        for (&priority, &ran) in priorities.iter().zip(&ran) {
            // A quantum in so many climbs, and somewhat later where others are there before it.
            let wait = Time::from(highest - priority) * 1_000 * US + 50 * US;
            let least = span / (wait + 10 * 50 * US) * 50 * US;
            assert!(ran >= least * 9 / 10, "{priorities:?}, {priority}: {ran} of {least}");
        }
    }
}

/// What an urgent task stops before the end of its quantum keeps its age, so that it is soon
/// stopped no more.
#[test]
fn who_is_stopped_before_its_quantum_keeps_its_age() {
    let policy = with_priorities("priority:quantum=50us,max-age=100us", 1, &[1, 4, 7]);
    let at = |since| {
        let running = Running { task: Task(0), since, class: Class::Fresh };
        policy.preempt_at(0, &running, None)
    };
    // After 300 us it has climbed to 4, and is the oldest there.
    policy.task_enqueue(Place::Local(0), Task(0), Why::New, 0);
    policy.task_enqueue(Place::Local(0), Task(1), Why::New, 250 * US);
    assert_eq!(policy.task_dequeue(0, 300 * US).unwrap().task, Task(0));
    assert_eq!(at(300 * US), Some(350 * US), "it has its quantum");
    // A more urgent one comes, runs, and comes again later.
    policy.task_enqueue(Place::Shared, Task(2), Why::New, 310 * US);
    assert_eq!(at(300 * US), Some(300 * US));
    assert_eq!(policy.task_dequeue(0, 310 * US).unwrap().task, Task(2));
    policy.task_enqueue(Place::Local(0), Task(0), Why::Preempted, 310 * US);
    assert_eq!(policy.task_dequeue(0, 610 * US).unwrap().task, Task(0));
    policy.task_enqueue(Place::Shared, Task(2), Why::New, 620 * US);
    assert_eq!(at(610 * US), Some(660 * US), "nothing is above it now");
    // It has had its quantum, and begins anew.
    assert_eq!(policy.task_dequeue(0, 660 * US).unwrap().task, Task(1), "the oldest at the top");
    policy.task_enqueue(Place::Local(0), Task(0), Why::Preempted, 660 * US);
    assert_eq!(drain(&*policy, 0, 670 * US), [2, 0]);
}

#[test]
fn priorities_change_while_tasks_wait_and_run() {
    let policy = with_priorities("priority:quantum=10us,max-age=none", 1, &[3, 3, 3, 5]);
    let at = |task| {
        let running = Running { task: Task(task), since: 0, class: Class::Fresh };
        policy.preempt_at(0, &running, None)
    };
    enqueue(&*policy, Place::Local(0), Why::New, 0..3);
    assert_eq!(policy.task_dequeue(0, 0).unwrap().task, Task(0));
    assert_eq!(at(0), Some(10 * US));
    // One that waits becomes more urgent than what runs, then the other way about.
    policy.set_priority(Task(2), 6);
    assert_eq!((at(0), policy.waiting()), (Some(0), 2));
    policy.set_priority(Task(0), 7);
    assert_eq!(at(0), None, "nothing of its level waits");
    policy.set_priority(Task(0), 0);
    assert_eq!(at(0), Some(0), "it gives way at once");
    policy.set_priority(Task(1), 99);
    assert_eq!(drain(&*policy, 0, 0), [1, 2]);
    // One that sleeps comes back on its new level.
    policy.set_priority(Task(3), 1);
    enqueue(&*policy, Place::Shared, Why::Woken, [3]);
    enqueue(&*policy, Place::Local(0), Why::Preempted, [0]);
    enqueue(&*policy, Place::Local(0), Why::Woken, [2]);
    assert_eq!(drain(&*policy, 0, 0), [2, 3, 0]);
    assert!(policy.heeds_priority() && !build("rr", 1, 1).heeds_priority());
}
