//! Signals that no call is interrupted by.

use super::{Chain, QUEUED, STANDARD};

fn any(c: &mut Chain<'_>) -> i64 {
    let signal = if c.chance(4) { c.pick(&QUEUED) } else { c.pick(&STANDARD) };
    c.take_signal(signal)
}

/// Sent while it is blocked, delivered when it is allowed.
pub(super) fn pending(c: &mut Chain<'_>) {
    let [a, b] = c.threads();
    let s = any(c);
    c.step(a, "pending", &[s]);
    let times = 1 + c.rng.below(3);
    for _ in 0..times {
        c.step(b, "kill", &[a as i64, s]);
    }
    c.step(a, "pending", &[s]);
    c.step(b, "pending", &[s]);
    if c.chance(2) {
        c.step(a, "mask", &[1, s]);
        c.step(a, "count", &[s]);
        c.step(a, "mask", &[0, s]);
    } else {
        for _ in 0..times {
            c.step(a, "sigtimedwait", &[s, 0]);
        }
    }
    c.step(a, "pending", &[s]);
}

/// Sent to a thread that allows it and does something, or nothing.
pub(super) fn allowed(c: &mut Chain<'_>) {
    let [a, b] = c.threads();
    let s = any(c);
    c.step(a, "mask", &[1, s]);
    let computes = c.pick(&[0, 1]);
    if c.chance(2) {
        c.start(a, "handled", &[s, 1, computes]);
        c.step(b, "kill", &[a as i64, s]);
        c.finish();
    } else {
        c.step(b, "kill", &[a as i64, s]);
        c.step(a, "handled", &[s, 1, computes]);
    }
    c.step(a, "mask", &[0, s]);
    c.step(a, "count", &[s]);
}

/// Sent to the process, in which one thread, or several, allow it.
pub(super) fn process(c: &mut Chain<'_>) {
    let [a, b, d] = c.threads();
    let s = any(c);
    match c.rng.below(4) {
        0 => {
            c.step(a, "mask", &[1, s]);
            let computes = c.pick(&[0, 1]);
            c.start(a, "handled", &[s, 1, computes]);
            c.step(b, "kill_process", &[s]);
            c.finish();
            c.step(a, "mask", &[0, s]);
        }
        1 => {
            c.step(b, "kill_process", &[s]);
            c.step(d, "pending", &[s]);
            c.step(a, "mask", &[1, s]);
            c.step(a, "count", &[s]);
            c.step(a, "mask", &[0, s]);
        }
        2 => {
            c.step(a, "mask", &[1, s]);
            c.step(d, "mask", &[1, s]);
            c.step(b, "kill_process", &[s]);
            c.step(b, "anywhere", &[s, 1]);
            c.step(a, "mask", &[0, s]);
            c.step(d, "mask", &[0, s]);
        }
        _ => {
            c.step(a, "mask", &[1, s]);
            let wait = super::any_wait(c, b);
            c.start(d, wait.name, &wait.arguments);
            c.step(b, "kill_process", &[s]);
            c.step(a, "handled", &[s, 1, 0]);
            c.step(b, wait.release.0, &wait.release.1);
            c.finish();
            c.step(a, "mask", &[0, s]);
        }
    }
    c.step(a, "pending", &[s]);
}

/// Sends `s` in one of the ways that there are.
pub(super) fn send(c: &mut Chain<'_>, from: usize, to: usize, s: i64) {
    match c.rng.below(4) {
        0 => c.step(from, "kill_process", &[s]),
        1 => c.step(from, "queue_process", &[s, 11]),
        2 => c.step(from, "queue_thread", &[to as i64, s, 12]),
        _ => c.step(from, "kill", &[to as i64, s]),
    };
}

pub(super) fn waited_for(c: &mut Chain<'_>) {
    let [a, b] = c.threads();
    let s = any(c);
    if c.chance(3) {
        let ms = c.pick(&[0, 1, 3]);
        c.step(a, "sigtimedwait", &[s, ms]);
    }
    let wait = |c: &mut Chain<'_>| match c.rng.below(3) {
        0 => ("sigwait", vec![s]),
        1 => ("sigwaitinfo", vec![s]),
        _ => ("sigtimedwait", vec![s, 600_000]),
    };
    for _ in 0..1 + c.rng.below(3) {
        let (name, arguments) = wait(c);
        if c.chance(3) {
            send(c, b, a, s);
            c.step(a, name, &arguments);
        } else {
            c.start(a, name, &arguments);
            send(c, b, a, s);
            c.finish();
        }
    }
    c.step(a, "pending", &[s]);
    c.step(a, "count", &[s]);
}

pub(super) fn suspend(c: &mut Chain<'_>) {
    let [a, b] = c.threads();
    let s = any(c);
    for _ in 0..1 + c.rng.below(3) {
        if c.chance(3) {
            send(c, b, a, s);
            c.step(a, "sigsuspend", &[s]);
        } else {
            c.start(a, "sigsuspend", &[s]);
            send(c, b, a, s);
            c.finish();
        }
    }
    c.step(a, "blocked", &[s]);
    c.step(a, "pending", &[s]);
}

pub(super) fn raise(c: &mut Chain<'_>) {
    let [a] = c.threads();
    let s = any(c);
    if c.chance(2) {
        c.step(a, "mask", &[1, s]);
        c.step(a, "raise", &[s]);
        c.step(a, "count", &[s]);
        c.step(a, "mask", &[0, s]);
    } else {
        c.step(a, "raise", &[s]);
        c.step(a, "pending", &[s]);
        c.step(a, "count", &[s]);
        c.step(a, "sigwait", &[s]);
    }
}

pub(super) fn dispositions(c: &mut Chain<'_>) {
    let [a, b] = c.threads();
    let s = any(c);
    c.step(a, "mask", &[1, s]);
    match c.rng.below(3) {
        0 => {
            c.step(b, "ignore", &[s]);
            c.step(b, "kill", &[a as i64, s]);
            c.step(a, "raise", &[s]);
            c.step(a, "count", &[s]);
        }
        1 => {
            c.step(b, "set_handler", &[s, 8, 0]);
            c.step(a, "raise", &[s]);
            c.step(a, "count", &[s]);
        }
        _ => {
            c.step(b, "set_handler", &[s, 4, 0]);
            c.step(a, "raise", &[s]);
            c.step(a, "raise", &[s]);
            c.step(a, "count", &[s]);
        }
    }
    c.step(a, "mask", &[0, s]);
    c.step(b, "set_handler", &[s, 0, 0]);
}

pub(super) fn alternate(c: &mut Chain<'_>) {
    let [a, b] = c.threads();
    let s = any(c);
    c.step(a, "alternate", &[1]);
    c.step(a, "set_handler", &[s, 2, 0]);
    c.step(a, "mask", &[1, s]);
    if c.chance(2) {
        c.step(a, "raise", &[s]);
    } else {
        c.step(b, "kill", &[a as i64, s]);
    }
    c.step(a, "handled", &[s, 1, 0]);
    c.step(a, "mask", &[0, s]);
    c.step(a, "alternate", &[0]);
    c.step(a, "set_handler", &[s, 0, 0]);
}

pub(super) fn inherited(c: &mut Chain<'_>) {
    let [a, b] = c.threads();
    let s = any(c);
    let x = c.new_thread();
    c.step(a, "mask", &[1, s]);
    c.step(a, "create", &[x as i64, 0]);
    c.step(x, "blocked", &[s]);
    c.step(b, "kill", &[x as i64, s]);
    c.step(x, "handled", &[s, 1, 0]);
    c.step(a, "join", &[x as i64]);
    c.step(a, "mask", &[0, s]);
}

/// Signals that queue come in their order, each with its value.
pub(super) fn queued(c: &mut Chain<'_>) {
    let [a, b] = c.threads();
    let signal = c.pick(&QUEUED);
    let s = c.take_signal(signal);
    let to_process = c.chance(2);
    let times = 1 + c.rng.below(4) as i64;
    for i in 0..times {
        if to_process {
            c.step(b, "queue_process", &[s, 100 + i]);
        } else {
            c.step(b, "queue_thread", &[a as i64, s, 100 + i]);
        }
    }
    if c.chance(2) {
        for _ in 0..times {
            c.step(a, "sigwaitinfo", &[s]);
        }
    } else {
        c.step(a, "mask", &[1, s]);
        c.step(a, "count", &[s]);
        c.step(a, "mask", &[0, s]);
    }
    c.step(a, "pending", &[s]);
}
