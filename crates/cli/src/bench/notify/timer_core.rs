//! A core that tells others the time (xUI, Fig. 6): what it uses of itself to know it.
//!
//! It is the time of its thread, as the kernel accounts for it: an interrupt that finds the core
//! idle is nobody's.

use std::time::{Duration, Instant};

use anyhow::ensure;

use super::measure::{beside_receiver, handle, itimer, pin};
use super::{NotifySpec, Source, user};

/// And their metrics.
const PERIODS: [(Duration, &str, &str); 3] = [
    (Duration::from_micros(100), "cpu_100", "kept_100"),
    (Duration::from_micros(25), "cpu_25", "kept_25"),
    (Duration::from_micros(5), "cpu_5", "kept_5"),
];

/// Rows, metrics and units, by [`PERIODS`].
pub(super) const READINGS: &[(&str, &str, &str)] = &[
    ("cpu at 100 us", "cpu_100", "%"),
    ("kept at 100 us", "kept_100", "%"),
    ("cpu at 25 us", "cpu_25", "%"),
    ("kept at 25 us", "kept_25", "%"),
    ("cpu at 5 us", "cpu_5", "%"),
    ("kept at 5 us", "kept_5", "%"),
];

/// The metrics and their values.
pub(super) fn run(
    spec: &NotifySpec,
    source: Source,
    tells: bool,
) -> anyhow::Result<Vec<(&'static str, f64)>> {
    let lasts = Duration::from_micros(100) * spec.count as u32;
    handle(libc::SIGALRM)?;
    // Only the timer core's thread, while it waits.
    ensure!(block(libc::SIGALRM), "cannot block a signal");
    if let &[_, helper] = &spec.cpus[..] {
        pin(helper)?;
    }
    if !tells {
        return all(source, lasts, &|| ());
    }
    let alone = user::find()?;
    beside_receiver(spec.cpus[0], Some(alone), || {
        let operand = user::sender(alone)?;
        // SAFETY: the operand is this thread's, and there is a receiver until this returns.
        all(source, lasts, &|| unsafe { user::send(operand) })
    })
}

fn all(
    source: Source,
    lasts: Duration,
    tell: &dyn Fn(),
) -> anyhow::Result<Vec<(&'static str, f64)>> {
    let mut values = Vec::new();
    for (period, cpu, kept) in PERIODS {
        let (used, came) = watch(source, period, lasts, tell)?;
        values.extend([(cpu, 100.0 * used), (kept, 100.0 * came)]);
    }
    Ok(values)
}

/// Parts of the core's time and of the expiries.
fn watch(
    source: Source,
    period: Duration,
    lasts: Duration,
    tell: &dyn Fn(),
) -> anyhow::Result<(f64, f64)> {
    // The kernel puts a sleep off by 50 us, if it is not told otherwise.
    // SAFETY: a call without memory.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1_u64) };
    if source == Source::Setitimer {
        itimer(period)?;
    }
    let (from, before) = (Instant::now(), thread_time());
    let (mut came, mut next) = (0_u32, from + period);
    while from.elapsed() < lasts {
        match source {
            Source::Setitimer => wait_for_signal(),
            Source::Nanosleep => {
                std::thread::sleep(next.saturating_duration_since(Instant::now()));
            }
            Source::Spinning => {
                while Instant::now() < next {
                    std::hint::spin_loop();
                }
            }
        }
        tell();
        came += 1;
        // What came too late is not made up for.
        next = (next + period).max(Instant::now());
    }
    let (took, time) = (from.elapsed(), thread_time() - before);
    if source == Source::Setitimer {
        itimer(Duration::ZERO)?;
    }
    let part = |time: Duration| time.as_secs_f64() / took.as_secs_f64();
    Ok((part(time), part(period * came)))
}

fn block(signal: i32) -> bool {
    // SAFETY: a set of signals of this frame.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigaddset(&raw mut set, signal);
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()) == 0
    }
}

/// Returns when the handler has run.
fn wait_for_signal() {
    // SAFETY: an empty set of this frame: all signals may come while it waits.
    unsafe {
        let none: libc::sigset_t = std::mem::zeroed();
        libc::sigsuspend(&raw const none);
    }
}

/// What the calling thread has used.
fn thread_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes the structure; every Linux has this clock.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
