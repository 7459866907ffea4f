//! Notification by a signal: where it enters, its frame, and how it is sent.
//!
//! Works everywhere, and ends a system call that blocks. The target cannot send itself one in
//! time: a POSIX timer does that for it.

use super::defer::repeat_flagged;
use super::frame::{Frame, SystemCall};
use super::install::{SIGNAL, USE_SIGRETURN};
use super::judge::{in_scheduler, interrupted, judge};
use super::notify::{Notifier, Stage};
use super::{stranger, user_interrupt};
use crate::arch::{pkru, resume};
use crate::runtime::Inner;
use crate::sys;
use crate::thread::control::Uthread;
use crate::uintr::Receiver;
use crate::worker::carrier::Carrier;
use crate::worker::slot::Slot;
use core::sync::atomic::Ordering::Relaxed;
use libc::ucontext_t;

/// Sends signals.
pub(crate) struct Signals;

impl Notifier for Signals {
    fn register(&self, rt: &Inner) -> Receiver {
        // SAFETY: a complete signal set for the calling thread.
        unsafe {
            let mut set: libc::sigset_t = core::mem::zeroed();
            libc::sigaddset(&mut set, rt.config.signal);
            sys::change_signal_mask(libc::SIG_UNBLOCK, Some(&set), None);
        }
        Receiver::NONE
    }

    /// A signal is never missed, so all stages are the same.
    fn notify(&self, rt: &Inner, slot: &Slot, _: Stage) -> bool {
        send(rt, slot.tid.load(Relaxed))
    }
}

/// Sends the signal to a kernel thread; 0: there is none.
pub(super) fn send(rt: &Inner, tid: i32) -> bool {
    tid != 0 && sys::tgkill(rt.pid, tid, SIGNAL.load(Relaxed)).is_ok()
}

/// The handler. `SA_NODEFER` and an empty mask: the kernel changes no mask on entry, so none has to
/// be restored. `closed`: the interrupted thread, if [`entry`](crate::arch::entry) has closed its
/// gate already.
pub(crate) unsafe extern "C" fn on_signal(
    _sig: i32,
    info: *mut libc::siginfo_t,
    uc: *mut libc::c_void,
    closed: Option<&'static Uthread>,
) {
    // SAFETY: attached where there is a thread; `uc` is the context of the frame that we are in;
    // the kernel filled `info`.
    unsafe {
        let source = stranger::source(info);
        match (interrupted(closed), source) {
            (Some((t, gate)), source) => {
                let mut frame = SignalFrame::new(uc.cast());
                match source {
                    Some(source) => {
                        user_interrupt::allow(Carrier::here());
                        judge(source, t, gate, &mut frame);
                    }
                    None => stranger::hand_on(info),
                }
                frame.leave(t, gate);
            }
            (None, None) => stranger::hand_on(info),
            // A kernel thread that is no carrier (gs = 0) measures what signals cost. A carrier
            // that ends clears `gs` after its clock has stopped.
            (None, Some(_)) if !crate::thread::raw::attached() => {}
            (None, Some(_)) => in_scheduler(),
        }
    }
}

/// Are handlers left by [`resume`] (true) or by `rt_sigreturn`?
#[cfg(feature = "inspect")]
pub(super) fn resumes_in_user_mode() -> bool {
    !USE_SIGRETURN.load(Relaxed)
}

/// Neither 0, `SS_ONSTACK` nor `SS_DISABLE`. `rt_sigreturn` installs the alternate stack that the
/// frame names, which may be another carrier's. It ignores flags that make no sense, and then
/// leaves the alternate stack of whichever carrier it returns on alone.
pub(super) const INVALID_STACK_FLAGS: i32 = 8;

/// The frame that the kernel has made on the thread's stack.
pub(super) struct SignalFrame(*mut ucontext_t);

impl SignalFrame {
    /// The frame of the calling handler. The carrier's alternate stack is put back if the kernel
    /// has another one.
    ///
    /// # Safety
    ///
    /// `uc` is the context that the kernel gave to the calling handler, on a user thread's stack;
    /// the gate is closed.
    pub(super) unsafe fn new(uc: *mut ucontext_t) -> SignalFrame {
        // SAFETY: a user thread behind its gate, hence a carrier; `uc` is this frame's context.
        unsafe { Carrier::here().keep_alt_stack((*uc).uc_stack.ss_sp) };
        SignalFrame(uc)
    }

    /// The same, where [`new`](SignalFrame::new) has been called for it.
    ///
    /// # Safety
    ///
    /// As for [`new`](SignalFrame::new).
    #[cfg(feature = "inspect")]
    pub(super) unsafe fn entered(uc: *mut ucontext_t) -> SignalFrame {
        SignalFrame(uc)
    }

    fn registers(&self) -> &[i64; 23] {
        // SAFETY: our own frame, for as long as we are in it.
        unsafe { &(*self.0).uc_mcontext.gregs }
    }

    /// [`leave`](Frame::leave), by `rt_sigreturn` in any case.
    ///
    /// # Safety
    ///
    /// As for [`leave`](Frame::leave).
    pub(super) unsafe fn leave_by_sigreturn(&mut self, t: &Uthread, gate: u32) -> ! {
        // SAFETY: our own frame.
        unsafe {
            (*self.0).uc_stack.ss_flags = INVALID_STACK_FLAGS;
            loop {
                resume::sigreturn(self.0, t, gate);
                repeat_flagged(t);
            }
        }
    }
}

// SAFETY: the kernel has saved the registers, and both ways back load all of them.
unsafe impl Frame for SignalFrame {
    fn address(&self) -> usize {
        self.registers()[libc::REG_RIP as usize] as usize
    }

    fn stack_pointer(&self) -> usize {
        self.registers()[libc::REG_RSP as usize] as usize
    }

    fn general(&self) -> &[i64] {
        &self.registers()[..=libc::REG_RCX as usize]
    }

    fn call(&self) -> SystemCall {
        let reg = |r: i32| self.registers()[r as usize];
        use libc::{REG_R8, REG_R9, REG_R10, REG_RDI, REG_RDX, REG_RSI};
        let args = [REG_RDI, REG_RSI, REG_RDX, REG_R10, REG_R8, REG_R9].map(|r| reg(r) as u64);
        SystemCall { number: reg(libc::REG_RAX), args }
    }

    fn finish_call(&mut self, result: i64) {
        // SAFETY: our own frame.
        let g = unsafe { &mut (*self.0).uc_mcontext.gregs };
        g[libc::REG_RAX as usize] = result;
        // Behind the `syscall` instruction.
        g[libc::REG_RIP as usize] += 2;
    }

    fn rights(&self) -> u32 {
        // SAFETY: our own frame.
        unsafe { pkru::of_frame(self.0) }
    }

    unsafe fn leave(&mut self, t: &Uthread, gate: u32) -> ! {
        // SAFETY: our own frame.
        unsafe {
            let sigreturn = USE_SIGRETURN.load(Relaxed);
            if resume::can_resume(self.0) && (!sigreturn || resume::has_tiles(self.0)) {
                loop {
                    resume::resume(self.0, t, gate);
                    repeat_flagged(t);
                }
            }
            self.leave_by_sigreturn(t, gate)
        }
    }
}
