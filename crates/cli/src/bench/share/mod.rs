//! `quaver bench share`: a latency-critical (LC) server beside a best-effort (BE) program on the
//! same CPU, by `quaver share` and by what the kernel offers. (Skyloft 5.2, Figs. 7b and 7c.)
//!
//! ```text
//!   CPU `client`                     CPU `worker`
//!   client: open loop, one class --> LC: one worker; each request computes for 1 or 10 us
//!                                    BE: computes, in pieces of half a microsecond
//! ```
//!
//! The broker of `quaver share` has a third CPU, or the client's where there are two.
//!
//! * *LC p99 ratio*: the 99th percentile of latency by that of *alone spinning* in the same round:
//!   nobody else there, and the worker never sleeps.
//! * *LC p99 ratio of a window*: the same for the p99 of 500 requests that follow one another, the
//!   median of all windows. A machine's own stops spoil single windows.
//! * *BE share*: what the BE has computed, by what it would have computed alone in the time that
//!   the requests themselves have left. So everything counts that sharing takes: switches, system
//!   calls, caches, and a worker that spins.
//!
//! All variants serve the same requests in the same way; they differ in how the worker waits and in
//! the classes of both. `critical` is the server, `best_effort` the program, `run` brings them
//! together.

mod best_effort;
mod critical;
mod floor;
mod frozen;
mod page;
mod run;
mod switch;
mod windows;

use std::path::PathBuf;
use std::time::Duration;

use quaver_bench_common::Outcome;
use quaver_share::broker;
use quaver_share::class::Class;
use serde::{Deserialize, Serialize};

use super::child::Work;
use super::context::{Context, Task};
use super::plan::{Aim, Bound, Group, Job, Plan, Reading};

pub use best_effort::{BestEffortSpec, run as run_best_effort};
pub use floor::{FloorSpec, run as run_floor};
pub use frozen::{FrozenSpec, run as run_frozen};
pub use switch::{SwitchSpec, run as run_switch};

/// What latency is compared with.
const REFERENCE: Variant = Variant::AloneSpinning;
/// What its 99th percentile should come to by that, where requests take 10 us.
const AIM: f64 = 1.15;
/// Lengths of requests.
const SERVICES_US: [u64; 2] = [10, 1];

/// How two applications come to share a CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Variant {
    /// No BE; the worker spins.
    AloneSpinning,
    /// No BE; the worker sleeps where it has nothing to do.
    AloneBlocking,
    /// By a broker; the BE looks at bells.
    Probed,
    /// By a broker; the BE knows nothing of it.
    Plain,
    /// The kernel's usual class for both.
    Eevdf,
    /// The same with slices of 100 us.
    Slices,
    /// Nice -20 over nice 19.
    Nice,
    /// The usual class over `SCHED_IDLE`.
    Idle,
    /// `SCHED_FIFO` for both.
    Fifo,
    /// A CPU for each.
    Split,
}

impl Variant {
    const ALL: [Variant; 10] = [
        Variant::AloneSpinning,
        Variant::AloneBlocking,
        Variant::Probed,
        Variant::Plain,
        Variant::Eevdf,
        Variant::Slices,
        Variant::Nice,
        Variant::Idle,
        Variant::Fifo,
        Variant::Split,
    ];

    fn name(self) -> &'static str {
        match self {
            Variant::AloneSpinning => "alone spinning",
            Variant::AloneBlocking => "alone blocking",
            Variant::Probed => "quaver probed",
            Variant::Plain => "quaver plain",
            Variant::Eevdf => "EEVDF",
            Variant::Slices => "EEVDF 100 us slices",
            Variant::Nice => "nice",
            Variant::Idle => "SCHED_IDLE",
            Variant::Fifo => "FIFO over FIFO",
            Variant::Split => "cores split",
        }
    }

    /// Where both are members of a broker.
    fn is_shared(self) -> bool {
        matches!(self, Variant::Probed | Variant::Plain)
    }

    fn has_best_effort(self) -> bool {
        !matches!(self, Variant::AloneSpinning | Variant::AloneBlocking)
    }

    /// The classes of LC and BE where no broker gives them.
    fn classes(self) -> (Class, Class) {
        let usual = Class::Other(0);
        match self {
            Variant::Nice => (Class::Other(-20), Class::Other(19)),
            Variant::Idle => (usual, Class::Idle),
            Variant::Fifo => (Class::Fifo(3), Class::Fifo(1)),
            _ => (usual, usual),
        }
    }
}

/// The work of one child.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ShareSpec {
    variant: Variant,
    service_us: u64,
    load_percent: u32,
    span_ms: u64,
    worker: usize,
    client: usize,
    /// Of [`Variant::Split`]: the BE's CPU.
    other: Option<usize>,
    /// The broker's, if there is one.
    broker: usize,
    /// Where the broker's socket and the BE's page may be.
    folder: PathBuf,
}

/// The jobs of this benchmark.
///
/// # Errors
///
/// There is no place for temporary files.
pub fn plan(context: &Context) -> anyhow::Result<Plan> {
    let mut plan = Plan::default();
    plan.groups.push(switch::group(context));
    frozen::add(context, &mut plan)?;
    let Some(client) = context.place.helper else {
        plan.notes.push("share: left out: it takes a second CPU, for the client".into());
        return Ok(plan);
    };
    plan.groups.push(floor::group(context, client));
    plan.notes.push(
        "share: latency from the intended time; BE share: work done by the work that it would \
         have done alone in the time that requests leave"
            .into(),
    );
    if other(context).is_none() {
        plan.notes.push("share cores split: left out: it takes a third CPU, for the BE".into());
    }
    if broker::throttles_fifo() {
        plan.notes.push(format!(
            "share {}: this kernel stops SCHED_FIFO threads for a part of each second \
             (kernel.sched_rt_runtime_us), also those of LC",
            Variant::Fifo.name()
        ));
    }
    for service_us in SERVICES_US {
        for &load in context.effort.pick(&[5, 20, 50][..], &[5, 20, 50, 80][..]) {
            plan.groups.push(group(context, service_us, load)?);
        }
    }
    Ok(plan)
}

/// A CPU that neither worker nor client uses.
fn other(context: &Context) -> Option<usize> {
    let place = &context.place;
    place.all.iter().copied().find(|&cpu| cpu != place.worker && Some(cpu) != place.helper)
}

/// A row of times: `what` is `p50` or the like.
fn percentile_row(row: &str, what: &str) -> Reading {
    Reading::new(format!("{row}, {what}"), format!("{what}_us"), "us")
}

/// In which time this part of them was over, in microseconds; they are sorted, in nanoseconds.
fn percentile_us(sorted: &[u64], part: f64) -> f64 {
    sorted[((sorted.len() - 1) as f64 * part) as usize] as f64 / 1e3
}

fn implementation(variant: Variant, service_us: u64) -> String {
    format!("{} ({service_us} us)", variant.name())
}

fn group(context: &Context, service_us: u64, load: u32) -> anyhow::Result<Group> {
    let other = other(context);
    let variants = Variant::ALL.into_iter().filter(|v| *v != Variant::Split || other.is_some());
    let jobs = variants.map(|variant| job(context, variant, service_us, load));
    let jobs = jobs.collect::<anyhow::Result<Vec<_>>>()?;
    Ok(Group { title: format!("share {service_us} us, load {load} %"), jobs })
}

fn job(context: &Context, variant: Variant, service_us: u64, load: u32) -> anyhow::Result<Job> {
    let (place, other) = (&context.place, other(context));
    let span_ms = context.effort.pick(250, 2_000);
    let reading = |what: &str, metric: &str, unit| {
        Reading::new(format!("{what}, load {load} %"), metric, unit)
    };
    let mut readings = vec![
        reading("LC p50", "p50_us", "us"),
        reading("LC p99", "p99_us", "us"),
        reading("LC p99 of a window", "window_p99_us", "us"),
    ];
    if variant.has_best_effort() {
        readings.push(reading("BE share", "be_share_percent", "%"));
    }
    if variant.is_shared() {
        readings.push(reading("parks a second", "parks_per_s", ""));
        readings.push(reading("answered at a look", "answered_percent", "%"));
    }
    let client = place.helper.unwrap_or(place.worker);
    let spec = ShareSpec {
        variant,
        service_us,
        load_percent: load,
        span_ms,
        worker: place.worker,
        client,
        other: other.filter(|_| variant == Variant::Split),
        broker: other.unwrap_or(client),
        folder: context.folder()?.to_owned(),
    };
    let mut cpus = place.both();
    cpus.extend(other.filter(|_| variant == Variant::Split || variant.is_shared()));
    let task = Task { cpus, expected: Duration::from_millis(2 * span_ms + 1_000), readings };
    let name = implementation(variant, service_us);
    let mut job = task.job(name, context.child(&Work::Share(spec)));
    if variant != REFERENCE {
        let ours = variant.is_shared() && service_us == SERVICES_US[0];
        let bound = Bound::AtMost(if ours { AIM } else { f64::INFINITY });
        let against = [implementation(REFERENCE, service_us)];
        let ratios = [("LC p99 ratio", "p99_us"), ("LC p99 ratio of a window", "window_p99_us")];
        for (what, metric) in ratios {
            job.aims.push(Aim::new(format!("{what}, load {load} %"), metric, bound, &against));
        }
    }
    Ok(job)
}

/// Measures.
///
/// # Errors
///
/// No broker or program can be started, or nothing was served in time.
pub fn run(spec: &ShareSpec) -> anyhow::Result<Outcome> {
    run::run(spec)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variants_have_names_of_their_own_and_ours_are_ours() {
        let names = Variant::ALL.map(|variant| implementation(variant, 1));
        for (i, name) in names.iter().enumerate() {
            assert!(!names[..i].contains(name), "{name}");
            assert_eq!(name.starts_with("quaver"), Variant::ALL[i].is_shared());
        }
    }

    #[test]
    fn latency_critical_is_never_below_best_effort() {
        for variant in Variant::ALL.into_iter().filter(|v| v.has_best_effort()) {
            let (critical, best_effort) = variant.classes();
            // Of nice values the lower one is the higher rank.
            match (critical, best_effort) {
                (Class::Other(critical), Class::Other(other)) => assert!(critical <= other),
                (critical, other) => assert!(critical > other, "{variant:?}"),
            }
        }
    }
}
