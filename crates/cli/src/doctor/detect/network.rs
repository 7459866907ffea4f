//! Can packets go past the kernel: by TAP, by AF_XDP?

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

use procfs::process::Process;
use quaver_net::xdp;
use serde::Serialize;

const CAP_NET_ADMIN: u32 = 12;
const CAP_NET_RAW: u32 = 13;

/// Can packets go past the kernel?
#[derive(Clone, Debug, Serialize)]
pub struct Network {
    /// The driver of TAP interfaces can be opened; otherwise why not.
    pub tap: Result<(), Refused>,
    /// An AF_XDP socket can be opened; otherwise why not.
    pub xdp_socket: Result<(), Refused>,
    /// Whether this build of Quaver has the XDP program.
    pub xdp_program_built: bool,
    /// `CAP_NET_ADMIN` is effective: interfaces can be made and changed.
    pub net_admin: bool,
    /// `CAP_NET_RAW` is effective: AF_XDP sockets can be opened.
    pub net_raw: bool,
    /// Ethernet interfaces of this network namespace, by name.
    pub interfaces: Vec<Interface>,
}

/// Why the kernel refuses something.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Refused {
    /// It does not have it.
    Absent,
    /// This process may not.
    Rights,
    /// Something else.
    Other(String),
}

/// An interface that carries Ethernet frames.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// The driver of its device, if it has one.
    pub driver: Option<String>,
    /// Queues on which packets come.
    pub queues: usize,
}

pub(super) fn detect() -> Network {
    let status = Process::myself().and_then(|me| me.status());
    let capabilities = status.map_or(0, |status| status.capeff);
    let has = |capability: u32| capabilities & (1 << capability) != 0;
    Network {
        tap: open_tap().map(drop).map_err(|e| refused(&e)),
        xdp_socket: open_socket().map(drop).map_err(|e| refused(&e)),
        xdp_program_built: xdp::is_built(),
        net_admin: has(CAP_NET_ADMIN),
        net_raw: has(CAP_NET_RAW),
        interfaces: interfaces(),
    }
}

/// No interface is made by that.
fn open_tap() -> io::Result<File> {
    OpenOptions::new().read(true).write(true).open("/dev/net/tun")
}

fn open_socket() -> io::Result<OwnedFd> {
    // SAFETY: takes no pointer.
    match unsafe { libc::socket(libc::AF_XDP, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) } {
        // SAFETY: a new descriptor, which nobody else knows.
        fd @ 0.. => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(io::Error::last_os_error()),
    }
}

fn refused(error: &io::Error) -> Refused {
    match error.raw_os_error() {
        Some(libc::ENOENT | libc::ENODEV | libc::ENXIO | libc::EAFNOSUPPORT) => Refused::Absent,
        Some(libc::EPERM | libc::EACCES) => Refused::Rights,
        _ => Refused::Other(error.to_string()),
    }
}

fn interfaces() -> Vec<Interface> {
    /// `ARPHRD_ETHER`
    const ETHERNET: u32 = 1;
    let entries = std::fs::read_dir("/sys/class/net").into_iter().flatten().flatten();
    let ethernet = entries
        .filter(|entry| super::read_number::<u32>(entry.path().join("type")) == Some(ETHERNET));
    let interface = |entry: std::fs::DirEntry| {
        let path = entry.path();
        let driver = std::fs::read_link(path.join("device/driver")).ok();
        let driver = driver.and_then(|d| Some(d.file_name()?.to_string_lossy().into_owned()));
        let queues = std::fs::read_dir(path.join("queues")).into_iter().flatten().flatten();
        let queues = queues.filter(|q| q.file_name().to_string_lossy().starts_with("rx-")).count();
        Interface { name: entry.file_name().to_string_lossy().into_owned(), driver, queues }
    };
    let mut all: Vec<Interface> = ethernet.map(interface).collect();
    all.sort_by(|a, b| a.name.cmp(&b.name));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_told_apart() {
        let of = |error| refused(&io::Error::from_raw_os_error(error));
        assert_eq!(of(libc::EAFNOSUPPORT), Refused::Absent);
        assert_eq!(of(libc::EPERM), Refused::Rights);
        assert!(matches!(of(libc::EMFILE), Refused::Other(_)));
    }

    #[test]
    fn interfaces_have_names_and_loopback_is_none() {
        let all = interfaces();
        assert!(all.iter().all(|one| !one.name.is_empty() && one.name != "lo"), "{all:?}");
    }
}
