//! Preemption in the middle of libc, where threads hold locks that the rest of the process wants.

mod support;

use libc::{c_char, c_void};
use std::ffi::CStr;
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;
use support::setup::with_leftover;
use support::{Rng, Setup, stats, until_preempted};

/// Blocks of many sizes, most of them too large for a thread's own cache, so that arenas' locks are
/// taken; each is checked.
fn allocate(rng: &mut Rng, kept: &mut [Vec<u8>]) {
    let block = &mut kept[rng.below(kept.len() as u64) as usize];
    if let Some(&first) = block.first() {
        assert!(block.iter().all(|&b| b == first), "a block was given to two threads");
    }
    *block = vec![rng.below(256) as u8; 1 + rng.below(3_000) as usize];
}

/// Formatting, which is libc's code from one end to the other.
fn format(i: u64) {
    let mut text = [0 as c_char; 64];
    // SAFETY: a buffer of that length; the format's arguments are of its types.
    let text = unsafe {
        libc::snprintf(text.as_mut_ptr(), text.len(), c"%lu %.3f".as_ptr(), i, i as f64 / 8.0);
        CStr::from_ptr(text.as_ptr())
    };
    assert_eq!(text.to_str().unwrap(), format!("{i} {:.3}", i as f64 / 8.0));
}

extern "C" fn compare(a: *const c_void, b: *const c_void) -> i32 {
    // SAFETY: `qsort` passes pointers to elements.
    let (a, b) = unsafe { (*a.cast::<u64>(), *b.cast::<u64>()) };
    a.cmp(&b) as i32
}

fn sort(rng: &mut Rng) {
    let mut numbers: Vec<u64> = (0..100).map(|_| rng.below(1_000)).collect();
    let mut expected = numbers.clone();
    expected.sort_unstable();
    // SAFETY: an array of so many elements of 8 bytes.
    unsafe { libc::qsort(numbers.as_mut_ptr().cast(), numbers.len(), 8, Some(compare)) };
    assert_eq!(numbers, expected);
}

/// At once, after a while, and only outside: the results are the same.
#[test]
fn results_stay_right() {
    for limit in [Some(Duration::ZERO), Some(Duration::from_micros(20)), None] {
        for setup in Setup::all() {
            println!("-- at most {limit:?}");
            setup.run_with(setup.builder().max_deferral(limit), || {
                quaver::scope(|s| {
                    for i in 0..4 {
                        s.spawn(move || {
                            let mut rng = Rng(i);
                            let mut kept = vec![Vec::new(); 40];
                            until_preempted(setup.preemptions(60), |step| match step % 3 {
                                0 => (0..20).for_each(|_| allocate(&mut rng, &mut kept)),
                                1 => format(step),
                                _ => sort(&mut rng),
                            });
                        });
                    }
                });
            });
        }
    }
}

/// With a limit a thread that never leaves libc for long is put off first; without one it is not.
#[test]
fn waiting_for_the_end_is_counted() {
    for setup in Setup::clocks(1) {
        setup.run_with(setup.builder().max_deferral(None), || {
            let enough = || stats().preempt_deferred > 3;
            quaver::scope(|s| {
                for i in 0..2 {
                    s.spawn(move || support::until(enough, |step| format(step + i)));
                }
            });
        });
    }
}

/// A shutdown that stops threads which allocate all the time leaves no lock of malloc behind: every
/// arena still works.
#[test]
fn locks_are_released_before_the_end() {
    for setup in Setup::all() {
        for round in 0..3 {
            let stop = AtomicBool::new(false);
            // The threads that are stopped never see this frame again.
            let stop: &'static AtomicBool = Box::leak(Box::new(stop));
            let ((), leftover) = with_leftover(setup.builder(), |rt| {
                rt.run(|| {
                    for i in 0..20 {
                        quaver::spawn(move || {
                            let (mut rng, mut kept) = (Rng(i + round), vec![Vec::new(); 40]);
                            while !stop.load(Relaxed) {
                                allocate(&mut rng, &mut kept);
                            }
                        });
                    }
                    until_preempted(setup.preemptions(40), |_| _ = black_box(vec![1u8; 2_000]));
                });
            });
            // Kernel threads may be left: those that waited for such a lock.
            assert_eq!(leftover.threads, 20);
            std::thread::scope(|s| {
                for i in 0..20 {
                    s.spawn(move || {
                        let (mut rng, mut kept) = (Rng(i), vec![Vec::new(); 40]);
                        (0..200).for_each(|_| allocate(&mut rng, &mut kept));
                    });
                }
            });
        }
    }
}
