//! Does the kernel take a CPU away from `SCHED_FIFO` threads that compute all the time?
//!
//! Linux before 6.12, and later ones with `CONFIG_RT_GROUP_SCHED`, lets all such threads of a CPU
//! together have 950 ms of each second, though nobody wants the rest. Were best-effort
//! applications among them, latency-critical ones would be stopped for 50 ms each second.
//!
//! Without that, a `SCHED_FIFO` thread loses its CPU to others only if there are any, which is why
//! the limit alone does not tell: newer kernels keep it for them.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};

/// In kernels that do it: their timer.
const TIMER: &[u8] = b"sched_rt_period_timer";

/// What is said where it does and `SCHED_FIFO` was asked for.
pub(super) const NOTE: &str = "this kernel stops SCHED_FIFO threads for a twentieth of each second \
    (kernel.sched_rt_runtime_us): choose `--binding nice`";

/// Does the kernel stop `SCHED_FIFO` threads that compute all the time for a part of each second?
/// `true` also where that cannot be found out. Reads files of /proc.
pub fn throttles_fifo() -> bool {
    let read = |name| fs::read_to_string(format!("/proc/sys/kernel/{name}")).ok();
    let limited = read("sched_rt_runtime_us").zip(read("sched_rt_period_us"));
    limited.is_some_and(|(runtime, period)| is_limited(&runtime, &period))
        && File::open("/proc/kallsyms").map_or(true, |file| has_timer(BufReader::new(file)))
}

/// Is there a limit below the whole? -1: none.
fn is_limited(runtime: &str, period: &str) -> bool {
    let number = |text: &str| text.trim().parse::<i64>().ok();
    match (number(runtime), number(period)) {
        (Some(runtime), Some(period)) => (0..period).contains(&runtime),
        _ => true,
    }
}

/// Is the timer among the kernel's symbols (`address type name`)?
fn has_timer(symbols: impl BufRead) -> bool {
    let name = |line: Vec<u8>| line.split(|&byte| byte == b' ').nth(2) == Some(TIMER);
    let mut any = false;
    for line in symbols.split(b'\n').map_while(Result::ok) {
        if name(line) {
            return true;
        }
        any = true;
    }
    // Not even names are shown.
    !any
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn no_limit_is_minus_one_or_the_whole() {
        assert!(is_limited("950000\n", "1000000\n") && is_limited("0", "1000000"));
        assert!(!is_limited("-1\n", "1000000\n") && !is_limited("1000000", "1000000"));
        assert!(is_limited("many", "1000000"), "unknown");
    }

    #[test]
    fn a_kernel_that_does_it_has_a_timer_for_it() {
        let has = |symbols: &str| has_timer(symbols.as_bytes());
        assert!(has("0000000000000000 t balance_rt\n0000000000000000 t sched_rt_period_timer\n"));
        assert!(!has("0000000000000000 t balance_rt\n0000000000000000 t __pfx_sched_rt_period\n"));
        assert!(has(""), "unknown");
    }
}
