//! Members of a queue in one process, one of which dies at every change that it makes.

use super::layout::{ASIDE, Entry, MOST_MEMBERS, READY};
use super::*;
use quaver_sched::random::splitmix64;
use quaver_sched::{Attributes, Place, Running, Task, Why};
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::time::{Duration, Instant};

mod accounts;
pub(super) mod death;
mod members;

const CORES: usize = 2;
const TASKS: u32 = 8;
const VICTIM: usize = 0;

/// A member's tasks as the member knows them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Known {
    None,
    Ready,
    Out,
}

struct World {
    file: OwnedFd,
    region: Arc<Region>,
    dead: Arc<Mutex<BTreeSet<u64>>>,
    stopped: Arc<Mutex<BTreeSet<u64>>>,
    views: Vec<Common>,
    tasks: Vec<[Known; TASKS as usize]>,
    running: [Option<(usize, u32)>; CORES],
    seed: u64,
}

impl World {
    fn new(policy: &str, seed: u64) -> World {
        let spec = policy.parse().expect("a policy");
        let file = Common::create(&spec, &[0, 1], TASKS).expect("memory");
        let region = Arc::new(Region::open(file.as_fd()).expect("a place, and the same code"));
        let mut world = World {
            file,
            region,
            dead: Arc::default(),
            stopped: Arc::default(),
            views: Vec::new(),
            tasks: vec![[Known::None; TASKS as usize]; 3],
            running: [None; CORES],
            seed,
        };
        world.views = (1..=3).map(|who| world.join(who)).collect();
        world
    }

    fn join(&self, who: u64) -> Common {
        let (dead, stopped) = (self.dead.clone(), self.stopped.clone());
        let look = Box::new(move |who| match who {
            _ if dead.lock().unwrap().contains(&who) => Life::Ended,
            _ if stopped.lock().unwrap().contains(&who) => Life::Stopped,
            _ => Life::Runs,
        });
        Common::join_as(self.region.clone(), who, look).expect("there is room")
    }

    fn random(&mut self, below: usize) -> usize {
        (splitmix64(&mut self.seed) % below as u64) as usize
    }

    /// One of a member's tasks of this kind, if there is one.
    fn some(&mut self, member: usize, known: Known) -> Option<u32> {
        let running = |task: u32| self.running.contains(&Some((member, task)));
        let all: Vec<u32> = (0..TASKS)
            .filter(|&t| self.tasks[member][t as usize] == known && !running(t))
            .collect();
        if all.is_empty() { None } else { Some(all[self.random(all.len())]) }
    }

    fn enqueue(&mut self, member: usize, place: Place, task: u32, why: Why) {
        // Before: should the member die in between, nobody asks.
        self.tasks[member][task as usize] = Known::Ready;
        heap::unused(|| self.views[member].task_enqueue(place, Task(task), why, 0));
    }

    fn spawn(&mut self, member: usize, place: Place) {
        if let Some(task) = self.some(member, Known::None) {
            let attributes = Attributes::default();
            heap::unused(|| self.views[member].task_init(Task(task), &attributes, 0));
            self.enqueue(member, place, task, Why::New);
        }
    }

    /// What ran on this core does no more, as its host says it.
    fn stops(&self, member: usize, core: usize, task: u32) {
        let view = &self.views[member];
        if view.accounts() {
            heap::unused(|| view.task_stopped(core, Task(task), 1000));
        }
    }

    /// The worker of this member on this core goes on.
    fn work(&mut self, member: usize, core: usize) {
        let what = self.random(7);
        let old = self.running[core];
        if what == 0 {
            return self.spawn(member, Place::Local(core));
        }
        if let (Some((_, task)), 5..) = (old, what) {
            // What it ran is over, or waits, before it asks for the next.
            self.running[core] = None;
            self.stops(member, core, task);
            if what == 5 {
                heap::unused(|| self.views[member].task_terminate(Task(task), 0));
                self.tasks[member][task as usize] = Known::None;
            }
            return;
        }
        let steals = what != 1;
        let pick = heap::unused(|| self.views[member].next(core, steals, 0));
        let away = self.views[member].is_away(core);
        match (pick, old) {
            (None, Some(_)) if !away && what < 4 => return,
            (None, None) => return heap::unused(|| self.views[member].rests(core)),
            _ => {}
        }
        let new = pick.map(|pick| (member, pick.task.0));
        if let Some((_, task)) = new {
            assert_eq!(self.tasks[member][task as usize], Known::Ready);
            self.tasks[member][task as usize] = Known::Out;
        }
        self.running[core] = new;
        if let Some((_, task)) = old {
            self.stops(member, core, task);
        }
        match old {
            None => {}
            Some((_, task)) if away || what < 3 => {
                self.enqueue(member, Place::Local(core), task, Why::Preempted);
            }
            Some((_, task)) if what == 3 => {
                heap::unused(|| self.views[member].task_terminate(Task(task), 0));
                self.tasks[member][task as usize] = Known::None;
            }
            // It waits for something.
            Some(_) => {}
        }
        if pick.is_none() {
            heap::unused(|| self.views[member].rests(core));
        }
    }

    fn step(&mut self, member: usize) {
        let core = self.random(CORES);
        let has = self.views[member].now(core).member;
        if self.random(4) == 0 {
            match self.some(member, Known::Out) {
                Some(task) => self.enqueue(member, Place::Shared, task, Why::Woken),
                None => self.spawn(member, Place::Shared),
            }
        } else if has == Some(member) {
            self.work(member, core);
        }
    }

    fn bury_victim(&mut self) {
        self.dead.lock().unwrap().insert(1);
        if !lock::is_free(&self.region.head().lock) {
            // It may have died in the middle of the policy's code.
            let (memory, ..) = self.region.policy_memory();
            // SAFETY: nobody uses the policy: the lock is held by the dead.
            unsafe { memory.cast::<u8>().write_bytes(0xa5, memory.len()) };
        }
        for core in 0..CORES {
            self.running[core] = self.running[core].filter(|&(member, _)| member != VICTIM);
        }
        heap::unused(|| self.views[1].tend());
    }

    /// No core is idle while something waits; what waits is what the members know to wait.
    fn check(&self, members: &[usize]) {
        let ready = |entry: &&Entry| entry.word.load(Relaxed) & READY != 0;
        let waiting = self.region.entries().iter().filter(ready).count();
        let known = |m: &usize| self.tasks[*m].iter().filter(|&&k| k == Known::Ready).count();
        assert_eq!(waiting, members.iter().map(known).sum::<usize>());
        let view = &self.views[1];
        let idle = (0..CORES).any(|core| view.now(core).member.is_none());
        let given = (0..CORES).filter(|&core| {
            let now = view.now(core);
            now.pick.is_some_and(|pick| view.entry(pick.task).word.load(Relaxed) & READY != 0)
        });
        let aside = |entry: &&Entry| entry.word.load(Relaxed) & ASIDE != 0;
        let aside = self.region.entries().iter().filter(aside).count();
        let there = view.waiting() + given.count() + aside;
        assert_eq!(there, waiting, "nothing is lost or there twice");
        assert!(!idle || view.waiting() == 0);
    }

    /// All that waits is run, each once.
    fn finish(&mut self, members: &[usize]) {
        for _ in 0..1000 {
            for core in 0..CORES {
                let Some(member) = self.views[1].now(core).member else { continue };
                assert!(members.contains(&member), "a core was given to the dead");
                if let Some((member, task)) = self.running[core].take() {
                    self.stops(member, core, task);
                }
                match self.views[member].next(core, true, 0) {
                    Some(pick) => {
                        let known = &mut self.tasks[member][pick.task.0 as usize];
                        assert_eq!(*known, Known::Ready);
                        *known = Known::Out;
                        self.running[core] = Some((member, pick.task.0));
                    }
                    None => self.views[member].rests(core),
                }
            }
        }
        for &member in members {
            assert!(!self.tasks[member].contains(&Known::Ready), "{:?}", self.tasks);
        }
        assert_eq!(self.views[1].waiting(), 0);
    }
}

impl Drop for World {
    fn drop(&mut self) {
        // Who has panicked may have the lock, and nobody can take it from this process.
        if std::thread::panicking() {
            self.views.drain(..).for_each(std::mem::forget);
        }
    }
}

const POLICIES: [&str; 6] = ["two-queue", "ws", "rr", "cfs", "eevdf", "priority"];

#[test]
fn everybody_gets_what_is_theirs() {
    for policy in POLICIES {
        for seed in 0..20 {
            let mut world = World::new(policy, seed);
            for _ in 0..300 {
                let member = world.random(3);
                world.step(member);
                world.check(&[0, 1, 2]);
            }
            world.finish(&[0, 1, 2]);
        }
    }
}

/// Every change of the victim is its last one, once, in many histories.
#[test]
fn whenever_one_dies_the_others_lose_nothing() {
    let (mut deaths, mut rebuilt) = (0, 0);
    for policy in POLICIES {
        for seed in 0..5 {
            for steps in (1 + seed % 3..).step_by(3) {
                let mut world = World::new(policy, seed);
                let mut died = false;
                let mut left = steps;
                for _ in 0..120 {
                    let member = world.random(3);
                    if member != VICTIM {
                        world.step(member);
                        continue;
                    }
                    if died {
                        continue;
                    }
                    death::in_steps(left);
                    let result = catch_unwind(AssertUnwindSafe(|| world.step(VICTIM)));
                    left = death::steps_left();
                    death::in_steps(0);
                    if let Err(why) = result {
                        assert_eq!(why.downcast_ref(), Some(&"death"));
                        died = true;
                        deaths += 1;
                        world.bury_victim();
                        world.check(&[1, 2]);
                    }
                }
                if !died {
                    break;
                }
                rebuilt += world.views[1].rebuilt();
                let new = world.join(4);
                assert_eq!(new.number(), VICTIM, "its number is free");
                drop(new);
                world.finish(&[1, 2]);
            }
        }
    }
    assert!(deaths > 500 && rebuilt > 100, "{deaths} deaths, {rebuilt} of them with the lock");
}

/// Who is stopped keeps no core, and has everything when it goes on.
#[test]
fn whoever_is_stopped_the_others_go_on() {
    for policy in POLICIES {
        for seed in 0..10 {
            let mut world = World::new(policy, seed);
            for _ in 0..20 {
                for _ in 0..30 {
                    let member = world.random(3);
                    world.step(member);
                }
                world.stopped.lock().unwrap().insert(1);
                heap::unused(|| world.views[1].tend());
                // It goes on with what runs, when it is let.
                let stopped = world.running.map(|r| r.filter(|&(member, _)| member == VICTIM));
                for core in 0..CORES {
                    assert_ne!(world.views[1].now(core).member, Some(VICTIM));
                    world.running[core] = world.running[core].filter(|&(m, _)| m != VICTIM);
                }
                for _ in 0..30 {
                    let member = 1 + world.random(2);
                    world.step(member);
                    world.check(&[0, 1, 2]);
                }
                world.stopped.lock().unwrap().clear();
                for (core, running) in stopped.into_iter().enumerate() {
                    // It sees that the core is away, or not its own.
                    if let Some((_, task)) = running {
                        world.stops(VICTIM, core, task);
                        world.enqueue(VICTIM, Place::Local(core), task, Why::Preempted);
                    }
                }
                heap::unused(|| world.views[VICTIM].tend());
                world.check(&[0, 1, 2]);
            }
            world.finish(&[0, 1, 2]);
        }
    }
}

/// What runs when its application goes on gives way to what its core was given by then.
#[test]
fn a_core_that_was_given_another_task_runs_it() {
    let world = World::new("two-queue", 1);
    let view = &world.views[VICTIM];
    for task in [0, 1, 2] {
        view.task_init(Task(task), &Attributes::default(), 0);
        view.task_enqueue(Place::Shared, Task(task), Why::New, 0);
    }
    let running = [0, 1].map(|core| {
        let pick = view.next(core, true, 0).expect("three tasks for two cores");
        Running { task: pick.task, class: pick.class, since: 7 }
    });
    let is_due = |core: usize| view.preempt_at(core, &running[core], None) == Some(7);
    assert!(!is_due(0) && !is_due(1), "not before a quantum is over");
    world.stopped.lock().unwrap().insert(1);
    world.views[1].tend();
    world.stopped.lock().unwrap().clear();
    view.tend();
    let given = usize::from(view.is_given(1));
    assert!(view.is_given(given) && is_due(given) && !is_due(1 - given));
    assert_eq!(view.next(given, true, 0).map(|pick| pick.task), Some(Task(2)));
}

/// One who dies with a core, one who dies before it has woken the worker to whom it gave a core,
/// and one who has only filled that one's seat: the sleeper has it soon, watched or not.
#[test]
fn whoever_sleeps_is_looked_after() {
    for case in 0..6 {
        let (watched, gives, calls) = (case % 2 == 1, case >= 2, case >= 4);
        let mut world = World::new("rr", 1);
        let [victim, sleeper, _] = &world.views[..] else { unreachable!() };
        let enqueue = |view: &Common, task, place, why| {
            view.task_enqueue(place, Task(task), why, 0);
        };
        for task in [0, 1] {
            victim.task_init(Task(task), &Attributes::default(), 0);
            enqueue(victim, task, Place::Shared, Why::New);
        }
        let mut pick = (0..CORES).filter_map(|core| victim.next(core, true, 0));
        let running = pick.next().expect("it has all cores").task.0;
        assert!(pick.next().is_some());
        std::thread::scope(|s| {
            if watched {
                s.spawn(|| sleeper.watch());
                while !sleeper.is_watched() {
                    std::thread::yield_now();
                }
            }
            let sleep = s.spawn(|| sleeper.wait(0, || true, None));
            while !sleeper.is_asleep(0) {
                std::thread::yield_now();
            }
            std::thread::sleep(watch::EVERY / 2);
            sleeper.task_init(Task(0), &Attributes::default(), 0);
            enqueue(sleeper, 0, Place::Shared, Why::New);
            assert!(!sleeper.is_given(0));
            if gives {
                enqueue(victim, running, Place::Local(0), Why::Yielded);
                assert_eq!(victim.next(0, true, 0), None);
                if calls {
                    victim.seat(1, 0).word.store(1, Relaxed);
                }
            } else {
                world.dead.lock().unwrap().insert(1);
            }
            sleep.join().expect("no panic");
            assert!(sleeper.is_given(0), "watched {watched}, gives {gives}, calls {calls}");
            sleeper.leave();
        });
        world.views.clear();
    }
}

/// A worker rests while the task that it ran becomes ready: the core has it, then or at once.
#[test]
fn a_core_is_not_left_with_nothing() {
    let world = World::new("rr", 1);
    let view = &world.views[0];
    let ready = |task, why| view.task_enqueue(Place::Shared, Task(task), why, 0);
    for task in [0, 1] {
        view.task_init(Task(task), &Attributes::default(), 0);
        ready(task, Why::New);
    }
    // One is for a worker that computes, the other for one that has nothing else.
    let mut takes = (0..CORES).map(|core| view.next(core, true, 0).expect("for each").task.0);
    let (core, task) = (1, takes.nth(1).expect("two cores"));
    let blocks = AtomicBool::new(false);
    let worker = || {
        for _ in 0..200_000 {
            blocks.store(true, Release);
            while view.next(core, true, 0).is_none() {
                view.rests(core);
                // From here on it looks only for what it is given.
                let until = Instant::now() + Duration::from_secs(10);
                while !view.is_given(core) {
                    assert!(Instant::now() < until, "{:?}", view.now(core));
                    std::hint::spin_loop();
                }
            }
        }
    };
    std::thread::scope(|s| {
        let (worker, mut seed) = (s.spawn(worker), 1);
        while !worker.is_finished() {
            if blocks.swap(false, AcqRel) {
                (0..splitmix64(&mut seed) % 20).for_each(|_| std::hint::spin_loop());
                ready(task, Why::Woken);
            }
        }
    });
}
