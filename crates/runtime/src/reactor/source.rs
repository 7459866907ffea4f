//! A file of this crate's that does not block.

use super::file::{self, File};
use super::wait;
use crate::overlay;
use crate::park;
use crate::preempt;
use crate::thread::raw;
use core::mem::ManuallyDrop;
use core::sync::atomic::{AtomicU64, Ordering::*};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Instant;

/// What a thread waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Direction {
    Read,
    Write,
}

impl Direction {
    /// The event of `poll`.
    pub(crate) fn events(self) -> i16 {
        match self {
            Direction::Read => libc::POLLIN,
            Direction::Write => libc::POLLOUT,
        }
    }
}

/// No number of events.
const NOT_DRAINED: u64 = u64::MAX;

/// A file in non-blocking mode that threads wait for.
#[derive(Debug)]
pub(crate) struct FileSource {
    fd: OwnedFd,
    /// How many events there had been when a read found less than it wanted: until there is another
    /// one, reading would only say `EAGAIN`.
    drained: AtomicU64,
}

impl FileSource {
    /// The file must be in non-blocking mode.
    pub(crate) fn new(fd: OwnedFd) -> FileSource {
        FileSource { fd, drained: AtomicU64::new(NOT_DRAINED) }
    }

    /// Gives the file back, which is known to nobody any more.
    pub(crate) fn into_fd(self) -> OwnedFd {
        wait::forget_source(self.fd.as_raw_fd());
        let this = ManuallyDrop::new(self);
        // SAFETY: `this` is not dropped, so the descriptor is taken once; nothing else in it needs
        // to be.
        unsafe { core::ptr::read(&this.fd) }
    }

    /// Does `f`, which says `WouldBlock` when it would have to wait, until it says something else;
    /// waits in between, until `deadline`.
    ///
    /// # Errors
    ///
    /// `f`'s; `WouldBlock` when the deadline has come, as `std` says it for a timeout.
    pub(crate) fn io<R>(
        &self,
        direction: Direction,
        deadline: Option<Instant>,
        mut f: impl FnMut(BorrowedFd<'_>) -> io::Result<R>,
    ) -> io::Result<R> {
        self.io_counted(direction, deadline, |_| f(self.fd.as_fd()))
    }

    /// As [`io`](FileSource::io), for `f` that is told how many events there have been.
    fn io_counted<R>(
        &self,
        direction: Direction,
        deadline: Option<Instant>,
        mut f: impl FnMut(u32) -> io::Result<R>,
    ) -> io::Result<R> {
        let mut gets = preempt::at_call() && direction == Direction::Read;
        loop {
            let seen = self.events(direction);
            match f(seen) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    self.wait(direction, seen, deadline)?;
                    gets = false;
                }
                result => {
                    if gets && result.is_ok() {
                        preempt::has_got();
                    }
                    return result;
                }
            }
        }
    }

    /// As [`io`](FileSource::io), for `f` that reads up to `wanted` bytes of a stream and says how
    /// many there were. After a read that found fewer, the next one waits at once.
    pub(crate) fn read_stream(
        &self,
        deadline: Option<Instant>,
        wanted: usize,
        mut f: impl FnMut(BorrowedFd<'_>) -> io::Result<usize>,
    ) -> io::Result<usize> {
        self.io_counted(Direction::Read, deadline, |seen| {
            if self.drained.load(Relaxed) == u64::from(seen) && raw::current().is_some() {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            self.drained.store(NOT_DRAINED, Relaxed);
            let n = f(self.fd.as_fd())?;
            if 0 < n && n < wanted && !self.is_special() {
                self.drained.store(u64::from(seen), Relaxed);
            }
            Ok(n)
        })
    }

    fn file(&self) -> Option<&'static File> {
        file::known(self.fd.as_raw_fd())
    }

    /// How many events there have been.
    fn events(&self, direction: Direction) -> u32 {
        self.file().map_or(0, |file| match direction {
            Direction::Read => file.reads.load(Acquire),
            Direction::Write => file.writes.load(Acquire),
        })
    }

    fn is_special(&self) -> bool {
        self.file().is_none_or(|file| file.special.load(Relaxed))
    }

    /// May there have been an event that is not about data, say the end? For those whose `f` does
    /// not notice; asked when it says `WouldBlock`. `false`: if there has been one, it will be
    /// reported.
    pub(crate) fn may_have_ended(&self) -> bool {
        !raw::may_park() || self.is_special()
    }

    /// Waits until there has been an event since `seen`.
    fn wait(&self, direction: Direction, seen: u32, deadline: Option<Instant>) -> io::Result<()> {
        let fd = self.fd.as_raw_fd();
        let Some(file) = file::of(fd).filter(|_| raw::may_park()) else {
            return wait_in_kernel(fd, direction, deadline);
        };
        match wait::wait_source(file, fd, direction, seen, deadline) {
            Ok(true) => Ok(()),
            Ok(false) => Err(io::ErrorKind::WouldBlock.into()),
            // Such files are always ready.
            Err(libc::EPERM) => Err(io::Error::from_raw_os_error(libc::EPERM)),
            // The kernel has no room for another file in an epoll instance.
            Err(_) => crate::block_in_place(|| wait_in_kernel(fd, direction, deadline)),
        }
    }
}

impl Drop for FileSource {
    fn drop(&mut self) {
        wait::forget_source(self.fd.as_raw_fd());
    }
}

impl AsFd for FileSource {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Waits as a kernel thread.
fn wait_in_kernel(fd: i32, direction: Direction, deadline: Option<Instant>) -> io::Result<()> {
    let _waiting = park::waits_for(c"file", core::ptr::without_provenance::<()>(fd as usize));
    loop {
        let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
        match overlay::poll_one(fd, direction.events(), left) {
            Ok(0) if left.is_some_and(|left| left.is_zero()) => {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            Ok(0) | Err(libc::EINTR) => {}
            Ok(_) => return Ok(()),
            Err(e) => return Err(io::Error::from_raw_os_error(e)),
        }
    }
}

#[cfg(test)]
mod tests;
