//! Sleeping until a word changes, and waking one sleeper.

use std::ptr::null;
use std::sync::atomic::AtomicU32;

/// Nanoseconds of `CLOCK_MONOTONIC`, which is also the kernel program's clock.
pub(crate) fn now() -> u64 {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `t` is ours.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut t) };
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

/// Sleeps while `word` is `value`, until woken, or for no reason; false: until `deadline` (as of
/// [`now`]).
pub(crate) fn wait(word: &AtomicU32, value: u32, deadline: Option<u64>) -> bool {
    let until = deadline.map(|d| libc::timespec {
        tv_sec: (d / 1_000_000_000) as i64,
        tv_nsec: (d % 1_000_000_000) as i64,
    });
    let until = until.as_ref().map_or(null(), std::ptr::from_ref);
    with_errno(|| {
        // SAFETY: the word and the time outlive the call.
        let result = unsafe {
            libc::syscall(
                libc::SYS_futex,
                word.as_ptr(),
                libc::FUTEX_WAIT_BITSET | libc::FUTEX_PRIVATE_FLAG,
                value,
                until,
                null::<u32>(),
                !0u32,
            )
        };
        // SAFETY: errno of this thread.
        result == 0 || unsafe { *libc::__errno_location() } != libc::ETIMEDOUT
    })
}

/// Wakes one who sleeps at `word`. The address need not be valid any more: only the kernel looks at
/// it, as a number.
pub(crate) fn wake(word: *const u32) {
    with_errno(|| {
        // SAFETY: a futex address that is unmapped yields an error or nothing.
        unsafe {
            libc::syscall(libc::SYS_futex, word, libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG, 1);
        }
    });
}

/// Taking or freeing a lock does not change `errno`.
fn with_errno<T>(f: impl FnOnce() -> T) -> T {
    // SAFETY: errno of this thread.
    unsafe {
        let before = *libc::__errno_location();
        let result = f();
        *libc::__errno_location() = before;
        result
    }
}
