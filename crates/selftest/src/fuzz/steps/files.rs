//! Pipes, sockets, eventfds, files.

use super::Chain;

pub(super) fn blocking_read(c: &mut Chain<'_>) {
    let [a, b] = c.threads();
    let o = c.object();
    c.step(b, "pipe", &[o, 0, 0]);
    for i in 0..1 + c.rng.below(4) as i64 {
        let (size, how) = (1 + c.rng.below(4000) as i64, c.pick(&[0, 1]));
        c.start(a, "read", &[o, 0, 4096, how]);
        let how = c.pick(&[0, 1]);
        c.step(b, "write", &[o, 1, size, how, i]);
        c.finish();
    }
    if c.chance(2) {
        c.start(a, "read", &[o, 0, 10, 0]);
        c.step(b, "close", &[o, 1]);
        c.finish();
        c.step(a, "read", &[o, 0, 10, 0]);
    } else {
        c.step(a, "close", &[o, 0]);
        c.step(b, "write", &[o, 1, 10, 0, 1]);
        c.step(b, "wait_fd", &[0, o, 1, 4, 0, 0]);
    }
}

/// More than fits: writer and reader wait for each other.
pub(super) fn stream(c: &mut Chain<'_>) {
    let [a, b] = c.threads();
    let o = c.object();
    if c.chance(2) {
        let capacity = c.pick(&[4096, 65536]);
        c.step(a, "pipe", &[o, 0, capacity]);
    } else {
        c.step(a, "sockets", &[o, 0]);
    }
    let (total, chunk) = (10_000 + c.rng.below(200_000) as i64, 100 + c.rng.below(8000) as i64);
    let read = 100 + c.rng.below(8000) as i64;
    c.start(a, "get_all", &[o, 0, read]);
    // All bytes are the same for all lengths of reads only if chunks are.
    c.step(b, "put_all", &[o, 1, total, chunk]);
    c.step(b, "close", &[o, 1]);
    c.finish();
}

pub(super) fn nonblocking(c: &mut Chain<'_>) {
    let [a, b] = c.threads();
    let o = c.object();
    c.step(a, "pipe", &[o, 1, 4096]);
    c.step(b, "read", &[o, 0, 10, 0]);
    c.step(a, "write", &[o, 1, 4096, 0, 1]);
    c.step(b, "write", &[o, 1, 100, 0, 1]);
    let how = c.rng.below(6) as i64;
    c.step(b, "wait_fd", &[how, o, 1, 4, 0, 0]);
    c.step(a, "read", &[o, 0, 4096, 0]);
    c.step(b, "wait_fd", &[how, o, 1, 4, -1, 0]);
    c.step(a, "nonblock", &[o, 0, 0]);
    c.start(a, "read", &[o, 0, 100, 0]);
    c.step(b, "write", &[o, 1, 50, 0, 1]);
    c.finish();
}

/// What `poll` and its relatives say.
pub(super) fn ready(c: &mut Chain<'_>) {
    let [a, b] = c.threads();
    let o = c.object();
    c.step(b, "pipe", &[o, 0, 0]);
    for _ in 0..1 + c.rng.below(3) {
        let how = c.rng.below(6) as i64;
        let ms = c.pick(&[0, 1, 2]);
        c.step(a, "wait_fd", &[how, o, 0, 1, ms, 0]);
        let ms = c.pick(&[-1, 600_000]);
        c.start(a, "wait_fd", &[how, o, 0, 1, ms, 0]);
        c.step(b, "write", &[o, 1, 7, 0, 1]);
        c.finish();
        c.step(a, "read", &[o, 0, 100, 0]);
    }
    let how = c.rng.below(6) as i64;
    c.start(a, "wait_fd", &[how, o, 0, 1, -1, 0]);
    c.step(b, "close", &[o, 1]);
    c.finish();
}

pub(super) fn eventfd(c: &mut Chain<'_>) {
    let [a, b, d] = c.threads();
    let o = c.object();
    let semaphore = c.pick(&[0, 1]);
    c.step(b, "eventfd", &[o, 0, 0, semaphore]);
    c.start(a, "eventfd_get", &[o]);
    c.step(b, "eventfd_add", &[o, 1]);
    c.finish();
    if semaphore == 1 {
        c.start(a, "eventfd_get", &[o]);
        c.start(d, "eventfd_get", &[o]);
        c.step(b, "eventfd_add", &[o, 2]);
        c.finish();
    }
    c.step(b, "eventfd_add", &[o, i64::MAX]);
    c.step(b, "eventfd_add", &[o, i64::MAX]);
    if semaphore == 0 {
        // Full: the writer waits.
        c.start(b, "eventfd_add", &[o, 5]);
        c.step(a, "eventfd_get", &[o]);
        c.finish();
        c.step(a, "eventfd_get", &[o]);
    }
    let how = c.rng.below(6) as i64;
    c.step(a, "wait_fd", &[how, o, 0, 5, 0, 0]);
}

pub(super) fn sockets(c: &mut Chain<'_>) {
    let [a, b] = c.threads();
    let o = c.object();
    let packets = c.pick(&[0, 1]);
    c.step(a, "sockets", &[o, packets]);
    c.step(a, "read", &[o, 0, 10, 3]);
    for _ in 0..1 + c.rng.below(3) {
        let (from, size) = (c.pick(&[0, 1]), 1 + c.rng.below(3000) as i64);
        let (read, write) = (c.pick(&[0, 1, 2, 4]), c.pick(&[0, 1, 2, 3]));
        c.start(a, "read", &[o, 1 - from, 4096, read]);
        c.step(b, "write", &[o, from, size, write, 9]);
        c.finish();
    }
    if c.chance(2) {
        let ms = c.pick(&[1, 3]);
        c.step(a, "patience", &[o, 0, ms]);
        c.step(a, "read", &[o, 0, 10, 2]);
        c.step(a, "patience", &[o, 0, 0]);
    }
    c.start(a, "read", &[o, 0, 10, 2]);
    c.step(b, "shutdown", &[o, 1, 1]);
    c.finish();
    c.step(b, "write", &[o, 1, 10, 2, 9]);
}

/// Several threads read records with one descriptor: none is lost, none comes twice.
pub(super) fn records(c: &mut Chain<'_>) {
    let threads = c.some_threads();
    let o = c.object();
    c.step(threads[0], "file", &[o]);
    let (count, size) = (50 + c.rng.below(200) as i64, 64 + c.rng.below(4000) as i64);
    c.step(threads[0], "file_fill", &[o, count, size]);
    c.step(threads[0], "file_seek", &[o, 0]);
    let all: Vec<_> = threads.iter().map(|&t| (t, "file_records", vec![o, size])).collect();
    c.all(&all);
    c.step(threads[1], "value", &[o]);
}

pub(super) fn file(c: &mut Chain<'_>) {
    let threads = c.some_threads();
    let o = c.object();
    c.step(threads[0], "file", &[o]);
    let all: Vec<_> = threads
        .iter()
        .enumerate()
        .map(|(i, &t)| (t, "file_put", vec![o, i as i64 * 4096, 4096, i as i64]))
        .collect();
    c.all(&all);
    for i in 0..threads.len() {
        c.step(threads[0], "file_get", &[o, i as i64 * 4096, 4096]);
    }
    let rounds = 1 + c.rng.below(20) as i64;
    let all: Vec<_> = threads.iter().map(|&t| (t, "file_append", vec![o, rounds])).collect();
    c.all(&all);
    c.step(threads[1], "file_get", &[o, threads.len() as i64 * 4096, 8192]);
    let all: Vec<_> = threads.iter().map(|&t| (t, "file_lock", vec![o, rounds])).collect();
    c.all(&all);
    c.step(threads[1], "value", &[o]);
}

/// A wait inside the C library.
pub(super) fn lines(c: &mut Chain<'_>) {
    let [a, b] = c.threads();
    let o = c.object();
    c.step(b, "pipe", &[o, 0, 0]);
    for i in 0..1 + c.rng.below(2) as i64 {
        c.start(a, "line_get", &[o]);
        c.step(b, "line_put", &[o, i]);
        c.finish();
    }
}
