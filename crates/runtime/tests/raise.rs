//! Signals that a thread sends to itself: its handler runs before the call returns, once, on that
//! thread.
//!
//! The C library finds out which kernel thread it is on and then sends the signal there. A thread
//! that is preempted in between and resumed on another worker would have the signal delivered to
//! somebody else.

mod support;

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use support::{Setup, install_handler, spin, stats, until};

thread_local! {
    /// How often the handler ran on this user thread.
    static HANDLED: Cell<u64> = const { Cell::new(0) };
}
static IN_ALL: AtomicU64 = AtomicU64::new(0);

extern "C" fn handler(_: i32) {
    HANDLED.set(HANDLED.get() + 1);
    IN_ALL.fetch_add(1, SeqCst);
}

/// Four threads that send themselves signals, each a thousand times at least, until there were
/// enough preemptions.
fn to_oneself(send: impl Fn() -> i32 + Sync) {
    for setup in Setup::all_clocks() {
        let sent = AtomicU64::new(0);
        let goal = setup.preemptions(50);
        setup.run(|| {
            let before = IN_ALL.load(SeqCst);
            quaver::scope(|s| {
                for _ in 0..4 {
                    let (send, sent) = (&send, &sent);
                    s.spawn(move || {
                        let own = Cell::new(0);
                        let me = quaver::thread::current().unwrap().id();
                        until(
                            || own.get() >= 1_000 && stats().preempt_useful >= goal,
                            |step| {
                                own.set(own.get() + 1);
                                sent.fetch_add(1, SeqCst);
                                assert_eq!(send(), 0);
                                assert_eq!(HANDLED.get(), own.get(), "handled elsewhere, or twice");
                                assert_eq!(quaver::thread::current().unwrap().id(), me);
                                spin(step % 4 * 100);
                            },
                        );
                    });
                }
            });
            assert_eq!(IN_ALL.load(SeqCst) - before, sent.load(SeqCst));
        });
    }
}

#[test]
fn raise() {
    install_handler(handler, libc::SIGUSR1);
    // SAFETY: a signal with a handler.
    to_oneself(|| unsafe { libc::raise(libc::SIGUSR1) });
}

#[test]
fn pthread_kill_of_oneself() {
    install_handler(handler, libc::SIGUSR2);
    // SAFETY: the calling thread, a signal with a handler.
    to_oneself(|| unsafe { libc::pthread_kill(libc::pthread_self(), libc::SIGUSR2) });
}
