//! Network stacks in user space, whose sockets are used like the kernel's.
//!
//! A stack that is installed serves the addresses that it says it owns or reaches. A
//! socket becomes one of its own when a program binds it to such an address, connects it, or sends
//! a datagram from it: one of [`net`](crate::net), of [`std::net`] in a Rust program, or of an
//! unmodified program under `quaver run`. Its descriptor stays: calls on it find the stack's
//! [`Socket`] by its number. (Skyloft, 3.5.)
//!
//! Nothing here waits. Who waits, and how, is the runtime's affair: it asks
//! [`Socket::readiness`], parks the thread, and is told of news by an [`Announcer`].

pub use crate::reactor::bell::Bell;

use std::fmt;
use std::io::{self, IoSlice, IoSliceMut};
use std::net::{IpAddr, Shutdown, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

/// What a socket carries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A stream of bytes: TCP.
    Stream,
    /// Datagrams: UDP.
    Datagram,
}

/// What can be done with a socket without waiting. The events of `poll(2)`.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Readiness(u32);

impl Readiness {
    /// Nothing.
    pub const NONE: Readiness = Readiness(0);
    /// Data, a connection to accept, or the end can be received (`POLLIN`).
    pub const READABLE: Readiness = Readiness(libc::POLLIN as u32);
    /// There is room to send (`POLLOUT`).
    pub const WRITABLE: Readiness = Readiness(libc::POLLOUT as u32);
    /// The peer sends no more (`POLLRDHUP`).
    pub const END: Readiness = Readiness(libc::POLLRDHUP as u32);
    /// Both directions have ended (`POLLHUP`).
    pub const HANG_UP: Readiness = Readiness(libc::POLLHUP as u32);
    /// An error is pending (`POLLERR`).
    pub const ERROR: Readiness = Readiness(libc::POLLERR as u32);

    /// Its bits: events of `poll(2)`, which are those of `epoll(7)`.
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// Has all of `other`.
    pub const fn contains(self, other: Readiness) -> bool {
        self.0 & other.0 == other.0
    }
}

impl std::ops::BitOr for Readiness {
    type Output = Readiness;

    fn bitor(self, other: Readiness) -> Readiness {
        Readiness(self.0 | other.0)
    }
}

impl std::ops::BitOrAssign for Readiness {
    fn bitor_assign(&mut self, other: Readiness) {
        self.0 |= other.0;
    }
}

impl fmt::Debug for Readiness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = [
            (Self::READABLE, "READABLE"),
            (Self::WRITABLE, "WRITABLE"),
            (Self::END, "END"),
            (Self::HANG_UP, "HANG_UP"),
            (Self::ERROR, "ERROR"),
        ];
        let set = names.iter().filter(|(bit, _)| self.contains(*bit)).map(|(_, name)| name);
        f.debug_set().entries(set).finish()
    }
}

/// Whom a socket tells that something has become ready that was not, or more of it has come. Events
/// are edges: what has been ready all the time is not announced again. An announcement that is one
/// too many costs a look; one that is missing leaves a thread waiting.
///
/// May be called with locks of the stack held: it takes none of the stack's, allocates nothing and
/// does not wait.
pub type Announcer = Arc<dyn Fn(Readiness) + Send + Sync>;

/// What has been received.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Received {
    /// Bytes in the buffers. Of a stream, 0 is its end.
    pub len: usize,
    /// How long the datagram is, also where the buffers have had no room for all of it; of a
    /// stream, `len`.
    pub whole: usize,
    /// Who has sent it; of a stream, `None`.
    pub from: Option<SocketAddr>,
}

/// An option that a stack has to know. Values of others are the kernel's to keep.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Opt {
    /// `TCP_NODELAY`.
    NoDelay(bool),
    /// `SO_KEEPALIVE` with `TCP_KEEPIDLE`; `None`: off.
    KeepAlive(Option<Duration>),
    /// `SO_LINGER`; a time of zero resets the connection when it is closed.
    Linger(Option<Duration>),
    /// `IP_TTL`.
    Ttl(u8),
}

/// A socket of a stack, IPv4 or IPv6. No call waits: each says `WouldBlock` where it would have to.
/// Errors are those of the system calls, with their numbers
/// ([`io::Error::from_raw_os_error`]).
///
/// Any thread may call anything at any time, but never in a signal handler that has interrupted
/// the runtime. Calls can be preempted, so a stack has locks of one of two kinds. Those who wait
/// for the lock park ([`sync::Mutex`](crate::sync::Mutex)): then its holder may allocate, and may
/// be preempted. Or they spin: then the holder disables preemption, and must not allocate or free.
/// Whoever was preempted may have the allocator's lock, and would not run before the only worker
/// has it.
pub trait Socket: Send + Sync {
    /// `bind(2)`; port 0 asks for one that is free.
    ///
    /// # Errors
    ///
    /// `EADDRINUSE`, `EADDRNOTAVAIL`, or `EINVAL` if it is bound already.
    fn bind(&self, address: SocketAddr) -> io::Result<()>;

    /// `listen(2)`: so many connections may wait to be accepted.
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP` of datagrams, `EINVAL` of a connection.
    fn listen(&self, backlog: usize) -> io::Result<()>;

    /// `accept(2)`. What the socket announces before
    /// [`announce_to`](Socket::announce_to) is found by a look at its readiness.
    ///
    /// # Errors
    ///
    /// `EAGAIN`; `EINVAL` of one that does not listen.
    fn accept(&self) -> io::Result<(Arc<dyn Socket>, SocketAddr)>;

    /// `connect(2)`. Of a stream: begins, and says `EINPROGRESS`; it becomes writable when it is
    /// connected, and in error when it is refused. Of datagrams: sets the peer.
    ///
    /// # Errors
    ///
    /// `EINPROGRESS`, `EALREADY`, `EISCONN`, `ENETUNREACH`.
    fn connect(&self, peer: SocketAddr) -> io::Result<()>;

    /// `recvmsg(2)`; `peek` leaves the data there.
    ///
    /// # Errors
    ///
    /// `EAGAIN`, `ENOTCONN`, `ECONNRESET`, `ECONNREFUSED`, `ETIMEDOUT`.
    fn receive(&self, into: &mut [IoSliceMut<'_>], peek: bool) -> io::Result<Received>;

    /// `sendmsg(2)`: of a stream as much as there is room for, of datagrams all or nothing.
    ///
    /// # Errors
    ///
    /// `EAGAIN`, `EPIPE` (no signal: that is the caller's affair), `ECONNRESET`, `EDESTADDRREQ`,
    /// `EMSGSIZE`.
    fn send(&self, from: &[IoSlice<'_>], to: Option<SocketAddr>) -> io::Result<usize>;

    /// `shutdown(2)`.
    ///
    /// # Errors
    ///
    /// `ENOTCONN`.
    fn shutdown(&self, how: Shutdown) -> io::Result<()>;

    /// What can be done now.
    fn readiness(&self) -> Readiness;

    /// Whom to tell from now on. Called once, before anybody waits.
    fn announce_to(&self, announcer: Announcer);

    /// `SO_ERROR`: takes the error that is pending.
    fn take_error(&self) -> Option<io::Error>;

    /// Bytes that can be received (`FIONREAD`): of datagrams, those of the next.
    fn pending(&self) -> usize;

    /// The state of a connection, as `TCP_INFO` numbers it (`tcpi_state`: 1 is established, 7
    /// closed, 10 listening). `None`: the stack does not say, and `TCP_INFO` tells of a socket that
    /// is closed.
    fn state(&self) -> Option<u8> {
        None
    }

    /// Sets an option.
    ///
    /// # Errors
    ///
    /// `ENOPROTOOPT` if the stack does not have it.
    fn set(&self, option: Opt) -> io::Result<()>;

    /// `getsockname(2)`.
    fn local_addr(&self) -> SocketAddr;

    /// `getpeername(2)`; `None`: it is not connected.
    fn peer_addr(&self) -> Option<SocketAddr>;

    /// The last descriptor was closed. Announces nothing any more. What has been sent is delivered
    /// all the same, unless the linger time is zero.
    fn close(&self);
}

/// A network stack.
pub trait Stack: Send + Sync {
    /// May a socket be bound to this address? Of the unspecified one: does the stack want those
    /// that are bound to any?
    fn owns(&self, local: IpAddr) -> bool;

    /// Does the way to this address lead through the stack?
    fn reaches(&self, remote: IpAddr) -> bool;

    /// A new socket, unbound.
    ///
    /// # Errors
    ///
    /// When there is no memory, or the stack has ended.
    fn socket(&self, kind: Kind) -> io::Result<Arc<dyn Socket>>;
}

/// A stack serves this process's sockets, until this is dropped.
#[derive(Debug)]
#[must_use = "when it is dropped, the stack's sockets end"]
pub struct Installed(());

/// Makes a stack serve sockets of this process: those that are bound, connected or sent from after
/// this, as it says it [owns](Stack::owns) or [reaches](Stack::reaches) their addresses. Does not
/// block. There can be one stack at a time.
///
/// When the result is dropped, calls on the stack's sockets fail with `ENETDOWN`, those that wait
/// among them; so they do in a child of `fork`. Sockets of the kernel's are not affected.
///
/// # Errors
///
/// `AlreadyExists`; or when the process cannot be told of its forks.
pub fn install(stack: Arc<dyn Stack>) -> io::Result<Installed> {
    crate::overlay::install(stack).map(|()| Installed(()))
}

impl Drop for Installed {
    fn drop(&mut self) {
        crate::overlay::uninstall();
    }
}
