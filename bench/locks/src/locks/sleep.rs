//! Sleeping in the kernel at a word, and other pauses.

use std::arch::x86_64::_rdtsc;
use std::ptr::null;
use std::sync::OnceLock;
use std::sync::atomic::AtomicU32;
use std::time::{Duration, Instant};

/// Sleeps while `word` is `value`: until woken, until `limit` has passed, or for no reason.
pub fn wait(word: &AtomicU32, value: u32, limit: Option<Duration>) {
    let limit = limit.map(|limit| libc::timespec {
        tv_sec: limit.as_secs().min(1 << 40) as i64,
        tv_nsec: i64::from(limit.subsec_nanos()),
    });
    let limit = limit.as_ref().map_or(null(), std::ptr::from_ref);
    let operation = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: the word and the time outlive the call.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), operation, value, limit) };
}

/// Wakes at most `count` threads that sleep at the address. The kernel takes it as a number:
/// the word may be gone.
pub fn wake(word: *const u32, count: u32) {
    let operation = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: nothing is read at the address.
    unsafe { libc::syscall(libc::SYS_futex, word, operation, count) };
}

/// The TSC.
pub fn cycles() -> u64 {
    // SAFETY: every x86-64 has it.
    unsafe { _rdtsc() }
}

/// Cycles of the TSC in a microsecond, measured once for 10 ms.
pub fn cycles_per_us() -> u64 {
    static RATE: OnceLock<u64> = OnceLock::new();
    *RATE.get_or_init(|| {
        let (begun, from) = (Instant::now(), cycles());
        while begun.elapsed() < Duration::from_millis(10) {
            std::hint::spin_loop();
        }
        ((cycles() - from) / begun.elapsed().as_micros().max(1) as u64).max(1)
    })
}
