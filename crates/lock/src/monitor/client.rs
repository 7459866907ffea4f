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
    let [page] = ask(path, &wire::request(own))?;
    Ok(page)
}

/// Lets the lockd at `path` watch the carriers of this process; returns their page, and the bell.
pub(super) fn carriers(path: &Path) -> Result<[OwnedFd; 2], Reason> {
    ask(path, &wire::carriers_request())
}

fn ask<const N: usize>(path: &Path, request: &[u8]) -> Result<[OwnedFd; N], Reason> {
    let failed = |why: String| Reason::Lockd { path: path.into(), why };
    exchange(path, request).map_err(|e| failed(e.to_string()))?.map_err(failed)
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

/// An error of the system, or an answer: the descriptors, or why not.
fn exchange<const N: usize>(
    path: &Path,
    request: &[u8],
) -> Result<Result<[OwnedFd; N], String>, Errno> {
    let socket = dial(path)?;
    send(&socket, request, SendFlags::NOSIGNAL)?;
    let mut message = [0; wire::ANSWER];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(wire::DESCRIPTORS))];
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
    let found: Vec<OwnedFd> = ancillary
        .drain()
        .filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(fds) => Some(fds),
            _ => None,
        })
        .flatten()
        .collect();
    Ok(found.try_into().map_err(|_| "its answer has no page".to_owned()))
}
