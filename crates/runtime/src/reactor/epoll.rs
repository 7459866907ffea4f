//! The epoll instance: its system calls, without libc, because they are made in the preemption
//! handler, too.

use crate::sys::{self, syscall6};
use core::mem::MaybeUninit;
use libc::epoll_event;
use std::time::Duration;

/// Events that are taken at once: they lie on stacks of threads.
const MOST: usize = 32;

/// What has happened.
pub(crate) struct Events {
    events: [MaybeUninit<epoll_event>; MOST],
    len: usize,
}

impl Events {
    #[inline]
    pub(crate) fn new() -> Events {
        Events { events: [const { MaybeUninit::uninit() }; MOST], len: 0 }
    }

    /// Is there room for no more?
    pub(crate) fn is_full(&self) -> bool {
        self.len == MOST
    }

    /// Data and events of each file.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, u32)> {
        self.events[..self.len].iter().map(|event| {
            // SAFETY: the kernel has written the first `len`.
            let event = unsafe { event.assume_init_read() };
            (event.u64, event.events)
        })
    }
}

fn result(r: i64) -> Result<i64, i32> {
    if r < 0 { Err(-r as i32) } else { Ok(r) }
}

/// A new instance.
pub(super) fn create() -> Result<i32, i32> {
    // SAFETY: no memory is involved.
    let r =
        unsafe { syscall6(libc::SYS_epoll_create1, [libc::EPOLL_CLOEXEC as u64, 0, 0, 0, 0, 0]) };
    result(r).map(|fd| fd as i32)
}

/// `epoll_ctl`: the operation, a file, and which of its events are of interest; they come with this
/// `data`.
pub(super) fn control(
    epoll: i32,
    (operation, fd, events): (i32, i32, u32),
    data: u64,
) -> Result<(), i32> {
    let event = epoll_event { events, u64: data };
    let args = [epoll as u64, operation as u64, fd as u64, &raw const event as u64, 0, 0];
    // SAFETY: the kernel reads `event`.
    result(unsafe { syscall6(libc::SYS_epoll_ctl, args) }).map(|_| ())
}

/// Waits until something has happened, for `time` at most; `None`: until then.
pub(super) fn wait(epoll: i32, events: &mut Events, time: Option<Duration>) -> Result<(), i32> {
    let ts = time.map(sys::timespec);
    let tsp = ts.as_ref().map_or(0, |ts| core::ptr::from_ref(ts) as u64);
    let args = [epoll as u64, events.events.as_mut_ptr() as u64, MOST as u64, tsp, 0, 0];
    events.len = 0;
    // SAFETY: the kernel writes up to MOST events; `ts` lives across the call.
    match result(unsafe { syscall6(libc::SYS_epoll_pwait2, args) }) {
        // Linux before 5.11.
        Err(libc::ENOSYS) => {
            sys::poll(epoll, libc::POLLIN, time)?;
            take(epoll, events)
        }
        r => {
            events.len = r? as usize;
            Ok(())
        }
    }
}

/// Takes what has happened already.
#[inline]
pub(super) fn take(epoll: i32, events: &mut Events) -> Result<(), i32> {
    let args = [epoll as u64, events.events.as_mut_ptr() as u64, MOST as u64, 0, 0, 0];
    events.len = 0;
    // SAFETY: the kernel writes up to MOST events.
    events.len = result(unsafe { syscall6(libc::SYS_epoll_pwait, args) })? as usize;
    Ok(())
}

/// Makes an [`eventfd`](sys::eventfd) unreadable.
pub(super) fn clear(eventfd: i32) {
    let mut count = 0u64;
    // SAFETY: the kernel writes `count`. The only error is that it is unreadable already.
    unsafe {
        syscall6(libc::SYS_read, [eventfd as u64, &raw mut count as u64, 8, 0, 0, 0]);
    }
}

/// The file under a number that programs do not choose for their own; the same if there is none.
pub(super) fn out_of_the_way(fd: i32) -> i32 {
    sys::duplicate(fd, sys::OUT_OF_THE_WAY).inspect(|_| sys::close(fd)).unwrap_or(fd)
}
