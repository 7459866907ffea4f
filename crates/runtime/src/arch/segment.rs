//! `fs` and `gs` bases: `fs` belongs to the user thread, `gs` to the carrier.
//!
//! The first words of the carrier, reached through `gs`, are read and written with single
//! instructions: a preemption comes before or after such an access, never inside it.

use super::pkru;
use crate::sys;
use core::arch::asm;
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// `gs:[0]`: the carrier's own address.
pub(crate) const GS_SELF: usize = 0;
/// `gs:[8]`: the user thread that runs on this carrier, or null in the scheduler.
pub(crate) const GS_CURRENT: usize = 8;

const ARCH_SET_GS: u64 = 0x1001;
const ARCH_SET_FS: u64 = 0x1002;
const ARCH_GET_FS: u64 = 0x1003;
const ARCH_GET_GS: u64 = 0x1004;
const HWCAP2_FSGSBASE: u64 = 2;

static FSGSBASE: AtomicBool = AtomicBool::new(false);
static PLAIN: AtomicBool = AtomicBool::new(false);

/// Does the kernel let user mode write `fs` and `gs` bases (Linux 5.9 and an Ivy Bridge or newer
/// CPU)?
pub(crate) fn kernel_has_fsgsbase() -> bool {
    // SAFETY: getauxval reads the process's auxiliary vector.
    unsafe { libc::getauxval(libc::AT_HWCAP2) & HWCAP2_FSGSBASE != 0 }
}

/// Chooses between `wrfsbase` and the system call, for the life of the process.
/// `QUAVER_NO_FSGSBASE=1` forces the system call, for tests of the fallback.
pub(crate) fn init() {
    let forced_off = std::env::var_os("QUAVER_NO_FSGSBASE").is_some_and(|v| v == "1");
    let fast = kernel_has_fsgsbase() && !forced_off;
    FSGSBASE.store(fast, Relaxed);
    pkru::init();
    PLAIN.store(fast && !pkru::present(), Relaxed);
}

/// Is [`switch`](super::switch::switch) all there is to a switch? Not if `fs` takes a system call,
/// or there is a PKRU to keep.
#[inline(always)]
pub(crate) fn plain() -> bool {
    PLAIN.load(Relaxed)
}

/// Is `fs` switched by an instruction (true) or a system call of some 100 ns (false)?
#[inline(always)]
pub(crate) fn fast_fs() -> bool {
    FSGSBASE.load(Relaxed)
}

/// The calling context's `fs` base, i.e. its thread pointer.
pub(crate) fn fs_base() -> usize {
    let base: usize;
    // SAFETY: the x86-64 ABI keeps the thread pointer's own address in fs:[0].
    unsafe { asm!("mov {}, fs:[0]", out(reg) base, options(nostack, preserves_flags, readonly)) };
    debug_assert_eq!(base, {
        let mut b = 0usize;
        // SAFETY: the kernel writes one word to `b`.
        unsafe { sys::syscall3(libc::SYS_arch_prctl, ARCH_GET_FS, &mut b as *mut _ as u64, 0) };
        b
    });
    base
}

/// Sets `fs` where `wrfsbase` may not be used.
///
/// # Safety
///
/// `base` must be a complete TLS block, and the caller must not use TLS before it knows that it
/// runs on that block.
pub(crate) unsafe fn set_fs_base_slow(base: usize) {
    // SAFETY: the caller's contract.
    unsafe { sys::syscall3(libc::SYS_arch_prctl, ARCH_SET_FS, base as u64, 0) };
}

/// Sets the calling kernel thread's `gs` base. Nothing else in a Linux x86-64 process uses `gs`.
///
/// # Safety
///
/// `base` must point to a carrier that lives as long as this kernel thread, or be 0.
pub(crate) unsafe fn set_gs_base(base: usize) {
    // SAFETY: the caller's contract.
    unsafe { sys::syscall3(libc::SYS_arch_prctl, ARCH_SET_GS, base as u64, 0) };
}

/// Does the calling kernel thread have a `gs` base? If it is no carrier of this crate's, somebody
/// else has set it: another copy of this crate, say the one of `quaver run`.
pub(crate) fn is_in_use() -> bool {
    let mut base = 0usize;
    // SAFETY: the kernel writes one word to `base`.
    unsafe { sys::syscall3(libc::SYS_arch_prctl, ARCH_GET_GS, &mut base as *mut _ as u64, 0) };
    base != 0
}

/// The word at `gs:[OFFSET]`.
///
/// # Safety
///
/// The calling kernel thread must be a carrier.
#[inline(always)]
pub(crate) unsafe fn gs_read<const OFFSET: usize>() -> usize {
    let v: usize;
    // SAFETY: on a carrier, gs points to a `Carrier`, whose first words are plain.
    unsafe {
        asm!("mov {}, gs:[{o}]", out(reg) v, o = const OFFSET,
            options(nostack, preserves_flags, readonly));
    }
    v
}
