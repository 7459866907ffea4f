//! Connections, and files that are closed or replaced while a call waits for them.

use super::Chain;

/// `accept` and `connect`, whichever comes first; then something goes both ways.
pub(super) fn connection(c: &mut Chain<'_>) {
    let [a, b] = c.threads();
    let (l, o) = (c.object(), c.object());
    c.step(b, "listen", &[l]);
    if c.chance(3) {
        // It has a limit, and nobody comes.
        let ms = c.pick(&[1, 3]);
        c.step(a, "patience", &[l, 0, ms]);
        c.step(a, "accept", &[o, l, 0]);
        c.step(a, "patience", &[l, 0, 0]);
    }
    if c.chance(4) {
        c.step(a, "nonblock", &[l, 0, 1]);
        c.step(a, "accept", &[o, l, 0]);
        c.step(a, "nonblock", &[l, 0, 0]);
    }
    // SOCK_CLOEXEC
    let flags = c.pick(&[0, 0o2_000_000]);
    c.start(a, "accept", &[o, l, flags]);
    c.step(b, "connect", &[o, l]);
    c.finish();
    for _ in 0..1 + c.rng.below(3) {
        let (from, size) = (c.pick(&[0, 1]), 1 + c.rng.below(3000) as i64);
        let (read, write) = (c.pick(&[0, 1, 2, 4]), c.pick(&[0, 1, 2, 3]));
        c.start(a, "read", &[o, 1 - from, 4096, read]);
        c.step(b, "write", &[o, from, size, write, 9]);
        c.finish();
    }
    c.start(a, "get_all", &[o, 1, 1000]);
    let total = 10_000 + c.rng.below(400_000) as i64;
    c.step(b, "put_all", &[o, 0, total, 5000]);
    c.step(b, "shutdown", &[o, 0, 1]);
    c.finish();
    c.step(b, "close", &[l, 0]);
    let p = c.object();
    c.step(b, "connect", &[p, l]);
}

/// Several threads accept from one listener.
pub(super) fn acceptors(c: &mut Chain<'_>) {
    let threads = c.some_threads();
    let (dialer, acceptors) = (threads[0], &threads[1..]);
    let l = c.object();
    c.step(dialer, "listen", &[l]);
    let objects: Vec<i64> = acceptors.iter().map(|_| c.object()).collect();
    for (&t, &o) in acceptors.iter().zip(&objects) {
        c.start(t, "accept", &[o, l, 0]);
    }
    for _ in acceptors {
        let p = c.object();
        c.step(dialer, "connect", &[p, l]);
    }
    c.finish();
}

/// All of it, or what there is when the other end says that nothing more will come.
pub(super) fn whole(c: &mut Chain<'_>) {
    let [a, b] = c.threads();
    let o = c.object();
    c.step(a, "sockets", &[o, 0]);
    let (first, second) = (1 + c.rng.below(1000) as i64, 1 + c.rng.below(1000) as i64);
    c.start(a, "recv_all", &[o, 0, first + second]);
    c.step(b, "write", &[o, 1, first, 2, 5]);
    c.step(b, "write", &[o, 1, second, 0, 6]);
    c.finish();
    if c.chance(2) {
        let ms = c.pick(&[1, 3]);
        c.step(b, "write", &[o, 1, first, 2, 5]);
        c.step(a, "patience", &[o, 0, ms]);
        c.step(a, "recv_all", &[o, 0, first + 1]);
        c.step(a, "recv_all", &[o, 0, 1]);
        c.step(a, "patience", &[o, 0, 0]);
    }
    c.start(a, "recv_all", &[o, 0, first + 1]);
    c.step(b, "write", &[o, 1, first, 2, 5]);
    c.step(b, "shutdown", &[o, 1, 1]);
    c.finish();
}

/// The descriptor of one who waits becomes another file's: it goes on with its own.
pub(super) fn lost(c: &mut Chain<'_>) {
    let [a, b] = c.threads();
    let o = c.object();
    let how = c.rng.below(3) as i64;
    if c.chance(2) {
        c.step(b, "sockets", &[o, 0]);
        c.step(b, "keep", &[o, 0]);
        let (first, second) = (1 + c.rng.below(1000) as i64, 1 + c.rng.below(1000) as i64);
        c.start(a, "recv_all", &[o, 0, first + second]);
        c.step(b, "write", &[o, 1, first, 2, 5]);
        c.step(b, "taken", &[o, 0]);
        c.step(b, "lose", &[o, 0, how]);
        c.step(b, "drop", &[o]);
        c.step(b, "write", &[o, 1, second, 2, 6]);
        c.finish();
    } else {
        let (capacity, total) = (65_536, 65_537 + c.rng.below(200_000) as i64);
        c.step(b, "pipe", &[o, 0, capacity]);
        c.step(b, "keep", &[o, 0]);
        c.start(a, "put_whole", &[o, 1, total]);
        c.step(b, "taken", &[o, capacity]);
        c.step(b, "lose", &[o, 1, how]);
        c.step(b, "drop", &[o]);
        c.step(b, "get_all", &[o, 0, 5000]);
        c.finish();
    }
}

/// Its descriptor is replaced by one of the same file: whoever waits, waits for that.
pub(super) fn replaced(c: &mut Chain<'_>) {
    let [a, b] = c.threads();
    let o = c.object();
    c.step(b, "sockets", &[o, 0]);
    c.step(b, "keep", &[o, 0]);
    let how = c.rng.below(8) as i64;
    if how < 6 {
        c.start(a, "wait_fd", &[how, o, 0, 1, -1, 0]);
    } else {
        c.start(a, "read", &[o, 0, 100, (how - 6) * 2]);
    }
    for _ in 0..1 + c.rng.below(3) {
        c.step(b, "lose", &[o, 0, 3]);
    }
    c.step(b, "write", &[o, 1, 7, 2, 5]);
    c.finish();
    c.step(b, "drop", &[o]);
}

/// `poll` of several files.
pub(super) fn several(c: &mut Chain<'_>) {
    let [a, b] = c.threads();
    let n = 2 + c.rng.below(5) as i64;
    let objects: Vec<i64> = (0..n).map(|_| c.object()).collect();
    for &o in &objects {
        c.step(b, "pipe", &[o, 0, 0]);
    }
    let ms = c.pick(&[0, 2]);
    c.step(a, "poll_some", &[objects[0], n, ms]);
    for _ in 0..2 {
        let o = objects[c.rng.below(n as u64) as usize];
        let ms = c.pick(&[-1, 600_000]);
        c.start(a, "poll_some", &[objects[0], n, ms]);
        c.step(b, "write", &[o, 1, 10, 0, 1]);
        c.finish();
        c.step(a, "read", &[o, 0, 100, 0]);
    }
    c.start(a, "poll_some", &[objects[0], n, -1]);
    c.step(b, "close", &[objects[0], 1]);
    c.finish();
}

/// Several threads wait at one epoll file.
pub(super) fn shared_epoll(c: &mut Chain<'_>) {
    let threads = c.some_threads();
    let (giver, takers) = (threads[0], &threads[1..]);
    let (e, o) = (c.object(), c.object());
    c.step(giver, "eventfd", &[o, 0, 1, 1]);
    c.step(giver, "epoll", &[e, o]);
    for &t in takers {
        c.start(t, "epoll_take", &[e, o]);
    }
    let mut left = takers.len() as i64;
    while left > 0 {
        let n = 1 + c.rng.below(left as u64) as i64;
        c.step(giver, "eventfd_add", &[o, n]);
        left -= n;
    }
    c.finish();
}
