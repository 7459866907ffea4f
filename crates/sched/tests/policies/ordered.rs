//! The policies that order by weight or by what a task has had, and the one whose quantum adapts:
//! what their rules come to.

use super::*;

const US: Time = 1_000;

/// What came of [`share`].
struct Shares {
    /// How long each task has run.
    ran: Vec<Time>,
    /// The longest time that one waited.
    longest_wait: Time,
    /// The time that the policy gave at each dispatch.
    slices: Vec<Time>,
}

/// One worker that always has all of `tasks` to run, for `span`. It stops them when the policy says
/// so, or up to `late` later, and never earlier than nine tenths of that.
fn share(policy: &dyn Policy, tasks: &[Attributes], span: Time, late: Time) -> Shares {
    let mut ran = vec![0; tasks.len()];
    let mut waits_since = vec![0; tasks.len()];
    let mut slices = Vec::new();
    let (mut now, mut longest_wait) = (0, 0);
    for (task, attributes) in tasks.iter().enumerate() {
        policy.task_init(Task(task as u32), attributes, 0);
        policy.task_enqueue(Place::Local(0), Task(task as u32), Why::New, 0);
    }
    let mut pick = policy.task_dequeue(0, 0).unwrap();
    while now < span {
        let Pick { task, class } = pick;
        longest_wait = longest_wait.max(now - waits_since[task.0 as usize]);
        let at = policy.preempt_at(0, &Running { task, since: now, class }, None);
        let at = at.expect("others wait");
        slices.push(at - now);
        let earlier = slices.len() as Time * 7_919 % (late / 10 + 1);
        let at = at.max(now + 1) + late - earlier;
        // In the order of the runtime: the next is chosen before the account of the last is
        // settled.
        pick = policy.task_dequeue(0, at).unwrap();
        policy.task_stopped(0, task, at - now);
        ran[task.0 as usize] += at - now;
        now = at;
        waits_since[task.0 as usize] = now;
        policy.task_enqueue(Place::Local(0), task, Why::Preempted, now);
    }
    Shares { ran, longest_wait, slices }
}

fn weights(weights: &[u32]) -> Vec<Attributes> {
    weights.iter().map(|&weight| Attributes { weight, ..Attributes::default() }).collect()
}

#[test]
fn time_is_shared_by_weight() {
    for spec in ["cfs:quantum=10us,latency=40us", "eevdf:quantum=10us"] {
        for given in [&[100, 100, 100][..], &[100, 200, 700], &[1_000, 10, 90, 400], &[1, 10_000]] {
            let policy = build(spec, 1, given.len() as u32);
            let span = 2_000_000 * US;
            let ran = share(&*policy, &weights(given), span, 0).ran;
            let all: u32 = given.iter().sum();
            for (&weight, &ran) in given.iter().zip(&ran) {
                let fair = span as f64 * f64::from(weight) / f64::from(all);
                let error = (ran as f64 - fair).abs();
                // Not more than what the others get while the lightest has two slices, however long
                // the run.
                let lightest = f64::from(*given.iter().min().unwrap());
                let most = 20.0 * US as f64 * f64::from(all) / lightest;
                assert!(error <= most, "{spec} {given:?}: {ran} of {fair}");
            }
        }
    }
}

/// Equal weights: each waits for one slice of every other; under EEVDF, which bounds the lag by a
/// slice, for two.
#[test]
fn equal_tasks_wait_for_one_round() {
    for (spec, slice) in [("cfs:quantum=10us,latency=10us", 10), ("eevdf:quantum=10us", 20)] {
        let policy = build(spec, 1, 8);
        let longest = share(&*policy, &weights(&[100; 8]), 100_000 * US, 0).longest_wait;
        assert!(longest <= 8 * slice * US, "{spec}: {longest}");
    }
}

/// Where a preemption takes as long as a slice, tasks are charged for twice what they were given.
/// Those that run next have whole slices all the same: no storm of preemptions comes of it, and
/// what they have more makes up for the lateness.
#[test]
fn late_stops_shorten_nobodys_slice() {
    let quantum = 12_500;
    // EEVDF's averages are rounded.
    let rounding = 10;
    for late in [0, US, 12 * US, 25 * US] {
        for tasks in [2, 3, 4, 8] {
            let slices = |spec: &str| {
                let policy = build(spec, 1, tasks);
                let equal = weights(&vec![100; tasks as usize]);
                share(&*policy, &equal, 200_000 * US, late).slices
            };
            let cfs = slices("cfs:quantum=12500ns,latency=50us");
            let mean = cfs.iter().sum::<Time>() / cfs.len() as Time;
            let fair = (50 * US / Time::from(tasks)).max(quantum);
            assert!(mean.abs_diff(fair) <= fair / 20, "cfs, {tasks} tasks, {late} late: {mean}");
            assert!(cfs.iter().all(|&slice| slice >= quantum), "cfs, {tasks} tasks, {late} late");

            let eevdf = slices("eevdf:quantum=12500ns");
            let most = 2 * quantum + late;
            let whole = |slice: Time| {
                (quantum..=most + rounding).contains(&slice) && slice % quantum <= rounding
            };
            let odd = eevdf.iter().find(|&&slice| !whole(slice));
            assert!(odd.is_none(), "eevdf, {tasks} tasks, {late} late: {odd:?}");
        }
    }
}

/// A task that sleeps most of the time gets the processor soon after it wakes, though others never
/// sleep.
#[test]
fn who_sleeps_runs_soon_after_waking() {
    // EEVDF promises the end of its slice among nine.
    for (spec, bound) in [
        ("cfs:quantum=10us,latency=80us", 20),
        ("eevdf:quantum=10us", 90),
        ("las:quantum=10us", 20),
    ] {
        let policy = build(spec, 1, 9);
        let hog = |task| {
            policy.task_init(Task(task), &Attributes::default(), 0);
            policy.task_enqueue(Place::Local(0), Task(task), Why::New, 0);
        };
        (0..9).for_each(hog);
        let (mut now, mut asleep_until, mut worst) = (0, None::<Time>, 0);
        let mut woken_at = None;
        let mut runs = 0;
        while runs < 200 {
            if asleep_until.is_some_and(|until| until <= now) {
                asleep_until = None;
                woken_at = Some(now);
                policy.task_enqueue(Place::Local(0), Task(0), Why::Woken, now);
            }
            let Pick { task, class } = policy.task_dequeue(0, now).unwrap();
            if task == Task(0) {
                // It runs for a microsecond and sleeps for a millisecond.
                worst = worst.max(woken_at.take().map_or(0, |at| now - at));
                now += US;
                policy.task_stopped(0, task, US);
                asleep_until = Some(now + 1_000 * US);
                runs += 1;
                continue;
            }
            let at = policy.preempt_at(0, &Running { task, since: now, class }, None).unwrap();
            // The clock asks again when the sleeper wakes; here it wakes at the end of a slice.
            policy.task_stopped(0, task, at - now);
            now = at;
            policy.task_enqueue(Place::Local(0), task, Why::Preempted, now);
        }
        assert!(worst <= bound * US, "{spec}: {worst}");
    }
}

/// What comes while a task runs begins where that has got to, not where it began: the task does not
/// pay for the time before when it is woken again.
#[test]
fn what_has_run_alone_is_not_held_against_a_task() {
    for spec in ["cfs:quantum=10us,latency=40us", "eevdf:quantum=10us"] {
        let policy = build(spec, 1, 2);
        let init = |task| policy.task_init(Task(task), &Attributes::default(), 0);
        (0..2).for_each(init);
        let alone = 2_000 * US;
        policy.task_enqueue(Place::Local(0), Task(0), Why::New, 0);
        assert_eq!(policy.task_dequeue(0, 0).unwrap().task, Task(0));
        // Another comes just before the first one sleeps, and the first is woken soon.
        policy.task_enqueue(Place::Local(0), Task(1), Why::New, alone - US);
        let next = policy.task_dequeue(0, alone).unwrap();
        policy.task_stopped(0, Task(0), alone);
        assert_eq!(next.task, Task(1), "{spec}");
        let woken = alone + US;
        policy.task_enqueue(Place::Local(0), Task(0), Why::Woken, woken);
        let running = Running { task: Task(1), since: alone, class: next.class };
        let at = policy.preempt_at(0, &running, None).unwrap();
        assert!(at <= woken + 60 * US, "{spec}: after {} us", (at - woken) / US);
        policy.task_stopped(0, Task(1), at - alone);
        policy.task_enqueue(Place::Local(0), Task(1), Why::Preempted, at);
        assert_eq!(policy.task_dequeue(0, at).unwrap().task, Task(0), "{spec}");
    }
}

#[test]
fn an_idle_worker_takes_from_the_longest_queue() {
    for spec in ["cfs", "eevdf"] {
        let policy = build(spec, 3, 20);
        enqueue(&*policy, Place::Local(0), Why::New, [0]);
        enqueue(&*policy, Place::Local(1), Why::New, 1..6);
        assert_eq!(policy.task_dequeue(2, 0), None);
        let stolen = policy.balance(2, 0).unwrap().task.0;
        assert!((1..6).contains(&stolen), "{spec}: {stolen}");
        policy.task_stopped(2, Task(stolen), 5 * US);
        assert_eq!(policy.waiting(), 5);
    }
}

/// An arrival from elsewhere does not wait until a worker has nothing of its own.
#[test]
fn shared_work_is_shared_out() {
    for spec in ["cfs:quantum=10us,latency=10us", "eevdf:quantum=10us"] {
        let policy = build(spec, 1, 10);
        enqueue(&*policy, Place::Local(0), Why::New, 0..4);
        enqueue(&*policy, Place::Shared, Why::New, [9]);
        let mut order = vec![];
        for _ in 0..5 {
            let task = policy.task_dequeue(0, 0).unwrap().task;
            policy.task_stopped(0, task, 10 * US);
            policy.task_enqueue(Place::Local(0), task, Why::Preempted, 0);
            order.push(task.0);
        }
        assert!(order.contains(&9), "{spec}: {order:?}");
    }
}

#[test]
fn las_prefers_who_has_had_least() {
    let policy = build("las:quantum=10us", 1, 4);
    enqueue(&*policy, Place::Local(0), Why::New, [0, 1]);
    let at = |task, since| {
        policy.preempt_at(0, &Running { task: Task(task), since, class: Class::Fresh }, None)
    };
    assert_eq!(policy.task_dequeue(0, 0).unwrap().task, Task(0));
    assert_eq!(at(0, 0), Some(10 * US));
    policy.task_stopped(0, Task(0), 30 * US);
    enqueue(&*policy, Place::Local(0), Why::Preempted, [0]);
    // The other may run until it has had as much.
    assert_eq!(policy.task_dequeue(0, 0).unwrap().task, Task(1));
    assert_eq!(at(1, 0), Some(30 * US));
    // A new one stops it after its quantum and runs first.
    enqueue(&*policy, Place::Shared, Why::New, [2]);
    assert_eq!(at(1, 0), Some(10 * US));
    policy.task_stopped(0, Task(1), 12 * US);
    enqueue(&*policy, Place::Local(0), Why::Preempted, [1]);
    assert_eq!(drain(&*policy, 0, 0), [2, 1, 0]);
    // Who was woken begins anew.
    enqueue(&*policy, Place::Local(0), Why::Yielded, [0]);
    enqueue(&*policy, Place::Local(0), Why::Woken, [1]);
    assert_eq!(drain(&*policy, 0, 0), [1, 0]);
}

/// The quantum follows the service times within a few windows: short beside few long tasks, long
/// when all are alike.
#[test]
fn the_adaptive_quantum_follows_within_milliseconds() {
    let policy = build("adaptive:quantum=2us,max=200us,window=1ms,cost=500ns", 1, 4);
    let mut now = 0;
    let quantum = |now| {
        policy.task_enqueue(Place::Local(0), Task(1), Why::New, now);
        let running = Running { task: Task(0), since: now, class: Class::Fresh };
        let at = policy.preempt_at(0, &running, None).unwrap();
        assert_eq!(policy.task_dequeue(0, now).unwrap().task, Task(1));
        at - now
    };
    let mut serve = |lengths: &mut dyn FnMut(u32) -> Time, span: Time| {
        let end = now + span;
        let mut number = 0;
        while now < end {
            let length = lengths(number);
            policy.task_enqueue(Place::Local(0), Task(2), Why::Woken, now);
            assert_eq!(policy.task_dequeue(0, now).unwrap().task, Task(2));
            // Two thirds of the time the worker is busy.
            now += length;
            policy.task_stopped(0, Task(2), length);
            now += length / 2;
            number += 1;
        }
        now
    };
    let bimodal = serve(&mut |n| if n % 200 == 199 { 500 * US } else { US }, 10_000 * US);
    let short = quantum(bimodal);
    let alike = serve(&mut |_| 100 * US, 40_000 * US);
    let long = quantum(alike);
    let again = serve(&mut |n| if n % 200 == 199 { 500 * US } else { US }, 10_000 * US);
    let short_again = quantum(again);
    assert!(short < 20 * US && short_again < 20 * US, "{short} {short_again}");
    assert!(long > 80 * US, "{long}");
}
