//! One queue as a [`Device`].

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use super::Mode;
use super::checksum;
use super::interface::Interface;
use super::memory::{Area, Stock};
use super::program::Attachment;
use super::socket::{Counts, Packet, Socket};
use crate::device::Device;

/// How often it is looked in vain before the kernel is asked whether the interface is still there.
const LOOKS: u32 = 256;

/// One queue of an interface, by AF_XDP. The interface is the kernel's again when all devices of it
/// are dropped, or the process ends.
#[derive(Debug)]
pub struct Xdp {
    socket: Socket,
    area: Arc<Area>,
    /// Frames to send with, and those that the kernel is to be given.
    stock: Stock,
    interface: Arc<Interface>,
    mode: Mode,
    queue: u32,
    /// See [`checksum`].
    completes: bool,
    /// How often nothing was there.
    looked: u32,
    gone: bool,
    // After the socket: what comes while the program is still there is dropped.
    _attachment: Arc<Attachment>,
}

impl Xdp {
    pub(super) fn new(
        socket: Socket,
        (area, stock): (Arc<Area>, Stock),
        interface: Arc<Interface>,
        (mode, queue): (Mode, u32),
        attachment: Arc<Attachment>,
    ) -> Xdp {
        let completes = interface.is_virtual_pair();
        Xdp {
            socket,
            area,
            stock,
            interface,
            mode,
            queue,
            completes,
            looked: 0,
            gone: false,
            _attachment: attachment,
        }
    }

    /// The name of the interface.
    pub fn interface(&self) -> &str {
        &self.interface.name
    }

    /// Which of its queues.
    pub fn queue(&self) -> u32 {
        self.queue
    }

    /// How frames come and go.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// What the kernel has counted. A system call.
    pub fn counts(&self) -> Counts {
        self.socket.counts()
    }
}

impl Device for Xdp {
    fn address(&self) -> [u8; 6] {
        self.interface.address
    }

    fn mtu(&self) -> usize {
        self.interface.mtu
    }

    fn receive(&mut self, most: usize, take: &mut dyn FnMut(&[u8])) -> io::Result<usize> {
        let mut taken = 0;
        while taken < most {
            let Some(Packet { mut frame, at, len }) = self.socket.receive() else { break };
            let bytes = self.area.bytes(&mut frame, at, len);
            if self.completes {
                checksum::complete(bytes);
            }
            take(bytes);
            self.stock.put(frame);
            taken += 1;
        }
        if taken > 0 {
            self.socket.fill(&mut self.stock);
            return Ok(taken);
        }
        self.looked += 1;
        if self.gone || self.looked.is_multiple_of(LOOKS) {
            self.socket.look()?;
        }
        Ok(0)
    }

    fn transmit(&mut self, len: usize, fill: &mut dyn FnMut(&mut [u8])) -> bool {
        if len > self.area.frame_size() || !self.socket.has_room() {
            return false;
        }
        if self.stock.len() == 0 {
            self.socket.reclaim(&mut self.stock);
        }
        let Some(mut frame) = self.stock.take() else { return false };
        fill(self.area.bytes(&mut frame, 0, len));
        self.socket.send(Packet { frame, at: 0, len });
        true
    }

    fn flush(&mut self) -> io::Result<bool> {
        let flushed = self.socket.flush();
        self.gone |= flushed.is_err();
        // Those that were just sent are in the cache.
        self.socket.reclaim(&mut self.stock);
        flushed
    }

    fn publish(&mut self) -> bool {
        self.socket.publish()
    }

    fn bell(&self) -> Option<BorrowedFd<'_>> {
        Some(self.socket.as_fd())
    }

    fn file(&self) -> Option<BorrowedFd<'_>> {
        Some(self.socket.as_fd())
    }
}
