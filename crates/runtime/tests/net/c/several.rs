//! `recvmmsg` and `sendmmsg`.

use super::{connected, datagrams, done, receive, until};
use crate::on::{On, a_moment};
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};

/// The messages that have come, or the error.
type Taken = Result<Vec<Vec<u8>>, i32>;

const AGAIN: Taken = Err(libc::EAGAIN);

/// Messages with a buffer each.
struct Messages {
    rooms: Vec<Vec<u8>>,
}

impl Messages {
    fn of(n: usize, each: usize) -> Messages {
        Messages { rooms: vec![vec![0; each]; n] }
    }

    /// What `f` comes to with them, and their lengths and flags.
    fn with(&mut self, f: impl FnOnce(*mut libc::mmsghdr, u32) -> i32) -> Result<Lengths, i32> {
        let vec = |room: &mut Vec<u8>| libc::iovec {
            iov_base: room.as_mut_ptr().cast(),
            iov_len: room.len(),
        };
        let mut vecs: Vec<_> = self.rooms.iter_mut().map(vec).collect();
        let message = |vec: &mut libc::iovec| {
            // SAFETY: all zeroes are a message.
            let mut message: libc::mmsghdr = unsafe { core::mem::zeroed() };
            (message.msg_hdr.msg_iov, message.msg_hdr.msg_iovlen) = (vec, 1);
            message
        };
        let mut all: Vec<_> = vecs.iter_mut().map(message).collect();
        let n = done(f(all.as_mut_ptr(), all.len() as u32))?;
        let said = all[..n as usize].iter();
        Ok(said.map(|m| (m.msg_len as usize, m.msg_hdr.msg_flags)).collect())
    }
}

type Lengths = Vec<(usize, i32)>;

/// `recvmmsg`: the messages that have come.
fn take(fd: RawFd, n: usize, flags: i32) -> Taken {
    take_within(fd, n, flags, None).0
}

/// The same with a time, of which so much is left.
fn take_within(
    fd: RawFd,
    n: usize,
    flags: i32,
    time: Option<libc::timespec>,
) -> (Taken, Option<(i64, i64)>) {
    let (mut messages, mut time) = (Messages::of(n, 4), time);
    let at = time.as_mut().map_or(core::ptr::null_mut(), core::ptr::from_mut);
    // SAFETY: messages with buffers, and a time, that live across the call.
    let taken = messages.with(|all, n| unsafe { libc::recvmmsg(fd, all, n, flags, at) });
    let taken = taken.map(|lengths| {
        let cut = |(room, (n, _)): (&Vec<u8>, (usize, i32))| room[..n.min(4)].to_vec();
        messages.rooms.iter().zip(lengths).map(cut).collect()
    });
    (taken, time.map(|time| (time.tv_sec, time.tv_nsec)))
}

fn millis(ms: i64) -> libc::timespec {
    libc::timespec { tv_sec: 0, tv_nsec: ms * 1_000_000 }
}

pub fn a_burst(_: On) {
    let (one, other) = datagrams();
    let mut messages = Messages { rooms: (1..=5).map(|n| vec![b'a' + n as u8; n]).collect() };
    let fd = other.as_raw_fd();
    // SAFETY: messages with buffers that live across the call.
    let sent = messages.with(|all, n| unsafe { libc::sendmmsg(fd, all, n, 0) });
    assert_eq!(sent.unwrap().iter().map(|m| m.0).collect::<Vec<_>>(), [1, 2, 3, 4, 5]);
    let mut rooms = Messages::of(5, 4);
    let fd = one.as_raw_fd();
    // SAFETY: as above.
    let got = rooms.with(|all, n| unsafe { libc::recvmmsg(fd, all, n, 0, core::ptr::null_mut()) });
    assert_eq!(got.unwrap(), [(1, 0), (2, 0), (3, 0), (4, 0), (4, libc::MSG_TRUNC)]);
    assert_eq!(rooms.rooms[2], b"ddd\0");
    assert_eq!(take(fd, 8, libc::MSG_DONTWAIT), AGAIN);
    // As long as they are.
    other.send(b"long one").unwrap();
    until(fd, libc::POLLIN);
    let mut rooms = Messages::of(2, 4);
    let flags = libc::MSG_TRUNC | libc::MSG_DONTWAIT;
    // SAFETY: as above.
    let got =
        rooms.with(|all, n| unsafe { libc::recvmmsg(fd, all, n, flags, core::ptr::null_mut()) });
    assert_eq!(got.unwrap(), [(8, libc::MSG_TRUNC)]);
}

pub fn all_of_them_are_waited_for(on: On) {
    let (one, other) = datagrams();
    let fd = one.as_raw_fd();
    for flags in [0, libc::MSG_WAITALL] {
        other.send(b"a").unwrap();
        let waiter = on.spawn(move || take(fd, 3, flags));
        a_moment();
        other.send(b"b").unwrap();
        a_moment();
        other.send(b"c").unwrap();
        assert_eq!(waiter.join().unwrap(), [b"a", b"b", b"c"]);
    }
    let waiter = on.spawn(move || take(fd, 3, libc::MSG_WAITFORONE));
    a_moment();
    other.send(b"d").unwrap();
    assert_eq!(waiter.join().unwrap(), [b"d"]);
}

pub fn what_there_is(_: On) {
    let (one, other) = datagrams();
    let fd = one.as_raw_fd();
    assert_eq!(take(fd, 3, libc::MSG_DONTWAIT), AGAIN);
    assert_eq!(take(fd, 0, 0), Ok(vec![]));
    let mut messages = Messages { rooms: vec![b"a".to_vec(), vec![]] };
    let sender = other.as_raw_fd();
    // SAFETY: messages with buffers that live across the call.
    let sent = messages.with(|all, n| unsafe { libc::sendmmsg(sender, all, n, 0) });
    assert_eq!(sent.unwrap(), [(1, 0), (0, 0)]);
    assert_eq!(take(fd, 2, 0).unwrap(), [&b"a"[..], b""]);
    other.send(b"a").unwrap();
    until(fd, libc::POLLIN);
    assert_eq!(take(fd, 3, libc::MSG_DONTWAIT).unwrap(), [b"a"]);
    one.set_nonblocking(true).unwrap();
    assert_eq!(take(fd, 3, 0), AGAIN);
    other.send(b"b").unwrap();
    until(fd, libc::POLLIN);
    assert_eq!(take(fd, 3, 0).unwrap(), [b"b"]);
    other.send(b"c").unwrap();
    until(fd, libc::POLLIN);
    assert_eq!(take(fd, 2, libc::MSG_PEEK).unwrap(), [b"c", b"c"]);
    assert_eq!(take(fd, 1, 0).unwrap(), [b"c"]);
}

/// Which is looked at after each message only.
pub fn with_a_time(on: On) {
    let (one, other) = datagrams();
    let fd = one.as_raw_fd();
    let wrong = libc::timespec { tv_sec: 0, tv_nsec: 1_000_000_000 };
    assert_eq!(take_within(fd, 2, 0, Some(wrong)).0, Err(libc::EINVAL));
    assert_eq!(take_within(-1, 2, 0, Some(wrong)).0, Err(libc::EINVAL));
    // One is waited for all the same.
    other.send(b"a").unwrap();
    other.send(b"b").unwrap();
    assert_eq!(take_within(fd, 2, 0, Some(millis(0))), (Ok(vec![b"a".into()]), Some((0, 0))));
    let is_done = Arc::new(AtomicBool::new(false));
    let says = is_done.clone();
    let waiter = on.spawn(move || {
        let got = take_within(fd, 8, 0, Some(millis(20)));
        says.store(true, SeqCst);
        got
    });
    while !is_done.load(SeqCst) {
        quaver::sleep(Duration::from_millis(30));
        other.send(b"c").unwrap();
    }
    let (got, left) = waiter.join();
    let got = got.unwrap();
    // Two, as a rule; there is room for more.
    assert!((2..8).contains(&got.len()) && got[..2] == [b"b", b"c"], "{got:?}");
    assert_eq!(left, Some((0, 0)));
    other.send(b"d").unwrap();
    let minute = libc::timespec { tv_sec: 60, tv_nsec: 0 };
    loop {
        let (got, left) = take_within(fd, 1, 0, Some(minute));
        assert!((30..60).contains(&left.unwrap().0), "{left:?}");
        // Others may be left.
        if got.unwrap() == [b"d"] {
            break;
        }
    }
    // Nothing has come: it is not touched.
    let (got, left) = take_within(fd, 1, libc::MSG_DONTWAIT, Some(minute));
    assert_eq!((got, left), (AGAIN, Some((60, 0))));
}

/// Of each message its own.
pub fn with_the_times_of_the_socket(on: On) {
    let (one, other) = datagrams();
    let fd = one.as_raw_fd();
    let time = Duration::from_millis(40);
    one.set_read_timeout(Some(time)).unwrap();
    assert_eq!(take(fd, 3, 0), AGAIN);
    let begin = Instant::now();
    let waiter = on.spawn(move || take(fd, 3, 0));
    quaver::sleep(time / 4);
    other.send(b"a").unwrap();
    let got = waiter.join();
    // The machine may stop for as long.
    if got != AGAIN {
        assert_eq!(got.unwrap(), [b"a"]);
        // The kernel counts ticks, of which the first may be nearly over.
        let tick = Duration::from_millis(11);
        assert!(begin.elapsed() + tick >= time, "{:?}", begin.elapsed());
    }
}

/// Before anything that can be received.
pub fn errors_come_first(_: On) {
    let (one, other) = datagrams();
    one.connect(other.local_addr().unwrap()).unwrap();
    other.send(b"a").unwrap();
    drop(other);
    one.send(b"x").unwrap();
    let fd = one.as_raw_fd();
    until(fd, 0);
    assert_eq!(take(fd, 3, 0), Err(libc::ECONNREFUSED));
    assert_eq!(take(fd, 3, libc::MSG_WAITFORONE).unwrap(), [b"a"]);
    one.send(b"x").unwrap();
    until(fd, 0);
    assert_eq!(take(fd, 0, 0), Err(libc::ECONNREFUSED));
}

pub fn errors_behind_a_message(on: On) {
    let (one, other) = datagrams();
    one.connect(other.local_addr().unwrap()).unwrap();
    other.send(b"a").unwrap();
    let fd = one.as_raw_fd();
    let waiter = on.spawn(move || take(fd, 3, 0));
    a_moment();
    drop(other);
    one.send(b"x").unwrap();
    // The waiter may come late, and find the error first.
    let (first, then) = (waiter.join(), take(fd, 3, libc::MSG_WAITFORONE));
    let (taken, refused) = (Ok(vec![b"a".to_vec()]), Err(libc::ECONNREFUSED));
    assert!([(taken.clone(), refused.clone()), (refused, taken)].contains(&(first, then)));
}

pub fn whole_messages_of_streams(on: On) {
    const EACH: usize = 300_000;
    let (one, mut other) = connected();
    let fd = one.as_raw_fd();
    let reader = on.spawn(move || {
        let mut all = Vec::new();
        other.read_to_end(&mut all).unwrap();
        (all, other)
    });
    let mut messages = Messages { rooms: (0..3).map(|n| vec![n; EACH]).collect() };
    // SAFETY: messages with buffers that live across the call.
    let sent = messages.with(|all, n| unsafe { libc::sendmmsg(fd, all, n, 0) });
    assert_eq!(sent.unwrap().iter().map(|m| m.0).collect::<Vec<_>>(), [EACH; 3]);
    one.shutdown(Shutdown::Write).unwrap();
    let (all, _other) = reader.join();
    assert!(all.len() == 3 * EACH && (0..3 * EACH).all(|i| usize::from(all[i]) == i / EACH));
}

pub fn streams_end_in_them(on: On) {
    let (one, mut other) = connected();
    let fd = one.as_raw_fd();
    other.write_all(b"abcde").unwrap();
    a_moment();
    assert_eq!(take(fd, 2, 0).unwrap(), [&b"abcd"[..], b"e"]);
    let waiter = on.spawn(move || take(fd, 4, libc::MSG_WAITALL));
    for piece in [b"fg", b"hi", b"jk"] {
        a_moment();
        other.write_all(piece).unwrap();
    }
    drop(other);
    assert_eq!(waiter.join().unwrap(), [&b"fghi"[..], b"jk", b"", b""]);
    assert_eq!(take(fd, 2, 0).unwrap(), [b"", b""]);
    assert_eq!(receive(fd, 4, 0), Ok(vec![]));
}

pub fn nobody_sends_too_much(_: On) {
    let (_one, other) = datagrams();
    let fd = other.as_raw_fd();
    let give = |rooms: Vec<Vec<u8>>| {
        let mut messages = Messages { rooms };
        // SAFETY: messages with buffers that live across the call.
        messages.with(|all, n| unsafe { libc::sendmmsg(fd, all, n, 0) }).map(|all| all.len())
    };
    let (short, long) = (vec![1], vec![1; 65_508]);
    assert_eq!(give(vec![short.clone(), long.clone(), short.clone()]), Ok(1));
    assert_eq!(give(vec![long, short.clone()]), Err(libc::EMSGSIZE));
    assert_eq!(give(vec![]), Ok(0));
    assert_eq!(give(vec![short; 1030]), Ok(1024));
}
