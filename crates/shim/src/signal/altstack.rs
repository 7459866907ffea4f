//! Alternate stacks, one for each thread of the program.
//!
//! The kernel is not told of them: its alternate stack is the carrier's, on which the shim's own
//! handlers of faults run. A handler that wants the alternate stack is called on it by [`call_on`].
//! On it a thread may wait, but is not preempted: the runtime switches a thread out at an
//! instruction only on the stack that it has given it.

use super::managed;
use crate::real::real;
use crate::state::Thread;
use crate::sys;
use core::arch::naked_asm;
use core::ffi::{c_int, c_void};
use libc::{siginfo_t, stack_t};

/// An alternate stack; of size 0: none.
#[derive(Clone, Copy)]
pub(crate) struct Alternate {
    at: usize,
    size: usize,
    /// `SS_AUTODISARM`.
    disarms: bool,
}

const AUTODISARM: c_int = 1 << 31;

impl Alternate {
    pub(super) const NONE: Alternate = Alternate { at: 0, size: 0, disarms: false };

    fn contains(self, sp: usize) -> bool {
        self.size != 0 && !self.disarms && sp > self.at && sp <= self.at + self.size
    }

    fn to_c(self, sp: usize) -> stack_t {
        let mut flags = if self.disarms { AUTODISARM } else { 0 };
        if self.size == 0 {
            flags = libc::SS_DISABLE;
        } else if self.contains(sp) {
            flags |= libc::SS_ONSTACK;
        }
        stack_t { ss_sp: self.at as *mut c_void, ss_flags: flags, ss_size: self.size }
    }
}

#[inline(always)]
fn stack_pointer() -> usize {
    let here = 0u8;
    core::hint::black_box(&raw const here) as usize
}

/// Calls a handler of `me` that wants the alternate stack, on it, if there is one and the thread
/// that was interrupted at `sp` (0: here) is not on it already.
///
/// # Safety
///
/// A handler of the program's, and its arguments.
pub(super) unsafe fn call(
    me: &Thread,
    sp: usize,
    handler: usize,
    signal: c_int,
    info: *mut siginfo_t,
    context: *mut c_void,
) {
    let stack = me.signals.alternate.get();
    let sp = if sp == 0 { stack_pointer() } else { sp };
    // SAFETY: the caller's contract; the stack is the program's, and nobody is on it.
    unsafe {
        if stack.size == 0 || stack.contains(sp) {
            let f: unsafe extern "C-unwind" fn(c_int, *mut siginfo_t, *mut c_void) =
                core::mem::transmute(handler);
            return f(signal, info, context);
        }
        if stack.disarms {
            me.signals.alternate.set(Alternate::NONE);
        }
        call_on(stack.at + stack.size, handler, signal, info, context);
        if stack.disarms {
            me.signals.alternate.set(stack);
        }
    }
}

/// Calls `handler(signal, info, context)` on the stack that ends at `top`. Unwinders find the way
/// back by `rbp`.
///
/// ```text
///   caller's stack: ... | return address | rbp <- rbp          handler's: | ... <- rsp, aligned
/// ```
#[unsafe(naked)]
unsafe extern "C-unwind" fn call_on(
    top: usize,
    handler: usize,
    signal: c_int,
    info: *mut siginfo_t,
    context: *mut c_void,
) {
    naked_asm!(
        ".cfi_startproc",
        "push rbp",
        ".cfi_def_cfa_offset 16",
        ".cfi_offset rbp, -16",
        "mov rbp, rsp",
        ".cfi_def_cfa_register rbp",
        "and rdi, -16",
        "mov rsp, rdi",
        "mov rax, rsi",
        "mov edi, edx",
        "mov rsi, rcx",
        "mov rdx, r8",
        "call rax",
        "mov rsp, rbp",
        "pop rbp",
        ".cfi_def_cfa rsp, 8",
        "ret",
        ".cfi_endproc",
    )
}

/// In the child of a fork: the kernel gets the thread's alternate stack.
pub(super) fn give_back(me: &Thread) {
    let stack = me.signals.alternate.get();
    if stack.size != 0 {
        let new = stack.to_c(0);
        // SAFETY: the program's stack. Fails where the thread is on the carrier's, in a handler of
        // a fault.
        unsafe { sys::call(libc::SYS_sigaltstack, [&raw const new as usize, 0, 0, 0, 0, 0]) };
    }
}

/// See `sigaltstack(2)`.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sigaltstack(new: *const stack_t, old: *mut stack_t) -> c_int {
    const SMALLEST: usize = 2048;
    let Some(me) = managed() else {
        // SAFETY: handed on.
        return unsafe { real!(sigaltstack(new => *const stack_t, old => *mut stack_t) -> c_int) };
    };
    let fail = |errno| {
        sys::set_errno(errno);
        -1
    };
    let before = me.signals.alternate.get();
    let sp = stack_pointer();
    // SAFETY: the caller's contract.
    if let Some(new) = unsafe { new.as_ref().copied() } {
        if before.contains(sp) {
            return fail(libc::EPERM);
        }
        let after = match new.ss_flags & !AUTODISARM {
            libc::SS_DISABLE => Alternate::NONE,
            0 | libc::SS_ONSTACK if new.ss_size < SMALLEST => return fail(libc::ENOMEM),
            0 | libc::SS_ONSTACK => Alternate {
                at: new.ss_sp as usize,
                size: new.ss_size,
                disarms: new.ss_flags & AUTODISARM != 0,
            },
            _ => return fail(libc::EINVAL),
        };
        me.signals.alternate.set(after);
    }
    if !old.is_null() {
        // SAFETY: the caller's contract.
        unsafe { old.write(before.to_c(sp)) };
    }
    0
}
