//! Time inside the runtime: ticks of the time-stamp counter.
//!
//! Policies, timers and clocks count TSC ticks because reading them takes a few nanoseconds and no memory. [`init`]
//! measures the rate once against `CLOCK_MONOTONIC`; where the TSC is not invariant, ticks are nanoseconds of
//! `CLOCK_MONOTONIC` instead (read through the vDSO, some 20 ns).

use core::arch::x86_64::{__cpuid, _rdtsc};
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// A point in time or a span in TSC ticks.
pub(crate) type Ticks = u64;

/// "Never" as a deadline.
pub(crate) const NEVER: Ticks = u64::MAX;

static USE_MONOTONIC: AtomicBool = AtomicBool::new(false);
/// Ticks in 2^32 nanoseconds.
static TICKS_PER_4G_NS: AtomicU64 = AtomicU64::new(0);

/// Has the CPU a TSC that ticks at one rate in all power states (CPUID 8000_0007h, EDX bit 8)?
pub(crate) fn invariant() -> bool {
    __cpuid(0x8000_0000).eax >= 0x8000_0007 && __cpuid(0x8000_0007).edx & (1 << 8) != 0
}

/// Measures the rate; the first call takes about 3 ms, later ones return at once.
pub(crate) fn init() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        if !invariant() && !hypervisor_says_stable() {
            USE_MONOTONIC.store(true, Relaxed);
            TICKS_PER_4G_NS.store(1 << 32, Relaxed);
            return;
        }
        let (t0, c0) = pair();
        while t0.elapsed() < Duration::from_millis(3) {
            core::hint::spin_loop();
        }
        let (t1, c1) = pair();
        let ns = (t1 - t0).as_nanos();
        TICKS_PER_4G_NS.store(((u128::from(c1 - c0) << 32) / ns) as u64, Relaxed);
    });
}

/// A monotonic instant and the TSC at that instant: the tightest of a few tries.
fn pair() -> (Instant, Ticks) {
    (0..8)
        .map(|_| {
            let before = rdtsc();
            let t = Instant::now();
            let after = rdtsc();
            (after - before, t, before + (after - before) / 2)
        })
        .min_by_key(|x| x.0)
        .map(|x| (x.1, x.2))
        .unwrap_or_else(|| (Instant::now(), rdtsc()))
}

/// Linux marks a virtual TSC that it trusts with `constant_tsc`, even where CPUID hides the invariant bit.
fn hypervisor_says_stable() -> bool {
    std::fs::read_to_string("/sys/devices/system/clocksource/clocksource0/current_clocksource")
        .is_ok_and(|s| s.trim() == "tsc")
}

#[inline(always)]
fn rdtsc() -> Ticks {
    // SAFETY: every x86-64 CPU has RDTSC, and Linux allows it unless a process asked otherwise by prctl.
    unsafe { _rdtsc() }
}

/// Now. Never goes back on one CPU; CPUs may differ by some ticks.
#[inline(always)]
pub(crate) fn now() -> Ticks {
    if USE_MONOTONIC.load(Relaxed) { monotonic_ns() } else { rdtsc() }
}

#[cold]
fn monotonic_ns() -> u64 {
    let mut ts = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `ts` is written during the call; the vDSO function touches no TLS on success.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut ts) };
    ts.tv_sec as u64 * 1_000_000_000 + ts.tv_nsec as u64
}

/// A span in ticks; saturates below [`NEVER`].
pub(crate) fn from_duration(d: Duration) -> Ticks {
    let t = d.as_nanos().saturating_mul(u128::from(TICKS_PER_4G_NS.load(Relaxed))) >> 32;
    t.min(u128::from(NEVER / 4)) as Ticks
}

/// A span in ticks as nanoseconds.
pub(crate) fn to_nanos(t: Ticks) -> u64 {
    ((u128::from(t) << 32) / u128::from(TICKS_PER_4G_NS.load(Relaxed).max(1))) as u64
}

/// A span in ticks as a duration.
pub(crate) fn to_duration(t: Ticks) -> Duration {
    Duration::from_nanos(to_nanos(t))
}

/// The tick at which `deadline` is reached; a past deadline gives now.
pub(crate) fn at(deadline: Instant) -> Ticks {
    // In this order: a preemption between the two clocks makes the answer late, never early.
    let left = deadline.saturating_duration_since(Instant::now());
    now().saturating_add(from_duration(left)).saturating_add(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_and_durations_agree_both_ways() {
        init();
        for us in [1u64, 5, 1_000, 1_000_000, 3_600_000_000] {
            let d = Duration::from_micros(us);
            let back = to_duration(from_duration(d));
            assert!(d.abs_diff(back) < Duration::from_nanos(us / 100 + 10), "{d:?} {back:?}");
        }
        assert!(from_duration(Duration::MAX) < NEVER);
    }

    #[test]
    fn time_does_not_go_back() {
        init();
        let a = now();
        std::thread::sleep(Duration::from_millis(2));
        let b = now();
        assert!(to_duration(b - a) >= Duration::from_millis(1));
    }
}
