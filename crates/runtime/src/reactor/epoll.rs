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

/// `epoll_ctl` for file `fd`, whose number comes back with its events.
pub(super) fn control(epoll: i32, operation: i32, fd: i32, events: u32) -> Result<(), i32> {
    control_with(epoll, operation, fd, epoll_event { events, u64: fd as u64 })
}

fn control_with(epoll: i32, operation: i32, fd: i32, event: epoll_event) -> Result<(), i32> {
    let args = [epoll as u64, operation as u64, fd as u64, &raw const event as u64, 0, 0];
    // SAFETY: the kernel reads `event`.
    result(unsafe { syscall6(libc::SYS_epoll_ctl, args) }).map(|_| ())
}

/// Adds the file that wakes who sleeps in the instance; its events have this `data`.
pub(super) fn add_wake(epoll: i32, fd: i32, data: u64) -> Result<(), i32> {
    control_with(
        epoll,
        libc::EPOLL_CTL_ADD,
        fd,
        epoll_event { events: libc::EPOLLIN as u32, u64: data },
    )
}

/// Waits until something has happened, for `time` at most; `None`: until then.
pub(super) fn wait(epoll: i32, events: &mut Events, time: Option<Duration>) -> Result<(), i32> {
    let ts = time.map(sys::timespec);
    let time = ts.as_ref().map_or(0, |ts| core::ptr::from_ref(ts) as u64);
    let args = [epoll as u64, events.events.as_mut_ptr() as u64, MOST as u64, time, 0, 0];
    events.len = 0;
    // SAFETY: the kernel writes up to MOST events; `ts` lives across the call.
    match result(unsafe { syscall6(libc::SYS_epoll_pwait2, args) }) {
        // Linux before 5.11.
        Err(libc::ENOSYS) => {
            if ts.is_some() || time == 0 {
                let mut file = libc::pollfd { fd: epoll, events: libc::POLLIN, revents: 0 };
                sys::poll(
                    &mut file,
                    ts.map(|ts| Duration::new(ts.tv_sec as u64, ts.tv_nsec as u32)),
                )?;
            }
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

/// A file that wakes who waits for it.
pub(super) fn eventfd() -> Result<i32, i32> {
    let flags = libc::EFD_CLOEXEC | libc::EFD_NONBLOCK;
    // SAFETY: no memory is involved.
    let r = unsafe { syscall6(libc::SYS_eventfd2, [0, flags as u64, 0, 0, 0, 0]) };
    result(r).map(|fd| fd as i32)
}

/// Makes an [`eventfd`] readable.
pub(super) fn signal(eventfd: i32) {
    let one = 1u64;
    // SAFETY: the kernel reads `one`. The only error is that it is readable already, to the brim.
    unsafe {
        syscall6(libc::SYS_write, [eventfd as u64, &raw const one as u64, 8, 0, 0, 0]);
    }
}

/// Makes an [`eventfd`] unreadable.
pub(super) fn clear(eventfd: i32) {
    let mut count = 0u64;
    // SAFETY: the kernel writes `count`. The only error is that it is unreadable already.
    unsafe {
        syscall6(libc::SYS_read, [eventfd as u64, &raw mut count as u64, 8, 0, 0, 0]);
    }
}

/// The file under a number that programs do not choose for their own; the same if there is none.
pub(super) fn out_of_the_way(fd: i32) -> i32 {
    const HIGH: u64 = 512;
    let args = [fd as u64, libc::F_DUPFD_CLOEXEC as u64, HIGH, 0, 0, 0];
    // SAFETY: no memory is involved.
    match result(unsafe { syscall6(libc::SYS_fcntl, args) }) {
        Ok(high) => {
            close(fd);
            high as i32
        }
        Err(_) => fd,
    }
}

pub(super) fn close(fd: i32) {
    // SAFETY: a descriptor of this module's, used by nobody any more.
    unsafe { syscall6(libc::SYS_close, [fd as u64, 0, 0, 0, 0, 0]) };
}
