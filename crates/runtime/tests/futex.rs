//! The futex calls of user threads: what wakes them, what is refused, who is passed over, and
//! waking in signal handlers.

mod support;

use std::ffi::c_long;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use support::child;

const PRIVATE: c_long = libc::FUTEX_PRIVATE_FLAG as c_long;

/// Only one runtime at a time.
fn alone() -> impl Drop {
    static ALONE: Mutex<()> = Mutex::new(());
    struct Alone<T>(#[allow(dead_code)] T);
    impl<T> Drop for Alone<T> {
        fn drop(&mut self) {}
    }
    Alone(ALONE.lock().unwrap_or_else(PoisonError::into_inner))
}

fn until(done: impl Fn() -> bool) {
    while !done() {
        std::thread::sleep(Duration::from_micros(200));
        quaver::yield_now();
    }
}

/// A futex call; the result, or minus the errno.
fn futex(word: &AtomicU32, op: i32, a: [c_long; 4]) -> c_long {
    futex_at(word.as_ptr(), op, a)
}

fn futex_at(word: *const u32, op: i32, [val, timeout, second, third]: [c_long; 4]) -> c_long {
    let op = c_long::from(op) | PRIVATE;
    // SAFETY: the kernel checks what it is given; user threads are given valid words here.
    let r = unsafe { libc::syscall(libc::SYS_futex, word, op, val, timeout, second, third) };
    if r < 0 { -c_long::from(std::io::Error::last_os_error().raw_os_error().unwrap()) } else { r }
}

fn address(word: &AtomicU32) -> c_long {
    word.as_ptr() as c_long
}

/// Starts `n` user threads that wait for the word, and waits until they do. Each counts itself in
/// the second word in the end.
fn waiters(n: u32, words: &Arc<[AtomicU32; 3]>) -> Vec<quaver::JoinHandle<()>> {
    let threads = (0..n)
        .map(|_| {
            let words = words.clone();
            quaver::spawn(move || {
                words[2].fetch_add(1, SeqCst);
                assert_eq!(futex(&words[0], libc::FUTEX_WAIT, [0, 0, 0, 0]), 0);
                words[1].fetch_add(1, SeqCst);
            })
        })
        .collect();
    // One worker without a quantum: a thread that has counted itself has gone on to wait when this
    // one runs again.
    while words[2].load(SeqCst) < n {
        quaver::yield_now();
    }
    words[2].store(0, SeqCst);
    threads
}

fn with_waiters(n: u32, wake: impl FnOnce(&[AtomicU32; 3]) + Send) {
    let _alone = alone();
    let rt = quaver::Builder::new().workers(1).quantum(None).build().unwrap();
    rt.run(|| {
        let words = Arc::new([const { AtomicU32::new(0) }; 3]);
        let threads = waiters(n, &words);
        wake(&words);
        // Whoever has not been woken is woken now.
        let woken = words[1].load(SeqCst);
        let left = futex(&words[0], libc::FUTEX_WAKE, [c_long::MAX & 0x7fff_ffff, 0, 0, 0]);
        assert!(left as u32 + woken <= n);
        threads.into_iter().for_each(|t| t.join().unwrap());
    });
}

/// Lets those run that are ready.
fn others_run() {
    (0..1000).for_each(|_| quaver::yield_now());
}

#[test]
fn a_wake_of_zero_wakes_one_as_the_kernel_does() {
    with_waiters(3, |words| {
        assert_eq!(futex(&words[0], libc::FUTEX_WAKE, [0, 0, 0, 0]), 1);
        others_run();
        assert_eq!(words[1].load(SeqCst), 1);
    });
}

#[test]
fn requeueing_reaches_user_threads() {
    for op in [libc::FUTEX_CMP_REQUEUE, libc::FUTEX_REQUEUE] {
        with_waiters(3, |words| {
            let refused = futex(&words[0], libc::FUTEX_CMP_REQUEUE, [1, 9, address(&words[2]), 7]);
            assert_eq!(refused, -c_long::from(libc::EAGAIN));
            assert_eq!(futex(&words[0], op, [1, 9, address(&words[2]), 0]), 3);
            others_run();
            assert_eq!(words[1].load(SeqCst), 3);
        });
    }
}

#[test]
fn wake_op_reaches_user_threads_at_both_words() {
    // FUTEX_OP(FUTEX_OP_SET, 5, FUTEX_OP_CMP_EQ, 0)
    const SET_5_IF_0: c_long = 5 << 12;
    with_waiters(3, |words| {
        let other = AtomicU32::new(0);
        assert_eq!(futex(&other, libc::FUTEX_WAKE_OP, [1, 2, address(&words[0]), SET_5_IF_0]), 2);
        others_run();
        assert_eq!((words[1].load(SeqCst), words[0].load(SeqCst)), (2, 5));
    });
}

#[test]
fn the_newer_call_wakes_user_threads() {
    const SYS_FUTEX_WAKE: c_long = 454;
    const PRIVATE_WORD: c_long = 0x82;
    with_waiters(3, |words| {
        // SAFETY: a valid word.
        let r = unsafe {
            libc::syscall(
                SYS_FUTEX_WAKE,
                words[0].as_ptr(),
                c_long::from(u32::MAX),
                2,
                PRIVATE_WORD,
            )
        };
        // Kernels before 6.7 do not have it; user threads are woken all the same.
        assert!(r == 2 || r == -1);
        others_run();
        assert_eq!(words[1].load(SeqCst), 2);
    });
}

/// More than are looked at at a time, for two words at once.
#[test]
fn a_crowd_at_one_word_does_not_hide_another() {
    with_waiters(300, |words| {
        let bits = |n| [n, 0, 0, 2];
        let other = Arc::new(AtomicU32::new(0));
        let theirs = other.clone();
        let last = quaver::spawn(move || {
            assert_eq!(futex(&theirs, libc::FUTEX_WAIT_BITSET, [0, 0, 0, 1]), 0);
        });
        others_run();
        assert_eq!(futex(&other, libc::FUTEX_WAKE_BITSET, bits(1)), 0);
        assert_eq!(futex(&words[0], libc::FUTEX_WAKE_BITSET, bits(250)), 250);
        assert_eq!(futex(&other, libc::FUTEX_WAKE, [9, 0, 0, 0]), 1);
        last.join().unwrap();
        others_run();
        assert_eq!(words[1].load(SeqCst), 250);
    });
}

/// What the kernel refuses to wait for is refused to user threads too, with the same error.
#[test]
fn waits_are_refused_as_by_the_kernel() {
    fn errors() -> Vec<c_long> {
        let words = [const { AtomicU32::new(0) }; 2];
        let time = |tv_sec, tv_nsec| libc::timespec { tv_sec, tv_nsec };
        let times = [time(0, -1), time(0, 1_000_000_000), time(-1, 0)];
        let mut errors: Vec<_> = times
            .iter()
            .flat_map(|t| {
                [libc::FUTEX_WAIT, libc::FUTEX_WAIT_BITSET]
                    .map(|op| futex(&words[0], op, [0, std::ptr::from_ref(t) as c_long, 0, 1]))
            })
            .collect();
        let unaligned = words[0].as_ptr().wrapping_byte_add(2);
        errors.push(futex_at(unaligned, libc::FUTEX_WAIT, [0, 0, 0, 0]));
        errors.push(futex_at(std::ptr::null(), libc::FUTEX_WAIT, [0, 0, 0, 0]));
        errors.push(futex(&words[0], libc::FUTEX_WAIT_BITSET, [0, 0, 0, 0]));
        let with_clock = libc::FUTEX_WAIT | libc::FUTEX_CLOCK_REALTIME;
        errors.push(futex(&words[0], with_clock, [0, 0, 0, 0]));
        errors.push(futex(&words[0], libc::FUTEX_WAIT, [1, 0, 0, 0]));
        errors.push(futex_at(unaligned, libc::FUTEX_WAKE, [1, 0, 0, 0]));
        errors
    }
    let _alone = alone();
    let natively = errors();
    assert!(natively.iter().all(|&e| e < 0), "{natively:?}");
    let rt = quaver::Builder::new().workers(1).build().unwrap();
    assert_eq!(rt.run(errors), natively);
}

/// Threads that a shutdown leaves behind do not take the wake-ups of those that live on.
#[test]
fn abandoned_waiters_are_passed_over() {
    let _alone = alone();
    let locks = Arc::new((
        Mutex::new(()),
        quaver::sync::Mutex::new(()),
        quaver::sync::RwLock::new(()),
        quaver::sync::Semaphore::new(0),
        (quaver::sync::Mutex::new(0), quaver::sync::Condvar::new()),
    ));
    let rt = quaver::Builder::new().workers(2).build().unwrap();
    let guards = (locks.0.lock().unwrap(), locks.1.lock().unwrap(), locks.2.write().unwrap());
    let started = Arc::new(AtomicUsize::new(0));
    fn each(locks: &impl std::ops::Deref<Target = Locks>, which: usize) {
        match which {
            0 => drop(locks.0.lock().unwrap()),
            1 => drop(locks.1.lock().unwrap()),
            2 => drop(locks.2.write().unwrap()),
            3 => drop(locks.2.read().unwrap()),
            4 => locks.3.acquire().unwrap().forget(),
            _ => {
                let (count, changed) = &locks.4;
                let mut left = changed.wait(count.lock().unwrap()).unwrap();
                *left += 1;
            }
        }
    }
    for i in 0..24 {
        let (locks, started) = (locks.clone(), started.clone());
        quaver::spawn_detached(move || {
            started.fetch_add(1, SeqCst);
            each(&locks, i % 6);
        });
    }
    until(|| started.load(SeqCst) == 24);
    // They are on their way into the queues; should one not get there, the test is only easier.
    std::thread::sleep(Duration::from_millis(20));
    assert!(rt.shutdown().threads >= 24);
    let threads: Vec<_> = (0..6)
        .map(|i| {
            let locks = locks.clone();
            std::thread::spawn(move || each(&locks, i))
        })
        .collect();
    std::thread::sleep(Duration::from_millis(20));
    drop(guards);
    locks.3.add_permits(1);
    // The one that waits for a notification may come late to it.
    while !threads[5].is_finished() {
        locks.4.1.notify_one();
        std::thread::sleep(Duration::from_millis(1));
    }
    threads.into_iter().for_each(|t| t.join().unwrap());
}

/// A wake-up that was on its way when the runtime was shut down is not waited for.
#[test]
fn a_wake_up_of_an_abandoned_thread_is_repeated() {
    let _alone = alone();
    let locks = Arc::new((quaver::sync::Mutex::new(()), quaver::sync::RwLock::new(())));
    let rt = quaver::Builder::new().workers(1).quantum(None).build().unwrap();
    let (released, is_released) = std::sync::mpsc::channel();
    let theirs = locks.clone();
    rt.spawn(move || {
        let guards = (theirs.0.lock().unwrap(), theirs.1.write().unwrap());
        for i in 0..2 {
            let locks = theirs.clone();
            quaver::spawn_detached(move || match i {
                0 => drop(locks.0.lock().unwrap()),
                _ => drop(locks.1.write().unwrap()),
            });
        }
        others_run();
        drop(guards);
        // Both have been woken and will not run: nobody is preempted.
        released.send(()).unwrap();
        loop {
            std::hint::spin_loop();
        }
    });
    is_released.recv().unwrap();
    assert_eq!(rt.shutdown().threads, 3);
    let guards = (locks.0.lock().unwrap(), locks.1.write().unwrap());
    let threads = [0, 1].map(|i| {
        let locks = locks.clone();
        std::thread::spawn(move || match i {
            0 => drop(locks.0.lock().unwrap()),
            _ => drop(locks.1.write().unwrap()),
        })
    });
    std::thread::sleep(Duration::from_millis(50));
    drop(guards);
    threads.into_iter().for_each(|t| t.join().unwrap());
}

type Locks = (
    Mutex<()>,
    quaver::sync::Mutex<()>,
    quaver::sync::RwLock<()>,
    quaver::sync::Semaphore,
    (quaver::sync::Mutex<i32>, quaver::sync::Condvar),
);

static WORD: AtomicU32 = AtomicU32::new(0);
static HANDLED: AtomicUsize = AtomicUsize::new(0);

extern "C" fn wake_in_handler(_: i32) {
    HANDLED.fetch_add(1, SeqCst);
    WORD.fetch_add(1, SeqCst);
    // SAFETY: a valid word. The interrupted code's errno is not touched by a wake-up.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            WORD.as_ptr(),
            libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG,
            1,
        )
    };
}

/// Signals as fast as they can be sent, to whichever threads take them, while all of them lock,
/// wait and wake.
fn handlers_wake() {
    // SAFETY: a handler that touches atomics and wakes.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = wake_in_handler as *const () as usize;
        action.sa_flags = libc::SA_RESTART;
        libc::sigaction(libc::SIGUSR1, &action, std::ptr::null_mut());
    }
    static SUM: Mutex<u64> = Mutex::new(0);
    let over = Arc::new(AtomicBool::new(false));
    let rt = quaver::Builder::new().workers(2).build().unwrap();
    let work = |over: Arc<AtomicBool>| {
        move || {
            while !over.load(SeqCst) {
                let mut sum = SUM.lock().unwrap();
                *sum += 1;
                quaver::yield_now();
                drop(sum);
                let seen = WORD.load(SeqCst);
                if seen.is_multiple_of(3) {
                    let soon = libc::timespec { tv_sec: 0, tv_nsec: 200_000 };
                    futex(&WORD, libc::FUTEX_WAIT, [seen.into(), &raw const soon as c_long, 0, 0]);
                }
            }
        }
    };
    let users: Vec<_> = (0..6).map(|_| rt.spawn(work(over.clone()))).collect();
    let kernels: Vec<_> = (0..2).map(|_| std::thread::spawn(work(over.clone()))).collect();
    // One waits for handlers alone.
    let patient = rt.spawn(|| {
        for _ in 0..200 {
            let seen = WORD.load(SeqCst);
            futex(&WORD, libc::FUTEX_WAIT, [seen.into(), 0, 0, 0]);
        }
    });
    while HANDLED.load(SeqCst) < 3_000 || !patient.is_finished() {
        // SAFETY: no memory is involved.
        unsafe { libc::kill(libc::getpid(), libc::SIGUSR1) };
        std::thread::sleep(Duration::from_micros(50));
    }
    over.store(true, SeqCst);
    users.into_iter().chain([patient]).for_each(|t| t.join().unwrap());
    kernels.into_iter().for_each(|t| t.join().unwrap());
}

#[test]
fn signal_handlers_wake_wherever_they_run() {
    child::run("handlers wake").expect_success();
}

#[test]
fn the_child() {
    if child::role().as_deref() == Some("handlers wake") {
        handlers_wake();
    }
}
