//! Threads and processes.

use super::{Chain, any_wait};

pub(super) fn thread(c: &mut Chain<'_>) {
    let [a, b] = c.threads();
    let (x, o) = (c.new_thread(), c.object());
    let flags = c.pick(&[0, 0, 1, 2, 3, 4]);
    c.step(a, "sem_init", &[o, 0]);
    c.step(a, "create", &[x as i64, flags]);
    c.step(x, "attributes", &[flags]);
    c.step(x, "name", &[x as i64]);
    c.step(x, "equal", &[a as i64]);
    if c.chance(3) {
        c.step(x, "join_self", &[]);
    }
    c.start(x, "sem_wait", &[o]);
    c.step(b, "alive", &[x as i64]);
    if flags & 1 == 1 {
        c.step(b, "join", &[x as i64]);
        c.step(b, "sem_post", &[o, 1]);
        c.finish();
        return;
    }
    c.step(b, "tryjoin", &[x as i64]);
    let (ms, clock) = (c.pick(&[0, 1, 2]), c.pick(&[0, 1]));
    c.step(b, "timedjoin", &[x as i64, ms, clock]);
    match c.rng.below(3) {
        0 => {
            c.step(a, "detach", &[x as i64]);
            c.step(a, "detach", &[x as i64]);
            c.step(b, "sem_post", &[o, 1]);
        }
        1 => {
            c.start(a, "join", &[x as i64]);
            c.step(b, "sem_post", &[o, 1]);
        }
        _ => {
            c.start(a, "timedjoin", &[x as i64, 600_000, clock]);
            c.step(b, "sem_post", &[o, 1]);
        }
    }
    c.finish();
}

pub(super) fn keys(c: &mut Chain<'_>) {
    let [a, b] = c.threads();
    let (k, x, y) = (c.object(), c.new_thread(), c.new_thread());
    c.step(a, "key_create", &[k]);
    c.step(a, "create", &[x as i64, 0]);
    c.step(b, "create", &[y as i64, 0]);
    c.step(x, "key_get", &[k]);
    c.step(x, "key_set", &[k, 1]);
    c.step(y, "key_get", &[k]);
    c.step(y, "key_set", &[k, 1]);
    c.step(x, "key_get", &[k]);
    c.step(y, "exit", &[3]);
    c.step(a, "join", &[x as i64]);
    c.step(b, "join", &[y as i64]);
    c.step(a, "value", &[k]);
    c.step(b, "key_get", &[k]);
    c.step(a, "key_delete", &[k]);
}

/// Several make threads that soon end, whose numbers and stacks go to each other's.
pub(super) fn crowds(c: &mut Chain<'_>) {
    let all: Vec<_> = c
        .some_threads()
        .into_iter()
        .map(|t| (t, "crowd", vec![1 + c.rng.below(5) as i64, c.rng.below(1000) as i64]))
        .collect();
    c.all(&all);
    c.finish();
}

/// Many compute, and somebody waits beside them.
pub(super) fn compute(c: &mut Chain<'_>) {
    let [a, b] = c.threads();
    let waits = c.chance(2).then(|| any_wait(c, b));
    if let Some(wait) = &waits {
        c.start(a, wait.name, &wait.arguments);
    }
    let all: Vec<_> = c
        .some_threads()
        .into_iter()
        .filter(|&t| t != a)
        .map(|t| {
            let seed = c.rng.below(1000) as i64;
            match c.rng.below(12) {
                0 => (t, "run_child", vec![c.rng.below(2) as i64, seed & 63]),
                1 => (t, "cpu_time", vec![2000]),
                _ => (t, "compute", vec![1000 + c.rng.below(60_000) as i64, seed]),
            }
        })
        .collect();
    c.all(&all);
    if let Some(wait) = &waits {
        c.step(b, wait.release.0, &wait.release.1);
    }
    c.finish();
}
