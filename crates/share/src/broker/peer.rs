//! Who is at the other end of a connection.

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

/// `SO_PEERPIDFD` (Linux 6.5), which libc does not name for all targets.
const SO_PEERPIDFD: i32 = 77;

/// A process, by a descriptor that cannot come to mean another one.
#[derive(Debug)]
pub(super) struct Peer {
    pub(super) pid: i32,
    pub(super) uid: u32,
    pub(super) process: OwnedFd,
}

fn option<T>(socket: &OwnedFd, option: i32, mut value: T) -> io::Result<T> {
    let mut size = size_of::<T>() as libc::socklen_t;
    let (fd, at) = (socket.as_raw_fd(), (&raw mut value).cast());
    // SAFETY: both pointers are to variables of these types and sizes.
    let result = unsafe { libc::getsockopt(fd, libc::SOL_SOCKET, option, at, &mut size) };
    if result == 0 { Ok(value) } else { Err(io::Error::last_os_error()) }
}

impl Peer {
    /// Who has connected `socket`; why that is not known.
    pub(super) fn of(socket: &OwnedFd) -> Result<Peer, String> {
        let none = libc::ucred { pid: 0, uid: 0, gid: 0 };
        let who = option(socket, libc::SO_PEERCRED, none).map_err(|e| e.to_string())?;
        let pid = Pid::from_raw(who.pid).ok_or("it is not in the broker's PID namespace")?;
        let process = match option(socket, SO_PEERPIDFD, -1) {
            // SAFETY: the kernel has made this descriptor for us.
            Ok(fd) if fd >= 0 => unsafe { OwnedFd::from_raw_fd(fd) },
            // An older kernel. The number may mean another process by now, if this one has ended;
            // but then it hears no answer.
            _ => pidfd_open(pid, PidfdFlags::empty()).map_err(gone)?,
        };
        Ok(Peer { pid: who.pid, uid: who.uid, process })
    }

    /// Whether the process has ended.
    pub(super) fn has_ended(&self) -> bool {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let mut fd = [PollFd::from_borrowed_fd(self.process.as_fd(), PollFlags::IN)];
        poll(&mut fd, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|n| n > 0)
    }
}

fn gone(error: Errno) -> String {
    if error == Errno::SRCH { "the process has ended".into() } else { error.to_string() }
}
