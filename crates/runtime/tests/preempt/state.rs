//! A thread's registers and control words survive preemption.

use crate::support::registers::{Fp, control_words, control_words_across};
use crate::support::{Setup, registers, until_preempted};
use crate::three::{ROUNDS, three};
use std::time::Duration;

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
