//! Waiting for files of any kind.

use crate::support::on_runtime;
use quaver::Builder;
use quaver::net::Pollable;
use std::fs::File;
use std::io::{self, ErrorKind, Read, Write, pipe};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

fn on_both(body: fn()) {
    body();
    for workers in [1, 2] {
        on_runtime(Builder::new().workers(workers), body);
    }
}

fn nonblocking<T: AsFd>(file: T) -> T {
    let fd = file.as_fd().as_raw_fd();
    // SAFETY: takes no pointer.
    assert_eq!(unsafe { libc::fcntl(fd, libc::F_SETFL, libc::O_NONBLOCK) }, 0);
    file
}

#[test]
fn pipes() {
    on_both(|| {
        const BYTES: usize = 1 << 20;
        let (rx, tx) = pipe().unwrap();
        let rx = Pollable::new(nonblocking(rx)).unwrap();
        let tx = Pollable::new(nonblocking(tx)).unwrap();
        let writer = std::thread::spawn(move || {
            let mut sent = 0;
            while sent < BYTES {
                let data = vec![sent as u8; 5000.min(BYTES - sent)];
                sent += tx.write_io(None, |mut pipe| pipe.write(&data)).unwrap();
            }
        });
        let mut got = 0;
        let mut buffer = vec![0; 7000];
        loop {
            match rx.read_io(None, |mut pipe| pipe.read(&mut buffer)).unwrap() {
                0 => break,
                n => got += n,
            }
        }
        assert_eq!(got, BYTES);
        rx.wait_readable(None).unwrap();
        writer.join().unwrap();
    });
}

#[test]
fn deadlines() {
    on_both(|| {
        let (rx, mut tx) = pipe().unwrap();
        let rx = Pollable::new(nonblocking(rx)).unwrap();
        let soon = || Instant::now() + Duration::from_millis(10);
        let deadline = soon();
        let e = rx.wait_readable(Some(deadline)).unwrap_err();
        assert!(e.kind() == ErrorKind::TimedOut && Instant::now() >= deadline, "{e}");
        let deadline = soon();
        let e = rx.read_io(Some(deadline), |mut pipe| pipe.read(&mut [0])).unwrap_err();
        assert!(e.kind() == ErrorKind::TimedOut && Instant::now() >= deadline, "{e}");
        tx.write_all(b"x").unwrap();
        // What is ready is ready after any deadline.
        rx.wait_readable(Some(deadline)).unwrap();
        assert_eq!(rx.read_io(Some(deadline), |mut pipe| pipe.read(&mut [0])).unwrap(), 1);
    });
}

#[test]
fn events_and_timers() {
    on_both(|| {
        // SAFETY: takes no pointer, and returns a descriptor that nobody else has.
        let event = unsafe {
            OwnedFd::from_raw_fd(libc::eventfd(0, libc::EFD_NONBLOCK | libc::EFD_SEMAPHORE))
        };
        let event = Arc::new(Pollable::new(File::from(event)).unwrap());
        let waiters: Vec<_> = (0..3)
            .map(|_| {
                let event = event.clone();
                std::thread::spawn(move || {
                    let mut count = [0; 8];
                    event.read_io(None, |mut file| file.read(&mut count)).unwrap();
                    u64::from_ne_bytes(count)
                })
            })
            .collect();
        event.wait_writable(None).unwrap();
        event.get_ref().write_all(&3u64.to_ne_bytes()).unwrap();
        assert_eq!(waiters.into_iter().map(|t| t.join().unwrap()).sum::<u64>(), 3);

        // SAFETY: takes no pointer, and returns a descriptor that nobody else has.
        let timer = unsafe { OwnedFd::from_raw_fd(libc::timerfd_create(libc::CLOCK_MONOTONIC, 0)) };
        let timer = Pollable::new(timer).unwrap();
        let once = libc::timespec { tv_sec: 0, tv_nsec: 5_000_000 };
        let never = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        let setting = libc::itimerspec { it_interval: never, it_value: once };
        let begin = Instant::now();
        // SAFETY: reads `setting`.
        let set = unsafe {
            libc::timerfd_settime(timer.as_fd().as_raw_fd(), 0, &setting, std::ptr::null_mut())
        };
        assert_eq!(set, 0);
        timer.wait_readable(None).unwrap();
        assert!(begin.elapsed() >= Duration::from_millis(5));
    });
}

#[test]
fn what_cannot_be_waited_for() {
    let reason = |file: io::Result<File>| {
        let e = Pollable::new(file.unwrap()).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Unsupported);
        e.to_string()
    };
    let text = reason(File::open(std::env::current_exe().unwrap()));
    assert!(text.starts_with("a regular file (descriptor ") && text.contains("block_in_place"));
    assert!(reason(File::open("/")).starts_with("a directory (descriptor "));
    assert!(reason(File::open("/dev/null")).starts_with("a file of this kind (descriptor "));
}

#[test]
fn it_gives_back_what_it_got() {
    let (rx, mut tx) = pipe().unwrap();
    let fd = rx.as_raw_fd();
    let mut rx = Pollable::new(rx).unwrap();
    assert_eq!(rx.as_fd().as_raw_fd(), fd);
    assert_eq!(format!("{rx:?}"), format!("Pollable({:?})", rx.get_ref()));
    tx.write_all(b"xyz").unwrap();
    rx.wait_readable(None).unwrap();
    rx.get_mut().read_exact(&mut [0; 2]).unwrap();
    let mut rx = rx.into_inner();
    assert_eq!(rx.read(&mut [0; 2]).unwrap(), 1);
    drop(tx);
    assert_eq!(rx.read(&mut [0; 2]).unwrap(), 0);
}
