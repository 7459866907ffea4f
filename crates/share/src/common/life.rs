//! Which process is meant, and whether it lives.

use std::fs;

/// Names a process for as long as the machine runs: its number, and when it began. `None`: there is
/// none of this number, or it runs no more.
pub(super) fn of(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (begun, _) = parse(&stat)?;
    Some(begun << 32 | u64::from(pid))
}

/// Whether a process that [`of`] has named still runs.
pub(super) fn look(who: u64) -> Life {
    let stat = fs::read_to_string(format!("/proc/{}/stat", who as u32));
    match stat.ok().as_deref().and_then(parse) {
        Some((begun, stopped)) if begun << 32 | who & 0xffff_ffff == who => {
            if stopped {
                Life::Stopped
            } else {
                Life::Runs
            }
        }
        _ => Life::Ended,
    }
}

/// How a process does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Life {
    Runs,
    /// By `SIGSTOP`: all its threads.
    Stopped,
    Ended,
}

/// When the process of this line began, and whether it is stopped; `None` if it has ended, which is
/// when its last thread has.
fn parse(stat: &str) -> Option<(u64, bool)> {
    let (_, rest) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    // The third field of all is the state, the 20th the number of threads, the 22nd the beginning.
    let threads: u32 = fields.get(17)?.parse().ok()?;
    let ended = matches!(*fields.first()?, "Z" | "X" | "x") && threads <= 1;
    let begun: u64 = fields.get(19)?.parse().ok()?;
    let stopped = *fields.first()? == "T";
    (!ended).then_some((begun, stopped))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn processes_are_told_apart() {
        let own = of(std::process::id()).expect("this one runs");
        assert_eq!((look(own), look(own ^ 1 << 40)), (Life::Runs, Life::Ended));
        let mut child = Command::new("sleep").arg("100").spawn().expect("starts");
        let who = of(child.id()).expect("it runs");
        let until = |life| {
            while look(who) != life {
                std::thread::yield_now();
            }
        };
        until(Life::Runs);
        let signal = |signal| {
            // SAFETY: no memory is involved; the child has not been waited for.
            unsafe { libc::kill(child.id() as i32, signal) }
        };
        signal(libc::SIGSTOP);
        until(Life::Stopped);
        signal(libc::SIGCONT);
        until(Life::Runs);
        signal(libc::SIGKILL);
        until(Life::Ended);
        child.wait().expect("it has ended");
        assert!(look(who) == Life::Ended && of(0).is_none());
    }

    #[test]
    fn a_name_may_contain_anything() {
        let line = |state: &str, threads: u32| {
            format!("7 (a) Z 1) {state} 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 {threads} 0 4711 0")
        };
        assert_eq!(parse(&line("S", 1)), Some((4711, false)));
        assert_eq!(parse(&line("T", 2)), Some((4711, true)));
        assert_eq!(parse(&line("Z", 3)), Some((4711, false)), "its other threads run");
        assert_eq!(parse(&line("Z", 1)), None);
        assert_eq!(parse(""), None);
    }
}
