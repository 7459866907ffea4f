//! Where a probe in instrumented code enters, when somebody waits for the thread to stop.
//!
//! `quaver-probes` puts a look at a word of the thread control block into each loop. Where nobody
//! fills the words, they are 0 and nothing happens. Where they lie, and what an entry finds, is in
//! [`quaver_probe_abi`].
//!
//! Stack of an entry, from the interrupted code downwards:
//!
//! ```text
//!   128 bytes     red zone
//!   mask          what lives, by the stub
//!   return        into the stub
//!   rflags, rax, rcx, rdx, rsi, rdi, r8-r11, rbp      <- rbp
//!   vector registers that live, aligned to 64         <- rsp at the call
//! ```
//!
//! The general registers that a call preserves, and the control words, are the context switch's
//! affair. A signal may come at any instruction: all is on the thread's own stack.

use core::arch::{global_asm, x86_64::__cpuid_count};
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

use quaver_probe_abi::VectorClass;

/// Offset from `fs` of the word that probes look at.
pub(crate) const WORD: usize = quaver_probe_abi::WORD as usize;
/// Of the countdown.
pub(crate) const PASSES: usize = quaver_probe_abi::COUNTDOWN as usize;
/// Of the first entry.
const ENTRIES: usize = quaver_probe_abi::ENTRIES as usize;

/// What an XSAVE area takes on this CPU, for everything that the kernel has switched on.
static XSAVE_SIZE: AtomicU32 = AtomicU32::new(0);

/// Fills the entries of a thread's control block. The word stays 0.
///
/// # Safety
///
/// `tp` is the thread pointer of a block that no thread runs on.
pub(crate) unsafe fn prepare(tp: usize) {
    if XSAVE_SIZE.load(Relaxed) == 0 {
        // Leaf 13: the size for all components enabled in XCR0. Every CPU with AVX has it; without
        // it no probe with vector registers is met that needs more than FXSAVE.
        XSAVE_SIZE.store(__cpuid_count(13, 0).ebx.max(576), Relaxed);
    }
    let wide: unsafe extern "C" fn() =
        if is_x86_feature_detected!("avx512bw") { quaver_probe_zmm } else { quaver_probe_all };
    let entries = [quaver_probe_none, quaver_probe_xmm, quaver_probe_ymm, wide, quaver_probe_all];
    // SAFETY: the caller's contract; reserved words of the control block.
    unsafe { ((tp + ENTRIES) as *mut [unsafe extern "C" fn(); VectorClass::COUNT]).write(entries) };
}

/// An entry that keeps what `$save` stores and `$restore` loads, in `$bytes` on the stack.
macro_rules! entry {
    (
        $name:literal,
        $bytes:literal,
        [$($save:literal),*],
        [$($restore:literal),*]
        $(, $($more:tt)*)?
    ) => {
        global_asm!(
            concat!(".pushsection .text.", $name, ", \"ax\", @progbits"),
            concat!(".globl ", $name),
            concat!(".hidden ", $name),
            concat!(".type ", $name, ", @function"),
            concat!($name, ":"),
                ".cfi_startproc",
                "endbr64",
                "pushfq", ".cfi_adjust_cfa_offset 8",
                "push rax", ".cfi_adjust_cfa_offset 8",
                "push rcx", ".cfi_adjust_cfa_offset 8",
                "push rdx", ".cfi_adjust_cfa_offset 8",
                "push rsi", ".cfi_adjust_cfa_offset 8",
                "push rdi", ".cfi_adjust_cfa_offset 8",
                "push r8", ".cfi_adjust_cfa_offset 8",
                "push r9", ".cfi_adjust_cfa_offset 8",
                "push r10", ".cfi_adjust_cfa_offset 8",
                "push r11", ".cfi_adjust_cfa_offset 8",
                "push rbp", ".cfi_adjust_cfa_offset 8",
                ".cfi_rel_offset rbp, 0",
                "mov rbp, rsp",
                ".cfi_def_cfa_register rbp",
                $bytes,
                "and rsp, -64",
                $($save,)*
                "cld",
                "call {on_probe}",
                $($restore,)*
                "mov rsp, rbp",
                ".cfi_def_cfa_register rsp",
                "pop rbp", ".cfi_adjust_cfa_offset -8",
                ".cfi_restore rbp",
                "pop r11", ".cfi_adjust_cfa_offset -8",
                "pop r10", ".cfi_adjust_cfa_offset -8",
                "pop r9", ".cfi_adjust_cfa_offset -8",
                "pop r8", ".cfi_adjust_cfa_offset -8",
                "pop rdi", ".cfi_adjust_cfa_offset -8",
                "pop rsi", ".cfi_adjust_cfa_offset -8",
                "pop rdx", ".cfi_adjust_cfa_offset -8",
                "pop rcx", ".cfi_adjust_cfa_offset -8",
                "pop rax", ".cfi_adjust_cfa_offset -8",
                "popfq", ".cfi_adjust_cfa_offset -8",
                "ret",
                ".cfi_endproc",
            concat!(".size ", $name, ", . - ", $name),
            ".popsection",
            on_probe = sym crate::preempt::on_probe,
            $($($more)*)?
        );
    };
}

entry!("quaver_probe_none", "sub rsp, 0", [], []);

entry!(
    "quaver_probe_xmm",
    "sub rsp, 256",
    [
        ".irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15",
        "movaps [rsp + 16 * \\n], xmm\\n",
        ".endr"
    ],
    [
        ".irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15",
        "movaps xmm\\n, [rsp + 16 * \\n]",
        ".endr"
    ]
);

entry!(
    "quaver_probe_ymm",
    "sub rsp, 512",
    [
        ".irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15",
        "vmovaps [rsp + 32 * \\n], ymm\\n",
        ".endr",
        "vzeroupper"
    ],
    [
        ".irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15",
        "vmovaps ymm\\n, [rsp + 32 * \\n]",
        ".endr"
    ]
);

entry!(
    "quaver_probe_zmm",
    "sub rsp, 2112",
    [
        ".irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15",
        "vmovaps [rsp + 64 * \\n], zmm\\n",
        ".endr",
        ".irp n, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31",
        "vmovaps [rsp + 64 * \\n], zmm\\n",
        ".endr",
        ".irp n, 0, 1, 2, 3, 4, 5, 6, 7",
        "kmovq [rsp + 2048 + 8 * \\n], k\\n",
        ".endr",
        "vzeroupper"
    ],
    [
        ".irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15",
        "vmovaps zmm\\n, [rsp + 64 * \\n]",
        ".endr",
        ".irp n, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31",
        "vmovaps zmm\\n, [rsp + 64 * \\n]",
        ".endr",
        ".irp n, 0, 1, 2, 3, 4, 5, 6, 7",
        "kmovq k\\n, [rsp + 2048 + 8 * \\n]",
        ".endr"
    ]
);

entry!(
    "quaver_probe_all",
    "mov eax, [rip + {size}]\nsub rsp, rax",
    [
        // The header must be 0 where XSAVE does not write it.
        "xor eax, eax",
        ".irp n, 0, 1, 2, 3, 4, 5, 6, 7",
        "mov [rsp + 512 + 8 * \\n], rax",
        ".endr",
        "mov eax, -1",
        "mov edx, -1",
        "xsave64 [rsp]",
        // What is called finds an empty x87 stack.
        "fninit"
    ],
    ["mov eax, -1", "mov edx, -1", "xrstor64 [rsp]"],
    size = sym XSAVE_SIZE,
);

unsafe extern "C" {
    fn quaver_probe_none();
    fn quaver_probe_xmm();
    fn quaver_probe_ymm();
    fn quaver_probe_zmm();
    fn quaver_probe_all();
}
