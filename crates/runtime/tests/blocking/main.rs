//! Threads that wait in the kernel, or for locks that wait there: others go on meanwhile, even on
//! one worker, and even if what is waited for is held by a thread that was preempted.

#![allow(
    clippy::erasing_op,
    clippy::map_identity,
    clippy::let_and_return,
    clippy::identity_op,
    clippy::useless_vec,
    reason = "work whose value does not matter, and results that are named for what they are"
)]

mod support;

use quaver::Builder;
use std::cell::UnsafeCell;
use std::collections::HashSet;
use std::io::{ErrorKind, PipeReader, PipeWriter, Read, Write, pipe};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Barrier, Condvar, LazyLock, Mutex, Once, RwLock, mpsc};
use std::time::{Duration, Instant};
use support::setup::{alone, with_leftover};
use support::{Rng, Setup, child, on_runtime, spin, stats, until, until_preempted, with_runtime};

/// What is protected: the second number follows the first, after a while.
#[derive(Default)]
struct Protected(AtomicI64, AtomicI64);

impl Protected {
    /// Alone.
    fn change(&self, rounds: u64) {
        let n = self.0.fetch_add(1, SeqCst);
        spin(rounds);
        assert_eq!(self.1.swap(n + 1, SeqCst), n, "not alone");
    }

    /// Together with others who only look.
    fn look(&self, rounds: u64) {
        let n = self.0.load(SeqCst);
        spin(rounds);
        assert_eq!(self.1.load(SeqCst), n, "changed meanwhile");
    }
}

/// Four threads that contend for something, often for longer than a quantum, until `n` preemptions.
fn contend(setup: Setup, n: u64, step: impl Fn(&mut Rng) + Sync) {
    setup.run(|| {
        quaver::scope(|s| {
            for i in 0..4 {
                let step = &step;
                s.spawn(move || {
                    let mut rng = Rng(i);
                    until_preempted(setup.preemptions(n), |_| step(&mut rng));
                });
            }
        });
    });
}

#[test]
fn std_mutex() {
    for setup in Setup::all() {
        let (mutex, protected) = (Mutex::new(()), Protected::default());
        contend(setup, 100, |rng| {
            let guard = mutex.lock().unwrap();
            protected.change(rng.below(1_500));
            drop(guard);
        });
    }
}

#[test]
fn std_rwlock() {
    for setup in Setup::all() {
        let (lock, protected) = (RwLock::new(()), Protected::default());
        contend(setup, 100, |rng| {
            if rng.below(3) == 0 {
                let _guard = lock.write().unwrap();
                protected.change(rng.below(1_500));
            } else {
                let _guard = lock.read().unwrap();
                protected.look(rng.below(1_500));
            }
        });
    }
}

#[test]
fn std_condvar() {
    for setup in Setup::all() {
        setup.run(|| {
            // Threads take turns.
            let (turn, changed) = (Mutex::new(0usize), Condvar::new());
            quaver::scope(|s| {
                for i in 0..4 {
                    let (turn, changed) = (&turn, &changed);
                    s.spawn(move || {
                        for _ in 0..100 {
                            let mut now = turn.lock().unwrap();
                            while *now % 4 != i {
                                now = changed.wait(now).unwrap();
                            }
                            spin(100);
                            *now += 1;
                            changed.notify_all();
                        }
                    });
                }
            });
            assert_eq!(*turn.lock().unwrap(), 400);
        });
    }
}

#[test]
fn std_channels() {
    for setup in Setup::all() {
        for capacity in [None, Some(0), Some(3)] {
            setup.run(|| {
                const EACH: u64 = 200;
                let sum = AtomicU64::new(0);
                quaver::scope(|s| {
                    let sum = &sum;
                    let mut senders: Vec<Box<dyn Fn(u64) + Send>> = Vec::new();
                    let receiver = match capacity {
                        None => {
                            let (tx, rx) = mpsc::channel();
                            senders.extend((0..3).map(|_| {
                                let tx = tx.clone();
                                Box::new(move |v| tx.send(v).unwrap()) as _
                            }));
                            rx
                        }
                        Some(n) => {
                            let (tx, rx) = mpsc::sync_channel(n);
                            senders.extend((0..3).map(|_| {
                                let tx = tx.clone();
                                Box::new(move |v| tx.send(v).unwrap()) as _
                            }));
                            rx
                        }
                    };
                    for send in senders {
                        s.spawn(move || {
                            for v in 0..EACH {
                                send(v);
                                spin(50);
                            }
                        });
                    }
                    s.spawn(move || receiver.iter().for_each(|v| _ = sum.fetch_add(v, SeqCst)));
                });
                assert_eq!(sum.into_inner(), 3 * EACH * (EACH - 1) / 2);
            });
        }
    }
}

#[test]
fn std_once_and_barrier() {
    for setup in Setup::all() {
        setup.run(|| {
            for _ in 0..40 {
                let (once, ran) = (Once::new(), AtomicUsize::new(0));
                let lazy = LazyLock::new(|| spin(2_000) | 1);
                let barrier = Barrier::new(5);
                let leaders = AtomicUsize::new(0);
                quaver::scope(|s| {
                    for _ in 0..5 {
                        s.spawn(|| {
                            leaders.fetch_add(usize::from(barrier.wait().is_leader()), SeqCst);
                            once.call_once(|| {
                                spin(2_000);
                                ran.fetch_add(1, SeqCst);
                            });
                            assert_eq!(ran.load(SeqCst), 1);
                            assert_eq!(*lazy & 1, 1);
                        });
                    }
                });
                assert_eq!(leaders.load(SeqCst), 1);
            }
        });
    }
}

/// User threads and kernel threads wait for each other through the same objects.
#[test]
fn both_kinds_of_threads_contend() {
    for setup in Setup::all() {
        setup.run_built(setup.builder(), |rt| {
            let (mutex, protected) = (Mutex::new(()), Protected::default());
            let (to_user, from_kernel) = mpsc::sync_channel(1);
            let (to_kernel, from_user) = mpsc::sync_channel(1);
            let work = |i| {
                let mut rng = Rng(i);
                for _ in 0..150 {
                    let guard = mutex.lock().unwrap();
                    protected.change(rng.below(500));
                    drop(guard);
                    spin(rng.below(500));
                }
            };
            std::thread::scope(|s| {
                for i in 0..2 {
                    s.spawn(move || work(i));
                }
                s.spawn(move || {
                    for i in 0..200u32 {
                        to_user.send(i).unwrap();
                        assert_eq!(from_user.recv(), Ok(i + 1));
                    }
                });
                rt.run(|| {
                    quaver::scope(|s| {
                        for i in 2..5 {
                            s.spawn(move || work(i));
                        }
                        s.spawn(move || {
                            for i in from_kernel {
                                to_kernel.send(i + 1).unwrap();
                            }
                        });
                    });
                });
            });
        });
    }
}

#[test]
fn timed_waits_end() {
    for setup in Setup::all() {
        setup.run(|| {
            quaver::scope(|s| {
                for i in 1..5u64 {
                    s.spawn(move || {
                        let (mutex, condvar) = (Mutex::new(()), Condvar::new());
                        let (_tx, rx) = mpsc::channel::<()>();
                        for k in 0..20 {
                            let time = Duration::from_micros(i * 37 + k);
                            let start = Instant::now();
                            match k % 4 {
                                0 => {
                                    let mut guard = mutex.lock().unwrap();
                                    loop {
                                        let (g, result) =
                                            condvar.wait_timeout(guard, time).unwrap();
                                        guard = g;
                                        if result.timed_out() {
                                            break;
                                        }
                                    }
                                }
                                1 => assert!(rx.recv_timeout(time).is_err()),
                                2 => std::thread::sleep(time),
                                _ => quaver::sleep_until(start + time),
                            }
                            assert!(start.elapsed() >= time);
                        }
                    });
                }
            });
        });
    }
}

/// A sleep of `std` parks the thread: any number of them takes no kernel threads.
#[test]
fn sleeping_takes_no_kernel_thread() {
    for setup in Setup::clocks(1) {
        setup.run(|| {
            let threads: Vec<_> = (0..500)
                .map(|i| {
                    quaver::spawn(move || {
                        for _ in 0..3 {
                            std::thread::sleep(Duration::from_micros(i));
                        }
                    })
                })
                .collect();
            threads.into_iter().for_each(|t| t.join().unwrap());
            assert_eq!(stats().handovers, 0);
            assert!(stats().timers_fired >= 500);
        });
    }
}

#[test]
fn parking_lot_locks() {
    for setup in Setup::all() {
        let (mutex, protected) = (parking_lot::Mutex::new(()), Protected::default());
        contend(setup, 60, |rng| {
            let guard = mutex.lock();
            protected.change(rng.below(1_500));
            if rng.below(2) == 0 {
                parking_lot::MutexGuard::unlock_fair(guard)
            } else {
                drop(guard)
            }
        });
        let (lock, protected) = (parking_lot::RwLock::new(()), Protected::default());
        contend(setup, 60, |rng| {
            if rng.below(3) == 0 {
                let _guard = lock.write();
                protected.change(rng.below(1_500));
            } else {
                let _guard = lock.read();
                protected.look(rng.below(1_500));
            }
        });
        setup.run(|| {
            let (turn, changed) = (parking_lot::Mutex::new(0usize), parking_lot::Condvar::new());
            quaver::scope(|s| {
                for i in 0..4 {
                    let (turn, changed) = (&turn, &changed);
                    s.spawn(move || {
                        for _ in 0..60 {
                            let mut now = turn.lock();
                            while *now % 4 != i {
                                let timeout = Duration::from_secs(1000);
                                assert!(!changed.wait_for(&mut now, timeout).timed_out());
                            }
                            *now += 1;
                            changed.notify_all();
                        }
                    });
                }
            });
        });
    }
}

/// Something of the C library that is shared between threads.
struct Shared<T>(Box<UnsafeCell<T>>);

// SAFETY: what is put in here is made to be shared.
unsafe impl<T> Sync for Shared<T> {}
// SAFETY: it is not moved.
unsafe impl<T> Send for Shared<T> {}

impl<T> Shared<T> {
    fn new(value: T) -> Shared<T> {
        Shared(Box::new(UnsafeCell::new(value)))
    }

    fn get(&self) -> *mut T {
        self.0.get()
    }
}

/// glibc's locks wait in system calls that nobody can intercept: those who wait are handed over.
#[test]
fn pthread_mutexes() {
    for setup in Setup::all() {
        let mutex = Shared::new(libc::PTHREAD_MUTEX_INITIALIZER);
        let protected = Protected::default();
        let goal = setup.preemptions(60);
        setup.run(|| {
            quaver::scope(|s| {
                for i in 0..4 {
                    let (mutex, protected) = (&mutex, &protected);
                    s.spawn(move || {
                        let mut rng = Rng(i);
                        let enough = || stats().preempt_useful >= goal && stats().handovers > 2;
                        until(enough, |_| {
                            // SAFETY: an initialised mutex, unlocked by its owner.
                            unsafe {
                                assert_eq!(libc::pthread_mutex_lock(mutex.get()), 0);
                                protected.change(rng.below(1_500));
                                assert_eq!(libc::pthread_mutex_unlock(mutex.get()), 0);
                            }
                        });
                    });
                }
            });
        });
    }
}

#[test]
fn pthread_condition_variables_and_semaphores() {
    for setup in Setup::all() {
        let mutex = Shared::new(libc::PTHREAD_MUTEX_INITIALIZER);
        let condvar = Shared::new(libc::PTHREAD_COND_INITIALIZER);
        // SAFETY: initialised before use.
        let semaphore = unsafe {
            let s = Shared::new(std::mem::zeroed::<libc::sem_t>());
            assert_eq!(libc::sem_init(s.get(), 0, 0), 0);
            s
        };
        setup.run(|| {
            let turn = AtomicUsize::new(0);
            quaver::scope(|s| {
                for i in 0..3 {
                    let (mutex, condvar, semaphore, turn) = (&mutex, &condvar, &semaphore, &turn);
                    s.spawn(move || {
                        for _ in 0..30 {
                            // SAFETY: initialised objects; the mutex is held where it must be.
                            unsafe {
                                assert_eq!(libc::pthread_mutex_lock(mutex.get()), 0);
                                while turn.load(SeqCst) % 3 != i {
                                    assert_eq!(
                                        libc::pthread_cond_wait(condvar.get(), mutex.get()),
                                        0
                                    );
                                }
                                spin(200);
                                turn.fetch_add(1, SeqCst);
                                assert_eq!(libc::pthread_cond_broadcast(condvar.get()), 0);
                                assert_eq!(libc::pthread_mutex_unlock(mutex.get()), 0);
                                assert_eq!(libc::sem_post(semaphore.get()), 0);
                            }
                        }
                    });
                }
                s.spawn(|| {
                    for _ in 0..90 {
                        // SAFETY: an initialised semaphore.
                        while unsafe { libc::sem_wait(semaphore.get()) } != 0 {
                            let e = std::io::Error::last_os_error();
                            assert_eq!(e.kind(), ErrorKind::Interrupted);
                        }
                    }
                });
            });
            assert_eq!(turn.load(SeqCst), 90);
        });
    }
}

#[test]
fn joining_kernel_threads() {
    for setup in Setup::all() {
        setup.run(|| {
            let others = AtomicU64::new(0);
            quaver::scope(|s| {
                for i in 0..3 {
                    let others = &others;
                    s.spawn(move || {
                        for k in 0..5u64 {
                            let t = std::thread::spawn(move || {
                                std::thread::sleep(Duration::from_millis(2));
                                i * k
                            });
                            assert_eq!(t.join().unwrap(), i * k);
                            others.fetch_add(1, SeqCst);
                        }
                    });
                }
                until(|| others.load(SeqCst) == 15, |_| _ = spin(1_000));
            });
        });
    }
}

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

/// Far more threads wait in the kernel than may be handed over.
#[test]
fn more_waiting_threads_than_kernel_threads() {
    for setup in Setup::all() {
        setup.run_with(setup.builder().max_blocking(3), || {
            let (reading, read) = (AtomicUsize::new(0), AtomicUsize::new(0));
            quaver::scope(|s| {
                let mut writers: Vec<PipeWriter> = Vec::new();
                for i in 0..30u8 {
                    let (mut rx, tx): (PipeReader, _) = pipe().unwrap();
                    writers.push(tx);
                    let (reading, read) = (&reading, &read);
                    s.spawn(move || {
                        let mut byte = [0];
                        reading.fetch_add(1, SeqCst);
                        rx.read_exact(&mut byte).unwrap();
                        assert_eq!(byte[0], i);
                        read.fetch_add(1, SeqCst);
                    });
                }
                until(|| reading.load(SeqCst) == 30, |_| _ = spin(300));
                for (i, tx) in writers.iter_mut().enumerate().rev() {
                    tx.write_all(&[i as u8]).unwrap();
                }
                until(|| read.load(SeqCst) == 30, |_| _ = spin(300));
            });
        });
    }
}

/// Those beyond the limit cost nothing while they wait, and are counted.
#[test]
fn waiting_beyond_the_limit_costs_nothing() {
    const THREADS: u64 = 40;
    for setup in Setup::clocks(1) {
        setup.run_built(setup.builder().max_blocking(3), |rt| {
            let pipes: Vec<_> = (0..THREADS).map(|_| pipe().unwrap()).collect();
            let (readers, mut writers): (Vec<PipeReader>, Vec<PipeWriter>) =
                pipes.into_iter().unzip();
            let readers = readers.into_iter().map(|mut rx| {
                rt.spawn(move || {
                    let mut byte = [0];
                    rx.read_exact(&mut byte).unwrap();
                    byte[0]
                })
            });
            let readers: Vec<_> = readers.collect();
            // The last one may keep the worker, which nobody wants.
            while rt.stats().blocked_now < THREADS - 1 {
                std::thread::sleep(Duration::from_millis(1));
            }
            let before = rt.stats();
            assert!(before.blocking_limit_reached >= THREADS - 5, "{before:?}");
            std::thread::sleep(Duration::from_millis(200));
            let meanwhile = rt.stats().since(&before);
            assert!(meanwhile.switches <= 2, "{meanwhile:?}");
            for (i, tx) in writers.iter_mut().enumerate().rev() {
                tx.write_all(&[i as u8]).unwrap();
            }
            for (i, reader) in readers.into_iter().enumerate() {
                assert_eq!(usize::from(reader.join().unwrap()), i);
            }
            assert_eq!(rt.stats().blocked_now, 0);
        });
    }
}

/// A call that does not wait does not, and one with a limit ends by it, also beyond the limit of
/// kernel threads.
#[test]
fn calls_that_do_not_wait_beyond_the_limit() {
    for setup in Setup::all_clocks() {
        setup.run_with(setup.builder().max_blocking(1), || {
            let done = AtomicBool::new(false);
            let (rx, mut tx) = pipe().unwrap();
            quaver::scope(|s| {
                for _ in 0..3 {
                    let mut rx = rx.try_clone().unwrap();
                    s.spawn(move || assert_eq!(rx.read(&mut [0]).unwrap(), 1));
                }
                for _ in 0..2 {
                    let done = &done;
                    s.spawn(move || {
                        let (one, _other) = UnixStream::pair().unwrap();
                        one.set_nonblocking(true).unwrap();
                        while !done.load(SeqCst) {
                            let error = (&one).read(&mut [0]).unwrap_err();
                            assert_eq!(error.kind(), ErrorKind::WouldBlock);
                        }
                    });
                }
                let (one, _other) = UnixStream::pair().unwrap();
                one.set_read_timeout(Some(Duration::from_millis(5))).unwrap();
                for _ in 0..20 {
                    let error = (&one).read(&mut [0]).unwrap_err();
                    assert!(matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted));
                }
                done.store(true, SeqCst);
                tx.write_all(&[0; 3]).unwrap();
            });
        });
    }
}

#[test]
fn block_in_place_gives_the_worker_away() {
    for setup in Setup::all() {
        setup.run(|| {
            for i in 0..20u8 {
                let (mut rx, mut tx) = pipe().unwrap();
                let waits = quaver::spawn(move || {
                    quaver::block_in_place(|| {
                        let mut byte = [0];
                        rx.read_exact(&mut byte).unwrap();
                        byte[0]
                    })
                });
                let writes = quaver::spawn(move || tx.write_all(&[i]).unwrap());
                assert_eq!(waits.join().unwrap(), i);
                writes.join().unwrap();
            }
            // All at a time.
            let (mut writers, mut waiting) = (Vec::new(), Vec::new());
            for _ in 0..20 {
                let (mut rx, tx) = pipe().unwrap();
                writers.push(tx);
                waiting.push(quaver::spawn(move || {
                    quaver::block_in_place(|| rx.read(&mut [0]).unwrap())
                }));
            }
            quaver::yield_now();
            drop(writers);
            waiting.into_iter().for_each(|t| assert_eq!(t.join().unwrap(), 0));
            assert!(stats().handovers >= 40);
        });
    }
}

/// Without a clock nobody else would get the only worker.
#[test]
fn block_in_place_needs_no_clock() {
    on_runtime(Builder::new().workers(1).quantum(None), || {
        let (mut outer, mut inner): (Vec<_>, Vec<_>) = (Vec::new(), Vec::new());
        for i in 0..20u8 {
            let (mut rx, tx) = pipe().unwrap();
            inner.push(tx);
            outer.push(quaver::spawn(move || {
                let mut byte = [0];
                quaver::block_in_place(|| rx.read_exact(&mut byte)).unwrap();
                assert_eq!(byte[0], i);
            }));
        }
        let writes = quaver::spawn(move || {
            for (i, mut tx) in inner.into_iter().enumerate().rev() {
                tx.write_all(&[i as u8]).unwrap();
            }
        });
        outer.into_iter().for_each(|t| t.join().unwrap());
        writes.join().unwrap();
        assert!(stats().handovers >= 20);
    });
}

/// Whatever is done inside.
/// What nests or waits inside does not end a call: others still run while the outer one blocks.
#[test]
fn block_in_place_nests_and_waits() {
    type Inside = fn();
    let insides: [Inside; 3] = [
        || quaver::block_in_place(|| ()),
        || quaver::sleep(Duration::from_micros(100)),
        quaver::yield_now,
    ];
    for inside in insides {
        // Without a quantum nobody else gives the worker away soon.
        on_runtime(Builder::new().workers(1).quantum(None), || {
            let (mut reader, mut writer) = pipe().unwrap();
            // Runs while the other is blocked, and ends that.
            let other = quaver::spawn(move || {
                quaver::sleep(Duration::from_millis(1));
                writer.write_all(&[1]).unwrap();
            });
            quaver::block_in_place(|| {
                inside();
                let me = quaver::foreign::thread::current().unwrap();
                assert_eq!(me.runs_on(), None, "it has a worker");
                reader.read_exact(&mut [0]).unwrap();
            });
            other.join().unwrap();
        });
    }
}

#[test]
fn block_in_place_allows_everything() {
    for setup in Setup::all() {
        setup.run(|| {
            quaver::scope(|s| {
                for i in 0..4u64 {
                    s.spawn(move || {
                        for k in 0..10 {
                            let n = quaver::block_in_place(|| {
                                let t = quaver::spawn(move || spin(i * k * 10) & 0 | k);
                                quaver::yield_now();
                                let inner = quaver::block_in_place(|| quaver::block_in_place(|| k));
                                quaver::sleep(Duration::from_micros(k));
                                let region = quaver::no_preempt(|| quaver::block_in_place(|| 1));
                                t.join().unwrap() + inner + region
                            });
                            assert_eq!(n, 2 * k + 1);
                            let panic = catch_unwind(AssertUnwindSafe(|| {
                                quaver::block_in_place(|| resume_unwind(Box::new(i)))
                            }));
                            assert_eq!(
                                *panic.map(|()| ()).unwrap_err().downcast::<u64>().unwrap(),
                                i
                            );
                            assert!(quaver::is_preemptible());
                        }
                    });
                }
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
                    let mut fd =
                        libc::pollfd { fd: rx.as_raw_fd(), events: libc::POLLIN, revents: 0 };
                    loop {
                        // SAFETY: one valid pollfd.
                        match unsafe { libc::poll(&mut fd, 1, -1) } {
                            1 => break,
                            -1 => {
                                let e = std::io::Error::last_os_error();
                                assert_eq!(e.kind(), ErrorKind::Interrupted);
                                interrupted.fetch_add(1, SeqCst);
                            }
                            n => panic!("poll returned {n}"),
                        }
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

/// Lines of `println!`, and of C's `puts`, are whole, though those who write them are preempted
/// with the lock held.
#[test]
fn printing() {
    let outcome = child::run("print");
    outcome.expect_success();
    let mut lines = HashSet::new();
    for line in outcome.stdout.lines().filter(|l| l.contains("thread says")) {
        let (start, end) = line.split_once(" thread says ").unwrap();
        assert_eq!(start, end, "{line}");
        assert!(lines.insert(line), "{line} twice");
    }
    assert_eq!(lines.len(), 2 * 6 * 4 * 150);
}

unsafe extern "C" {
    /// C's standard output.
    static stdout: *mut libc::FILE;
}

fn print() {
    // Each line by a write of its own, as `println!` does.
    // SAFETY: before the first output.
    assert_eq!(unsafe { libc::setvbuf(stdout, std::ptr::null_mut(), libc::_IOLBF, 4096) }, 0);
    for (k, setup) in Setup::all().into_iter().enumerate() {
        on_runtime_quietly(setup, move || {
            quaver::scope(|s| {
                for i in 0..4 {
                    s.spawn(move || {
                        for n in 0..150 {
                            let id = format!("{k}-{i}-{n}-{}", "x".repeat(n % 60));
                            if i % 2 == 0 {
                                println!("{id} thread says {id}");
                            } else {
                                let line = std::ffi::CString::new(format!("{id} thread says {id}"))
                                    .unwrap();
                                // SAFETY: a C string.
                                assert!(unsafe { libc::puts(line.as_ptr()) } > 0);
                            }
                            spin(100);
                        }
                    });
                }
            });
        });
    }
}

fn on_runtime_quietly(setup: Setup, body: impl FnOnce() + Send) {
    with_runtime(setup.builder(), |rt| rt.run(body));
}

/// A shutdown does not wait for threads in the kernel; another runtime can run, and they go away
/// when their calls return.
#[test]
fn shutting_down_while_threads_wait_in_the_kernel() {
    for setup in Setup::all() {
        println!("-- {setup}");
        let (mut writers, leftover) = with_leftover(setup.builder(), |rt| {
            rt.run(|| {
                let mut writers = Vec::new();
                static READING: AtomicUsize = AtomicUsize::new(0);
                READING.store(0, SeqCst);
                for i in 0..4 {
                    let (mut rx, tx) = pipe().unwrap();
                    writers.push(tx);
                    quaver::spawn_detached(move || {
                        let mut read = || {
                            READING.fetch_add(1, SeqCst);
                            rx.read(&mut [0])
                        };
                        _ = if i % 2 == 0 { quaver::block_in_place(read) } else { read() };
                        unreachable!("a thread ran after the shutdown");
                    });
                }
                // On one worker that means that they wait without it. The second worker need not be
                // given away.
                let away = 4 * (2 - setup.workers as u64);
                until(|| READING.load(SeqCst) == 4 && stats().handovers >= away, |_| _ = spin(500));
                writers
            })
        });
        assert_eq!(leftover.threads, 4);
        assert!(leftover.kernel_threads <= 4, "{leftover:?}");
        let sum = with_runtime(setup.builder(), |rt| {
            // Half of them return now, while the new runtime runs.
            writers.truncate(2);
            rt.run(|| (0..20).map(|i| quaver::spawn(move || i).join().unwrap()).sum::<u32>())
        });
        assert_eq!(sum, 190);
    }
    let carriers = || {
        let tasks = std::fs::read_dir("/proc/self/task").unwrap();
        tasks
            .filter_map(|t| std::fs::read_to_string(t.unwrap().path().join("comm")).ok())
            .filter(|name| name.starts_with("quaver-"))
            .count()
    };
    alone(|| {
        for _ in 0..60_000 {
            if carriers() == 0 {
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        panic!("{} kernel threads of ended runtimes are still there", carriers());
    });
}

#[test]
fn the_child() {
    if let Some("print") = child::role().as_deref() {
        print();
    }
}

#[test]
fn without_fsgsbase() {
    if child::role().is_none() && std::env::var_os("QUAVER_NO_FSGSBASE").is_none() {
        child::all_tests_with(("QUAVER_NO_FSGSBASE", "1"), "without_fsgsbase");
    }
}
