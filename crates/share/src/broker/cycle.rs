//! What it takes to give a core up and have it back, measured where it will happen: on a shared
//! CPU, between threads of the ranks of a latency-critical and a best-effort application.
//!
//! One thread sleeps as a worker does, the other wakes it as a best-effort application does that
//! answers a bell. From before the wake-up until that one runs again is a cycle: the system call,
//! the switch, the next sleep, and the switch back.

use super::ranks::{Binding, Rank};
use crate::class;
use crate::futex;
use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

/// Where it cannot be measured: what it was on one machine.
const USUAL: Duration = Duration::from_micros(6);
/// Nothing else is believed: the CPU may have been busy.
const BELIEVED: std::ops::RangeInclusive<Duration> =
    Duration::from_nanos(500)..=Duration::from_micros(100);
/// Measured, after so many that only warm up; and as many as there must be.
const CYCLES: usize = 200;
const WARM_UP: usize = 20;
const ENOUGH: usize = 50;
/// How long it may take, and how long somebody waits for it.
const TIME: Duration = Duration::from_millis(20);
const PATIENCE: Duration = Duration::from_millis(100);

/// The two threads: how often one has slept, and whether it still should.
#[derive(Default)]
struct Bed {
    slept: AtomicU32,
    over: AtomicBool,
}

/// Measures on this CPU; takes some milliseconds, a tenth of a second where others use the CPU.
/// Never fails: it is a few microseconds.
pub(super) fn measure(cpu: usize, binding: Binding) -> Duration {
    measured(cpu, binding).unwrap_or(USUAL)
}

fn measured(cpu: usize, binding: Binding) -> Option<Duration> {
    quaver_rsb::prepare();
    let bed = Arc::new(Bed::default());
    let (tell, told) = channel();
    let place =
        move |rank| -> bool { binding.class(rank).set(0).is_ok() && class::pin(&[cpu]).is_ok() };
    let (sleeper, waker) = (bed.clone(), bed.clone());
    let name = |name: &str| std::thread::Builder::new().name(name.into());
    // They end by themselves, also where nobody waits for them any more.
    let begun = name("quaver-cycle").spawn(move || {
        if place(Rank::Critical) {
            sleep(&sleeper);
        }
        sleeper.over.store(true, Release);
    });
    let waking = name("quaver-cycle").spawn(move || {
        if place(Rank::Turn) {
            wake_up(&waker, &tell);
        }
        waker.over.store(true, Release);
        futex::wake(&waker.slept);
    });
    let cycle = match (begun, waking) {
        (Ok(_), Ok(_)) => told.recv_timeout(PATIENCE).ok(),
        _ => None,
    };
    bed.over.store(true, Release);
    cycle.filter(|cycle| BELIEVED.contains(cycle))
}

/// Sleeps again and again.
fn sleep(bed: &Bed) {
    while !bed.over.load(Acquire) {
        let slept = bed.slept.fetch_add(1, AcqRel) + 1;
        let _ = futex::wait(&bed.slept, slept, Some(TIME));
    }
}

/// Wakes it, again and again, and tells the median of how long that took.
fn wake_up(bed: &Bed, tell: &Sender<Duration>) {
    let deadline = Instant::now() + TIME;
    let mut cycles = Vec::with_capacity(CYCLES + WARM_UP);
    // By then the other one sleeps: it has the higher rank.
    let slept_beyond = |before: u32| {
        while bed.slept.load(Acquire) == before {
            if Instant::now() > deadline || bed.over.load(Relaxed) {
                return false;
            }
            std::thread::yield_now();
        }
        true
    };
    if !slept_beyond(0) {
        return;
    }
    while cycles.len() < CYCLES + WARM_UP && Instant::now() < deadline {
        let before = bed.slept.load(Acquire);
        let begun = Instant::now();
        futex::wake(&bed.slept);
        if !slept_beyond(before) {
            break;
        }
        cycles.push(begun.elapsed());
    }
    let measured = cycles.get_mut(WARM_UP..).filter(|measured| measured.len() >= ENOUGH);
    if let Some(measured) = measured {
        measured.sort();
        let _ = tell.send(measured[measured.len() / 2]);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn it_is_some_microseconds_and_leaves_no_thread() {
        let set = rustix::thread::sched_getaffinity(None).unwrap();
        let cpu = (0..).find(|&cpu| set.is_set(cpu)).unwrap();
        let begun = Instant::now();
        let bindings = [Binding::Idle, Binding::Nice, Binding::Mixed, Binding::Fifo];
        // Others may have the CPU for a while.
        while bindings.iter().all(|&binding| measured(cpu, binding).is_none()) {
            assert!(begun.elapsed() < Duration::from_secs(20), "it cannot be measured");
        }
        // No such CPU.
        assert_eq!(measure(usize::MAX, Binding::Idle), USUAL);
        let mine = |tid: &i32| {
            let comm = std::fs::read_to_string(format!("/proc/self/task/{tid}/comm"));
            comm.is_ok_and(|comm| comm.trim() == "quaver-cycle")
        };
        let own = std::process::id() as i32;
        let begun = Instant::now();
        while crate::threads::threads(own).iter().any(mine) {
            assert!(begun.elapsed() < Duration::from_secs(20), "a thread is left");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
