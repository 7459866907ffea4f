//! Several messages with one call: `recvmmsg`, `sendmmsg`.
//!
//! Each round takes or sends what it can without waiting, and waits for one more message only if
//! nothing could be done. So a burst is one system call, as natively. What has been transferred
//! ends a call that a handler interrupts, and one that meets an error.

use super::many::Span;
use super::{Caller, EAGAIN, Operation, Patience, Waits, look, receive, send};
use crate::reactor::Wanted;
use crate::sys;
use core::ffi::{c_int, c_long};
use core::mem::size_of;
use libc::{
    EINVAL, MSG_DONTWAIT, MSG_ERRQUEUE, MSG_OOB, MSG_WAITALL, MSG_WAITFORONE, POLLERR, POLLIN,
    POLLOUT, SO_RCVTIMEO, SO_SNDTIMEO, SOCK_STREAM, SYS_recvmmsg, SYS_recvmsg, SYS_sendmmsg,
    mmsghdr, timespec,
};

/// As many as `sendmmsg` sends; the kernel's `UIO_MAXIOV`.
const MOST_SENT: usize = 1024;

/// `recvmmsg`. As in the kernel, its time is looked at after each message only, and an error behind
/// the first message is for the next call.
///
/// # Safety
///
/// As for the call.
pub unsafe fn receive_several<C: Caller>(caller: C, a: [usize; 6]) -> isize {
    let (messages, n, flags) = (a[1] as *mut mmsghdr, a[2] as u32 as usize, a[3] as c_int);
    // SAFETY: the caller's contract: null or a time.
    let time = unsafe { (a[4] as *mut timespec).as_mut() };
    let Some(span) = Span::of_timespec(time.as_deref()) else { return -(EINVAL as isize) };
    let never = flags & (MSG_DONTWAIT | MSG_ERRQUEUE | MSG_OOB) != 0;
    let mut batch = MessageBatch {
        caller,
        number: SYS_recvmmsg,
        fd: a[0] as i32,
        messages,
        left: n,
        flags: flags & !MSG_WAITFORONE,
        done: 0,
        span: time.is_some().then_some(span),
        waits: Waits::unless(never),
    };
    // Without waiting, a part of what a message has room for would do.
    let mut whole = flags & MSG_WAITALL != 0 && !never;
    let result = loop {
        let in_whole = whole && batch.left > 0;
        let r = if in_whole { batch.receive_whole() } else { batch.round() };
        if r <= 0 {
            break if batch.done > 0 { batch.done as isize } else { r };
        }
        batch.advance(r as usize);
        if flags & MSG_WAITFORONE != 0 {
            (batch.waits, whole) = (Waits::No, false);
        }
        let is_over = time.is_some() && span.rest() == 0;
        if batch.left == 0 || is_over || !in_whole && !batch.waits.on(batch.fd) {
            break batch.done as isize;
        }
    };
    if result > 0
        && let Some(time) = time
    {
        // Linux says what is left.
        *time = span.left(true).unwrap_or(*time);
    }
    result
}

/// `sendmmsg`. An error behind the first message is lost, as in the kernel.
///
/// # Safety
///
/// As for the call.
pub unsafe fn send_several<C: Caller>(caller: C, a: [usize; 6]) -> isize {
    let (messages, n, flags) = (a[1] as *mut mmsghdr, a[2] as u32 as usize, a[3] as c_int);
    let mut batch = MessageBatch {
        caller,
        number: SYS_sendmmsg,
        fd: a[0] as i32,
        messages,
        left: n.min(MOST_SENT),
        flags,
        done: 0,
        span: None,
        waits: Waits::unless(flags & MSG_DONTWAIT != 0),
    };
    // Without waiting, a stream's message may be sent in part.
    let in_parts = flags & MSG_DONTWAIT == 0 && sys::type_of_socket(batch.fd) == Some(SOCK_STREAM);
    loop {
        let r = if in_parts && batch.left > 0 { batch.send_whole() } else { batch.round() };
        if r <= 0 {
            return if batch.done > 0 { batch.done as isize } else { r };
        }
        batch.advance(r as usize);
        if batch.left == 0 || !batch.waits.on(batch.fd) {
            return batch.done as isize;
        }
    }
}

/// As many messages as can be transferred without waiting; one at least.
struct MessageBatch<C> {
    caller: C,
    number: c_long,
    fd: i32,
    /// The next one, and how many there are from it on.
    messages: *mut mmsghdr,
    left: usize,
    flags: c_int,
    /// How many have been transferred in earlier rounds.
    done: usize,
    span: Option<Span>,
    waits: Waits,
}

impl<C: Caller> MessageBatch<C> {
    /// How many; 0: the rest is for the next call.
    fn round(&mut self) -> isize {
        let (caller, restarts) = (self.caller, self.done == 0);
        caller.perform(restarts, self)
    }

    /// So many have been transferred.
    fn advance(&mut self, n: usize) {
        self.messages = self.messages.wrapping_add(n);
        (self.left, self.done) = (self.left - n, self.done + n);
    }

    /// One message as `recvmsg` with `MSG_WAITALL` fills it.
    fn receive_whole(&mut self) -> isize {
        let a = [self.fd as usize, self.messages as usize, self.flags as usize, 0, 0, 0];
        // SAFETY: a message of the program's, which begins with what `recvmsg` takes.
        let r = unsafe { receive::receive(self.caller, SYS_recvmsg, a, 2) };
        self.note(r)
    }

    /// One message, all of it.
    fn send_whole(&mut self) -> isize {
        let a = [self.fd as usize, self.messages as usize, self.flags as usize, 0, 0, 0];
        // SAFETY: as above.
        let r = unsafe { send::send_message(self.caller, a) };
        self.note(r)
    }

    /// What has come of the next message; 1, or the error.
    fn note(&mut self, r: isize) -> isize {
        if r < 0 {
            return r;
        }
        // SAFETY: one of the program's, which has just been read.
        unsafe { (*self.messages).msg_len = r as u32 };
        1
    }

    fn call(&self, fd: i32, flags: c_int) -> isize {
        // A time that is over lets the kernel take one message.
        let mut time = self.span.and_then(|span| span.left(true));
        let time = time.as_mut().map_or(0, |time| core::ptr::from_mut(time) as usize);
        let n = self.left.min(u32::MAX as usize);
        let a = [fd as usize, self.messages as usize, n, flags as usize, time, 0];
        self.caller.call(self.number, a)
    }

    fn events(&self) -> i16 {
        if self.number == SYS_recvmmsg { POLLIN } else { POLLOUT }
    }
}

impl<C: Caller> Operation for MessageBatch<C> {
    fn asks(&self) -> bool {
        self.number == SYS_recvmmsg
    }

    fn first(&mut self) -> isize {
        self.attempt(&[self.fd])
    }

    fn attempt(&mut self, files: &[i32]) -> isize {
        let receives = self.number == SYS_recvmmsg;
        if self.done > 0 && receives && look(files[0], POLLIN) & POLLERR != 0 {
            return 0;
        }
        match self.call(files[0], self.flags | MSG_DONTWAIT) {
            EAGAIN => self.waits.refused(files[0]),
            r => r,
        }
    }

    fn wanted(&self, wanted: &mut [Wanted]) {
        wanted[0] = Wanted::new(self.fd, self.events());
    }

    fn patience(&self) -> Patience {
        let receives = self.number == SYS_recvmmsg;
        Patience::OfSocket(if receives { SO_RCVTIMEO } else { SO_SNDTIMEO })
    }

    fn block(&mut self, _: bool, _: &dyn Fn() -> bool) -> isize {
        if self.number == SYS_recvmmsg {
            return self.call(self.fd, self.flags | MSG_WAITFORONE);
        }
        // All that there are would wait each.
        let left = core::mem::replace(&mut self.left, 1);
        let r = self.call(self.fd, self.flags);
        self.left = left;
        r
    }
}

const _: () = assert!(core::mem::offset_of!(mmsghdr, msg_hdr) == 0 && size_of::<mmsghdr>() == 64);
