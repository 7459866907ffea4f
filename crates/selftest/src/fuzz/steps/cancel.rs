//! Cancellation.

use super::{Chain, any_wait};

/// A thread that waits, in one of the calls at which threads are cancelled.
pub(super) fn waits(c: &mut Chain<'_>) {
    let [a, b] = c.threads();
    let x = c.new_thread();
    let wait = match c.rng.below(5) {
        0 => ("sleep", vec![600_000_000, c.rng.below(4) as i64]),
        1 => {
            let signal = c.pick(&super::QUEUED);
            let s = c.take_signal(signal);
            ("sigwaitinfo", vec![s])
        }
        _ => loop {
            let wait = any_wait(c, b);
            // In the C library's buffers the descriptor is left in the middle.
            if wait.name != "line_get" {
                break (wait.name, wait.arguments);
            }
        },
    };
    c.step(a, "create", &[x as i64, 0]);
    c.start(x, wait.0, &wait.1);
    c.step(b, "cancel", &[x as i64]);
    c.step(a, "join", &[x as i64]);
    c.finish();
    if wait.0 == "cond_await" {
        c.step(b, "trylock", &[wait.1[1]]);
    }
}

/// A thread that computes: with `pthread_testcancel`, or asynchronously.
pub(super) fn computes(c: &mut Chain<'_>) {
    let [a, b] = c.threads();
    let x = c.new_thread();
    c.step(a, "create", &[x as i64, 0]);
    let tests = c.pick(&[0, 1]);
    if tests == 0 {
        c.step(x, "cancel_type", &[1]);
    }
    c.start(x, "compute_for_ever", &[tests]);
    c.step(b, "cancel", &[x as i64]);
    c.step(a, "join", &[x as i64]);
    c.finish();
}

/// Cancellation that waits until it is allowed, or for a call at which it acts.
pub(super) fn later(c: &mut Chain<'_>) {
    let [a, b] = c.threads();
    let x = c.new_thread();
    let o = c.object();
    c.step(b, "sem_init", &[o, 0]);
    c.step(a, "create", &[x as i64, 0]);
    c.step(x, "cancel_state", &[0]);
    c.step(b, "cancel", &[x as i64]);
    c.step(x, "compute", &[2000, 3]);
    c.step(x, "testcancel", &[]);
    c.start(x, "sem_wait", &[o]);
    c.step(b, "sem_post", &[o, 1]);
    c.finish();
    c.step(x, "cancel_state", &[1]);
    if c.chance(2) {
        c.step(x, "testcancel", &[]);
    } else {
        c.step(x, "sem_wait", &[o]);
    }
    c.step(a, "join", &[x as i64]);
}
