//! Condition variables, semaphores, once, sleep.

use super::Chain;

fn mutex_for(c: &mut Chain<'_>, by: usize) -> i64 {
    let m = c.object();
    let (kind, inherit) = (c.pick(&[0, 1, 2, 3]), c.pick(&[0, 0, 0, 1]));
    let robust = c.pick(&[0, 0, 0, 1]);
    c.step(by, "mutex_init", &[m, kind, inherit, robust, 0]);
    m
}

pub(super) fn condition(c: &mut Chain<'_>) {
    let threads = c.some_threads();
    let (setter, waiters) = (threads[0], &threads[1..]);
    let o = c.object();
    let m = mutex_for(c, setter);
    let clock = c.pick(&[0, 1]);
    c.step(setter, "cond_init", &[o, clock]);
    for round in 1..=1 + c.rng.below(3) as i64 {
        let alone = c.chance(3);
        for &w in if alone { &waiters[..1] } else { waiters } {
            c.start(w, "cond_await", &[o, m, round]);
        }
        let held = c.pick(&[0, 1]);
        c.step(setter, "cond_set", &[o, m, round, i64::from(!alone), held]);
        c.finish();
    }
    c.step(setter, "cond_destroy", &[o]);
    c.step(setter, "mutex_destroy", &[m]);
}

pub(super) fn timeout(c: &mut Chain<'_>) {
    let threads = c.some_threads();
    let o = c.object();
    let m = mutex_for(c, threads[0]);
    let (clock, how) = (c.pick(&[0, 1]), c.pick(&[0, 1]));
    c.step(threads[0], "cond_init", &[o, clock]);
    let all: Vec<_> = threads
        .iter()
        .map(|&t| {
            let ms = c.pick(&[0, 1, 2]);
            // Its own clock, or with pthread_cond_clockwait any.
            let clock = if how == 0 { clock } else { c.pick(&[0, 1]) };
            (t, "cond_timedwait", vec![o, m, ms, how, clock])
        })
        .collect();
    c.all(&all);
    c.step(threads[0], "cond_destroy", &[o]);
    c.step(threads[0], "mutex_destroy", &[m]);
}

pub(super) fn pong(c: &mut Chain<'_>) {
    let threads = c.some_threads();
    let o = c.object();
    let m = mutex_for(c, threads[0]);
    c.step(threads[0], "cond_init", &[o, 0]);
    let (rounds, players) = (5 + c.rng.below(60) as i64, threads.len() as i64);
    let all: Vec<_> = threads
        .iter()
        .enumerate()
        .map(|(i, &t)| (t, "pong", vec![o, m, i as i64, players, rounds]))
        .collect();
    c.all(&all);
    c.step(threads[0], "value", &[o]);
    c.step(threads[0], "cond_destroy", &[o]);
}

pub(super) fn semaphore(c: &mut Chain<'_>) {
    let threads = c.some_threads();
    let (a, b, o) = (threads[0], threads[1], c.object());
    c.step(a, "sem_init", &[o, 1]);
    c.step(b, "sem_trywait", &[o]);
    c.step(a, "sem_trywait", &[o]);
    let (ms, clock) = (c.pick(&[0, 1, 2]), c.pick(&[0, 1]));
    c.step(a, "sem_timedwait", &[o, ms, clock]);
    for &t in &threads[1..] {
        if c.chance(2) {
            c.start(t, "sem_wait", &[o]);
        } else {
            c.start(t, "sem_timedwait", &[o, 600_000, clock]);
        }
    }
    c.step(a, "sem_post", &[o, threads.len() as i64]);
    c.finish();
    c.step(a, "sem_value", &[o]);
    let rounds = 10 + c.rng.below(100) as i64;
    let all: Vec<_> = threads.iter().map(|&t| (t, "sem_guard", vec![o, rounds])).collect();
    c.all(&all);
    c.step(a, "value", &[o]);
    c.step(a, "sem_value", &[o]);
    c.step(a, "sem_destroy", &[o]);
}

pub(super) fn semaphore_pong(c: &mut Chain<'_>) {
    let threads = c.some_threads();
    let objects: Vec<i64> = threads.iter().map(|_| c.object()).collect();
    for (i, &o) in objects.iter().enumerate() {
        c.step(threads[i], "sem_init", &[o, i64::from(i == 0)]);
    }
    let rounds = 5 + c.rng.below(60) as i64;
    let all: Vec<_> = (0..threads.len())
        .map(|i| {
            (threads[i], "sem_pong", vec![objects[i], objects[(i + 1) % objects.len()], rounds])
        })
        .collect();
    c.all(&all);
    c.step(threads[0], "value", &[objects[1]]);
    c.step(threads[0], "sem_value", &[objects[0]]);
}

pub(super) fn once(c: &mut Chain<'_>) {
    let threads = c.some_threads();
    let o = c.object();
    // The signal keeps other steps of this kind away: there is one routine for all.
    c.take_signal(-1);
    c.step(threads[0], "once_init", &[o]);
    let all: Vec<_> = threads.iter().map(|&t| (t, "once", vec![o])).collect();
    c.all(&all);
}

pub(super) fn sleep(c: &mut Chain<'_>) {
    let threads = c.some_threads();
    let all: Vec<_> = threads
        .iter()
        .map(|&t| (t, "sleep", vec![c.rng.below(2000) as i64, c.rng.below(5) as i64]))
        .collect();
    c.all(&all);
}

/// As threads of Rust programs wait for each other.
pub(super) fn futex(c: &mut Chain<'_>) {
    let threads = c.some_threads();
    let (a, o) = (threads[0], c.object());
    c.step(a, "futex_set", &[o, 0, 0]);
    c.step(a, "futex_wait", &[o, 1, -1, 0]);
    let (ms, how) = (c.pick(&[0, 1, 2]), c.pick(&[0, 1, 2]));
    c.step(a, "futex_wait", &[o, 0, ms, how]);
    for &t in &threads[1..] {
        let (ms, how) = (c.pick(&[-1, 600_000]), c.pick(&[0, 1, 2]));
        c.start(t, "futex_wait", &[o, 0, ms, how]);
    }
    c.step(a, "futex_set", &[o, 1, threads.len() as i64]);
    c.finish();
    c.step(a, "futex_set", &[o, 0, 0]);
    let rounds = 10 + c.rng.below(100) as i64;
    let all: Vec<_> = threads.iter().map(|&t| (t, "futex_guard", vec![o, rounds])).collect();
    c.all(&all);
    c.step(a, "value", &[o]);
}
