//! Pipes and sockets, between user threads and with kernel threads.

use super::*;
use crate::Builder;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

fn pair() -> (Arc<FileSource>, Arc<FileSource>) {
    let (a, b) = UnixStream::pair().unwrap();
    (source(a), source(b))
}

fn source(stream: UnixStream) -> Arc<FileSource> {
    stream.set_nonblocking(true).unwrap();
    Arc::new(FileSource::new(stream.into()))
}

fn with_stream<T>(fd: BorrowedFd<'_>, f: impl FnOnce(&mut UnixStream) -> T) -> T {
    // SAFETY: not dropped.
    let stream = unsafe { <UnixStream as std::os::fd::FromRawFd>::from_raw_fd(fd.as_raw_fd()) };
    f(&mut ManuallyDrop::new(stream))
}

fn read(source: &FileSource, buffer: &mut [u8]) -> io::Result<usize> {
    let wanted = buffer.len();
    source.read_stream(None, wanted, |fd| with_stream(fd, |s| s.read(buffer)))
}

fn write(source: &FileSource, bytes: &[u8]) {
    let mut done = 0;
    while done < bytes.len() {
        let rest = &bytes[done..];
        done += source.io(Direction::Write, None, |fd| with_stream(fd, |s| s.write(rest))).unwrap();
    }
}

fn echo(source: &FileSource) {
    let mut buffer = [0; 100];
    while let Ok(n @ 1..) = read(source, &mut buffer) {
        write(source, &buffer[..n]);
    }
}

fn on(workers: usize, f: impl FnOnce() + Send) {
    crate::__private::test(Builder::new().workers(workers), f);
}

#[test]
fn threads_of_one_worker_talk() {
    on(1, || {
        let (mine, other) = pair();
        let server = crate::spawn(move || echo(&other));
        for i in 0..1_000u32 {
            write(&mine, &i.to_le_bytes());
            let mut answer = [0; 4];
            let mut have = 0;
            while have < 4 {
                have += read(&mine, &mut answer[have..]).unwrap();
            }
            assert_eq!(u32::from_le_bytes(answer), i);
        }
        drop(mine);
        server.join().unwrap();
    });
}

#[test]
fn many_talk_with_kernel_threads() {
    on(2, || {
        let pairs: Vec<_> = (0..64).map(|_| pair()).collect();
        let (clients, servers): (Vec<_>, Vec<_>) = pairs.into_iter().unzip();
        let servers: Vec<_> =
            servers.into_iter().map(|server| crate::spawn(move || echo(&server))).collect();
        let kernel = std::thread::spawn(move || {
            for round in 0..50u8 {
                for client in &clients {
                    write(client, &[round]);
                }
                for client in &clients {
                    let mut answer = [0];
                    assert_eq!(read(client, &mut answer).unwrap(), 1);
                    assert_eq!(answer, [round]);
                }
            }
        });
        for server in servers {
            server.join().unwrap();
        }
        kernel.join().unwrap();
    });
}

#[test]
fn all_who_wait_for_one_file_are_woken() {
    on(2, || {
        let (mine, other) = pair();
        let readers: Vec<_> = (0..20)
            .map(|_| {
                let other = other.clone();
                crate::spawn(move || read(&other, &mut [0]).unwrap())
            })
            .collect();
        for _ in 0..20 {
            write(&mine, &[1]);
            crate::yield_now();
        }
        let got: usize = readers.into_iter().map(|r| r.join().unwrap()).sum();
        assert_eq!(got, 20);
    });
}

#[test]
fn a_deadline_ends_a_wait_and_leaves_nothing() {
    on(1, || {
        let (mine, other) = pair();
        for _ in 0..20 {
            let deadline = Some(Instant::now() + Duration::from_millis(1));
            let error = other
                .io(Direction::Read, deadline, |fd| with_stream(fd, |s| s.read(&mut [0])))
                .unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        }
        write(&mine, b"x");
        assert_eq!(read(&other, &mut [0; 8]).unwrap(), 1);
    });
}

#[test]
fn a_full_file_is_written_when_there_is_room() {
    on(1, || {
        let (mine, other) = pair();
        let writer = crate::spawn(move || write(&mine, &vec![7; 3_000_000]));
        let mut got = 0;
        let mut buffer = vec![0; 10_000];
        while let Ok(n @ 1..) = read(&other, &mut buffer) {
            got += n;
        }
        writer.join().unwrap();
        assert_eq!(got, 3_000_000);
    });
}

/// Computes until another thread has read what arrives after a while: nothing but that arrival lets
/// it read.
fn compute_until_something_arrives() {
    let (mine, other) = pair();
    let reader = crate::spawn(move || read(&other, &mut [0]).unwrap());
    crate::yield_now();
    let kernel = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(20));
        write(&mine, b"x");
    });
    while !reader.is_finished() {
        core::hint::spin_loop();
    }
    kernel.join().unwrap();
    assert_eq!(reader.join().unwrap(), 1);
}

#[test]
fn arrivals_interrupt_who_has_had_a_quantum() {
    let builder = Builder::new().workers(1).quantum(Some(Duration::from_micros(200)));
    crate::__private::test(builder, compute_until_something_arrives);
}

#[test]
fn an_idle_worker_hears_of_files_while_another_computes() {
    let builder = Builder::new().workers(2).quantum(None);
    crate::__private::test(builder, compute_until_something_arrives);
}

#[test]
fn a_thread_without_a_worker_is_heard() {
    on(1, || {
        let (mine, other) = pair();
        let kernel = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(20));
            write(&mine, b"x");
        });
        assert_eq!(crate::block_in_place(|| read(&other, &mut [0]).unwrap()), 1);
        kernel.join().unwrap();
    });
}

#[test]
fn only_a_stacks_own_events_are_special() {
    let (mine, _other) = pair();
    let fd = mine.as_fd().as_raw_fd();
    assert!(crate::reactor::serve(fd));
    // Those who had waited were woken, whatever for; that does not count.
    assert!(!mine.is_special());
    crate::reactor::announce(fd, libc::POLLIN as u32);
    assert!(!mine.is_special());
    crate::reactor::announce(fd, libc::POLLRDHUP as u32);
    assert!(mine.is_special());
    crate::reactor::unserve(fd);
}

#[test]
fn a_reader_hears_of_no_room_and_a_writer_does() {
    on(1, || {
        let (mine, other) = pair();
        let fd = mine.as_fd().as_raw_fd();
        let reader = crate::spawn({
            let mine = mine.clone();
            move || read(&mine, &mut [0; 8]).unwrap()
        });
        crate::yield_now();
        // Room comes and goes, and is of no interest.
        let writes = || file::known(fd).unwrap().writes.load(Relaxed);
        let before = writes();
        let mut sent = 0;
        while with_stream(mine.as_fd(), |s| s.write(&[7; 4096])).is_ok() {
            sent += 4096;
        }
        while sent > 0 {
            sent -= read(&other, &mut vec![0; sent]).unwrap();
        }
        crate::sleep(Duration::from_millis(1));
        assert_eq!(writes(), before);
        // From now on it is.
        let big = vec![7; 1 << 20];
        let len = big.len();
        let writer = crate::spawn(move || write(&mine, &big));
        let mut got = 0;
        while got < len {
            got += read(&other, &mut vec![0; 1 << 16]).unwrap();
        }
        writer.join().unwrap();
        assert!(writes() > before);
        write(&other, b"end");
        assert_eq!(reader.join().unwrap(), 3);
    });
}
