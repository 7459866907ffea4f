//! An AF_XDP socket: one queue of an interface, four rings.
//!
//! ```text
//!            fill: empty frames        rx: frames that have come
//!   we ─────────────────────> kernel ────────────────────────────> we
//!            tx: frames to send        completion: frames that were sent
//!   we ─────────────────────> kernel ────────────────────────────> we
//! ```
//!
//! A frame is in one of these places only: a stock, somebody's hands, or the kernel's, from `fill`
//! to `rx` and from `tx` to `completion`.

use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use super::memory::{Area, Frame, Stock};
use super::ring::{Consumer, Producer};

/// Entries of each ring.
pub(crate) const ENTRIES: u32 = 2048;

/// For how long a queue may be in use: the kernel takes some time to free that of a process that
/// has just ended.
const PATIENCE: Duration = Duration::from_secs(1);

/// How often the kernel is asked in vain to send.
const KICKS: u32 = 16;

/// From `linux/if_xdp.h`, Linux 6.18: how many frames a `sendto` sends where the driver has no
/// zero-copy. 32 without it.
const XDP_MAX_TX_SKB_BUDGET: libc::c_int = 9;

/// A frame with a packet in it.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct Packet {
    pub frame: Frame,
    /// Where it begins in the frame.
    pub at: usize,
    pub len: usize,
}

/// Whom a socket shares its frames with.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Share<'a> {
    /// With nobody; how frames are copied: `XDP_COPY` or `XDP_ZEROCOPY`.
    Alone(u16),
    /// With this one, which is bound, on another queue or interface; frames are copied as there.
    With(&'a Socket),
}

/// What the kernel has counted since the socket was opened.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Counts {
    /// Frames that were dropped because they have no room in one of ours.
    pub too_long: u64,
    /// Frames that were dropped because nobody had taken those before.
    pub ring_full: u64,
    /// Frames that were dropped because all of ours were in use.
    pub no_frames: u64,
}

#[derive(Debug)]
pub(crate) struct Socket {
    // Before the area, which the kernel uses as long as the socket is open.
    fd: OwnedFd,
    fill: Producer<u64>,
    completion: Consumer<u64>,
    rx: Consumer<libc::xdp_desc>,
    tx: Producer<libc::xdp_desc>,
    /// How many frames the kernel has for receiving.
    filled: u32,
    area: Arc<Area>,
}

impl Socket {
    /// A socket that is bound to `queue` of the interface `index`.
    ///
    /// # Errors
    ///
    /// Of the system calls; `EBUSY`: the queue is in use.
    pub(crate) fn open(
        index: u32,
        queue: u32,
        area: &Arc<Area>,
        share: Share<'_>,
    ) -> io::Result<Socket> {
        // SAFETY: no memory is involved.
        let fd = unsafe { libc::socket(libc::AF_XDP, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: it has just been opened, and nobody else has it.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        if let Share::Alone(_) = share {
            register(fd.as_fd(), area)?;
        }
        for ring in [
            libc::XDP_UMEM_FILL_RING,
            libc::XDP_UMEM_COMPLETION_RING,
            libc::XDP_RX_RING,
            libc::XDP_TX_RING,
        ] {
            set(fd.as_fd(), ring, &ENTRIES)?;
        }
        // What was sent and not yet received counts for the buffer, by far more than its length.
        let buffer: libc::c_int = ENTRIES as libc::c_int * 4096;
        let _ = set_at(fd.as_fd(), libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, &buffer);
        // An older kernel does not know it, and sends fewer at a time.
        let _ = set(fd.as_fd(), XDP_MAX_TX_SKB_BUDGET, &ENTRIES);
        let at: libc::xdp_mmap_offsets = get(fd.as_fd(), libc::XDP_MMAP_OFFSETS)?;
        let file = fd.as_fd();
        let fill = libc::XDP_UMEM_PGOFF_FILL_RING as libc::off_t;
        let completion = libc::XDP_UMEM_PGOFF_COMPLETION_RING as libc::off_t;
        let socket = Socket {
            fill: Producer::map(file, fill, at.fr, ENTRIES)?,
            completion: Consumer::map(file, completion, at.cr, ENTRIES)?,
            rx: Consumer::map(file, libc::XDP_PGOFF_RX_RING, at.rx, ENTRIES)?,
            tx: Producer::map(file, libc::XDP_PGOFF_TX_RING, at.tx, ENTRIES)?,
            filled: 0,
            area: Arc::clone(area),
            fd,
        };
        socket.bind(index, queue, share)?;
        Ok(socket)
    }

    fn bind(&self, index: u32, queue: u32, share: Share<'_>) -> io::Result<()> {
        // A socket that shares inherits the rest.
        let (flags, other) = match share {
            Share::Alone(copy) => (copy | libc::XDP_USE_NEED_WAKEUP, 0),
            Share::With(other) => (libc::XDP_SHARED_UMEM, other.fd.as_raw_fd() as u32),
        };
        let address = libc::sockaddr_xdp {
            sxdp_family: libc::AF_XDP as u16,
            sxdp_flags: flags,
            sxdp_ifindex: index,
            sxdp_queue_id: queue,
            sxdp_shared_umem_fd: other,
        };
        let end = Instant::now() + PATIENCE;
        loop {
            // SAFETY: the address is as long as is said.
            let result = unsafe {
                let len = size_of::<libc::sockaddr_xdp>() as libc::socklen_t;
                libc::bind(self.fd.as_raw_fd(), (&raw const address).cast(), len)
            };
            if result == 0 {
                return Ok(());
            }
            let error = io::Error::last_os_error();
            if error.raw_os_error() != Some(libc::EBUSY) || Instant::now() > end {
                return Err(error);
            }
            thread::sleep(Duration::from_millis(2));
        }
    }

    /// Gives the kernel frames to receive into, as many as it takes, and back the places of what
    /// was received.
    ///
    /// It shows what has come before it shows that it has taken the frames for it. So there may be
    /// no room for a moment, and the rest has to be given later.
    pub(crate) fn fill(&mut self, stock: &mut Stock) {
        while self.filled < ENTRIES && !self.fill.is_full() {
            let Some(frame) = stock.take() else { break };
            self.fill.push(self.area.address(&frame));
            self.filled += 1;
        }
        self.fill.show();
        self.rx.show();
        if self.fill.wants_wakeup() {
            // It only wakes the driver; there is nothing to be received this way.
            let _ = self.look();
        }
    }

    /// The next frame that has come. Its place is given back by [`fill`](Self::fill).
    pub(crate) fn receive(&mut self) -> Option<Packet> {
        let entry = self.rx.pop()?;
        self.filled -= 1;
        // SAFETY: it came out of `rx`, so the kernel has given back a frame that was in `fill`.
        let (frame, at) = unsafe { self.area.frame_at(entry.addr) };
        Some(Packet { frame, at, len: entry.len as usize })
    }

    /// Can a packet be put into the queue?
    pub(crate) fn has_room(&mut self) -> bool {
        !self.tx.is_full()
    }

    /// Puts a packet into the queue.
    ///
    /// # Panics
    ///
    /// There is no room.
    pub(crate) fn send(&mut self, packet: Packet) {
        let addr = self.area.address(&packet.frame) + packet.at as u64;
        let entry = libc::xdp_desc { addr, len: packet.len as u32, options: 0 };
        assert!(self.tx.push(entry), "whoever sends has asked for room");
    }

    /// Is there something in the queue that the kernel has not taken?
    pub(crate) fn has_pending(&mut self) -> bool {
        self.tx.pending() > 0
    }

    /// Puts the frames of packets that were sent back.
    pub(crate) fn reclaim(&mut self, stock: &mut Stock) {
        while let Some(address) = self.completion.pop() {
            // SAFETY: the kernel has given back a frame that was in `tx`.
            stock.put(unsafe { self.area.frame_at(address) }.0);
        }
        self.completion.show();
    }

    /// Shows the kernel what is in the queue. Must it be told to send that?
    pub(crate) fn publish(&mut self) -> bool {
        self.tx.show();
        self.tx.wants_wakeup()
    }

    /// Lets the kernel send what is in the queue. Does not wait: what it cannot take stays, and
    /// then this is `false`, unless the driver looks by itself.
    ///
    /// # Errors
    ///
    /// The interface has gone.
    pub(crate) fn flush(&mut self) -> io::Result<bool> {
        self.tx.show();
        let mut left = self.tx.pending();
        let mut in_vain = 0;
        while left > 0 && self.tx.wants_wakeup() {
            match self.kick() {
                Err(error) if is_end(&error) => return Err(error),
                // It has done its share and there is more, or the interface is busy.
                Err(error) if is_passing(&error) && in_vain < KICKS => {}
                _ => break,
            }
            let now = self.tx.pending();
            in_vain = if now < left { 0 } else { in_vain + 1 };
            left = now;
        }
        Ok(left == 0 || !self.tx.wants_wakeup())
    }

    fn kick(&self) -> io::Result<()> {
        let (fd, flags) = (self.fd.as_raw_fd(), libc::MSG_DONTWAIT);
        // SAFETY: no memory is involved.
        match unsafe { libc::sendto(fd, std::ptr::null(), 0, flags, std::ptr::null(), 0) } {
            0.. => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Asks the kernel how the interface is, and wakes its driver.
    ///
    /// # Errors
    ///
    /// The interface has gone.
    pub(crate) fn look(&self) -> io::Result<()> {
        let (fd, flags) = (self.fd.as_raw_fd(), libc::MSG_DONTWAIT);
        // SAFETY: no memory is involved.
        let result = unsafe { libc::recv(fd, std::ptr::null_mut(), 0, flags) };
        match io::Error::last_os_error() {
            error if result < 0 && is_end(&error) => Err(error),
            _ => Ok(()),
        }
    }

    pub(crate) fn counts(&self) -> Counts {
        let counts: io::Result<libc::xdp_statistics> = get(self.fd.as_fd(), libc::XDP_STATISTICS);
        counts.map_or_else(
            |_| Counts::default(),
            |counts| Counts {
                // It also counts those without a frame where frames are copied, and not elsewhere.
                too_long: counts.rx_dropped.saturating_sub(counts.rx_fill_ring_empty_descs),
                ring_full: counts.rx_ring_full,
                no_frames: counts.rx_fill_ring_empty_descs,
            },
        )
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// There is no room at the moment. `EBUSY`: a frame was dropped behind the socket.
fn is_passing(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EBUSY | libc::ENOBUFS))
}

/// An interface that is down may come up again; one that has gone, or moved to another network
/// namespace, has left the socket.
fn is_end(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENXIO | libc::ENODEV))
}

fn register(fd: BorrowedFd<'_>, area: &Area) -> io::Result<()> {
    let memory = area.memory();
    let area = libc::xdp_umem_reg {
        addr: memory.start().as_ptr() as u64,
        len: memory.len() as u64,
        chunk_size: area.frame_size() as u32,
        headroom: 0,
        flags: 0,
        tx_metadata_len: 0,
    };
    set(fd, libc::XDP_UMEM_REG, &area)
}

fn set<T>(fd: BorrowedFd<'_>, option: libc::c_int, value: &T) -> io::Result<()> {
    set_at(fd, libc::SOL_XDP, option, value)
}

fn set_at<T>(
    fd: BorrowedFd<'_>,
    level: libc::c_int,
    option: libc::c_int,
    value: &T,
) -> io::Result<()> {
    let (value, len) = ((&raw const *value).cast(), size_of::<T>() as libc::socklen_t);
    // SAFETY: the value is as long as is said. An area that it names belongs to the socket's owner,
    // and is unmapped after the socket is closed.
    match unsafe { libc::setsockopt(fd.as_raw_fd(), level, option, value, len) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// `T` is one of the kernel's structures of integers.
fn get<T: Copy>(fd: BorrowedFd<'_>, option: libc::c_int) -> io::Result<T> {
    // SAFETY: zeros are valid for structures of integers.
    let mut value: T = unsafe { zeroed() };
    let mut len = size_of::<T>() as libc::socklen_t;
    let to = (&raw mut value).cast();
    // SAFETY: the kernel writes at most as many bytes as are said.
    match unsafe { libc::getsockopt(fd.as_raw_fd(), libc::SOL_XDP, option, to, &raw mut len) } {
        0 => Ok(value),
        _ => Err(io::Error::last_os_error()),
    }
}
