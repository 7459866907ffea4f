//! Frames: making, reading, exchanging them.

use std::io;
use std::time::{Duration, Instant};

use quaver_net::device::Device;
use quaver_net::xdp::Xdp;

/// How long anything may take. A loaded machine is slow.
pub const PATIENCE: Duration = Duration::from_secs(20);

pub const ETHERNET: usize = 14;
/// Where the payload of UDP over IPv4 is.
pub const PAYLOAD: usize = ETHERNET + 20 + 8;

/// A frame that no kernel knows what to do with, with `n` in it.
pub fn numbered(n: u32, len: usize) -> Vec<u8> {
    let mut frame = vec![n as u8; len.max(ETHERNET + 4)];
    frame[..6].fill(0xff);
    frame[6..12].copy_from_slice(&[2, 0, 0, 0, 0, 1]);
    // Reserved for experiments.
    frame[12..14].copy_from_slice(&[0x88, 0xb5]);
    frame[ETHERNET..ETHERNET + 4].copy_from_slice(&n.to_be_bytes());
    frame
}

/// Sends a frame; waits while there is no room.
pub fn send(device: &mut Xdp, frame: &[u8]) {
    let end = Instant::now() + PATIENCE;
    while !device.transmit(frame.len(), &mut |to| to.copy_from_slice(frame)) {
        assert!(Instant::now() < end, "no room to send");
        device.flush().unwrap();
    }
}

/// The frames that come while `wanted` wants more of them.
pub fn receive_while(device: &mut Xdp, mut wanted: impl FnMut(&[Vec<u8>]) -> bool) -> Vec<Vec<u8>> {
    let (mut frames, end) = (Vec::new(), Instant::now() + PATIENCE);
    while wanted(&frames) {
        assert!(Instant::now() < end, "{} frames came", frames.len());
        if device.receive(64, &mut |frame| frames.push(frame.to_vec())).unwrap() == 0 {
            std::thread::yield_now();
        }
    }
    frames
}

/// So many frames.
pub fn receive(device: &mut Xdp, count: usize) -> Vec<Vec<u8>> {
    receive_while(device, |frames| frames.len() < count)
}

/// What is there once nothing has come for a while.
pub fn drain(device: &mut Xdp) -> Vec<Vec<u8>> {
    let (mut frames, mut last) = (Vec::new(), Instant::now());
    while last.elapsed() < Duration::from_millis(100) {
        if device.receive(64, &mut |frame| frames.push(frame.to_vec())).unwrap() > 0 {
            last = Instant::now();
        }
    }
    frames
}

/// Turns a datagram into its answer: addresses and ports are exchanged, so checksums stay valid.
pub fn turn(frame: &[u8]) -> Vec<u8> {
    let mut answer = frame.to_vec();
    for (a, b, len) in [(0, 6, 6), (ETHERNET + 12, ETHERNET + 16, 4), (34, 36, 2)] {
        answer[a..a + len].copy_from_slice(&frame[b..b + len]);
        answer[b..b + len].copy_from_slice(&frame[a..a + len]);
    }
    answer
}

/// Is it UDP over IPv4?
pub fn is_udp(frame: &[u8]) -> bool {
    frame.len() >= PAYLOAD && frame[12..14] == [8, 0] && frame[ETHERNET + 9] == 17
}

/// Would a receiver accept its checksum?
pub fn verifies(frame: &[u8]) -> bool {
    let ip = &frame[ETHERNET..];
    let total = usize::from(u16::from_be_bytes([ip[2], ip[3]]));
    let (addresses, datagram) = (&ip[12..20], &ip[20..total]);
    let sum = |bytes: &[u8]| -> u64 {
        let words = bytes.chunks(2);
        words.map(|word| u64::from(word[0]) << 8 | u64::from(*word.get(1).unwrap_or(&0))).sum()
    };
    let mut sum = sum(addresses) + 17 + datagram.len() as u64 + sum(datagram);
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum == 0xffff
}

/// Looks until the device says that its interface has gone.
pub fn wait_for_end(device: &mut Xdp) -> io::Error {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Err(error) = device.receive(64, &mut |_| {}) {
            return error;
        }
        assert!(Instant::now() < end, "the device has not ended");
    }
}
