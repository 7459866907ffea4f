//! Carriers of a runtime that lose their CPU, as the kernel program tells: threads that pose as
//! carriers. It is skipped with a line without rights, clang or BTF.
#![cfg(feature = "host")]

use quaver_lock::monitor::carriers::{CarrierHead, Carriers, ON_CPU, PREEMPTED};
use quaver_lock::monitor::{Absent, Reason, Server, ServerError, Source};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

const ARCH_SET_GS: i64 = 0x1001;

/// Is it this machine's fault? Then it is said.
fn is_excused(reason: &Reason) -> bool {
    let excused = matches!(reason, Reason::Rights(_) | Reason::NoBtf(_) | Reason::NoClang);
    if excused {
        eprintln!("skipped: {reason}");
    }
    excused
}

/// Does the work on the calling thread, which is the carrier of this number; `slot`: a worker.
fn pose(index: u32, slot: usize, work: impl Fn()) {
    let mut head = Box::new(CarrierHead { this: 0, thread: 0, slot, index });
    head.this = &raw const *head as usize;
    // SAFETY: nothing on this kernel thread uses gs; the words live until it is reset.
    unsafe { libc::syscall(libc::SYS_arch_prctl, ARCH_SET_GS, head.this) };
    work();
    // SAFETY: as above.
    unsafe { libc::syscall(libc::SYS_arch_prctl, ARCH_SET_GS, 0) };
}

/// The calling thread and all others that do so stay on one CPU.
fn share_a_cpu() {
    // SAFETY: sets of this size, filled by the first call and here.
    unsafe {
        let mut allowed: libc::cpu_set_t = std::mem::zeroed();
        libc::sched_getaffinity(0, size_of_val(&allowed), &mut allowed);
        let first = (0..libc::CPU_SETSIZE as usize).find(|&cpu| libc::CPU_ISSET(cpu, &allowed));
        let mut one: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(first.expect("it runs somewhere"), &mut one);
        libc::sched_setaffinity(0, size_of_val(&one), &one);
    }
}

/// Comes that word to say this, before long?
fn says(carriers: &Carriers, index: usize, what: u32) -> bool {
    let until = Instant::now() + Duration::from_secs(30);
    while Instant::now() < until {
        if carriers.states()[index].load(Relaxed) == what {
            return true;
        }
        std::thread::sleep(Duration::from_micros(50));
    }
    false
}

/// Two workers on one CPU are preempted in turns. Who is no worker, and who sleeps of its own will,
/// has no word.
fn words_follow_the_kernel(carriers: &Carriers) {
    let stop = AtomicBool::new(false);
    let compute = || {
        share_a_cpu();
        while !stop.load(Relaxed) {
            std::hint::spin_loop();
        }
    };
    let sleep = || {
        while !stop.load(Relaxed) {
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    std::thread::scope(|s| {
        s.spawn(|| pose(3, 1, compute));
        s.spawn(|| pose(4, 1, compute));
        s.spawn(|| pose(5, 0, compute));
        s.spawn(|| pose(6, 1, sleep));
        for _ in 0..3 {
            assert!(says(carriers, 3, PREEMPTED) && says(carriers, 3, ON_CPU), "the first");
            assert!(says(carriers, 4, PREEMPTED) && says(carriers, 4, ON_CPU), "the second");
            assert_eq!(carriers.states()[5].load(Relaxed), ON_CPU, "no worker");
        }
        stop.store(true, Relaxed);
    });
    assert!([3, 4, 6].into_iter().all(|index| says(carriers, index, ON_CPU)));
    assert_eq!(carriers.away().load(Relaxed), 0);
    assert!(carriers.counts()[0] >= 6, "{:?}", carriers.counts());
}

/// Whether the bell has rung.
fn rings(carriers: &Carriers) -> bool {
    let mut fd = [PollFd::from_borrowed_fd(carriers.bell(), PollFlags::IN)];
    poll(&mut fd, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).unwrap();
    !fd[0].revents().is_empty()
}

/// A worker that another process preempts rings the bell; once it is silenced it stays so.
fn the_bell_rings(carriers: &Carriers) {
    let stop = AtomicBool::new(false);
    let mut other = std::process::Command::new("sh");
    other.args(["-c", "while :; do :; done"]);
    std::thread::scope(|s| {
        let pinned = s.spawn(|| {
            share_a_cpu();
            other.spawn().expect("there is a shell")
        });
        let mut other = pinned.join().unwrap();
        carriers.silence();
        s.spawn(|| {
            pose(7, 1, || {
                share_a_cpu();
                while !stop.load(Relaxed) {
                    std::hint::spin_loop();
                }
            });
        });
        let until = Instant::now() + Duration::from_secs(30);
        while !rings(carriers) && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
        let rang = rings(carriers);
        stop.store(true, Relaxed);
        other.kill().unwrap();
        other.wait().unwrap();
        assert!(rang);
    });
    carriers.silence();
    assert!(!rings(carriers));
}

/// By a program of this process, then by lockd; one runtime of a process at a time.
#[test]
fn carriers_are_seen() {
    let socket = std::env::temp_dir().join(format!("quaver-carriers-{}", std::process::id()));
    // SAFETY: the only test of this program, and no other thread looks.
    unsafe { std::env::set_var("QUAVER_LOCKD", &socket) };
    assert!(Carriers::watch_by_lockd().is_err(), "there is none yet");
    let carriers = match Carriers::watch() {
        Ok(carriers) => carriers,
        Err(Absent { second: Some(reason), .. }) if is_excused(&reason) => return,
        Err(e) => panic!("{e}"),
    };
    assert_eq!(carriers.source(), Source::Own);
    assert!(matches!(Carriers::watch(), Err(Absent { first: Reason::Taken, .. })));
    words_follow_the_kernel(&carriers);
    the_bell_rings(&carriers);
    drop(carriers);

    let mut server = match Server::bind(&socket) {
        Ok(server) => server,
        Err(ServerError::Monitor(reason)) if is_excused(&reason) => return,
        Err(e) => panic!("{e}"),
    };
    let stop = AtomicBool::new(false);
    std::thread::scope(|s| {
        s.spawn(|| server.run(|| stop.load(Relaxed)).expect("serves"));
        let carriers = Carriers::watch_by_lockd().expect("lockd is here");
        assert_eq!(carriers.source(), Source::Lockd);
        words_follow_the_kernel(&carriers);
        stop.store(true, Relaxed);
    });
}
