//! Sockets.

use super::files::write_all;
use super::{
    EAGAIN_, Restart, aliases, blocker, raw, returned, try_then_wait, wait_for, when_ready,
};
use crate::cancel;
use crate::interrupt::Call;
use crate::signal;
use crate::sys::is_nonblocking;
use core::ffi::{c_int, c_long, c_void};
use core::ptr;
use libc::*;

/// Sends a message whose address and control data go with its first part.
fn sendmsg_impl(fd: c_int, message: &msghdr, flags: c_int) -> isize {
    // SAFETY: the caller's contract.
    let vec = unsafe { core::slice::from_raw_parts(message.msg_iov, message.msg_iovlen) };
    if flags & MSG_DONTWAIT != 0 {
        return raw(
            SYS_sendmsg,
            [fd as usize, ptr::from_ref(message) as usize, flags as usize, 0, 0, 0],
        );
    }
    let send = |v: &[iovec], flags: c_int| {
        let mut m = *message;
        m.msg_iov = v.as_ptr().cast_mut();
        m.msg_iovlen = v.len();
        if !ptr::eq(v.as_ptr(), vec.as_ptr())
            && v.iter().map(|v| v.iov_len).sum::<usize>() < vec.iter().map(|v| v.iov_len).sum()
        {
            m.msg_control = ptr::null_mut();
            m.msg_controllen = 0;
        }
        raw(SYS_sendmsg, [fd as usize, &raw const m as usize, flags as usize, 0, 0, 0])
    };
    write_all(fd, vec, |v| send(v, flags | MSG_DONTWAIT), |v| send(v, flags))
}

fn recv_impl(number: c_long, a: [usize; 6], flags_at: usize) -> isize {
    let mut without_waiting = a;
    without_waiting[flags_at] |= MSG_DONTWAIT as usize;
    let fd = a[0] as c_int;
    let all = a[flags_at] as c_int & MSG_WAITALL != 0;
    let first = || {
        // MSG_WAITALL: a part is not enough.
        if all && !is_nonblocking(fd) {
            return EAGAIN_;
        }
        match raw(number, without_waiting) {
            EAGAIN_ if is_nonblocking(fd) || a[flags_at] as c_int & MSG_DONTWAIT != 0 => {
                raw(number, a)
            }
            r => r,
        }
    };
    returned(try_then_wait(Restart::Yes, first, |_| raw(number, a)))
}

/// Sends, one buffer: the rest after a partial transfer too.
fn send_impl(
    fd: c_int,
    buffer: *const c_void,
    n: usize,
    flags: c_int,
    to: *const sockaddr,
    len: socklen_t,
) -> isize {
    let arguments = |done: usize, flags: c_int| {
        [fd as usize, buffer as usize + done, n - done, flags as usize, to as usize, len as usize]
    };
    let Some(me) = blocker() else { return returned(raw(SYS_sendto, arguments(0, flags))) };
    cancel::test();
    let first = raw(SYS_sendto, arguments(0, flags | MSG_DONTWAIT));
    if first == n as isize
        || first < 0 && first != EAGAIN_
        || flags & MSG_DONTWAIT != 0
        || is_nonblocking(fd)
    {
        return returned(first);
    }
    let done = first.max(0) as usize;
    if signal::in_child_of_vfork() {
        return returned(raw(SYS_sendto, arguments(done, flags)));
    }
    let call = Call::begin(me, true);
    let r = wait_for(&call, |_| raw(SYS_sendto, arguments(done, flags)));
    drop(call);
    cancel::test();
    returned(if r >= 0 {
        r + done as isize
    } else if done > 0 {
        done as isize
    } else {
        r
    })
}

aliases! {
    /// See `recv(2)`.
    fn recv(fd: c_int, buffer: *mut c_void, n: usize, flags: c_int) -> isize =
        recv_impl(SYS_recvfrom, [fd as usize, buffer as usize, n, flags as usize, 0, 0], 3);
    /// See `recvfrom(2)`.
    fn recvfrom(fd: c_int, buffer: *mut c_void, n: usize, flags: c_int, from: *mut sockaddr,
        len: *mut socklen_t)
        -> isize = recv_impl(SYS_recvfrom,
            [fd as usize, buffer as usize, n, flags as usize, from as usize, len as usize], 3);
    /// See `recvmsg(2)`.
    fn recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> isize =
        recv_impl(SYS_recvmsg, [fd as usize, message as usize, flags as usize, 0, 0, 0], 2);
    /// See `send(2)`.
    fn send(fd: c_int, buffer: *const c_void, n: usize, flags: c_int) -> isize =
        send_impl(fd, buffer, n, flags, ptr::null(), 0);
    /// See `sendto(2)`.
    fn sendto(fd: c_int, buffer: *const c_void, n: usize, flags: c_int, to: *const sockaddr,
        len: socklen_t)
        -> isize = send_impl(fd, buffer, n, flags, to, len);
    /// See `sendmsg(2)`.
    fn sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> isize =
        // SAFETY: the caller's contract.
        returned(sendmsg_impl(fd, unsafe { &*message }, flags));
    /// See `accept(2)`.
    fn accept(fd: c_int, address: *mut sockaddr, len: *mut socklen_t) -> c_int =
        when_ready(fd, POLLIN, SYS_accept,
            [fd as usize, address as usize, len as usize, 0, 0, 0]) as c_int;
    /// See `accept4(2)`.
    fn accept4(fd: c_int, address: *mut sockaddr, len: *mut socklen_t, flags: c_int) -> c_int =
        when_ready(fd, POLLIN, SYS_accept4,
            [fd as usize, address as usize, len as usize, flags as usize, 0, 0]) as c_int;
    /// See `connect(2)`.
    fn connect(fd: c_int, address: *const sockaddr, len: socklen_t) -> c_int = {
        let a = [fd as usize, address as usize, len as usize, 0, 0, 0];
        let first = || if is_nonblocking(fd) { raw(SYS_connect, a) } else { EAGAIN_ };
        returned(try_then_wait(Restart::Yes, first, |_| raw(SYS_connect, a))) as c_int
    };
}
