//! Resuming a preempted thread from its signal frame in user mode, without `rt_sigreturn`.
//!
//! The kernel has put a `ucontext` and an XSAVE area below the interrupted stack pointer (and its
//! 128-byte red zone). [`resume`] reloads everything from there:
//!
//! ```text
//!   user_rsp - 0      the interrupted thread's stack
//!   user_rsp - 128    end of its red zone (must not be written)
//!   user_rsp - 136    rip   \  written by us over the end of the XSAVE area,
//!   user_rsp - 144    rflags } which has been read by then
//!   user_rsp - 152    rdi   /
//!   ...               XSAVE area, ucontext, handler's frame  <- rsp on entry
//! ```
//!
//! `rsp` is loaded last and in one step (the frame's `rsp` field is lowered by 152 for that): a
//! nested signal writes from `rsp - 128` downwards and must at no instruction find something below
//! that is still needed. `ret 128` takes `rip` and steps over the red zone. Signal masks are not
//! touched, which is right because the handler is installed with `SA_NODEFER` and an empty mask.
//! (Under CET shadow stacks `ret` would fault; no runtime is built there.)
//!
//! The thread's gate is opened here and not by the handler: from the first instruction that finds
//! it open to the last of the resume, addresses lie in [`range`]. A preemption in between would
//! switch the thread out although the code that it was interrupted in may not be. Who finds on
//! opening that a nested signal has left its flag closes the gate again and returns. [`sigreturn`]
//! does the same before `rt_sigreturn`.
//!
//! At each instruction the unwinding tables say where the interrupted thread's registers are, so a
//! backtrace begins where that was interrupted, as it does in the kernel's trampoline for signals.
//!
//! Saves about 0.5 µs against `rt_sigreturn`, and never installs one carrier's alternate stack on
//! another.
//!
//! AMX: the kernel gives a kernel thread room for tiles when it uses them for the first time
//! (`XFD`). `xrstor` of tiles on a carrier that has none yet counts as use: the kernel makes room,
//! and the instruction is repeated. `rt_sigreturn` there would drop the tiles, and, the frame being
//! larger than that carrier's are, all of AVX with them. So frames with tiles are always resumed
//! here.

use crate::thread::control::{Uthread, deferred};
use core::ffi::c_void;
use core::mem::offset_of;

const GREGS: usize =
    offset_of!(libc::ucontext_t, uc_mcontext) + offset_of!(libc::mcontext_t, gregs);

const fn greg(i: i32) -> usize {
    GREGS + 8 * i as usize
}

const FPREGS: usize =
    offset_of!(libc::ucontext_t, uc_mcontext) + offset_of!(libc::mcontext_t, fpregs);

/// Offset of `fpx_sw_bytes` in the legacy FXSAVE region (kernel ABI, `asm/sigcontext.h`): `magic1`
/// first, then `extended_size`, then the 64-bit mask of saved state components.
const SW_BYTES: usize = 464;
const SW_SIZE: usize = SW_BYTES + 4;
const SW_XFEATURES: usize = SW_BYTES + 8;
/// Value of `fpx_sw_bytes.magic1` when an XSAVE area follows (`FP_XSTATE_MAGIC1`).
const FP_XSTATE_MAGIC1: u32 = 0x4650_5853;

/// Does the frame carry an XSAVE area that [`resume`] can reload? (Without XSAVE the kernel writes
/// FXSAVE only.)
///
/// # Safety
///
/// `uc` points to a signal frame's context.
pub(crate) unsafe fn can_resume(uc: *const libc::ucontext_t) -> bool {
    // SAFETY: the kernel filled the frame; fpregs is null or points to at least a legacy FXSAVE
    // region.
    unsafe {
        let fp = (*uc).uc_mcontext.fpregs as *const u8;
        !fp.is_null() && fp.add(SW_BYTES).cast::<u32>().read_unaligned() == FP_XSTATE_MAGIC1
    }
}

/// How long what the frame has of the floating-point registers is.
///
/// # Safety
///
/// As for [`can_resume`]; there is an area.
pub(crate) unsafe fn area_size(uc: *const libc::ucontext_t) -> usize {
    // SAFETY: the caller's contract.
    unsafe {
        if !can_resume(uc) {
            return size_of::<libc::_libc_fpstate>();
        }
        let fp = (*uc).uc_mcontext.fpregs as *const u8;
        fp.add(SW_SIZE).cast::<u32>().read_unaligned() as usize
    }
}

/// The tiles of AMX (`XFEATURE_XTILEDATA`).
const TILES: u64 = 1 << 18;

/// Does the frame have room for AMX tiles? That is so if the carrier on which it was written has
/// used some before.
///
/// # Safety
///
/// As for [`can_resume`], which was true.
pub(crate) unsafe fn has_tiles(uc: *const libc::ucontext_t) -> bool {
    // SAFETY: there is a whole XSAVE area, and what the kernel says about it.
    unsafe {
        let fp = (*uc).uc_mcontext.fpregs as *const u8;
        fp.add(SW_XFEATURES).cast::<u64>().read_unaligned() & TILES != 0
    }
}

/// Offsets in the thread's control block.
const NO_PREEMPT: usize = offset_of!(Uthread, no_preempt);
const REGIONS: usize = offset_of!(Uthread, regions);
const DEFERRED: usize = offset_of!(Uthread, deferred);
/// The state that nobody has seen yet; one that is greater has been.
pub(super) const ASKED: u8 = deferred::ASKED;
const _: () = assert!(deferred::NONE < ASKED && ASKED < deferred::KEPT);

/// Says that a register of the interrupted thread is in the signal frame's context, to which `rdi`
/// points (`DW_CFA_expression`: at `DW_OP_breg5 offset`, a SLEB128 of two bytes).
macro_rules! in_context {
    ($($number:literal $name:literal)*) => {
        concat!($(
            ".cfi_escape 0x10, ", $number, ", 3, 0x75, {", $name, "} % 128 + 128, {", $name,
            "} / 128\n",
        )*)
    };
}

/// Describes the interrupted thread as who was interrupted in the code at hand, while `rdi` points
/// to its context. The CFA is its `rsp` (`DW_CFA_def_cfa_expression`: `DW_OP_breg5 offset,
/// DW_OP_deref`).
macro_rules! interrupted_thread {
    () => {
        concat!(
            ".cfi_signal_frame\n",
            ".cfi_escape 0x0f, 4, 0x75, {rsp} % 128 + 128, {rsp} / 128, 0x06\n",
            in_context!(0 "rax" 1 "rdx" 2 "rcx" 3 "rbx" 4 "rsi" 5 "rdi" 6 "rbp" 8 "r8" 9 "r9"
                10 "r10" 11 "r11" 12 "r12" 13 "r13" 14 "r14" 15 "r15" 16 "rip"),
        )
    };
}

core::arch::global_asm!(
    ".pushsection .text.quaver_resume, \"ax\", @progbits",
    ".globl quaver_resume",
    ".hidden quaver_resume",
    ".type quaver_resume, @function",
    "quaver_resume:",
        ".cfi_startproc",
        interrupted_thread!(),
        super::open_gate!(),
        "mov rsi, [rdi + {fpregs}]",
        "mov eax, [rsi + {xfeatures}]",
        "mov edx, [rsi + {xfeatures} + 4]",
        "xrstor64 [rsi]",
        "mov rax, [rdi + {rsp}]",
        "mov rcx, [rdi + {rdi}]",
        "mov [rax - 152], rcx",
        "mov rcx, [rdi + {efl}]",
        "mov [rax - 144], rcx",
        "mov rcx, [rdi + {rip}]",
        "mov [rax - 136], rcx",
        "sub rax, 152",
        "mov [rdi + {rsp}], rax",
        // The CFA is 152 above it (DW_OP_plus_uconst).
        ".cfi_escape 0x0f, 7, 0x75, {rsp} % 128 + 128, {rsp} / 128, 0x06, 0x23, 0x98, 0x01",
        "mov r8, [rdi + {r8}]",
        "mov r9, [rdi + {r9}]",
        "mov r10, [rdi + {r10}]",
        "mov r11, [rdi + {r11}]",
        "mov r12, [rdi + {r12}]",
        "mov r13, [rdi + {r13}]",
        "mov r14, [rdi + {r14}]",
        "mov r15, [rdi + {r15}]",
        "mov rbp, [rdi + {rbp}]",
        "mov rbx, [rdi + {rbx}]",
        "mov rsi, [rdi + {rsi}]",
        "mov rdx, [rdi + {rdx}]",
        "mov rcx, [rdi + {rcx}]",
        "mov rax, [rdi + {rax}]",
        "mov rsp, [rdi + {rsp}]",
        ".irp register, rax, rcx, rdx, rbx, rbp, rsi, r8, r9, r10, r11, r12, r13, r14, r15",
        ".cfi_same_value \\register",
        ".endr",
        ".cfi_def_cfa rsp, 152",
        ".cfi_offset rdi, -152",
        ".cfi_offset rip, -136",
        "pop rdi",
        ".cfi_def_cfa_offset 144",
        ".cfi_same_value rdi",
        "popfq",
        ".cfi_def_cfa_offset 136",
        "ret 128",
        ".cfi_endproc",
        ".size quaver_resume, . - quaver_resume",
    ".globl quaver_sigreturn",
    ".hidden quaver_sigreturn",
    ".type quaver_sigreturn, @function",
    "quaver_sigreturn:",
        ".cfi_startproc",
        interrupted_thread!(),
        super::open_gate!(),
        // Where the kernel finds rsp after the trampoline's return address has been popped: at the
        // ucontext.
        "mov rsp, rdi",
        "mov eax, {rt_sigreturn}",
        "syscall",
        "ud2",
        ".cfi_endproc",
        ".size quaver_sigreturn, . - quaver_sigreturn",
        ".globl quaver_resume_end",
        ".hidden quaver_resume_end",
        "quaver_resume_end:",
    ".popsection",
        no_preempt = const NO_PREEMPT,
        regions = const REGIONS,
        deferred = const DEFERRED,
        asked = const ASKED,
        rt_sigreturn = const libc::SYS_rt_sigreturn,
        fpregs = const FPREGS,
        xfeatures = const SW_XFEATURES,
        rsp = const greg(libc::REG_RSP),
        rdi = const greg(libc::REG_RDI),
        efl = const greg(libc::REG_EFL),
        rip = const greg(libc::REG_RIP),
        r8 = const greg(libc::REG_R8),
        r9 = const greg(libc::REG_R9),
        r10 = const greg(libc::REG_R10),
        r11 = const greg(libc::REG_R11),
        r12 = const greg(libc::REG_R12),
        r13 = const greg(libc::REG_R13),
        r14 = const greg(libc::REG_R14),
        r15 = const greg(libc::REG_R15),
        rbp = const greg(libc::REG_RBP),
        rbx = const greg(libc::REG_RBX),
        rsi = const greg(libc::REG_RSI),
        rdx = const greg(libc::REG_RDX),
        rcx = const greg(libc::REG_RCX),
        rax = const greg(libc::REG_RAX),
);

unsafe extern "C" {
    fn quaver_resume(uc: *const libc::ucontext_t, t: *const c_void, gate: u32);
    fn quaver_sigreturn(uc: *const libc::ucontext_t, t: *const c_void, gate: u32);
    static quaver_resume_end: u8;
}

/// Sets the gate of `t` to `gate` and continues the thread that was interrupted with context `uc`.
/// Returns only if a flag was found on the thread, with the gate closed.
///
/// # Safety
///
/// * `uc` is the context of a signal frame on the current stack, above `rsp`, with [`can_resume`]
///   true.
/// * `t` is the interrupted thread and the calling one, with its gate closed; its `fs` is in place.
#[inline(always)]
pub(crate) unsafe fn resume(uc: *const libc::ucontext_t, t: &Uthread, gate: u32) {
    // SAFETY: handed on.
    unsafe { quaver_resume(uc, core::ptr::from_ref(t).cast(), gate) }
}

/// As [`resume`], by `rt_sigreturn`.
///
/// # Safety
///
/// As for [`resume`]; `uc` is the context that the kernel gave to a handler that has not returned.
#[inline(always)]
pub(crate) unsafe fn sigreturn(uc: *const libc::ucontext_t, t: &Uthread, gate: u32) {
    // SAFETY: handed on.
    unsafe { quaver_sigreturn(uc, core::ptr::from_ref(t).cast(), gate) }
}

/// Addresses inside the assembly of [`resume`] and [`sigreturn`], where a thread is half restored
/// and must not be preempted.
pub(crate) fn range() -> core::ops::Range<usize> {
    (quaver_resume as *const () as usize)..(&raw const quaver_resume_end as usize)
}
