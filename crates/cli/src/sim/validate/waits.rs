//! For how long the kernel let others run in place of the worker.

use std::fs;

use serde::Serialize;

/// Waits of the workers' kernel threads for a CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Waits {
    /// How often such a thread was taken off its CPU although it had something to do.
    pub count: u64,
    /// All waits together, in nanoseconds: also those after a sleep.
    pub total_ns: u64,
}

impl Waits {
    /// Since the process started. What cannot be read counts as none.
    pub fn now() -> Waits {
        let tasks = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
        let all = tasks.filter_map(|task| {
            let read = |file: &str| fs::read_to_string(task.path().join(file)).ok();
            let name = read("comm")?;
            let is_worker = name.trim_end() == "quaver-0" || name.trim_end() == "quaver-spare";
            is_worker.then(|| Waits::parse(&read("schedstat")?, &read("status")?))?
        });
        all.fold(Waits::default(), |sum, one| Waits {
            count: sum.count + one.count,
            total_ns: sum.total_ns + one.total_ns,
        })
    }

    /// Of the files `schedstat` and `status` of a task.
    fn parse(schedstat: &str, status: &str) -> Option<Waits> {
        let switches =
            status.lines().find_map(|line| line.strip_prefix("nonvoluntary_ctxt_switches:"))?;
        Some(Waits {
            count: switches.trim().parse().ok()?,
            total_ns: schedstat.split_whitespace().nth(1)?.parse().ok()?,
        })
    }

    /// What came after `earlier`.
    pub fn since(self, earlier: Waits) -> Waits {
        Waits {
            count: self.count.saturating_sub(earlier.count),
            total_ns: self.total_ns.saturating_sub(earlier.total_ns),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_are_read() {
        let status = "Name:\tx\nvoluntary_ctxt_switches:\t7\nnonvoluntary_ctxt_switches:\t3\n";
        let waits = Waits { count: 3, total_ns: 20 };
        assert_eq!(Waits::parse("1000 20 5\n", status), Some(waits));
        assert_eq!(Waits::parse("1000\n", status), None);
        assert_eq!(waits.since(Waits { count: 1, total_ns: 5 }), Waits { count: 2, total_ns: 15 });
    }
}
