//! Sockets.

use super::{Shim, aliases, returned};
use core::ffi::{c_int, c_uint, c_void};
use libc::*;
use quaver::foreign::calls;

fn check(n: usize, size: usize) {
    if n > size {
        crate::say::fatal(format_args!("buffer overflow detected in recv"));
    }
}

aliases! {
    /// See `setsockopt(2)`.
    fn setsockopt(fd: c_int, level: c_int, name: c_int, value: *const c_void, len: socklen_t)
        -> c_int = {
        let a = [fd as usize, level as usize, name as usize, value as usize, len as usize, 0];
        super::descriptors::set(SYS_setsockopt, a)
    };
    /// See `recv(2)`.
    fn recv(fd: c_int, buffer: *mut c_void, n: usize, flags: c_int) -> isize = {
        let a = [fd as usize, buffer as usize, n, flags as usize, 0, 0];
        // SAFETY: the caller's contract.
        returned(unsafe { calls::receive(Shim, SYS_recvfrom, a, 3) })
    };
    /// `recv` of code that checks the sizes of its buffers.
    fn __recv_chk(fd: c_int, buffer: *mut c_void, n: usize, size: usize, flags: c_int) -> isize = {
        check(n, size);
        // SAFETY: the caller's contract.
        unsafe { recv(fd, buffer, n, flags) }
    };
    /// `recvfrom` of code that checks the sizes of its buffers.
    fn __recvfrom_chk(fd: c_int, buffer: *mut c_void, n: usize, size: usize, flags: c_int,
        from: *mut sockaddr, len: *mut socklen_t)
        -> isize = {
        check(n, size);
        // SAFETY: the caller's contract.
        unsafe { recvfrom(fd, buffer, n, flags, from, len) }
    };
    /// See `recvfrom(2)`.
    fn recvfrom(fd: c_int, buffer: *mut c_void, n: usize, flags: c_int, from: *mut sockaddr,
        len: *mut socklen_t)
        -> isize = {
        let a = [fd as usize, buffer as usize, n, flags as usize, from as usize, len as usize];
        // SAFETY: the caller's contract.
        returned(unsafe { calls::receive(Shim, SYS_recvfrom, a, 3) })
    };
    /// See `recvmsg(2)`.
    fn recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> isize = {
        let a = [fd as usize, message as usize, flags as usize, 0, 0, 0];
        // SAFETY: the caller's contract.
        returned(unsafe { calls::receive(Shim, SYS_recvmsg, a, 2) })
    };
    /// See `send(2)`.
    fn send(fd: c_int, buffer: *const c_void, n: usize, flags: c_int) -> isize = {
        let a = [fd as usize, buffer as usize, n, flags as usize, 0, 0];
        // SAFETY: the caller's contract.
        returned(unsafe { calls::send_to(Shim, a) })
    };
    /// See `sendto(2)`.
    fn sendto(fd: c_int, buffer: *const c_void, n: usize, flags: c_int, to: *const sockaddr,
        len: socklen_t)
        -> isize = {
        let a = [fd as usize, buffer as usize, n, flags as usize, to as usize, len as usize];
        // SAFETY: the caller's contract.
        returned(unsafe { calls::send_to(Shim, a) })
    };
    /// See `sendmsg(2)`.
    fn sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> isize = {
        let a = [fd as usize, message as usize, flags as usize, 0, 0, 0];
        // SAFETY: the caller's contract.
        returned(unsafe { calls::send_message(Shim, a) })
    };
    /// See `recvmmsg(2)`.
    fn recvmmsg(fd: c_int, messages: *mut mmsghdr, n: c_uint, flags: c_int, time: *mut timespec)
        -> c_int = {
        let a =
            [fd as usize, messages as usize, n as usize, flags as usize, time as usize, 0];
        // SAFETY: the caller's contract.
        returned(unsafe { calls::receive_several(Shim, a) }) as c_int
    };
    /// See `sendmmsg(2)`.
    fn sendmmsg(fd: c_int, messages: *mut mmsghdr, n: c_uint, flags: c_int) -> c_int = {
        let a = [fd as usize, messages as usize, n as usize, flags as usize, 0, 0];
        // SAFETY: the caller's contract.
        returned(unsafe { calls::send_several(Shim, a) }) as c_int
    };
    /// See `accept(2)`.
    fn accept(fd: c_int, address: *mut sockaddr, len: *mut socklen_t) -> c_int = {
        let a = [fd as usize, address as usize, len as usize, 0, 0, 0];
        // SAFETY: the caller's contract.
        returned(unsafe { calls::accept(Shim, SYS_accept, a) }) as c_int
    };
    /// See `accept4(2)`.
    fn accept4(fd: c_int, address: *mut sockaddr, len: *mut socklen_t, flags: c_int) -> c_int = {
        let a = [fd as usize, address as usize, len as usize, flags as usize, 0, 0];
        // SAFETY: the caller's contract.
        returned(unsafe { calls::accept(Shim, SYS_accept4, a) }) as c_int
    };
    /// See `connect(2)`.
    fn connect(fd: c_int, address: *const sockaddr, len: socklen_t) -> c_int = {
        let a = [fd as usize, address as usize, len as usize, 0, 0, 0];
        // SAFETY: the caller's contract.
        returned(unsafe { calls::connect(Shim, a) }) as c_int
    };
}
