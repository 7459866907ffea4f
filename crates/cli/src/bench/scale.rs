//! `quaver bench scale`: memory and time of very many threads that wait, and operations with
//! several workers.
//!
//! *Parked*: a number of threads is spawned on one worker, each waits (for a semaphore, a channel,
//! a condition variable, whatever is usual), then all are woken and joined. Memory is resident
//! memory, page tables included, per thread when all wait. Times are on the wall: most of them are
//! page faults, and the kernel's part counts.
//!
//! *Throughput*: with w workers on w cores, w independent loops of yields or of spawn and join;
//! time on the wall for one operation of all together, so perfect scaling divides it by w.

use std::fs;
use std::time::Duration;

use quaver_bench_common::outcome::WALL_NS_PER_OP;
use quaver_bench_common::parked::{self, METRICS};
use quaver_bench_common::{Budget, Op, Spec};

use super::context::{Context, Task};
use super::plan::{Group, Plan, Reading};
use super::settings::{Settings, TICKLESS};

const QUANTUM_US: u64 = 50;

/// What a thread takes at most, for the decision whether so many fit: ours (two pages of stack, TLS
/// block and control block; page tables, and the kernel's record of the mapping).
const BYTES: u64 = 11 * 1024;

/// As many kernel threads at most: their stacks in the kernel are in no statistics, and the kernel
/// limits their number.
const KERNEL_THREADS: u64 = 10_000;

/// The jobs of this benchmark.
pub fn plan(context: &Context) -> Plan {
    let mut plan = Plan::default();
    let numbers = context.effort.pick(vec![1_000, 10_000], vec![10_000, 100_000, 1_000_000]);
    let available = available_bytes();
    for threads in numbers {
        match lack(threads, available) {
            Some(note) => plan.notes.push(note),
            None => plan.groups.push(parked_group(context, threads)),
        }
    }
    for op in [Op::Yield, Op::SpawnJoin] {
        let powers = std::iter::successors(Some(1), |workers| Some(workers * 2));
        let all = context.place.all.len();
        // 1, 2, 4, ... and all.
        for workers in powers.take_while(|&workers| workers < all).chain([all]) {
            plan.groups.push(throughput_group(context, op, workers));
        }
    }
    plan.notes.push("scale: time on the wall".into());
    plan
}

/// Memory that could be used without swapping, as the kernel estimates it.
fn available_bytes() -> Option<u64> {
    parked::field(&fs::read_to_string("/proc/meminfo").ok()?, "MemAvailable:")
}

/// A note when `threads` do not fit into half of what is available. Unknown is enough.
fn lack(threads: u64, available: Option<u64>) -> Option<String> {
    let (need, available) = (threads * BYTES, available?);
    (need > available / 2).then(|| {
        let gib = |bytes: u64| bytes as f64 / f64::from(1 << 30);
        let (need, available) = (gib(need), gib(available));
        format!(
            "scale: {threads} parked threads left out: they may take {need:.1} GiB, and no more \
             than half of the {available:.1} GiB available is used"
        )
    })
}

fn parked_group(context: &Context, threads: u64) -> Group {
    let spec = Spec::Parked { threads };
    let cpus = vec![context.place.worker];
    let units = ["bytes", "ns", "ns"];
    let names = ["memory of a thread", "spawn and park", "wake and join"];
    let readings = names.into_iter().zip(METRICS).zip(units);
    let task = Task {
        cpus: cpus.clone(),
        // 20 µs a thread is what kernel threads take.
        expected: Duration::from_micros(20 * threads),
        readings: readings
            .map(|((name, metric), unit)| {
                Reading::new(format!("{threads} parked: {name}"), metric, unit)
            })
            .collect(),
    };
    let settings = Settings::preemptive(TICKLESS[0], QUANTUM_US, &cpus);
    let small = Settings { small_stacks: true, ..settings };
    let mut jobs = vec![context.ours(&small, &spec, &task)];
    jobs.extend(context.peers_if(&spec, &task, |name| match name {
        "may" => false,
        "pthread" => threads <= KERNEL_THREADS,
        _ => true,
    }));
    Group { title: format!("scale {threads} parked"), jobs }
}

fn throughput_group(context: &Context, op: Op, workers: usize) -> Group {
    let budget = context
        .effort
        .pick(Budget { warmup_ms: 10, measure_ms: 50 }, Budget { warmup_ms: 50, measure_ms: 300 });
    let spec = Spec::Throughput { op, workers: workers as u32, budget };
    let cpus = context.place.all[..workers].to_vec();
    let task = Task {
        cpus: cpus.clone(),
        expected: budget.duration(),
        readings: vec![Reading::new(
            format!("{} with {workers} workers", op.name()),
            WALL_NS_PER_OP,
            "ns",
        )],
    };
    let settings = Settings::preemptive(TICKLESS[0], QUANTUM_US, &cpus);
    let mut jobs = vec![context.ours(&settings, &spec, &task)];
    // The one has one thread only; the other is compared in ops and wake.
    let several = |name: &str| !["tokio-current-thread", "may"].contains(&name);
    jobs.extend(context.peers_if(&spec, &task, several));
    Group { title: format!("scale {} x{workers}", op.name()), jobs }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_said() {
        assert_eq!(lack(1_000_000, Some(100 << 30)), None);
        assert_eq!(lack(1_000_000, None), None);
        let note = lack(1_000_000, Some(10 << 30)).unwrap();
        assert!(note.contains("1000000 parked") && note.contains("10.5 GiB"), "{note}");
        assert!(note.contains("10.0 GiB"), "{note}");
    }
}
