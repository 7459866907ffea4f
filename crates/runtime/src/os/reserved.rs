//! Signals that the C library keeps for itself and whose purpose is served here instead.

use crate::preempt::own_stack;
use crate::sys;
use core::ffi::{c_int, c_void};
use libc::siginfo_t;

/// As the kernel calls it, at any instruction of a kernel thread, with whatever thread pointer that
/// has.
pub type Handler = extern "C-unwind" fn(c_int, *mut siginfo_t, *mut c_void);

/// How a handler runs. Interrupted system calls go on after it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum How {
    /// As part of the thread that it interrupts: it may be left for good or preempted, so the
    /// kernel thread's mask stays as it was.
    InThread,
    /// As part of the kernel thread: no signal, and so no preemption, takes it elsewhere.
    OnKernelThread,
}

/// Installs a handler for such a signal, which the C library's `sigaction` refuses.
pub fn install(signal: i32, handler: Handler, how: How) {
    let (flags, mask) = match how {
        How::InThread => (libc::SA_RESTART | libc::SA_NODEFER, 0),
        How::OnKernelThread => (libc::SA_RESTART, u64::MAX),
    };
    let flags = flags | libc::SA_SIGINFO | own_stack::action_flag();
    // SAFETY: handlers of this type are called with these arguments.
    let _ = unsafe { set_action(signal, handler as usize, flags, mask) };
}

/// Sets the kernel's action, whoever has defined `sigaction`: Erlang's adds flags.
///
/// # Errors
///
/// The kernel's.
///
/// # Safety
///
/// As for `sigaction`.
pub(crate) unsafe fn set_action(
    signal: i32,
    handler: usize,
    flags: i32,
    mask: u64,
) -> std::io::Result<()> {
    #[repr(C)]
    struct KernelAction {
        handler: usize,
        flags: usize,
        restorer: usize,
        mask: u64,
    }
    const SA_RESTORER: usize = 0x0400_0000;
    // Unwinders know the frame of a handler by these bytes: mov rax, 15; syscall. They look for the
    // caller of a function one byte before the return address, where no other function may end. gdb
    // compares them only where the name has `sigaction` in it.
    #[unsafe(naked)]
    unsafe extern "C" fn before_sigaction_restorer() {
        core::arch::naked_asm!("nop", ".byte 0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05")
    }
    let restorer = before_sigaction_restorer as *const () as usize + 1;
    let flags = SA_RESTORER | flags as usize;
    let action = KernelAction { handler, flags, restorer, mask };
    let arguments = [signal as u64, &raw const action as u64, 0, 8, 0, 0];
    // SAFETY: a complete action of the kernel's, read during the call.
    match unsafe { sys::syscall6(libc::SYS_rt_sigaction, arguments) } {
        0 => Ok(()),
        error => Err(std::io::Error::from_raw_os_error(-error as i32)),
    }
}
