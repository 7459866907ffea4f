//! What is beside the core: devices, and other cores as this one sees them.
//!
//! A device writes to memory and interrupts at times of its own. The core rings its doorbell by a
//! store, which the device sees when the store retires. Programs load values when they are fetched
//! (README.md): a device's write is seen by what is fetched from then on.

use std::ops::Range;

use super::Core;
use super::cache::Hierarchy;
use super::window::{NEVER, Place};
use crate::memory::Memory;
use crate::speculate::Speculation;

/// Something beside the core.
pub trait Device: Send {
    /// The next cycle in which it acts by itself; `u64::MAX`: only when its doorbell is rung.
    fn next(&self) -> u64;

    /// Does what is due in this cycle, and puts [`Device::next`] off.
    fn act(&mut self, cycle: u64, port: &mut Port<'_>);

    /// Addresses of its doorbell.
    fn doorbell(&self) -> Range<u64> {
        0..0
    }

    /// A store to its doorbell has retired in this cycle.
    fn rung(&mut self, cycle: u64, address: u64, port: &mut Port<'_>) {
        let _ = (cycle, address, port);
    }
}

/// How a device reaches memory and the core.
pub struct Port<'a> {
    memory: &'a mut Memory,
    ahead: &'a mut Speculation,
    caches: &'a mut Hierarchy,
    remote_line: u64,
    raised: Raised,
}

/// What a device wants of the core.
#[derive(Clone, Copy, Default)]
pub(super) struct Raised {
    /// Vectors that are forwarded.
    pub(super) vectors: u64,
    /// Another core executes SENDUIPI.
    pub(super) posts: bool,
}

impl Port<'_> {
    /// A word of the program's memory; 0 where there is none.
    pub fn read(&self, address: u64) -> u64 {
        let mut bytes = [0; 8];
        self.ahead.read_outside(self.memory, address, &mut bytes);
        u64::from_le_bytes(bytes)
    }

    /// Writes as devices do: the lines are in the third-level cache then, as with Intel's DDIO.
    /// Says whether there is memory.
    pub fn write(&mut self, address: u64, bytes: &[u8]) -> bool {
        self.caches.written_by_device(address, bytes.len() as u64);
        self.ahead.write_outside(self.memory, address, bytes)
    }

    /// Writes as another core does: the line is in that core's cache then. Says whether there is
    /// memory.
    pub fn write_elsewhere(&mut self, address: u64, value: u64) -> bool {
        self.caches.written_elsewhere(address, self.remote_line);
        self.ahead.write_outside(self.memory, address, &value.to_le_bytes())
    }

    /// Raises a user vector, below 64, by interrupt forwarding (xUI 4.5).
    pub fn interrupt(&mut self, vector: u8) {
        self.raised.vectors |= 1 << vector;
    }

    /// Another core executes SENDUIPI to this one, with vector [`super::VECTOR`]. Nothing happens
    /// while the program has no UPID.
    pub fn post(&mut self) {
        self.raised.posts = true;
    }
}

impl Core {
    /// Puts a device beside the core; there is room for one.
    pub fn attach(&mut self, device: impl Device + 'static) {
        self.device = Some(Box::new(device));
    }

    /// When the device acts.
    pub(super) fn device_event(&self) -> u64 {
        self.device.as_ref().map_or(NEVER, |device| device.next())
    }

    /// Lets the device act if it is due. Says what it wants.
    pub(super) fn device_acts(&mut self) -> Raised {
        if self.device_event() > self.cycle {
            return Raised::default();
        }
        self.moved = true;
        self.with_device(|device, cycle, port| device.act(cycle, port))
    }

    /// A store retires: the device sees it if it rings its doorbell.
    pub(super) fn ring(&mut self, place: Place) {
        let rings = |device: &dyn Device| device.doorbell().contains(&place.address);
        if self.device.as_deref().is_some_and(rings) {
            let raised =
                self.with_device(|device, cycle, port| device.rung(cycle, place.address, port));
            self.take(raised);
        }
    }

    fn with_device(&mut self, run: impl FnOnce(&mut dyn Device, u64, &mut Port<'_>)) -> Raised {
        let Some(mut device) = self.device.take() else { return Raised::default() };
        let mut port = Port {
            memory: &mut self.machine.memory,
            ahead: &mut self.ahead,
            caches: &mut self.memory,
            remote_line: self.p.interrupt.remote_line,
            raised: Raised::default(),
        };
        run(&mut *device, self.cycle, &mut port);
        let raised = port.raised;
        self.device = Some(device);
        raised
    }
}
