//! The operations in Quaver: what a child of `quaver bench` does, in a runtime with the settings
//! that it was given.
//!
//! The counterpart of each file is in `bench/peers` and `bench/go`; the terms are those of [`Op`]
//! and [`Spec`].

mod kv;
mod ops;
mod parked;
mod wake;

use anyhow::bail;
use quaver_bench_common::{Op, Outcome, Spec, measure};

use super::settings::Settings;

/// Does what `spec` asks.
///
/// # Errors
///
/// When the runtime cannot be built, or there is no such measurement.
pub fn run(settings: &Settings, spec: &Spec) -> anyhow::Result<Outcome> {
    if let Spec::Kv(spec) = spec {
        return kv::run(settings, spec);
    }
    let runtime = settings.build()?;
    runtime.run(|| match *spec {
        Spec::Ops { op, budget } => {
            Ok(measure(budget, op.per_iteration(), |n| ops::iterate(op, n)).into())
        }
        Spec::Wake { hogs, sleep_us, duration_ms } => {
            Ok(wake::run(hogs, sleep_us, duration_ms).into())
        }
        Spec::Parked { threads } => Ok(parked::run(threads).into()),
        Spec::Throughput { op: op @ (Op::Yield | Op::SpawnJoin), workers, budget } => {
            let per_iteration = op.per_iteration() * u64::from(workers);
            Ok(measure(budget, per_iteration, |n| ops::everywhere(op, n, workers)).into())
        }
        Spec::Throughput { op, .. } => bail!("no throughput of {}", op.name()),
        Spec::Kv(_) => unreachable!("it was dealt with above"),
        Spec::Serve(_) | Spec::Answer(_) => bail!("servers have a task of their own"),
    })
}
