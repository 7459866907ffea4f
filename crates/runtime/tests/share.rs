//! Runtimes that share a core with other applications. The broker and plain programs are other
//! processes, the runtime is in this one. Nothing is decided by a time.

#[path = "support/actors.rs"]
mod actors;
#[path = "support/alone.rs"]
mod alone;
#[path = "support/probed.rs"]
mod probed;

use actors::{Actor, Place, soon};
use alone::{alone, cpus};
use probed::probed;
use quaver::sched::share::Membership;
use quaver::{BuildError, Builder, Notification, Runtime};
use quaver_share::broker::{Binding, Broker, Options};
use quaver_share::class::Class;
use quaver_share::{Member, Rung};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::mpsc::channel;
use std::time::Duration;

/// Names the broker's socket to an actor.
const AT: &str = "QUAVER_TEST_SHARE_AT";

/// Tells the broker to rank best-effort applications above all ordinary programs, if it may.
const ABOVE_OTHERS: &str = "QUAVER_TEST_SHARE_ABOVE_OTHERS";

fn socket() -> Option<PathBuf> {
    std::env::var_os(AT).map(PathBuf::from)
}

#[test]
#[ignore = "a role"]
fn role_broker() {
    let Some(socket) = socket() else { return };
    let options = || Options::new(socket.clone(), vec![cpus()[0]]);
    let fifo = || Broker::bind(Options { binding: Some(Binding::Fifo), ..options() }).ok();
    let wanted = std::env::var_os(ABOVE_OTHERS).and_then(|_| fifo());
    let mut broker = wanted.unwrap_or_else(|| Broker::bind(options()).unwrap());
    println!("\nserves {}", broker.binding().name());
    broker.run(|| false).unwrap();
}

/// A plain program that never stops.
#[test]
#[ignore = "a role"]
fn role_busy() {
    let Some(socket) = socket() else { return };
    let m = Membership::best_effort(1).at(socket.to_str().unwrap());
    quaver_share::join_plain(&m, "busy").unwrap();
    println!("\nserves");
    loop {
        std::hint::spin_loop();
    }
}

/// A latency-critical application that gives its core up and asks for it, over and over. Says how
/// its rings were answered.
#[test]
#[ignore = "a role"]
fn role_critical() {
    let Some(socket) = socket() else { return };
    let m = Membership::critical().at(socket.to_str().unwrap());
    let member = Member::join(&m, "critical").unwrap();
    let doors = member.doors().clone();
    let counts = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
    let (theirs, bells) = (counts.clone(), doors.clone());
    // It goes on until the process ends.
    std::thread::spawn(move || {
        member.work_at(0).unwrap();
        let [made, done] = &*theirs;
        loop {
            done.store(made.load(SeqCst), SeqCst);
            bells.park(0, || done.load(Relaxed) == made.load(SeqCst), None);
        }
    });
    println!("\nserves");
    static RUNGS: [AtomicU64; 5] = [const { AtomicU64::new(0) }; 5];
    // Tells how it is at this moment, whenever it is asked.
    std::thread::spawn(|| {
        for _ in std::io::stdin().lines() {
            let [answered, woken, forced] = [Rung::Answered, Rung::Woken, Rung::Forced]
                .map(|rung| RUNGS[rung as usize].load(SeqCst));
            println!("\nrungs {answered} {woken} {forced}");
        }
    });
    let [made, done] = &*counts;
    for round in 1u64.. {
        made.store(round, SeqCst);
        RUNGS[doors.ring(0) as usize].fetch_add(1, SeqCst);
        soon("the work is done", || done.load(SeqCst) == round);
        std::thread::sleep(Duration::from_micros(100));
    }
}

/// What has become of such an actor's rings until now.
struct Rungs {
    answered: u64,
    /// It woke its worker itself, since nobody looked.
    woken: u64,
    /// It waited in vain for an answer.
    forced: u64,
}

fn rungs(critical: &mut Actor) -> Rungs {
    critical.ask();
    let line = critical.line("rungs ").expect("it goes on");
    let mut numbers = line.split(' ').map(|number| number.parse().unwrap());
    let mut next = || numbers.next().unwrap();
    Rungs { answered: next(), woken: next(), forced: next() }
}

/// A thread that does this over and over until it is told to stop. It rests now and then: another
/// process of its rank may want the CPU.
fn spawn_loop(rt: &Runtime, batch: impl Fn() + Send + 'static) -> impl FnOnce() {
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = stop.clone();
    let thread = rt.handle().spawn(move || {
        while !stopped.load(Relaxed) {
            batch();
            quaver::sleep(Duration::from_micros(100));
        }
    });
    move || {
        stop.store(true, Relaxed);
        thread.join().unwrap();
    }
}

/// The actor, and what it says at its start.
fn start(name: &str, socket: &Path) -> (Actor, String) {
    start_with(name, socket, &[])
}

fn start_with(name: &str, socket: &Path, set: &[&str]) -> (Actor, String) {
    let mut command = actors::role(name);
    command.env(AT, socket).envs(set.iter().map(|name| (name, "1")));
    let mut actor = Actor::start(command);
    let said = actor.line("serves").expect("it starts");
    (actor, said)
}

fn status(socket: &Path) -> String {
    quaver_share::status(socket).unwrap_or_else(|e| panic!("{e}"))
}

/// A number that the first application shows.
fn shown(status: &str, key: &str) -> f64 {
    let (_, rest) = status.split_once(&format!("\"{key}\":")).expect(status);
    let number = rest.split([',', '}']).next().unwrap();
    number.parse().expect(number)
}

fn joined(role: &str, socket: &Path) -> Builder {
    Builder::new().share_str(&format!("{role}@{}", socket.display()))
}

/// Brings work from outside, over and over, each time when the workers may sleep.
fn bring(rt: &Runtime, pieces: usize) {
    for i in 0..pieces {
        let (tell, told) = channel();
        rt.handle().spawn_detached(move || tell.send(i).unwrap()).unwrap();
        assert_eq!(told.recv().unwrap(), i);
        std::thread::sleep(Duration::from_micros(200));
    }
}

#[test]
fn a_critical_runtime_gives_its_core_up_and_has_it_back() {
    let _alone = alone();
    let place = Place::new("rt-share-lc", "share.sock");
    let (_broker, binding) = start("role_broker", &place.socket());
    let _busy = start("role_busy", &place.socket());
    let rt = joined("lc", &place.socket()).build().unwrap();
    let (on, class) = rt.run(|| (cpus(), Class::of(0).unwrap()));
    assert_eq!(on, [cpus()[0]]);
    let expected = match binding.as_str() {
        "idle" => Class::Other(0),
        "nice" => Class::Other(-20),
        _ => Class::Fifo(3),
    };
    assert_eq!(class, expected, "under {binding}");
    soon("cores change hands", || {
        bring(&rt, 50);
        let status = status(&place.socket());
        let (_, own) = status.split_once("\"role\":\"lc\"").expect("it is a member");
        shown(own, "parks_per_s") > 0.0 && shown(own, "rings_per_s") > 0.0
    });
    rt.shutdown();
    soon("it has left", || !status(&place.socket()).contains("\"role\":\"lc\""));
}

#[test]
fn bells_work_without_a_broker_and_timers_without_bells() {
    let _alone = alone();
    let place = Place::new("rt-share-killed", "share.sock");
    let (mut broker, _) = start("role_broker", &place.socket());
    let rt = joined("lc", &place.socket()).build().unwrap();
    bring(&rt, 20);
    broker.kill();
    bring(&rt, 200);
    rt.run(|| (0..20).for_each(|_| quaver::sleep(Duration::from_millis(1))));
    rt.shutdown();
}

#[test]
fn a_best_effort_runtime_is_ranked_and_goes_on_below_everyone() {
    let _alone = alone();
    let place = Place::new("rt-share-be", "share.sock");
    let (mut broker, binding) = start("role_broker", &place.socket());
    let rt = joined("be:7", &place.socket()).build().unwrap();
    assert_eq!(rt.run(cpus), [cpus()[0]]);
    assert_eq!(shown(&status(&place.socket()), "weight"), 7.0);
    let class = || rt.run(|| Class::of(0).unwrap());
    // Alone among best-effort ones.
    let ranked = if binding == "fifo" { Class::Fifo(1) } else { Class::Idle };
    soon("it is ranked", || class() == ranked);
    broker.kill();
    soon("it is lowered", || class() == Class::Idle);
    bring(&rt, 20);
    rt.shutdown();
    // As a process that is no member: this thread, too.
    if binding != "idle" {
        assert_eq!(Class::of(0).unwrap(), Class::Other(0));
    }
}

/// However threads are told to stop, and also where they must not be stopped.
#[test]
fn threads_of_a_best_effort_runtime_answer_bells_at_probes() {
    let _alone = alone();
    let place = Place::new("rt-share-probes", "share.sock");
    // Only who has the core can answer; the ringer must not be there in its place.
    let _broker = start_with("role_broker", &place.socket(), &[ABOVE_OTHERS]);
    for notification in [Notification::Probe, Notification::Signal] {
        let be = joined("be", &place.socket()).notification(notification);
        let rt = be.build().unwrap();
        let (mut critical, _) = start("role_critical", &place.socket());
        for in_region in [false, true] {
            let stop = spawn_loop(&rt, move || match in_region {
                true => quaver::no_preempt(|| probed::<0>(1_000_000)),
                false => probed::<0>(1_000_000),
            });
            // What the bell's ringer counts here lies between the two looks of this runtime.
            let bells = rt.stats().bells_answered;
            let before = rungs(&mut critical).answered;
            soon("bells are answered", || rungs(&mut critical).answered >= before + 50);
            let answered = rt.stats().bells_answered;
            assert!(answered >= bells + 50, "{answered} since {bells}");
            stop();
        }
        // Who has nothing to do, and who meets no probe, keeps nobody waiting for an answer.
        let before = rungs(&mut critical).woken;
        soon("nobody is waited for", || rungs(&mut critical).woken >= before + 50);
        let stop = spawn_loop(&rt, || (0..1_000_000).for_each(|_| std::hint::spin_loop()));
        let before = rungs(&mut critical);
        soon("nobody is waited for", || rungs(&mut critical).woken >= before.woken + 50);
        assert_eq!(rungs(&mut critical).forced, before.forced);
        stop();
        critical.kill();
        rt.shutdown();
    }
}

#[test]
fn a_forked_child_has_no_bells_and_may_build_its_own() {
    let _alone = alone();
    let place = Place::new("rt-share-fork", "share.sock");
    let _broker = start("role_broker", &place.socket());
    let rt = joined("lc", &place.socket()).build().unwrap();
    bring(&rt, 5);
    // SAFETY: the child calls what a child may, and ends without destructors.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let gone = rt.handle().spawn_detached(|| ()).is_err();
        let own = Builder::new().workers(1).build().map(|own| own.run(|| 42));
        // SAFETY: nothing else of this process is to run.
        unsafe { libc::_exit(if gone && own.ok() == Some(42) { 0 } else { 1 }) };
    }
    let mut result = -1;
    // SAFETY: the child's number, and room for its result.
    assert_eq!(unsafe { libc::waitpid(child, &mut result, 0) }, child);
    assert_eq!(result, 0, "how the child has ended");
    bring(&rt, 20);
    rt.shutdown();
}

#[test]
fn what_is_wrong_is_said_and_nothing_stays() {
    let _alone = alone();
    let place = Place::new("rt-share-wrong", "share.sock");
    let error = |b: Builder| match b.build() {
        Err(error @ (BuildError::Share { .. } | BuildError::TooFewCpus { .. })) => {
            error.to_string()
        }
        other => panic!("{other:?}"),
    };
    let lc = || joined("lc", &place.socket());
    assert!(error(lc()).starts_with("cannot share cores: no broker at "));
    assert!(Builder::new().share_str("vip").validate().unwrap_err().to_string().contains("vip"));
    assert!(lc().validate().is_ok(), "nobody is asked");
    let _broker = start("role_broker", &place.socket());
    let cpu = cpus()[0];
    assert!(error(lc().cpus(vec![cpu, cpu])).contains("two workers"));
    assert!(error(lc().workers(2)).contains("cannot be pinned"));
    if let Some(&other) = cpus().get(1) {
        let said = error(lc().cpus(vec![other]));
        assert!(said.contains(&format!("CPU {other} is none of those")), "{said}");
    }
    // None of them is a member still.
    soon("all have left", || status(&place.socket()).contains("\"applications\":[],"));
    assert_eq!(lc().share_str("off").build().unwrap().run(|| 1), 1);
}
