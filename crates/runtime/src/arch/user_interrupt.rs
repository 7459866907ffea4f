//! Where user interrupts enter, how a thread that one has interrupted goes on, and the
//! instructions.
//!
//! The processor clears UIF, steps over the red zone (UISTACKADJUST is 128), aligns the stack,
//! pushes four words and jumps to [`entry`](entry()). Everything else is as the interrupted code
//! had it: all registers, the direction flag, the x87 state. So the entry saves all of it before
//! compiled code runs:
//!
//! ```text
//!   interrupted rsp - 128     end of the red zone
//!   frame + 152   rsp      \
//!   frame + 144   rflags    } pushed by the processor, on a multiple of 16
//!   frame + 136   rip      /
//!   frame + 128   vector
//!   frame + 120   rax        pushed by the entry: rax rcx rdx rbx rbp rsi rdi r8 .. r15
//!   ...
//!   frame + 8     r15
//!   frame + 0     address of the XSAVE area                        <- rbx while the handler runs
//!   ...           XSAVE area, on a multiple of 64
//!   ...           the handler's frames                             <- rsp
//! ```
//!
//! The canonical frame address is `frame + 160`, from `rsp` at first and from `rbx` later, so
//! debuggers and profilers unwind through the entry at each of its instructions.
//!
//! UIF is 0 from the delivery to the `stui` behind the closed gate, which comes only where this
//! entry has closed it. It is 0 again from a `clui` before the gate is opened to the `uiret`. So
//! the handler may switch with UIF as 1, a user interrupt that meets it runs to its end with UIF as
//! 0, and no third one nests, however often a timer ticks. Signals may come at any instruction.
//! They find an address in [`range`] until the gate is closed, a closed gate after that, and an
//! address in [`range`] again when it has been opened: they defer everywhere.
//!
//! A handler of the program may interrupt the entry and switch there, with UIF as 0. That carrier
//! gets no user interrupt until the signal that follows sets the flag
//! ([`allow`](crate::preempt::user_interrupt::allow)).
//!
//! The way back: the gate is opened as in [`resume`](super::resume), then come `xrstor`, moves and
//! `uiret`. That takes address, flags, stack pointer and UIF in one step, on whatever carrier the
//! thread goes on, and needs nothing below the interrupted stack pointer.

use crate::arch::segment::GS_CURRENT;
use crate::thread::control::Uthread;
use core::arch::x86_64::__cpuid_count;
use core::ffi::c_void;
use core::mem::offset_of;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

/// What the entry leaves on the stack.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Saved {
    area: *mut u8,
    /// r15 to r8, rdi, rsi, rbp, rbx, rdx, rcx, rax.
    pub(crate) general: [i64; 15],
    /// Which of the 64 user vectors.
    pub(crate) vector: u64,
    pub(crate) rip: u64,
    pub(crate) rflags: u64,
    pub(crate) rsp: u64,
}

const _: () = assert!(offset_of!(Saved, vector) == 128 && size_of::<Saved>() == 160);

/// Places in [`Saved::general`].
pub(crate) mod place {
    pub(crate) const R10: usize = 5;
    pub(crate) const R9: usize = 6;
    pub(crate) const R8: usize = 7;
    pub(crate) const RDI: usize = 8;
    pub(crate) const RSI: usize = 9;
    pub(crate) const RDX: usize = 12;
    pub(crate) const RAX: usize = 14;
}

/// How far below the interrupted stack pointer the processor begins: the red zone.
pub(crate) const STACK_ADJUST: u64 = 128;

/// Bytes of an XSAVE area with everything that the system has switched on.
static AREA: AtomicUsize = AtomicUsize::new(0);
/// `xsavec`, or `xsave` where there is none.
static COMPACT: AtomicBool = AtomicBool::new(false);
/// Has the processor AVX, whose upper halves the handler had better not find in use?
static AVX: AtomicBool = AtomicBool::new(false);
/// `senduipi`, `clui` and `stui` are marked `ud2`s: the processor would run an encoding as
/// something else.
static MARKED: AtomicBool = AtomicBool::new(false);
/// MXCSR as the C ABI has it at the start of a program.
static MXCSR: u32 = 0x1f80;

/// What the entry goes on with. It returns only without a thread.
type Handler = unsafe extern "C" fn(*mut Saved, Option<&'static Uthread>);

/// The address to register with the kernel. Looks what there is to save.
pub(crate) fn entry() -> usize {
    let _: Handler = crate::preempt::on_user_interrupt;
    let extended = __cpuid_count(0xd, 1);
    let compact = extended.eax & 2 != 0;
    // The compact size counts what the kernel has for itself, too: no less than is needed.
    let size = if compact { extended.ebx } else { __cpuid_count(0xd, 0).ebx } as usize;
    AREA.store(size.next_multiple_of(64), Relaxed);
    COMPACT.store(compact, Relaxed);
    AVX.store(std::arch::is_x86_feature_detected!("avx"), Relaxed);
    quaver_ui_enter as *const () as usize
}

/// Can registers be saved as the entry does it (`xsave`, switched on by the kernel)?
pub(crate) fn can_save() -> bool {
    const OSXSAVE: u32 = 1 << 27;
    __cpuid_count(1, 0).ecx & OSXSAVE != 0 && __cpuid_count(0, 0).eax >= 0xd
}

/// From now on `senduipi`, `clui` and `stui` are marked `ud2`s.
pub(crate) fn mark() {
    MARKED.store(true, Relaxed);
}

/// Where the marked `senduipi` (of `rdi`), `clui` and `stui` lie. Each has two bytes.
pub(crate) fn marked() -> [usize; 3] {
    let (send, clear, set) = (
        &raw const quaver_senduipi_marked,
        &raw const quaver_clui_marked,
        &raw const quaver_stui_marked,
    );
    [send, clear, set].map(|at| at as usize)
}

core::arch::global_asm!(
    ".pushsection .text.quaver_user_interrupt, \"ax\", @progbits",
    ".globl quaver_ui_enter",
    ".hidden quaver_ui_enter",
    ".type quaver_ui_enter, @function",
    "quaver_ui_enter:",
        ".cfi_startproc",
        ".cfi_signal_frame",
        ".cfi_def_cfa rsp, 32",
        ".cfi_offset rip, -24",
        ".cfi_offset rsp, -8",
        ".irp register, rax, rcx, rdx, rbx, rbp, rsi, rdi, r8, r9, r10, r11, r12, r13, r14, r15",
        "push \\register",
        ".cfi_adjust_cfa_offset 8",
        ".cfi_rel_offset \\register, 0",
        ".endr",
        // Room for the area's address.
        "push rax",
        ".cfi_adjust_cfa_offset 8",
        "mov rbx, rsp",
        ".cfi_def_cfa_register rbx",
        "cld",
        "mov rcx, gs:[{current}]",
        "test rcx, rcx",
        "jz 2f",
        "inc dword ptr [rcx + {no_preempt}]",
        "2:",
        "sub rsp, [rip + {area}]",
        "and rsp, -64",
        "mov [rbx], rsp",
        // The header, of which the instructions write a part and `xrstor` heeds all.
        "xor eax, eax",
        ".irp offset, 512, 520, 528, 536, 544, 552, 560, 568",
        "mov [rsp + \\offset], rax",
        ".endr",
        "mov eax, -1",
        "mov edx, -1",
        "cmp byte ptr [rip + {compact}], 0",
        "je 4f",
        "xsavec64 [rsp]",
        "5:",
        "fninit",
        "ldmxcsr [rip + {mxcsr}]",
        "cmp byte ptr [rip + {avx}], 0",
        "je 6f",
        "vzeroupper",
        "6:",
        "mov rdi, rbx",
        "mov rsi, rcx",
        "test rcx, rcx",
        "jz 7f",
        "cmp dword ptr [rcx + {no_preempt}], 1",
        "jne 7f",
        "call quaver_stui",
        "7:",
        "call {handler}",
        // There is no thread, and nothing to open.
        "mov rdi, rbx",
        "xor esi, esi",
        "jmp quaver_ui_resume",
        "4:",
        "xsave64 [rsp]",
        "jmp 5b",
        ".cfi_endproc",
        ".size quaver_ui_enter, . - quaver_ui_enter",
    ".globl quaver_ui_resume",
    ".hidden quaver_ui_resume",
    ".type quaver_ui_resume, @function",
    "quaver_ui_resume:",
        ".cfi_startproc",
        "test rsi, rsi",
        "jz 8f",
        "test edx, edx",
        "jnz 9f",
        "call quaver_clui",
        "9:",
        super::open_gate!(),
        "8:",
        ".cfi_undefined rip",
        "mov rcx, [rdi]",
        "mov eax, -1",
        "mov edx, -1",
        "xrstor64 [rcx]",
        // What lies below is not needed any more.
        "lea rsp, [rdi + 8]",
        ".irp register, r15, r14, r13, r12, r11, r10, r9, r8, rdi, rsi, rbp, rbx, rdx, rcx, rax",
        "pop \\register",
        ".endr",
        "lea rsp, [rsp + 8]",
        ".byte 0xf3, 0x0f, 0x01, 0xec", // uiret
        ".cfi_endproc",
        ".size quaver_ui_resume, . - quaver_ui_resume",
    ".globl quaver_ui_end",
    ".hidden quaver_ui_end",
    "quaver_ui_end:",
    // Instructions as functions, which change nothing but flags: themselves, or marked.
    ".macro quaver_instruction name, a, b",
    ".globl quaver_\\name",
    ".hidden quaver_\\name",
    ".type quaver_\\name, @function",
    "quaver_\\name:",
        ".cfi_startproc",
        "cmp byte ptr [rip + {marked}], 0",
        "jne quaver_\\name\\()_marked",
        ".byte 0xf3, 0x0f, \\a, \\b",
        "ret",
        ".globl quaver_\\name\\()_marked",
        ".hidden quaver_\\name\\()_marked",
        "quaver_\\name\\()_marked:",
        "ud2",
        "ret",
        ".cfi_endproc",
        ".size quaver_\\name, . - quaver_\\name",
    ".endm",
    "quaver_instruction senduipi, 0xc7, 0xf7", // of rdi: the entry of the UITT
    "quaver_instruction clui, 0x01, 0xee",
    "quaver_instruction stui, 0x01, 0xef",
    ".purgem quaver_instruction",
    ".popsection",
    current = const GS_CURRENT,
    no_preempt = const offset_of!(Uthread, no_preempt),
    regions = const offset_of!(Uthread, regions),
    deferred = const offset_of!(Uthread, deferred),
    asked = const super::resume::ASKED,
    area = sym AREA,
    compact = sym COMPACT,
    avx = sym AVX,
    mxcsr = sym MXCSR,
    marked = sym MARKED,
    handler = sym crate::preempt::on_user_interrupt,
);

unsafe extern "C" {
    fn quaver_ui_enter();
    fn quaver_ui_resume(frame: *mut Saved, t: *const c_void, gate: u32);
    static quaver_ui_end: u8;
    fn quaver_senduipi(index: u64);
    fn quaver_clui();
    fn quaver_stui();
    static quaver_senduipi_marked: u8;
    static quaver_clui_marked: u8;
    static quaver_stui_marked: u8;
}

/// Sets the gate of `t` to `gate` and continues the code that was interrupted with `frame`. Returns
/// only if a flag was found on the thread, with the gate closed and UIF as 1.
///
/// # Safety
///
/// `frame` is the one of an entry on the current stack that has not been left. `t` is the
/// interrupted thread and the calling one, with its gate closed; its `fs` is in place.
#[inline(always)]
pub(crate) unsafe fn resume(frame: *mut Saved, t: &Uthread, gate: u32) {
    // SAFETY: handed on. It has returned with the gate closed, on a carrier that was interrupted.
    unsafe {
        quaver_ui_resume(frame, core::ptr::from_ref(t).cast(), gate);
        stui();
    }
}

/// Addresses at which a thread is half saved or half restored and must not be preempted.
pub(crate) fn range() -> core::ops::Range<usize> {
    (quaver_ui_enter as *const () as usize)..(&raw const quaver_ui_end as usize)
}

/// Sends the user interrupt that entry `index` of the calling thread's UITT names.
///
/// # Safety
///
/// The calling kernel thread has a UITT with that entry, by the interface in use.
#[inline(always)]
pub(crate) unsafe fn senduipi(index: u64) {
    // SAFETY: changes no register; the caller's contract.
    unsafe { quaver_senduipi(index) }
}

/// User interrupts may come.
///
/// # Safety
///
/// User interrupts are switched on (CR4.UINTR), or emulated, and the calling thread's `gs` is a
/// carrier.
#[inline(always)]
pub(crate) unsafe fn stui() {
    // SAFETY: changes a flag that no compiled code sees.
    unsafe { quaver_stui() }
}

/// None come from now on.
///
/// # Safety
///
/// As for [`stui`].
#[inline(always)]
pub(crate) unsafe fn clui() {
    // SAFETY: as above.
    unsafe { quaver_clui() }
}
