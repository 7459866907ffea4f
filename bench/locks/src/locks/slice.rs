//! A spinlock whose holder asks the kernel not to preempt it: the slice extension of restartable
//! sequences, and nothing else. (FlexGuard 2.4 and 5.1 (ix); Linux 7.0,
//! Documentation/userspace-api/rseq.rst.)
//!
//! The holder raises a flag in its rseq area. A kernel that would preempt it then may grant it some
//! ten microseconds more; who was granted them gives the CPU away after the critical section.

use std::arch::asm;
use std::hint::spin_loop;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use super::BenchLock;

const PR_RSEQ_SLICE_EXTENSION: i32 = 79;
const SET: libc::c_ulong = 2;
const ENABLE: libc::c_ulong = 1;
const SYS_RSEQ_SLICE_YIELD: libc::c_long = 471;
/// Of the request byte in the rseq area; the byte behind it says whether it was granted.
const REQUEST: isize = 28;

unsafe extern "C" {
    /// glibc 2.35: where the area lies, from the thread pointer; and how much of it the kernel
    /// knows.
    static __rseq_offset: isize;
}

/// Turns the extension on for the calling thread.
///
/// # Errors
///
/// Why it is not on this kernel, for people.
pub fn enable() -> Result<(), String> {
    let no: libc::c_ulong = 0;
    // SAFETY: an option that sets a flag of the calling thread, or is unknown.
    match unsafe { libc::prctl(PR_RSEQ_SLICE_EXTENSION, SET, ENABLE, no, no) } {
        0 => Ok(()),
        _ => Err(format!(
            "not on this kernel: the slice extension of rseq came with Linux 7.0 ({})",
            std::io::Error::last_os_error()
        )),
    }
}

/// The calling thread's request byte.
fn request() -> *mut u8 {
    let thread: *mut u8;
    // SAFETY: reads the thread pointer, which points to itself.
    unsafe {
        asm!("mov {}, qword ptr fs:[0]", out(reg) thread, options(nostack, readonly, pure));
        thread.offset(__rseq_offset + REQUEST)
    }
}

/// The spinlock.
pub struct Slice(AtomicBool);

/// A thread with the extension.
pub struct Node(*mut u8);

impl Default for Node {
    /// # Panics
    ///
    /// If the kernel has no extension: [`enable`] says so before.
    fn default() -> Self {
        enable().expect("the caller has asked before");
        Self(request())
    }
}

impl Node {
    /// That of a thread whose area is these two bytes: the request, and whether it was granted.
    #[cfg(test)]
    pub(super) fn on(area: &mut [u8; 2]) -> Self {
        Self(area.as_mut_ptr())
    }

    pub(super) fn ask(&self, on: u8) {
        // SAFETY: this thread's area, which the kernel has accepted; only it and the kernel use it.
        unsafe { self.0.write_volatile(on) };
    }

    pub(super) fn settle(&self) {
        self.ask(0);
        // SAFETY: as above; the call takes no arguments.
        unsafe {
            if self.0.add(1).read_volatile() != 0 {
                libc::syscall(SYS_RSEQ_SLICE_YIELD);
            }
        }
    }
}

impl BenchLock for Slice {
    type Node = Node;

    fn create() -> Self {
        Self(AtomicBool::new(false))
    }

    fn lock(&self, node: &mut Node) -> u64 {
        let mut spins = 0;
        loop {
            if !self.0.load(Relaxed) {
                node.ask(1);
                if !self.0.swap(true, Acquire) {
                    return spins;
                }
                node.settle();
            }
            spin_loop();
            spins += 1;
        }
    }

    unsafe fn unlock(&self, node: &mut Node) {
        self.0.store(false, Release);
        node.settle();
    }
}
