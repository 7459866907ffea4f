//! Writing and sending. What waits sends all of it, in parts if need be.

use super::descriptors::{DescriptorKind, kind};
use super::receive::NOWAIT;
use super::{Caller, EAGAIN, EINTR, Operation, Patience, Tried, WOULD_WAIT, Waits, look};
use crate::reactor::{Direction, Wanted};
use crate::sys;
use core::ffi::{c_int, c_long};
use core::ptr;
use libc::{
    EINVAL, EOPNOTSUPP, MSG_DONTWAIT, MSG_NOSIGNAL, POLLERR, POLLOUT, SO_SNDTIMEO, SYS_pwritev2,
    SYS_sendmsg, SYS_sendto, SYS_writev, iovec, msghdr,
};

/// How many buffers of the rest one call gets; another gets the others.
const BUFFERS: usize = 16;

/// Writes to a [`Stream`](DescriptorKind::Stream): `number` is the program's call, `write` or
/// `writev`, and `vec` what it is to write. Of other files `None`.
///
/// # Safety
///
/// As for the call; nothing is read of memory that the kernel would refuse.
pub unsafe fn write<C: Caller>(
    caller: C,
    number: c_long,
    arguments: [usize; 6],
    vec: (*const iovec, usize),
) -> Option<isize> {
    if kind(arguments[0] as i32) == DescriptorKind::Plain {
        return None;
    }
    Some(caller.perform(true, &mut Send::new(caller, SendCall::Write, number, arguments, vec)))
}

/// `sendto`.
///
/// # Safety
///
/// As for the call.
pub unsafe fn send_to<C: Caller>(caller: C, arguments: [usize; 6]) -> isize {
    let buffer = iovec { iov_base: arguments[1] as *mut _, iov_len: arguments[2] };
    let how = SendCall::To(arguments[3] as c_int);
    caller.perform(true, &mut Send::new(caller, how, SYS_sendto, arguments, (&buffer, 1)))
}

/// `sendmsg`.
///
/// # Safety
///
/// As for the call.
pub unsafe fn send_message<C: Caller>(caller: C, arguments: [usize; 6]) -> isize {
    // SAFETY: the caller's contract.
    let message = unsafe { &*(arguments[1] as *const msghdr) };
    let (vec, how) = ((message.msg_iov.cast_const(), message.msg_iovlen), SendCall::Message);
    let how = how(arguments[2] as c_int);
    caller.perform(true, &mut Send::new(caller, how, SYS_sendmsg, arguments, vec))
}

/// What the program calls, and with which flags.
#[derive(Clone, Copy)]
enum SendCall {
    Write,
    To(c_int),
    Message(c_int),
}

struct Send<C> {
    caller: C,
    how: SendCall,
    number: c_long,
    arguments: [usize; 6],
    vec: (*const iovec, usize),
    /// How much has gone.
    done: usize,
    waits: Waits,
    /// Asked when it is first of interest.
    is_socket: Option<bool>,
    /// The file cannot be asked not to wait.
    must_block: bool,
    tried: Tried,
}

impl<C: Caller> Send<C> {
    fn new(
        caller: C,
        how: SendCall,
        number: c_long,
        arguments: [usize; 6],
        vec: (*const iovec, usize),
    ) -> Send<C> {
        let never = match how {
            SendCall::Write => false,
            SendCall::To(flags) | SendCall::Message(flags) => flags & MSG_DONTWAIT != 0,
        };
        let waits = Waits::unless(never);
        let (is_socket, must_block, tried) = (None, false, Tried::NOTHING);
        Send { caller, how, number, arguments, vec, done: 0, waits, is_socket, must_block, tried }
    }

    fn fd(&self) -> i32 {
        self.arguments[0] as i32
    }

    fn buffers(&self) -> &[iovec] {
        // SAFETY: the caller's contract; the kernel has accepted the first part of them.
        unsafe { core::slice::from_raw_parts(self.vec.0, self.vec.1) }
    }

    fn total(&self) -> usize {
        self.buffers().iter().map(|v| v.iov_len).sum()
    }

    fn is_socket(&mut self, fd: i32) -> bool {
        *self.is_socket.get_or_insert_with(|| sys::type_of_socket(fd).is_some())
    }

    /// The program's own call, or one that does not wait.
    fn whole(&self, fd: i32, waits: bool) -> isize {
        let mut arguments = self.arguments;
        arguments[0] = fd as usize;
        let flags_at = match self.how {
            SendCall::Write if waits => return self.caller.call(self.number, arguments),
            SendCall::Write => {
                let (vec, n) = self.vec;
                let arguments = [fd as usize, vec as usize, n, usize::MAX, 0, NOWAIT];
                return self.caller.call(SYS_pwritev2, arguments);
            }
            SendCall::To(_) => 3,
            SendCall::Message(_) => 2,
        };
        if !waits {
            arguments[flags_at] |= MSG_DONTWAIT as usize;
        }
        self.caller.call(self.number, arguments)
    }

    /// What is left, or as much of it as one call gets. How much that is, and the result.
    fn part(&mut self, fd: i32, waits: bool) -> (usize, isize) {
        let mut rest = [iovec { iov_base: ptr::null_mut(), iov_len: 0 }; BUFFERS];
        let (mut skip, mut n, mut bytes) = (self.done, 0, 0);
        for v in self.buffers() {
            let skipped = skip.min(v.iov_len);
            skip -= skipped;
            if skipped < v.iov_len && n < BUFFERS {
                let iov_base = v.iov_base.cast::<u8>().wrapping_add(skipped).cast();
                rest[n] = iovec { iov_base, iov_len: v.iov_len - skipped };
                bytes += rest[n].iov_len;
                n += 1;
            }
        }
        let vec = rest.as_ptr() as usize;
        let wait = if waits { 0 } else { MSG_DONTWAIT };
        if !self.is_socket(fd) {
            let r = if waits {
                self.caller.call(SYS_writev, [fd as usize, vec, n, 0, 0, 0])
            } else {
                self.caller.call(SYS_pwritev2, [fd as usize, vec, n, usize::MAX, 0, NOWAIT])
            };
            return (bytes, r);
        }
        // A part has gone: sockets send no SIGPIPE then. Control data went with it.
        let flags = match self.how {
            SendCall::Write => 0,
            SendCall::To(flags) | SendCall::Message(flags) => flags,
        } | MSG_NOSIGNAL
            | wait;
        // SAFETY: all zeroes are a message.
        let mut message: msghdr = unsafe { core::mem::zeroed() };
        match self.how {
            SendCall::Write => {}
            SendCall::To(_) => {
                message.msg_name = self.arguments[4] as *mut _;
                message.msg_namelen = self.arguments[5] as u32;
            }
            SendCall::Message(_) => {
                // SAFETY: the caller's contract.
                let given = unsafe { &*(self.arguments[1] as *const msghdr) };
                message.msg_name = given.msg_name;
                message.msg_namelen = given.msg_namelen;
            }
        }
        message.msg_iov = rest.as_mut_ptr();
        message.msg_iovlen = n;
        let arguments = [fd as usize, &raw const message as usize, flags as usize, 0, 0, 0];
        (bytes, self.caller.call(SYS_sendmsg, arguments))
    }

    /// [`part`](Self::part) or all of it, without waiting. How much that is, and the result.
    fn try_once(&mut self, fd: i32) -> (usize, isize) {
        const UNSUPPORTED: isize = -(EOPNOTSUPP as isize);
        const INVALID: isize = -(EINVAL as isize);
        if self.done > 0 {
            return self.part(fd, false);
        }
        let r = match (self.whole(fd, false), self.how) {
            // Of the program's own call, too, or it is one of `pwritev2` only.
            (INVALID, SendCall::Write) => self.whole(fd, true),
            (UNSUPPORTED, SendCall::Write) if !self.waits.on(fd) => self.whole(fd, true),
            (UNSUPPORTED, SendCall::Write) => {
                self.must_block = true;
                EAGAIN
            }
            (r, _) => r,
        };
        (if r > 0 { self.total() } else { 0 }, r)
    }
}

impl<C: Caller> Operation for Send<C> {
    fn asks(&self) -> bool {
        false
    }

    fn first(&mut self) -> isize {
        self.attempt(&[self.fd()])
    }

    fn attempt(&mut self, files: &[i32]) -> isize {
        let fd = files[0];
        if self.done > 0 && self.is_socket(fd) && look(fd, POLLOUT) & POLLERR != 0 {
            // The error is for the next call.
            return self.done as isize;
        }
        loop {
            self.tried = Tried::now(fd, Direction::Write);
            let (asked, r) = self.try_once(fd);
            if r == EAGAIN && self.waits.on(fd) {
                return WOULD_WAIT;
            }
            if r == EINTR {
                return r;
            }
            if r < 0 {
                return self.end(r);
            }
            self.done += r as usize;
            if r == 0 || self.done >= self.total() || !self.waits.on(fd) {
                return self.done as isize;
            }
            if (r as usize) < asked {
                return WOULD_WAIT;
            }
        }
    }

    fn count(&self) -> usize {
        if self.must_block { usize::MAX } else { 1 }
    }

    fn keeps_file(&self) -> bool {
        // So much goes as a whole, or not at all, or nobody can tell.
        const WHOLE: usize = 4096;
        let (vec, n) = self.vec;
        // SAFETY: one buffer is the caller's own.
        let is_small = n == 1 && self.number != SYS_writev && unsafe { (*vec).iov_len } <= WHOLE;
        !is_small && !matches!(self.waits, Waits::No)
    }

    fn wanted(&self, wanted: &mut [Wanted]) {
        wanted[0] = Wanted::new(self.fd(), POLLOUT);
    }

    fn tried(&self) -> Tried {
        self.tried
    }

    fn patience(&self) -> Patience {
        Patience::OfSocket(SO_SNDTIMEO)
    }

    fn block(&mut self, _: bool, broken: &dyn Fn() -> bool) -> isize {
        let fd = self.fd();
        loop {
            let (asked, r) = if self.done > 0 {
                self.part(fd, true)
            } else {
                let r = self.whole(fd, true);
                (if r > 0 { self.total() } else { 0 }, r)
            };
            if r < 0 {
                return r;
            }
            self.done += r as usize;
            // Less than was asked for: a handler of the program has ended it, or something that the
            // program need not know of.
            if self.done >= self.total() || r == 0 || (r as usize) < asked && broken() {
                return self.done as isize;
            }
        }
    }

    fn progress(&self) -> usize {
        self.done
    }

    fn end(&self, error: isize) -> isize {
        if self.done > 0 { self.done as isize } else { error }
    }
}
