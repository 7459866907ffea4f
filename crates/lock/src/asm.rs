//! The instructions that decide who is in the critical section, and the windows around them.
//!
//! They are in assembly for two reasons: the monitor must know the address from which a thread
//! holds a lock, and the register that says so. (FlexGuard 3.1, Listing 1.) All are leaf functions
//! of the C calling convention. None has a stack frame, so the canonical frame address stays
//! `rsp + 8`.
//!
//! Offsets, checked at compile time below: `Cell` held 0, node 8, last 32; `Node` place 0, next 8,
//! lock 16. The kernel program uses them, too.

use crate::cell::Cell;
use crate::node::Node;
use std::mem::offset_of;
use std::sync::atomic::AtomicU32;

std::arch::global_asm!(
    // A thread's cell: zero at its start, at a fixed distance from its thread pointer.
    ".section .tbss.quaver_lock, \"awT\", @nobits",
    ".balign 64",
    ".hidden quaver_lock_cell",
    ".globl quaver_lock_cell",
    ".type quaver_lock_cell, @object",
    ".size quaver_lock_cell, 64",
    "quaver_lock_cell:",
    ".zero 64",
    ".section .text.quaver_lock, \"ax\", @progbits",
    ".balign 64",
    ".hidden quaver_lock_text",
    ".globl quaver_lock_text",
    "quaver_lock_text:",
    // u32 try(u32 *rdi word): takes the word if it is 0. Returns what it was.
    ".hidden quaver_lock_try",
    ".globl quaver_lock_try",
    ".type quaver_lock_try, @function",
    "quaver_lock_try:",
    ".cfi_startproc",
    "mov eax, dword ptr [rdi]",
    "test eax, eax",
    "jne 2f",
    "mov ecx, 1",
    "lock cmpxchg dword ptr [rdi], ecx",
    ".Lquaver_lock_try_decided:", // eax = 0: ours
    "jne 2f",
    "mov rcx, qword ptr [rip + quaver_lock_cell@gottpoff]",
    "mov qword ptr fs:[rcx + 32], rdi",
    "inc dword ptr fs:[rcx]",
    ".Lquaver_lock_try_counted:",
    "2:",
    "ret",
    ".cfi_endproc",
    ".size quaver_lock_try, . - quaver_lock_try",
    // u32 mark(u32 *rdi word): sets the word to 2. Returns what it was; 0 means that it is ours.
    ".balign 16",
    ".hidden quaver_lock_mark",
    ".globl quaver_lock_mark",
    ".type quaver_lock_mark, @function",
    "quaver_lock_mark:",
    ".cfi_startproc",
    "mov eax, 2",
    "xchg dword ptr [rdi], eax",
    ".Lquaver_lock_mark_decided:", // eax = 0: ours
    "test eax, eax",
    "jne 2f",
    "mov rcx, qword ptr [rip + quaver_lock_cell@gottpoff]",
    "mov qword ptr fs:[rcx + 32], rdi",
    "inc dword ptr fs:[rcx]",
    ".Lquaver_lock_mark_counted:",
    "2:",
    "ret",
    ".cfi_endproc",
    ".size quaver_lock_mark, . - quaver_lock_mark",
    // u32 release(u32 *rdi word): sets the word to 0. Returns what it was.
    ".balign 16",
    ".hidden quaver_lock_release",
    ".globl quaver_lock_release",
    ".type quaver_lock_release, @function",
    "quaver_lock_release:",
    ".cfi_startproc",
    "mov rcx, qword ptr [rip + quaver_lock_cell@gottpoff]",
    "dec dword ptr fs:[rcx]",
    ".Lquaver_lock_release_uncounted:",
    "xor eax, eax",
    "xchg dword ptr [rdi], eax",
    ".Lquaver_lock_release_decided:",
    "ret",
    ".cfi_endproc",
    ".size quaver_lock_release, . - quaver_lock_release",
    // u32 enqueue(u32 *rdi tail, Node *rsi, u32 edx handle): joins the queue. Returns the handle of
    // the one before, or 0: first.
    ".balign 16",
    ".hidden quaver_lock_enqueue",
    ".globl quaver_lock_enqueue",
    ".type quaver_lock_enqueue, @function",
    "quaver_lock_enqueue:",
    ".cfi_startproc",
    "mov qword ptr [rsi + 8], 0",
    "mov dword ptr [rsi], 1",
    ".Lquaver_lock_enqueue_placed:",
    "mov eax, edx",
    "xchg dword ptr [rdi], eax",
    ".Lquaver_lock_enqueue_decided:", // eax = 0: first
    "test eax, eax",
    "jne 2f",
    "mov dword ptr [rsi], 2",
    "2:",
    "ret",
    ".cfi_endproc",
    ".size quaver_lock_enqueue, . - quaver_lock_enqueue",
    // u32 dequeue(u32 *rdi tail, Node *rsi, u32 edx handle): leaves the queue if nobody is behind.
    // Returns 1 if so, else 0.
    ".balign 16",
    ".hidden quaver_lock_dequeue",
    ".globl quaver_lock_dequeue",
    ".type quaver_lock_dequeue, @function",
    "quaver_lock_dequeue:",
    ".cfi_startproc",
    "mov eax, edx",
    "xor ecx, ecx",
    "lock cmpxchg dword ptr [rdi], ecx",
    ".Lquaver_lock_dequeue_decided:", // ZF: left
    "jne 2f",
    "mov dword ptr [rsi], 0",
    ".Lquaver_lock_dequeue_counted:",
    "mov eax, 1",
    "ret",
    "2:",
    "xor eax, eax",
    "ret",
    ".cfi_endproc",
    ".size quaver_lock_dequeue, . - quaver_lock_dequeue",
    // void pass(Node *rdi next, Node *rsi own): the next is first if it waits; we are in no queue.
    ".balign 16",
    ".hidden quaver_lock_pass",
    ".globl quaver_lock_pass",
    ".type quaver_lock_pass, @function",
    "quaver_lock_pass:",
    ".cfi_startproc",
    "mov eax, 1",
    "mov ecx, 2",
    "lock cmpxchg dword ptr [rdi], ecx",
    ".Lquaver_lock_pass_decided:",
    "mov dword ptr [rsi], 0",
    ".Lquaver_lock_pass_counted:",
    "ret",
    ".cfi_endproc",
    ".size quaver_lock_pass, . - quaver_lock_pass",
    ".hidden quaver_lock_text_end",
    ".globl quaver_lock_text_end",
    "quaver_lock_text_end:",
    // `Window` by `Window`: start, end, what, register, mask, value.
    ".section .rodata.quaver_lock, \"a\", @progbits",
    ".balign 4",
    ".hidden quaver_lock_windows",
    ".globl quaver_lock_windows",
    "quaver_lock_windows:",
    ".long .Lquaver_lock_try_decided - quaver_lock_text",
    ".long .Lquaver_lock_try_counted - quaver_lock_text",
    ".long 1, 1, 0xffffffff, 0",
    ".long .Lquaver_lock_mark_decided - quaver_lock_text",
    ".long .Lquaver_lock_mark_counted - quaver_lock_text",
    ".long 1, 1, 0xffffffff, 0",
    ".long .Lquaver_lock_release_uncounted - quaver_lock_text",
    ".long .Lquaver_lock_release_decided - quaver_lock_text",
    ".long 1, 0, 0, 0",
    ".long .Lquaver_lock_enqueue_placed - quaver_lock_text",
    ".long .Lquaver_lock_enqueue_decided - quaver_lock_text",
    ".long 2, 0, 0, 0",
    ".long .Lquaver_lock_dequeue_decided - quaver_lock_text",
    ".long .Lquaver_lock_dequeue_counted - quaver_lock_text",
    ".long 2, 2, 0x40, 0x40",
    ".long .Lquaver_lock_pass_decided - quaver_lock_text",
    ".long .Lquaver_lock_pass_counted - quaver_lock_text",
    ".long 2, 0, 0, 0",
    ".text",
);

const _: () = {
    assert!(offset_of!(Cell, held) == 0 && offset_of!(Cell, node) == 8);
    assert!(offset_of!(Cell, last) == 32);
    assert!(offset_of!(Node, place) == 0 && offset_of!(Node, next) == 8);
    assert!(offset_of!(Node, lock) == 16);
    assert!(size_of::<Cell>() == 64);
};

unsafe extern "C" {
    #[link_name = "quaver_lock_try"]
    pub(crate) fn try_word(word: &AtomicU32) -> u32;
    #[link_name = "quaver_lock_mark"]
    pub(crate) fn mark(word: &AtomicU32) -> u32;
    #[link_name = "quaver_lock_release"]
    pub(crate) fn release(word: &AtomicU32) -> u32;
    #[link_name = "quaver_lock_enqueue"]
    pub(crate) fn enqueue(tail: &AtomicU32, node: &Node, handle: u32) -> u32;
    #[link_name = "quaver_lock_dequeue"]
    pub(crate) fn dequeue(tail: &AtomicU32, node: &Node, handle: u32) -> u32;
    #[link_name = "quaver_lock_pass"]
    pub(crate) fn pass(next: &Node, own: &Node);
    #[link_name = "quaver_lock_text"]
    static TEXT: u8;
    #[link_name = "quaver_lock_text_end"]
    static TEXT_END: u8;
    #[link_name = "quaver_lock_windows"]
    static WINDOWS: [Window; WINDOW_COUNT];
}

/// How many windows there are.
pub const WINDOW_COUNT: usize = 6;

/// Names of the windows, in their order.
pub const WINDOW_NAMES: [&str; WINDOW_COUNT] =
    ["TRY", "MARK", "RELEASE", "ENQUEUE", "DEQUEUE", "PASS"];

/// Addresses at which a thread's cell does not say whether it is in a critical section.
///
/// The instruction that a thread executes next is at `start` or behind it, and before `end`; and
/// `register & mask == value`. Addresses are relative to [`text`]. (FlexGuard, Listing 1.)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Window {
    /// The first address.
    pub start: u32,
    /// The address behind the last one.
    pub end: u32,
    /// [`Window::IN`] or [`Window::OUT`].
    pub what: u32,
    /// 0: any; 1: `eax`; 2: the flags.
    pub register: u32,
    /// Which bits of the register count.
    pub mask: u32,
    /// What these bits are.
    pub value: u32,
}

impl Window {
    /// The thread is in a critical section, though its cell does not say so.
    pub const IN: u32 = 1;
    /// The thread is in no queue, though its node says so.
    pub const OUT: u32 = 2;
}

/// The windows of this copy of the code.
pub fn windows() -> &'static [Window; WINDOW_COUNT] {
    // SAFETY: constant data of the layout of `Window`, in the assembly above.
    unsafe { &WINDOWS }
}

/// The range of addresses that holds the code of the windows.
pub fn text() -> std::ops::Range<u64> {
    // Addresses of labels: nothing is read there.
    (&raw const TEXT) as u64..(&raw const TEXT_END) as u64
}
