//! The way out: frames of a shard, and smoltcp's view of the device.

use super::packet::{ETHERNET, ETHERTYPE_IPV4, write_header};
use crate::device::Device;
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
    /// Something was put into the device since the last flush.
    dirty: bool,
    /// Frames to itself.
    pub(crate) looped: Vec<Vec<u8>>,
    pub(crate) frames: u64,
    pub(crate) bytes: u64,
    pub(crate) lost: u64,
}

impl Egress {
    pub(crate) fn new(device: Box<dyn Device>) -> Egress {
        let address = device.address();
        Egress {
            device,
            address,
            pending: Vec::new(),
            dirty: false,
            looped: Vec::new(),
            frames: 0,
            bytes: 0,
            lost: 0,
        }
    }

    /// Can a frame be sent? Ask before making one.
    pub(crate) fn has_room(&self) -> bool {
        self.pending.is_empty()
    }

    /// Sends what `fill` writes: `len` bytes after the header.
    pub(crate) fn put<R>(
        &mut self,
        to: Route,
        kind: u16,
        len: usize,
        fill: impl FnOnce(&mut [u8]) -> R,
    ) -> R {
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
            self.dirty |= device.transmit(len, &mut write)
                || (device.flush().is_ok() && device.transmit(len, &mut write));
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

    /// Sends everything that the device has room for.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        if !std::mem::take(&mut self.dirty) && self.pending.is_empty() {
            return Ok(());
        }
        self.device.flush()?;
        let pending = &self.pending;
        if !pending.is_empty()
            && self.device.transmit(pending.len(), &mut |frame| frame.copy_from_slice(pending))
        {
            self.pending.clear();
            self.device.flush()?;
        }
        Ok(())
    }
}

/// Sends for a connection.
pub(crate) struct Sender<'a> {
    pub(crate) egress: &'a mut Egress,
    pub(crate) to: Route,
    pub(crate) capabilities: &'a DeviceCapabilities,
}

impl phy::Device for Sender<'_> {
    type RxToken<'a>
        = Arrival<'a>
    where
        Self: 'a;
    type TxToken<'a>
        = SendToken<'a>
    where
        Self: 'a;

    fn receive(&mut self, _: Instant) -> Option<(Self::RxToken<'_>, Self::TxToken<'_>)> {
        None
    }

    fn transmit(&mut self, _: Instant) -> Option<Self::TxToken<'_>> {
        self.egress.has_room().then_some(SendToken { egress: self.egress, to: self.to })
    }

    fn capabilities(&self) -> DeviceCapabilities {
        self.capabilities.clone()
    }
}

/// The right to send a packet.
pub(crate) struct SendToken<'a> {
    egress: &'a mut Egress,
    to: Route,
}

impl phy::TxToken for SendToken<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, f: F) -> R {
        self.egress.put(self.to, ETHERTYPE_IPV4, len, f)
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

    pub(crate) fn put<R>(
        &mut self,
        to: Route,
        kind: u16,
        len: usize,
        fill: impl FnOnce(&mut [u8]) -> R,
    ) -> R {
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

/// One packet that has come, for smoltcp.
pub(crate) struct Receiver<'a> {
    pub(crate) packet: Option<&'a [u8]>,
    pub(crate) replies: &'a mut Replies,
    pub(crate) to: Route,
    pub(crate) capabilities: &'a DeviceCapabilities,
}

impl phy::Device for Receiver<'_> {
    type RxToken<'a>
        = Arrival<'a>
    where
        Self: 'a;
    type TxToken<'a>
        = ReplyToken<'a>
    where
        Self: 'a;

    fn receive(&mut self, _: Instant) -> Option<(Self::RxToken<'_>, Self::TxToken<'_>)> {
        let packet = self.packet.take()?;
        Some((Arrival(packet), ReplyToken { replies: self.replies, to: self.to }))
    }

    fn transmit(&mut self, _: Instant) -> Option<Self::TxToken<'_>> {
        None
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

/// The right to answer a packet.
pub(crate) struct ReplyToken<'a> {
    replies: &'a mut Replies,
    to: Route,
}

impl phy::TxToken for ReplyToken<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, f: F) -> R {
        self.replies.put(self.to, ETHERTYPE_IPV4, len, f)
    }
}
