//! `quaver bench defer`: how often a preemption has to be put off, how late it then is, and what
//! guarding an allocator costs.
//!
//! Two threads that never yield do the same kind of work on one worker until a fixed time is over:
//! allocating, copying large blocks, writing through stdio, or computing, which never meets an
//! unsafe place. Of the preemptions,
//!
//! * *deferred* is the share that came later than asked for, because the first request found the
//!   thread in code that may hold a lock of the C library;
//! * *p50*, *p99* and *max* say how late these were, from the first request to the switch;
//! * *round* is the time on the wall that a piece of the work took, whatever else the worker had to
//!   do: what it costs to preempt holders of locks (`max_deferral`) or to ask again and again.
//!
//! The row *alloc+free* is one small allocation on a user thread, with the system's allocator and
//! with the same in `quaver::Guarded`, in CPU time.

use std::alloc::{GlobalAlloc, Layout, System};
use std::hint::black_box;
use std::time::Duration;

use anyhow::ensure;
use quaver_bench_common::clock::monotonic_ns;
use quaver_bench_common::compute::Loop;
use quaver_bench_common::outcome::CPU_NS_PER_OP;
use quaver_bench_common::{Budget, Outcome, Sample, measure};
use serde::{Deserialize, Serialize};

use super::child::Work;
use super::context::{Context, Task};
use super::plan::{Group, Job, Plan, Reading};
use super::settings::{CLOCKS, Settings, TICKLESS};

const QUANTUM_US: u64 = 50;
const DEFERRED_PERCENT: &str = "deferred_percent";
const NS_PER_ROUND: &str = "wall_ns_per_round";
/// What is compared with the default, on a clock whose lateness is not that of a sleeping thread.
const LIMITS: [&str; 3] = ["20us", "100us", "off"];
const LIMITS_CLOCK: &str = "posix-timer";
/// Metrics and the shares that they belong to.
const QUANTILES: [(&str, &str, f64); 3] =
    [("p50", "late_p50_us", 0.5), ("p99", "late_p99_us", 0.99), ("max", "late_max_us", 1.0)];

/// The work of one child.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct DeferSpec {
    settings: Settings,
    what: What,
    duration_ms: u64,
}

/// What is measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum What {
    /// Blocks of 16 bytes to 4 KiB, allocated and freed in random order.
    Malloc,
    /// `memcpy` of a megabyte, called by the program itself.
    Memcpy,
    /// `fputs` and `fprintf` to a file that keeps nothing.
    Stdio,
    /// Arithmetic.
    Compute,
    /// The cost of an allocation, guarded or not.
    Allocation {
        /// With `Guarded`?
        guarded: bool,
    },
}

impl What {
    const LOADS: [What; 4] = [What::Malloc, What::Memcpy, What::Stdio, What::Compute];

    fn name(self) -> &'static str {
        match self {
            What::Malloc => "malloc",
            What::Memcpy => "memcpy",
            What::Stdio => "stdio",
            What::Compute => "compute",
            What::Allocation { .. } => "alloc+free",
        }
    }
}

/// The jobs of this benchmark.
pub fn plan(context: &Context) -> Plan {
    let mut groups: Vec<_> = What::LOADS.into_iter().map(|load| group(context, load)).collect();
    groups.push(allocation(context));
    let note = "defer: how late put-off preemptions were, on the wall, in steps of a quarter";
    Plan { groups, notes: vec![note.into()] }
}

fn group(context: &Context, load: What) -> Group {
    let place = &context.place;
    let clocks = if place.helper.is_some() { &CLOCKS[..] } else { &TICKLESS };
    let duration_ms = context.effort.pick(200, 1000);
    let mut readings =
        vec![Reading::new(format!("{} deferred", load.name()), DEFERRED_PERCENT, "%")];
    readings.extend(
        QUANTILES.map(|(q, metric, _)| Reading::new(format!("{} {q}", load.name()), metric, "us")),
    );
    readings.push(Reading::new(format!("{} round", load.name()), NS_PER_ROUND, "ns"));
    let defaults = clocks.iter().map(|&clock| (clock, None));
    let jobs =
        defaults.chain(LIMITS.map(|limit| (LIMITS_CLOCK, Some(limit)))).map(|(clock, limit)| {
            let settings = Settings {
                max_deferral: limit.map(str::to_owned),
                ..Settings::preemptive(clock, QUANTUM_US, &[place.worker]).timer_cpu(place.helper)
            };
            let tickless = TICKLESS.contains(&clock);
            let task = Task {
                cpus: if tickless { vec![place.worker] } else { place.both() },
                expected: Duration::from_millis(duration_ms),
                readings: readings.clone(),
            };
            job(
                context,
                &task,
                settings.to_string(),
                DeferSpec { settings, what: load, duration_ms },
            )
        });
    Group { title: format!("defer {}", load.name()), jobs: jobs.collect() }
}

fn allocation(context: &Context) -> Group {
    let worker = context.place.worker;
    let duration_ms = context.effort.pick(30, 200);
    let jobs = [false, true].map(|guarded| {
        let what = What::Allocation { guarded };
        let task = Task {
            cpus: vec![worker],
            expected: Duration::from_millis(duration_ms),
            readings: vec![Reading::new(what.name(), CPU_NS_PER_OP, "ns")],
        };
        let name = if guarded { "quaver Guarded<System>" } else { "quaver System" };
        let settings = Settings::run_to_completion(&[worker]);
        job(context, &task, name.into(), DeferSpec { settings, what, duration_ms })
    });
    Group { title: "defer alloc+free".into(), jobs: jobs.into() }
}

fn job(context: &Context, task: &Task, name: String, spec: DeferSpec) -> Job {
    task.job(name, context.child(&Work::Defer(spec)))
}

/// Measures.
///
/// # Errors
///
/// When the runtime cannot be built, or nothing was preempted.
pub fn run(spec: &DeferSpec) -> anyhow::Result<Outcome> {
    let runtime = spec.settings.build()?;
    if let What::Allocation { guarded } = spec.what {
        let budget = Budget { warmup_ms: spec.duration_ms / 4, measure_ms: spec.duration_ms };
        return Ok(runtime.run(|| measure(budget, 1, |n| allocate(guarded, n))).into());
    }
    let (stats, late) = (runtime.stats(), runtime.lateness());
    let start = monotonic_ns();
    let end = start + spec.duration_ms * 1_000_000;
    let what = spec.what;
    let stream = Stream::open();
    let rounds: u64 = runtime.run(move || {
        let threads = [0, 1].map(|i| quaver::spawn(move || load(what, i, stream, end)));
        threads.into_iter().map(|t| t.join().expect("the loads do not panic")).sum()
    });
    stream.close();
    let useful = runtime.stats().since(&stats).preempt_useful;
    let late = runtime.lateness().since(&late);
    ensure!(useful > 0, "nothing was preempted in {} ms", spec.duration_ms);
    let wall_ns = monotonic_ns() - start;
    let sample = Sample { ops: useful, wall_ns, ..Sample::default() }
        .with(NS_PER_ROUND, wall_ns as f64 / rounds.max(1) as f64);
    let sample = sample.with(DEFERRED_PERCENT, 100.0 * late.count() as f64 / useful as f64);
    let with_quantile = |sample: Sample, (_, metric, q): (&str, &'static str, f64)| {
        sample.with(metric, late.quantile(q).as_nanos() as f64 / 1000.0)
    };
    Ok(QUANTILES.into_iter().fold(sample, with_quantile).into())
}

/// Works until `end`; how many rounds.
fn load(what: What, seed: u64, stream: Stream, end: u64) -> u64 {
    let mut round: Box<dyn FnMut()> = match what {
        What::Malloc => allocating(seed),
        What::Memcpy => copying(),
        What::Stdio => Box::new(move || stream.write()),
        What::Compute | What::Allocation { .. } => {
            Box::new(move || _ = black_box(Loop::Scalar.run(seed + 1, 20_000)))
        }
    };
    let mut rounds = 0;
    while monotonic_ns() < end {
        round();
        rounds += 1;
    }
    rounds
}

fn allocating(seed: u64) -> Box<dyn FnMut()> {
    let mut kept: Vec<Vec<u8>> = (0..64).map(|_| Vec::new()).collect();
    let mut random = seed * 2 + 1;
    Box::new(move || {
        for _ in 0..100 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let size = 16 << ((random >> 33) % 9);
            kept[(random >> 58) as usize] = black_box(Vec::with_capacity(size));
        }
    })
}

fn copying() -> Box<dyn FnMut()> {
    let from = vec![7u8; 1 << 20];
    let mut to = vec![0u8; 1 << 20];
    Box::new(move || black_box(&mut to).copy_from_slice(black_box(&from)))
}

/// A stream of the C library that both threads write to, and its lock.
#[derive(Clone, Copy)]
struct Stream(*mut libc::FILE);

// SAFETY: the C library locks a stream in each call.
unsafe impl Send for Stream {}

impl Stream {
    fn open() -> Stream {
        // SAFETY: terminated strings.
        Stream(unsafe { libc::fopen(c"/dev/null".as_ptr(), c"w".as_ptr()) })
    }

    fn write(self) {
        if self.0.is_null() {
            return;
        }
        for i in 0..20 {
            // SAFETY: an open stream; the strings are terminated and the format's arguments are of
            // its types.
            unsafe {
                libc::fputs(c"a line of text that is written to a stream\n".as_ptr(), self.0);
                libc::fprintf(self.0, c"%d %s\n".as_ptr(), i, c"formatted".as_ptr());
            }
        }
    }

    fn close(self) {
        if !self.0.is_null() {
            // SAFETY: open, and its users have been joined.
            unsafe { libc::fclose(self.0) };
        }
    }
}

fn allocate(guarded: bool, n: u64) {
    static GUARDED: quaver::Guarded<System> = quaver::Guarded::new(System);
    let layout = Layout::new::<[u64; 8]>();
    // SAFETY: the layout is not empty; each block is freed with it.
    unsafe {
        if guarded {
            (0..n).for_each(|_| GUARDED.dealloc(black_box(GUARDED.alloc(layout)), layout));
        } else {
            (0..n).for_each(|_| System.dealloc(black_box(System.alloc(layout)), layout));
        }
    }
}
