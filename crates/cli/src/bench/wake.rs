//! `quaver bench wake`: how late `sleep(1 ms)` returns while 1 to 4 threads compute on the only
//! worker.
//!
//! The hogs never yield, so the sleeper runs again when somebody preempts them, or when they end.
//! The process has one core, apart from the timer core where there is one. Time is time on the
//! wall: sleepers use none of the CPU.

use std::time::Duration;

use quaver_bench_common::{Spec, overshoot};

use super::context::{Context, Task};
use super::plan::{Group, Plan, Reading};
use super::settings::{CLOCKS, Settings, TICKLESS};

const QUANTUM_US: u64 = 50;
const SLEEP_US: u64 = 1000;

/// The jobs of this benchmark.
pub fn plan(context: &Context) -> Plan {
    let hogs = context.effort.pick(vec![1, 4], vec![1, 2, 3, 4]);
    let mut notes = vec!["wake: time on the wall beyond the length of the sleep".into()];
    if context.place.helper.is_none() {
        notes.push("wake: no timer core: that takes a second CPU".into());
    }
    Plan { groups: hogs.into_iter().map(|hogs| group(context, hogs)).collect(), notes }
}

fn group(context: &Context, hogs: u32) -> Group {
    let duration_ms = context.effort.pick(500, 3000);
    let spec = Spec::Wake { hogs, sleep_us: SLEEP_US, duration_ms };
    let beside = if hogs == 1 { "1 hog".to_owned() } else { format!("{hogs} hogs") };
    let quantiles = ["p50", "p90", "p99", "max"].into_iter().zip(overshoot::METRICS);
    let reading = |(name, metric)| Reading::new(format!("{beside} {name}"), metric, "us");
    let cpus = vec![context.place.worker];
    let task = Task {
        cpus: cpus.clone(),
        expected: Duration::from_millis(duration_ms),
        readings: quantiles.map(reading).collect(),
    };
    let helper = context.place.helper;
    let clocks = if helper.is_some() { &CLOCKS[..] } else { &TICKLESS };
    let mut jobs = Vec::new();
    for clock in clocks {
        let settings = Settings::preemptive(clock, QUANTUM_US, &cpus).timer_cpu(helper);
        // Only the timer core gets a second CPU.
        let tickless = TICKLESS.contains(clock);
        let task = Task {
            cpus: if tickless { cpus.clone() } else { context.place.both() },
            ..task.clone()
        };
        jobs.push(context.ours(&settings, &spec, &task));
    }
    jobs.extend(context.peers(&spec, &task));
    Group { title: format!("wake {beside}"), jobs }
}
