//! Preempting at a boundary by an (emulated) user interrupt.
//!
//! The trap's handler does not preempt. It lets a user interrupt come at the boundary, by the
//! emulator, and returns; the thread is then at the entry that hardware would have called, with the
//! trap flag clear as there. The registers are compared in the emulated `uiret`, with which the
//! thread goes on: the trap after it comes one instruction too late for that.

use super::{AWAY_FROM, Finding, LAST, PUT_OFF, TOTALS, count, frame, look, report, ticks};
use super::{COUNT, Resumed};
use core::sync::atomic::Ordering::*;
use libc::ucontext_t;
use quaver::inspect::user_interrupts;
use quaver::inspect::{self, Verdict};
use std::io;

/// Installs the handler of `SIGTRAP`. With a runtime running that is told by emulated user
/// interrupts.
///
/// # Errors
///
/// The kernel's.
pub fn install() -> io::Result<()> {
    user_interrupts::watch_returns(returns);
    user_interrupts::watch_verdicts(judged);
    // SAFETY: a complete sigaction. The mask is full, as the emulator needs it; the handler keeps
    // the rules of this module.
    unsafe {
        let mut action: libc::sigaction = core::mem::zeroed();
        action.sa_sigaction = on_trap as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
        libc::sigfillset(&raw mut action.sa_mask);
        if libc::sigaction(libc::SIGTRAP, &action, core::ptr::null_mut()) != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

#[repr(align(16))]
struct Room([u64; 4]);

/// The handler. Nothing interrupts it: it needs no gate.
unsafe extern "C" fn on_trap(_: i32, info: *mut libc::siginfo_t, uc: *mut libc::c_void) {
    const TRAP_TRACE: i32 = 2;
    let uc: *mut ucontext_t = uc.cast();
    let mut room = Room([0; 4]);
    // SAFETY: the kernel filled `info` and `uc`, which is this handler's frame on the interrupted
    // stack; `room` is in this function's frame, the last thing that it does is to have it filled.
    unsafe {
        if (*info).si_code != TRAP_TRACE {
            // A breakpoint instruction, that is, a crash.
            libc::abort();
        }
        let address = (*uc).uc_mcontext.gregs[libc::REG_RIP as usize] as usize;
        let me = inspect::current_id();
        if look(me, address, uc) {
            preempt(me, address, uc, &raw mut room.0);
        }
    }
}

/// # Safety
///
/// `uc` and `room` as for [`user_interrupts::preempt`].
unsafe fn preempt(me: Option<u64>, address: usize, uc: *mut ucontext_t, room: *mut [u64; 4]) {
    LAST.store(address, Relaxed);
    TOTALS.tried.fetch_add(1, Relaxed);
    if let Some(id) = me {
        // SAFETY: the frame is on the stack of that thread.
        unsafe { frame::keep(id, uc) };
        AWAY_FROM.store(inspect::worker_in_handler().map_or(0, |w| w + 1), Relaxed);
        PUT_OFF.store(ticks(), Relaxed);
    } else {
        TOTALS.idle.fetch_add(1, Relaxed);
    }
    // SAFETY: the caller's contract.
    unsafe { user_interrupts::preempt(uc, room) };
}

/// What became of it. The thread runs again, behind its gate.
fn judged(verdict: Verdict, worker: Option<usize>, stack_pointer: usize) {
    if verdict == Verdict::HandedOver
        && let Some(id) = inspect::current_id()
    {
        // Its registers are those after the call.
        frame::forget_at(id, stack_pointer as u64);
    }
    count(verdict, AWAY_FROM.load(Relaxed).checked_sub(1), worker);
}

/// # Safety
///
/// `uc` is the context with which the calling thread goes on.
unsafe fn returns(uc: *mut ucontext_t) {
    let Some(id) = inspect::current_id() else { return };
    // SAFETY: the caller's contract; the frame is on the stack of that thread.
    let resumed = unsafe { frame::compare(id, uc) };
    if resumed != Resumed::Unknown {
        TOTALS.compared.fetch_add(1, Relaxed);
    }
    if let Resumed::Differs(mismatch) = resumed {
        report(Finding { boundary: COUNT.load(Relaxed), address: LAST.load(Relaxed), mismatch });
    }
}
