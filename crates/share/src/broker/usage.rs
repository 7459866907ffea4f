//! What an application uses, from the kernel. (Not from what it says of itself.)

use crate::procfs::{LINE, fields, line};
use crate::threads::threads;
use std::collections::HashMap;
use std::fs;
use std::time::Duration;

/// The process and those that it has started, and they, as far as they live.
pub(super) fn family(pid: i32) -> Vec<i32> {
    /// More are not looked for.
    const MOST: usize = 256;
    let mut all = vec![pid];
    let mut next = 0;
    while let Some(&pid) = all.get(next) {
        next += 1;
        for tid in threads(pid) {
            let children = fs::read_to_string(format!("/proc/{pid}/task/{tid}/children"));
            let children = children.unwrap_or_default();
            all.extend(children.split_whitespace().filter_map(|child| child.parse::<i32>().ok()));
        }
        if all.len() > MOST {
            all.truncate(MOST);
            break;
        }
    }
    all
}

/// One thread at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Thread {
    /// On a CPU, or waits for one.
    runnable: bool,
    cpu: usize,
    ran: Duration,
}

impl Thread {
    fn look(pid: i32, tid: i32) -> Option<Thread> {
        let (mut stat, mut schedstat) = ([0; LINE], [0; LINE]);
        let stat = line(format_args!("/proc/{pid}/task/{tid}/stat"), &mut stat)?;
        let schedstat = line(format_args!("/proc/{pid}/task/{tid}/schedstat"), &mut schedstat)?;
        let (runnable, cpu) = parse_stat(stat)?;
        let ran = str::from_utf8(schedstat).ok()?.split_whitespace().next()?.parse().ok()?;
        Some(Thread { runnable, cpu, ran: Duration::from_nanos(ran) })
    }
}

/// State and CPU of a thread, from its line in `stat`.
fn parse_stat(stat: &[u8]) -> Option<(bool, usize)> {
    let mut fields = fields(stat)?;
    let runnable = fields.next()? == "R";
    // The third field of all was the state; the CPU is the 39th.
    Some((runnable, fields.nth(35)?.parse().ok()?))
}

/// What an application has used of some CPUs.
#[derive(Debug, Default)]
pub(super) struct Usage {
    ran: HashMap<i32, Duration>,
    /// Since it was looked at first.
    pub(super) used: Duration,
    /// CPUs on which one of its threads ran or waited at the last look.
    pub(super) on: Vec<usize>,
    /// A thread wanted a CPU at the last look, or has used one since the look before.
    pub(super) wants: bool,
}

impl Usage {
    /// Looks at the threads of these processes; returns their numbers.
    pub(super) fn look(&mut self, processes: &[i32], cpus: &[usize]) -> Vec<i32> {
        let before = self.used;
        let first = self.ran.is_empty();
        let mut all = Vec::new();
        let mut ran = HashMap::new();
        self.on.clear();
        self.wants = false;
        for &pid in processes {
            for tid in threads(pid) {
                all.push(tid);
                let Some(thread) = Thread::look(pid, tid) else { continue };
                // What it had used before anybody looked is not counted.
                let start = if first { thread.ran } else { Duration::ZERO };
                let known = self.ran.get(&tid).copied().unwrap_or(start);
                if cpus.contains(&thread.cpu) {
                    self.used += thread.ran.saturating_sub(known);
                    if thread.runnable {
                        self.wants = true;
                        self.on.push(thread.cpu);
                    }
                }
                ran.insert(tid, thread.ran);
            }
        }
        self.wants |= self.used > before;
        self.ran = ran;
        all
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_stat_is_read_whatever_the_name() {
        let rest: String = (4..53).map(|n| format!(" {n}")).collect();
        let line = format!("12 (a) R (b) R{rest}");
        assert_eq!(parse_stat(line.as_bytes()), Some((true, 39)));
        let mut no_text = b"12 (\xff) S".to_vec();
        no_text.extend(rest.bytes());
        assert_eq!(parse_stat(&no_text), Some((false, 39)));
        assert_eq!(parse_stat(b"12 (x) S 1"), None);
        assert_eq!(parse_stat(b""), None);
    }

    #[test]
    fn this_process_uses_what_it_uses() {
        let pid = std::process::id() as i32;
        let all: Vec<usize> = (0..1024).collect();
        let mut usage = Usage::default();
        assert!(!usage.look(&[pid], &all).is_empty());
        assert_eq!(usage.used, Duration::ZERO);
        let before = used_here();
        while used_here() < before + Duration::from_millis(20) {}
        usage.look(&[pid], &all);
        assert!(usage.used >= Duration::from_millis(15), "{usage:?}");
        assert!(usage.wants && !usage.on.is_empty());
        // Other CPUs are not its affair.
        let mut elsewhere = Usage::default();
        elsewhere.look(&[pid], &[5000]);
        elsewhere.look(&[pid], &[5000]);
        assert_eq!(elsewhere.used, Duration::ZERO);
    }

    #[test]
    fn children_belong_to_the_family() {
        let mut child = std::process::Command::new("sleep").arg("100").spawn().unwrap();
        let family = family(std::process::id() as i32);
        assert!(family.contains(&(child.id() as i32)), "{family:?}");
        child.kill().unwrap();
        child.wait().unwrap();
    }

    fn used_here() -> Duration {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
    }
}
