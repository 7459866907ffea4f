//! Several messages with one call, what is asked of sockets, queues of listeners, and waiting for
//! many.

use super::Chain;

const PEEK: i64 = 2;
const TRUNC: i64 = 0x20;
const DONTWAIT: i64 = 0x40;
const WAITALL: i64 = 0x100;
const WAITFORONE: i64 = 0x10000;

/// `recvmmsg` and `sendmmsg` of datagrams.
pub(super) fn datagrams(c: &mut Chain<'_>) {
    let [a, b] = c.threads();
    let o = c.object();
    c.step(b, "udp", &[o]);
    // Those that there are.
    let n = 1 + c.rng.below(8) as i64;
    let size = c.pick(&[1, 40, 100]);
    c.step(b, "send_several", &[o, 1, n, size, 0]);
    let flags = c.pick(&[DONTWAIT, WAITFORONE, DONTWAIT | TRUNC, DONTWAIT | WAITFORONE]);
    c.step(a, "recv_several", &[o, 0, 12, 64, flags, -1]);
    c.step(a, "recv_several", &[o, 0, 3, 64, DONTWAIT | PEEK, -1]);
    // Each of them is waited for.
    let n = 1 + c.rng.below(5) as i64;
    let (flags, ms) = (c.pick(&[0, WAITALL]), c.pick(&[-1, 600_000]));
    c.start(a, "recv_several", &[o, 0, n, 64, flags, ms]);
    for i in 0..n {
        c.step(b, "write", &[o, 1, 1 + i * 7, 2, i]);
    }
    c.finish();
    if c.chance(2) {
        // Not longer than the socket says; a time is looked at behind a message only.
        let ms = c.pick(&[1, 3]);
        c.step(a, "patience", &[o, 0, ms]);
        c.step(a, "recv_several", &[o, 0, 2, 64, 0, -1]);
        c.step(b, "write", &[o, 1, 9, 2, 5]);
        c.step(a, "recv_several", &[o, 0, 2, 64, 0, -1]);
        c.step(a, "patience", &[o, 0, 0]);
        c.step(b, "send_several", &[o, 1, 3, 10, 0]);
        c.step(a, "recv_several", &[o, 0, 3, 64, 0, 0]);
    }
    // One that is too long.
    let each = c.pick(&[65_507, 65_508]);
    c.step(b, "send_several", &[o, 1, 1, each, 0]);
}

/// The same of streams, whose messages go whole, and end.
pub(super) fn streams(c: &mut Chain<'_>) {
    let [a, b] = c.threads();
    let o = c.object();
    c.step(b, "sockets", &[o, 0]);
    let (n, each) = (1 + c.rng.below(4) as i64, 1 + c.rng.below(100_000) as i64);
    c.start(a, "get_all", &[o, 0, 5000]);
    c.step(b, "send_several", &[o, 1, n, each, 0]);
    c.step(b, "shutdown", &[o, 1, 1]);
    c.finish();
    // The other way.
    let (n, each) = (1 + c.rng.below(4) as i64, 1 + c.rng.below(1000) as i64);
    c.start(b, "recv_several", &[o, 1, n, each, WAITALL, -1]);
    c.step(a, "put_all", &[o, 0, n * each, 300]);
    c.finish();
    c.step(a, "send_several", &[o, 0, 1, 10, 0]);
    c.step(a, "close", &[o, 0]);
    c.step(b, "recv_several", &[o, 1, 2, 20, 0, -1]);
    c.step(b, "send_several", &[o, 1, 2, 10, 0]);
}

/// `FIONREAD` and options, before and after ends.
pub(super) fn questions(c: &mut Chain<'_>) {
    let [a, b] = c.threads();
    let (l, o) = (c.object(), c.object());
    match c.rng.below(3) {
        0 => {
            c.step(b, "listen", &[l]);
            c.start(a, "accept", &[o, l, 0]);
            c.step(b, "connect", &[o, l]);
            c.finish();
            for which in 0..7 {
                c.step(a, "ask", &[l, 0, which, 4]);
            }
            c.step(a, "bytes", &[l, 0]);
        }
        kind => {
            c.step(b, "sockets", &[o, kind as i64 - 1]);
        }
    }
    let size = 1 + c.rng.below(1000) as i64;
    c.step(b, "write", &[o, 1, size, 2, 5]);
    c.step(a, "wait_fd", &[0, o, 0, 1, -1, 0]);
    c.step(a, "bytes", &[o, 0]);
    for which in 0..7 {
        let room = c.pick(&[0, 1, 3, 4]);
        c.step(a, "ask", &[o, 0, which, room]);
    }
    c.step(b, "shutdown", &[o, 1, 1]);
    c.step(a, "bytes", &[o, 0]);
    c.step(a, "read", &[o, 0, 4096, 2]);
    c.step(a, "bytes", &[o, 0]);
    c.step(a, "read", &[o, 0, 4096, 2]);
    c.step(a, "bytes", &[o, 0]);
    c.step(b, "close", &[o, 1]);
    c.step(a, "bytes", &[o, 0]);
    c.step(a, "read", &[o, 0, 4096, 2]);
}

/// As many connections as a listener on a Unix socket has room for, and one that waits.
pub(super) fn backlog(c: &mut Chain<'_>) {
    let [a, b] = c.threads();
    let l = c.object();
    let n = c.rng.below(4) as i64;
    c.step(b, "listen_unix", &[l, n]);
    for _ in 0..n + 2 {
        let o = c.object();
        c.step(a, "dial_unix", &[o, l, 0]);
    }
    let (o, p) = (c.object(), c.object());
    c.start(a, "dial_unix", &[o, l, 1]);
    c.step(b, "accept", &[p, l, 0]);
    c.finish();
    c.step(b, "ask", &[l, 0, 2, 4]);
    if c.chance(2) {
        // Who waits is refused.
        let o = c.object();
        c.start(a, "dial_unix", &[o, l, 1]);
        c.step(b, "close", &[l, 0]);
        c.finish();
    } else {
        for _ in 0..=n {
            let p = c.object();
            c.step(b, "accept", &[p, l, 0]);
        }
        c.step(b, "nonblock", &[l, 0, 1]);
        let p = c.object();
        c.step(b, "accept", &[p, l, 0]);
    }
}

/// More files than a thread parks for.
pub(super) fn crowd(c: &mut Chain<'_>) {
    let [a, b] = c.threads();
    let n = 5;
    let objects: Vec<i64> = (0..n).map(|_| c.object()).collect();
    for (i, &o) in objects.iter().enumerate() {
        match i % 3 {
            0 => c.step(b, "pipe", &[o, 0, 0]),
            1 => c.step(b, "sockets", &[o, 0]),
            _ => c.step(b, "udp", &[o]),
        };
    }
    for _ in 0..2 {
        let (times, how) = (c.pick(&[1, 6, 7, 15]), c.pick(&[0, 0, 1]));
        let ms = c.pick(&[0, 2]);
        c.step(a, "wait_crowd", &[objects[0], n, times, ms, how]);
        let o = objects[c.rng.below(n as u64) as usize];
        let ms = c.pick(&[-1, 600_000]);
        c.start(a, "wait_crowd", &[objects[0], n, times, ms, how]);
        c.step(b, "write", &[o, 1, 10, 0, 1]);
        c.finish();
        c.step(a, "read", &[o, 0, 100, 0]);
    }
}
