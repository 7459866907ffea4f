//! Calls on sockets that wait for nobody: the C library's, unless a network stack in user space
//! serves the socket.

use super::{aliases, returned};
use crate::real::real;
use core::ffi::{c_int, c_long, c_uint, c_void};
use libc::*;
use quaver::foreign::overlay;

/// The call, if it is about a socket of a stack: its result, after which `errno` is set.
fn by_stack(number: c_long, a: [usize; 6]) -> Option<isize> {
    // SAFETY: the program's own arguments.
    unsafe { overlay::call(number, a, false) }.map(returned)
}

/// Defines functions that are system calls of these numbers.
macro_rules! served {
    ($($name:ident($($arg:ident: $ty:ty),*) -> $ret:ty, $number:expr;)*) => {
        aliases! {$(
            /// See the manual.
            fn $name($($arg: $ty),*) -> $ret = {
                let mut words = [0; 6];
                for (word, argument) in words.iter_mut().zip([$($arg as usize),*]) {
                    *word = argument;
                }
                match by_stack($number, words) {
                    Some(result) => result as $ret,
                    // SAFETY: handed on.
                    None => unsafe { real!($name($($arg => $ty),*) -> $ret) },
                }
            };
        )*}
    };
}

served! {
    bind(fd: c_int, address: *const sockaddr, len: socklen_t) -> c_int, SYS_bind;
    listen(fd: c_int, backlog: c_int) -> c_int, SYS_listen;
    shutdown(fd: c_int, how: c_int) -> c_int, SYS_shutdown;
    getsockname(fd: c_int, address: *mut sockaddr, len: *mut socklen_t) -> c_int, SYS_getsockname;
    getpeername(fd: c_int, address: *mut sockaddr, len: *mut socklen_t) -> c_int, SYS_getpeername;
    getsockopt(fd: c_int, level: c_int, name: c_int, value: *mut c_void, len: *mut socklen_t)
        -> c_int, SYS_getsockopt;
    dup(fd: c_int) -> c_int, SYS_dup;
    epoll_ctl(epoll: c_int, operation: c_int, fd: c_int, event: *mut epoll_event) -> c_int,
        SYS_epoll_ctl;
    sendfile(to: c_int, from: c_int, offset: *mut off_t, n: usize) -> isize, SYS_sendfile;
    sendfile64(to: c_int, from: c_int, offset: *mut off_t, n: usize) -> isize, SYS_sendfile;
    splice(from: c_int, at: *mut off_t, to: c_int, offset: *mut off_t, n: usize, flags: c_uint)
        -> isize, SYS_splice;
}
