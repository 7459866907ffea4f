//! On which CPUs the runtime's kernel threads run.

use crate::support::{Setup, setup::with_runtime, until};
use quaver::Clock;
use std::fs;
use std::path::Path;

/// The CPUs in the line `Cpus_allowed_list: 0-2,4` of a task's status; nothing if it has ended.
fn allowed(task: &Path) -> Option<Vec<usize>> {
    let status = fs::read_to_string(task.join("status")).ok()?;
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        first.parse::<usize>().unwrap()..=last.parse().unwrap()
    };
    Some(list.trim().split(',').flat_map(range).collect())
}

/// Waits until the runtime's clock is confined to these CPUs. Another clock, of an earlier runtime,
/// may be ending.
fn until_clock_may_use(wanted: &[usize]) {
    let is_it = |task: &Path| {
        fs::read_to_string(task.join("comm")).is_ok_and(|name| name == "quaver-clock\n")
            && allowed(task).is_some_and(|cpus| cpus == wanted)
    };
    until(
        || fs::read_dir("/proc/self/task").unwrap().any(|task| is_it(&task.unwrap().path())),
        |_| std::thread::yield_now(),
    );
}

#[test]
fn a_clock_stays_off_the_cpus_of_pinned_workers() {
    let cpus = allowed(Path::new("/proc/self")).unwrap();
    let (worker, others) = cpus.split_last().unwrap();
    // A clock that has no other CPU runs where it can.
    let others = if others.is_empty() { &cpus } else { others };
    for clock in [Clock::TimerThread, Clock::TimerCore] {
        let builder = Setup::clocks(1)[0].builder().clock(clock);
        with_runtime(builder.clone().cpus(vec![*worker]), |_| until_clock_may_use(others));
        with_runtime(builder.clone(), |_| until_clock_may_use(&cpus));
        with_runtime(builder.cpus(vec![*worker]).timer_cpu(Some(*worker)), |_| {
            until_clock_may_use(&[*worker]);
        });
    }
}
