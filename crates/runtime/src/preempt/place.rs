//! Where a thread was interrupted: may it be switched out there?

use super::frame::Frame;
use super::ranges::Code;
use crate::arch::{entry, resume, user_interrupt};
use crate::runtime::Inner;
use crate::sys::is_syscall;
use crate::thread::control::Uthread;

/// Where a thread was interrupted.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum Place {
    /// It may be switched out.
    Anywhere,
    /// It may be switched out, and comes from a call that has blocked: the program is about to see
    /// that it was interrupted.
    Interrupted,
    /// It may hold a lock of the C library.
    Library,
    /// It is being resumed, is not on its own stack, or must go on here for another reason.
    Unsafe,
    /// At (or back at) the `syscall` instruction of a call that may block.
    Syscall,
    /// At (or back at) that of the call with which the C library waits for a lock, while it may
    /// hold others.
    LockWait,
}

/// # Safety
///
/// `frame` is where the calling thread `t` was interrupted.
pub(super) unsafe fn interrupted_at(rt: &Inner, t: &Uthread, frame: &impl Frame) -> Place {
    let (rip, rsp, call) = (frame.address(), frame.stack_pointer(), frame.call());
    let (rax, rsi, rdx) = (call.number, call.args[1], call.args[2]);
    // A handler of the program may run on an alternate stack, which belongs to the carrier: it must
    // end there.
    if resume::range().contains(&rip)
        || entry::contains(rip)
        || user_interrupt::range().contains(&rip)
        || !rt.table.stack(t).contains(&rsp)
    {
        return Place::Unsafe;
    }
    // SAFETY: the thread is at rip; before it, on its page, it has been after a call.
    unsafe {
        if is_syscall(rip) && may_block(rax) {
            let waits = rax == libc::SYS_futex && is_lock_wait(rsi as i32, rdx as i32);
            let in_library = || super::ranges::code_of_thread(rip, rsp) == Code::Library;
            return if waits && in_library() { Place::LockWait } else { Place::Syscall };
        }
        // A call that was interrupted and may not be restarted: the program is about to see EINTR.
        if rax == -i64::from(libc::EINTR) && rip & 0xfff >= 2 && is_syscall(rip - 2) {
            return Place::Interrupted;
        }
    }
    // Where threads share TLS, an address of it is right on this carrier only.
    if t.fs.get() == 0 && crate::tls::shared::is_bound(frame.general()) {
        return Place::Unsafe;
    }
    // SAFETY: rsp is on the thread's own stack.
    match unsafe { super::ranges::code_of_thread(rip, rsp) } {
        Code::Free => Place::Anywhere,
        Code::Library | Code::Leaf => Place::Library,
        Code::Unsafe => Place::Unsafe,
    }
}

/// Is a futex call with these arguments how glibc waits for one of its own locks or a simple
/// `pthread_mutex_t`? Condition variables, semaphores and joins, which may take for ever, use
/// another operation.
fn is_lock_wait(operation: i32, value: i32) -> bool {
    /// A lock's word where it is held and others wait (`lowlevellock.h`).
    const CONTENDED: i32 = 2;
    operation & libc::FUTEX_CMD_MASK == libc::FUTEX_WAIT && value == CONTENDED
}

/// Calls that wait for something, that restart, and that do the same on whatever stack they are
/// made.
fn may_block(nr: i64) -> bool {
    matches!(
        nr,
        libc::SYS_read
            | libc::SYS_write
            | libc::SYS_pread64
            | libc::SYS_pwrite64
            | libc::SYS_readv
            | libc::SYS_writev
            | libc::SYS_preadv
            | libc::SYS_pwritev
            | libc::SYS_preadv2
            | libc::SYS_pwritev2
            | libc::SYS_recvfrom
            | libc::SYS_recvmsg
            | libc::SYS_recvmmsg
            | libc::SYS_sendto
            | libc::SYS_sendmsg
            | libc::SYS_sendmmsg
            | libc::SYS_accept
            | libc::SYS_accept4
            | libc::SYS_connect
            | libc::SYS_futex
            | libc::SYS_flock
            | libc::SYS_fcntl
            | libc::SYS_wait4
            | libc::SYS_waitid
            | libc::SYS_open
            | libc::SYS_openat
            | libc::SYS_fsync
            | libc::SYS_fdatasync
            | libc::SYS_ioctl
            | libc::SYS_getrandom
            | libc::SYS_copy_file_range
            | libc::SYS_splice
            | libc::SYS_tee
            | libc::SYS_vmsplice
            | libc::SYS_mq_timedsend
            | libc::SYS_mq_timedreceive
            | libc::SYS_sendfile
    )
}
