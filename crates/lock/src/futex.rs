//! Sleeping until a word changes, and waking one sleeper.

use std::ptr::null;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

/// Nanoseconds of `CLOCK_MONOTONIC`, which is also the kernel program's clock.
pub(crate) fn now() -> u64 {
    nanos(libc::CLOCK_MONOTONIC)
}

fn nanos(clock: libc::clockid_t) -> u64 {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `t` is ours.
    unsafe { libc::clock_gettime(clock, &mut t) };
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

/// When to give up, by one of two clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadline {
    nanos: u64,
    realtime: bool,
}

impl Deadline {
    /// So long from now; `None` for 292 years or more.
    pub fn after(timeout: Duration) -> Option<Self> {
        let nanos = now().checked_add(u64::try_from(timeout.as_nanos()).ok()?)?;
        (nanos < i64::MAX as u64).then_some(Self { nanos, realtime: false })
    }

    /// A time of `CLOCK_REALTIME` or `CLOCK_MONOTONIC`, whose nanoseconds are below 10^9. What is
    /// before its epoch has come already.
    ///
    /// # Errors
    ///
    /// It is another clock.
    pub fn at(clock: libc::clockid_t, time: &libc::timespec) -> Result<Self, UnknownClock> {
        let realtime = match clock {
            libc::CLOCK_REALTIME => true,
            libc::CLOCK_MONOTONIC => false,
            _ => return Err(UnknownClock),
        };
        // 292 years are enough, and the kernel takes no more.
        let nanos = u64::try_from(time.tv_sec).map_or(0, |seconds| {
            let nanos = seconds.saturating_mul(1_000_000_000);
            nanos.saturating_add(time.tv_nsec as u64).min(i64::MAX as u64)
        });
        Ok(Self { nanos, realtime })
    }

    /// Whether it is over. Of `CLOCK_REALTIME` this may change in both directions.
    pub fn has_come(&self) -> bool {
        let clock = if self.realtime { libc::CLOCK_REALTIME } else { libc::CLOCK_MONOTONIC };
        nanos(clock) >= self.nanos
    }
}

/// A clock that is not `CLOCK_REALTIME` and not `CLOCK_MONOTONIC`.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("locks wait by CLOCK_REALTIME or CLOCK_MONOTONIC only")]
pub struct UnknownClock;

/// Sleeps while `word` is `value`, until woken, or for no reason; false: until `deadline`.
pub(crate) fn wait(word: &AtomicU32, value: u32, deadline: Option<Deadline>) -> bool {
    wait_as(word, value, deadline, ANYONE)
}

/// All kinds of sleepers.
pub const ANYONE: u32 = !0;

/// Sleeps while `word` is `value`, until woken as one of the `kinds` (bits, not 0), or for no
/// reason; false: until `deadline`.
pub fn wait_as(word: &AtomicU32, value: u32, deadline: Option<Deadline>, kinds: u32) -> bool {
    let until = deadline.map(|d| libc::timespec {
        tv_sec: (d.nanos / 1_000_000_000) as i64,
        tv_nsec: (d.nanos % 1_000_000_000) as i64,
    });
    let realtime = deadline.is_some_and(|d| d.realtime);
    let clock = if realtime { libc::FUTEX_CLOCK_REALTIME } else { 0 };
    let until = until.as_ref().map_or(null(), std::ptr::from_ref);
    with_errno(|| {
        // SAFETY: the word and the time outlive the call.
        let result = unsafe {
            libc::syscall(
                libc::SYS_futex,
                word.as_ptr(),
                libc::FUTEX_WAIT_BITSET | libc::FUTEX_PRIVATE_FLAG | clock,
                value,
                until,
                null::<u32>(),
                kinds,
            )
        };
        // SAFETY: errno of this thread.
        result == 0 || unsafe { *libc::__errno_location() } != libc::ETIMEDOUT
    })
}

/// Wakes one who sleeps at `word`. The address need not be valid any more: only the kernel looks at
/// it, as a number.
pub(crate) fn wake(word: *const u32) {
    wake_as(word, 1, ANYONE);
}

/// Wakes at most `number` of those who sleep at `word` as one of the `kinds`. The address need not
/// be valid any more.
#[expect(clippy::not_unsafe_ptr_arg_deref, reason = "the kernel reads nothing there")]
pub fn wake_as(word: *const u32, number: i32, kinds: u32) {
    with_errno(|| {
        let operation = libc::FUTEX_WAKE_BITSET | libc::FUTEX_PRIVATE_FLAG;
        let none = null::<libc::timespec>();
        // SAFETY: a futex address that is unmapped yields an error or nothing.
        unsafe {
            libc::syscall(libc::SYS_futex, word, operation, number, none, null::<u32>(), kinds);
        }
    });
}

/// Taking or freeing a lock does not change `errno`.
pub(crate) fn with_errno<T>(f: impl FnOnce() -> T) -> T {
    // SAFETY: errno of this thread.
    unsafe {
        let before = *libc::__errno_location();
        let result = f();
        *libc::__errno_location() = before;
        result
    }
}
