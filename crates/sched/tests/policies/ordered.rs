//! The policies that order by weight, priority, service or what a task has had: what their rules
//! come to.

use super::{
    host::{Host, Job},
    *,
};

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
