//! What can keep time: the time-stamp counter, POSIX timers, sleeping threads.

use raw_cpuid::CpuId;
use serde::Serialize;

use super::{last_error, read_line};

/// What can keep time.
#[derive(Clone, Debug, Serialize)]
pub struct Clocks {
    /// The TSC counts at one rate in every power state.
    pub tsc_invariant: bool,
    /// The TSC's rate in kHz, where the processor tells it.
    pub tsc_khz: Option<u64>,
    /// The kernel's clock source: `tsc` means that the kernel trusts the counter on all CPUs
    /// together.
    pub clocksource: Option<String>,
    /// The clock sources that the kernel would accept.
    pub clocksources: Vec<String>,
    /// A per-thread POSIX timer (`SIGEV_THREAD_ID`) could be made; otherwise why not.
    pub posix_timer: Result<(), String>,
    /// How late the kernel may wake this thread from a sleep, in nanoseconds.
    pub timer_slack_ns: Option<u64>,
    /// Timers fire at their time and not at the next tick: the monotonic clock's resolution is a
    /// nanosecond.
    pub high_resolution: bool,
}

pub(super) fn detect() -> Clocks {
    let cpuid = CpuId::new();
    let sources = "/sys/devices/system/clocksource/clocksource0";
    Clocks {
        tsc_invariant: cpuid
            .get_advanced_power_mgmt_info()
            .is_some_and(|power| power.has_invariant_tsc()),
        tsc_khz: cpuid.get_tsc_info().and_then(|tsc| tsc.tsc_frequency()).map(|hz| hz / 1000),
        clocksource: read_line(format!("{sources}/current_clocksource")),
        clocksources: read_line(format!("{sources}/available_clocksource"))
            .map(|text| text.split_whitespace().map(str::to_owned).collect())
            .unwrap_or_default(),
        posix_timer: try_posix_timer(),
        timer_slack_ns: timer_slack(),
        high_resolution: resolution_ns() == Some(1),
    }
}

fn try_posix_timer() -> Result<(), String> {
    // SAFETY: all-zero is a valid sigevent; the fields that matter are set below.
    let mut event: libc::sigevent = unsafe { std::mem::zeroed() };
    event.sigev_notify = libc::SIGEV_THREAD_ID;
    event.sigev_signo = libc::SIGURG;
    // SAFETY: no preconditions.
    event.sigev_notify_thread_id = unsafe { libc::gettid() };
    let mut timer: libc::timer_t = std::ptr::null_mut();
    // SAFETY: both pointers are to live values. The timer is never armed and deleted at once.
    unsafe {
        if libc::timer_create(libc::CLOCK_MONOTONIC, &raw mut event, &raw mut timer) != 0 {
            return Err(last_error());
        }
        libc::timer_delete(timer);
    }
    Ok(())
}

fn timer_slack() -> Option<u64> {
    // SAFETY: reads one number of this thread.
    let slack = unsafe { libc::prctl(libc::PR_GET_TIMERSLACK) };
    u64::try_from(slack).ok()
}

fn resolution_ns() -> Option<i64> {
    let mut resolution = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes one timespec.
    let done = unsafe { libc::clock_getres(libc::CLOCK_MONOTONIC, &raw mut resolution) };
    (done == 0).then_some(resolution.tv_nsec)
}
