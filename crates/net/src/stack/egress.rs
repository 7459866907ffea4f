//! The way out: frames of a shard, and smoltcp's view of the device.

use super::NEVER;
use super::core::RETRY;
use super::packet::{ETHERNET, ETHERTYPE_IPV4, write_header};
use crate::device::Device;
use quaver::net::stack::Bell;
use smoltcp::phy::{self, DeviceCapabilities};
use smoltcp::time::Instant;
use std::io;

/// Frames to itself that wait at most.
const MOST_LOOPED: usize = 256;
/// Bytes of answers that a batch of frames may cause.
const REPLIES: usize = 128 << 10;

/// Where a frame goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Route {
    /// To this hardware address.
    Mac([u8; 6]),
    /// Back to the stack.
    Own,
}

/// What sends.
pub(crate) struct Egress {
    pub(crate) device: Box<dyn Device>,
    address: [u8; 6],
    /// A frame that was made before the device had no room; empty: none.
    pending: Vec<u8>,
    /// Something was put into the device since the last flush, or was left by that.
    dirty: bool,
    /// The last flush has left something: the device is full.
    is_left: bool,
    /// The same, since anybody has cared.
    fresh: bool,
    /// By which several threads' frames are sent together.
    bell: Option<Bell>,
    /// Frames to itself.
    pub(crate) looped: Vec<Vec<u8>>,
    pub(crate) frames: u64,
    pub(crate) bytes: u64,
    pub(crate) lost: u64,
}

impl Egress {
    pub(crate) fn new(device: Box<dyn Device>) -> Egress {
        let address = device.address();
        // Without a descriptor for it, all is as without a bell.
        let bell = device.bell().and_then(|file| file.try_clone_to_owned().ok()).map(Bell::new);
        Egress {
            device,
            address,
            bell,
            fresh: false,
            is_left: false,
            pending: Vec::new(),
            dirty: false,
            looped: Vec::new(),
            frames: 0,
            bytes: 0,
            lost: 0,
        }
    }

    /// After a call: sends what it has put into the device, unless others are about to send, too,
    /// and it goes with theirs.
    pub(crate) fn flush_soon(&mut self) -> io::Result<()> {
        if !std::mem::take(&mut self.fresh) && self.pending.is_empty() {
            return Ok(());
        }
        if let Some(bell) = &self.bell
            && self.pending.is_empty()
        {
            // What it finds by itself is found after this: no flush is missing.
            if !self.device.publish() || bell.put_off() {
                return Ok(());
            }
        }
        self.flush()
    }

    /// Sends everything that the device has room for.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.fresh = false;
        if !self.dirty && self.pending.is_empty() {
            return Ok(());
        }
        let mut all = self.device.flush()?;
        let pending = &self.pending;
        if !pending.is_empty()
            && self.device.transmit(pending.len(), &mut |frame| frame.copy_from_slice(pending))
        {
            self.pending.clear();
            all = self.device.flush()?;
        }
        (self.dirty, self.is_left) = (!all, !all);
        Ok(())
    }

    /// When to flush again, although nobody sends.
    pub(crate) fn next(&self, now: u64) -> u64 {
        if self.is_left { now + RETRY } else { NEVER }
    }
}

/// Where packets go that smoltcp makes.
pub(crate) trait Sink {
    /// Can a packet be sent that nothing has asked for? Ask before making one.
    fn has_room(&self) -> bool;

    /// Sends what `fill` writes: `len` bytes after the header.
    fn put<R>(&mut self, to: Route, kind: u16, len: usize, fill: impl FnOnce(&mut [u8]) -> R) -> R;
}

impl Sink for Egress {
    fn has_room(&self) -> bool {
        self.pending.is_empty()
    }

    fn put<R>(&mut self, to: Route, kind: u16, len: usize, fill: impl FnOnce(&mut [u8]) -> R) -> R {
        let len = ETHERNET + len;
        let Route::Mac(mac) = to else {
            let mut frame = vec![0; len];
            let result = fill(&mut frame[ETHERNET..]);
            write_header(&mut frame, self.address, self.address, kind);
            if self.looped.len() < MOST_LOOPED {
                self.looped.push(frame);
            } else {
                self.lost += 1;
            }
            return result;
        };
        self.frames += 1;
        self.bytes += len as u64;
        let (mut fill, mut result) = (Some(fill), None);
        if self.pending.is_empty() {
            let (device, from) = (&mut self.device, self.address);
            let mut write = |frame: &mut [u8]| {
                write_header(frame, mac, from, kind);
                result = fill.take().map(|fill| fill(&mut frame[ETHERNET..]));
            };
            // A full device may have room when the kernel has been told.
            let sent = device.transmit(len, &mut write)
                || (device.flush().is_ok() && device.transmit(len, &mut write));
            self.dirty |= sent;
            self.fresh |= sent;
        } else {
            self.lost += 1;
        }
        if let Some(fill) = fill {
            self.pending.clear();
            self.pending.resize(len, 0);
            result = Some(fill(&mut self.pending[ETHERNET..]));
            write_header(&mut self.pending, mac, self.address, kind);
        }
        result.expect("`fill` was called once")
    }
}

/// Answers to frames that are lent by the device: it is busy, so they wait until it is not.
pub(crate) struct Replies {
    bytes: Vec<u8>,
    frames: Vec<(Route, u16, usize)>,
    pub(crate) lost: u64,
}

impl Replies {
    pub(crate) fn new() -> Replies {
        Replies { bytes: Vec::with_capacity(REPLIES), frames: Vec::new(), lost: 0 }
    }

    /// Sends them.
    pub(crate) fn drain(&mut self, egress: &mut Egress) {
        let mut at = 0;
        for &(to, kind, len) in &self.frames {
            egress.put(to, kind, len, |out| out.copy_from_slice(&self.bytes[at..at + len]));
            at += len;
        }
        self.frames.clear();
        self.bytes.clear();
    }
}

impl Sink for Replies {
    /// There are answers only.
    fn has_room(&self) -> bool {
        false
    }

    fn put<R>(&mut self, to: Route, kind: u16, len: usize, fill: impl FnOnce(&mut [u8]) -> R) -> R {
        let at = self.bytes.len();
        self.bytes.resize(at + len, 0);
        let result = fill(&mut self.bytes[at..]);
        if at + len > REPLIES {
            self.bytes.truncate(at);
            self.lost += 1;
        } else {
            self.frames.push((to, kind, len));
        }
        result
    }
}

/// smoltcp's view of the device: one packet that has come, or none, and where it may send to.
pub(crate) struct Port<'a, S> {
    pub(crate) packet: Option<&'a [u8]>,
    pub(crate) sink: &'a mut S,
    pub(crate) to: Route,
    pub(crate) capabilities: &'a DeviceCapabilities,
}

impl<S: Sink> phy::Device for Port<'_, S> {
    type RxToken<'a>
        = Arrival<'a>
    where
        Self: 'a;
    type TxToken<'a>
        = SendToken<'a, S>
    where
        Self: 'a;

    fn receive(&mut self, _: Instant) -> Option<(Self::RxToken<'_>, Self::TxToken<'_>)> {
        let packet = self.packet.take()?;
        Some((Arrival(packet), SendToken { sink: self.sink, to: self.to }))
    }

    fn transmit(&mut self, _: Instant) -> Option<Self::TxToken<'_>> {
        self.sink.has_room().then_some(SendToken { sink: self.sink, to: self.to })
    }

    fn capabilities(&self) -> DeviceCapabilities {
        self.capabilities.clone()
    }
}

/// A packet that has come.
pub(crate) struct Arrival<'a>(&'a [u8]);

impl phy::RxToken for Arrival<'_> {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        f(self.0)
    }
}

/// The right to send a packet.
pub(crate) struct SendToken<'a, S> {
    sink: &'a mut S,
    to: Route,
}

impl<S: Sink> phy::TxToken for SendToken<'_, S> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, f: F) -> R {
        self.sink.put(self.to, ETHERTYPE_IPV4, len, f)
    }
}
