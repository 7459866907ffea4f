//! The end of a thread in the middle of its work: `pthread_exit`, and cancellation.
//!
//! As in the C library, the stack is unwound by force (`_Unwind_ForcedUnwind`): destructors of C++
//! objects and cleanup handlers of code compiled with exceptions run on the way. C code without
//! exceptions registers its handlers as jump buffers (`pthread_cleanup_push` becomes
//! `__pthread_register_cancel`); when the unwinder reaches the frame of such a buffer, it jumps
//! there, the handler runs, and unwinding goes on. At the thread's first frame it ends with a jump
//! into [`call_with_base`].
//!
//! ```text
//!   runtime -> run (thread.rs) -> call_with_base -> begin -> start routine -> ... -> pthread_exit
//!                                      ^---------- unwinder <--------------------------'
//! ```
//!
//! `call_with_base` ends every backtrace, so an exception that nobody catches is found by the C++
//! runtime to have no handler (`std::terminate`), and the only Rust frame that is unwound is
//! `begin`'s, which has nothing to clean up. Handlers, which may end their thread, run inside it.

use crate::state::{Start, Thread};
use core::arch::{asm, naked_asm};
use core::cell::Cell;
use core::ffi::{c_int, c_void};
use core::ptr;

/// Stack pointer inside `call_with_base`.
#[repr(transparent)]
pub(crate) struct Base(Cell<usize>);

impl Base {
    pub(crate) const fn new() -> Base {
        Base(Cell::new(0))
    }
}

/// Calls `start(argument)`; also returns when [`jump_to_base`] is called meanwhile, with its value.
///
/// ```text
///   [base]  -> padding | r15 | r14 | r13 | r12 | rbx | rbp | return address
/// ```
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn call_with_base(
    start: Start,
    argument: *mut c_void,
    base: &Base,
) -> *mut c_void {
    naked_asm!(
        ".cfi_startproc",
        ".cfi_undefined rip",
        "push rbp",
        ".cfi_adjust_cfa_offset 8",
        "push rbx",
        "push r12",
        "push r13",
        "push r14",
        "push r15",
        "sub rsp, 8",
        ".cfi_adjust_cfa_offset 48",
        "mov [rdx], rsp",
        "mov rax, rdi",
        "mov rdi, rsi",
        "xor ebp, ebp",
        "call rax",
        "add rsp, 8",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop rbx",
        "pop rbp",
        "ret",
        ".cfi_endproc",
    )
}

/// Ends everything that `call_with_base` has called.
#[unsafe(naked)]
unsafe extern "C" fn jump_to_base(base: &Base, value: *mut c_void) -> ! {
    naked_asm!(
        "mov rsp, [rdi]",
        "mov rax, rsi",
        "add rsp, 8",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop rbx",
        "pop rbp",
        "ret",
    )
}

/// `__pthread_unwind_buf_t`: what `pthread_cleanup_push` puts on the stack. The jump buffer is
/// written by `__sigsetjmp`: rbx, rbp, r12 to r15, rsp, rip; rbp, rsp and rip are disguised.
#[repr(C)]
pub struct UnwindBuffer {
    jump: [usize; 8],
    mask_was_saved: c_int,
    previous: *mut UnwindBuffer,
    pad: [*mut c_void; 3],
}

const JUMP_RSP: usize = 6;

impl UnwindBuffer {
    /// The stack pointer of the frame that the buffer is in.
    fn rsp(&self) -> usize {
        let guard: usize;
        // SAFETY: the pointer guard of the calling thread's TLS block.
        unsafe { asm!("mov {}, fs:[0x30]", out(reg) guard, options(nostack, readonly)) };
        self.jump[JUMP_RSP].rotate_right(17) ^ guard
    }
}

#[repr(C, align(16))]
struct UnwindException {
    class: u64,
    cleanup: Option<extern "C" fn(c_int, *mut UnwindException)>,
    private: [u64; 6],
}

type Stop = unsafe extern "C-unwind" fn(
    c_int,
    c_int,
    u64,
    *mut UnwindException,
    *mut c_void,
    *mut c_void,
) -> c_int;

const UA_END_OF_STACK: c_int = 16;

unsafe extern "C-unwind" {
    fn _Unwind_ForcedUnwind(e: *mut UnwindException, stop: Stop, parameter: *mut c_void) -> c_int;
    fn _Unwind_GetCFA(context: *mut c_void) -> usize;
    fn _longjmp(buffer: *mut UnwindBuffer, value: c_int) -> !;
}

/// Asked by the unwinder before each frame.
unsafe extern "C-unwind" fn stop(
    _version: c_int,
    actions: c_int,
    _class: u64,
    _exception: *mut UnwindException,
    context: *mut c_void,
    thread: *mut c_void,
) -> c_int {
    // SAFETY: the calling thread's block, from `unwind`; the unwinder's context.
    let (t, frame) = unsafe { (&*thread.cast::<Thread>(), _Unwind_GetCFA(context)) };
    let end = actions & UA_END_OF_STACK != 0 || frame >= t.base.0.get();
    let buffer = t.cleanup.get();
    // SAFETY: a registered buffer is in a frame that is still there.
    if !buffer.is_null() && (end || frame >= unsafe { (*buffer).rsp() }) {
        // SAFETY: as above; frames below it have been cleaned up.
        unsafe { _longjmp(buffer, 1) }
    }
    if end {
        // SAFETY: the calling thread is inside `call_with_base`.
        unsafe { jump_to_base(&t.base, t.result.get()) }
    }
    0
}

/// Ends the calling thread, whose result has been stored.
pub(crate) fn unwind(t: &'static Thread) -> ! {
    let exception =
        Box::leak(Box::new(UnwindException { class: 0, cleanup: Some(done), private: [0; 6] }));
    // SAFETY: `stop` ends the unwinding; the exception lives.
    unsafe {
        _Unwind_ForcedUnwind(exception, stop, core::ptr::from_ref(t).cast_mut().cast());
        // Without unwind tables there is nothing to clean up but registered handlers.
        let buffer = t.cleanup.get();
        if !buffer.is_null() {
            _longjmp(buffer, 1);
        }
        jump_to_base(&t.base, t.result.get())
    }
}

extern "C" fn done(_reason: c_int, exception: *mut UnwindException) {
    // SAFETY: made by Box::leak above; called when somebody swallows the exception.
    drop(unsafe { Box::from_raw(exception) });
}

/// `pthread_cleanup_push` of C code.
///
/// # Safety
///
/// `buffer` is on the calling thread's stack until it is unregistered.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __pthread_register_cancel(buffer: *mut UnwindBuffer) {
    if let Some(me) = crate::state::me() {
        // SAFETY: the caller's contract.
        unsafe { (*buffer).previous = me.cleanup.get() };
        me.cleanup.set(buffer);
    }
}

/// `pthread_cleanup_pop` of C code.
///
/// # Safety
///
/// `buffer` is the one registered last.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __pthread_unregister_cancel(buffer: *mut UnwindBuffer) {
    if let Some(me) = crate::state::me() {
        // SAFETY: the caller's contract.
        me.cleanup.set(unsafe { (*buffer).previous });
    }
}

/// After a cleanup handler of C code has run.
///
/// # Safety
///
/// `buffer` is the one registered last, and the thread is ending.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __pthread_unwind_next(buffer: *mut UnwindBuffer) -> ! {
    // SAFETY: as for `__pthread_unregister_cancel`.
    unsafe { __pthread_unregister_cancel(buffer) };
    match crate::state::me() {
        Some(me) => unwind(me),
        None => crate::say::fatal(format_args!("a kernel thread ends inside a cleanup handler")),
    }
}

/// `struct _pthread_cleanup_buffer`: handlers that the C library registers for its own calls, which
/// no unwinder knows.
#[repr(C)]
pub(crate) struct OwnBuffer {
    routine: Option<unsafe extern "C-unwind" fn(*mut c_void)>,
    argument: *mut c_void,
    kind: c_int,
    previous: *mut OwnBuffer,
}

unsafe extern "C-unwind" {
    fn _pthread_cleanup_push(
        buffer: *mut OwnBuffer,
        routine: Option<unsafe extern "C-unwind" fn(*mut c_void)>,
        argument: *mut c_void,
    );
    fn _pthread_cleanup_pop(buffer: *mut OwnBuffer, execute: c_int);
}

/// The last of the calling thread's.
pub(crate) fn last_own_buffer() -> *mut OwnBuffer {
    let mut probe =
        OwnBuffer { routine: None, argument: ptr::null_mut(), kind: 0, previous: ptr::null_mut() };
    // SAFETY: taken out at once.
    unsafe {
        _pthread_cleanup_push(&mut probe, None, ptr::null_mut());
        _pthread_cleanup_pop(&mut probe, 0);
    }
    probe.previous
}

/// The calling thread is about to leave calls of the C library's: runs the handlers that these have
/// registered after `until`.
pub(crate) fn clean_up_own(until: *mut OwnBuffer) {
    loop {
        let last = last_own_buffer();
        if last == until || last.is_null() {
            return;
        }
        // SAFETY: registered, by a call in a frame that is still there.
        unsafe { _pthread_cleanup_pop(last, 1) };
    }
}
