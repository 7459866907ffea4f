//! Datagrams between two stacks over a wire in memory.

mod common;

use common::{A, B, Ear, Pair, at, datagrams, errno};
use quaver::net::stack::{Readiness, Received};
use quaver_net::Net;
use quaver_net::clock::Clock;
use quaver_net::device::Device;
use quaver_net::memory::Faults;
use quaver_net::memory::{MemoryDevice, Wire};
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

#[test]
fn a_datagram_that_is_too_long_for_the_buffer_is_cut() {
    let pair = Pair::new();
    let (a, b) = (datagrams(&pair.a), datagrams(&pair.b));
    b.bind(at(B, 53)).unwrap();
    let parts = [IoSlice::new(b"hel"), IoSlice::new(b"lo, world")];
    assert_eq!(a.send(&parts, Some(at(B, 53))).unwrap(), 12);
    pair.settle();
    assert_eq!(b.pending(), 12);
    let mut bytes = [0; 5];
    let (left, right) = bytes.split_at_mut(2);
    let mut into = [IoSliceMut::new(left), IoSliceMut::new(right)];
    let from = at(A, a.local_addr().port());
    let cut = Received { len: 5, whole: 12, from: Some(from) };
    assert_eq!(b.receive(&mut into, true).unwrap(), cut);
    assert_eq!(b.receive(&mut into, false).unwrap(), cut);
    assert_eq!(&bytes, b"hello");
    assert_eq!(b.readiness(), Readiness::WRITABLE);
}

#[test]
fn a_queue_that_is_full_drops_what_comes() {
    let pair = Pair::new();
    let (a, b) = (datagrams(&pair.a), datagrams(&pair.b));
    b.bind(at(B, 53)).unwrap();
    let ear = Ear::of(&*b);
    for i in 0..2000u32 {
        a.send(&[IoSlice::new(&i.to_be_bytes())], Some(at(B, 53))).unwrap();
        pair.settle();
    }
    let dropped = pair.b.stats().queue_full;
    assert_eq!(dropped, 2000 - 1024);
    assert_eq!(ear.times(), 1024);
    // Those that came first are there.
    for i in 0..1024u32 {
        let mut bytes = [0; 4];
        b.receive(&mut [IoSliceMut::new(&mut bytes)], false).unwrap();
        assert_eq!(u32::from_be_bytes(bytes), i);
    }
    assert_eq!(errno(b.receive(&mut [], false)), libc::EAGAIN);
}

#[test]
fn a_connected_socket_hears_its_peer_only() {
    let pair = Pair::new();
    let (a, other, b) = (datagrams(&pair.a), datagrams(&pair.a), datagrams(&pair.b));
    a.bind(at(A, 1000)).unwrap();
    b.bind(at(B, 53)).unwrap();
    b.connect(at(A, 1000)).unwrap();
    other.connect(at(B, 53)).unwrap();
    other.send(&[IoSlice::new(b"from another")], None).unwrap();
    pair.settle();
    assert_eq!(b.readiness(), Readiness::WRITABLE);
    // As if nobody were there.
    assert_eq!(other.take_error().unwrap().raw_os_error(), Some(libc::ECONNREFUSED));
    a.send(&[IoSlice::new(b"from the peer")], Some(at(B, 53))).unwrap();
    pair.settle();
    assert_eq!(b.pending(), 13);
    // The port is free again when the socket is closed.
    b.close();
    datagrams(&pair.b).bind(at(B, 53)).unwrap();
}

#[test]
fn the_first_datagrams_wait_for_the_neighbour() {
    let pair = Pair::new();
    let (a, b) = (datagrams(&pair.a), datagrams(&pair.b));
    b.bind(at(B, 53)).unwrap();
    // The first question is lost.
    pair.ends[0].set_faults(Faults { loss: 1.0, ..Faults::default() });
    for i in 0..40u8 {
        a.send(&[IoSlice::new(&[i])], Some(at(B, 53))).unwrap();
    }
    pair.settle();
    pair.ends[0].set_faults(Faults::default());
    pair.pass(2);
    for i in 0..16u8 {
        let mut byte = [0];
        b.receive(&mut [IoSliceMut::new(&mut byte)], false).unwrap();
        assert_eq!(byte, [i]);
    }
    assert_eq!(b.readiness(), Readiness::WRITABLE);
}

/// A device whose queue the kernel empties only while it is open.
struct Sluice {
    inner: MemoryDevice,
    queued: Vec<Vec<u8>>,
    open: Arc<AtomicBool>,
}

impl Device for Sluice {
    fn address(&self) -> [u8; 6] {
        self.inner.address()
    }

    fn mtu(&self) -> usize {
        self.inner.mtu()
    }

    fn receive(&mut self, most: usize, take: &mut dyn FnMut(&[u8])) -> io::Result<usize> {
        self.inner.receive(most, take)
    }

    fn transmit(&mut self, len: usize, fill: &mut dyn FnMut(&mut [u8])) -> bool {
        let mut frame = vec![0; len];
        fill(&mut frame);
        self.queued.push(frame);
        true
    }

    fn flush(&mut self) -> io::Result<bool> {
        if !self.open.load(SeqCst) {
            return Ok(self.queued.is_empty());
        }
        for frame in self.queued.drain(..) {
            self.inner.transmit(frame.len(), &mut |bytes| bytes.copy_from_slice(&frame));
        }
        Ok(true)
    }

    fn file(&self) -> Option<BorrowedFd<'_>> {
        self.inner.file()
    }
}

/// What the kernel's queue has had no room for goes when it has, although nobody sends any more.
#[test]
fn what_is_left_goes_later() {
    let clock = Clock::simulated();
    let (a, b) = Wire::new(clock.clone()).connect().unwrap();
    let ends = a.iter().chain(&b).map(MemoryDevice::handle).collect();
    let open = Arc::new(AtomicBool::new(true));
    let sluice = |inner| Sluice { inner, queued: Vec::new(), open: open.clone() };
    let a = Net::builder(A, 24).device(sluice(a.into_iter().next().unwrap()));
    let b = Net::builder(B, 24).device(b.into_iter().next().unwrap());
    let [a, b] = [a, b].map(|net| net.clock(clock.clone()).build().unwrap());
    let pair = Pair { a, b, clock, ends };
    let (a, b) = (datagrams(&pair.a), datagrams(&pair.b));
    b.bind(at(B, 53)).unwrap();
    let give = || assert_eq!(a.send(&[IoSlice::new(b"x")], Some(at(B, 53))).unwrap(), 1);
    let take = || errno(b.receive(&mut [IoSliceMut::new(&mut [0])], false));
    // The neighbour becomes known.
    give();
    pair.pass(1);
    assert_eq!((take(), take()), (0, libc::EAGAIN));
    open.store(false, SeqCst);
    give();
    pair.pass_millis(100);
    assert_eq!(take(), libc::EAGAIN);
    open.store(true, SeqCst);
    pair.pass_millis(100);
    assert_eq!((take(), take()), (0, libc::EAGAIN));
    // And nobody looks for nothing.
    assert!(pair.a.next().is_none_or(|next| next > pair.clock.now() + 1_000_000));
}
