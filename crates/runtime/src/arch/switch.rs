//! The voluntary context switch.
//!
//! Saved, because the C ABI lets a callee rely on them: rbx, rbp, r12-r15, the stack pointer, the
//! control bits of MXCSR and the x87 control word. Everything else is dead across a call. A
//! preempted thread gets here too: it calls [`switch`] from the signal handler, whose frame holds
//! the rest.
//!
//! Layout of a switched-out stack, from the saved stack pointer upwards:
//!
//! ```text
//!   rsp + 0   MXCSR (4 bytes), x87 control word (2 bytes), padding
//!   rsp + 8   r15
//!   rsp + 16  r14
//!   rsp + 24  r13
//!   rsp + 32  r12
//!   rsp + 40  rbx
//!   rsp + 48  rbp
//!   rsp + 56  return address
//! ```
//!
//! The same layout holds before and after `mov rsp, rsi`, so one set of CFI rows describes both
//! sides and debuggers unwind through a switched-out thread by starting at its saved stack pointer.

use core::arch::naked_asm;

/// MXCSR and x87 control word of a new thread: all exceptions masked, round to nearest, 64-bit x87
/// mantissa.
const INITIAL_FP: u64 = 0x1f80 | (0x037f << 32);

/// Saves the caller's context and its stack pointer in `*save`, then continues the context whose
/// stack pointer is `to`. Returns when somebody continues the caller's.
///
/// `fs` is the new `fs` base, or 0 to leave it alone.
///
/// # Safety
///
/// * `to` was stored by an earlier `switch` and not continued since, or made by [`init_stack`].
/// * `fs` belongs to the context behind `to`; with a non-zero `fs` the CPU and kernel must allow
///   `wrfsbase`.
/// * Nobody continues the caller's context before this function has left its stack: publish it from
///   the other side.
/// * Preemption is disabled.
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn switch(save: *mut usize, to: usize, fs: usize) {
    naked_asm!(
        ".cfi_startproc",
        "push rbp",
        ".cfi_adjust_cfa_offset 8",
        ".cfi_rel_offset rbp, 0",
        "push rbx",
        ".cfi_adjust_cfa_offset 8",
        ".cfi_rel_offset rbx, 0",
        "push r12",
        ".cfi_adjust_cfa_offset 8",
        ".cfi_rel_offset r12, 0",
        "push r13",
        ".cfi_adjust_cfa_offset 8",
        ".cfi_rel_offset r13, 0",
        "push r14",
        ".cfi_adjust_cfa_offset 8",
        ".cfi_rel_offset r14, 0",
        "push r15",
        ".cfi_adjust_cfa_offset 8",
        ".cfi_rel_offset r15, 0",
        "sub rsp, 8",
        ".cfi_adjust_cfa_offset 8",
        "stmxcsr [rsp]",
        "fnstcw [rsp + 4]",
        // The other context's control words are almost always the same: comparing is cheaper than
        // loading.
        "mov eax, [rsp]",
        "mov cx, [rsp + 4]",
        "mov [rdi], rsp",
        "mov rsp, rsi",
        "test rdx, rdx",
        "jz 2f",
        "wrfsbase rdx",
        "2:",
        "cmp eax, [rsp]",
        "jne 4f",
        "3:",
        "cmp cx, [rsp + 4]",
        "jne 5f",
        "6:",
        "add rsp, 8",
        ".cfi_adjust_cfa_offset -8",
        "pop r15",
        ".cfi_adjust_cfa_offset -8",
        ".cfi_restore r15",
        "pop r14",
        ".cfi_adjust_cfa_offset -8",
        ".cfi_restore r14",
        "pop r13",
        ".cfi_adjust_cfa_offset -8",
        ".cfi_restore r13",
        "pop r12",
        ".cfi_adjust_cfa_offset -8",
        ".cfi_restore r12",
        "pop rbx",
        ".cfi_adjust_cfa_offset -8",
        ".cfi_restore rbx",
        "pop rbp",
        ".cfi_adjust_cfa_offset -8",
        ".cfi_restore rbp",
        "ret",
        // Out of line: same frame as at label 2.
        ".cfi_adjust_cfa_offset 56",
        ".cfi_rel_offset rbp, 48",
        ".cfi_rel_offset rbx, 40",
        ".cfi_rel_offset r12, 32",
        ".cfi_rel_offset r13, 24",
        ".cfi_rel_offset r14, 16",
        ".cfi_rel_offset r15, 8",
        "4:",
        "ldmxcsr [rsp]",
        "jmp 3b",
        "5:",
        "fldcw [rsp + 4]",
        "jmp 6b",
        ".cfi_endproc",
    )
}

/// Where a new user thread starts: the return address of its first "return" from [`switch`]. `rbx`
/// holds the function to call, which never returns. The undefined return address ends every
/// backtrace here.
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn thread_start() -> ! {
    naked_asm!(
        ".cfi_startproc",
        ".cfi_undefined rip",
        "xor ebp, ebp",
        "call rbx",
        "ud2",
        ".cfi_endproc",
    )
}

/// Bytes at the top of a stack that [`init_stack`] writes.
pub(crate) const INITIAL_FRAME: usize = 80;

/// Prepares a stack so that the first [`switch`] to the returned stack pointer calls `entry` on it.
///
/// # Safety
///
/// `top` is 16-byte aligned, and the [`INITIAL_FRAME`] bytes below it are writable and unused.
pub(crate) unsafe fn init_stack(top: usize, entry: extern "C" fn() -> !) -> usize {
    debug_assert_eq!(top % 16, 0);
    let frame = [
        INITIAL_FP,
        0,                         // r15
        0,                         // r14
        0,                         // r13
        0,                         // r12
        entry as *const () as u64, // rbx
        0,                         // rbp
        thread_start as *const () as u64,
        // `ret` leaves rsp here: 16-byte aligned, as thread_start's `call` needs.
        0,
        0,
    ];
    let rsp = top - INITIAL_FRAME;
    // SAFETY: within the bytes that the caller grants.
    unsafe { (rsp as *mut [u64; 10]).write(frame) };
    rsp
}
