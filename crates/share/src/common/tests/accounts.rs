//! What a policy counts of tasks that it has chosen.

use super::*;
use quaver_sched::{Class, DEFAULT_WEIGHT};

/// Members come and go, with a task that runs, with tasks that wait and while others' wait; and one
/// dies, with the lock or without. Nothing of them counts, and what ran meanwhile still does: two
/// tasks of other weights have their shares.
#[test]
fn nothing_of_the_dead_counts() {
    for (core, with_lock) in [(0, false), (1, false), (0, true), (1, true)] {
        let world = World::new("eevdf:quantum=50us", 1);
        let slice = 50 * u64::from(world.region.head().ticks_per_us.load(Relaxed));
        let [victim, view, third] = &world.views[..] else { unreachable!() };
        let new = |view: &Common, core, task| {
            view.task_init(Task(task), &Attributes::default(), ticks());
            view.task_enqueue(Place::Local(core), Task(task), Why::New, ticks());
        };
        let next = |view: &Common, core| view.next(core, false, ticks()).map(|pick| pick.task);
        let some = |view: &Common| (0..TASKS).for_each(|task| new(view, core, task));
        let others = || (4..8).for_each(|who| some(&world.join(who)));

        for core in 0..CORES {
            new(view, core, core as u32);
            assert_eq!(next(view, core), Some(Task(core as u32)));
        }
        let (first, second) = (Task(core as u32), Task(2));
        view.task_stopped(core, first, slice);
        assert_eq!(next(view, core), None);
        view.rests(core);
        others();
        some(third);
        others();
        third.leave();
        view.task_enqueue(Place::Local(core), first, Why::Woken, ticks());
        assert_eq!(next(view, core), Some(first));
        some(victim);
        if with_lock {
            std::mem::forget(victim.lock());
        }
        world.dead.lock().unwrap().insert(1);
        view.tend();
        assert_eq!(view.rebuilt(), u64::from(with_lock));

        let thrice = Attributes { weight: 3 * DEFAULT_WEIGHT, ..Attributes::default() };
        view.task_init(second, &thrice, ticks());
        view.task_enqueue(Place::Local(core), second, Why::New, ticks());
        let (mut task, mut ran, mut now, mut has) = (first, 100 * slice, ticks(), [0; 2]);
        for _ in 0..400 {
            now += ran;
            view.task_stopped(core, task, ran);
            view.task_enqueue(Place::Local(core), task, Why::Preempted, now);
            task = view.next(core, false, now).expect("both wait").task;
            let running = Running { task, class: Class::Fresh, since: now };
            let until = view.preempt_at(core, &running, None).expect("the other one waits");
            ran = until - now;
            has[usize::from(task == second)] += ran;
        }
        let ratio = has[1] as f64 / has[0] as f64;
        assert!((2.7..3.3).contains(&ratio), "{has:?}, core {core}, with the lock: {with_lock}");
    }
}
