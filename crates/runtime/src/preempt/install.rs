//! Installing the preemption signal's handler.

use super::own_stack;
use crate::arch::entry;
use crate::os::reserved::set_action;
use core::sync::atomic::{AtomicBool, AtomicI32, Ordering::*};
use std::io;

pub(super) static SIGNAL: AtomicI32 = AtomicI32::new(0);
/// Leave the handler by `rt_sigreturn` even where user-mode resume would work.
pub(super) static USE_SIGRETURN: AtomicBool = AtomicBool::new(false);

/// Installs the handler for `signal`. `mark` is [`entry::handler`]'s.
///
/// # Errors
///
/// `AlreadyExists` when the program uses the signal itself; the kernel's error otherwise.
pub(crate) fn install(signal: i32, use_sigreturn: bool, mark: Option<usize>) -> io::Result<()> {
    USE_SIGRETURN.store(use_sigreturn, Relaxed);
    // SAFETY: complete sigactions; the handler keeps the rules of this folder's README.
    unsafe {
        let mut old: libc::sigaction = core::mem::zeroed();
        if libc::sigaction(signal, core::ptr::null(), &mut old) != 0 {
            return Err(io::Error::last_os_error());
        }
        let ours = entry::handler(mark, own_stack::is_wanted());
        if old.sa_sigaction != libc::SIG_DFL
            && old.sa_sigaction != libc::SIG_IGN
            && old.sa_sigaction != ours
        {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        // On the thread's own stack, because the thread may be left in the middle of the handler.
        let flags =
            libc::SA_SIGINFO | libc::SA_NODEFER | libc::SA_RESTART | own_stack::action_flag();
        set_action(signal, ours, flags, 0)?;
    }
    super::stranger::note_process();
    SIGNAL.store(signal, Relaxed);
    Ok(())
}

/// Is the preemption signal free for us?
pub(crate) fn signal_is_valid(signal: i32) -> bool {
    (1..=64).contains(&signal)
        && ![libc::SIGKILL, libc::SIGSTOP, libc::SIGSEGV, libc::SIGBUS, 32, 33].contains(&signal)
}
