//! A network of two interfaces in memory, for tests: what one sends, the other receives, unless the
//! wire loses it.
//!
//! Everything random comes from a seed. With a simulated [`Clock`] a test runs the same way each
//! time; with the system's, the devices have files to wait for, and drivers can use them.

mod device;
mod faults;
mod queue;

pub use device::{Handle, MemoryDevice};
pub use faults::Faults;

use crate::clock::Clock;
use queue::Direction;
use std::io;
use std::sync::Arc;

/// A wire between two interfaces of some queues each.
#[derive(Clone, Debug)]
pub struct Wire {
    /// Queues of each interface; a frame goes to the one that its addresses and ports choose.
    pub queues: usize,
    /// The longest IP packet, in bytes.
    pub mtu: usize,
    /// Frames that wait in a queue at most; more are lost.
    pub capacity: usize,
    /// What goes wrong.
    pub faults: Faults,
    /// Where the random numbers begin.
    pub seed: u64,
    /// Decides when a frame arrives.
    pub clock: Clock,
}

/// An interface: a device for each queue.
pub type Interface = Vec<MemoryDevice>;

impl Wire {
    /// One queue each, 1500 bytes, no faults.
    pub fn new(clock: Clock) -> Wire {
        let faults = Faults::default();
        Wire { queues: 1, mtu: 1500, capacity: 1024, faults, seed: 0, clock }
    }

    /// The two interfaces. Their hardware addresses are `02:51:00:00:00:01` and `…:02`.
    ///
    /// # Errors
    ///
    /// When the process has no descriptor left.
    pub fn connect(&self) -> io::Result<(Interface, Interface)> {
        let there = Arc::new(Direction::new(self, self.seed)?);
        let back = Arc::new(Direction::new(self, !self.seed)?);
        let ends = |number: u8, incoming: &Arc<Direction>, outgoing: &Arc<Direction>| {
            let end = |queue| MemoryDevice {
                address: [2, 0x51, 0, 0, 0, number],
                mtu: self.mtu,
                queue,
                incoming: incoming.clone(),
                outgoing: outgoing.clone(),
                frame: Vec::new(),
            };
            (0..self.queues).map(end).collect()
        };
        Ok((ends(1, &back, &there), ends(2, &there, &back)))
    }
}
