//! Devices by AF_XDP: frames of an interface in memory that is shared with the kernel.
//!
//! * [`open`] gives one [`Xdp`] for each queue of an interface: a socket, four rings, frames.
//! * An XDP program sends to it what is addressed to the stack, and leaves the rest to the kernel:
//!   the interface stays usable. It goes with the last device, or with the process, however that
//!   ends.
//! * Of the ways to attach, the best that works is taken; [`Xdp::mode`] says which.
//!
//! | [`Mode`] | program runs | frames are copied |
//! |---|---|---|
//! | `ZeroCopy` | in the driver | never |
//! | `Native` | in the driver | once |
//! | `Skb` | behind the driver, on any interface | once, after the kernel has allocated a buffer |
//!
//! On veth, `Skb` is tried first: there the driver copies once more to run a program. With several
//! queues it is `Native`, because the kernel says queue 0 of all frames otherwise.
//!
//! Frames have 2 KiB, or 4 KiB if the MTU needs it. Each queue takes 8 MiB or 16 MiB of memory,
//! from huge pages if there are any, and rings of 2048 entries.
//!
//! # Traps
//!
//! * One end of a veth pair leaves checksums to the other. Frames whose checksum is left out are
//!   completed here. It also hands over TCP segments longer than the MTU, to be cut by a card that
//!   there is not; those that do not fit into a frame are dropped by the kernel, and counted
//!   ([`Counts::too_long`]). `ethtool -K PEER tx off` ends both.
//! * A thread that sleeps until [`file`](crate::device::Device::file) is readable is not woken when
//!   the interface is deleted: whoever waits should look from time to time.

use std::fmt;
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::AsFd;
use std::sync::Arc;

pub(crate) mod checksum;
mod device;
mod error;
pub(crate) mod interface;
pub(crate) mod memory;
mod program;
mod ring;
pub(crate) mod socket;

pub use device::Xdp;
pub use error::Error;
pub use socket::Counts;

use interface::Interface;
use memory::{Area, HEADROOM};
pub(crate) use program::Attachment;
use program::Program;
use socket::{ENTRIES, Share, Socket};

/// Which frames do not go to the kernel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Filter {
    /// None goes to the kernel: for programs that forward.
    All,
    /// IPv4 packets to these addresses, and ARP that asks for one of them or answers it.
    Addresses(Vec<Ipv4Addr>),
}

/// How frames come and go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// The interface's hardware reads and writes our frames.
    ZeroCopy,
    /// The driver runs the XDP program; frames are copied.
    Native,
    /// The kernel runs the XDP program, on interfaces of any driver; frames are copied.
    Skb,
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Mode::ZeroCopy => "zero-copy",
            Mode::Native => "native",
            Mode::Skb => "skb",
        })
    }
}

impl Mode {
    /// In the order of preference.
    fn all(interface: &Interface) -> &'static [Mode] {
        match interface.is_virtual_pair() {
            true if interface.queues == 1 => &[Mode::Skb, Mode::Native],
            true => &[Mode::Native, Mode::Skb],
            false => &[Mode::ZeroCopy, Mode::Native, Mode::Skb],
        }
    }

    pub(crate) fn bind_flags(self) -> u16 {
        match self {
            Mode::ZeroCopy => libc::XDP_ZEROCOPY,
            Mode::Native | Mode::Skb => libc::XDP_COPY,
        }
    }
}

/// Opens an interface of this thread's network namespace: a device for each of its queues, in the
/// best mode that works. `queues` says how many it should have; `None`: as many as there are.
///
/// Takes milliseconds. While another process that has just ended still has the interface, it waits
/// for some tens of them, at most a second.
///
/// # Errors
///
/// An [`Error`] inside: no such interface, no rights, in use, or something that is missing.
pub fn open(interface: &str, queues: Option<u32>, filter: &Filter) -> io::Result<Vec<Xdp>> {
    Ok(open_as(interface, queues, filter, None)?)
}

/// As [`open`], in this mode only; `None`: the best.
///
/// # Errors
///
/// As [`open`].
pub fn open_in(
    interface: &str,
    queues: Option<u32>,
    filter: &Filter,
    mode: Mode,
) -> io::Result<Vec<Xdp>> {
    Ok(open_as(interface, queues, filter, Some(mode))?)
}

fn open_as(
    name: &str,
    queues: Option<u32>,
    filter: &Filter,
    mode: Option<Mode>,
) -> Result<Vec<Xdp>, Error> {
    check()?;
    let interface = Arc::new(Interface::find(name)?);
    let size = frame_size(&interface)?;
    if let Some(asked) = queues.filter(|&asked| asked != interface.queues) {
        return Err(Error::Queues { interface: name.to_owned(), there: interface.queues, asked });
    }
    in_best_mode(&interface, mode, |mode| open_queues(&interface, size, filter, mode))
}

/// Was this built with the XDP program, by clang? Without it nothing can be opened.
pub fn is_built() -> bool {
    check().is_ok()
}

pub(crate) fn check() -> Result<(), Error> {
    Program::check()
}

/// Tries modes until one works. Errors that another mode would have, too, are final.
pub(crate) fn in_best_mode<T>(
    interface: &Interface,
    mode: Option<Mode>,
    mut open: impl FnMut(Mode) -> Result<T, Error>,
) -> Result<T, Error> {
    let modes = match &mode {
        Some(mode) => std::slice::from_ref(mode),
        None => Mode::all(interface),
    };
    let mut last = None;
    for &mode in modes {
        match open(mode) {
            Err(error @ Error::Mode { .. }) => last = Some(error),
            result => return result,
        }
    }
    Err(last.expect("there is a mode"))
}

/// The size of frames that the longest packets fit into, with a VLAN's tag.
pub(crate) fn frame_size(interface: &Interface) -> Result<usize, Error> {
    const LINK: usize = 18;
    let fits = |size: &usize| interface.mtu + LINK + HEADROOM <= *size;
    // The kernel wants frames not longer than a page.
    [2048, 4096].into_iter().find(fits).ok_or_else(|| Error::MtuTooLarge {
        interface: interface.name.clone(),
        mtu: interface.mtu,
        most: 4096 - LINK - HEADROOM,
    })
}

fn open_queues(
    interface: &Arc<Interface>,
    size: usize,
    filter: &Filter,
    mode: Mode,
) -> Result<Vec<Xdp>, Error> {
    let mut sockets = Vec::new();
    for queue in 0..interface.queues {
        // As many for receiving as for sending.
        let frames = 2 * ENTRIES;
        let bytes = frames as usize * size;
        let (area, mut stock) = Area::new(frames, size).map_err(|why| Error::Kernel {
            interface: interface.name.clone(),
            what: "get memory",
            why,
        })?;
        let area = Arc::new(area);
        let share = Share::Alone(mode.bind_flags());
        let mut socket = Socket::open(interface.index, queue, &area, share)
            .map_err(|why| refused(interface, queue, mode, bytes, why))?;
        socket.fill(&mut stock);
        sockets.push((socket, (area, stock)));
    }
    let attachment = redirect(interface, filter, mode, sockets.iter().map(|(socket, _)| socket))?;
    let attachment = Arc::new(attachment);
    let device = |(queue, (socket, frames))| {
        let (interface, attachment) = (Arc::clone(interface), Arc::clone(&attachment));
        Xdp::new(socket, frames, interface, (mode, queue), attachment)
    };
    Ok((0..).zip(sockets).map(device).collect())
}

/// Attaches a program that redirects to these sockets, one for each queue.
pub(crate) fn redirect<'a>(
    interface: &Interface,
    filter: &Filter,
    mode: Mode,
    sockets: impl Iterator<Item = &'a Socket>,
) -> Result<Attachment, Error> {
    let mut program = Program::load(interface, filter)?;
    for (queue, socket) in (0..).zip(sockets) {
        program.connect(interface, queue, socket.as_fd())?;
    }
    program.attach(interface, mode)
}

/// What it means that a socket was refused.
pub(crate) fn refused(
    interface: &Interface,
    queue: u32,
    mode: Mode,
    bytes: usize,
    why: io::Error,
) -> Error {
    let name = interface.name.clone();
    match why.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => {
            Error::NoRights { interface: name, what: "open an AF_XDP socket" }
        }
        Some(libc::EAFNOSUPPORT | libc::ENOPROTOOPT) => Error::NoKernelSupport,
        Some(libc::ENOBUFS) => Error::LockedMemory(bytes),
        Some(libc::EBUSY) => Error::QueueInUse { interface: name, queue },
        Some(libc::ENODEV) => Error::NoInterface(name),
        Some(libc::EOPNOTSUPP | libc::EINVAL) => {
            Error::Mode { interface: name, mode, why: why.to_string() }
        }
        _ => Error::Kernel { interface: name, what: "open an AF_XDP socket", why },
    }
}
