//! `quaver bench schbench`: how late threads run that others wake, beside threads that compute.
//!
//! Skyloft's Figs. 5 and 6 measure with Linux' schbench. This is a program of our own that does the
//! same: *message* threads wake *worker* threads, a worker multiplies matrices and waits for the
//! next message. It is run as kernel threads under the kernel's scheduler, with its default slice
//! and with the shortest that it accepts, and as user threads of one worker under several policies,
//! on the same CPU:
//!
//! * *wakeup* is the time from the message until the woken thread runs, *request* that of its work,
//!   and *rps* how many requests a second were served: a policy that is good at one pays with
//!   another;
//! * *t=N* is the number of worker threads. On one CPU it is what the paper has for each core: 24
//!   cores and 48 threads are two.
//!
//! `--schbench "-m 1 -t 4 -r 10"` takes schbench's own options.

mod flags;
mod threads;

use std::time::Duration;

use anyhow::Context as _;
use quaver_bench_common::Outcome;
use serde::{Deserialize, Serialize};

pub use self::flags::Flags;
use super::child::Work;
use super::context::{Context, Task};
use super::plan::{Group, Plan, Reading};
use crate::slice;

/// The paper's Table 5, and time slices of its Fig. 6. With one worker `ws` is round robin.
const POLICIES: [&str; 6] = [
    "ws:quantum=50us",
    "ws:quantum=200us",
    "ws:quantum=1ms",
    "cfs:quantum=12500ns,latency=50us",
    "eevdf:quantum=12500ns",
    "fifo",
];
/// Of these, for a look.
const QUICK: [&str; 3] = ["ws:quantum=50us", "eevdf:quantum=12500ns", "fifo"];
/// The shortest time slice that Linux accepts: tuned for wake-ups as far as it can be, beside
/// policies that are.
const SHORTEST_SLICE_US: u64 = 100;
/// The clock of the runtime: one that needs no CPU of its own.
const CLOCK: &str = "posix-timer";

/// The work of one child.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct SchbenchSpec {
    flags: Flags,
    who: Who,
    cpu: usize,
}

/// Whose threads they are.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Who {
    /// The kernel's, with this time slice in microseconds, or its default.
    Kernel(Option<u64>),
    /// The runtime's, under this policy.
    Runtime(String),
}

impl Who {
    fn name(&self) -> String {
        match self {
            Who::Kernel(None) => "kernel threads".into(),
            Who::Kernel(Some(us)) => format!("kernel threads, slice {us}us"),
            Who::Runtime(policy) => format!("quaver {policy}"),
        }
    }
}

/// The jobs of this benchmark; with `flags` only those.
pub fn plan(context: &Context, flags: Option<Flags>) -> Plan {
    let (groups, runtime_ms) = match flags {
        Some(flags) => (vec![flags], flags.runtime_ms()),
        None => {
            let runtime_ms = context.effort.pick(300, 3_000);
            let threads: &[u16] = context.effort.pick(&[2], &[1, 2, 3, 4]);
            (threads.iter().map(|&t| Flags::of(t, runtime_ms)).collect(), runtime_ms)
        }
    };
    let expected = Duration::from_millis(runtime_ms);
    let groups = groups.into_iter().map(|flags| group(context, flags, expected)).collect();
    let note = "schbench: one CPU, on which one worker or the kernel runs all threads";
    Plan { groups, notes: vec![note.into()] }
}

fn group(context: &Context, flags: Flags, expected: Duration) -> Group {
    let title = format!("t={}", flags.threads);
    let readings = threads::METRICS
        .map(|(name, metric, unit)| Reading::new(format!("{title} {name}"), metric, unit));
    let cpu = context.place.worker;
    let task = Task { cpus: vec![cpu], expected, readings: readings.into() };
    let policies: &[&str] = if context.effort.quick { &QUICK } else { &POLICIES };
    let job = |who: Who| {
        let name = who.name();
        let spec = SchbenchSpec { flags, who, cpu };
        task.job(name, context.child(&Work::Schbench(spec)))
    };
    let kernel = [None, Some(SHORTEST_SLICE_US)].map(Who::Kernel);
    let runtime = policies.iter().map(|&policy| Who::Runtime(policy.into()));
    let jobs = kernel.into_iter().chain(runtime).map(job);
    Group { title: format!("schbench {title}"), jobs: jobs.collect() }
}

/// Measures.
///
/// # Errors
///
/// When the runtime cannot be built, or a thread cannot be started.
pub fn run(spec: &SchbenchSpec) -> anyhow::Result<Outcome> {
    let policy = match &spec.who {
        Who::Runtime(policy) => policy,
        Who::Kernel(us) => {
            let slice = us.map(Duration::from_micros);
            return threads::run(&spec.flags, |work| {
                let tuned = move || {
                    slice.into_iter().for_each(slice::set);
                    work();
                };
                let thread = std::thread::Builder::new().spawn(tuned)?;
                Ok(Box::new(move || thread.join().is_ok()))
            });
        }
    };
    let runtime = quaver::Builder::new()
        .workers(1)
        .cpus(vec![spec.cpu])
        .policy_str(policy)
        .clock_str(CLOCK)
        .build()
        .with_context(|| format!("cannot build a runtime with the policy {policy}"))?;
    runtime.run(|| {
        threads::run(&spec.flags, |work| {
            let thread = quaver::thread::Builder::new().spawn(work)?;
            Ok(Box::new(move || thread.join().is_ok()))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every policy that is measured exists.
    #[test]
    fn policies_can_be_parsed() {
        for policy in POLICIES {
            policy.parse::<quaver::PolicySpec>().unwrap();
        }
        assert!(QUICK.iter().all(|policy| POLICIES.contains(policy)));
    }
}
