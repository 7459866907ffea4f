//! Reading and receiving.

use super::descriptors::{DescriptorKind, kind};
use super::{Caller, EAGAIN, EINTR, Operation, Patience, Tried, WOULD_WAIT, Waits, is_ready, look};
use crate::reactor::{Direction, Wanted};
use crate::sys;
use core::ffi::{c_int, c_long};
use libc::{
    EINVAL, EOPNOTSUPP, MSG_DONTWAIT, MSG_ERRQUEUE, MSG_OOB, MSG_PEEK, MSG_WAITALL, POLLERR,
    POLLIN, SO_RCVTIMEO, SYS_preadv2, SYS_read, SYS_recvfrom, SYS_recvmsg, iovec, msghdr,
};

/// `RWF_NOWAIT`.
pub(super) const NOWAIT: usize = 8;

/// Reads a [`Stream`](DescriptorKind::Stream) from where it is: `number` is the program's call,
/// `read` or `readv`, and `vec` what it is to fill. Of other files `None`.
///
/// # Safety
///
/// As for the call; nothing is read of memory that the kernel would refuse.
pub unsafe fn read<C: Caller>(
    caller: C,
    number: c_long,
    arguments: [usize; 6],
    vec: (*const iovec, usize),
) -> Option<isize> {
    let fd = arguments[0] as i32;
    if kind(fd) == DescriptorKind::Plain {
        return None;
    }
    let (waits, tried) = (Waits::Unknown, Tried::NOTHING);
    let mut read = Read { caller, number, arguments, vec, waits, tried };
    Some(caller.perform(true, &mut read))
}

struct Read<C> {
    caller: C,
    number: c_long,
    arguments: [usize; 6],
    vec: (*const iovec, usize),
    waits: Waits,
    tried: Tried,
}

/// How much there is room for.
///
/// # Safety
///
/// The buffers have been accepted by the kernel.
unsafe fn room(vec: (*const iovec, usize)) -> usize {
    // SAFETY: the caller's contract.
    unsafe { core::slice::from_raw_parts(vec.0, vec.1) }.iter().map(|v| v.iov_len).sum()
}

impl<C: Caller> Read<C> {
    fn real(&self, fd: i32) -> isize {
        let mut arguments = self.arguments;
        arguments[0] = fd as usize;
        self.caller.call(self.number, arguments)
    }
}

impl<C: Caller> Operation for Read<C> {
    fn first(&mut self) -> isize {
        self.attempt(&[self.arguments[0] as i32])
    }

    fn attempt(&mut self, files: &[i32]) -> isize {
        const UNSUPPORTED: isize = -(EOPNOTSUPP as isize);
        const INVALID: isize = -(EINVAL as isize);
        let (fd, (vec, n)) = (files[0], self.vec);
        self.tried = Tried::now(fd, Direction::Read);
        // What `readv` has room for is not known before the kernel has looked.
        let has_room = self.number == SYS_read && self.arguments[2] != 0;
        if has_room && self.tried.is_drained() && self.waits.on(fd) {
            return WOULD_WAIT;
        }
        let arguments = [fd as usize, vec as usize, n, usize::MAX, 0, NOWAIT];
        match self.caller.call(SYS_preadv2, arguments) {
            EAGAIN => {
                self.tried.is_empty();
                self.waits.refused(fd)
            }
            UNSUPPORTED if is_ready(fd, POLLIN) || !self.waits.on(fd) => self.real(fd),
            UNSUPPORTED => WOULD_WAIT,
            // Of the program's own call, too, or it is one of `preadv2` only.
            INVALID => self.real(fd),
            r => {
                // SAFETY: the kernel has filled them if it returns how much.
                self.tried.has_read(r, || unsafe { room(self.vec) });
                r
            }
        }
    }

    fn tried(&self) -> Tried {
        self.tried
    }

    fn wanted(&self, wanted: &mut [Wanted]) {
        wanted[0] = Wanted::new(self.arguments[0] as i32, POLLIN);
    }

    fn patience(&self) -> Patience {
        Patience::OfSocket(SO_RCVTIMEO)
    }

    fn block(&mut self, _: bool, _: &dyn Fn() -> bool) -> isize {
        self.real(self.arguments[0] as i32)
    }
}

/// `recvfrom` or `recvmsg`, whose flags are argument `flags_at`.
///
/// # Safety
///
/// As for the call.
pub unsafe fn receive<C: Caller>(
    caller: C,
    number: c_long,
    arguments: [usize; 6],
    flags_at: usize,
) -> isize {
    let flags = arguments[flags_at] as c_int;
    // These take what there is.
    let never = flags & (MSG_DONTWAIT | MSG_ERRQUEUE | MSG_OOB) != 0;
    if flags & MSG_WAITALL != 0 && !never {
        let mut all = All { caller, number, arguments, flags, done: 0, waits: Waits::Unknown };
        return caller.perform(true, &mut all);
    }
    let (waits, tried) = (Waits::unless(never), Tried::NOTHING);
    caller.perform(true, &mut Receive { caller, number, arguments, flags_at, waits, tried })
}

struct Receive<C> {
    caller: C,
    number: c_long,
    arguments: [usize; 6],
    flags_at: usize,
    waits: Waits,
    tried: Tried,
}

impl<C: Caller> Receive<C> {
    /// How much there is room for.
    ///
    /// # Safety
    ///
    /// The kernel has accepted it.
    unsafe fn room(&self) -> usize {
        if self.number != SYS_recvmsg {
            return self.arguments[2];
        }
        // SAFETY: the caller's contract.
        unsafe {
            let message = &*(self.arguments[1] as *const msghdr);
            room((message.msg_iov, message.msg_iovlen))
        }
    }
}

impl<C: Caller> Operation for Receive<C> {
    fn first(&mut self) -> isize {
        self.attempt(&[self.arguments[0] as i32])
    }

    fn attempt(&mut self, files: &[i32]) -> isize {
        const TAKE_NOTHING: c_int = MSG_PEEK | MSG_OOB | MSG_ERRQUEUE;
        let mut arguments = self.arguments;
        arguments[0] = files[0] as usize;
        self.tried = Tried::now(files[0], Direction::Read);
        let takes = arguments[self.flags_at] as c_int & TAKE_NOTHING == 0;
        let has_room = self.number == SYS_recvfrom && self.arguments[2] != 0;
        if takes && has_room && self.tried.is_drained() && self.waits.on(files[0]) {
            return WOULD_WAIT;
        }
        arguments[self.flags_at] |= MSG_DONTWAIT as usize;
        match self.caller.call(self.number, arguments) {
            EAGAIN => {
                if takes {
                    self.tried.is_empty();
                }
                self.waits.refused(files[0])
            }
            r => {
                if takes {
                    // SAFETY: the kernel has filled it if it returns how much.
                    self.tried.has_read(r, || unsafe { self.room() });
                }
                r
            }
        }
    }

    fn tried(&self) -> Tried {
        self.tried
    }

    fn wanted(&self, wanted: &mut [Wanted]) {
        wanted[0] = Wanted::new(self.arguments[0] as i32, POLLIN);
    }

    fn patience(&self) -> Patience {
        Patience::OfSocket(SO_RCVTIMEO)
    }

    fn block(&mut self, _: bool, _: &dyn Fn() -> bool) -> isize {
        self.caller.call(self.number, self.arguments)
    }
}

/// `MSG_WAITALL`: a part is not enough.
struct All<C> {
    caller: C,
    number: c_long,
    arguments: [usize; 6],
    flags: c_int,
    /// How much has come.
    done: usize,
    waits: Waits,
}

impl<C: Caller> All<C> {
    /// The buffers of `recvmsg`.
    fn message(&self) -> Option<&msghdr> {
        // SAFETY: the caller's contract.
        (self.number == SYS_recvmsg).then(|| unsafe { &*(self.arguments[1] as *const msghdr) })
    }

    /// Can it be done in parts? Control data comes with one of them, and peeking takes nothing.
    fn is_divisible(&self) -> bool {
        self.flags & MSG_PEEK == 0
            && self.message().is_none_or(|m| m.msg_control.is_null() && m.msg_iovlen <= 1)
    }

    /// Where it goes, and how much is asked for.
    fn buffer(&self) -> (usize, usize) {
        match self.message() {
            None => (self.arguments[1], self.arguments[2]),
            Some(m) if m.msg_iovlen == 0 => (0, 0),
            // SAFETY: the caller's contract.
            Some(m) => unsafe { ((*m.msg_iov).iov_base as usize, (*m.msg_iov).iov_len) },
        }
    }

    /// The next part of it, which says where it comes from only at first.
    fn part(&self, fd: i32, flags: c_int) -> isize {
        let mut arguments = self.arguments;
        arguments[0] = fd as usize;
        if self.done == 0 {
            arguments[if self.number == SYS_recvmsg { 2 } else { 3 }] = flags as usize;
            return self.caller.call(self.number, arguments);
        }
        let (at, n) = self.buffer();
        let rest = [fd as usize, at + self.done, n - self.done, flags as usize, 0, 0];
        self.caller.call(SYS_recvfrom, rest)
    }
}

impl<C: Caller> Operation for All<C> {
    fn first(&mut self) -> isize {
        if self.is_divisible() || !self.waits.on(self.arguments[0] as i32) {
            self.attempt(&[self.arguments[0] as i32])
        } else {
            WOULD_WAIT
        }
    }

    fn attempt(&mut self, files: &[i32]) -> isize {
        let fd = files[0];
        loop {
            if self.done > 0 && look(fd, POLLIN) & POLLERR != 0 {
                // The error is for the next call.
                return self.done as isize;
            }
            let (r, wanted) = (self.part(fd, self.flags | MSG_DONTWAIT), self.buffer().1);
            match r {
                EAGAIN if self.waits.on(fd) => return WOULD_WAIT,
                EINTR => return EINTR,
                r if r <= 0 => return self.end(r),
                r => {
                    self.done += r as usize;
                    if self.done >= wanted || !self.waits.on(fd) || !is_stream_socket(fd) {
                        return self.done as isize;
                    }
                }
            }
        }
    }

    fn count(&self) -> usize {
        if self.is_divisible() { 1 } else { usize::MAX }
    }

    fn keeps_file(&self) -> bool {
        true
    }

    fn wanted(&self, wanted: &mut [Wanted]) {
        wanted[0] = Wanted::new(self.arguments[0] as i32, POLLIN);
    }

    fn patience(&self) -> Patience {
        Patience::OfSocket(SO_RCVTIMEO)
    }

    fn block(&mut self, _: bool, _: &dyn Fn() -> bool) -> isize {
        match self.part(self.arguments[0] as i32, self.flags) {
            r if r < 0 => r,
            r => self.done as isize + r,
        }
    }

    fn progress(&self) -> usize {
        self.done
    }

    fn end(&self, error: isize) -> isize {
        if self.done > 0 { self.done as isize } else { error }
    }
}

fn is_stream_socket(fd: i32) -> bool {
    sys::type_of_socket(fd) == Some(libc::SOCK_STREAM)
}
