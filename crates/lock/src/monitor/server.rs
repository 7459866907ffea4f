//! lockd: one program for all processes.

use super::host::{Host, SWEEP};
use super::wire::Asked;
use super::{Reason, wire};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{
    FileType, FlockOperation, Mode, OFlags, chmod, flock, fstat, lstat, open, unlink,
};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix,
    SocketFlags, SocketType, accept_with, bind, listen, recv, sendmsg, socket_with,
};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Connections whose request has not come yet: at most.
const PENDING: usize = 64;
/// How long one may take for its request.
const PATIENCE: Duration = Duration::from_secs(1);
/// The same while others wait.
const HASTE: Duration = Duration::from_millis(50);
/// Connections that the kernel keeps for us meanwhile.
const BACKLOG: i32 = 1024;

/// Why lockd cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// Another one serves this socket.
    #[error("another lockd serves {}; stop it, or give another path", .0.display())]
    Running(PathBuf),
    /// The socket cannot be made.
    #[error("cannot listen at {path}: {error}", path = path.display())]
    Socket {
        /// Where.
        path: PathBuf,
        /// Why not.
        error: io::Error,
    },
    /// There is no monitor to serve.
    #[error(transparent)]
    Monitor(#[from] Reason),
}

/// lockd. Its socket is removed when it is dropped; what a killed one leaves is replaced.
#[derive(Debug)]
pub struct Server {
    host: Host,
    listener: OwnedFd,
    path: PathBuf,
    pending: Vec<(OwnedFd, Instant)>,
    /// The last one: it is dropped after the socket is gone.
    _claim: Claim,
}

impl Server {
    /// Claims `path`, loads the program, and listens. Any user may connect.
    pub fn bind(path: &Path) -> Result<Self, ServerError> {
        let failed = |error: Errno| ServerError::Socket { path: path.into(), error: error.into() };
        let claim = match Claim::take(path) {
            Ok(claim) => claim,
            Err(Errno::WOULDBLOCK) => return Err(ServerError::Running(path.into())),
            Err(e) => return Err(failed(e)),
        };
        let host = Host::load()?;
        // The claim is ours, so a socket there belongs to nobody. Anything else is left alone.
        match lstat(path) {
            Ok(stat) if FileType::from_raw_mode(stat.st_mode).is_socket() => {
                unlink(path).map_err(failed)?;
            }
            Ok(_) => return Err(failed(Errno::EXIST)),
            Err(Errno::NOENT) => {}
            Err(e) => return Err(failed(e)),
        }
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let listener =
            socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).map_err(failed)?;
        bind(&listener, &SocketAddrUnix::new(path).map_err(failed)?).map_err(failed)?;
        let server = Self { host, listener, path: path.into(), pending: vec![], _claim: claim };
        chmod(path, Mode::from_raw_mode(0o666)).map_err(failed)?;
        listen(&server.listener, BACKLOG).map_err(failed)?;
        Ok(server)
    }

    /// Serves until `stop` says true; asks it at least every [`SWEEP`], and after a signal.
    pub fn run(&mut self, stop: impl Fn() -> bool) -> io::Result<()> {
        let mut swept = Instant::now();
        let mut sweeps = 0u32;
        while !stop() {
            self.wait(SWEEP.saturating_sub(swept.elapsed()))?;
            if swept.elapsed() >= SWEEP {
                self.host.sweep()?;
                sweeps = sweeps.wrapping_add(1);
                if sweeps.is_multiple_of(8) {
                    self.host.forget_dead();
                }
                swept = Instant::now();
            }
        }
        Ok(())
    }

    /// The processes that are watched.
    pub fn processes(&self) -> Vec<u32> {
        self.host.processes()
    }

    /// Waits for connections and requests, at most so long, and answers those that have come.
    fn wait(&mut self, timeout: Duration) -> io::Result<()> {
        let ready: Vec<bool> = {
            let sockets = self.pending.iter().map(|(s, _)| s.as_fd());
            let mut fds: Vec<PollFd> = std::iter::once(self.listener.as_fd())
                .chain(sockets)
                .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN))
                .collect();
            let timeout = Timespec::try_from(timeout).expect("short");
            match poll(&mut fds, Some(&timeout)) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(e) => return Err(e.into()),
            }
            fds.iter().map(|fd| !fd.revents().is_empty()).collect()
        };
        let mut ready = ready.into_iter();
        let someone_connects = ready.next() == Some(true);
        for ((socket, since), ready) in std::mem::take(&mut self.pending).into_iter().zip(ready) {
            if ready {
                self.serve(&socket);
            } else if since.elapsed() < PATIENCE {
                self.pending.push((socket, since));
            }
        }
        if someone_connects {
            self.accept();
        }
        Ok(())
    }

    fn accept(&mut self) {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        // A crowd that says nothing must not keep others out.
        if self.pending.len() == PENDING {
            self.pending.retain(|(_, since)| since.elapsed() < HASTE);
        }
        // The rest stays in the listener's backlog. What else goes wrong concerns one client.
        while self.pending.len() < PENDING {
            match accept_with(&self.listener, flags) {
                Ok(socket) => self.pending.push((socket, Instant::now())),
                Err(_) => return,
            }
        }
    }

    /// Reads one request and answers it. A client that is gone gets no answer.
    fn serve(&mut self, socket: &OwnedFd) {
        let mut message = [0; wire::REQUEST + 1];
        let Ok((length, _)) = recv(socket, &mut message, RecvFlags::empty()) else { return };
        if length == 0 {
            return;
        }
        let result = self.register(socket, &message[..length]);
        let answer = wire::answer(result.as_ref().map(|_| ()).map_err(String::as_str));
        let given: Vec<BorrowedFd<'_>> = match &result {
            Ok(Some(carriers)) => carriers.iter().map(AsFd::as_fd).collect(),
            Ok(None) => vec![self.host.page()],
            Err(_) => vec![],
        };
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(wire::DESCRIPTORS))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if !given.is_empty() {
            ancillary.push(SendAncillaryMessage::ScmRights(&given));
        }
        let _ = sendmsg(socket, &[IoSlice::new(&answer)], &mut ancillary, SendFlags::NOSIGNAL);
    }

    /// Watches the client; returns what it gets, if that is not the page of the counter.
    fn register(
        &mut self,
        socket: &OwnedFd,
        message: &[u8],
    ) -> Result<Option<[OwnedFd; 2]>, String> {
        let asked = wire::parse_request(message)?;
        let process = peer(socket)?;
        // The number may belong to another by now. If its process lives after the entry was made,
        // it has lived all the time.
        let pidfd = pidfd_open(process, PidfdFlags::empty()).map_err(|e| e.to_string())?;
        let number = process.as_raw_nonzero().get() as u32;
        let found = match asked {
            Asked::Count(registration) => self.host.register(number, &registration).map(|()| None),
            Asked::Carriers => self.host.watch_carriers(number).map(Some),
        }
        .map_err(|e| format!("cannot watch process {number}: {e}"))?;
        if has_ended(&pidfd) {
            self.host.forget(number);
            return Err("the process has ended".into());
        }
        Ok(found)
    }
}

/// The right to use a path: a locked file beside it. The kernel unlocks it, however its owner ends.
#[derive(Debug)]
struct Claim {
    file: OwnedFd,
    path: PathBuf,
}

impl Claim {
    /// `WOULDBLOCK`: another has it.
    fn take(socket: &Path) -> Result<Self, Errno> {
        let mut path = socket.as_os_str().to_owned();
        path.push(".lock");
        let path = PathBuf::from(path);
        loop {
            let flags = OFlags::CREATE | OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW;
            let file = open(&path, flags, Mode::RUSR | Mode::WUSR)?;
            flock(&file, FlockOperation::NonBlockingLockExclusive)?;
            // Its last owner may have removed it since we opened it.
            match (fstat(&file)?, lstat(&path)) {
                (ours, Ok(there)) if (ours.st_dev, ours.st_ino) == (there.st_dev, there.st_ino) => {
                    return Ok(Self { file, path });
                }
                _ => {}
            }
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        // While it is locked, nobody else removes it or makes it anew.
        let _ = unlink(&self.path);
        let _ = flock(&self.file, FlockOperation::Unlock);
    }
}

/// The client's number in this PID namespace.
fn peer(socket: &OwnedFd) -> Result<Pid, String> {
    let mut peer = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut size = size_of::<libc::ucred>() as libc::socklen_t;
    // Not rustix's: a client without a number here has 0, which its type excludes.
    // SAFETY: both pointers are to variables of these types and sizes.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut peer).cast(),
            &mut size,
        )
    };
    if result != 0 {
        return Err(io::Error::last_os_error().to_string());
    }
    Pid::from_raw(peer.pid).ok_or_else(|| "it is not in lockd's PID namespace".into())
}

fn has_ended(pidfd: &OwnedFd) -> bool {
    let mut fd = [PollFd::new(pidfd, PollFlags::IN)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut fd, Some(&now)).is_ok_and(|n| n > 0)
}

impl Drop for Server {
    fn drop(&mut self) {
        // While the claim is held, the socket at this path is ours.
        let _ = unlink(&self.path);
    }
}
