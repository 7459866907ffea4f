//! Children that share this process's memory, and how to tell that one is running.
//!
//! Whether the caller is such a child is asked in every call that waits. `getpid` tells, for the
//! price of a system call; so it is asked only where there may be a child at all. `vfork` counts
//! those that are under way. A child that was made unseen and has memory of its own finds a word of
//! its parent's empty. What is not noticed is a child that shares memory and was made by a system
//! call of the program's own.

use crate::sys;
use core::arch::naked_asm;
use core::ffi::c_int;
use core::ptr;
use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering::*};

/// Children of `vfork` that have not become or ended yet, and those of `clone`.
static SHARING: AtomicU32 = AtomicU32::new(0);
/// A word that is 1 in this process and 0 in its forks.
static OURS: AtomicPtr<AtomicU32> = AtomicPtr::new(ptr::null_mut());

/// From now on forks can be told.
pub(crate) fn start() {
    let (size, rights) = (4096, libc::PROT_READ | libc::PROT_WRITE);
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: new memory, whose first word is an atomic from now on.
    unsafe {
        let page = libc::mmap(ptr::null_mut(), size, rights, flags, -1, 0);
        if page != libc::MAP_FAILED && libc::madvise(page, size, libc::MADV_WIPEONFORK) == 0 {
            let word = page.cast::<AtomicU32>();
            (*word).store(1, Relaxed);
            OURS.store(word, Release);
        }
    }
}

/// May this be another process than the one that has [started](start)?
#[inline]
pub(crate) fn may_be_child() -> bool {
    // SAFETY: null, or the word, which stays.
    let ours = unsafe { OURS.load(Acquire).as_ref() };
    SHARING.load(Relaxed) != 0 || ours.is_none_or(|word| word.load(Relaxed) == 0)
}

/// A child that shares memory is about to be made, and its end is not noticed.
pub(crate) fn is_made_by_clone() {
    SHARING.fetch_add(1, SeqCst);
}

extern "C" fn failed(error: c_int) -> c_int {
    sys::set_errno(error);
    -1
}

/// See `vfork(2)`.
///
/// The child returns on the parent's stack and leaves its own return address where the parent's is.
/// So that is kept in `rdi` meanwhile, which the kernel preserves, as the C library does it.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C" fn vfork() -> c_int {
    naked_asm!(
        ".cfi_startproc",
        "lock inc dword ptr [rip + {sharing}]",
        "pop rdi",
        ".cfi_adjust_cfa_offset -8",
        ".cfi_register rip, rdi",
        "mov eax, {vfork}",
        "syscall",
        "push rdi",
        ".cfi_adjust_cfa_offset 8",
        ".cfi_offset rip, -8",
        "test eax, eax",
        "jz 2f",
        "lock dec dword ptr [rip + {sharing}]",
        "test eax, eax",
        "js 3f",
        "2:",
        "ret",
        "3:",
        "mov edi, eax",
        "neg edi",
        "jmp {failed}",
        ".cfi_endproc",
        sharing = sym SHARING,
        failed = sym failed,
        vfork = const libc::SYS_vfork,
    )
}

/// `vfork` as called by libraries.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C" fn __vfork() -> c_int {
    naked_asm!("jmp {vfork}", vfork = sym vfork)
}
