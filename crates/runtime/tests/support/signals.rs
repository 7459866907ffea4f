//! Signal handlers of a test's own.

/// Installs a handler that calls only what is async-signal-safe. It runs on the kernel thread's
/// alternate stack: on two workers a handler may not be on the stack of a user thread, which moves.
pub fn install_handler(handler: extern "C" fn(i32), signal: i32) {
    // SAFETY: a complete action; the handler is as the caller says.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as *const () as usize;
        action.sa_flags = libc::SA_ONSTACK | libc::SA_RESTART;
        assert_eq!(libc::sigaction(signal, &action, std::ptr::null_mut()), 0);
    }
}
