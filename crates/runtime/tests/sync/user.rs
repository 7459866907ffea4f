//! The synchronisation primitives among user threads, and between user threads and kernel threads.
//!
//! With one worker user threads take turns, so the steps of a test are in program order between
//! yields unless a preemption falls in between; every test is right wherever it falls. With two
//! workers they also run at the same time.

use quaver::sync::{
    AcquireTimeoutError, Barrier, Condvar, LazyLock, Mutex, Once, OnceLock, RwLock, Semaphore,
    TryLockError, WaitGroup, mpsc, oneshot,
};
use quaver::{JoinHandle, spawn, yield_now};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

fn join_all<T: Send + 'static>(threads: Vec<JoinHandle<T>>) -> Vec<T> {
    threads.into_iter().map(|t| t.join().unwrap()).collect()
}

/// Spends some time without system calls, so that preemptions fall into it.
fn work(rounds: u32) -> u32 {
    (0..rounds).fold(1, |a, b| std::hint::black_box(a ^ b.wrapping_mul(a | 1)))
}

fn mutex_excludes() {
    const THREADS: usize = 16;
    const EACH: usize = 500;
    let pair = Arc::new(Mutex::new((0usize, 0usize)));
    let threads = (0..THREADS)
        .map(|_| {
            let pair = pair.clone();
            spawn(move || {
                for i in 0..EACH {
                    let mut p = pair.lock().unwrap();
                    assert_eq!(p.0, p.1);
                    p.0 += 1;
                    work(50);
                    if i % 32 == 0 {
                        yield_now();
                    }
                    p.1 += 1;
                }
            })
        })
        .collect();
    join_all(threads);
    assert_eq!(*pair.lock().unwrap(), (THREADS * EACH, THREADS * EACH));
}

#[quaver::test(workers = 1)]
fn mutex_excludes_on_one_worker() {
    mutex_excludes();
}

#[quaver::test(workers = 2)]
fn mutex_excludes_on_two_workers() {
    mutex_excludes();
}

#[quaver::test(workers = 1, quantum = "off")]
fn mutex_excludes_without_preemption() {
    mutex_excludes();
}

/// A thread that locks again as soon as it has unlocked does not keep the mutex from one that
/// waits.
#[quaver::test(workers = 1)]
fn mutex_starves_nobody() {
    let shared = Arc::new((Mutex::new(()), AtomicUsize::new(0)));
    let waiter = {
        let shared = shared.clone();
        spawn(move || {
            for _ in 0..20 {
                drop(shared.0.lock().unwrap());
                shared.1.fetch_add(1, SeqCst);
            }
        })
    };
    while shared.1.load(SeqCst) < 20 {
        let _guard = shared.0.lock().unwrap();
        // Always off its worker with the mutex locked.
        yield_now();
    }
    waiter.join().unwrap();
}

#[quaver::test(workers = 2)]
fn mutex_poisons() {
    let m = Arc::new(Mutex::new(1));
    let result = {
        let m = m.clone();
        spawn(move || {
            let _guard = m.lock().unwrap();
            panic!("on purpose");
        })
        .join()
    };
    assert!(result.is_err());
    assert!(matches!(m.try_lock(), Err(TryLockError::Poisoned(_))));
    assert_eq!(**m.lock().unwrap_err().get_ref(), 1);
}

#[quaver::test(workers = 2)]
fn rwlock_excludes() {
    let lock = Arc::new(RwLock::new((0usize, 0usize)));
    let threads = (0..12)
        .map(|i| {
            let lock = lock.clone();
            spawn(move || {
                for _ in 0..300 {
                    if i % 3 == 0 {
                        let mut p = lock.write().unwrap();
                        p.0 += 1;
                        work(100);
                        p.1 += 1;
                    } else {
                        let p = lock.read().unwrap();
                        work(50);
                        assert_eq!(p.0, p.1);
                    }
                }
            })
        })
        .collect();
    join_all(threads);
    assert_eq!(*lock.read().unwrap(), (1200, 1200));
}

/// All readers inside at once, and then a writer, on one worker.
#[quaver::test(workers = 1)]
fn rwlock_shares() {
    let shared = Arc::new((RwLock::new(0), Barrier::new(4)));
    let threads = (0..4)
        .map(|_| {
            let shared = shared.clone();
            spawn(move || {
                let value = shared.0.read().unwrap();
                shared.1.wait();
                *value
            })
        })
        .collect();
    assert_eq!(join_all(threads), [0; 4]);
    *shared.0.write().unwrap() += 1;
    assert_eq!(*shared.0.read().unwrap(), 1);
}

fn condvar_hand_off() {
    const TURNS: usize = 2_000;
    let shared = Arc::new((Mutex::new(0usize), Condvar::new()));
    let threads = (0..2)
        .map(|parity| {
            let shared = shared.clone();
            spawn(move || {
                for _ in 0..TURNS {
                    let guard = shared.0.lock().unwrap();
                    let mut turn = shared.1.wait_while(guard, |t| *t % 2 != parity).unwrap();
                    *turn += 1;
                    shared.1.notify_one();
                }
            })
        })
        .collect();
    join_all(threads);
    assert_eq!(*shared.0.lock().unwrap(), 2 * TURNS);
}

#[quaver::test(workers = 1)]
fn condvar_hands_off_on_one_worker() {
    condvar_hand_off();
}

#[quaver::test(workers = 2)]
fn condvar_hands_off_on_two_workers() {
    condvar_hand_off();
}

#[quaver::test(workers = 2)]
fn condvar_notifies_all() {
    const N: usize = 50;
    let shared = Arc::new((Mutex::new((0usize, false)), Condvar::new(), Condvar::new()));
    let threads = (0..N)
        .map(|_| {
            let shared = shared.clone();
            spawn(move || {
                let mut guard = shared.0.lock().unwrap();
                guard.0 += 1;
                shared.2.notify_one();
                let mut guard = shared.1.wait_while(guard, |s| !s.1).unwrap();
                guard.0 -= 1;
            })
        })
        .collect();
    let mut guard = shared.2.wait_while(shared.0.lock().unwrap(), |s| s.0 < N).unwrap();
    guard.1 = true;
    shared.1.notify_all();
    drop(guard);
    join_all(threads);
    assert_eq!(shared.0.lock().unwrap().0, 0);
}

#[quaver::test(workers = 1)]
fn condvar_times_out() {
    let (m, c) = (Mutex::new(()), Condvar::new());
    let wait = Duration::from_millis(5);
    let start = Instant::now();
    let (guard, result) = c.wait_timeout_while(m.lock().unwrap(), wait, |_| true).unwrap();
    assert!(result.timed_out() && start.elapsed() >= wait);
    drop(guard);
}

#[quaver::test(workers = 2)]
fn semaphore_limits() {
    let shared = Arc::new((Semaphore::new(3), AtomicUsize::new(0), AtomicUsize::new(0)));
    let threads = (0..12)
        .map(|_| {
            let shared = shared.clone();
            spawn(move || {
                for _ in 0..100 {
                    let _permit = shared.0.acquire().unwrap();
                    let inside = shared.1.fetch_add(1, SeqCst) + 1;
                    shared.2.fetch_max(inside, SeqCst);
                    yield_now();
                    shared.1.fetch_sub(1, SeqCst);
                }
            })
        })
        .collect();
    join_all(threads);
    assert!((1..=3).contains(&shared.2.load(SeqCst)));
    assert_eq!(shared.0.available_permits(), 3);
}

#[quaver::test(workers = 1)]
fn semaphore_times_out_and_closes() {
    let s = Arc::new(Semaphore::new(0));
    let timed_out = s.acquire_timeout(Duration::from_millis(2)).err();
    assert_eq!(timed_out, Some(AcquireTimeoutError::TimedOut));
    let waiters = (0..20)
        .map(|_| {
            let s = s.clone();
            spawn(move || s.acquire().is_err())
        })
        .collect();
    yield_now();
    s.close();
    assert!(join_all(waiters).into_iter().all(|closed| closed));
}

#[quaver::test(workers = 2)]
fn barrier_separates_rounds() {
    const N: usize = 20;
    const ROUNDS: usize = 30;
    let shared = Arc::new((Barrier::new(N), AtomicUsize::new(0)));
    let threads = (0..N)
        .map(|_| {
            let shared = shared.clone();
            spawn(move || {
                let mut led = 0;
                for round in 1..=ROUNDS {
                    shared.1.fetch_add(1, SeqCst);
                    led += usize::from(shared.0.wait().is_leader());
                    assert!((round * N..(round + 1) * N).contains(&shared.1.load(SeqCst)));
                }
                led
            })
        })
        .collect();
    assert_eq!(join_all(threads).iter().sum::<usize>(), ROUNDS);
}

#[quaver::test(workers = 2)]
fn wait_group_waits() {
    let group = WaitGroup::new();
    let done = Arc::new(AtomicUsize::new(0));
    for _ in 0..50 {
        let (working, done) = (group.guard(), done.clone());
        spawn(move || {
            yield_now();
            done.fetch_add(1, SeqCst);
            drop(working);
        });
    }
    group.wait();
    assert_eq!(done.load(SeqCst), 50);
}

#[quaver::test(workers = 2)]
fn once_runs_once() {
    static ONCE: Once = Once::new();
    static CELL: OnceLock<usize> = OnceLock::new();
    static LAZY: LazyLock<usize> = LazyLock::new(|| RUNS.fetch_add(1, SeqCst));
    static RUNS: AtomicUsize = AtomicUsize::new(0);
    let threads = (0..20)
        .map(|_| {
            spawn(|| {
                ONCE.call_once(|| {
                    yield_now();
                    RUNS.fetch_add(1, SeqCst);
                });
                let cell = *CELL.get_or_init(|| {
                    yield_now();
                    RUNS.fetch_add(1, SeqCst)
                });
                (cell, *LAZY)
            })
        })
        .collect();
    assert_eq!(join_all(threads), [(1, 2); 20]);
}

fn check_channel(rx: mpsc::Receiver<(usize, usize)>, producers: usize, each: usize) {
    let mut next = vec![0; producers];
    for (p, i) in rx {
        assert_eq!(i, next[p]);
        next[p] += 1;
    }
    assert_eq!(next, vec![each; producers]);
}

#[quaver::test(workers = 2)]
fn channel_keeps_order() {
    let (tx, rx) = mpsc::channel();
    let threads = (0..8)
        .map(|p| {
            let tx = tx.clone();
            spawn(move || (0..500).for_each(|i| tx.send((p, i)).unwrap()))
        })
        .collect();
    drop(tx);
    check_channel(rx, 8, 500);
    join_all(threads);
}

fn bounded_channel(capacity: usize) {
    let (tx, rx) = mpsc::sync_channel(capacity);
    let threads = (0..4)
        .map(|p| {
            let tx = tx.clone();
            spawn(move || (0..200).for_each(|i| tx.send((p, i)).unwrap()))
        })
        .collect();
    drop(tx);
    check_channel(rx, 4, 200);
    join_all(threads);
}

#[quaver::test(workers = 1)]
fn bounded_channel_on_one_worker() {
    bounded_channel(3);
}

#[quaver::test(workers = 2)]
fn rendezvous_on_two_workers() {
    bounded_channel(0);
}

#[quaver::test(workers = 1)]
fn receive_times_out() {
    let (tx, rx) = mpsc::channel();
    let wait = Duration::from_millis(3);
    let start = Instant::now();
    assert_eq!(rx.recv_timeout(wait), Err(mpsc::RecvTimeoutError::Timeout));
    assert!(start.elapsed() >= wait);
    let sender = spawn(move || tx.send(1).unwrap());
    assert_eq!(rx.recv_timeout(Duration::MAX), Ok(1));
    sender.join().unwrap();
}

#[quaver::test(workers = 1)]
fn oneshot_passes_its_value() {
    for _ in 0..100 {
        let (tx, rx) = oneshot::channel();
        let sender = spawn(move || tx.send(3).unwrap());
        assert_eq!(rx.recv(), Ok(3));
        sender.join().unwrap();
    }
    let (tx, mut rx) = oneshot::channel::<u8>();
    assert!(rx.recv_timeout(Duration::from_millis(1)).is_err());
    drop(tx);
    assert!(rx.recv().is_err());
}

/// Every primitive with a kernel thread on one side and a user thread on the other.
#[quaver::test(workers = 1)]
fn kernel_threads_and_user_threads_share() {
    const TURNS: usize = 300;
    let shared = Arc::new((Mutex::new(0usize), Condvar::new()));
    let play = |shared: &(Mutex<usize>, Condvar), parity| {
        for _ in 0..TURNS {
            let guard = shared.0.lock().unwrap();
            let mut turn = shared.1.wait_while(guard, |t| *t % 2 != parity).unwrap();
            *turn += 1;
            shared.1.notify_one();
        }
    };
    let kernel = std::thread::spawn({
        let shared = shared.clone();
        move || play(&shared, 1)
    });
    play(&shared, 0);
    kernel.join().unwrap();

    let (there_tx, there) = mpsc::channel();
    let (back_tx, back) = mpsc::sync_channel(0);
    let kernel = std::thread::spawn(move || {
        for v in there {
            back_tx.send(v + 1).unwrap();
        }
    });
    for i in 0..TURNS {
        there_tx.send(i).unwrap();
        assert_eq!(back.recv(), Ok(i + 1));
    }
    drop(there_tx);
    kernel.join().unwrap();

    let both = Arc::new((Semaphore::new(1), RwLock::new(0), Barrier::new(2)));
    let count = |both: &(Semaphore, RwLock<usize>, Barrier)| {
        for _ in 0..TURNS {
            let _permit = both.0.acquire().unwrap();
            *both.1.write().unwrap() += 1;
        }
        both.2.wait();
        *both.1.read().unwrap()
    };
    let kernel = std::thread::spawn({
        let both = both.clone();
        move || count(&both)
    });
    assert_eq!(count(&both), 2 * TURNS);
    assert_eq!(kernel.join().unwrap(), 2 * TURNS);

    let (tx, rx) = oneshot::channel();
    let kernel = std::thread::spawn(move || rx.recv());
    tx.send(5).unwrap();
    assert_eq!(kernel.join().unwrap(), Ok(5));
}

/// Everything at once, on few workers, with the shortest quanta: preemptions fall everywhere.
fn crossfire() {
    const THREADS: usize = 10;
    const EACH: usize = 200;
    let state = Arc::new((
        Mutex::new(0usize),
        RwLock::new(0usize),
        Semaphore::new(2),
        WaitGroup::new(),
        Condvar::new(),
    ));
    let (tx, rx) = mpsc::channel();
    let (stx, srx) = mpsc::sync_channel(1);
    for t in 0..THREADS {
        let (state, tx, stx) = (state.clone(), tx.clone(), stx.clone());
        let working = state.3.guard();
        spawn(move || {
            let _working = working;
            for i in 0..EACH {
                let permit = state.2.acquire().unwrap();
                *state.0.lock().unwrap() += 1;
                state.4.notify_all();
                drop(permit);
                if (t + i) % 5 == 0 {
                    *state.1.write().unwrap() += 1;
                } else {
                    work((*state.1.read().unwrap() % 64) as u32);
                }
                tx.send(i).unwrap();
                stx.send(i).unwrap();
            }
        });
    }
    drop((tx, stx));
    let bounded = spawn(move || srx.iter().sum::<usize>());
    let sum = rx.iter().sum::<usize>();
    let guard = state.0.lock().unwrap();
    let total = state.4.wait_while(guard, |n| *n < THREADS * EACH).unwrap();
    assert_eq!(*total, THREADS * EACH);
    drop(total);
    state.3.wait();
    assert_eq!(sum, THREADS * (EACH * (EACH - 1) / 2));
    assert_eq!(bounded.join().unwrap(), sum);
    assert_eq!(*state.1.read().unwrap(), THREADS * EACH / 5);
}

#[quaver::test(workers = 1, quantum = "10us")]
fn crossfire_on_one_worker() {
    crossfire();
}

#[quaver::test(workers = 3, quantum = "10us")]
fn crossfire_on_three_workers() {
    crossfire();
}
