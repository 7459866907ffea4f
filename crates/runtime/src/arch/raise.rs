//! `raise`, and `pthread_kill` of oneself: two system calls that must be made on the same kernel
//! thread.
//!
//! Both ask the kernel which thread this is, then send the signal there. A user thread that is
//! preempted in between may go on as another kernel thread, and the signal's handler would run on
//! whatever the first one does by then. The C library's versions are nothing that one can tell by
//! an address, so the program gets these, in whose [`ranges`] nobody is preempted. They are weak: a
//! program or library that defines its own keeps it.
//!
//! A range ends behind the last call. By then the kernel has framed the handler on the thread's
//! stack, which may go on anywhere; and most requests come there, because kernels deliver signals
//! at the ends of calls.
//!
//! ```text
//!   edi   the signal                                       raise
//!   rdi   the thread, esi: the signal                      pthread_kill
//!   rsp   untouched, until an error is reported
//! ```

core::arch::global_asm!(
    // esi = signal; returns what the kernel says in rax.
    ".macro quaver_kill_self",
        "mov eax, {getpid}",
        "syscall",
        "mov edi, eax",
        "mov edx, esi",
        "mov eax, {gettid}",
        "syscall",
        "mov esi, eax",
        "mov eax, {tgkill}",
        "syscall",
    ".endm",
    ".pushsection .text.quaver_raise, \"ax\", @progbits",
    ".hidden quaver_raise",
    ".globl quaver_raise",
    ".weak raise",
    ".type raise, @function",
    "quaver_raise:",
    "raise:",
    "3:",
        ".cfi_startproc",
        "mov esi, edi",
        "quaver_kill_self",
        "4:",
        "test eax, eax",
        "js 5f",
        "ret",
        "5:",
        "push rbx",
        ".cfi_adjust_cfa_offset 8",
        ".cfi_rel_offset rbx, 0",
        "mov ebx, eax",
        "neg ebx",
        "call qword ptr [rip + __errno_location@GOTPCREL]",
        "mov [rax], ebx",
        "mov eax, -1",
        "pop rbx",
        ".cfi_adjust_cfa_offset -8",
        ".cfi_restore rbx",
        "ret",
        ".cfi_endproc",
        ".size raise, . - raise",
    ".weak pthread_kill",
    ".type pthread_kill, @function",
    "pthread_kill:",
    "6:",
        ".cfi_startproc",
        "cmp rdi, fs:[{pthread_self}]",
        "jne {another}",
        "quaver_kill_self",
        "7:",
        "neg eax",
        "ret",
        ".cfi_endproc",
        ".size pthread_kill, . - pthread_kill",
    ".popsection",
    ".pushsection .data.rel.ro.quaver_raise, \"aw\", @progbits",
    ".balign 8",
    ".globl quaver_raise_ranges",
    ".hidden quaver_raise_ranges",
    "quaver_raise_ranges:",
        ".quad 3b, 4b, 6b, 7b",
    ".popsection",
    getpid = const libc::SYS_getpid,
    gettid = const libc::SYS_gettid,
    tgkill = const libc::SYS_tgkill,
    // `pthread_self()`: the thread control block's own address (x86-64 psABI; glibc's
    // `tcbhead_t.self`).
    pthread_self = const 16,
    another = sym pthread_kill_another,
);

unsafe extern "C" {
    static quaver_raise_ranges: [usize; 4];
}

/// Addresses in which the kernel thread must not change.
pub(crate) fn ranges() -> [core::ops::Range<usize>; 2] {
    // SAFETY: four addresses, the starts and ends, written above; nobody changes them.
    let [a, b, c, d] = unsafe { quaver_raise_ranges };
    [a..b, c..d]
}

/// The C library's, for other threads.
unsafe extern "C" fn pthread_kill_another(thread: libc::pthread_t, signal: i32) -> i32 {
    type PthreadKill = unsafe extern "C" fn(libc::pthread_t, i32) -> i32;
    // SAFETY: the next definition of the same function, of that type; the arguments are handed on.
    unsafe {
        match libc::dlsym(libc::RTLD_NEXT, c"pthread_kill".as_ptr()) {
            next if next.is_null() => libc::ENOSYS,
            next => core::mem::transmute::<*mut libc::c_void, PthreadKill>(next)(thread, signal),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Error;
    use std::sync::atomic::{AtomicI32, Ordering::SeqCst};
    use std::sync::mpsc::channel;

    unsafe extern "C" {
        fn quaver_raise(signal: i32) -> i32;
    }

    static CAUGHT_ON: AtomicI32 = AtomicI32::new(0);

    extern "C" fn caught(_signal: i32) {
        CAUGHT_ON.store(crate::sys::gettid(), SeqCst);
    }

    #[test]
    fn signals_come_here() {
        // SAFETY: a handler that stores a number; signals that nobody else here uses.
        unsafe {
            libc::signal(libc::SIGUSR2, caught as *const () as usize);
            assert_eq!(quaver_raise(libc::SIGUSR2), 0);
            assert_eq!(CAUGHT_ON.swap(0, SeqCst), crate::sys::gettid());
            assert_eq!(libc::raise(libc::SIGUSR2), 0);
            assert_eq!(CAUGHT_ON.swap(0, SeqCst), crate::sys::gettid());
            assert_eq!(libc::pthread_kill(libc::pthread_self(), libc::SIGUSR2), 0);
            assert_eq!(CAUGHT_ON.swap(0, SeqCst), crate::sys::gettid());
        }
    }

    #[test]
    fn errors_are_told_as_the_c_library_tells_them() {
        // SAFETY: no signal has this number.
        unsafe {
            assert_eq!(quaver_raise(1000), -1);
            assert_eq!(Error::last_os_error().raw_os_error(), Some(libc::EINVAL));
            assert_eq!(libc::pthread_kill(libc::pthread_self(), 1000), libc::EINVAL);
        }
    }

    #[test]
    fn other_threads_are_the_c_librarys() {
        std::thread::scope(|s| {
            let ((tx, rx), (end, wait)) = (channel(), channel::<()>());
            s.spawn(move || {
                // SAFETY: always fine.
                tx.send(unsafe { libc::pthread_self() }).unwrap();
                let _ = wait.recv();
            });
            let other = rx.recv().unwrap();
            // SAFETY: a thread that is waiting.
            assert_eq!(unsafe { libc::pthread_kill(other, 0) }, 0);
            drop(end);
        });
    }
}
