//! Which process is meant, and whether it lives.

use crate::procfs::{LINE, fields, line};

/// Bits of a name: the process's number, when it began, and which program it is.
const NUMBER: u64 = (1 << 22) - 1;
const PROGRAM: u64 = !((1 << 44) - 1);

/// Names a program in a process for as long as the machine runs: what a process becomes by `exec`
/// is another one. `None`: there is no process of this number, or it runs no more.
pub(super) fn of(pid: u32) -> Option<u64> {
    stat(pid).map(|stat| stat.name(pid))
}

fn stat(pid: u32) -> Option<Stat> {
    parse(line(format_args!("/proc/{pid}/stat"), &mut [0; LINE])?)
}

/// The process of a name.
pub(super) fn pid_of(who: u64) -> u32 {
    (who & NUMBER) as u32
}

/// Whether a program that [`of`] has named still runs.
pub(super) fn look(who: u64) -> Life {
    let pid = pid_of(who);
    let Some(stat) = stat(pid) else { return Life::Ended };
    let now = stat.name(pid);
    // Of some processes the kernel does not say it.
    let known = if now & PROGRAM == 0 { !PROGRAM } else { !0 };
    match (now ^ who) & known {
        0 if stat.stopped => Life::Stopped,
        0 => Life::Runs,
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

/// What the kernel says of a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Stat {
    begun: u64,
    stopped: bool,
    /// Where its first stack is, at an address that is random for each program; 0: not said.
    stack: u64,
}

impl Stat {
    fn name(&self, pid: u32) -> u64 {
        // Mixed, so that 20 bits tell them apart.
        let program = (self.stack >> 4).wrapping_mul(0x9e37_79b9_7f4a_7c15) & PROGRAM;
        let program = if self.stack != 0 && program == 0 { PROGRAM } else { program };
        program | (self.begun << 22 & !PROGRAM & !NUMBER) | u64::from(pid) & NUMBER
    }
}

/// `None`: the process of this line has ended, which is when its last thread has.
fn parse(stat: &[u8]) -> Option<Stat> {
    // The third field of all is the state, the 20th the number of threads, the 22nd the beginning,
    // the 28th the stack.
    let mut fields = fields(stat)?;
    let state = fields.next()?;
    let threads: u32 = fields.nth(16)?.parse().ok()?;
    let begun: u64 = fields.nth(1)?.parse().ok()?;
    let stack: u64 = fields.nth(5)?.parse().ok()?;
    let ended = matches!(state, "Z" | "X" | "x") && threads <= 1;
    (!ended).then_some(Stat { begun, stopped: state == "T", stack })
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::heap;
    use super::*;
    use std::io::{Read, Write};
    use std::process::{Child, Command, Stdio};

    /// A shell that becomes `cat` after a line of input. A process that is still about to become a
    /// program has no settled name, so each says a line first: [`told`].
    fn shell() -> Child {
        let mut command = Command::new("sh");
        command.args(["-c", "echo; read line; (sleep 0.01; echo) & exec cat"]);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("starts");
        told(&mut child);
        child
    }

    /// Waits for the next line of a child's.
    fn told(child: &mut Child) {
        let read = child.stdout.as_mut().expect("piped").read_exact(&mut [0]);
        read.expect("it says a line");
    }

    #[test]
    fn processes_are_told_apart() {
        let own = of(std::process::id()).expect("this one runs");
        let both = heap::unused(|| (look(own), look(own ^ 1 << 40)));
        assert_eq!(both, (Life::Runs, Life::Ended));
        assert_eq!((look(own ^ 1 << 50), pid_of(own)), (Life::Ended, std::process::id()));
        let mut child = shell();
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
    fn a_program_ends_when_its_process_becomes_another() {
        let mut child = shell();
        let shell = of(child.id()).expect("it runs");
        assert_eq!(look(shell), Life::Runs);
        child.stdin.as_mut().expect("piped").write_all(b"\n").expect("it reads");
        while look(shell) != Life::Ended {
            std::thread::yield_now();
        }
        told(&mut child);
        let cat = of(child.id()).expect("it runs");
        assert_eq!((look(cat), pid_of(cat)), (Life::Runs, child.id()));
        child.kill().expect("it runs");
        child.wait().expect("it has ended");
    }

    #[test]
    fn a_name_may_contain_anything() {
        let line = |state: &str, threads: u32| {
            let begun = format!("20 0 {threads} 0 4711 0");
            let rest = format!("{state} 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 {begun} 0 0 0 0 99 0");
            [b"7 (a\xff) Z 1) ", rest.as_bytes()].concat()
        };
        let runs = Stat { begun: 4711, stopped: false, stack: 99 };
        assert_eq!(parse(&line("S", 1)), Some(runs));
        assert_eq!(parse(&line("T", 2)), Some(Stat { stopped: true, ..runs }));
        assert_eq!(parse(&line("Z", 3)), Some(runs), "its other threads run");
        assert_eq!(parse(&line("Z", 1)), None);
        assert_eq!(parse(b""), None);
    }
}
