//! What is done in place of a `syscall` instruction.

use crate::sys::{saved_errno, set_errno};
use core::arch::naked_asm;
use core::ffi::c_long;
use quaver::foreign::raw_calls;

/// Answers a system call as the kernel does: the number and the result are in `rax`, the arguments
/// in `rdi`, `rsi`, `rdx`, `r10`, `r8` and `r9`, and only `rax`, `rcx`, `r11` and the flags change.
///
/// A [trampoline](super::trampoline) jumps here. To unwinders the library has called this, with the
/// red zone as arguments: it begins with this stack, and ends by `ret 128`.
///
/// ```text
///   rsp + 136: the library's stack pointer
///   rsp + 8:   its red zone, 128 bytes
///   rsp:       where to return to
/// ```
///
/// Then it has this one:
///
/// ```text
///   rbp + 8:   where to return to
///   rbp:       the library's rbp
///   rbp - 48:  rdi, rsi, rdx, r10, r8, r9: the arguments, as an array
///   rsp:       xmm0 to xmm15, aligned
/// ```
#[unsafe(naked)]
pub(super) unsafe extern "C-unwind" fn entry() {
    naked_asm!(
        ".cfi_startproc",
        ".cfi_def_cfa rsp, 136",
        ".cfi_offset rip, -136",
        "push rbp",
        ".cfi_adjust_cfa_offset 8",
        ".cfi_offset rbp, -144",
        "mov rbp, rsp",
        ".cfi_def_cfa_register rbp",
        "push r9",
        "push r8",
        "push r10",
        "push rdx",
        "push rsi",
        "push rdi",
        "mov rsi, rsp",
        "mov rdi, rax",
        "sub rsp, 256",
        "and rsp, -16",
        "movaps [rsp], xmm0",
        "movaps [rsp + 16], xmm1",
        "movaps [rsp + 32], xmm2",
        "movaps [rsp + 48], xmm3",
        "movaps [rsp + 64], xmm4",
        "movaps [rsp + 80], xmm5",
        "movaps [rsp + 96], xmm6",
        "movaps [rsp + 112], xmm7",
        "movaps [rsp + 128], xmm8",
        "movaps [rsp + 144], xmm9",
        "movaps [rsp + 160], xmm10",
        "movaps [rsp + 176], xmm11",
        "movaps [rsp + 192], xmm12",
        "movaps [rsp + 208], xmm13",
        "movaps [rsp + 224], xmm14",
        "movaps [rsp + 240], xmm15",
        "call {answer}",
        "movaps xmm0, [rsp]",
        "movaps xmm1, [rsp + 16]",
        "movaps xmm2, [rsp + 32]",
        "movaps xmm3, [rsp + 48]",
        "movaps xmm4, [rsp + 64]",
        "movaps xmm5, [rsp + 80]",
        "movaps xmm6, [rsp + 96]",
        "movaps xmm7, [rsp + 112]",
        "movaps xmm8, [rsp + 128]",
        "movaps xmm9, [rsp + 144]",
        "movaps xmm10, [rsp + 160]",
        "movaps xmm11, [rsp + 176]",
        "movaps xmm12, [rsp + 192]",
        "movaps xmm13, [rsp + 208]",
        "movaps xmm14, [rsp + 224]",
        "movaps xmm15, [rsp + 240]",
        "lea rsp, [rbp - 48]",
        "pop rdi",
        "pop rsi",
        "pop rdx",
        "pop r10",
        "pop r8",
        "pop r9",
        "pop rbp",
        ".cfi_def_cfa rsp, 136",
        ".cfi_same_value rbp",
        "ret 128",
        ".cfi_endproc",
        answer = sym answer,
    )
}

/// What [`entry`] calls.
///
/// # Safety
///
/// As for libc's `syscall`.
unsafe extern "C-unwind" fn answer(number: c_long, arguments: &[c_long; 6]) -> c_long {
    let errno = saved_errno();
    // SAFETY: the program's call.
    let result = unsafe { raw_calls::inline(number, arguments) };
    // Whatever has run here meanwhile.
    set_errno(errno);
    result
}
