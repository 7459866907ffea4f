//! Waiting for one of many, some of which are served: `poll`, `select`, `epoll_wait`.

use super::epoll::Set;
use super::served::failed;
use super::table::{self, DescriptorEntry};
use super::wait::WaitManner;
use super::{Words, kernel};
use crate::calls::{Sets, Span};
use crate::reactor::{FileWait, Wanted};
use libc::{
    EINTR, EINVAL, POLLERR, POLLHUP, POLLIN, POLLNVAL, POLLOUT, POLLPRI, SYS_ppoll, pollfd,
    timespec, timeval,
};
use std::time::Instant;

static NOT_AT_ALL: timespec = timespec { tv_sec: 0, tv_nsec: 0 };

/// Which of these events of `poll`, errors among them, there are on `fd`; `None`: the kernel knows.
pub(super) fn look(fd: i32, events: i16) -> Option<i16> {
    match table::get(fd)? {
        DescriptorEntry::Socket(served) => {
            Some(served.readiness() as i16 & (events | POLLERR | POLLHUP))
        }
        DescriptorEntry::Lost => Some(POLLERR | POLLHUP | events & (POLLIN | POLLOUT)),
        DescriptorEntry::Set(set) if events & POLLIN != 0 && set.is_ready() => Some(POLLIN),
        DescriptorEntry::Set(_) | DescriptorEntry::Candidate(_) | DescriptorEntry::Nothing => None,
    }
}

/// May a wait for these events end at once? Asked when the one who waits is in the list.
pub(super) fn is_news(fd: i32, events: i16) -> bool {
    match table::get(fd) {
        Some(DescriptorEntry::Set(set)) => set.may_be_ready(),
        Some(_) => look(fd, events).is_some_and(|found| found != 0),
        None => false,
    }
}

/// When a call that begins now must end, and whether that is at once.
#[derive(Clone, Copy)]
struct Time {
    at_once: bool,
    deadline: Option<Instant>,
}

impl Time {
    fn of(span: Option<Span>) -> Result<Time, isize> {
        let span = span.ok_or(failed(EINVAL))?;
        let nanos = std::time::Duration::from_nanos(span.rest());
        let at_once = span.is_over();
        let deadline = if span.is_endless() { None } else { Instant::now().checked_add(nanos) };
        Ok(Time { at_once, deadline })
    }

    /// # Safety
    ///
    /// Null, or a time.
    unsafe fn of_timespec(at: usize) -> Result<Time, isize> {
        // SAFETY: the caller's contract.
        Time::of(Span::of_timespec(unsafe { (at as *const timespec).as_ref() }))
    }
}

/// Calls `look` until it finds something, or the time is over; waits for `files` in between.
fn until(time: Time, how: WaitManner, files: &[Wanted], mut look: impl FnMut() -> isize) -> isize {
    loop {
        let found = look();
        if found != 0 || time.at_once {
            return found;
        }
        match how.wait(files, time.deadline) {
            FileWait::TimedOut => return look(),
            FileWait::Interrupted if how.interruptible => return failed(EINTR),
            _ => {}
        }
    }
}

/// `poll`.
///
/// # Safety
///
/// As for the call.
pub(super) unsafe fn poll(a: Words, how: WaitManner) -> Option<isize> {
    let time = Time::of(Some(Span::of_millis(a[2] as i32)));
    // SAFETY: the caller's contract.
    unsafe { poll_for([a[0], a[1], 0, 0, 8, 0], time, how) }
}

/// `ppoll`.
///
/// # Safety
///
/// As for the call.
pub(super) unsafe fn ppoll(a: Words, how: WaitManner) -> Option<isize> {
    // SAFETY: the caller's contract.
    unsafe {
        let time = Time::of_timespec(a[2]);
        poll_for([a[0], a[1], 0, a[3], 8, 0], time, how)
    }
}

/// # Safety
///
/// As for `ppoll`.
unsafe fn poll_for(a: Words, time: Result<Time, isize>, how: WaitManner) -> Option<isize> {
    let (files, n) = (a[0] as *mut pollfd, a[1]);
    if files.is_null() || n == 0 {
        return None;
    }
    // SAFETY: the caller's contract.
    let files = unsafe { core::slice::from_raw_parts_mut(files, n) };
    if !files.iter().any(|file| table::has(file.fd)) {
        return None;
    }
    let time = match time {
        Ok(time) => time,
        Err(e) => return Some(e),
    };
    let wanted: Vec<Wanted> = if time.at_once {
        Vec::new()
    } else {
        files.iter().map(|file| Wanted::new(file.fd, file.events)).collect()
    };
    // SAFETY: the mask is the program's.
    Some(until(time, how, &wanted, || unsafe { look_at_all(files, a[3], a[4]) }))
}

/// `ppoll` that does not wait.
///
/// # Safety
///
/// The mask is null, or as long as is said.
unsafe fn look_at_all(files: &mut [pollfd], mask: usize, size: usize) -> isize {
    const FEW: usize = 32;
    let (mut few, mut many) = ([pollfd { fd: -1, events: 0, revents: 0 }; FEW], Vec::new());
    let theirs = if files.len() <= FEW {
        &mut few[..files.len()]
    } else {
        many.resize(files.len(), few[0]);
        &mut many[..]
    };
    let mut is_kernels = false;
    for (file, theirs) in files.iter_mut().zip(&mut *theirs) {
        file.revents = 0;
        match if file.fd >= 0 { look(file.fd, file.events) } else { None } {
            Some(found) => file.revents = found,
            None => {
                theirs.fd = file.fd;
                theirs.events = file.events;
                is_kernels |= file.fd >= 0;
            }
        }
    }
    if is_kernels {
        let time = &raw const NOT_AT_ALL as usize;
        let a = [theirs.as_mut_ptr() as usize, theirs.len(), time, mask, size, 0];
        // SAFETY: so many entries; the mask is the program's.
        let found = unsafe { kernel(SYS_ppoll, a) };
        if found < 0 {
            return found;
        }
        for (file, theirs) in files.iter_mut().zip(theirs).filter(|(_, t)| t.fd >= 0) {
            file.revents = theirs.revents;
        }
    }
    files.iter().filter(|file| file.revents != 0).count() as isize
}

/// What `select` calls readable is more than [`POLLIN`], and so on.
fn events_of_select(found: i16) -> i16 {
    let sets =
        [(POLLIN | POLLHUP | POLLERR, POLLIN), (POLLOUT | POLLERR, POLLOUT), (POLLPRI, POLLPRI)];
    let set = |(events, set)| if found & events != 0 { set } else { 0 };
    sets.map(set).into_iter().fold(0, |all, event| all | event)
}

/// `select`.
///
/// # Safety
///
/// As for the call.
pub(super) unsafe fn select(a: Words, how: WaitManner) -> Option<isize> {
    // SAFETY: the caller's contract.
    unsafe {
        let time = (a[4] as *const timeval).as_ref();
        select_for(a, Time::of(Span::of_timeval(time)), 0, how)
    }
}

/// `pselect6`.
///
/// # Safety
///
/// As for the call.
pub(super) unsafe fn pselect(a: Words, how: WaitManner) -> Option<isize> {
    // SAFETY: the caller's contract.
    unsafe {
        let time = Time::of_timespec(a[4]);
        select_for(a, time, a[5], how)
    }
}

/// # Safety
///
/// As for `pselect6`, whose mask is this.
unsafe fn select_for(
    a: Words,
    time: Result<Time, isize>,
    mask: usize,
    how: WaitManner,
) -> Option<isize> {
    let at = [a[1], a[2], a[3]].map(|at| at as *mut libc::fd_set);
    // SAFETY: the caller's contract.
    let asked = unsafe { Sets::read(at, a[0] as i32) };
    if !asked.files().any(|fd| table::has(fd as i32)) {
        return None;
    }
    let time = match time {
        Ok(time) => time,
        Err(e) => return Some(e),
    };
    let wanted = |fd| Wanted::new(fd as i32, asked.events(fd));
    let files: Vec<Wanted> = asked.files().map(wanted).collect();
    let mut found = asked.empty();
    let result = until(time, how, &files, || {
        let mut all: Vec<pollfd> =
            files.iter().map(|f| pollfd { fd: f.fd, events: f.events, revents: 0 }).collect();
        // SAFETY: the mask comes with its size, as `pselect6` has it.
        let [mask, size] = if mask == 0 { [0, 8] } else { unsafe { *(mask as *const [usize; 2]) } };
        // SAFETY: the program's.
        let any = unsafe { look_at_all(&mut all, mask, size) };
        if any <= 0 {
            return any;
        }
        if all.iter().any(|file| file.revents & POLLNVAL != 0) {
            return failed(libc::EBADF);
        }
        found = asked.empty();
        let mut count = 0;
        for file in &all {
            let events = events_of_select(file.revents) & file.events;
            found.add(file.fd as usize, events);
            count += events.count_ones() as isize;
        }
        count
    });
    if result >= 0 {
        // SAFETY: the caller's contract.
        unsafe { found.write(at) };
    }
    Some(result)
}

/// `epoll_wait`, `epoll_pwait` (`a[3]`: milliseconds) and `epoll_pwait2` (`is_exact`: a time).
///
/// # Safety
///
/// As for the call.
pub(super) unsafe fn epoll_wait(
    set: &Set,
    a: Words,
    is_exact: bool,
    how: WaitManner,
) -> Option<isize> {
    if (a[2] as i32) <= 0 {
        return None;
    }
    let time = if is_exact {
        // SAFETY: the caller's contract.
        unsafe { Time::of_timespec(a[3]) }
    } else {
        Time::of(Some(Span::of_millis(a[3] as i32)))
    };
    let time = match time {
        Ok(time) => time,
        Err(e) => return Some(e),
    };
    let now = [a[0], a[1], a[2] as i32 as usize, 0, a[4], 8];
    let files = [Wanted::new(a[0] as i32, POLLIN)];
    // SAFETY: the caller's contract.
    Some(until(time, how, &files, || unsafe { set.wait_now(now) }))
}
