//! What a core's way from one application's thread to another's takes, by count of system calls:
//! two by the futex, one by the kernel module. With `QUAVER_TEST_MODULE` the module must be there.

// The other tests use the rest of it.
#[allow(dead_code)]
mod common;

use common::{Here, Place, cpus, is_actor, say, socket, soon, start};
use quaver_sched::share::Membership;
use quaver_sched::{Attributes, Place as At, Policy, Task, Why};
use quaver_share::broker::Options;
use quaver_share::common::{Common, Files};
use quaver_share::{class, common_queue};
use std::fs::File;
use std::io::Read;
use std::os::fd::FromRawFd;

/// Switches during which calls are counted.
const SWITCHES: u64 = 3_000;
/// A switch by the module takes so much of one by the futex at most.
const AIM: f64 = 0.75;

fn take_turns(files: Files) {
    let common = Common::join(files).unwrap_or_else(|e| panic!("{e}"));
    class::pin(&common.cpus()).expect("a CPU of this process");
    common.task_init(Task(0), &Attributes::default(), 0);
    common.task_enqueue(At::Shared, Task(0), Why::New, 0);
    // SAFETY: no memory is involved.
    say(format!("thread {}", unsafe { libc::gettid() }));
    loop {
        while common.next(0, true, 0).is_none() {
            common.rests(0);
            common.wait(0, || true, None);
        }
        common.task_enqueue(At::Local(0), Task(0), Why::Yielded, 0);
    }
}

fn files() -> Files {
    let at = Membership::common().at(socket().to_str().expect("UTF-8"));
    common_queue(&at).unwrap_or_else(|e| panic!("{e}"))
}

#[test]
#[ignore = "an actor of the other tests"]
fn yields_by_what_is_there() {
    if is_actor() {
        take_turns(files());
    }
}

#[test]
#[ignore = "an actor of the other tests"]
fn yields_by_the_futex() {
    if is_actor() {
        take_turns(Files { device: None, ..files() });
    }
}

/// Counts the system calls of a thread of another process.
struct Counter(File);

/// Where the kernel numbers its events.
const EVENT: &str = "/sys/kernel/tracing/events/raw_syscalls/sys_enter/id";

impl Counter {
    fn new(event: u64, tid: i32) -> Counter {
        // `struct perf_event_attr`: type (a tracepoint) and size, then which one.
        let mut attributes = [0u64; 16];
        attributes[0] = 2 | 128 << 32;
        attributes[1] = event;
        // SAFETY: the kernel reads a structure of the size that it says.
        let fd = unsafe {
            libc::syscall(libc::SYS_perf_event_open, attributes.as_ptr(), tid, -1, -1, 0)
        };
        assert!(fd >= 0, "{}", std::io::Error::last_os_error());
        // SAFETY: a new descriptor, which nobody else has.
        Counter(unsafe { File::from_raw_fd(fd as i32) })
    }

    fn calls(&mut self) -> u64 {
        let mut count = [0; 8];
        self.0.read_exact(&mut count).expect("a number");
        u64::from_ne_bytes(count)
    }
}

/// System calls for each time that a core is given to another application; and by what.
fn calls(actor: &str, event: u64) -> (f64, String) {
    let place = Place::new(actor, "q.sock");
    let queue = Some("rr".parse().expect("a policy"));
    let broker = Here::start(Options { queue, ..Options::new(place.socket(), vec![cpus()[0]]) });
    let mut actors = [(); 2].map(|()| start(actor, &place.socket()));
    let mut counters = actors.each_mut().map(|actor| {
        let tid = actor.line("thread ").expect("it has joined").parse().expect("a number");
        Counter::new(event, tid)
    });
    let mut look = || {
        let queue = broker.status().queue.expect("there is one");
        let calls: u64 = counters.iter_mut().map(Counter::calls).sum();
        (queue.switches, calls, queue.switches_by)
    };
    soon("cores change hands", || look().0 > 100);
    let (begun, before, by) = look();
    soon("cores change hands", || look().0 > begun + SWITCHES);
    let (ended, after, _) = look();
    ((after - before) as f64 / (ended - begun) as f64, by)
}

#[test]
fn one_call_switches_applications_with_the_module() {
    let must = std::env::var_os("QUAVER_TEST_MODULE").is_some();
    let Ok(event) = std::fs::read_to_string(EVENT) else {
        assert!(!must, "{EVENT} cannot be read");
        return eprintln!("skipped: {EVENT} cannot be read");
    };
    let event = event.trim().parse().expect("a number");
    let (futex, _) = calls("yields_by_the_futex", event);
    println!("a switch by the futex: {futex:.2} calls");
    // Who is preempted by the one that it has woken need not sleep any more.
    assert!(futex > 1.2, "{futex}");
    let (ours, by) = calls("yields_by_what_is_there", event);
    println!("a switch by the {by}: {ours:.2} calls");
    if by == "module" {
        assert!(ours <= AIM * futex, "{ours} calls, and by the futex {futex}");
    } else {
        assert!(!must, "the module is not used");
    }
}
