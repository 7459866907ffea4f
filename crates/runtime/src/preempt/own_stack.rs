//! For programs that keep something else than a stack below the stack pointer, as Erlang's compiled
//! code does its heap: handlers begin on the carrier's alternate stack.
//!
//! A thread that was interrupted on its own stack may be left in the middle of a handler. So the
//! frame is moved there, to where the kernel would have put it, and the handler goes on beneath it.
//! Where the thread was interrupted elsewhere, nothing is written, and it keeps its worker:
//!
//! ```text
//!   rsp on its own stack:   ... | red zone | copy of the frame <- rsp     alternate stack: unused
//!   elsewhere:              untouched                                    alternate stack: frame
//! ```

use super::judge::{interrupted, judge};
use super::signal::{INVALID_STACK_FLAGS, SignalFrame, on_signal};
use super::{stranger, user_interrupt};
use crate::arch::resume;
use crate::thread::control::Uthread;
use crate::thread::raw;
use crate::worker::carrier::Carrier;
use core::arch::naked_asm;
use core::ffi::c_void;
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
use libc::{siginfo_t, ucontext_t};

static WANTED: AtomicBool = AtomicBool::new(false);

/// Handlers that are installed from now on begin on alternate stacks.
pub fn use_alternate_stacks() {
    WANTED.store(true, Relaxed);
}

pub(crate) fn is_wanted() -> bool {
    WANTED.load(Relaxed)
}

/// What the flags of such a handler's action have for that.
pub fn action_flag() -> i32 {
    if is_wanted() { libc::SA_ONSTACK } else { 0 }
}

/// [`on_signal`], on an alternate stack.
pub(crate) unsafe extern "C" fn on_alternate_stack(
    signal: i32,
    info: *mut siginfo_t,
    uc: *mut c_void,
    closed: Option<&'static Uthread>,
) {
    // SAFETY: as for `on_signal`; nothing below the interrupted stack pointer is written where that
    // is not on the thread's own stack.
    unsafe {
        let Some((t, gate)) = interrupted(closed) else {
            return on_signal(signal, info, uc, None);
        };
        if is_on_own_stack(t, uc.cast()) {
            let (info, uc) = move_frame(info, uc.cast());
            go_on(signal, info, uc, Some(t), on_signal as *const c_void, start(uc))
        }
        let mut frame = SignalFrame::new(uc.cast());
        match stranger::source(info) {
            Some(source) => {
                user_interrupt::allow(Carrier::here());
                // Puts it off: the place is not safe.
                judge(source, t, gate, &mut frame);
            }
            None => stranger::hand_on(info),
        }
        frame.leave_by_sigreturn(t, gate)
    }
}

/// At the beginning of a handler whose action has [`action_flag`]: has a thread been interrupted
/// where it may be left, or none? Does not return, but calls `handler` in place of the calling one,
/// if that takes another stack. `false`: it must go on here, without waiting.
///
/// # Safety
///
/// The kernel's arguments, handed on, and `handler` does with them as the calling one should, which
/// owns nothing that must be dropped.
pub unsafe fn enter(
    signal: i32,
    info: *mut siginfo_t,
    uc: *mut c_void,
    handler: extern "C-unwind" fn(i32, *mut siginfo_t, *mut c_void),
) -> bool {
    if !is_wanted() {
        return true;
    }
    let Some(t) = raw::current() else { return true };
    // SAFETY: the caller's contract. On an alternate stack nothing moves the thread.
    unsafe {
        if !is_on_own_stack(t, uc.cast()) {
            return false;
        }
        let (info, uc) = move_frame(info, uc.cast());
        go_on(signal, info, uc, None, handler as *const c_void, start(uc))
    }
}

/// # Safety
///
/// On a carrier's alternate stack, in the handler whose context is `uc`, which has interrupted `t`.
unsafe fn is_on_own_stack(t: &Uthread, uc: *const ucontext_t) -> bool {
    // SAFETY: a user thread that stays here.
    unsafe { Carrier::beneath_alternate_stack().rt().table.stack(t).contains(&stack_pointer(uc)) }
}

/// # Safety
///
/// A context of the kernel's.
unsafe fn stack_pointer(uc: *const ucontext_t) -> usize {
    // SAFETY: the caller's contract.
    unsafe { (*uc).uc_mcontext.gregs[libc::REG_RSP as usize] as usize }
}

/// Where the frame with this context begins: with the handler's return address.
fn start(uc: *const ucontext_t) -> usize {
    uc as usize - size_of::<usize>()
}

/// Copies the calling handler's frame to where the kernel would have put it without the flag, and
/// returns what the handler gets there.
///
/// ```text
///   return address | context | siginfo | .. | XSAVE area, aligned to 64 | .. | red zone | rsp
/// ```
///
/// # Safety
///
/// The kernel's arguments; there is a stack at the interrupted stack pointer.
unsafe fn move_frame(
    info: *mut siginfo_t,
    uc: *mut ucontext_t,
) -> (*mut siginfo_t, *mut ucontext_t) {
    const RED_ZONE: usize = 128;
    const ALIGNMENT: usize = 64;
    // SAFETY: the kernel's frame lies between the handler's return address and the end of the XSAVE
    // area, and nothing else does. What is below the red zone is free.
    unsafe {
        let area = (*uc).uc_mcontext.fpregs as usize;
        let end = match area {
            0 => info as usize + size_of::<siginfo_t>(),
            area => area + resume::area_size(uc),
        };
        let free = stack_pointer(uc).wrapping_sub(RED_ZONE);
        let by = free.wrapping_sub(end) & !(ALIGNMENT - 1);
        let from = start(uc);
        core::ptr::copy_nonoverlapping(
            from as *const u8,
            from.wrapping_add(by) as *mut u8,
            end - from,
        );
        let (info, uc) = (info.wrapping_byte_add(by), uc.wrapping_byte_add(by));
        if area != 0 {
            (*uc).uc_mcontext.fpregs = area.wrapping_add(by) as *mut _;
        }
        (*uc).uc_stack.ss_flags = INVALID_STACK_FLAGS;
        (info, uc)
    }
}

/// Goes on in `handler`, as the kernel would have called it on the stack at `rsp`.
///
/// # Safety
///
/// A frame that [`move_frame`] has made is there.
#[unsafe(naked)]
unsafe extern "C" fn go_on(
    signal: i32,
    info: *mut siginfo_t,
    uc: *mut ucontext_t,
    closed: Option<&'static Uthread>,
    handler: *const c_void,
    rsp: usize,
) -> ! {
    naked_asm!("mov rsp, r9", "jmp r8")
}
