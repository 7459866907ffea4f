//! Waiting for files of any kind.

use super::socket::ready;
use crate::reactor::{Direction, FileSource};
use std::fmt;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Instant;

/// A file that can be waited for: a pipe, a terminal, an `eventfd`, a `timerfd`, a `pidfd`, the
/// socket of a C library.
///
/// Waiting parks the user thread; a kernel thread waits in the kernel. Several threads may wait at
/// the same time. This holds a descriptor of its own for the file, beside that of `T`.
///
/// Files on disks cannot be waited for. Read and write them in
/// [`block_in_place`](crate::block_in_place).
///
/// # Examples
///
/// A pipe, which stays in blocking mode: there is one reader, so a read does not wait when there is
/// something to read.
///
/// ```
/// use quaver::net::Pollable;
/// use std::io::{self, Read, Write};
///
/// # fn main() -> io::Result<()> {
/// # quaver::Builder::new().workers(1).build().unwrap().run(|| {
/// let (reader, mut writer) = io::pipe()?;
/// let reader = Pollable::new(reader)?;
/// let text = quaver::spawn(move || -> io::Result<Vec<u8>> {
///     reader.wait_readable(None)?;
///     let mut buffer = [0; 16];
///     let n = reader.get_ref().read(&mut buffer)?;
///     Ok(buffer[..n].to_vec())
/// });
/// writer.write_all(b"hello")?;
/// assert_eq!(text.join().unwrap()?, b"hello");
/// # Ok(())
/// # })
/// # }
/// ```
#[doc(alias = "AsyncFd")]
pub struct Pollable<T> {
    source: FileSource,
    file: T,
}

impl<T: AsFd> Pollable<T> {
    /// Prepares for waiting for `file`, whose mode is left as it is.
    ///
    /// # Errors
    ///
    /// `Unsupported` for a file that cannot be waited for, with the reason; when the process has no
    /// descriptor left.
    pub fn new(file: T) -> io::Result<Pollable<T>> {
        check(file.as_fd())?;
        let source = FileSource::new(file.as_fd().try_clone_to_owned()?);
        Ok(Pollable { source, file })
    }

    /// Waits until something can be read, or the end of the file or an error is there to be seen;
    /// `None`: for ever. A read may block all the same if another thread was faster.
    ///
    /// # Errors
    ///
    /// `TimedOut` when the deadline has come.
    pub fn wait_readable(&self, deadline: Option<Instant>) -> io::Result<()> {
        ready(&self.source, Direction::Read, deadline).map_err(timed_out)
    }

    /// Waits until something can be written, or an error is there to be seen; `None`: for ever.
    ///
    /// # Errors
    ///
    /// `TimedOut` when the deadline has come.
    pub fn wait_writable(&self, deadline: Option<Instant>) -> io::Result<()> {
        ready(&self.source, Direction::Write, deadline).map_err(timed_out)
    }

    /// Calls `f`, which reads from the file, again and again until it no longer fails with
    /// `WouldBlock`; waits in between until the file is readable.
    ///
    /// The file must be in non-blocking mode (`O_NONBLOCK`). `f` must read until the *file* says
    /// `WouldBlock`: if it says so by itself, nobody may wake the thread. A call that was
    /// interrupted is repeated.
    ///
    /// # Errors
    ///
    /// Those of `f`; `TimedOut` when the deadline has come.
    pub fn read_io<R>(
        &self,
        deadline: Option<Instant>,
        f: impl FnMut(&T) -> io::Result<R>,
    ) -> io::Result<R> {
        self.io(Direction::Read, deadline, f)
    }

    /// As [`read_io`](Self::read_io), for an `f` that writes.
    ///
    /// # Errors
    ///
    /// Those of `f`; `TimedOut` when the deadline has come.
    pub fn write_io<R>(
        &self,
        deadline: Option<Instant>,
        f: impl FnMut(&T) -> io::Result<R>,
    ) -> io::Result<R> {
        self.io(Direction::Write, deadline, f)
    }

    fn io<R>(
        &self,
        direction: Direction,
        deadline: Option<Instant>,
        mut f: impl FnMut(&T) -> io::Result<R>,
    ) -> io::Result<R> {
        self.source.io(direction, deadline, |_| f(&self.file)).map_err(timed_out)
    }
}

impl<T> Pollable<T> {
    /// What is waited for.
    pub fn get_ref(&self) -> &T {
        &self.file
    }

    /// What is waited for. To be used, not to be replaced: waits are for the file of
    /// [`new`](Self::new).
    pub fn get_mut(&mut self) -> &mut T {
        &mut self.file
    }

    /// Gives it back.
    pub fn into_inner(self) -> T {
        self.file
    }
}

impl<T: AsFd> AsFd for Pollable<T> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl<T: fmt::Debug> fmt::Debug for Pollable<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Pollable").field(&self.file).finish()
    }
}

/// A wait passes on `WouldBlock` for one reason only.
fn timed_out(e: io::Error) -> io::Error {
    match e.kind() {
        ErrorKind::WouldBlock => {
            io::Error::new(ErrorKind::TimedOut, "the file was not ready before the deadline")
        }
        _ => e,
    }
}

/// Can this file be waited for? An epoll instance is asked.
fn check(fd: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: takes no pointer.
    let epoll = match unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) } {
        // SAFETY: a new descriptor, which nobody else knows.
        new @ 0.. => unsafe { OwnedFd::from_raw_fd(new) },
        _ => return Err(io::Error::last_os_error()),
    };
    let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: 0 };
    let (epoll, file) = (epoll.as_raw_fd(), fd.as_raw_fd());
    // SAFETY: `event` is read during the call.
    if unsafe { libc::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, file, &mut event) } == 0 {
        return Ok(());
    }
    let e = io::Error::last_os_error();
    if e.raw_os_error() != Some(libc::EPERM) {
        return Err(e);
    }
    let kind = File::from(fd.try_clone_to_owned()?).metadata()?.file_type();
    let kind = match () {
        () if kind.is_file() => "a regular file",
        () if kind.is_dir() => "a directory",
        () => "a file of this kind",
    };
    let text = format!(
        "{kind} (descriptor {file}) cannot be waited for: it always counts as ready, \
         and calls on it block all the same; make them in quaver::block_in_place"
    );
    Err(io::Error::new(ErrorKind::Unsupported, text))
}
