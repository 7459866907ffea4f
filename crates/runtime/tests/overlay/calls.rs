//! Calls of C, on what is served beside what is not, on kernel threads and on user threads.

use crate::c::done;
use crate::on::a_moment;
use crate::support::setup::alone;
use crate::{everywhere_in_c as everywhere, install};
use std::fs::File;
use std::io::{ErrorKind, PipeReader, PipeWriter, Read, Seek, Write, pipe};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};

/// Two ends of a connection.
fn connected() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let one = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (one, listener.accept().unwrap().0)
}

fn ask(fd: RawFd, events: i16) -> libc::pollfd {
    libc::pollfd { fd, events, revents: 0 }
}

fn poll<const N: usize>(mut files: [libc::pollfd; N], timeout: i32) -> (i64, [i16; N]) {
    // SAFETY: so many entries.
    let n = unsafe { libc::poll(files.as_mut_ptr(), N as u64, timeout) };
    (done(n).unwrap(), files.map(|file| file.revents))
}

#[test]
fn poll_finds_both_kinds() {
    everywhere(|on| {
        let (one, mut other) = connected();
        let (mut reader, mut writer): (PipeReader, PipeWriter) = pipe().unwrap();
        let (fd, end) = (one.as_raw_fd(), reader.as_raw_fd());
        let both = move || [ask(fd, libc::POLLIN), ask(-1, libc::POLLIN), ask(end, libc::POLLIN)];
        assert_eq!(poll(both(), 0), (0, [0; 3]));
        let begin = Instant::now();
        assert_eq!(poll(both(), 20), (0, [0; 3]));
        assert!(begin.elapsed() >= Duration::from_millis(20));
        assert_eq!(poll([ask(fd, libc::POLLIN | libc::POLLOUT)], -1), (1, [libc::POLLOUT]));
        let waiter = on.spawn(move || poll(both(), -1));
        a_moment();
        other.write_all(b"x").unwrap();
        assert_eq!(waiter.join(), (1, [libc::POLLIN, 0, 0]));
        (&one).read_exact(&mut [0]).unwrap();
        let waiter = on.spawn(move || poll(both(), -1));
        a_moment();
        writer.write_all(b"x").unwrap();
        assert_eq!(waiter.join(), (1, [0, 0, libc::POLLIN]));
        reader.read_exact(&mut [0]).unwrap();
        drop(other);
        let ended = libc::POLLIN | libc::POLLRDHUP;
        assert_eq!(poll([ask(fd, ended)], -1), (1, [ended]));
        // Many files: more than fit on a stack.
        let mut many = [ask(end, libc::POLLIN); 50];
        many[40] = ask(fd, libc::POLLIN);
        let (n, found) = poll(many, -1);
        assert_eq!((n, found[40], found[0]), (1, libc::POLLIN, 0));
    });
}

#[test]
fn select_finds_both_kinds() {
    everywhere(|on| {
        let (one, mut other) = connected();
        let (reader, writer) = pipe().unwrap();
        let (fd, end, out) = (one.as_raw_fd(), reader.as_raw_fd(), writer.as_raw_fd());
        let select = move |timeout: Option<i64>| {
            // SAFETY: sets of descriptors that are all zeroes, and which exist.
            unsafe {
                let [mut r, mut w]: [libc::fd_set; 2] = core::mem::zeroed();
                libc::FD_SET(fd, &mut r);
                libc::FD_SET(end, &mut r);
                if timeout.is_none() {
                    libc::FD_SET(out, &mut w);
                }
                let mut time = libc::timeval { tv_sec: 0, tv_usec: timeout.unwrap_or(0) };
                let time = if timeout == Some(-1) { core::ptr::null_mut() } else { &mut time };
                let n = libc::select(
                    fd.max(end).max(out) + 1,
                    &mut r,
                    &mut w,
                    core::ptr::null_mut(),
                    time,
                );
                (n, libc::FD_ISSET(fd, &r), libc::FD_ISSET(end, &r), libc::FD_ISSET(out, &w))
            }
        };
        assert_eq!(select(Some(0)), (0, false, false, false));
        assert_eq!(select(Some(20_000)), (0, false, false, false));
        assert_eq!(select(None), (1, false, false, true));
        let waiter = on.spawn(move || select(Some(-1)));
        a_moment();
        other.write_all(b"x").unwrap();
        assert_eq!(waiter.join(), (1, true, false, false));
    });
}

struct Epoll(OwnedFd);

impl Epoll {
    fn new() -> Epoll {
        // SAFETY: a new descriptor.
        Epoll(unsafe { OwnedFd::from_raw_fd(libc::epoll_create1(libc::EPOLL_CLOEXEC)) })
    }

    fn control(&self, operation: i32, fd: RawFd, events: i32, data: u64) -> Result<i64, i32> {
        let mut event = libc::epoll_event { events: events as u32, u64: data };
        // SAFETY: the event lives across the call.
        done(unsafe { libc::epoll_ctl(self.0.as_raw_fd(), operation, fd, &mut event) })
    }

    fn add(&self, fd: RawFd, events: i32, data: u64) -> Result<i64, i32> {
        self.control(libc::EPOLL_CTL_ADD, fd, events, data)
    }

    fn wait(&self, timeout: i32) -> Vec<(u64, u32)> {
        wait(self.0.as_raw_fd(), timeout, 8)
    }
}

/// Data and events, in the order of the data.
fn wait(epoll: RawFd, timeout: i32, most: i32) -> Vec<(u64, u32)> {
    let mut events = [libc::epoll_event { events: 0, u64: 0 }; 8];
    // SAFETY: room for eight.
    let n = unsafe { libc::epoll_wait(epoll, events.as_mut_ptr(), most, timeout) };
    let mut found: Vec<_> =
        events[..done(n).unwrap() as usize].iter().map(|e| (e.u64, e.events)).collect();
    found.sort_unstable();
    found
}

const IN: u32 = libc::EPOLLIN as u32;
const OUT: u32 = libc::EPOLLOUT as u32;

#[test]
fn epoll_level_edge_and_once() {
    everywhere(|_| {
        let (mut one, mut other) = connected();
        let (mut reader, mut writer) = pipe().unwrap();
        let epoll = Epoll::new();
        let fd = one.as_raw_fd();
        assert_eq!(epoll.control(libc::EPOLL_CTL_MOD, fd, libc::EPOLLIN, 1), Err(libc::ENOENT));
        assert_eq!(epoll.add(fd, libc::EPOLLIN, 1), Ok(0));
        assert_eq!(epoll.add(fd, libc::EPOLLIN, 1), Err(libc::EEXIST));
        assert_eq!(epoll.add(reader.as_raw_fd(), libc::EPOLLIN, 2), Ok(0));
        assert_eq!(epoll.wait(0), []);
        other.write_all(b"ab").unwrap();
        writer.write_all(b"x").unwrap();
        // Level: as long as there is something.
        assert_eq!(epoll.wait(-1), [(1, IN), (2, IN)]);
        assert_eq!(epoll.wait(0), [(1, IN), (2, IN)]);
        // Neither keeps the other from being reported.
        let mut seen: Vec<_> =
            (0..4).flat_map(|_| wait(epoll.0.as_raw_fd(), 0, 1)).map(|(data, _)| data).collect();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen, [1, 2]);
        one.read_exact(&mut [0]).unwrap();
        reader.read_exact(&mut [0]).unwrap();
        assert_eq!(epoll.wait(0), [(1, IN)]);
        one.read_exact(&mut [0]).unwrap();
        assert_eq!(epoll.wait(0), []);
        // Edge: once for each arrival.
        let edge = libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLET;
        assert_eq!(epoll.control(libc::EPOLL_CTL_MOD, fd, edge, 3), Ok(0));
        assert_eq!(epoll.wait(0), [(3, OUT)]);
        assert_eq!(epoll.wait(0), []);
        other.write_all(b"a").unwrap();
        assert_eq!(epoll.wait(-1), [(3, IN | OUT)]);
        assert_eq!(epoll.wait(0), []);
        other.write_all(b"b").unwrap();
        assert_eq!(epoll.wait(-1), [(3, IN | OUT)]);
        // One-shot: until it is armed again.
        let once = libc::EPOLLIN | libc::EPOLLONESHOT;
        assert_eq!(epoll.control(libc::EPOLL_CTL_MOD, fd, once, 4), Ok(0));
        assert_eq!(epoll.wait(-1), [(4, IN)]);
        other.write_all(b"c").unwrap();
        assert_eq!(epoll.wait(0), []);
        assert_eq!(epoll.control(libc::EPOLL_CTL_MOD, fd, once, 5), Ok(0));
        assert_eq!(epoll.wait(-1), [(5, IN)]);
        assert_eq!(epoll.control(libc::EPOLL_CTL_DEL, fd, 0, 0), Ok(0));
        assert_eq!(epoll.control(libc::EPOLL_CTL_DEL, fd, 0, 0), Err(libc::ENOENT));
        other.write_all(b"d").unwrap();
        assert_eq!(epoll.wait(0), []);
        // What is closed is no member any more.
        assert_eq!(epoll.add(fd, libc::EPOLLIN, 6), Ok(0));
        assert_eq!(epoll.wait(0), [(6, IN)]);
        drop(one);
        assert_eq!(epoll.wait(0), []);
    });
}

#[test]
fn epoll_wakes_all_ways_to_wait() {
    everywhere(|on| {
        let (mut one, mut other) = connected();
        let epoll = Epoll::new();
        epoll.add(one.as_raw_fd(), libc::EPOLLIN, 1).unwrap();
        let fd = epoll.0.as_raw_fd();
        for _ in 0..3 {
            let several: Vec<_> = (0..3).map(|_| on.spawn(move || wait(fd, -1, 8))).collect();
            let polls = on.spawn(move || poll([ask(fd, libc::POLLIN)], -1));
            a_moment();
            other.write_all(b"x").unwrap();
            for waiter in several {
                assert_eq!(waiter.join(), [(1, IN)]);
            }
            assert_eq!(polls.join(), (1, [libc::POLLIN]));
            one.read_exact(&mut [0]).unwrap();
            assert_eq!(poll([ask(fd, libc::POLLIN)], 0), (0, [0]));
        }
        let begin = Instant::now();
        assert_eq!(wait(fd, 20, 8), []);
        assert!(begin.elapsed() >= Duration::from_millis(20));
        // By another descriptor of the same instance.
        let clone = epoll.0.try_clone().unwrap();
        drop(epoll);
        let waiter = on.spawn(move || (wait(clone.as_raw_fd(), -1, 8), clone));
        a_moment();
        other.write_all(b"x").unwrap();
        assert_eq!(waiter.join().0, [(1, IN)]);
    });
}

/// nginx adds a socket before it connects it.
#[test]
fn epoll_members_that_are_taken_over() {
    everywhere(|_| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let kind = socket2::Type::STREAM.nonblocking();
        let one = socket2::Socket::new(socket2::Domain::IPV4, kind, None).unwrap();
        let epoll = Epoll::new();
        let events = libc::EPOLLOUT | libc::EPOLLIN | libc::EPOLLET;
        epoll.add(one.as_raw_fd(), events, 9).unwrap();
        // The kernel's opinion of a socket that is not connected.
        let hung_up = OUT | libc::EPOLLHUP as u32;
        assert_eq!(epoll.wait(0), [(9, hung_up)]);
        let e = one.connect(&address.into()).unwrap_err();
        assert_eq!(e.raw_os_error(), Some(libc::EINPROGRESS));
        assert_eq!(epoll.wait(-1), [(9, OUT)]);
        let mut other = listener.accept().unwrap().0;
        other.write_all(b"x").unwrap();
        assert_eq!(epoll.wait(-1), [(9, IN | OUT)]);
        assert_eq!(epoll.wait(0), []);
    });
}

#[test]
fn duplicates_are_one_socket() {
    everywhere(|_| {
        let (one, mut other) = connected();
        let fd = one.as_raw_fd();
        // SAFETY: no memory; descriptors that are owned below.
        let [a, b, c] = unsafe {
            let b = libc::open(c"/dev/null".as_ptr(), libc::O_RDONLY);
            assert_eq!(libc::dup2(fd, b), b);
            [libc::dup(fd), b, libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 100)]
        };
        assert!(c >= 100);
        // SAFETY: made above.
        let [a, b, c] = [a, b, c].map(|fd| unsafe { TcpStream::from_raw_fd(fd) });
        let address = one.local_addr().unwrap();
        drop(one);
        for (mut clone, byte) in [(a, b"1"), (b, b"2")] {
            assert_eq!(clone.local_addr().unwrap(), address);
            clone.write_all(byte).unwrap();
            let mut got = [0];
            other.read_exact(&mut got).unwrap();
            assert_eq!(&got, byte);
        }
        // The last one.
        let last = c.as_raw_fd() as u32;
        // SAFETY: no memory; not closed again below.
        assert_eq!(done(unsafe { libc::close_range(last, last, 0) }), Ok(0));
        std::mem::forget(c);
        assert_eq!(other.read(&mut [0]).unwrap(), 0);
    });
}

#[test]
fn a_duplicate_knows_of_the_end_before_it() {
    use quaver::net;

    everywhere(|_| {
        let listener = net::TcpListener::bind("127.0.0.1:0").unwrap();
        let one = net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut other, _) = listener.accept().unwrap();
        other.write_all(b"last").unwrap();
        drop(other);
        a_moment();
        let mut copy = one.try_clone().unwrap();
        let mut room = [0; 16];
        assert_eq!(copy.read(&mut room).unwrap(), 4);
        // Less than there was room for, and yet the next read need not wait.
        assert_eq!(copy.read(&mut room).unwrap(), 0);
    });
}

#[test]
fn messages_and_flags() {
    everywhere(|on| {
        let (one, mut other) = connected();
        let fd = one.as_raw_fd();
        let mut room = [0u8; 16];
        let at = room.as_mut_ptr().cast();
        // SAFETY: room for so many bytes.
        unsafe {
            assert_eq!(done(libc::recv(fd, at, 16, libc::MSG_DONTWAIT)), Err(libc::EAGAIN));
            assert_eq!(done(libc::recv(fd, at, 16, libc::MSG_OOB)), Err(libc::EINVAL));
            let writer = on.spawn(move || {
                for piece in [b"abc", b"def"] {
                    a_moment();
                    other.write_all(piece).unwrap();
                }
                other
            });
            assert_eq!(done(libc::recv(fd, at, 6, libc::MSG_WAITALL)), Ok(6));
            assert_eq!(&room[..6], b"abcdef");
            other = writer.join();
            other.write_all(b"xyz").unwrap();
            let mut n = 0i32;
            assert_eq!(done(libc::ioctl(fd, libc::FIONREAD, &mut n)), Ok(0));
            assert_eq!(n, 3);
            assert_eq!(done(libc::recv(fd, at, 16, libc::MSG_PEEK)), Ok(3));
            assert_eq!(done(libc::recv(fd, at, 2, libc::MSG_TRUNC)), Ok(2));
            assert_eq!(done(libc::read(fd, at, 16)), Ok(1));
            assert_eq!(done(libc::pread(fd, at, 16, 0)), Err(libc::ESPIPE));
            assert_eq!(done(libc::lseek(fd, 0, libc::SEEK_SET)), Err(libc::ESPIPE));
            drop(other);
            assert_eq!(done(libc::recv(fd, at, 16, 0)), Ok(0));
        }
    });
}

#[test]
fn files_are_copied() {
    everywhere(|on| {
        let (one, mut other) = connected();
        let path = std::env::temp_dir().join(format!("quaver-overlay-{}", std::process::id()));
        let data: Vec<u8> = (0..300_000u32).map(|i| (i ^ i >> 8) as u8).collect();
        std::fs::write(&path, &data).unwrap();
        let mut file = File::open(&path).unwrap();
        let reader = on.spawn(move || {
            let mut got = Vec::new();
            other.read_to_end(&mut got).unwrap();
            (got, other)
        });
        // SAFETY: no memory; the offset lives across the call.
        unsafe {
            let (to, from) = (one.as_raw_fd(), file.as_raw_fd());
            let mut offset = 100_000;
            assert_eq!(done(libc::sendfile(to, from, &mut offset, 100_000)), Ok(100_000));
            assert_eq!(offset, 200_000);
            assert_eq!(done(libc::sendfile(to, from, core::ptr::null_mut(), 70_000)), Ok(70_000));
            assert_eq!(file.stream_position().unwrap(), 70_000);
            let (reader, _writer) = pipe().unwrap();
            let none = core::ptr::null_mut();
            let spliced = libc::splice(reader.as_raw_fd(), none, to, none, 10, 0);
            assert_eq!(done(spliced), Err(libc::EINVAL));
        }
        // And by the standard library's own ways.
        std::io::copy(&mut file, &mut &one).unwrap();
        drop(one);
        let (got, _other) = reader.join();
        assert!(got == [&data[100_000..200_000], &data[..70_000], &data[70_000..]].concat());
        std::fs::remove_file(path).unwrap();
    });
}

#[test]
fn options_are_handed_down() {
    everywhere(|_| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let options = socket2::SockRef::from(&listener);
        options.set_tcp_nodelay(true).unwrap();
        options.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        assert!(options.is_listener().unwrap());
        let one = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut other = listener.accept().unwrap().0;
        assert!(other.nodelay().unwrap() && !one.nodelay().unwrap());
        assert_eq!(other.read(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
        let e = socket2::SockRef::from(&one)
            .join_multicast_v4(&[224, 0, 0, 9].into(), &[127, 0, 0, 1].into());
        assert_eq!(e.unwrap_err().raw_os_error(), Some(libc::ENOPROTOOPT));
    });
}

/// A child of fork has no stack; what it closes stays open here.
#[test]
fn children_have_none() {
    alone(|| {
        install();
        let (mut one, mut other) = connected();
        // SAFETY: the child makes calls and exits.
        unsafe {
            let child = libc::fork();
            if child == 0 {
                let mut room = [0u8; 4];
                let (fd, at) = (one.as_raw_fd(), room.as_mut_ptr().cast());
                let down = Err(libc::ENETDOWN);
                let fails = done(libc::recv(fd, at, 4, 0)) == down
                    && done(libc::write(fd, at, 4)) == down
                    && done(libc::close(fd)) == Ok(0)
                    && done(libc::recv(fd, at, 4, 0)) == Err(libc::EBADF);
                libc::_exit(if fails { 0 } else { 1 });
            }
            let mut status = 0;
            assert_eq!(libc::waitpid(child, &mut status, 0), child);
            assert_eq!(status, 0);
        }
        other.write_all(b"still").unwrap();
        let mut got = [0; 5];
        one.read_exact(&mut got).unwrap();
        assert_eq!(&got, b"still");
    });
}
