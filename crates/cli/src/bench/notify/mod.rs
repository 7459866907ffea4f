//! `quaver bench notify`: what it costs to tell another core something, and to be told (Skyloft,
//! Table 6; xUI, Fig. 6).
//!
//! The receiver spins on the worker's core and looks at the time stamp counter; what a notification
//! takes of it is the gap that it sees.
//!
//! * *send*: the time that the sender needs. `membarrier` waits until the other core has answered.
//! * *receive*: the time that the receiver's program loses.
//! * *delivery*: from before the sending to the handler's first instructions.
//! * *workers at 5 us*: how many workers one timer core could interrupt each 5 us, by *send*.
//! * *cpu at 25 us*: what a timer core uses of itself to know the time each 25 us, from the kernel
//!   or by spinning; with *user IPI* it tells one receiver each time. *kept* is how many of the
//!   expiries came in time.
//! * *section*: entering and leaving a section that is not to be interrupted.

mod measure;
mod timer_core;
mod user;

use std::time::Duration;

use quaver::platform;
use quaver_bench_common::Outcome;
use serde::{Deserialize, Serialize};

use super::child::Work;
use super::context::{Context, Task};
use super::plan::{Group, Plan, Reading};

/// The work of one child.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct NotifySpec {
    how: How,
    /// The receiver's core, and the sender's.
    cpus: Vec<usize>,
    count: u64,
}

/// How a core is told.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum How {
    Signal,
    KernelIpi,
    UserIpi,
    Setitimer,
    UserTimer,
    TimerCore { source: Source, tells: bool },
    Gate,
    Mask,
    CluiStui,
}

/// Where a timer core has the time from.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Source {
    Setitimer,
    Nanosleep,
    Spinning,
}

/// What a paper has measured, in cycles of its processor at 2 GHz.
struct Published {
    how: &'static str,
    what: &'static str,
    cycles: f64,
    source: &'static str,
}

const fn published(
    how: &'static str,
    what: &'static str,
    cycles: f64,
    source: &'static str,
) -> Published {
    Published { how, what, cycles, source }
}

const SKYLOFT: &str = "Skyloft, Table 6";
const XUI: &str = "xUI, Table 2";
const ASPEN: &str = "Aspen, 3.1.2";
const GHZ: f64 = 2.0;

const PUBLISHED: &[Published] = &[
    published("signal", "send", 1224.0, SKYLOFT),
    published("signal", "receive", 6359.0, SKYLOFT),
    published("signal", "delivery", 5274.0, SKYLOFT),
    published("kernel IPI", "send", 437.0, SKYLOFT),
    published("kernel IPI", "receive", 1582.0, SKYLOFT),
    published("kernel IPI", "delivery", 1345.0, SKYLOFT),
    published("user IPI", "send", 167.0, SKYLOFT),
    published("user IPI", "receive", 661.0, SKYLOFT),
    published("user IPI", "delivery", 1211.0, SKYLOFT),
    published("user IPI", "send", 383.0, XUI),
    published("user IPI", "receive", 720.0, XUI),
    published("user IPI", "delivery", 1360.0, XUI),
    published("setitimer", "receive", 5057.0, SKYLOFT),
    published("user timer", "receive", 642.0, SKYLOFT),
    published("clui+stui", "section", 34.0, XUI),
    published("clui+stui", "section", 36.0, ASPEN),
    published("signal mask", "section", 1200.0, ASPEN),
];

const fn timer_core(source: Source, tells: bool) -> How {
    How::TimerCore { source, tells }
}

impl How {
    const ALL: [How; 14] = [
        How::Signal,
        How::KernelIpi,
        How::UserIpi,
        How::Setitimer,
        How::UserTimer,
        timer_core(Source::Setitimer, false),
        timer_core(Source::Nanosleep, false),
        timer_core(Source::Spinning, false),
        timer_core(Source::Setitimer, true),
        timer_core(Source::Nanosleep, true),
        timer_core(Source::Spinning, true),
        How::Gate,
        How::Mask,
        How::CluiStui,
    ];

    fn name(self) -> &'static str {
        use Source::*;
        match self {
            How::Signal => "signal",
            How::KernelIpi => "kernel IPI",
            How::UserIpi => "user IPI",
            How::Setitimer => "setitimer",
            How::UserTimer => "user timer",
            How::TimerCore { source: Setitimer, tells: false } => "setitimer core",
            How::TimerCore { source: Nanosleep, tells: false } => "nanosleep core",
            How::TimerCore { source: Spinning, tells: false } => "spinning core",
            How::TimerCore { source: Setitimer, tells: true } => "setitimer core, user IPI",
            How::TimerCore { source: Nanosleep, tells: true } => "nanosleep core, user IPI",
            How::TimerCore { source: Spinning, tells: true } => "spinning core, user IPI",
            How::Gate => "quaver gate",
            How::Mask => "signal mask",
            How::CluiStui => "clui+stui",
        }
    }

    /// Rows, metrics and their units.
    fn readings(self) -> &'static [(&'static str, &'static str, &'static str)] {
        const SEND: (&str, &str, &str) = ("send", "send_ns", "ns");
        const RECEIVE: (&str, &str, &str) = ("receive", "receive_ns", "ns");
        const DELIVERY: (&str, &str, &str) = ("delivery", "delivery_ns", "ns");
        const WORKERS: (&str, &str, &str) = ("workers at 5 us", "workers", "");
        match self {
            How::Signal | How::UserIpi => &[SEND, RECEIVE, DELIVERY, WORKERS],
            How::KernelIpi => &[SEND, RECEIVE],
            How::Setitimer | How::UserTimer => &[RECEIVE],
            How::TimerCore { .. } => timer_core::READINGS,
            How::Gate | How::Mask | How::CluiStui => &[("section", "section_ns", "ns")],
        }
    }

    /// Why it cannot be measured here.
    fn missing(self, context: &Context, interrupts: &platform::UserInterrupts) -> Option<String> {
        let second = context.place.helper.is_some();
        match self {
            How::UserIpi | How::UserTimer | How::TimerCore { tells: true, .. } | How::CluiStui
                if !interrupts.usable =>
            {
                Some(interrupts.why.clone())
            }
            How::Signal | How::KernelIpi | How::UserIpi | How::TimerCore { tells: true, .. }
                if !second =>
            {
                Some("it takes a second CPU".into())
            }
            _ => None,
        }
    }
}

/// The jobs of this benchmark.
pub fn plan(context: &Context) -> Plan {
    let interrupts = platform::user_interrupts();
    let place = &context.place;
    let mut notes: Vec<String> = Vec::new();
    let mut jobs = Vec::new();
    for how in How::ALL {
        if let Some(why) = how.missing(context, &interrupts) {
            notes.push(format!("notify {}: not on this machine: {why}", how.name()));
            continue;
        }
        let reading = |&(row, metric, unit): &(&str, &str, &'static str)| {
            Reading::new(format!("notify {row}"), metric, unit)
        };
        let task = Task {
            cpus: place.both(),
            expected: Duration::from_secs(2),
            readings: how.readings().iter().map(reading).collect(),
        };
        let cpus = [Some(place.worker), place.helper].into_iter().flatten().collect();
        let count = context.effort.pick(500, 5_000);
        let work = Work::Notify(NotifySpec { how, cpus, count });
        jobs.push(task.job(how.name(), context.child(&work)));
    }
    notes.extend(PUBLISHED.iter().map(|p| {
        let ns = p.cycles / GHZ;
        format!(
            "notify {} {}: {ns} ns ({} cycles at {GHZ} GHz; {})",
            p.how, p.what, p.cycles, p.source
        )
    }));
    Plan { groups: vec![Group { title: "notify".into(), jobs }], notes }
}

/// Measures.
///
/// # Errors
///
/// The kernel's, and when no second core was given.
pub fn run(spec: &NotifySpec) -> anyhow::Result<Outcome> {
    measure::run(spec)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_measured_has_a_published_value_and_no_value_comes_twice() {
        let ours = |how: &How| matches!(how, How::Gate | How::TimerCore { .. });
        for how in How::ALL.into_iter().filter(|how| !ours(how)) {
            let mut rows = how.readings().iter().filter(|(row, ..)| !row.starts_with("workers"));
            let known = |row: &str| PUBLISHED.iter().any(|p| (p.how, p.what) == (how.name(), row));
            assert!(rows.all(|(row, ..)| known(row)), "{}", how.name());
        }
        let keys = || PUBLISHED.iter().map(|p| (p.how, p.what, p.source));
        assert!(keys().all(|key| keys().filter(|other| *other == key).count() == 1));
    }
}
