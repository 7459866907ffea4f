//! What the monitor reads of a thread: its cell, in initial-exec TLS.
//!
//! The cell lies at a constant distance from the thread pointer, and so from the area of
//! restartable sequences, to which the kernel has an address.

use crate::node::Node;
use std::arch::asm;
use std::sync::atomic::AtomicU32;

/// A thread's own words. Only the thread itself writes them. All zero at its start.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Cell {
    /// How many locks the thread holds.
    pub(crate) held: u32,
    /// How many spins have helped this thread lately; for locks without a monitor.
    pub(crate) spins: u32,
    /// The thread's node, null before its first wait.
    pub(crate) node: *const Node,
    /// The handle of `node`.
    pub(crate) handle: u32,
    /// Not 0 while the node is in a queue, or about to be.
    pub(crate) queued: u32,
    /// Pauses in all its waits.
    pub(crate) pauses: u64,
    /// The word of the lock that the thread took last; only to compare, and for the monitor.
    pub(crate) last: *const AtomicU32,
    /// When it last had to stand back, by the TSC, and for how many cycles.
    pub(crate) stood: u64,
    pub(crate) back: u64,
    /// Not 0: the thread has asked for the kernel's slice extension.
    pub(crate) asked: u32,
    /// How many of its latest waits were for the lock that it had taken last.
    pub(crate) returns: u32,
}

/// The calling thread's cell.
#[inline]
pub(crate) fn cell() -> *mut Cell {
    let at: *mut Cell;
    // SAFETY: reads the thread pointer and a constant that the linker fills in.
    unsafe {
        asm!(
            "mov {at}, qword ptr fs:[0]",
            "add {at}, qword ptr [rip + quaver_lock_cell@gottpoff]",
            at = out(reg) at,
            options(nostack, readonly),
        );
    }
    at
}

/// How many locks the calling thread holds.
pub fn held() -> u32 {
    // SAFETY: the cell is the calling thread's, which alone writes it, in assembly. Volatile,
    // because the compiler does not see these writes.
    unsafe { (&raw const (*cell()).held).read_volatile() }
}

/// How often the calling thread has paused while it waited for locks, ever.
pub fn pauses() -> u64 {
    // SAFETY: the cell is the calling thread's, which alone uses this field.
    unsafe { (*cell()).pauses }
}
