//! What all sockets have: a file, and how calls on it wait.
//!
//! All calls are made by `std`'s own type, which a [`View`] puts over the file for one call: so
//! results and errors are `std`'s.

use crate::overlay;
use crate::reactor::{Direction, FileSource};
use crate::sys;
use socket2::SockRef;
use std::fmt;
use std::io::{self, ErrorKind};
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::net;
use std::ops::Deref;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::net as unix;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// A socket type of `std`: an [`OwnedFd`] and nothing else.
pub(super) trait Std: From<OwnedFd> + Into<OwnedFd> + FromRawFd + AsFd + fmt::Debug {
    /// Is nothing left after a read that has returned less than there was room for? Not on a Unix
    /// socket: it stops where descriptors were sent along.
    const SHORT_READS_EMPTY_IT: bool;

    fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()>;
}

macro_rules! std_sockets {
    ($($name:ty: $short_reads_empty_it:expr,)+) => {$(
        impl Std for $name {
            const SHORT_READS_EMPTY_IT: bool = $short_reads_empty_it;

            fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
                self.set_nonblocking(nonblocking)
            }
        }
    )+};
}
std_sockets! {
    net::TcpListener: false,
    net::TcpStream: true,
    net::UdpSocket: false,
    unix::UnixListener: false,
    unix::UnixStream: false,
    unix::UnixDatagram: false,
}

/// `std`'s type over a file that somebody else owns.
struct View<'fd, S> {
    socket: ManuallyDrop<S>,
    _file: PhantomData<BorrowedFd<'fd>>,
}

impl<'fd, S: Std> View<'fd, S> {
    fn new(fd: BorrowedFd<'fd>) -> View<'fd, S> {
        // SAFETY: the file is open for `'fd`, in which the view lives. It is never dropped, so it
        // does not close the file, and nobody gets it out: the view lends it by `&` only.
        let socket = ManuallyDrop::new(unsafe { S::from_raw_fd(fd.as_raw_fd()) });
        View { socket, _file: PhantomData }
    }
}

impl<S> Deref for View<'_, S> {
    type Target = S;

    fn deref(&self) -> &S {
        &self.socket
    }
}

/// How calls wait. Belongs to the open file, so clones of a socket share it.
#[derive(Default)]
struct Mode {
    /// They do not.
    nonblocking: AtomicBool,
    /// For so many nanoseconds at most; 0: without a limit.
    read: AtomicU64,
    write: AtomicU64,
}

impl Mode {
    fn limit(&self, direction: Direction) -> &AtomicU64 {
        match direction {
            Direction::Read => &self.read,
            Direction::Write => &self.write,
        }
    }

    fn set_limit(&self, direction: Direction, time: Option<Duration>) {
        let nanos = time.map_or(0, |time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
        self.limit(direction).store(nanos, Relaxed);
    }

    fn is_limited(&self) -> bool {
        self.read.load(Relaxed) != 0 || self.write.load(Relaxed) != 0
    }
}

/// A socket of the kind of `std`'s `S`.
pub(super) struct StdSocket<S> {
    source: FileSource,
    mode: Arc<Mode>,
    kind: PhantomData<fn() -> S>,
}

impl<S: Std> StdSocket<S> {
    /// Takes a socket that was made just now.
    pub(super) fn new(socket: S) -> io::Result<StdSocket<S>> {
        socket.set_nonblocking(true)?;
        Ok(StdSocket::from_nonblocking(socket.into()))
    }

    /// As [`new`](Self::new), for a file that is in non-blocking mode.
    pub(super) fn from_nonblocking(fd: OwnedFd) -> StdSocket<S> {
        StdSocket::with_mode(fd, Arc::default())
    }

    fn with_mode(fd: OwnedFd, mode: Arc<Mode>) -> StdSocket<S> {
        StdSocket { source: FileSource::new(fd), mode, kind: PhantomData }
    }

    /// Takes a socket that was somebody else's, as it is. One without a socket's options, say
    /// because it is none, counts as one that has none of them set.
    pub(super) fn adopt(socket: S) -> StdSocket<S> {
        let mode = Mode::default();
        let options = SockRef::from(&socket);
        mode.set_limit(Direction::Read, options.read_timeout().unwrap_or(None));
        mode.set_limit(Direction::Write, options.write_timeout().unwrap_or(None));
        mode.nonblocking.store(sys::is_nonblocking(socket.as_fd().as_raw_fd()), Relaxed);
        // Fails for no file; calls on one that blocks would do so in the kernel.
        let _ = socket.set_nonblocking(true);
        StdSocket::with_mode(socket.into(), Arc::new(mode))
    }

    /// Takes what `accept` on this listener has returned.
    pub(super) fn accepted<T: Std>(&self, socket: T) -> io::Result<StdSocket<T>> {
        // The kernel hands timeouts on, to some kinds of sockets.
        if self.mode.is_limited() { Ok(StdSocket::adopt(socket)) } else { StdSocket::new(socket) }
    }

    /// Gives the file up. It blocks again, unless the user wishes otherwise or there are clones.
    pub(super) fn into_std(self) -> S {
        let socket = S::from(self.source.into_fd());
        if Arc::into_inner(self.mode).is_some_and(|mode| !mode.nonblocking.into_inner()) {
            // Fails for no file.
            let _ = socket.set_nonblocking(false);
        }
        socket
    }

    pub(super) fn try_clone(&self) -> io::Result<StdSocket<S>> {
        let fd = self.fd().try_clone_to_owned()?;
        Ok(StdSocket::with_mode(fd, self.mode.clone()))
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.source.as_fd()
    }

    pub(super) fn is_nonblocking(&self) -> bool {
        self.mode.nonblocking.load(Relaxed)
    }

    pub(super) fn set_nonblocking(&self, nonblocking: bool) {
        self.mode.nonblocking.store(nonblocking, Relaxed);
    }

    /// Limits the waits in one direction. `set` is `std`'s own setter: it judges the value, and the
    /// file keeps it for `std`'s getter and for later owners.
    pub(super) fn set_timeout(
        &self,
        direction: Direction,
        time: Option<Duration>,
        set: impl FnOnce(&S, Option<Duration>) -> io::Result<()>,
    ) -> io::Result<()> {
        self.with(|socket| set(socket, time))?;
        self.mode.set_limit(direction, time);
        Ok(())
    }

    /// When a call that begins now must have ended.
    pub(super) fn deadline(&self, direction: Direction) -> Option<Instant> {
        match self.mode.limit(direction).load(Relaxed) {
            0 => None,
            nanos => Instant::now().checked_add(Duration::from_nanos(nanos)),
        }
    }

    /// Calls what does not wait.
    pub(super) fn with<R>(&self, f: impl FnOnce(&S) -> R) -> R {
        f(&View::new(self.fd()))
    }

    /// Calls `f`, and does not wait when it says `WouldBlock`.
    pub(super) fn once<R>(&self, mut f: impl FnMut(&S) -> io::Result<R>) -> io::Result<R> {
        uninterrupted(|| self.with(&mut f))
    }

    /// Calls `f` until it no longer says `WouldBlock`, and waits in between as the user wishes.
    pub(super) fn io<R>(
        &self,
        direction: Direction,
        mut f: impl FnMut(&S) -> io::Result<R>,
    ) -> io::Result<R> {
        if self.is_nonblocking() {
            return self.once(f);
        }
        self.source.io(direction, self.deadline(direction), |fd| f(&View::new(fd)))
    }

    /// As [`io`](Self::io), for an `f` that receives datagrams, or connections over Unix sockets.
    /// After such a socket was shut down the kernel lets calls that would block return, as `ended`
    /// does, and others not.
    pub(super) fn receive<R>(
        &self,
        mut f: impl FnMut(&S) -> io::Result<R>,
        ended: impl Fn() -> io::Result<R>,
    ) -> io::Result<R> {
        if self.is_nonblocking() {
            return self.once(f);
        }
        self.source.io(Direction::Read, self.deadline(Direction::Read), |fd| {
            match f(&View::new(fd)) {
                Err(e) if would_block(&e) && self.source.may_have_ended() => {
                    if has(fd, libc::POLLRDHUP)? { ended() } else { Err(e) }
                }
                result => result,
            }
        })
    }

    /// As [`io`](Self::io), for an `f` that reads from a stream into `room` bytes.
    pub(super) fn read_stream(
        &self,
        room: usize,
        mut f: impl FnMut(&S) -> io::Result<usize>,
    ) -> io::Result<usize> {
        if self.is_nonblocking() || !S::SHORT_READS_EMPTY_IT {
            return self.io(Direction::Read, f);
        }
        let deadline = self.deadline(Direction::Read);
        self.source.read_stream(deadline, room, |fd| f(&View::new(fd)))
    }

    /// Calls `f` to write to a stream, which it tells how many bytes have been written, until all
    /// `len` are, as the kernel does for calls that wait.
    pub(super) fn write_stream(
        &self,
        len: usize,
        mut f: impl FnMut(&S, usize) -> io::Result<usize>,
    ) -> io::Result<usize> {
        if self.is_nonblocking() {
            return self.once(|socket| f(socket, 0));
        }
        let deadline = self.deadline(Direction::Write);
        let mut written = 0;
        loop {
            match self.source.io(Direction::Write, deadline, |fd| f(&View::new(fd), written)) {
                Ok(n) if n == 0 || written + n >= len => return Ok(written + n),
                Ok(n) => written += n,
                // The next call reports it.
                Err(_) if written > 0 => return Ok(written),
                Err(e) => return Err(e),
            }
        }
    }

    /// Waits until the file is ready, whatever the user wishes.
    pub(super) fn ready(&self, direction: Direction, deadline: Option<Instant>) -> io::Result<()> {
        ready(&self.source, direction, deadline)
    }

    pub(super) fn debug(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.with(|socket| fmt::Debug::fmt(socket, f))
    }
}

/// Waits until the file is ready.
///
/// # Errors
///
/// `WouldBlock` when the deadline has come.
pub(super) fn ready(
    source: &FileSource,
    direction: Direction,
    deadline: Option<Instant>,
) -> io::Result<()> {
    source.io(direction, deadline, |fd| {
        if has(fd, direction.events())? { Ok(()) } else { Err(ErrorKind::WouldBlock.into()) }
    })
}

/// Has one of these events of `poll`, or an error, happened on the file?
fn has(fd: BorrowedFd<'_>, events: i16) -> io::Result<bool> {
    let found = overlay::poll_one(fd.as_raw_fd(), events, Some(Duration::ZERO));
    found.map(|found| found != 0).map_err(io::Error::from_raw_os_error)
}

pub(super) fn would_block(e: &io::Error) -> bool {
    e.kind() == ErrorKind::WouldBlock
}

/// Repeats a call that a signal interrupts.
pub(super) fn uninterrupted<R>(mut f: impl FnMut() -> io::Result<R>) -> io::Result<R> {
    loop {
        match f() {
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}
