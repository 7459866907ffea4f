//! Boost.Fiber: stackful fibers of C++, without preemption. The operations are in
//! `boost_fibers.cpp`.

use std::cell::Cell;
use std::ffi::c_void;
use std::time::Duration;

use quaver_bench_common::clock::monotonic_ns;
use quaver_bench_common::overshoot::{Overshoots, hog_until, sleep_until};
use quaver_bench_common::spec::DETACHED_BATCH;
use quaver_bench_common::{Op, Outcome, Sample, Spec, measure};

unsafe extern "C" {
    safe fn boost_yield(n: u64);
    safe fn boost_spawn_join(n: u64);
    safe fn boost_spawn_detached(n: u64, batch: u64);
    safe fn boost_mutex(n: u64) -> u64;
    safe fn boost_condvar(n: u64);
    safe fn boost_channel(n: u64) -> u64;
    safe fn boost_sleep(nanoseconds: u64);
    /// Both functions are called with `data`, on this kernel thread.
    fn boost_sleeper_and_hogs(
        sleeper: extern "C" fn(*mut c_void),
        hogs: u32,
        hog: extern "C" fn(*mut c_void),
        data: *mut c_void,
    );
}

/// Does what `spec` asks.
pub fn run(spec: &Spec) -> Outcome {
    match *spec {
        Spec::Ops { op, budget } => measure(budget, op.per_iteration(), |n| iterate(op, n)).into(),
        Spec::Wake { hogs, sleep_us, duration_ms } => wake(hogs, sleep_us, duration_ms).into(),
        Spec::Parked { .. }
        | Spec::Throughput { .. }
        | Spec::Kv(_)
        | Spec::Serve(_)
        | Spec::Answer(_) => Outcome::unsupported("Boost.Fiber is compared in ops and wake only"),
    }
}

fn iterate(op: Op, n: u64) {
    match op {
        Op::Yield => boost_yield(n),
        Op::SpawnJoin => boost_spawn_join(n),
        Op::SpawnDetached => boost_spawn_detached(n, DETACHED_BATCH),
        Op::Mutex => assert_eq!(boost_mutex(n), n),
        Op::Condvar => boost_condvar(n),
        Op::Channel => assert_eq!(boost_channel(n), n),
    }
}

struct Wake {
    end: u64,
    length: Duration,
    overshoots: Cell<Option<Overshoots>>,
}

fn wake(hogs: u32, sleep_us: u64, duration_ms: u64) -> Sample {
    extern "C" fn sleeper(data: *mut c_void) {
        // SAFETY: it is the `Wake` below, which outlives all fibers; they are on one kernel thread.
        let wake = unsafe { &*data.cast::<Wake>() };
        let sleep = |length: Duration| boost_sleep(length.as_nanos() as u64);
        wake.overshoots.set(Some(sleep_until(wake.end, wake.length, sleep)));
    }
    extern "C" fn hog(data: *mut c_void) {
        // SAFETY: as above.
        hog_until(unsafe { &*data.cast::<Wake>() }.end);
    }
    let wake = Wake {
        end: monotonic_ns() + duration_ms * 1_000_000,
        length: Duration::from_micros(sleep_us),
        overshoots: Cell::new(None),
    };
    let data = (&raw const wake).cast_mut().cast();
    // SAFETY: it waits for all fibers, so `wake` outlives them.
    unsafe { boost_sleeper_and_hogs(sleeper, hogs, hog, data) };
    wake.overshoots.take().expect("the sleeper has ended").into_sample()
}
