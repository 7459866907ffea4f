//! Preemption: threads do not notice it, waiting work always profits from it, regions are
//! respected.

#![allow(
    clippy::erasing_op,
    clippy::map_identity,
    clippy::let_and_return,
    clippy::identity_op,
    clippy::useless_vec,
    reason = "work whose value does not matter, and results that are named for what they are"
)]

mod support;

use std::collections::HashMap;
use std::hint::{black_box, spin_loop};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use support::registers::{self, Fp, control_words, control_words_across};
use support::setup::alone;
use support::{Rng, Setup, child, full, spin, stats, until, until_preempted, with_runtime};

/// Three threads that each do `step`, with a seed of their own, until there have been `n`
/// preemptions.
fn three(setup: Setup, n: u64, step: impl Fn(u64) + Sync) {
    setup.run(|| {
        quaver::scope(|s| {
            for i in 1..4 {
                let step = &step;
                s.spawn(move || {
                    let mut rng = Rng(i);
                    until_preempted(setup.preemptions(n), |_| step(rng.next()));
                });
            }
        });
    });
}

/// About ten microseconds in [`registers`].
const ROUNDS: u64 = 6_000;

#[test]
fn general_registers_and_the_red_zone_are_kept() {
    for setup in Setup::all() {
        three(setup, 300, |seed| assert_eq!(registers::general(seed, ROUNDS), 0));
    }
}

#[test]
fn flags_are_kept() {
    for setup in Setup::all() {
        three(setup, 200, |_| {
            let found = registers::flags(ROUNDS) & registers::FLAGS_MASK;
            assert_eq!(found, registers::FLAGS_SET, "{found:#x}");
        });
    }
}

#[test]
fn vector_and_mask_registers_are_kept() {
    for kind in registers::vector_kinds() {
        println!("{}", kind.0);
        for setup in Setup::all() {
            three(setup, 200, |seed| registers::vectors_are_kept(kind, seed, 2 * ROUNDS));
        }
    }
}

#[test]
fn control_words_and_the_x87_stack_are_kept() {
    for setup in Setup::all() {
        three(setup, 300, |seed| {
            let expected = Fp::kind(seed % 64);
            let mut found = expected;
            registers::floating(&mut found, 2 * ROUNDS);
            assert_eq!(found, expected);
        });
    }
}

/// A C function must leave the control words as it found them: so must a switch that a thread asks
/// for.
#[test]
fn control_words_are_kept_across_voluntary_switches() {
    extern "C" fn switch() {
        quaver::yield_now();
        quaver::sleep(Duration::from_nanos(1));
    }
    for setup in Setup::all() {
        setup.run(|| {
            quaver::scope(|s| {
                for i in 0..4u64 {
                    s.spawn(move || {
                        for k in 0..200 {
                            let expected = Fp::kind(i * 5 + k);
                            let mut found = expected;
                            control_words_across(&mut found, switch);
                            assert_eq!(found, expected);
                        }
                    });
                }
            });
        });
    }
}

#[test]
fn threads_start_with_default_control_words() {
    extern "C" fn spawn_and_look() {
        let found = quaver::spawn(|| {
            let mut found = Fp::initial();
            control_words(&mut found);
            found
        });
        assert_eq!(found.join().unwrap(), Fp::initial());
    }
    for setup in Setup::all() {
        setup.run(|| {
            for i in 0..64 {
                control_words_across(&mut Fp::kind(i), spawn_and_look);
            }
        });
    }
}

/// String instructions are interrupted half done.
#[test]
fn string_instructions_are_resumed() {
    const BYTES: usize = 64 * 1024;
    for setup in Setup::all() {
        setup.run(|| {
            quaver::scope(|s| {
                for i in 0..3u8 {
                    s.spawn(move || {
                        let from: Vec<u8> = (0..BYTES).map(|k| (k / 251) as u8 ^ i).collect();
                        let mut to = vec![0u8; BYTES];
                        until_preempted(setup.preemptions(150), |step| {
                            // SAFETY: two buffers of that length.
                            unsafe {
                                registers::copy(
                                    to.as_mut_ptr(),
                                    from.as_ptr(),
                                    BYTES,
                                    step % 2 == 1,
                                )
                            };
                            assert!(to == from);
                            to[step as usize % BYTES] ^= 0xff;
                        });
                    });
                }
            });
        });
    }
}

/// Programs whose result is known.
fn compute(kind: usize) -> u64 {
    match kind {
        0 => {
            (1..4_000u64).fold(0f64, |a, i| a + (i as f64).sqrt().sin() / (a.abs() + 1.0)).to_bits()
        }
        1 => {
            let mut rng = Rng(5);
            let mut values: Vec<u64> = (0..3_000).map(|_| rng.next()).collect();
            values.sort_unstable();
            values.iter().fold(0, |a: u64, v| a.rotate_left(7) ^ v)
        }
        2 => {
            let mut words: HashMap<String, usize> = HashMap::new();
            for i in 0..400usize {
                *words.entry(format!("{:x}", i * i % 97)).or_default() += i;
            }
            let mut words: Vec<_> = words.into_iter().collect();
            words.sort();
            words.iter().fold(0, |a, (k, v)| a.rotate_left(9) ^ (k.len() + v) as u64)
        }
        _ => {
            let (mut a, mut b) = ([[1.25f32; 24]; 24], [[0.75f32; 24]; 24]);
            for _ in 0..6 {
                let mut c = [[0f32; 24]; 24];
                for (row, out) in a.iter().zip(&mut c) {
                    for (k, x) in row.iter().enumerate() {
                        out.iter_mut().zip(&b[k]).for_each(|(o, y)| *o += x * y * 0.01);
                    }
                }
                (a, b) = (b, c);
            }
            a.iter().chain(&b).flatten().fold(0, |a, v| a.rotate_left(9) ^ u64::from(v.to_bits()))
        }
    }
}

#[test]
fn results_are_those_of_an_undisturbed_run() {
    let expected: Vec<u64> = (0..4).map(compute).collect();
    for setup in Setup::all() {
        setup.run(|| {
            quaver::scope(|s| {
                for i in 0..6 {
                    let expected = &expected;
                    s.spawn(move || {
                        let goal = setup.preemptions(150);
                        until_preempted(goal, |step| {
                            let kind = (i + step as usize) % 4;
                            assert_eq!(compute(kind), expected[kind], "{kind}");
                        });
                    });
                }
            });
        });
    }
}

/// Spins, without calling anything, until `done`.
///
/// # Panics
///
/// After minutes.
fn spin_until(done: impl Fn() -> bool, what: &str) {
    for _ in 0..20_000_000_000u64 / if cfg!(debug_assertions) { 10 } else { 1 } {
        if done() {
            return;
        }
        spin_loop();
    }
    panic!("{what}: {:?}", stats());
}

#[test]
fn busy_threads_share_one_worker() {
    for setup in Setup::with_workers(1) {
        setup.run(|| {
            const SHARE: u64 = 2_000;
            let done: [AtomicU64; 4] = Default::default();
            quaver::scope(|s| {
                for i in 0..4 {
                    let done = &done;
                    s.spawn(move || {
                        let enough = || {
                            spin(20);
                            done[i].fetch_add(1, SeqCst);
                            done.iter().all(|d| d.load(SeqCst) >= SHARE)
                        };
                        spin_until(enough, "some threads get nothing");
                    });
                }
            });
        });
    }
}

/// Nobody waits in vain beside a busy thread, whoever makes the other runnable, whenever.
#[test]
fn work_that_comes_later_gets_its_turn() {
    for setup in Setup::clocks(1) {
        setup.run_built(setup.builder(), |rt| {
            let mut rng = Rng(11);
            for round in 0..setup.preemptions(400) {
                let flag = Arc::new(AtomicBool::new(false));
                let (seen, set) = (flag.clone(), flag.clone());
                let delay = rng.below(if round % 2 == 0 { 50 } else { 20_000 });
                let busy = move || spin_until(|| seen.load(SeqCst), "never preempted");
                match round % 4 {
                    // From a kernel thread, both.
                    0 | 1 => {
                        let busy = rt.spawn(busy);
                        spin(delay);
                        rt.spawn(move || set.store(true, SeqCst)).join().unwrap();
                        busy.join().unwrap();
                    }
                    // By the busy thread itself.
                    2 => rt.run(move || {
                        spin(delay);
                        quaver::spawn(move || set.store(true, SeqCst));
                        busy();
                    }),
                    // A kernel thread wakes a user thread that waits.
                    _ => {
                        let (tx, rx) = std::sync::mpsc::channel();
                        let waiter = rt.spawn(move || {
                            rx.recv().unwrap();
                            set.store(true, SeqCst);
                        });
                        let busy = rt.spawn(busy);
                        spin(delay);
                        tx.send(()).unwrap();
                        waiter.join().unwrap();
                        busy.join().unwrap();
                    }
                }
            }
        });
    }
}

/// The worker has just woken up, or is about to sleep, when a busy thread and another come
/// together.
#[test]
fn work_that_comes_together_gets_its_turn() {
    for (setup, idle_spin) in Setup::clocks(1).into_iter().flat_map(|s| [(s, 0), (s, 20)]) {
        let builder = setup.builder().idle_spin(Duration::from_micros(idle_spin));
        setup.run_built(builder, |rt| {
            let mut rng = Rng(12);
            for _ in 0..setup.preemptions(if full() { 20_000 } else { 500 }) {
                let flag = Arc::new(AtomicBool::new(false));
                let (seen, set) = (flag.clone(), flag.clone());
                let busy = rt.spawn(move || spin_until(|| seen.load(SeqCst), "never preempted"));
                spin(rng.below(400));
                rt.handle().spawn_detached(move || set.store(true, SeqCst)).unwrap();
                busy.join().unwrap();
            }
        });
    }
}

/// A sleeper comes back although a busy thread never makes a call.
#[test]
fn sleepers_come_back_beside_busy_threads() {
    for setup in Setup::all() {
        setup.run(|| {
            let done = AtomicUsize::new(0);
            quaver::scope(|s| {
                for i in 0..3 {
                    let done = &done;
                    s.spawn(move || {
                        let mut rng = Rng(i);
                        for _ in 0..setup.preemptions(50) {
                            quaver::sleep(Duration::from_nanos(rng.below(300_000)));
                        }
                        done.fetch_add(1, SeqCst);
                    });
                }
                for _ in 0..2 {
                    s.spawn(|| spin_until(|| done.load(SeqCst) == 3, "sleepers do not come back"));
                }
            });
        });
    }
}

/// On one worker a region is never interrupted: whoever looks from outside never sees one that has
/// begun and not ended.
#[test]
fn regions_are_not_interrupted() {
    for setup in Setup::with_workers(1) {
        setup.run(|| {
            let inside = AtomicBool::new(false);
            let goal = setup.preemptions(60);
            let enough = || stats().preempt_deferred >= goal && stats().preempt_useful >= goal;
            quaver::scope(|s| {
                for i in 0..3 {
                    let inside = &inside;
                    s.spawn(move || {
                        until(enough, |step| {
                            assert!(!inside.load(SeqCst));
                            let region = || {
                                assert!(!quaver::is_preemptible());
                                assert!(!inside.swap(true, SeqCst));
                                spin(if step % 8 == i { 20_000 } else { 300 });
                                // Regions nest: the inner end is no end.
                                drop(quaver::NoPreempt::new());
                                spin(300);
                                assert!(inside.swap(false, SeqCst));
                            };
                            if step % 2 == 0 {
                                quaver::no_preempt(region);
                            } else {
                                let guard = quaver::NoPreempt::new();
                                region();
                                drop(guard);
                            }
                            assert!(quaver::is_preemptible());
                            spin(300);
                        });
                    });
                }
            });
        });
    }
}

/// A preemption that came too early happens when the region ends, not a quantum later.
#[test]
fn deferred_preemptions_happen_at_the_end() {
    for setup in Setup::with_workers(1) {
        setup.run(|| {
            let (others, stop) = (AtomicU64::new(0), AtomicBool::new(false));
            quaver::scope(|s| {
                s.spawn(|| {
                    while !stop.load(SeqCst) {
                        others.fetch_add(1, SeqCst);
                    }
                });
                let goal = setup.preemptions(30);
                let mut at_the_end = 0;
                // Half of all regions at least: the others may have begun early in a quantum.
                for region in 0..2_000_000u64 {
                    let (first, last) = quaver::no_preempt(|| {
                        let first = others.load(SeqCst);
                        spin(20_000);
                        (first, others.load(SeqCst))
                    });
                    let after = others.load(SeqCst);
                    assert_eq!(first, last, "interrupted");
                    at_the_end += u64::from(after > last);
                    if at_the_end >= goal {
                        break;
                    }
                    assert!(region < 1_999_999, "only {at_the_end} of {region}");
                }
                stop.store(true, SeqCst);
            });
        });
    }
}

/// What a region does may still have to wait, for a thread that was preempted, say.
#[test]
fn regions_may_wait() {
    for setup in Setup::with_workers(1) {
        setup.run(|| {
            let mutex = Mutex::new(0u64);
            quaver::scope(|s| {
                for i in 0..3 {
                    let mutex = &mutex;
                    s.spawn(move || {
                        until_preempted(setup.preemptions(60), |step| {
                            if (i + step) % 2 == 0 {
                                let mut value = mutex.lock().unwrap();
                                spin(1_000);
                                *value += 1;
                            } else {
                                quaver::no_preempt(|| {
                                    *mutex.lock().unwrap() += 1;
                                    assert!(!quaver::is_preemptible(), "it is a region still");
                                });
                            }
                        });
                    });
                }
            });
            let turn = AtomicUsize::new(0);
            quaver::scope(|s| {
                for i in 0..2 {
                    let turn = &turn;
                    s.spawn(move || {
                        for k in 0..50 {
                            quaver::no_preempt(|| {
                                while turn.load(SeqCst) != 2 * k + i {
                                    match k % 4 {
                                        0 => quaver::yield_now(),
                                        1 => std::thread::yield_now(),
                                        2 => quaver::sleep(Duration::from_nanos(1)),
                                        _ => std::thread::sleep(Duration::from_nanos(1)),
                                    }
                                }
                                turn.fetch_add(1, SeqCst);
                            });
                        }
                    });
                }
            });
        });
    }
}

#[test]
fn a_panic_ends_its_region() {
    for setup in Setup::clocks(1) {
        setup.run(|| {
            for _ in 0..20 {
                let result = std::panic::catch_unwind(|| {
                    quaver::no_preempt(|| {
                        let _guard = quaver::NoPreempt::new();
                        std::panic::resume_unwind(Box::new(()));
                    })
                });
                assert!(result.is_err() && quaver::is_preemptible());
            }
            // A region that its thread never left is not inherited by the next on that stack.
            for _ in 0..20 {
                let t = quaver::spawn(|| {
                    assert!(quaver::is_preemptible());
                    std::mem::forget(quaver::NoPreempt::new());
                });
                t.join().unwrap();
            }
        });
    }
}

/// Every request has one outcome at most.
#[test]
fn counters_add_up() {
    for setup in Setup::all() {
        println!("-- {setup}");
        let stats = with_runtime(setup.builder(), |rt| {
            rt.run(|| {
                quaver::scope(|s| {
                    for i in 0..4u64 {
                        s.spawn(move || {
                            let mut rng = Rng(i);
                            until_preempted(setup.preemptions(200), |_| {
                                match rng.below(4) {
                                    0 => {
                                        quaver::no_preempt(|| drop(black_box(vec![spin(400); 10])))
                                    }
                                    1 => drop(quaver::spawn(|| spin(50)).join()),
                                    2 => quaver::yield_now(),
                                    _ => _ = spin(2_000),
                                };
                            });
                        });
                    }
                });
            });
            while rt.stats().completed < rt.stats().spawned {
                std::thread::yield_now();
            }
            rt.stats()
        });
        println!("{stats:?}");
        assert_eq!(stats.spawned, stats.completed);
        assert!(stats.preempt_useful >= setup.preemptions(200));
        assert!(stats.preempt_received <= stats.preempt_sent);
        assert!(stats.preempt_useful <= stats.preempt_received);
        assert!(stats.preempt_useful + stats.preempt_stale <= stats.preempt_sent);
        assert!(stats.preempt_deferred <= stats.preempt_received);
        assert!(stats.switches >= stats.completed + stats.preempt_useful);
    }
}

/// Without waiting work there is nothing to gain: a thread alone is left in peace, and no timer
/// runs.
#[test]
fn a_lone_thread_is_not_preempted() {
    for setup in Setup::all() {
        setup.run(|| {
            // Others have been there, so clocks have been running.
            quaver::scope(|s| {
                for _ in 0..setup.workers + 1 {
                    s.spawn(|| until_preempted(setup.preemptions(20), |_| _ = spin(500)));
                }
            });
            // They may be on their last instructions, after the scope's end.
            while stats().completed + 1 < stats().spawned {
                quaver::yield_now();
            }
            let before = stats();
            // Thousands of quanta.
            spin(5_000_000);
            let alone = stats().since(&before);
            assert!(alone.preempt_sent <= 3 && alone.switches <= 3, "{alone:?}");
        });
    }
}

/// A runtime without a quantum preempts nobody.
#[test]
fn preemption_can_be_switched_off() {
    for setup in Setup::all() {
        setup.run_with(setup.builder().quantum(None), || {
            let order = Arc::new(Mutex::new(Vec::new()));
            let threads: Vec<_> = (0..3)
                .map(|i| {
                    let order = order.clone();
                    quaver::spawn(move || {
                        spin(300_000);
                        order.lock().unwrap().push(i);
                    })
                })
                .collect();
            threads.into_iter().for_each(|t| t.join().unwrap());
            if setup.workers == 1 {
                assert_eq!(*order.lock().unwrap(), [0, 1, 2]);
            }
            assert_eq!((stats().preempt_sent, stats().preempt_useful), (0, 0));
        });
    }
}

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

#[test]
fn without_fsgsbase() {
    if child::role().is_none() && std::env::var_os("QUAVER_NO_FSGSBASE").is_none() {
        child::all_tests_with(("QUAVER_NO_FSGSBASE", "1"), "without_fsgsbase");
    }
}
