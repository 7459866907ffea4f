//! Datagrams between two stacks over a wire in memory.

mod common;

use common::{A, B, Ear, Pair, at, datagrams, errno};
use quaver::net::stack::{Readiness, Received};
use quaver_net::memory::Faults;
use std::io::{IoSlice, IoSliceMut};

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
