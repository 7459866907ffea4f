//! The end of a wire.

use super::Faults;
use super::queue::Direction;
use crate::device::{Device, take_up_to};
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// A queue of an interface in memory.
#[derive(Debug)]
pub struct MemoryDevice {
    pub(super) address: [u8; 6],
    pub(super) mtu: usize,
    pub(super) queue: usize,
    pub(super) incoming: Arc<Direction>,
    pub(super) outgoing: Arc<Direction>,
    /// What is being received or sent.
    pub(super) frame: Vec<u8>,
}

/// What a test can do with an interface whose devices are in use.
#[derive(Clone, Debug)]
pub struct Handle {
    incoming: Arc<Direction>,
    outgoing: Arc<Direction>,
    queue: usize,
}

impl MemoryDevice {
    /// A handle that remains when a stack has the device.
    pub fn handle(&self) -> Handle {
        let (incoming, outgoing) = (self.incoming.clone(), self.outgoing.clone());
        Handle { incoming, outgoing, queue: self.queue }
    }
}

impl Handle {
    /// When the next frame arrives, in microseconds of the wire's clock.
    pub fn next_arrival(&self) -> Option<u64> {
        self.incoming.next_arrival(self.queue)
    }

    /// Changes what goes wrong with frames that this end sends.
    pub fn set_faults(&self, faults: Faults) {
        self.outgoing.set_faults(faults);
    }

    /// Sends a frame from this end, past whoever has the device.
    pub fn inject(&self, frame: &[u8]) {
        self.outgoing.send(frame);
    }
}

impl Device for MemoryDevice {
    fn address(&self) -> [u8; 6] {
        self.address
    }

    fn mtu(&self) -> usize {
        self.mtu
    }

    fn receive(&mut self, most: usize, take: &mut dyn FnMut(&[u8])) -> io::Result<usize> {
        take_up_to(most, || {
            let received = self.incoming.receive(self.queue, &mut self.frame);
            if received {
                take(&self.frame);
            }
            Ok(received)
        })
    }

    fn transmit(&mut self, len: usize, fill: &mut dyn FnMut(&mut [u8])) -> bool {
        self.frame.clear();
        self.frame.resize(len, 0);
        fill(&mut self.frame);
        self.outgoing.send(&self.frame);
        true
    }

    fn flush(&mut self) -> io::Result<bool> {
        Ok(true)
    }

    fn file(&self) -> Option<BorrowedFd<'_>> {
        self.incoming.event(self.queue)
    }
}
