//! A common queue of processes, some of which are killed at any instant. With `QUAVER_TEST_MODULE`
//! cores change hands by the kernel module.

// The other tests use the rest of it.
#[allow(dead_code)]
mod common;

use common::{Actor, Here, Place, cpus, is_actor, left, say, signal, socket, soon, start};
use quaver_sched::random::splitmix64;
use quaver_sched::share::Membership;
use quaver_sched::{Attributes, Place as At, Policy, Task, Why};
use quaver_share::broker::Options;
use quaver_share::common::Common;
use quaver_share::{class, common_queue};
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

const TASKS: u32 = 6;

/// Until it is dropped: no other test runs. Each keeps all CPUs busy, and together their
/// applications wait for each other far more than they work.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn now() -> u64 {
    // SAFETY: every x86-64 has this instruction.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// What the calling thread has computed, in nanoseconds.
fn computed() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

fn common() -> Arc<Common> {
    let at = Membership::common().at(socket().to_str().expect("UTF-8"));
    let file = common_queue(&at).unwrap_or_else(|e| panic!("{e}"));
    Arc::new(Common::join(file).unwrap_or_else(|e| panic!("{e}")))
}

/// A worker: runs what it is given for a moment, and puts it back.
fn work(common: &Common, core: usize, runs: &[AtomicU32]) {
    class::pin(&[common.cpus()[core]]).expect("a CPU of this process");
    loop {
        let pick = common.next(core, false, now()).or_else(|| common.next(core, true, now()));
        let Some(pick) = pick else {
            common.rests(core);
            common.wait(core, || true, None);
            continue;
        };
        let begun = computed();
        runs[pick.task.0 as usize].fetch_add(1, Relaxed);
        for _ in 0..200 {
            std::hint::spin_loop();
        }
        if common.accounts() {
            // Not what others do on this CPU meanwhile: by that one may be a second ahead.
            common.task_stopped(core, pick.task, computed() - begun);
        }
        common.task_enqueue(At::Local(core), pick.task, Why::Yielded, now());
    }
}

/// Has tasks that run for ever; says so each time that all have run a hundred times more.
#[test]
#[ignore = "an actor of the other tests"]
fn runs_for_ever() {
    if !is_actor() {
        return;
    }
    let common = common();
    let runs: Arc<[AtomicU32]> = (0..TASKS).map(|_| AtomicU32::new(0)).collect();
    for core in 0..common.cpus().len() {
        let (common, runs) = (common.clone(), runs.clone());
        std::thread::spawn(move || work(&common, core, &runs));
    }
    // Both must do, beside each other too.
    if std::process::id().is_multiple_of(2) {
        let common = common.clone();
        std::thread::spawn(move || common.watch());
    }
    for task in 0..TASKS {
        common.task_init(Task(task), &Attributes::default(), now());
        common.task_enqueue(At::Shared, Task(task), Why::New, now());
    }
    for round in 1.. {
        while runs.iter().any(|n| n.load(Relaxed) < 100 * round) {
            std::thread::sleep(Duration::from_millis(1));
        }
        say(format!("round {round} {} {}", common.switches(), common.rebuilt()));
    }
}

fn options(place: &Place, policy: &str) -> Options {
    let queue = Some(policy.parse().expect("a policy"));
    Options { queue, ..Options::new(place.socket(), cpus()) }
}

/// With the module where it must be there.
fn by_what_must_be(broker: &Here) {
    let by = broker.status().queue.expect("there is one").switches_by;
    let must = std::env::var_os("QUAVER_TEST_MODULE").is_some();
    assert!(!must || by == "module", "cores change hands by the {by}");
}

/// Three more rounds from now on: what was printed before is read first.
fn goes_on(actor: &mut Actor) -> Vec<u64> {
    let begun = Instant::now();
    let mut line = String::new();
    let mut fresh = 0;
    while fresh < 3 {
        let asked = Instant::now();
        line = actor.line("round ").expect("it lives");
        // One that had to be waited for.
        fresh += u32::from(asked.elapsed() > Duration::from_micros(100));
        assert!(begun.elapsed() < Duration::from_secs(30), "no progress: {line}");
    }
    line.split_whitespace().map(|word| word.parse().expect("a number")).collect()
}

#[test]
fn applications_take_turns_on_the_cores() {
    let _alone = alone();
    let place = Place::new("queue", "q.sock");
    let broker = Here::start(options(&place, "rr:quantum=50us"));
    let mut actors = [(); 2].map(|()| start("runs_for_ever", &place.socket()));
    // One may begin long before the other.
    for actor in &mut actors {
        actor.line("round ").expect("it begins");
    }
    for actor in &mut actors {
        let said = goes_on(actor);
        assert!(said[1] > 100, "cores change hands: {said:?}");
    }
    let queue = || broker.status().queue.expect("there is one");
    soon("what each has", || {
        let queue = queue();
        queue.applications.iter().filter(|member| member.share_percent > 0.0).count() == 2
            && queue.applications.iter().any(|member| !member.cpus.is_empty())
    });
    soon("how often cores change hands", || queue().switches_per_s > 0);
    soon("how long that takes", || queue().wait_us.is_some_and(|us| us > 0.0));
    // Nobody is left who would find out that they are dead.
    drop(actors);
    assert_eq!(queue().applications, []);
    broker.end();
    assert_eq!(left(&place), 0);
}

#[test]
fn whoever_is_killed_the_others_go_on() {
    let _alone = alone();
    let place = Place::new("queue-kill", "q.sock");
    let mut seed = u64::from(std::process::id());
    for policy in ["two-queue", "cfs"] {
        let broker = Here::start(options(&place, policy));
        let mut actors = [(); 3].map(|()| start("runs_for_ever", &place.socket()));
        actors.iter_mut().for_each(|actor| drop(goes_on(actor)));
        for _ in 0..6 {
            let victim = (splitmix64(&mut seed) % 3) as usize;
            std::thread::sleep(Duration::from_micros(splitmix64(&mut seed) % 5_000));
            actors[victim].kill();
            actors[victim] = start("runs_for_ever", &place.socket());
            actors.iter_mut().for_each(|actor| drop(goes_on(actor)));
        }
        by_what_must_be(&broker);
        drop(actors);
        broker.end();
    }
}

#[test]
fn whoever_is_stopped_the_others_go_on() {
    let _alone = alone();
    let place = Place::new("queue-stop", "q.sock");
    let broker = Here::start(options(&place, "rr"));
    let mut actors = [(); 2].map(|()| start("runs_for_ever", &place.socket()));
    actors.iter_mut().for_each(|actor| drop(goes_on(actor)));
    for round in 0..6 {
        let (stopped, other) = (round % 2, 1 - round % 2);
        signal(&actors[stopped], libc::SIGSTOP);
        goes_on(&mut actors[other]);
        signal(&actors[stopped], libc::SIGCONT);
        actors.iter_mut().for_each(|actor| drop(goes_on(actor)));
    }
    by_what_must_be(&broker);
    drop(actors);
    broker.end();
}

#[test]
fn strangers_have_no_part() {
    let _alone = alone();
    let place = Place::new("queue-none", "q.sock");
    let at = Membership::common().at(place.socket().to_str().expect("UTF-8"));
    let error = common_queue(&at).unwrap_err().to_string();
    assert!(error.contains("no broker"), "{error}");
    let broker = Here::start(Options::new(place.socket(), cpus()));
    let error = common_queue(&at).unwrap_err().to_string();
    assert!(error.contains("--queue"), "{error}");
    broker.end();
}
