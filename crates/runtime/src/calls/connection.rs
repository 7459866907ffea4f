//! Connections: accepting and making them.

use super::descriptors;
use super::{Caller, EAGAIN, Operation, Patience, Tried, WOULD_WAIT, Waits, is_ready};
use crate::preempt::NoPreempt;
use crate::reactor::{Direction, Made, Wanted};
use crate::sys;
use crate::thread::raw;
use core::ffi::{c_int, c_long};
use core::sync::atomic::{AtomicBool, Ordering::*};
use libc::{
    AF_UNIX, EALREADY, EINPROGRESS, F_GETFL, F_SETFL, O_NONBLOCK, POLLIN, POLLOUT, SO_ACCEPTCONN,
    SO_RCVTIMEO, SO_SNDTIMEO, SOL_SOCKET, SYS_connect, SYS_fcntl, SYS_getsockopt, sa_family_t,
    socklen_t,
};

/// `accept` or `accept4`, as `number` says.
///
/// # Safety
///
/// As for the call.
pub unsafe fn accept<C: Caller>(caller: C, number: c_long, arguments: [usize; 6]) -> isize {
    let (waits, tried) = (Waits::Unknown, Tried::NOTHING);
    let new = caller.perform(true, &mut Accept { caller, number, arguments, waits, tried });
    if let Ok(new) = i32::try_from(new) {
        descriptors::made(new, Made::Socket);
    }
    new
}

/// One is held from the look whether there is a connection to the call that takes it, which would
/// wait if somebody else had taken it. Nobody waits for it: its owner may be what a handler has
/// interrupted.
static ACCEPTING: [AtomicBool; 64] = [const { AtomicBool::new(false) }; 64];

struct Accept<C> {
    caller: C,
    number: c_long,
    arguments: [usize; 6],
    waits: Waits,
    tried: Tried,
}

impl<C: Caller> Accept<C> {
    /// Does the call say at once what is wrong: with something that is no socket, or one that does
    /// not listen? Looked up before it waits for the first time.
    fn never_accepts(&self, fd: i32) -> bool {
        if !matches!(self.waits, Waits::Unknown) {
            return false;
        }
        let (mut listens, mut size): (c_int, _) = (0, size_of::<c_int>() as socklen_t);
        let value = &raw mut listens as usize;
        let (level, name, size) = (SOL_SOCKET, SO_ACCEPTCONN, &raw mut size as usize);
        let a = [fd as usize, level as usize, name as usize, value, size, 0];
        self.caller.call(SYS_getsockopt, a) < 0 || listens == 0
    }
}

impl<C: Caller> Operation for Accept<C> {
    fn first(&mut self) -> isize {
        self.attempt(&[self.arguments[0] as i32])
    }

    fn attempt(&mut self, files: &[i32]) -> isize {
        const TURNS: u32 = 4;
        let mut arguments = self.arguments;
        arguments[0] = files[0] as usize;
        // All those that wait for a file began with the same descriptor, as a rule.
        let is_held = &ACCEPTING[self.arguments[0] % ACCEPTING.len()];
        let mut turns = 0;
        while is_held.swap(true, Acquire) {
            turns += 1;
            if turns == TURNS || !raw::try_yield() {
                self.tried = Tried::NOTHING;
                return WOULD_WAIT;
            }
        }
        self.tried = Tried::now(files[0], Direction::Read);
        let result = if is_ready(files[0], POLLIN) || self.never_accepts(files[0]) {
            Some(self.caller.call(self.number, arguments))
        } else {
            None
        };
        is_held.store(false, Release);
        result.unwrap_or_else(|| self.waits.refused(files[0]))
    }

    fn wanted(&self, wanted: &mut [Wanted]) {
        wanted[0] = Wanted::new(self.arguments[0] as i32, POLLIN);
    }

    fn tried(&self) -> Tried {
        self.tried
    }

    fn patience(&self) -> Patience {
        Patience::OfSocket(SO_RCVTIMEO)
    }

    fn block(&mut self, _: bool, _: &dyn Fn() -> bool) -> isize {
        self.caller.call(self.number, self.arguments)
    }
}

/// `connect`.
///
/// # Safety
///
/// As for the call.
pub unsafe fn connect<C: Caller>(caller: C, arguments: [usize; 6]) -> isize {
    caller.perform(
        true,
        &mut Connect { caller, arguments, stage: ConnectStage::New, tried: Tried::NOTHING },
    )
}

/// How far a connection is.
#[derive(Clone, Copy)]
enum ConnectStage {
    New,
    /// Under way, of which the kernel has said so.
    UnderWay(isize),
    /// The other side's queue is full, and nobody says when it is no more.
    Refused,
}

struct Connect<C> {
    caller: C,
    arguments: [usize; 6],
    stage: ConnectStage,
    tried: Tried,
}

impl<C: Caller> Connect<C> {
    /// The first call. The file does not wait for that time, also for those that have it from
    /// somewhere else: nobody reads from it before it is connected.
    fn begin(&mut self, fd: i32) -> isize {
        const IN_PROGRESS: isize = -(EINPROGRESS as isize);
        const ALREADY: isize = -(EALREADY as isize);
        let control = |command: i32, flags: i32| {
            let arguments = [fd as u64, command as u64, flags as u64];
            // SAFETY: no memory.
            unsafe { sys::syscall3(SYS_fcntl, arguments[0], arguments[1], arguments[2]) as i32 }
        };
        let flags = control(F_GETFL, 0);
        if flags < 0 || flags & O_NONBLOCK != 0 {
            return self.caller.call(SYS_connect, self.arguments);
        }
        let region = NoPreempt::new();
        control(F_SETFL, flags | O_NONBLOCK);
        let result = self.caller.call(SYS_connect, self.arguments);
        control(F_SETFL, flags);
        drop(region);
        match result {
            IN_PROGRESS | ALREADY => self.stage = ConnectStage::UnderWay(result),
            EAGAIN if self.is_local() => self.stage = ConnectStage::Refused,
            result => return result,
        }
        WOULD_WAIT
    }

    fn is_local(&self) -> bool {
        // SAFETY: an address that the kernel has read.
        i32::from(unsafe { *(self.arguments[1] as *const sa_family_t) }) == AF_UNIX
    }
}

impl<C: Caller> Operation for Connect<C> {
    fn asks(&self) -> bool {
        false
    }

    fn first(&mut self) -> isize {
        self.attempt(&[self.arguments[0] as i32])
    }

    fn attempt(&mut self, files: &[i32]) -> isize {
        let mut arguments = self.arguments;
        arguments[0] = files[0] as usize;
        self.tried = Tried::now(files[0], Direction::Write);
        match self.stage {
            ConnectStage::New => self.begin(files[0]),
            ConnectStage::UnderWay(_) if !is_ready(files[0], POLLOUT) => WOULD_WAIT,
            // Made again it says what has come of it, and the socket is in the right state.
            ConnectStage::UnderWay(_) => self.caller.call(SYS_connect, arguments),
            ConnectStage::Refused => WOULD_WAIT,
        }
    }

    fn count(&self) -> usize {
        if let ConnectStage::Refused = self.stage { usize::MAX } else { 1 }
    }

    fn wanted(&self, wanted: &mut [Wanted]) {
        wanted[0] = Wanted::new(self.arguments[0] as i32, POLLOUT);
    }

    fn tried(&self) -> Tried {
        self.tried
    }

    fn patience(&self) -> Patience {
        Patience::OfSocket(SO_SNDTIMEO)
    }

    fn block(&mut self, _: bool, _: &dyn Fn() -> bool) -> isize {
        self.caller.call(SYS_connect, self.arguments)
    }

    fn timed_out(&self) -> isize {
        match self.stage {
            ConnectStage::UnderWay(said) => said,
            _ => EAGAIN,
        }
    }
}
