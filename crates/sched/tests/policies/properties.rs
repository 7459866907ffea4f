//! Random calls: every policy does exactly what its model does; nothing is lost, doubled or left
//! waiting.

use proptest::{prelude::*, test_runner::RngSeed};

use super::{model::Model, *};

const WORKERS: usize = 3;
const TASKS: u32 = 60;

#[derive(Clone, Debug)]
enum Step {
    /// Make the n-th of the tasks that are nowhere runnable.
    Enqueue(usize, Place, Why),
    /// Let a worker find its next task; it is nowhere afterwards.
    Next(usize),
    /// The same, and it looks at one other worker at most.
    Glance(usize),
    PreemptAt(usize, Class, Time, Option<Time>),
    Wait(Time),
}

fn step() -> impl Strategy<Value = Step> {
    let worker = 0..WORKERS;
    let place = prop_oneof![
        2 => worker.clone().prop_map(Place::Local),
        1 => Just(Place::Shared),
    ];
    let why = prop::sample::select(vec![
        Why::New,
        Why::Woken,
        Why::Yielded,
        Why::Preempted,
        Why::Preempted,
    ]);
    let class = prop::sample::select(vec![Class::Fresh, Class::Preempted]);
    let timer = prop::option::of(0..300_000u64);
    prop_oneof![
        6 => (0..TASKS as usize, place, why)
            .prop_map(|(n, place, why)| Step::Enqueue(n, place, why)),
        5 => worker.clone().prop_map(Step::Next),
        1 => worker.clone().prop_map(Step::Glance),
        2 => (worker, class, 0..100_000u64, timer)
            .prop_map(|(w, class, since, timer)| Step::PreemptAt(w, class, since, timer)),
        2 => (0..50_000u64).prop_map(Step::Wait),
    ]
}

fn spec() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "fifo",
        "rr:quantum=20us",
        "rr:quantum=none",
        "ws:quantum=20us",
        "ws:quantum=none",
        "two-queue:quantum=20us,long=100us,max-age=200us",
        "two-queue:quantum=10us,long=10us,max-age=none",
        "two-queue:quantum=none,max-age=1us",
    ])
}

/// Those without a model: what holds for every policy.
fn without_model() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "cfs:quantum=10us,latency=40us",
        "cfs:quantum=none",
        "eevdf:quantum=10us",
        "eevdf:quantum=none",
        "shinjuku:quantum=20us",
        "shinjuku-shenango:quantum=20us,delay=5us",
        "priority:quantum=20us,max-age=100us",
        "priority:quantum=20us,max-age=none",
        "las:quantum=10us",
        "adaptive:quantum=5us,window=50us",
        "two-queue:quantum=20us,max-age=100us,history=5us",
        "two-queue:quantum=none,max-age=none,history=5us",
    ])
}

/// Attributes that differ from task to task.
fn attributes(task: u32) -> Attributes {
    Attributes {
        weight: [1, 50, 100, 1_000, 10_000][task as usize % 5],
        priority: (task % 8) as u8,
        service: if task.is_multiple_of(3) { Service::BestEffort } else { Service::default() },
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        rng_seed: RngSeed::Fixed(1),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn policies_follow_their_models(
        text in spec(),
        workers in 1..=WORKERS,
        steps in prop::collection::vec(step(), 1..500),
    ) {
        let spec: Spec = text.parse().unwrap();
        let policy = build(text, workers, TASKS);
        let mut model = Model::new(&spec, workers, TASKS);
        let mut nowhere: Vec<u32> = (0..TASKS).collect();
        let mut now = 0;
        for step in steps {
            match step {
                Step::Enqueue(n, place, why) => {
                    if nowhere.is_empty() {
                        continue;
                    }
                    let place = match place {
                        Place::Local(worker) => Place::Local(worker % workers),
                        Place::Shared => Place::Shared,
                    };
                    let task = nowhere.swap_remove(n % nowhere.len());
                    policy.task_enqueue(place, Task(task), why, now);
                    model.enqueue(place, task, why, now);
                }
                Step::Next(worker) => {
                    let worker = worker % workers;
                    let mut pick = policy.task_dequeue(worker, now);
                    model.dequeue(worker, now, pick).map_err(TestCaseError::fail)?;
                    if pick.is_none() {
                        pick = policy.balance(worker, now);
                        model.balance(worker, now, pick).map_err(TestCaseError::fail)?;
                        // Work conservation: who finds nothing leaves nothing.
                        prop_assert!(pick.is_some() || model.waiting() == 0);
                    }
                    nowhere.extend(pick.map(|pick| pick.task.0));
                }
                Step::Glance(worker) => {
                    let worker = worker % workers;
                    let mut pick = policy.task_dequeue(worker, now);
                    model.dequeue(worker, now, pick).map_err(TestCaseError::fail)?;
                    if pick.is_none() {
                        pick = policy.glance(worker, now);
                        model.glance(worker, now, pick).map_err(TestCaseError::fail)?;
                    }
                    nowhere.extend(pick.map(|pick| pick.task.0));
                }
                Step::PreemptAt(worker, class, since, timer) => {
                    let worker = worker % workers;
                    let run = running(class, since);
                    let at = policy.preempt_at(worker, &run, timer);
                    prop_assert_eq!(at, model.preempt_at(worker, &run, timer));
                    prop_assert!(at.is_none() || timer.is_some() || model.waiting() > 0);
                }
                Step::Wait(time) => now += time,
            }
            prop_assert_eq!(policy.waiting(), model.waiting());
            for worker in 0..workers {
                prop_assert_eq!(policy.has_work(worker), model.waiting() > 0);
                prop_assert_eq!(policy.has_work_at_hand(worker), model.at_hand(worker) > 0);
                prop_assert_eq!(policy.fresh_waits(worker), model.fresh_waits(worker));
            }
        }
        // All that is left comes out, once, to whichever worker asks.
        nowhere.extend(drain(&*policy, 0, now));
        nowhere.sort_unstable();
        prop_assert_eq!(nowhere, (0..TASKS).collect::<Vec<_>>());
    }

    /// Nothing is lost, doubled, invisible or left behind, whatever the weights and priorities;
    /// nobody is stopped for nothing; accounts are kept of running times that are small, large, or
    /// none.
    #[test]
    fn every_policy_conserves_work(
        text in without_model(),
        workers in 1..=WORKERS,
        steps in prop::collection::vec((step(), 0..200_000u64), 1..400),
    ) {
        let policy = build(text, workers, TASKS);
        (0..TASKS).for_each(|task| policy.task_init(Task(task), &attributes(task), 0));
        let mut nowhere: Vec<u32> = (0..TASKS).collect();
        let mut on: Vec<Option<(Task, Time)>> = vec![None; workers];
        let mut waiting = std::collections::BTreeSet::new();
        let mut now = 0;
        let stop = |worker: usize, now: Time, on: &mut [Option<(Task, Time)>]| {
            let (task, since) = on[worker].take()?;
            if policy.accounts() {
                policy.task_stopped(worker, task, now - since);
            }
            Some(task.0)
        };
        for (step, span) in steps {
            match step {
                Step::Enqueue(n, place, why) => {
                    if nowhere.is_empty() {
                        continue;
                    }
                    let place = match place {
                        Place::Local(worker) => Place::Local(worker % workers),
                        Place::Shared => Place::Shared,
                    };
                    let task = nowhere.swap_remove(n % nowhere.len());
                    policy.task_enqueue(place, Task(task), why, now);
                    waiting.insert(task);
                }
                Step::Next(worker) => {
                    let worker = worker % workers;
                    // What runs stops first, and rests for a while.
                    nowhere.extend(stop(worker, now, &mut on));
                    match next(&*policy, worker, now) {
                        Some(pick) => {
                            let waited = waiting.remove(&pick.task.0);
                            prop_assert!(waited, "{:?} did not wait", pick.task);
                            on[worker] = Some((pick.task, now));
                        }
                        None => prop_assert!(waiting.is_empty(), "work is left behind"),
                    }
                }
                Step::Glance(worker) => {
                    let worker = worker % workers;
                    nowhere.extend(stop(worker, now, &mut on));
                    let own = policy.task_dequeue(worker, now);
                    if let Some(pick) = own.or_else(|| policy.glance(worker, now)) {
                        let waited = waiting.remove(&pick.task.0);
                        prop_assert!(waited, "{:?} did not wait", pick.task);
                        on[worker] = Some((pick.task, now));
                    }
                }
                Step::PreemptAt(worker, class, _, timer) => {
                    let worker = worker % workers;
                    if let Some((task, since)) = on[worker] {
                        let at = policy.preempt_at(worker, &Running { task, since, class }, timer);
                        prop_assert!(at.is_none() || timer.is_some() || !waiting.is_empty());
                    }
                }
                Step::Wait(_) => now += span,
            }
            prop_assert_eq!(policy.waiting(), waiting.len());
            for worker in 0..workers {
                prop_assert_eq!(policy.has_work(worker), !waiting.is_empty());
                prop_assert!(!policy.has_work_at_hand(worker) || !waiting.is_empty());
            }
        }
        nowhere.extend((0..workers).filter_map(|worker| stop(worker, now, &mut on)));
        nowhere.extend(drain(&*policy, 0, now));
        nowhere.sort_unstable();
        prop_assert_eq!(nowhere, (0..TASKS).collect::<Vec<_>>());
    }
}
