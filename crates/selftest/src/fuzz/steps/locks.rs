//! Locks.

use super::Chain;

pub(super) fn mutex(c: &mut Chain<'_>) {
    let [a, b] = c.threads();
    let m = c.object();
    let (kind, inherit, robust) = (c.pick(&[0, 1, 2, 3]), c.pick(&[0, 0, 1]), c.pick(&[0, 0, 1]));
    let shared = c.pick(&[0, 0, 0, 1]);
    c.step(a, "mutex_init", &[m, kind, inherit, robust, shared]);
    c.step(a, "lock", &[m]);
    c.step(b, "trylock", &[m]);
    let (ms, clock) = (c.pick(&[0, 1, 3]), if inherit == 1 { 0 } else { c.pick(&[0, 1]) });
    c.step(b, "timedlock", &[m, ms, clock]);
    match kind {
        1 => {
            c.step(a, "lock", &[m]);
            c.step(a, "unlock", &[m]);
            c.step(b, "trylock", &[m]);
        }
        2 => {
            c.step(a, "lock", &[m]);
        }
        _ => {
            c.step(a, "trylock", &[m]);
        }
    }
    if matches!(kind, 1 | 2) || robust == 1 {
        c.step(b, "unlock", &[m]);
    }
    if c.chance(3) {
        c.start(b, "timedlock", &[m, 600_000, 0]);
    } else {
        c.start(b, "lock", &[m]);
    }
    c.step(a, "unlock", &[m]);
    c.finish();
    c.step(b, "unlock", &[m]);
    c.step(a, "mutex_destroy", &[m]);
}

pub(super) fn contended_mutex(c: &mut Chain<'_>) {
    let threads = c.some_threads();
    let m = c.object();
    let (kind, inherit) = (c.pick(&[0, 1, 2, 3]), c.pick(&[0, 0, 1]));
    let (robust, shared) = (c.pick(&[0, 0, 0, 1]), c.pick(&[0, 0, 0, 1]));
    c.step(threads[0], "mutex_init", &[m, kind, inherit, robust, shared]);
    let (rounds, work) = (10 + c.rng.below(200) as i64, c.rng.below(60) as i64);
    let all: Vec<_> = threads
        .iter()
        .map(|&t| {
            let how = if inherit == 1 { c.pick(&[0, 1, 3]) } else { c.pick(&[0, 1, 2, 3]) };
            (t, "hammer_mutex", vec![m, rounds, how, work])
        })
        .collect();
    c.all(&all);
    c.step(threads[1], "value", &[m]);
    c.step(threads[1], "mutex_destroy", &[m]);
}

/// A thread ends while it holds the mutex; with another that waits for it, or without.
pub(super) fn robust(c: &mut Chain<'_>) {
    let [a, b] = c.threads();
    let (m, x) = (c.object(), c.new_thread());
    let (kind, inherit) = (c.pick(&[0, 1, 2]), c.pick(&[0, 0, 1]));
    let shared = c.pick(&[0, 0, 1]);
    c.step(a, "mutex_init", &[m, kind, inherit, 1, shared]);
    c.step(a, "create", &[x as i64, 0]);
    c.step(x, "lock", &[m]);
    let waits = c.chance(2);
    if waits {
        c.start(b, "lock", &[m]);
    }
    if c.chance(2) {
        c.step(x, "exit", &[7]);
    } else {
        c.step(x, "compute", &[1000, 1]);
    }
    c.step(a, "join", &[x as i64]);
    c.finish();
    if !waits {
        let how = c.pick(&[0, 1]);
        if how == 0 {
            c.step(b, "lock", &[m]);
        } else {
            c.step(b, "trylock", &[m]);
        }
    }
    if c.chance(2) {
        c.step(b, "consistent", &[m]);
        c.step(b, "unlock", &[m]);
        c.step(a, "lock", &[m]);
        c.step(a, "unlock", &[m]);
    } else {
        c.step(b, "unlock", &[m]);
        c.step(a, "lock", &[m]);
        c.step(a, "trylock", &[m]);
    }
    c.step(a, "mutex_destroy", &[m]);
}

/// Mutexes by the C library's own functions, which use what it knows of the thread. Nobody waits:
/// where nobody is preempted, who waits in the kernel keeps its worker.
pub(super) fn libc_mutex(c: &mut Chain<'_>) {
    let [a, b] = c.threads();
    let (m, x) = (c.object(), c.new_thread());
    let kind = c.pick(&[0, 1, 2]);
    // Of one that inherits, the kernel is told when its owner has died.
    let (inherit, robust) = [(0, 0), (1, 0), (0, 1), (0, 1)][c.rng.below(4) as usize];
    let shared = c.pick(&[0, 0, 1]);
    c.step(a, "create", &[x as i64, 0]);
    c.step(a, "libc_init", &[m, kind, inherit, robust, shared]);
    c.step(a, "libc_lock", &[m]);
    c.step(b, "libc_trylock", &[m]);
    match kind {
        1 => {
            c.step(a, "libc_lock", &[m]);
            c.step(a, "libc_unlock", &[m]);
            c.step(b, "libc_trylock", &[m]);
        }
        2 => {
            c.step(a, "libc_lock", &[m]);
        }
        _ => {
            c.step(a, "libc_trylock", &[m]);
        }
    }
    if kind != 0 || robust == 1 {
        c.step(b, "libc_unlock", &[m]);
    }
    c.step(a, "libc_unlock", &[m]);
    c.step(x, "libc_lock", &[m]);
    if robust == 0 {
        c.step(x, "libc_unlock", &[m]);
    }
    c.step(a, "join", &[x as i64]);
    c.step(b, "libc_lock", &[m]);
    if robust == 1 {
        c.step(b, "libc_consistent", &[m]);
    }
    c.step(b, "libc_unlock", &[m]);
    c.step(a, "libc_destroy", &[m]);
}

pub(super) fn rwlock(c: &mut Chain<'_>) {
    let [a, b, d] = c.threads();
    let l = c.object();
    let kind = c.pick(&[0, 1]);
    c.step(a, "rw_init", &[l, kind]);
    c.step(a, "rdlock", &[l]);
    c.step(b, "rdlock", &[l]);
    c.step(d, "trywrlock", &[l]);
    let (ms, clock) = (c.pick(&[0, 1, 2]), c.pick(&[0, 1]));
    c.step(d, "timedwrlock", &[l, ms, clock]);
    c.step(b, "rw_unlock", &[l]);
    if c.chance(2) {
        c.start(d, "wrlock", &[l]);
    } else {
        c.start(d, "timedwrlock", &[l, 600_000, clock]);
    }
    c.step(a, "rw_unlock", &[l]);
    c.finish();
    c.step(a, "tryrdlock", &[l]);
    c.step(a, "timedrdlock", &[l, ms, clock]);
    c.step(d, "wrlock", &[l]);
    c.step(d, "rdlock", &[l]);
    c.start(a, "rdlock", &[l]);
    c.start(b, "rdlock", &[l]);
    c.step(d, "rw_unlock", &[l]);
    c.finish();
    c.step(a, "rw_unlock", &[l]);
    c.step(b, "rw_unlock", &[l]);
    c.step(d, "rw_destroy", &[l]);
}

pub(super) fn contended_rwlock(c: &mut Chain<'_>) {
    let threads = c.some_threads();
    let l = c.object();
    let kind = c.pick(&[0, 1]);
    c.step(threads[0], "rw_init", &[l, kind]);
    let (rounds, work) = (10 + c.rng.below(100) as i64, c.rng.below(60) as i64);
    let every = c.pick(&[1, 2, 5, 10]);
    let all: Vec<_> =
        threads.iter().map(|&t| (t, "hammer_rw", vec![l, rounds, every, work])).collect();
    c.all(&all);
    c.step(threads[1], "value", &[l]);
    c.step(threads[1], "rw_destroy", &[l]);
}

pub(super) fn spin(c: &mut Chain<'_>) {
    let threads = c.some_threads();
    let (s, a, b) = (c.object(), threads[0], threads[1]);
    c.step(a, "spin_init", &[s]);
    c.step(a, "spin_lock", &[s]);
    c.step(b, "spin_trylock", &[s]);
    c.step(a, "spin_unlock", &[s]);
    let rounds = 10 + c.rng.below(100) as i64;
    let all: Vec<_> = threads.iter().map(|&t| (t, "hammer_spin", vec![s, rounds])).collect();
    c.all(&all);
    c.step(a, "value", &[s]);
    c.step(a, "spin_destroy", &[s]);
}

pub(super) fn barrier(c: &mut Chain<'_>) {
    let threads = c.some_threads();
    let o = c.object();
    c.step(threads[0], "barrier_init", &[o, threads.len() as i64]);
    let rounds = 1 + c.rng.below(30) as i64;
    let all: Vec<_> = threads.iter().map(|&t| (t, "barrier_wait", vec![o, rounds])).collect();
    c.all(&all);
    c.step(threads[0], "value", &[o]);
    c.step(threads[0], "barrier_destroy", &[o]);
}
