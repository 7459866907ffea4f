//! Asking lockd.

use super::{Reason, Registration, wire};
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, SocketAddrUnix,
    SocketFlags, SocketType, connect, recvmsg, send, socket_with,
};
use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Where lockd listens, unless `QUAVER_LOCKD` names another path.
pub const SOCKET: &str = "/run/quaver-lockd.sock";

/// A lockd that needs longer for an answer is not there.
const PATIENCE: Duration = Duration::from_secs(2);

/// The path of lockd's socket.
pub fn socket_path() -> PathBuf {
    std::env::var_os("QUAVER_LOCKD").map_or_else(|| SOCKET.into(), PathBuf::from)
}

/// Registers this process with the lockd at `path`; returns the page of its counter.
pub(super) fn register(path: &Path, own: &Registration) -> Result<OwnedFd, Reason> {
    let failed = |why: String| Reason::Lockd { path: path.into(), why };
    exchange(path, own).map_err(|e| failed(e.to_string()))?.map_err(failed)
}

/// Connects; neither that nor what follows takes long.
pub(super) fn dial(path: &Path) -> Result<OwnedFd, Errno> {
    let socket =
        socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    for direction in [Timeout::Recv, Timeout::Send] {
        set_socket_timeout(&socket, direction, Some(PATIENCE))?;
    }
    connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket)
}

/// An error of the system, or an answer: the page, or why not.
fn exchange(path: &Path, own: &Registration) -> Result<Result<OwnedFd, String>, Errno> {
    let socket = dial(path)?;
    send(&socket, &wire::request(own), SendFlags::NOSIGNAL)?;
    let mut message = [0; wire::ANSWER];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let received = recvmsg(
        &socket,
        &mut [IoSliceMut::new(&mut message)],
        &mut ancillary,
        RecvFlags::CMSG_CLOEXEC,
    )?;
    if let Err(why) = wire::parse_answer(&message[..received.bytes]) {
        return Ok(Err(why));
    }
    let page = ancillary.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
        _ => None,
    });
    Ok(page.ok_or_else(|| "its answer has no page".to_owned()))
}
