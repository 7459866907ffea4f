//! A worker that loses its CPU: what waits there runs elsewhere meanwhile; with a monitor, and not
//! without. They need the rights for both, and two CPUs, and are skipped with a line otherwise.

#[path = "../../runtime/tests/blocking/slow_file.rs"]
mod slow_file;
mod support;

use quaver::Builder;
use slow_file::SlowFile;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use support::{Hog, spin_until, two_cpus};

/// For so long a worker has no CPU, at most. (The kernel lets real-time threads run for 0.95 s.)
const LONG: Duration = Duration::from_millis(700);
const WAITING: usize = 4;
/// Every fifty quanta workers even out what they have; not within [`LONG`].
const QUANTUM: Duration = Duration::from_millis(15);

/// One at a time: there is one runtime in a process, and the machine has few CPUs. What the caller
/// starts comes before other programs that compute, which are no hogs of these tests.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    // SAFETY: of the calling thread; who may not do so stays as it is.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, -20) };
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A runtime with or without a monitor; `None`, with a line by the runtime, if there is none.
fn build(builder: Builder, monitored: bool) -> Option<quaver::Runtime> {
    quaver_monitor::provide();
    let rt = builder.monitor(monitored).build().unwrap();
    if rt.is_monitored() != monitored {
        println!("skipped: no monitor");
        return None;
    }
    Some(rt)
}

/// Threads wait at a worker whose CPU is taken away; the other worker runs a thread of its own, so
/// it does not steal. Returns whether all have run before the CPU came back, and how many threads
/// were given away.
fn wait_behind_a_hog(monitored: bool) -> Option<(bool, u64)> {
    let hog = Hog::new(LONG)?;
    let cpus = two_cpus()?;
    let builder = Builder::new().cpus(cpus.to_vec()).policy_str("ws").quantum(Some(QUANTUM));
    let rt = build(builder, monitored)?;
    let (busy, end, ran) = (AtomicBool::new(false), AtomicBool::new(false), AtomicUsize::new(0));
    let in_time = AtomicBool::new(false);
    rt.run(|| {
        quaver::scope(|s| {
            s.spawn(|| {
                busy.store(true, SeqCst);
                spin_until(|| end.load(SeqCst));
            });
            assert!(spin_until(|| busy.load(SeqCst)));
            quaver::no_preempt(|| {
                for _ in 0..WAITING {
                    s.spawn(|| {
                        if ran.fetch_add(1, SeqCst) + 1 == WAITING {
                            in_time.store(!hog.has_gone(), SeqCst);
                            hog.enough();
                        }
                    });
                }
                hog.take_this_cpu();
                assert!(spin_until(|| hog.has_gone()), "it has come and gone");
            });
            end.store(true, SeqCst);
        });
    });
    assert_eq!(ran.load(SeqCst), WAITING);
    Some((in_time.load(SeqCst), rt.stats().taken_over))
}

#[test]
fn what_waits_at_a_worker_without_a_cpu_runs_elsewhere() {
    let _turn = turn();
    let Some(without) = wait_behind_a_hog(false) else { return };
    assert_eq!(without, (false, 0), "nobody else knows");
    let Some((in_time, taken_over)) = wait_behind_a_hog(true) else { return };
    assert!(in_time && taken_over >= WAITING as u64, "{in_time} {taken_over}");
}

/// A thread sleeps, by a timer of a worker whose CPU is taken away, while the other worker is idle.
/// Returns whether it woke before the CPU came back.
fn sleep_behind_a_hog(monitored: bool) -> Option<bool> {
    let hog = Hog::new(LONG)?;
    let cpus = two_cpus()?;
    let builder = Builder::new().cpus(cpus.to_vec()).policy_str("ws").quantum(Some(QUANTUM));
    let rt = build(builder, monitored)?;
    let (busy, end) = (AtomicBool::new(false), AtomicBool::new(false));
    let (asleep, in_time) = (AtomicBool::new(false), AtomicBool::new(false));
    rt.run(|| {
        quaver::scope(|s| {
            s.spawn(|| {
                busy.store(true, SeqCst);
                spin_until(|| end.load(SeqCst));
            });
            assert!(spin_until(|| busy.load(SeqCst)));
            s.spawn(|| {
                asleep.store(true, SeqCst);
                quaver::sleep(Duration::from_millis(100));
                in_time.store(!hog.has_gone(), SeqCst);
                hog.enough();
            });
            // On this worker: the other one is busy.
            while !asleep.load(SeqCst) {
                quaver::yield_now();
            }
            quaver::no_preempt(|| {
                hog.take_this_cpu();
                end.store(true, SeqCst);
                assert!(spin_until(|| hog.has_gone()), "it has come and gone");
            });
        });
    });
    Some(in_time.load(SeqCst))
}

#[test]
fn timers_of_a_worker_without_a_cpu_expire() {
    let _turn = turn();
    let Some(without) = sleep_behind_a_hog(false) else { return };
    assert!(!without, "nobody else knows");
    if let Some(with) = sleep_behind_a_hog(true) {
        assert!(with);
    }
}

/// A thread reads a page beside one that counts, on one worker; the page comes when the other has
/// counted, or after `too_long`. No clock looks for page faults.
fn fault_beside_a_counter(monitored: bool, too_long: Duration) -> Option<(bool, u64)> {
    let (counted, in_time) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let file = SlowFile::new(1, {
        let (counted, in_time) = (counted.clone(), in_time.clone());
        move |_| {
            let (begin, until) = (counted.load(SeqCst), Instant::now() + too_long);
            while counted.load(SeqCst) < begin + 100 && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(1));
            }
            in_time.store(counted.load(SeqCst) >= begin + 100, SeqCst);
        }
    })?;
    let rt = build(Builder::new().workers(1).quantum(Some(Duration::from_millis(1))), monitored)?;
    let done = AtomicBool::new(false);
    rt.run(|| {
        quaver::scope(|s| {
            s.spawn(|| {
                assert_eq!(file.read(0), 1);
                done.store(true, SeqCst);
            });
            s.spawn(|| {
                while !done.load(SeqCst) {
                    counted.fetch_add(1, SeqCst);
                    quaver::yield_now();
                }
            });
        });
    });
    Some((in_time.load(SeqCst), rt.stats().fault_handovers))
}

#[test]
fn a_worker_asleep_in_a_page_fault_goes_on_with_others() {
    let _turn = turn();
    let Some(without) = fault_beside_a_counter(false, Duration::from_millis(500)) else { return };
    assert_eq!(without, (false, 0), "nobody looks");
    let Some((in_time, taken)) = fault_beside_a_counter(true, Duration::from_secs(20)) else {
        return;
    };
    assert!(in_time && taken > 0, "{in_time} {taken}");
}

/// Many threads on more workers than CPUs beside processes that compute: all is done, once.
#[test]
fn nothing_is_lost_where_workers_lose_their_cpus_all_the_time() {
    let _turn = turn();
    let policies = ["ws", "two-queue", "cfs", "eevdf", "rr"];
    for policy in policies {
        let builder = Builder::new().workers(4).policy_str(policy);
        let Some(rt) = build(builder.quantum(Some(Duration::from_micros(200))), true) else {
            return;
        };
        let (sum, done) = (AtomicU64::new(0), AtomicBool::new(false));
        std::thread::scope(|s| {
            (0..2).for_each(|_| drop(s.spawn(|| spin_until(|| done.load(SeqCst)))));
            rt.run(|| {
                quaver::scope(|s| {
                    for i in 0..200 {
                        let sum = &sum;
                        s.spawn(move || {
                            for round in 0..5 {
                                if (i + round) % 3 == 0 {
                                    quaver::sleep(Duration::from_micros(300));
                                }
                                for n in 0..20_000 {
                                    std::hint::black_box(n);
                                }
                                quaver::yield_now();
                            }
                            sum.fetch_add(i, SeqCst);
                        });
                    }
                });
            });
            done.store(true, SeqCst);
        });
        assert_eq!(sum.into_inner(), (0..200).sum::<u64>(), "{policy}");
    }
}
