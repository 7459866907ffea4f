//! Jumps out of handlers, back to a mask.
//!
//! `sigsetjmp` keeps the kernel's mask, and `siglongjmp` sets that; the thread's is kept here. So
//! the C library is told to keep none, and the thread's mask lies where it would have put its own:
//!
//! ```text
//!   jmp_buf:  registers (64 bytes) | a mask is kept | the mask | MARK | unused
//! ```

use super::{in_child_of_vfork, mask};
use crate::real::Real;
use crate::state;
use core::arch::naked_asm;
use core::ffi::{c_int, c_void};
use core::sync::atomic::Ordering::Relaxed;

/// Words of a `jmp_buf`.
const KEPT: usize = 8;
const MASK: usize = 9;
const MARKED: usize = 10;
/// The word behind it is a mask of the shim's.
const MARK: u64 = 0x5f71_7561_7665_725f;

/// What [`__sigsetjmp`] goes on with.
#[repr(C)]
struct Next {
    function: *mut c_void,
    save: usize,
}

/// Before the C library's `__sigsetjmp(buffer, save)`.
unsafe extern "C" fn before_set(buffer: *mut u64, save: c_int) -> Next {
    static REAL: Real = Real::new(c"__sigsetjmp");
    let me = state::me().filter(|_| save != 0 && !in_child_of_vfork());
    // SAFETY: a whole `jmp_buf`. What `pthread_cleanup_push` has is shorter, but not so much.
    unsafe { buffer.add(MARKED).write(if me.is_some() { MARK } else { 0 }) };
    if let Some(me) = me {
        // SAFETY: as above.
        unsafe { buffer.add(MASK).write(me.signals.mask.load(Relaxed)) };
        return Next { function: REAL.get(), save: 0 };
    }
    Next { function: REAL.get(), save: save as usize }
}

/// See `sigsetjmp(3)`.
///
/// # Safety
///
/// As there.
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __sigsetjmp(buffer: *mut u64, save: c_int) -> c_int {
    // Returns once more where it has been called from, so nothing is left on the stack.
    naked_asm!(
        ".cfi_startproc",
        "push rdi",
        ".cfi_adjust_cfa_offset 8",
        "call {before}",
        "pop rdi",
        ".cfi_adjust_cfa_offset -8",
        "mov esi, edx",
        "jmp rax",
        ".cfi_endproc",
        before = sym before_set,
    )
}

/// Before the C library jumps to `buffer`: the thread blocks what it did there.
unsafe fn before_jump(buffer: *const u64) {
    // SAFETY: a `jmp_buf` that has been set.
    let kept = unsafe {
        (*buffer.add(KEPT) as u32 == 0 && *buffer.add(MARKED) == MARK).then(|| *buffer.add(MASK))
    };
    if let Some(kept) = kept
        && let Some(me) = state::me().filter(|_| !in_child_of_vfork())
    {
        mask::restore(me, kept);
    }
}

macro_rules! jumps {
    ($($(#[$doc:meta])* $name:ident, $before:ident, $real:literal;)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        ///
        /// As there.
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(buffer: *const u64, value: c_int) -> ! {
            naked_asm!(
                ".cfi_startproc",
                "push rdi",
                "push rsi",
                "sub rsp, 8",
                ".cfi_adjust_cfa_offset 24",
                "call {before}",
                "add rsp, 8",
                "pop rsi",
                "pop rdi",
                ".cfi_adjust_cfa_offset -24",
                "jmp rax",
                ".cfi_endproc",
                before = sym $before,
            )
        }

        /// Returns what goes on.
        unsafe extern "C-unwind" fn $before(buffer: *const u64) -> *mut c_void {
            static REAL: Real = Real::new($real);
            // SAFETY: the caller's contract.
            unsafe { before_jump(buffer) };
            REAL.get()
        }
    )*};
}

jumps! {
    /// See `siglongjmp(3)`.
    siglongjmp, before_siglongjmp, c"siglongjmp";
    /// See `longjmp(3)`.
    longjmp, before_longjmp, c"longjmp";
    /// Both, where the compiler checks.
    __longjmp_chk, before_longjmp_chk, c"__longjmp_chk";
}
