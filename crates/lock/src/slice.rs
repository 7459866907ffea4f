//! The kernel's slice extension, for locks without a monitor.
//!
//! Linux 7.0 lets a thread ask that it not be preempted for some microseconds (5 by default). It
//! raises `request` in its area of restartable sequences, which must be registered with more than
//! its first 32 bytes, as glibc 2.41 does.
//! A kernel that would preempt it may then put that off: it lowers `request` and raises `granted`.
//! The thread lowers `request` at the end, and gives the CPU away if `granted` is up. Any other
//! system call gives it away, too. (Linux, userspace-api/rseq; FlexGuard 2.4.)
//!
//! Each thread must switch it on by `prctl`, at its first lock. The kernel says in `flags` that it
//! is on, which stays right after `fork`. A lock that is taken within another one asks for nothing
//! more, and the last one that is freed ends it.
//!
//! ```text
//!   request = 1, take the word --- taken ------> ... free the word, wake -> end
//!                              \-- not free ---> end, wait as ever, request = 1
//!   end: request = 0; granted? then `rseq_slice_yield`
//! ```

use crate::cell::{cell, held};
use crate::futex;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicIsize, AtomicU8, AtomicU32, compiler_fence};

/// The area of restartable sequences, as far as the kernel's interface describes it.
#[repr(C, align(32))]
struct Area {
    cpu: [u32; 2],
    section: u64,
    flags: AtomicU32,
    ids: [u32; 2],
    request: AtomicU8,
    granted: AtomicU8,
    reserved: u16,
}

const _: () = {
    assert!(std::mem::offset_of!(Area, flags) == 16 && std::mem::offset_of!(Area, request) == 28);
    assert!(size_of::<Area>() == END);
};

/// The extension is on for this thread.
const ENABLED: u32 = 1 << 5;
/// How much of the area a kernel uses that has the extension.
const END: usize = 32;
/// How much of the area the kernel uses, in the auxiliary vector.
const AT_RSEQ_FEATURE_SIZE: libc::c_ulong = 27;
const PR_RSEQ_SLICE_EXTENSION: libc::c_int = 79;
const SET: libc::c_ulong = 2;
/// The kernel's own number, for an area of the first 32 bytes.
const ENOTSUPP: i32 = 524;
const ENABLE: libc::c_ulong = 1;
#[cfg(not(all(test, not(loom))))]
const RSEQ_SLICE_YIELD: libc::c_long = 471;

/// Whether locks use it.
static USED: AtomicBool = AtomicBool::new(false);
/// From the thread pointer to the area.
static OFFSET: AtomicIsize = AtomicIsize::new(0);

/// Why the kernel extends no slices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NoExtension {
    /// glibc registers no area of restartable sequences.
    #[error("glibc has no restartable sequences, or they are off (GLIBC_TUNABLES)")]
    NoRseq,
    /// The kernel does not know it.
    #[error("the kernel has no slice extension (Linux 7.0, CONFIG_RSEQ_SLICE_EXTENSION)")]
    Kernel,
    /// glibc registers the area as it was at first.
    #[error("glibc is too old for the slice extension: 2.41 or later is needed")]
    OldGlibc,
    /// The kernel knows it and refuses, with this error.
    #[error("the kernel refuses the slice extension (booted with rseq_slice_ext=off?): error {0}")]
    Refused(i32),
}

/// Switches the extension on for the calling thread, to see whether it is possible. Does not change
/// what locks do.
///
/// # Errors
///
/// Why it is not.
pub fn possible() -> Result<(), NoExtension> {
    // SAFETY: symbols of glibc of these types; null if it is older.
    let (offset, size) = unsafe {
        let offset = libc::dlsym(libc::RTLD_DEFAULT, c"__rseq_offset".as_ptr()).cast::<isize>();
        let size = libc::dlsym(libc::RTLD_DEFAULT, c"__rseq_size".as_ptr()).cast::<u32>();
        (offset.as_ref(), size.as_ref())
    };
    let (Some(&offset), Some(&size @ 1..)) = (offset, size) else {
        return Err(NoExtension::NoRseq);
    };
    // SAFETY: looks a number up.
    if (unsafe { libc::getauxval(AT_RSEQ_FEATURE_SIZE) } as usize) < END {
        return Err(NoExtension::Kernel);
    }
    OFFSET.store(offset, Relaxed);
    switch_on().map_err(|error| refusal(error, size as usize))
}

/// Why the kernel has said no, where glibc has registered so many bytes.
fn refusal(error: i32, size: usize) -> NoExtension {
    match error {
        libc::EINVAL => NoExtension::Kernel,
        ENOTSUPP if size <= END => NoExtension::OldGlibc,
        error => NoExtension::Refused(error),
    }
}

/// From now on this process's locks ask for it, until it gets a monitor. [`attach`] does so where
/// it finds none.
///
/// # Errors
///
/// Why it is not possible.
///
/// [`attach`]: crate::monitor::attach
pub fn use_it() -> Result<(), NoExtension> {
    possible()?;
    // With the offset.
    USED.store(true, Release);
    Ok(())
}

/// There is a monitor: a holder's preemption makes waiters block, and need not be put off.
pub(crate) fn use_it_no_more() {
    USED.store(false, Relaxed);
}

/// Whether locks ask for it.
#[inline]
pub fn used() -> bool {
    USED.load(Acquire)
}

/// Asks the kernel to switch it on for the calling thread; the error number if it does not.
fn switch_on() -> Result<(), i32> {
    let mut error = 0;
    futex::with_errno(|| {
        // SAFETY: numbers only; other kernels answer EINVAL.
        if unsafe { libc::prctl(PR_RSEQ_SLICE_EXTENSION, SET, ENABLE, 0, 0) } != 0 {
            // SAFETY: errno of this thread.
            error = unsafe { *libc::__errno_location() };
        }
    });
    if error == 0 { Ok(()) } else { Err(error) }
}

/// The calling thread's area, if the extension is on for it. Its first call asks the kernel.
fn area() -> Option<&'static Area> {
    #[cfg(all(test, not(loom)))]
    let own = tests::simulated();
    #[cfg(not(all(test, not(loom))))]
    let own = registered();
    if own.flags.load(Relaxed) & ENABLED != 0 {
        return Some(own);
    }
    // SAFETY: the calling thread's cell, of which nobody else uses `asked`.
    let asked = unsafe { &mut (*cell()).asked };
    if *asked != 0 {
        return None;
    }
    *asked = 1;
    // A thread with another TLS than the kernel knows of is refused by the second look.
    (switch_on().is_ok() && own.flags.load(Relaxed) & ENABLED != 0).then_some(own)
}

/// Where glibc has the area of the calling thread.
#[cfg(not(all(test, not(loom))))]
fn registered() -> &'static Area {
    // SAFETY: the thread pointer's first word is its own address; glibc has an area of at least 32
    // bytes at this distance in each thread, for as long as the thread lives (`possible` has seen
    // to that before `USED` was set). Atomic bytes, because the kernel writes them, too.
    unsafe {
        let thread: *const u8;
        std::arch::asm!("mov {}, qword ptr fs:[0]", out(reg) thread,
            options(nostack, readonly, pure, preserves_flags));
        &*thread.offset(OFFSET.load(Relaxed)).cast()
    }
}

/// The calling thread is about to take a lock, or has just taken one. Asks if it holds so many;
/// otherwise it has asked before, or been granted what it asked for.
#[cold]
pub(crate) fn begin(holds: u32) {
    if held() == holds
        && let Some(area) = area()
    {
        area.request.store(1, Relaxed);
        compiler_fence(SeqCst);
    }
}

/// The calling thread has freed a lock, or not got one.
#[cold]
pub(crate) fn end() {
    if held() == 0
        && let Some(area) = area()
    {
        compiler_fence(SeqCst);
        area.request.store(0, Relaxed);
        compiler_fence(SeqCst);
        // In this order: the kernel may grant up to the store.
        if area.granted.load(Relaxed) != 0 {
            give_back(area);
        }
    }
}

/// The kernel clears `granted`.
#[cold]
fn give_back(_area: &Area) {
    #[cfg(all(test, not(loom)))]
    tests::yielded(_area);
    #[cfg(not(all(test, not(loom))))]
    futex::with_errno(|| {
        // SAFETY: no arguments.
        unsafe { libc::syscall(RSEQ_SLICE_YIELD) };
    });
}

#[cfg(all(test, not(loom)))]
mod tests;
