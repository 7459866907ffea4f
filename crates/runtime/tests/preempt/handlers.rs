//! Signal handlers and alternate stacks of the program.

use crate::support::setup::alone;
use crate::support::{Rng, Setup, registers, spin, until, until_preempted};
use crate::three::{ROUNDS, three};
use std::collections::HashMap;
use std::hint::black_box;
use std::sync::Mutex;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

/// Each kernel thread keeps the alternate signal stack that it has, wherever preempted threads come
/// from and go.
#[test]
fn alternate_stacks_stay_where_they_are() {
    for setup in Setup::with_workers(2) {
        setup.run(|| {
            let stacks = Mutex::new(HashMap::new());
            quaver::scope(|s| {
                for i in 0..5 {
                    let stacks = &stacks;
                    s.spawn(move || {
                        let mut rng = Rng(i);
                        until_preempted(setup.preemptions(300), |_| {
                            spin(rng.below(2_000));
                            if rng.below(8) == 0 {
                                quaver::sleep(Duration::from_micros(rng.below(50)));
                            }
                            // SAFETY: queries, on one kernel thread.
                            let (tid, stack) = quaver::no_preempt(|| unsafe {
                                let mut now: libc::stack_t = std::mem::zeroed();
                                assert_eq!(libc::sigaltstack(std::ptr::null(), &mut now), 0);
                                (libc::gettid(), now.ss_sp as usize)
                            });
                            let known = *stacks.lock().unwrap().entry(tid).or_insert(stack);
                            assert_eq!(known, stack, "kernel thread {tid} has another's stack");
                        });
                    });
                }
            });
        });
    }
}

/// Handlers of the program itself, with and without a stack of their own, that take longer than a
/// quantum.
#[test]
fn handlers_of_the_program_run_to_their_end() {
    static ENDED: AtomicU64 = AtomicU64::new(0);
    extern "C" fn handler(signal: i32) {
        let seed = signal as u64 + ENDED.load(SeqCst);
        let pattern: [u64; 200] = std::array::from_fn(|i| black_box(seed + i as u64));
        spin(8_000);
        assert!(
            pattern.iter().zip(seed..).all(|(&a, b)| a == b),
            "the handler's stack was overwritten"
        );
        ENDED.fetch_add(1, SeqCst);
    }
    let install = |signal, flags| {
        // SAFETY: a complete sigaction; the handler only computes.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = handler as *const () as usize;
            action.sa_flags = flags;
            assert_eq!(libc::sigaction(signal, &action, std::ptr::null_mut()), 0);
        }
    };
    // They mask nothing, as the preemption handler does not: masks belong to kernel threads.
    install(libc::SIGUSR1, libc::SA_ONSTACK | libc::SA_NODEFER);
    install(libc::SIGUSR2, libc::SA_NODEFER);
    for setup in Setup::all() {
        setup.run(|| {
            let before = ENDED.load(SeqCst);
            let raised = AtomicU64::new(0);
            quaver::scope(|s| {
                for i in 0..4u64 {
                    let raised = &raised;
                    s.spawn(move || {
                        until_preempted(setup.preemptions(50), |step| {
                            // On two workers a handler must have a stack of its own: see the
                            // crate's documentation.
                            let plain = setup.workers == 1 && (i + step) % 2 == 0;
                            let signal = if plain { libc::SIGUSR2 } else { libc::SIGUSR1 };
                            raised.fetch_add(1, SeqCst);
                            // SAFETY: a signal with a handler.
                            assert_eq!(unsafe { libc::raise(signal) }, 0);
                            spin(500);
                        });
                    });
                }
            });
            assert_eq!(ENDED.load(SeqCst) - before, raised.load(SeqCst));
        });
    }
}

/// A profiler's timer, which interrupts everything everywhere.
#[test]
fn a_profiler_does_not_disturb() {
    static TICKS: AtomicU64 = AtomicU64::new(0);
    extern "C" fn tick(_: i32) {
        TICKS.fetch_add(1, SeqCst);
    }
    let every = |us| {
        let interval = libc::timeval { tv_sec: 0, tv_usec: us };
        let timer = libc::itimerval { it_interval: interval, it_value: interval };
        // SAFETY: a valid timer.
        assert_eq!(unsafe { libc::setitimer(libc::ITIMER_PROF, &timer, std::ptr::null_mut()) }, 0);
    };
    alone(|| {
        // SAFETY: a complete sigaction; the handler only counts.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = tick as *const () as usize;
            action.sa_flags = libc::SA_ONSTACK | libc::SA_RESTART;
            assert_eq!(libc::sigaction(libc::SIGPROF, &action, std::ptr::null_mut()), 0);
        }
        every(1_000);
    });
    for setup in Setup::all() {
        let before = TICKS.load(SeqCst);
        three(setup, 100, |seed| {
            assert_eq!(registers::general(seed, ROUNDS), 0);
            let text = format!("{seed}");
            assert_eq!(text.parse(), Ok(seed));
            // Until it has ticked, too.
            until(|| TICKS.load(SeqCst) > before, |_| _ = spin(500));
        });
    }
    every(0);
}
