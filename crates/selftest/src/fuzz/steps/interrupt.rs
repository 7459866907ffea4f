//! Calls that signals interrupt, and timers, which send them.

use super::signals::send;
use super::{Chain, QUEUED, STANDARD, any_wait};

fn any(c: &mut Chain<'_>) -> i64 {
    let signal = if c.chance(4) { c.pick(&QUEUED) } else { c.pick(&STANDARD) };
    c.take_signal(signal)
}

/// Ends with `EINTR`: it is sent signals until it does.
pub(super) fn interrupted(c: &mut Chain<'_>) {
    let [a, b] = c.threads();
    let s = any(c);
    let (name, arguments) = match c.rng.below(8) {
        0 | 1 => ("sleep", vec![600_000_000, c.rng.below(4) as i64]),
        2 => {
            let o = c.object();
            c.step(b, "futex_set", &[o, 0, 0]);
            let (ms, how) = (c.pick(&[-1, 600_000]), c.pick(&[0, 1, 2]));
            if ms > 0 && c.chance(2) {
                // Where there is a limit the call does not go on.
                c.step(b, "set_handler", &[s, 1, 0]);
            }
            ("futex_wait", vec![o, 0, ms, how])
        }
        _ => loop {
            let wait = any_wait(c, b);
            if wait.breaks {
                break (wait.name, wait.arguments);
            }
        },
    };
    c.step(a, "mask", &[1, s]);
    let operation = c.start(a, name, &arguments);
    c.step(b, "pester", &[a as i64, s, operation as i64]);
    c.finish();
    c.step(a, "clear", &[s]);
    c.step(b, "set_handler", &[s, 0, 0]);
}

/// `SA_RESTART`.
pub(super) fn restarted(c: &mut Chain<'_>) {
    let [a, b] = c.threads();
    let s = any(c);
    let o = c.object();
    let (make, wait, end) = if c.chance(3) {
        (
            ("futex_set", vec![o, 0, 0]),
            ("futex_wait", vec![o, 0, -1, 1]),
            ("futex_set", vec![o, 1, 1]),
        )
    } else {
        (("pipe", vec![o, 0, 0]), ("read", vec![o, 0, 100, 0]), ("write", vec![o, 1, 40, 0, 3]))
    };
    c.step(b, "set_handler", &[s, 1, 0]);
    c.step(b, make.0, &make.1);
    c.step(a, "mask", &[1, s]);
    c.start(a, wait.0, &wait.1);
    for _ in 0..1 + c.rng.below(3) {
        c.step(b, "kill", &[a as i64, s]);
        c.step(b, "sleep", &[300, 0]);
    }
    c.step(b, end.0, &end.1);
    c.finish();
    c.step(a, "clear", &[s]);
    c.step(b, "set_handler", &[s, 0, 0]);
}

/// `ppoll`, `pselect`, `epoll_pwait`: the signal is allowed only while they wait.
pub(super) fn masked(c: &mut Chain<'_>) {
    let [a, b] = c.threads();
    let s = any(c);
    let o = c.object();
    c.step(b, "pipe", &[o, 0, 0]);
    let how = c.pick(&[1, 3, 5]);
    let ms = c.pick(&[-1, 600_000]);
    let wait = [how, o, 0, 1, ms, s];
    match c.rng.below(5) {
        0 => {
            send(c, b, a, s);
            c.step(a, "wait_fd", &wait);
        }
        1 => {
            // What is ready comes first; the signal stays pending.
            c.step(b, "write", &[o, 1, 1, 0, 5]);
            c.step(a, "wait_fd", &wait);
        }
        2 => {
            let ms = c.pick(&[0, 1, 2]);
            c.step(a, "wait_fd", &[how, o, 0, 1, ms, s]);
        }
        _ => {
            c.start(a, "wait_fd", &wait);
            send(c, b, a, s);
            c.finish();
        }
    }
    c.step(a, "blocked", &[s]);
    c.step(a, "pending", &[s]);
    c.step(a, "count", &[s]);
}

/// A handler runs while its thread waits in a call that it does not end.
pub(super) fn handler_in_wait(c: &mut Chain<'_>) {
    let [a, b] = c.threads();
    let s = any(c);
    let (o, m) = (c.object(), c.object());
    let (name, arguments, release) = match c.rng.below(3) {
        0 => {
            c.step(b, "mutex_init", &[m, 0, 0, 0, 0]);
            c.step(b, "cond_init", &[o, 0]);
            ("cond_await", vec![o, m, 1], ("cond_set", vec![o, m, 1, 0, 0]))
        }
        1 => {
            let x = c.new_thread() as i64;
            c.step(b, "sem_init", &[o, 0]);
            c.step(a, "create", &[x, 0]);
            c.start(x as usize, "sem_wait", &[o]);
            ("join", vec![x], ("sem_post", vec![o, 1]))
        }
        _ => {
            c.step(b, "barrier_init", &[o, 2]);
            ("barrier_wait", vec![o, 1], ("barrier_wait", vec![o, 1]))
        }
    };
    c.step(a, "mask", &[1, s]);
    c.start(a, name, &arguments);
    c.step(b, "kill", &[a as i64, s]);
    c.step(b, "anywhere", &[s, 1]);
    c.step(b, release.0, &release.1);
    c.finish();
    c.step(a, "clear", &[s]);
}

pub(super) fn timer(c: &mut Chain<'_>) {
    let [a, b] = c.threads();
    let o = c.object();
    let (us, clock) = (1 + c.rng.below(2000) as i64, c.pick(&[0, 1]));
    match c.rng.below(4) {
        0 => {
            let s = any(c);
            c.step(b, "timer", &[o, s, 0, clock]);
            c.step(b, "timer_armed", &[o]);
            c.step(b, "timer_set", &[o, us]);
            c.step(a, "sigwaitinfo", &[s]);
            c.step(b, "timer_armed", &[o]);
            c.step(b, "timer_delete", &[o]);
        }
        1 => {
            let s = any(c);
            c.step(b, "timer", &[o, s, 0, clock]);
            c.step(a, "mask", &[1, s]);
            c.step(b, "timer_set", &[o, us]);
            c.step(a, "handled", &[s, 1, 0]);
            c.step(a, "mask", &[0, s]);
            c.step(b, "timer_delete", &[o]);
        }
        2 => {
            c.step(b, "timer", &[o, 0, 1, clock]);
            c.step(b, "timer_set", &[o, us]);
            c.step(a, "timer_notified", &[o]);
            c.step(b, "timer_delete", &[o]);
        }
        _ => {
            let s = c.take_signal(14);
            c.step(b, "alarm", &[0]);
            c.step(b, "alarm", &[600]);
            c.step(a, "alarm", &[0]);
            c.step(b, "setitimer", &[us]);
            c.step(a, "sigwaitinfo", &[s]);
        }
    }
}

pub(super) fn timerfd(c: &mut Chain<'_>) {
    let [a, b] = c.threads();
    let o = c.object();
    let clock = c.pick(&[0, 1]);
    c.step(b, "timerfd", &[o, clock, 0]);
    let us = 1 + c.rng.below(2000) as i64;
    if c.chance(2) {
        c.step(b, "timerfd_set", &[o, us]);
        let how = c.rng.below(6) as i64;
        c.step(a, "wait_fd", &[how, o, 0, 1, -1, 0]);
        c.step(a, "timerfd_get", &[o]);
    } else {
        c.start(a, "timerfd_get", &[o]);
        c.step(b, "timerfd_set", &[o, us]);
        c.finish();
    }
    c.step(a, "wait_fd", &[0, o, 0, 1, 0, 0]);
}
