//! Why an interface cannot be used.

use std::io;

use super::Mode;

/// Why an interface cannot be used with AF_XDP. Inside an [`io::Error`] of the kind that fits.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There was no clang when this program was built.
    #[error(
        "this program was built without clang, so without the XDP program that AF_XDP needs: \
         install clang and build again"
    )]
    Unbuilt,
    /// No such interface.
    #[error("there is no interface {0} here: `ip link` lists those of this network namespace")]
    NoInterface(String),
    /// What it asks for is reserved for root.
    #[error(
        "no rights to {what} for {interface}: run as root, or with CAP_NET_ADMIN, CAP_NET_RAW and \
         CAP_BPF of the machine (a user namespace has no XDP programs)"
    )]
    NoRights {
        /// The interface.
        interface: String,
        /// What was refused.
        what: &'static str,
    },
    /// Another process has the queue.
    #[error("queue {queue} of {interface} is in use by another AF_XDP socket")]
    QueueInUse {
        /// The interface.
        interface: String,
        /// Its queue.
        queue: u32,
    },
    /// Another process has the interface.
    #[error(
        "{0} has an XDP program already, of another process: `bpftool net` and `bpftool link` \
         say which"
    )]
    InterfaceInUse(String),
    /// Frames have no room for packets of this length.
    #[error(
        "packets on {interface} may have {mtu} bytes, {most} are possible: \
         `ip link set {interface} mtu {most}`"
    )]
    MtuTooLarge {
        /// The interface.
        interface: String,
        /// Its MTU, in bytes.
        mtu: usize,
        /// The largest that can be used.
        most: usize,
    },
    /// It is no Ethernet.
    #[error("{0} carries no Ethernet frames")]
    NoEthernet(String),
    /// Frames would come to queues where nobody looks.
    #[error(
        "{interface} spreads frames over {there} queues, and {asked} were asked for: use all, or \
         `ethtool -L {interface} combined {asked}`"
    )]
    Queues {
        /// The interface.
        interface: String,
        /// How many it has.
        there: u32,
        /// How many were asked for.
        asked: u32,
    },
    /// The kernel was built without AF_XDP.
    #[error(
        "this kernel has no AF_XDP sockets: it needs CONFIG_XDP_SOCKETS, and Linux 5.11 or later"
    )]
    NoKernelSupport,
    /// The limit of locked memory.
    #[error("frames take {0} bytes of locked memory, which is more than the limit: `ulimit -l`")]
    LockedMemory(usize),
    /// No mode works.
    #[error("{interface} cannot be used in mode {mode}: {why}")]
    Mode {
        /// The interface.
        interface: String,
        /// The last that was tried.
        mode: Mode,
        /// What the kernel says.
        why: String,
    },
    /// A call of the kernel that should have worked.
    #[error("cannot {what} for {interface}: {why}")]
    Kernel {
        /// The interface.
        interface: String,
        /// What was tried.
        what: &'static str,
        /// What the kernel says.
        why: io::Error,
    },
}

impl From<Error> for io::Error {
    fn from(error: Error) -> io::Error {
        let kind = match &error {
            Error::Unbuilt | Error::NoKernelSupport | Error::Mode { .. } => {
                io::ErrorKind::Unsupported
            }
            Error::NoInterface(_) => io::ErrorKind::NotFound,
            Error::NoRights { .. } => io::ErrorKind::PermissionDenied,
            Error::QueueInUse { .. } | Error::InterfaceInUse(_) => io::ErrorKind::ResourceBusy,
            Error::MtuTooLarge { .. } | Error::NoEthernet(_) | Error::Queues { .. } => {
                io::ErrorKind::InvalidInput
            }
            Error::LockedMemory(_) => io::ErrorKind::OutOfMemory,
            Error::Kernel { why, .. } => why.kind(),
        };
        io::Error::new(kind, error)
    }
}
