//! System calls that wait: for data, files, processes.

use crate::contend::{Protected, contend};
use crate::support::kernel::{pipe, wait_readable};
use crate::support::{Setup, spin, stats, until};
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

/// One reads what the other, on the same worker, writes later.
#[test]
fn reading_what_is_written_later() {
    for setup in Setup::all() {
        setup.run(|| {
            let (mut rx, mut tx) = pipe().unwrap();
            let (mut back_rx, mut back_tx) = pipe().unwrap();
            let echo = quaver::spawn(move || {
                let mut buffer = [0u8; 64];
                loop {
                    let n = rx.read(&mut buffer).unwrap();
                    if n == 0 {
                        return;
                    }
                    back_tx.write_all(&buffer[..n]).unwrap();
                }
            });
            // The worker is free although both of them wait in the kernel most of the time.
            let busy = quaver::spawn(|| until(|| stats().handovers >= 20, |_| _ = spin(500)));
            let mut rounds = 0u8;
            until(
                || busy.is_finished(),
                |_| {
                    rounds = rounds.wrapping_add(1);
                    let message = [rounds; 33];
                    tx.write_all(&message).unwrap();
                    let mut answer = [0; 33];
                    back_rx.read_exact(&mut answer).unwrap();
                    assert_eq!(answer, message);
                },
            );
            drop(tx);
            echo.join().unwrap();
            busy.join().unwrap();
        });
    }
}

/// Who waits in a call has short slices then, spares preempt nobody when they wake, and who
/// computes is as the kernel made it.
#[test]
fn the_kernel_runs_who_comes_back_before_who_computes() {
    // SAFETY: asks for a number.
    let own_tid = || unsafe { libc::syscall(libc::SYS_gettid) as i32 };
    // Policy and slice, in ns (0 before Linux 6.12), in `struct sched_attr`.
    let turns = |tid: i32| {
        let mut attr = [0u64; 6];
        // SAFETY: the kernel writes as much as it is told.
        let r = unsafe { libc::syscall(libc::SYS_sched_getattr, tid, &mut attr, 48, 0) };
        // A spare may have ended since it was found.
        if r == 0 { ((attr[0] >> 32) as i32, attr[3]) } else { (-1, 0) }
    };
    let spares = || {
        let tasks = std::fs::read_dir("/proc/self/task").unwrap().map(|task| task.unwrap().path());
        let named = |path: &std::path::PathBuf| {
            std::fs::read_to_string(path.join("comm")).is_ok_and(|name| name == "quaver-spare\n")
        };
        let tid = |path: std::path::PathBuf| path.file_name()?.to_str()?.parse().ok();
        tasks.filter(named).filter_map(tid).collect::<Vec<i32>>()
    };
    let usual = turns(0);
    assert_eq!(usual.0, libc::SCHED_OTHER, "these tests run under another policy");
    Setup { workers: 1, ..Setup::all()[0] }.run(|| {
        let (mut rx, mut tx) = pipe().unwrap();
        let reads_on = &*Box::leak(Box::new(AtomicI32::new(0)));
        let reader = quaver::spawn(move || {
            reads_on.store(own_tid(), SeqCst);
            rx.read_exact(&mut [0]).unwrap();
        });
        let computes = quaver::spawn(move || {
            until(|| stats().handovers > 0, |_| _ = spin(500));
            // Its thread makes its call on the kernel thread that was the worker.
            let (away, worker) = (reads_on.load(SeqCst), own_tid());
            assert!(away != 0 && away != worker, "{away} {worker}");
            assert_eq!(turns(worker), usual);
            until(|| turns(away).1 < usual.1 || usual.1 == 0, |_| _ = spin(500));
            assert_eq!(turns(away).0, libc::SCHED_OTHER);
            let waits = |tid: &i32| turns(*tid).0 == libc::SCHED_BATCH;
            until(|| spares().iter().any(waits), |_| _ = spin(500));
            tx.write_all(&[1]).unwrap();
        });
        computes.join().unwrap();
        reader.join().unwrap();
    });
}

/// A pipe that is full blocks its writer.
#[test]
fn writing_what_is_read_later() {
    for setup in Setup::all() {
        setup.run(|| {
            const BYTES: usize = 1 << 20;
            let (mut rx, mut tx) = pipe().unwrap();
            let data: Vec<u8> = (0..BYTES).map(|i| (i / 7) as u8).collect();
            let expected = data.clone();
            let writer = quaver::spawn(move || tx.write_all(&data).unwrap());
            let reader = quaver::spawn(move || {
                let mut found = Vec::new();
                rx.read_to_end(&mut found).unwrap();
                assert!(found == expected);
            });
            writer.join().unwrap();
            reader.join().unwrap();
        });
    }
}

/// A server and its clients, with a thread for each connection, as one would write them with kernel
/// threads.
#[test]
fn servers_and_clients() {
    for setup in Setup::all() {
        setup.run(|| {
            const CLIENTS: u64 = 6;
            let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
            let address = listener.local_addr().unwrap();
            let server = quaver::spawn(move || {
                let connections: Vec<_> = (0..CLIENTS)
                    .map(|_| {
                        let (mut stream, _) = listener.accept().unwrap();
                        quaver::spawn(move || {
                            let mut request = [0u8; 8];
                            while stream.read_exact(&mut request).is_ok() {
                                let n = u64::from_le_bytes(request);
                                spin(n % 500);
                                stream.write_all(&(n * n).to_le_bytes()).unwrap();
                            }
                        })
                    })
                    .collect();
                connections.into_iter().for_each(|c| c.join().unwrap());
            });
            let clients: Vec<_> = (0..CLIENTS)
                .map(|i| {
                    quaver::spawn(move || {
                        let mut stream = TcpStream::connect(address).unwrap();
                        for k in 0..40u64 {
                            let n = i * 1_000 + k;
                            stream.write_all(&n.to_le_bytes()).unwrap();
                            let mut answer = [0u8; 8];
                            stream.read_exact(&mut answer).unwrap();
                            assert_eq!(u64::from_le_bytes(answer), n * n);
                        }
                    })
                })
                .collect();
            clients.into_iter().for_each(|c| c.join().unwrap());
            server.join().unwrap();
        });
    }
}

/// The worker of a thread that waits in the kernel is free for work that comes later, from
/// elsewhere.
#[test]
fn work_comes_while_the_only_worker_waits() {
    for setup in Setup::with_workers(1) {
        setup.run_built(setup.builder(), |rt| {
            for i in 0..30u8 {
                let (mut rx, mut tx) = pipe().unwrap();
                let waits = rt.spawn(move || {
                    let mut byte = [0];
                    rx.read_exact(&mut byte).unwrap();
                    byte[0]
                });
                if i % 2 == 0 {
                    std::thread::sleep(Duration::from_millis(1));
                }
                rt.spawn(move || tx.write_all(&[i]).unwrap()).join().unwrap();
                assert_eq!(waits.join().unwrap(), i);
            }
        });
    }
}

/// A call that was handed over returns what it should, also when that is an error.
#[test]
fn results_of_calls_that_waited() {
    for setup in Setup::all() {
        setup.run(|| {
            let stop = AtomicBool::new(false);
            quaver::scope(|s| {
                s.spawn(|| until(|| stop.load(SeqCst), |_| _ = spin(500)));
                for i in 0..10usize {
                    // The other end is closed: an end of file, no error.
                    let (mut rx, tx) = pipe().unwrap();
                    let t = s.spawn(move || rx.read(&mut [0; 8]).unwrap());
                    spin(20_000);
                    drop(tx);
                    assert_eq!(t.join().unwrap(), 0);
                    // A connection that is reset: an error.
                    let (mut a, mut b) = UnixStream::pair().unwrap();
                    b.write_all(&[0; 100]).unwrap();
                    a.write_all(&[1; 1]).unwrap();
                    let t = s.spawn(move || {
                        let mut buffer = vec![0; 100];
                        a.read_exact(&mut buffer).unwrap();
                        let e = a.read(&mut buffer).unwrap_err();
                        let errno = std::io::Error::last_os_error().raw_os_error();
                        assert_eq!(errno, Some(libc::ECONNRESET));
                        e.kind()
                    });
                    spin(20_000);
                    drop(b);
                    assert_eq!(t.join().unwrap(), ErrorKind::ConnectionReset);
                    // So many bytes and no more.
                    let (mut rx, mut tx) = pipe().unwrap();
                    let t = s.spawn(move || {
                        let mut buffer = [0; 64];
                        let n = rx.read(&mut buffer).unwrap();
                        assert!(buffer[..n].iter().all(|&b| b == i as u8));
                        n
                    });
                    spin(20_000);
                    tx.write_all(&vec![i as u8; i + 1]).unwrap();
                    assert_eq!(t.join().unwrap(), i + 1);
                }
                stop.store(true, SeqCst);
            });
        });
    }
}

fn flock(fd: RawFd, operation: i32) -> i32 {
    // SAFETY: no memory is involved.
    unsafe { libc::flock(fd, operation) }
}

#[test]
fn file_locks() {
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("locked");
    for setup in Setup::all() {
        let protected = Protected::default();
        contend(setup, 40, |rng| {
            let file = std::fs::OpenOptions::new().create(true).append(true).open(&path).unwrap();
            assert_eq!(flock(file.as_raw_fd(), libc::LOCK_EX), 0);
            protected.change(rng.below(3_000));
            assert_eq!(flock(file.as_raw_fd(), libc::LOCK_UN), 0);
        });
    }
}

#[test]
fn waiting_for_processes() {
    for setup in Setup::all() {
        setup.run(|| {
            let done = AtomicUsize::new(0);
            quaver::scope(|s| {
                for i in 0..3 {
                    let done = &done;
                    s.spawn(move || {
                        let exit = std::process::Command::new("sh")
                            .args(["-c", &format!("sleep 0.01; echo {i}; exit {i}")])
                            .output()
                            .unwrap();
                        assert_eq!(exit.status.code(), Some(i));
                        assert_eq!(exit.stdout, format!("{i}\n").into_bytes());
                        done.fetch_add(1, SeqCst);
                    });
                }
                until(|| done.load(SeqCst) == 3, |_| _ = spin(1_000));
            });
        });
    }
}

/// `poll` is one of the calls that Linux never restarts after a signal: with other work waiting it
/// ends with `EINTR`, as documented, and works when it is repeated. `read` is restarted and never
/// does that.
#[test]
fn interrupted_system_calls() {
    for setup in Setup::with_workers(1) {
        setup.run(|| {
            let (interrupted, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
            let (mut rx, mut tx) = pipe().unwrap();
            quaver::scope(|s| {
                s.spawn(|| {
                    while let Err(e) = wait_readable(rx.as_raw_fd()) {
                        assert_eq!(e.kind(), ErrorKind::Interrupted);
                        interrupted.fetch_add(1, SeqCst);
                    }
                    let mut byte = [0];
                    assert_eq!(rx.read(&mut byte).unwrap(), 1);
                    assert_eq!(rx.read(&mut byte).unwrap(), 0, "not EINTR but the end of the file");
                    stop.store(true, SeqCst);
                });
                until(|| interrupted.load(SeqCst) >= 3, |_| _ = spin(500));
                tx.write_all(&[1]).unwrap();
                spin(100_000);
                drop(tx);
                until(|| stop.load(SeqCst), |_| _ = spin(500));
            });
        });
    }
}
