//! `quaver bench stall`: for how long a thread that waits in the kernel keeps a worker from its
//! other threads, and how soon it is back.
//!
//! Three threads share one worker. One holds a lock for three quanta at a time and leaves it free
//! for as long; one takes it whenever it is held, and is then blocked in the kernel with the
//! worker; one only looks at the clock. The stall is the time from the moment before the lock is
//! asked for to the first moment that another thread runs:
//!
//! * *pthread mutex*: the wait cannot be seen from outside, so the worker is taken from the blocked
//!   thread when its quantum is used;
//! * *std mutex*: the wait goes through `syscall`, which Quaver defines, so the thread parks at
//!   once.
//!
//! In *blocking read* there is no lock: the thread reads a pipe into which a kernel thread on
//! another CPU writes the time a while later, and two others look at the clock. The kernel has two
//! kernel threads to choose from when the read ends, so the thread may be *back* late.

use std::cell::UnsafeCell;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use anyhow::ensure;
use hdrhistogram::Histogram;
use quaver_bench_common::affinity;
use quaver_bench_common::clock::monotonic_ns;
use quaver_bench_common::{Outcome, Sample};
use serde::{Deserialize, Serialize};

use super::child::Work;
use super::context::{Context, Task};
use super::plan::{Group, Plan, Reading};
use super::settings::{CLOCKS, Settings, TICKLESS};

const QUANTA_US: [u64; 2] = [20, 100];
/// Metrics, and the shares of stalls that are not longer.
const QUANTILES: [(&str, &str, f64); 3] =
    [("p50", "stall_p50_us", 0.5), ("p99", "stall_p99_us", 0.99), ("max", "stall_max_us", 1.0)];
/// The same of the times from a write to the end of the read.
const BACK: [(&str, &str, f64); 3] = [
    ("back p50", "back_p50_us", 0.5),
    ("back p99", "back_p99_us", 0.99),
    ("back max", "back_max_us", 1.0),
];
/// From the beginning of a read to the write.
const READ: Duration = Duration::from_millis(2);

/// The work of one child.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct StallSpec {
    settings: Settings,
    quantum_us: u64,
    lock: Kind,
    stalls: u64,
    /// Where the kernel thread runs that writes.
    writer: Option<usize>,
}

/// What is waited for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Kind {
    /// A lock of the C library.
    Pthread,
    /// One of Rust's standard library.
    Std,
    /// A pipe.
    Read,
}

impl Kind {
    const ALL: [Kind; 3] = [Kind::Pthread, Kind::Std, Kind::Read];

    fn name(self) -> &'static str {
        match self {
            Kind::Pthread => "pthread mutex",
            Kind::Std => "std mutex",
            Kind::Read => "blocking read",
        }
    }

    fn quantiles(self) -> impl Iterator<Item = (&'static str, &'static str, f64)> {
        QUANTILES.into_iter().chain(BACK.into_iter().filter(move |_| self == Kind::Read))
    }
}

/// The jobs of this benchmark.
pub fn plan(context: &Context) -> Plan {
    let groups = Kind::ALL.map(|lock| group(context, lock)).into();
    let note = "stall: from asking for a lock to the first step of another thread of the worker, \
                on the wall";
    Plan { groups, notes: vec![note.into()] }
}

fn group(context: &Context, lock: Kind) -> Group {
    let place = &context.place;
    let clocks = if place.helper.is_some() { &CLOCKS[..] } else { &TICKLESS };
    let stalls = context.effort.pick(100, 200);
    let each = clocks.iter().flat_map(|&clock| QUANTA_US.map(|quantum_us| (clock, quantum_us)));
    let jobs = each.map(|(clock, quantum_us)| {
        let settings = Settings::preemptive(clock, quantum_us, &[place.worker]);
        let settings = settings.timer_cpu(place.helper);
        let reading = |(q, metric, _)| {
            Reading::new(format!("{} {quantum_us}us {q}", lock.name()), metric, "us")
        };
        let task = Task {
            cpus: place.both(),
            // The kernel may run the carrier that waited beside the worker only at its next tick,
            // and the lock may be taken again by then.
            expected: Duration::from_micros(stalls * (20 * quantum_us + 10_000)),
            readings: lock.quantiles().map(reading).collect(),
        };
        let name = format!("quaver {clock}");
        let spec = StallSpec { settings, quantum_us, lock, stalls, writer: place.helper };
        task.job(name, context.child(&Work::Stall(spec)))
    });
    Group { title: format!("stall {}", lock.name()), jobs: jobs.collect() }
}

/// Measures.
///
/// # Errors
///
/// When the runtime cannot be built, or no lock was found held.
pub fn run(spec: &StallSpec) -> anyhow::Result<Outcome> {
    let runtime = spec.settings.build()?;
    let start = monotonic_ns();
    let (stalls, backs) = match spec.lock {
        Kind::Pthread => (runtime.run(|| measure(spec, &Pthread::new())), None),
        Kind::Std => (runtime.run(|| measure(spec, &Mutex::new(()))), None),
        Kind::Read => {
            let (stalls, backs) = measure_reads(spec, &runtime)?;
            (stalls, Some(backs))
        }
    };
    ensure!(!stalls.is_empty(), "nobody waited in the kernel");
    let sample = Sample { ops: stalls.len(), wall_ns: monotonic_ns() - start, ..Sample::default() };
    let seen = |all: &Histogram<u64>, q| all.value_at_quantile(q) as f64 / 1000.0;
    let sample = QUANTILES
        .into_iter()
        .fold(sample, |sample, (_, metric, q)| sample.with(metric, seen(&stalls, q)));
    let backs = backs.iter().flat_map(|backs| BACK.map(|(_, metric, q)| (metric, seen(backs, q))));
    Ok(backs.fold(sample, |sample, (metric, time)| sample.with(metric, time)).into())
}

/// Stalls, and times from a write to the end of the read, in nanoseconds.
fn measure_reads(
    spec: &StallSpec,
    runtime: &quaver::Runtime,
) -> anyhow::Result<(Histogram<u64>, Histogram<u64>)> {
    let (read, mut write) = std::io::pipe()?;
    let (asked, asks) = std::sync::mpsc::channel::<()>();
    let cpu = spec.writer;
    let writer = std::thread::spawn(move || -> anyhow::Result<()> {
        if let Some(cpu) = cpu {
            affinity::pin(&[cpu])?;
        }
        while asks.recv().is_ok() {
            std::thread::sleep(READ);
            write.write_all(&monotonic_ns().to_ne_bytes())?;
        }
        Ok(())
    });
    let (stalled, done, mut backs) = (Stalled::default(), AtomicBool::new(false), histogram());
    let look = || {
        let mut seen = histogram();
        while !done.load(SeqCst) {
            stalled.ends(&mut seen);
        }
        seen
    };
    let stalls = runtime.run(|| {
        quaver::scope(|s| {
            let others = [s.spawn(look), s.spawn(look)];
            for _ in 0..spec.stalls {
                asked.send(()).expect("it listens");
                stalled.begins();
                let mut written = [0; 8];
                // As any program's own: `read` of the C library is Quaver's.
                // SAFETY: eight bytes are written to eight.
                let got = unsafe {
                    libc::syscall(libc::SYS_read, read.as_raw_fd(), written.as_mut_ptr(), 8)
                };
                let now = monotonic_ns();
                assert_eq!(got, 8, "the time was written");
                stalled.is_over();
                backs.saturating_record(now.saturating_sub(u64::from_ne_bytes(written)));
            }
            done.store(true, SeqCst);
            let all = others.map(|other| other.join().expect("nothing here panics"));
            all.into_iter().reduce(|a, b| a + b).expect("there are two")
        })
    });
    drop(asked);
    writer.join().expect("nothing here panics")?;
    Ok((stalls, backs))
}

/// Stalls in nanoseconds.
fn measure(spec: &StallSpec, lock: &impl Lock) -> Histogram<u64> {
    let stalled = Stalled::default();
    let done = AtomicBool::new(false);
    let hold_ns = 3 * spec.quantum_us * 1000;
    quaver::scope(|s| {
        let holder = s.spawn(|| {
            let mut seen = histogram();
            let mut run_on = || {
                let end = monotonic_ns() + hold_ns;
                while monotonic_ns() < end {
                    stalled.ends(&mut seen);
                }
            };
            while !done.load(SeqCst) {
                lock.with(&mut run_on);
                run_on();
                quaver::yield_now();
            }
            seen
        });
        let bystander = s.spawn(|| {
            let mut seen = histogram();
            while !done.load(SeqCst) {
                stalled.ends(&mut seen);
            }
            seen
        });
        for _ in 0..spec.stalls {
            while lock.is_free() {
                quaver::yield_now();
            }
            stalled.begins();
            lock.with(|| stalled.is_over());
            quaver::yield_now();
        }
        done.store(true, SeqCst);
        let mut all = holder.join().expect("nothing here panics");
        all += &bystander.join().expect("nothing here panics");
        all
    })
}

/// Of nanoseconds, up to a minute.
fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 60_000_000_000, 3).expect("the bounds are in order")
}

/// When the stall began that nobody has seen the end of, or 0.
#[derive(Default)]
struct Stalled(AtomicU64);

impl Stalled {
    fn begins(&self) {
        self.0.store(monotonic_ns(), SeqCst);
    }

    fn is_over(&self) {
        self.0.store(0, SeqCst);
    }

    /// Called by every other thread all the time.
    fn ends(&self, seen: &mut Histogram<u64>) {
        let began = self.0.load(SeqCst);
        if began != 0 && self.0.compare_exchange(began, 0, SeqCst, SeqCst).is_ok() {
            seen.saturating_record(monotonic_ns().saturating_sub(began));
        }
    }
}

trait Lock: Sync {
    /// Would a thread that asks for it now get it?
    fn is_free(&self) -> bool;
    /// Does this with the lock held.
    fn with(&self, work: impl FnOnce());
}

impl Lock for Mutex<()> {
    fn is_free(&self) -> bool {
        self.try_lock().is_ok()
    }

    fn with(&self, work: impl FnOnce()) {
        let _held = self.lock().expect("nothing panics with the lock held");
        work();
    }
}

/// A mutex of the C library, called directly.
struct Pthread(Box<UnsafeCell<libc::pthread_mutex_t>>);

// SAFETY: a mutex is for several threads; its address never changes.
unsafe impl Sync for Pthread {}

impl Pthread {
    fn new() -> Pthread {
        Pthread(Box::new(UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER)))
    }
}

impl Lock for Pthread {
    fn is_free(&self) -> bool {
        // SAFETY: an initialised mutex, which is unlocked by the thread that has locked it.
        unsafe {
            libc::pthread_mutex_trylock(self.0.get()) == 0
                && libc::pthread_mutex_unlock(self.0.get()) == 0
        }
    }

    fn with(&self, work: impl FnOnce()) {
        // SAFETY: as above; `work` does not panic.
        unsafe { libc::pthread_mutex_lock(self.0.get()) };
        work();
        // SAFETY: as above.
        unsafe { libc::pthread_mutex_unlock(self.0.get()) };
    }
}
