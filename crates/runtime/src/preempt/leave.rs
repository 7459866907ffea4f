//! The ways back from the handler.

use super::defer::repeat_flagged;
use super::gate::give_to_region;
use super::install::USE_SIGRETURN;
use crate::arch::resume;
use crate::thread::control::Uthread;
use core::sync::atomic::Ordering::Relaxed;
use libc::ucontext_t;

/// Are handlers left by [`resume`] (true) or by `rt_sigreturn`?
#[cfg(feature = "inspect")]
pub(super) fn resumes_in_user_mode() -> bool {
    !USE_SIGRETURN.load(Relaxed)
}

/// Puts the gate back to what it was and returns to the interrupted code.
///
/// # Safety
///
/// `uc` is the context of the signal frame that the caller was entered with; `t` is the calling
/// thread, and [`close_gate`](super::judge::close_gate) returned `gate`.
pub(super) unsafe fn leave_handler(t: &Uthread, gate: u32, uc: *mut ucontext_t) -> ! {
    // SAFETY: our own frame.
    unsafe {
        if gate == 0 && t.regions.get() > 0 && t.deferred.get() {
            // The flag stays for the region's end, but a nested signal that has left it counts on
            // the outer handler.
            give_to_region();
        }
        let sigreturn = USE_SIGRETURN.load(Relaxed);
        if resume::can_resume(uc) && (!sigreturn || resume::has_tiles(uc)) {
            loop {
                resume::resume(uc, t, gate);
                repeat_flagged(t);
            }
        }
        leave_by_sigreturn(t, gate, uc);
    }
}

/// [`leave_handler`], by `rt_sigreturn` in any case.
///
/// # Safety
///
/// As for [`leave_handler`].
pub(super) unsafe fn leave_by_sigreturn(t: &Uthread, gate: u32, uc: *mut ucontext_t) -> ! {
    // SAFETY: our own frame.
    unsafe {
        // rt_sigreturn installs the alternate stack that the frame names, which may be another
        // carrier's. It ignores flags that make no sense, and then leaves the alternate stack of
        // whichever carrier it returns on alone.
        (*uc).uc_stack.ss_flags = INVALID_STACK_FLAGS;
        loop {
            resume::sigreturn(uc, t, gate);
            repeat_flagged(t);
        }
    }
}

/// Neither 0, `SS_ONSTACK` nor `SS_DISABLE`.
const INVALID_STACK_FLAGS: i32 = 8;
