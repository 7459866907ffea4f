//! Signals of the application: sent to the process, from timers, and the one that Quaver would like
//! to have.
//!
//! Dispositions belong to the process, so that each part is played by a child; see
//! `support::child`.

mod support;

use quaver::{BuildError, Builder};
use std::io::{Read, pipe};
use std::os::fd::IntoRawFd;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering::SeqCst};
use support::setup::alone;
use support::{Setup, child, install_handler, spin, until, until_preempted};

static HANDLED: AtomicU64 = AtomicU64::new(0);
static PIPE: AtomicI32 = AtomicI32::new(-1);

/// Counts, and tells the reader of the pipe, as programs do that handle signals in a thread.
extern "C" fn handler(signal: i32) {
    HANDLED.fetch_add(1, SeqCst);
    let pipe = PIPE.load(SeqCst);
    if pipe >= 0 {
        let byte = signal as u8;
        // SAFETY: one byte, which fits into the pipe. It leaves errno alone if it succeeds.
        assert_eq!(unsafe { libc::write(pipe, (&raw const byte).cast(), 1) }, 1);
    }
}

fn send_to_the_process(signal: i32) {
    // SAFETY: a signal with a handler.
    assert_eq!(unsafe { libc::kill(libc::getpid(), signal) }, 0);
}

fn on_all(role: &str) {
    for (i, setup) in Setup::all_clocks().into_iter().enumerate() {
        println!("-- {setup}");
        child::run(&format!("{role} {i}")).expect_success();
    }
}

#[test]
fn the_child() {
    let Some(role) = child::role() else { return };
    let (role, setup) = role.rsplit_once(' ').unwrap();
    let setups: Vec<_> = Setup::clocks(1).into_iter().chain(Setup::clocks(2)).collect();
    let setup = setups[setup.parse::<usize>().unwrap()];
    match role {
        "process" => to_the_process(setup),
        "timer" => from_a_timer(setup),
        "small" => on_a_small_stack(setup),
        other => panic!("unknown role {other}"),
    }
}

/// Signals to the process from a user thread and from a kernel thread, each when the one before has
/// been handled: there are as many calls of the handler, and bytes in the pipe, whichever thread
/// gets them. A user thread waits for the bytes.
fn to_the_process(setup: Setup) {
    const EACH: u64 = 30;
    install_handler(handler, libc::SIGTERM);
    install_handler(handler, libc::SIGHUP);
    let (mut reader, writer) = pipe().unwrap();
    PIPE.store(writer.into_raw_fd(), SeqCst);
    setup.run_built(setup.builder(), |rt| {
        let (read, turn) = (&AtomicU64::new(0), &AtomicU64::new(0));
        std::thread::scope(|kernel| {
            rt.run(|| {
                quaver::scope(|s| {
                    s.spawn(|| {
                        let mut byte = [0];
                        let mut last = 0;
                        while read.load(SeqCst) < 2 * EACH {
                            reader.read_exact(&mut byte).unwrap();
                            assert_ne!(byte[0], last, "the signals take turns");
                            last = byte[0];
                            read.fetch_add(1, SeqCst);
                        }
                    });
                    s.spawn(|| {
                        for i in 0..EACH {
                            send_to_the_process(libc::SIGTERM);
                            until(|| read.load(SeqCst) == 2 * i + 1, |_| _ = spin(300));
                            turn.store(1, SeqCst);
                            until(|| read.load(SeqCst) == 2 * i + 2, |_| _ = spin(300));
                        }
                    });
                    kernel.spawn(|| {
                        for _ in 0..EACH {
                            while turn.swap(0, SeqCst) == 0 {
                                std::thread::yield_now();
                            }
                            send_to_the_process(libc::SIGHUP);
                        }
                    });
                    s.spawn(|| {
                        until(
                            || read.load(SeqCst) == 2 * EACH,
                            |i| assert_eq!(format!("{i}").parse(), Ok(i)),
                        );
                    });
                });
            });
        });
    });
    assert_eq!(HANDLED.load(SeqCst), 2 * EACH);
}

#[test]
fn signals_to_the_process_are_handled_once() {
    on_all("process");
}

/// A timer of the application's that sends `signal`; only to the calling thread, or to the process.
fn timer_with(signal: i32, only_here: bool) -> libc::timer_t {
    // SAFETY: a complete event; the timer lives as long as the process.
    unsafe {
        let mut event: libc::sigevent = std::mem::zeroed();
        event.sigev_notify = libc::SIGEV_SIGNAL;
        event.sigev_signo = signal;
        if only_here {
            event.sigev_notify = libc::SIGEV_THREAD_ID;
            event.sigev_notify_thread_id = libc::gettid();
        }
        let mut timer: libc::timer_t = std::ptr::null_mut();
        assert_eq!(libc::timer_create(libc::CLOCK_MONOTONIC, &mut event, &mut timer), 0);
        timer
    }
}

/// From now on the timer expires so often; 0: not any more.
fn set(timer: libc::timer_t, ns: i64) {
    let interval = libc::timespec { tv_sec: 0, tv_nsec: ns };
    let times = libc::itimerspec { it_interval: interval, it_value: interval };
    // SAFETY: a timer that is there, valid times.
    assert_eq!(unsafe { libc::timer_settime(timer, 0, &times, std::ptr::null_mut()) }, 0);
}

/// An application whose own timer sends the signal that Quaver would take.
fn from_a_timer(setup: Setup) {
    install_handler(handler, libc::SIGURG);
    let timer = timer_with(libc::SIGURG, false);
    set(timer, 200_000);
    alone(|| {
        let e = setup.builder().build().unwrap_err();
        assert!(matches!(e, BuildError::SignalInUse(libc::SIGURG)), "{e}");
        let text = e.to_string();
        assert!(text.contains("signal 23") && text.contains("Builder::signal"), "{text}");
    });
    let other: Builder = setup.builder().signal(libc::SIGUSR2);
    setup.run_with(other, || {
        let goal = HANDLED.load(SeqCst) + 10;
        quaver::scope(|s| {
            for _ in 0..3 {
                s.spawn(|| {
                    until_preempted(setup.preemptions(50), |_| _ = spin(500));
                    until(|| HANDLED.load(SeqCst) >= goal, |_| _ = spin(500));
                });
            }
        });
    });
    set(timer, 0);
}

#[test]
fn a_timer_of_the_application_may_have_the_usual_signal() {
    on_all("timer");
}

/// The thread that builds a runtime takes a signal of its own every 0.3 ms, in a handler that runs
/// for 0.1 ms on a stack which has room for one frame. Whatever Quaver tries out on that thread,
/// nothing else gets there.
fn on_a_small_stack(setup: Setup) {
    extern "C" fn slow(_: i32) {
        let begin = std::time::Instant::now();
        while begin.elapsed().as_micros() < 100 {
            std::hint::spin_loop();
        }
        HANDLED.fetch_add(1, SeqCst);
    }
    // SAFETY: no memory.
    let frame = unsafe { libc::getauxval(libc::AT_MINSIGSTKSZ) } as usize;
    let memory = vec![0u8; frame + 2048].leak();
    let stack =
        libc::stack_t { ss_sp: memory.as_mut_ptr().cast(), ss_flags: 0, ss_size: memory.len() };
    // SAFETY: memory that is never freed.
    assert_eq!(unsafe { libc::sigaltstack(&stack, std::ptr::null_mut()) }, 0);
    install_handler(slow, libc::SIGHUP);
    let timer = timer_with(libc::SIGHUP, true);
    set(timer, 300_000);
    setup.run_built(setup.builder(), |_| ());
    until(|| HANDLED.load(SeqCst) > 2, |_| _ = spin(500));
    set(timer, 0);
}

#[test]
fn a_handler_of_the_application_may_have_a_small_stack() {
    on_all("small");
}
