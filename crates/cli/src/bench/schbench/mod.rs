//! `quaver bench schbench`: how late threads run that others wake, beside threads that compute.
//!
//! Skyloft's Figs. 5 and 6 measure with Linux' schbench. This is a program of our own that does the same: *message*
//! threads wake *worker* threads, a worker multiplies matrices and waits for the next message. It is run as kernel threads
//! under the kernel's scheduler, and as user threads of one worker under several policies, on the same CPU:
//!
//! * *wakeup* is the time from the message until the woken thread runs, *request* that of its work, and *rps* how many requests
//!   a second were served: a policy that is good at one pays with another;
//! * *t=N* is the number of worker threads. On one CPU it is what the paper has for each core: 24 cores and 48 threads are
//!   two.
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
/// The clock of the runtime: one that needs no CPU of its own.
const CLOCK: &str = "posix-timer";

/// The work of one child.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct SchbenchSpec {
    flags: Flags,
    /// The runtime's; `None`: kernel threads.
    policy: Option<String>,
    cpu: usize,
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
    let job = |policy: Option<&str>| {
        let name = policy.map_or("kernel threads".into(), |policy| format!("quaver {policy}"));
        let spec = SchbenchSpec { flags, policy: policy.map(str::to_owned), cpu };
        task.job(name, context.child(&Work::Schbench(spec)))
    };
    let jobs = std::iter::once(None).chain(policies.iter().copied().map(Some)).map(job);
    Group { title: format!("schbench {title}"), jobs: jobs.collect() }
}

/// Measures.
///
/// # Errors
///
/// When the runtime cannot be built, or a thread cannot be started.
pub fn run(spec: &SchbenchSpec) -> anyhow::Result<Outcome> {
    let Some(policy) = &spec.policy else {
        return threads::run(&spec.flags, |work| {
            let thread = std::thread::Builder::new().spawn(work)?;
            Ok(Box::new(move || thread.join().is_ok()))
        });
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
