//! Frames of UDP over IPv4, and devices that send and receive them.

use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd, BorrowedFd};

use anyhow::{Context, Result, bail};
use quaver_net::device::Device;
use quaver_net::xdp::Xdp;

/// Bytes of the payload.
pub(super) const PAYLOAD: usize = 64;
/// Where the IPv4 header begins.
pub(super) const ETHERNET: usize = 14;
/// Where the payload begins.
pub(super) const HEADERS: usize = ETHERNET + 20 + 8;
/// How many frames are taken at a time.
pub(super) const BATCH: usize = 64;
/// For how long nobody may hear anything.
pub(super) const PATIENCE_MS: i32 = 2000;

/// Hardware address, address, port.
pub(super) type Endpoint = ([u8; 6], Ipv4Addr, u16);

/// A datagram without a checksum of its own, which UDP allows.
pub(super) fn datagram(from: Endpoint, to: Endpoint, payload: usize) -> Vec<u8> {
    let mut frame = vec![0; HEADERS + payload];
    frame[..6].copy_from_slice(&to.0);
    frame[6..12].copy_from_slice(&from.0);
    frame[12..14].copy_from_slice(&[8, 0]);
    let total = (20 + 8 + payload) as u16;
    let ip = &mut frame[ETHERNET..];
    ip[0] = 0x45;
    ip[2..4].copy_from_slice(&total.to_be_bytes());
    ip[8..10].copy_from_slice(&[64, 17]);
    ip[12..16].copy_from_slice(&from.1.octets());
    ip[16..20].copy_from_slice(&to.1.octets());
    let words = ip[..20].chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(word[1]));
    let sum: u32 = words.sum();
    let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    ip[20..22].copy_from_slice(&from.2.to_be_bytes());
    ip[22..24].copy_from_slice(&to.2.to_be_bytes());
    ip[24..26].copy_from_slice(&(total - 20).to_be_bytes());
    frame
}

/// Is it a whole datagram to this port?
pub(super) fn is_for(frame: &[u8], port: u16) -> bool {
    frame.len() >= HEADERS
        && frame[12..14] == [8, 0]
        && frame[ETHERNET] == 0x45
        && frame[ETHERNET + 9] == 17
        && frame[36..38] == port.to_be_bytes()
}

/// Makes an answer of a datagram: addresses and ports are exchanged, so checksums stay valid.
pub(super) fn turn(frame: &mut [u8]) {
    let (to, rest) = frame.split_at_mut(6);
    to.swap_with_slice(&mut rest[..6]);
    let (from, to) = frame[ETHERNET + 12..ETHERNET + 20].split_at_mut(4);
    from.swap_with_slice(to);
    let (from, to) = frame[34..38].split_at_mut(2);
    from.swap_with_slice(to);
}

/// Puts a frame into the queue of a device; waits while there is no room.
pub(super) fn put(device: &mut Xdp, frame: &[u8]) -> Result<()> {
    for _ in 0..1000 {
        if device.transmit(frame.len(), &mut |to| to.copy_from_slice(frame)) {
            return Ok(());
        }
        device.flush()?;
    }
    bail!("no room to send")
}

/// Waits until a file is readable: was it in time?
pub(super) fn wait(file: BorrowedFd<'_>, ms: i32) -> bool {
    let mut poll = libc::pollfd { fd: file.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: there is one.
    unsafe { libc::poll(&raw mut poll, 1, ms) > 0 }
}

/// Waits until a device has frames: was it in time?
pub(super) fn wait_for(device: &Xdp, ms: i32) -> Result<bool> {
    Ok(wait(device.file().context("the device has no file")?, ms))
}
