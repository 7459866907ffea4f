//! The preemption signal: in use, or from elsewhere.

use crate::setups;
use crate::support::setup::alone;
use crate::support::{Setup, spin, until_preempted};
use crate::values::error;
use quaver::Builder;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

#[test]
fn a_signal_in_use_is_refused() {
    extern "C" fn handler(_: i32) {}
    let set = |action: usize| {
        // SAFETY: a complete action; the handler does nothing.
        unsafe { libc::signal(libc::SIGUSR2, action) }
    };
    alone(|| {
        set(handler as *const () as usize);
        let text = error(Builder::new().signal(libc::SIGUSR2));
        assert!(text.contains("signal 12 already has a handler"), "{text}");
        assert!(text.contains("Builder::signal"), "{text}");
        set(libc::SIG_IGN);
    });
    // Ignored is free, and so are all others that may be used.
    for signal in
        [libc::SIGUSR2, libc::SIGUSR1, libc::SIGRTMIN() + 3, libc::SIGRTMAX(), libc::SIGURG]
    {
        for setup in Setup::clocks(1) {
            setup.run_with(setup.builder().signal(signal), || {
                quaver::scope(|s| {
                    for _ in 0..2 {
                        s.spawn(|| until_preempted(3, |_| _ = spin(500)));
                    }
                });
            });
        }
    }
}

/// The preemption signal may also come from elsewhere, at any time.
#[test]
fn stray_signals_are_harmless() {
    for setup in setups() {
        setup.run_built(setup.builder(), |rt| {
            let stop = AtomicBool::new(false);
            std::thread::scope(|s| {
                s.spawn(|| {
                    while !stop.load(SeqCst) {
                        // SAFETY: the runtime's handler is installed.
                        unsafe { libc::kill(libc::getpid(), libc::SIGURG) };
                        // One after the other: of those that come faster than a handler's first
                        // instruction, frames would pile up.
                        std::thread::sleep(Duration::from_micros(50));
                    }
                });
                rt.run(|| {
                    quaver::scope(|s| {
                        for i in 0..3u64 {
                            s.spawn(move || {
                                until_preempted(setup.preemptions(50), |step| {
                                    assert_eq!(format!("{}", step + i).parse(), Ok(step + i));
                                });
                            });
                        }
                    });
                });
                stop.store(true, SeqCst);
            });
        });
    }
}
