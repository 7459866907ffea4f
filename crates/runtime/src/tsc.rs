//! Time inside the runtime: ticks of the time-stamp counter.
//!
//! Policies, timers and clocks count TSC ticks because reading them takes a few nanoseconds and no
//! memory. [`init`] measures the rate once against `CLOCK_MONOTONIC`; where the TSC is not
//! invariant, ticks are nanoseconds of `CLOCK_MONOTONIC` instead (read through the vDSO, some 20
//! ns).
//!
//! The rate is some millionths wrong, and the kernel steers its clock by up to 500 of them. So
//! ticks decide when to look, and `Instant` decides whether a wait is over ([`is_over`]). While a
//! machine is suspended most TSCs begin at zero again, and nothing would ever be due: [`catch_up`]
//! notices that before a worker sleeps.

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
/// What has been added to the TSC because it went back.
static ADDED: AtomicU64 = AtomicU64::new(0);
/// A moment in nanoseconds of `CLOCK_MONOTONIC` and in ticks.
static BASE: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];

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
        BASE[0].store(monotonic_ns(), Relaxed);
        BASE[1].store(now(), Relaxed);
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

/// Linux marks a virtual TSC that it trusts with `constant_tsc`, even where CPUID hides the
/// invariant bit.
fn hypervisor_says_stable() -> bool {
    std::fs::read_to_string("/sys/devices/system/clocksource/clocksource0/current_clocksource")
        .is_ok_and(|s| s.trim() == "tsc")
}

#[inline(always)]
fn rdtsc() -> Ticks {
    // SAFETY: every x86-64 CPU has RDTSC, and Linux allows it unless a process asked otherwise by
    // prctl.
    unsafe { _rdtsc() }
}

/// Now. Never goes back on one CPU; CPUs may differ by some ticks.
#[inline(always)]
pub(crate) fn now() -> Ticks {
    if USE_MONOTONIC.load(Relaxed) {
        monotonic_ns()
    } else {
        rdtsc().wrapping_add(ADDED.load(Relaxed))
    }
}

/// Makes [`now`] go on where it would be if the TSC had not gone back. Costs a look at the clock.
pub(crate) fn catch_up() {
    if USE_MONOTONIC.load(Relaxed) {
        return;
    }
    let added = ADDED.load(Relaxed);
    let base = BASE.each_ref().map(|b| b.load(Relaxed));
    let now = [monotonic_ns(), rdtsc().wrapping_add(added)];
    let missing = missing(base, now, TICKS_PER_4G_NS.load(Relaxed));
    if missing != 0 {
        // Whoever was faster has added the same.
        let _ = ADDED.compare_exchange(added, added.wrapping_add(missing), Relaxed, Relaxed);
    }
}

/// How many ticks are missing at a moment, given an earlier one, both in nanoseconds and ticks: 0
/// if no more than clocks differ.
fn missing(base: [u64; 2], now: [u64; 2], per_4g_ns: u64) -> u64 {
    let ticks = |ns: u64| ((u128::from(ns) * u128::from(per_4g_ns)) >> 32) as u64;
    let passed = now[0].saturating_sub(base[0]);
    let behind = base[1].wrapping_add(ticks(passed)).wrapping_sub(now[1]) as i64;
    // A thousandth, and a time for which this thread may have been stopped between looking at both.
    let most = ticks(passed / 1000 + 10_000_000) as i64;
    if behind > most { behind as u64 } else { 0 }
}

/// Is a wait until `deadline` over, whose time has come by the count of ticks?
pub(crate) fn is_over(deadline: Instant, now: Instant) -> bool {
    now >= deadline
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
    fn a_tsc_that_begins_again_is_noticed_and_others_are_left_alone() {
        const SECOND: u64 = 1_000_000_000;
        // 2.5 ticks in a nanosecond.
        let rate = (5 << 32) / 2;
        let base = [7 * SECOND, 1_000_000 * SECOND];
        let at =
            |seconds: u64, ticks: u64| missing(base, [base[0] + seconds * SECOND, ticks], rate);
        let right = |seconds: u64| base[1] + seconds * SECOND * 5 / 2;
        assert_eq!(at(0, base[1]), 0);
        assert_eq!(at(1, right(1)), 0);
        // Half a thousandth behind, and before: as far as the kernel steers its clock.
        let day = 86_400;
        assert_eq!(at(day, right(day) - (right(day) - base[1]) / 2000), 0);
        assert_eq!(at(day, right(day) + (right(day) - base[1]) / 2000), 0);
        // It went on while the clock stood still.
        assert_eq!(at(1, right(day)), 0);
        // From zero again.
        assert_eq!(at(1, 0), right(1));
        assert_eq!(at(day, SECOND), right(day) - SECOND);
        catch_up();
    }

    /// Where ticks pass in nine tenths of their time, a tick's wait would be too short. In a
    /// process of its own, because the rate is everybody's.
    #[test]
    fn no_wait_ends_early_where_the_rate_is_wrong() {
        const CHILD: &str = "QUAVER_TEST_ROLE";
        const ROLE: &str = "wrong rate";
        if std::env::var(CHILD).is_err() {
            let mut again = std::process::Command::new(std::env::current_exe().unwrap());
            let name = "tsc::tests::no_wait_ends_early_where_the_rate_is_wrong";
            let output = again.args(["--exact", name]).env(CHILD, ROLE).output().unwrap();
            assert!(output.status.success(), "{output:?}");
            return;
        }
        init();
        let rate = TICKS_PER_4G_NS.load(Relaxed);
        TICKS_PER_4G_NS.store(rate / 10 * 9, Relaxed);
        crate::Builder::new().workers(1).build().unwrap().run(|| {
            // An idle worker would sleep by the kernel's clock.
            crate::spawn_detached(|| {
                loop {
                    crate::yield_now();
                }
            });
            let span = Duration::from_millis(20);
            let elapsed = |wait: &dyn Fn()| {
                let start = Instant::now();
                wait();
                start.elapsed()
            };
            let never = crate::sync::Semaphore::new(0);
            assert!(elapsed(&|| crate::sleep(span)) >= span);
            assert!(elapsed(&|| assert!(never.acquire_timeout(span).is_err())) >= span);
            // By way of `syscall`.
            let (lock, condvar) = (std::sync::Mutex::new(()), std::sync::Condvar::new());
            let timed_out = || {
                let mut guard = lock.lock().unwrap();
                loop {
                    let (g, result) = condvar.wait_timeout(guard, span).unwrap();
                    if result.timed_out() {
                        return;
                    }
                    guard = g;
                }
            };
            assert!(elapsed(&timed_out) >= span);
            // The other thread never ends.
            std::process::exit(0);
        });
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
