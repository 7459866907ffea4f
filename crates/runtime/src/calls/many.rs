//! Waiting for one of many files: `poll`, `epoll_wait`.

use super::{Caller, MANY, Operation, Patience, Tried, WOULD_WAIT, write_all};
use crate::deadline::Deadline;
use crate::os::pages::Pages;
use crate::overlay;
use crate::reactor::{Direction, Wanted};
use core::ptr;
use libc::{
    POLLIN, POLLOUT, POLLPRI, POLLRDHUP, SYS_epoll_pwait, SYS_ppoll, epoll_event, pollfd, timespec,
    timeval,
};
use std::time::Duration;

/// How long a call waits: from now, if not for ever.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    nanos: Option<u64>,
    end: Option<Deadline>,
}

const SECOND: u64 = 1_000_000_000;

impl Span {
    /// So many nanoseconds; none: for ever.
    pub fn new(nanos: Option<u64>) -> Span {
        let end = nanos.filter(|&nanos| nanos > 0).map(Duration::from_nanos).map(Deadline::after);
        Span { nanos, end }
    }

    /// As `poll` and `epoll_wait` say it.
    pub fn of_millis(timeout: i32) -> Span {
        Span::new(u64::try_from(timeout).ok().map(|ms| ms * 1_000_000))
    }

    /// As `ppoll` and its like say it; `None`: the kernel refuses that.
    pub fn of_timespec(time: Option<&timespec>) -> Option<Span> {
        let Some(time) = time else { return Some(Span::new(None)) };
        let nanos = u64::try_from(time.tv_nsec).ok().filter(|&nanos| nanos < SECOND)?;
        let seconds = u64::try_from(time.tv_sec).ok()?;
        Some(Span::new(Some(seconds.saturating_mul(SECOND).saturating_add(nanos))))
    }

    /// As `select` says it; `None`: the kernel refuses that.
    pub fn of_timeval(time: Option<&timeval>) -> Option<Span> {
        let Some(time) = time else { return Some(Span::new(None)) };
        let micros = i128::from(time.tv_sec) * 1_000_000 + i128::from(time.tv_usec);
        let negative = time.tv_sec < 0 || time.tv_usec < 0;
        let nanos = u64::try_from(micros * 1000).unwrap_or(u64::MAX);
        (!negative).then(|| Span::new(Some(nanos)))
    }

    /// What a call that found nothing says without waiting.
    pub(super) fn nothing(self) -> isize {
        if self.nanos == Some(0) { 0 } else { WOULD_WAIT }
    }

    /// Is there no end?
    pub(crate) fn is_endless(self) -> bool {
        self.nanos.is_none()
    }

    /// Must the call not wait?
    pub(crate) fn is_over(self) -> bool {
        self.nanos == Some(0)
    }

    pub(super) fn patience(self) -> Patience {
        self.end.map_or(Patience::Endless, Patience::Until)
    }

    /// What is to be told to the kernel: the program's own time, or what is left of it.
    pub(crate) fn left(self, again: bool) -> Option<timespec> {
        let nanos = self.nanos?;
        Some(timespec_of(if again { self.rest() } else { nanos }))
    }

    /// How many nanoseconds of it are left.
    pub fn rest(self) -> u64 {
        self.end.map_or(0, |end| end.left().as_nanos().try_into().unwrap_or(u64::MAX))
    }
}

pub(super) const NOT_AT_ALL: timespec = timespec { tv_sec: 0, tv_nsec: 0 };

fn timespec_of(nanos: u64) -> timespec {
    timespec { tv_sec: (nanos / SECOND) as i64, tv_nsec: (nanos % SECOND) as i64 }
}

pub(super) fn pointer(t: Option<&timespec>) -> usize {
    t.map_or(0, |t| ptr::from_ref(t) as usize)
}

/// `poll` and `ppoll`; `mask` is what the kernel is to be told.
///
/// # Safety
///
/// As for the call.
pub unsafe fn poll<C: Caller>(
    caller: C,
    files: *mut pollfd,
    n: usize,
    span: Span,
    mask: usize,
) -> isize {
    caller.perform(false, &mut Poll { caller, files, n, span, mask, tried: Tried::NOTHING })
}

struct Poll<C> {
    caller: C,
    files: *mut pollfd,
    n: usize,
    span: Span,
    mask: usize,
    tried: Tried,
}

impl<C: Caller> Poll<C> {
    fn call(&self, files: *mut pollfd, time: Option<&timespec>) -> isize {
        let arguments = [files as usize, self.n, pointer(time), self.mask, 8, 0];
        match self.caller.call(SYS_ppoll, arguments) {
            0 if time.is_some_and(|t| (t.tv_sec, t.tv_nsec) == (0, 0)) => self.span.nothing(),
            r => r,
        }
    }

    /// Those of the program, which the kernel has read.
    fn files(&self) -> &[pollfd] {
        if self.n == 0 {
            return &[];
        }
        // SAFETY: the caller's contract.
        unsafe { core::slice::from_raw_parts(self.files, self.n) }
    }
}

impl<C: Caller> Operation for Poll<C> {
    fn first(&mut self) -> isize {
        self.call(self.files, Some(&NOT_AT_ALL))
    }

    fn attempt(&mut self, files: &[i32]) -> isize {
        self.tried = match self.files() {
            [file] if file.events & !(POLLIN | POLLPRI | POLLRDHUP) == 0 => {
                Tried::now(files[0], Direction::Read)
            }
            [pollfd { events: POLLOUT, .. }] => Tried::now(files[0], Direction::Write),
            _ => Tried::NOTHING,
        };
        if self.files().iter().zip(files).all(|(given, &fd)| given.fd == fd) {
            return self.first();
        }
        let nothing = pollfd { fd: -1, events: 0, revents: 0 };
        let (mut few, mut many) = ([nothing; MANY], None);
        let moved = match few.get_mut(..self.n) {
            Some(few) => few,
            None => {
                let Some(pages) = many.insert(Pages::new(self.n)) else {
                    return -(libc::ENOMEM as isize);
                };
                write_all(pages.places(), nothing)
            }
        };
        for ((moved, given), &fd) in moved.iter_mut().zip(self.files()).zip(files) {
            *moved = pollfd { fd, ..*given };
        }
        let result = self.call(moved.as_mut_ptr(), Some(&NOT_AT_ALL));
        for (i, moved) in moved.iter().enumerate().take(self.n) {
            // SAFETY: one of the program's.
            unsafe { (*self.files.add(i)).revents = moved.revents };
        }
        result
    }

    fn count(&self) -> usize {
        self.n
    }

    fn tried(&self) -> Tried {
        self.tried
    }

    fn wanted(&self, wanted: &mut [Wanted]) {
        for (wanted, given) in wanted.iter_mut().zip(self.files()) {
            *wanted = Wanted::new(given.fd, given.events);
        }
    }

    fn patience(&self) -> Patience {
        self.span.patience()
    }

    fn block(&mut self, again: bool, _: &dyn Fn() -> bool) -> isize {
        let left = self.span.left(again);
        let arguments = [self.files as usize, self.n, pointer(left.as_ref()), self.mask, 8, 0];
        self.caller.call(SYS_ppoll, arguments)
    }

    fn timed_out(&self) -> isize {
        0
    }
}

/// How long `epoll_pwait` and `epoll_pwait2` wait.
#[derive(Clone, Copy, Debug)]
pub enum Epoll {
    /// Milliseconds.
    Millis(i32),
    /// In more detail.
    Exact(Span),
}

/// `epoll_wait` and its relatives; `mask` is what the kernel is to be told.
///
/// # Safety
///
/// As for the call.
pub unsafe fn epoll_wait<C: Caller>(
    caller: C,
    fd: i32,
    events: *mut epoll_event,
    n: i32,
    time: Epoll,
    mask: usize,
) -> isize {
    let span = match time {
        Epoll::Millis(ms) => Span::of_millis(ms),
        Epoll::Exact(span) => span,
    };
    let tried = Tried::NOTHING;
    caller.perform(false, &mut EpollWait { caller, fd, events, n, time, span, mask, tried })
}

struct EpollWait<C> {
    caller: C,
    fd: i32,
    events: *mut epoll_event,
    n: i32,
    time: Epoll,
    span: Span,
    mask: usize,
    tried: Tried,
}

impl<C: Caller> Operation for EpollWait<C> {
    fn first(&mut self) -> isize {
        self.attempt(&[self.fd])
    }

    fn attempt(&mut self, files: &[i32]) -> isize {
        self.tried = Tried::now(files[0], Direction::Read);
        // What the kernel refuses at once it is to be asked.
        let is_valid = (1..1 << 20).contains(&self.n) && self.mask == 0 && !overlay::is_active();
        if is_valid && self.tried.is_drained() && self.span.nothing() == WOULD_WAIT {
            return WOULD_WAIT;
        }
        let arguments = [files[0] as usize, self.events as usize, self.n as usize, 0, self.mask, 8];
        match self.caller.call(SYS_epoll_pwait, arguments) {
            0 => {
                self.tried.is_empty();
                self.span.nothing()
            }
            r => r,
        }
    }

    fn tried(&self) -> Tried {
        self.tried
    }

    fn wanted(&self, wanted: &mut [Wanted]) {
        wanted[0] = Wanted::new(self.fd, POLLIN);
    }

    fn patience(&self) -> Patience {
        self.span.patience()
    }

    fn block(&mut self, again: bool, _: &dyn Fn() -> bool) -> isize {
        let (fd, events, n) = (self.fd as usize, self.events as usize, self.n as usize);
        if let Epoll::Exact(span) = self.time {
            let left = span.left(again);
            let arguments = [fd, events, n, pointer(left.as_ref()), self.mask, 8];
            return self.caller.call(libc::SYS_epoll_pwait2, arguments);
        }
        let left = self.span.left(again).map_or(-1, |t| {
            t.tv_sec * 1000 + t.tv_nsec / 1_000_000 + i64::from(t.tv_nsec % 1_000_000 != 0)
        });
        let left = left.min(i32::MAX.into()) as usize;
        self.caller.call(SYS_epoll_pwait, [fd, events, n, left, self.mask, 8])
    }

    fn timed_out(&self) -> isize {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans() {
        assert_eq!(Span::of_millis(-1).left(false).map(|t| t.tv_sec), None);
        assert_eq!(Span::of_millis(0).nothing(), 0);
        assert_eq!(Span::of_millis(1).nothing(), WOULD_WAIT);
        let long = Span::of_millis(3_600_000);
        assert!(matches!(long.patience(), Patience::Until(_)));
        assert_eq!(long.left(false).map(|t| (t.tv_sec, t.tv_nsec)), Some((3600, 0)));
        assert!(long.left(true).is_some_and(|t| (3500..=3600).contains(&t.tv_sec)));
        let spec = |tv_sec, tv_nsec| Span::of_timespec(Some(&timespec { tv_sec, tv_nsec }));
        assert!(spec(-1, 0).is_none() && spec(0, 1_000_000_000).is_none() && spec(0, -1).is_none());
        assert_eq!(spec(0, 0).map(Span::nothing), Some(0));
        let val = |tv_sec, tv_usec| Span::of_timeval(Some(&timeval { tv_sec, tv_usec }));
        assert!(val(0, -1).is_none() && val(-1, 0).is_none());
        // Microseconds may be more than a second.
        let left = val(1, 2_000_001).and_then(|span| span.left(false));
        assert_eq!(left.map(|t| (t.tv_sec, t.tv_nsec)), Some((3, 1000)));
    }
}
