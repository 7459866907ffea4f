//! Whose signal it is. The preemption signal may come from others, too: for a program that uses it
//! itself, as with `SIGURG`, the signal of urgent data.

use super::judge::Requester;
use core::sync::atomic::{AtomicI32, AtomicPtr, Ordering::*};
use libc::siginfo_t;

/// What is called with a signal that is not the runtime's.
pub type Stranger = unsafe extern "C" fn(*mut siginfo_t);

static PROCESS: AtomicI32 = AtomicI32::new(0);
static STRANGER: AtomicPtr<()> = AtomicPtr::new(core::ptr::null_mut());

/// This is the process whose clocks are heeded.
pub(super) fn note_process() {
    PROCESS.store(std::process::id() as i32, Relaxed);
}

/// From now on signals of others go to `f`, which is called in the handler, at any instruction,
/// behind the gate: it may make system calls and little else.
pub fn set(f: Stranger) {
    STRANGER.store(f as *mut (), Release);
}

/// Who asks for a preemption: a clock of this process, or nobody.
///
/// # Safety
///
/// `info` is the kernel's.
#[inline]
pub(super) unsafe fn source(info: *const siginfo_t) -> Option<Requester> {
    // SAFETY: the kernel filled it: sender or value, as the code says.
    unsafe {
        match (*info).si_code {
            libc::SI_TKILL => {
                ((*info).si_pid() == PROCESS.load(Relaxed)).then_some(Requester::Clock)
            }
            libc::SI_TIMER => (crate::sys::timer_mark() == (*info).si_value().sival_ptr)
                .then_some(Requester::Timer),
            _ => None,
        }
    }
}

/// A signal has come that is not the runtime's.
///
/// # Safety
///
/// In the handler, with its `info`; the gate of the thread, if there is one, is closed.
#[cold]
pub(super) unsafe fn hand_on(info: *mut siginfo_t) {
    let f = STRANGER.load(Acquire);
    if !f.is_null() {
        // SAFETY: set as such.
        unsafe { core::mem::transmute::<*mut (), Stranger>(f)(info) };
    }
}
