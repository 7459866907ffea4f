//! Whatever the wire does, and whatever comes over it.

mod common;

use common::{A, B, Pair, Settings, at, datagrams, errno, receive, send, stream};
use proptest::prelude::*;
use quaver::net::stack::{Opt, Readiness, Socket};
use quaver_net::memory::Faults;
use std::net::Shutdown;
use std::time::Duration;

/// One end of a stream that sends and receives.
struct End<'a> {
    socket: &'a dyn Socket,
    to_send: &'a [u8],
    chunk: usize,
    shut: bool,
    received: Vec<u8>,
    ended: bool,
}

impl<'a> End<'a> {
    fn new(socket: &'a dyn Socket, to_send: &'a [u8], chunk: usize) -> End<'a> {
        End { socket, to_send, chunk, shut: false, received: Vec::new(), ended: false }
    }

    /// Does what can be done. `true`: everything is done.
    fn go(&mut self) -> bool {
        while !self.to_send.is_empty() {
            let most = self.chunk.min(self.to_send.len());
            match send(self.socket, &self.to_send[..most]) {
                Ok(n) => self.to_send = &self.to_send[n..],
                Err(e) if e.raw_os_error() == Some(libc::EAGAIN) => break,
                Err(e) => panic!("sending: {e}"),
            }
        }
        if self.to_send.is_empty() && !std::mem::replace(&mut self.shut, true) {
            self.socket.shutdown(Shutdown::Write).unwrap();
        }
        while !self.ended {
            match receive(self.socket, self.chunk) {
                Ok(bytes) if bytes.is_empty() => self.ended = true,
                Ok(bytes) => self.received.extend(bytes),
                Err(e) if e.raw_os_error() == Some(libc::EAGAIN) => break,
                Err(e) => panic!("receiving: {e}"),
            }
        }
        self.shut && self.ended
    }
}

fn faults() -> impl Strategy<Value = Faults> {
    let rate = || prop_oneof![Just(0.0), 0.0..0.1f64];
    (rate(), rate(), rate(), rate(), 0..20u64).prop_map(
        |(loss, duplication, corruption, reordering, delay)| Faults {
            loss,
            duplication,
            corruption,
            reordering,
            delay: Duration::from_millis(delay),
        },
    )
}

fn config(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config(64))]

    #[test]
    fn bytes_arrive_once_and_in_order(
        faults in faults(),
        seed: u64,
        buffers in 2048usize..100_000,
        queues in 1usize..4,
        there in proptest::collection::vec(any::<u8>(), 0..60_000),
        back in proptest::collection::vec(any::<u8>(), 0..60_000),
        chunks in (1usize..20_000, 1usize..20_000),
    ) {
        let pair = Pair::with(Settings { seed, buffers, queues, ..Settings::default() });
        // Without neighbours there is no connection: three questions may all be lost.
        let (client, server) = pair.connected();
        for end in &pair.ends {
            end.set_faults(faults);
        }
        let mut left = End::new(&*client, &there, chunks.0);
        let mut right = End::new(&*server, &back, chunks.1);
        let done = pair.until(100_000, || left.go() & right.go());
        prop_assert!(done, "{} and {} bytes are missing, {:?} {:?}",
            there.len() - right.received.len(), back.len() - left.received.len(),
            pair.a.stats(), pair.b.stats());
        prop_assert!(left.received == back && right.received == there);
        client.close();
        server.close();
        pair.pass(200);
        let (a, b) = (pair.a.stats(), pair.b.stats());
        prop_assert_eq!((a.connections, b.connections, a.time_waits, b.time_waits), (0, 0, 0, 0));
    }
}

/// When both ends repeat what the other has, each must see what the other acknowledges.
#[test]
fn both_ends_repeat_at_the_same_time() {
    let faults = Faults { loss: 0.08, delay: Duration::from_millis(1), ..Faults::default() };
    let data = vec![7; 50_000];
    for seed in 0..100 {
        let pair = Pair::with(Settings { seed, buffers: 43_302, ..Settings::default() });
        let (client, server) = pair.connected();
        for end in &pair.ends {
            end.set_faults(faults);
        }
        let (mut left, mut right) =
            (End::new(&*client, &data, 7000), End::new(&*server, &data, 7000));
        assert!(pair.until(5000, || left.go() & right.go()), "{seed}");
    }
}

#[test]
fn bulk_with_one_percent_of_loss() {
    let faults = Faults { loss: 0.01, delay: Duration::from_millis(1), ..Faults::default() };
    let pair = Pair::with(Settings { faults, ..Settings::default() });
    let (client, server) = pair.connected();
    let data: Vec<u8> =
        (0..4 << 20).map(|i: u32| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let (mut left, mut right) =
        (End::new(&*client, &data, 30_000), End::new(&*server, &[], 30_000));
    let start = pair.clock.now();
    assert!(pair.until(10_000, || left.go() & right.go()));
    assert!(right.received == data);
    // Most losses are noticed by what comes after them, without waiting for a timer.
    let seconds = (pair.clock.now() - start) / 1_000_000;
    assert!(seconds < 120, "{seconds} s of simulated time");
}

#[test]
fn a_thousand_connections_at_once() {
    let faults = Faults { delay: Duration::from_micros(100), ..Faults::default() };
    let pair = Pair::with(Settings { faults, ..Settings::default() });
    let listener = stream(&pair.b);
    listener.bind(at(B, 80)).unwrap();
    listener.listen(1000).unwrap();
    let clients: Vec<_> = (0..1000).map(|_| stream(&pair.a)).collect();
    for client in &clients {
        assert_eq!(errno(client.connect(at(B, 80))), libc::EINPROGRESS);
    }
    let mut servers = Vec::new();
    assert!(pair.until(100, || {
        while let Ok((socket, _)) = listener.accept() {
            servers.push(socket);
        }
        servers.len() == clients.len()
    }));
    for (i, client) in clients.iter().enumerate() {
        send(&**client, &(i as u32).to_be_bytes()).unwrap();
    }
    pair.pass(1);
    for server in &servers {
        let message = receive(&**server, 4).unwrap();
        send(&**server, &message).unwrap();
    }
    pair.pass(1);
    for (i, client) in clients.iter().enumerate() {
        assert_eq!(receive(&**client, 4).unwrap(), (i as u32).to_be_bytes());
    }
    // Idle connections cost nothing: there is no timer left.
    pair.pass(300);
    assert_eq!((pair.a.next(), pair.b.next()), (None, None));
}

/// An Ethernet frame from A's address to B's, with this payload.
fn frame(kind: [u8; 2], payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![2, 0x51, 0, 0, 0, 2, 2, 0x51, 0, 0, 0, 1, kind[0], kind[1]];
    frame.extend_from_slice(payload);
    frame
}

/// An IPv4 packet to B, whose header is right.
fn packet(protocol: u8, from: [u8; 4], payload: &[u8]) -> Vec<u8> {
    let len = (20 + payload.len()) as u16;
    let mut packet = vec![0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, protocol, 0, 0];
    packet[2..4].copy_from_slice(&len.to_be_bytes());
    packet.extend_from_slice(&from);
    packet.extend_from_slice(&B.octets());
    let sum: u32 =
        packet.chunks(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]]))).sum();
    let folded = !((sum & 0xffff) + (sum >> 16)) as u16;
    packet[10..12].copy_from_slice(&folded.to_be_bytes());
    packet.extend_from_slice(payload);
    packet
}

/// A SYN with a right checksum.
fn syn(from: [u8; 4], from_port: u16, to_port: u16) -> Vec<u8> {
    let mut segment = vec![0; 20];
    segment[..2].copy_from_slice(&from_port.to_be_bytes());
    segment[2..4].copy_from_slice(&to_port.to_be_bytes());
    segment[4] = 9;
    (segment[12], segment[13], segment[14]) = (0x50, 2, 0x40);
    let mut sum = 6 + 20;
    for word in from.chunks(2).chain(B.octets().chunks(2)).chain(segment.chunks(2)) {
        sum += u32::from(u16::from_be_bytes([word[0], word[1]]));
    }
    let folded = !((sum & 0xffff) + (sum >> 16)) as u16;
    segment[16..18].copy_from_slice(&folded.to_be_bytes());
    frame([8, 0], &packet(6, from, &segment))
}

/// Makes a segment's checksum right, in a frame without options of IP.
fn checksum(frame: &mut [u8]) {
    frame[50..52].fill(0);
    let mut sum = 6 + (frame.len() - 34) as u32;
    for word in frame[26..].chunks(2) {
        sum += u32::from(u16::from_be_bytes([word[0], *word.get(1).unwrap_or(&0)]));
    }
    let folded = (sum & 0xffff) + (sum >> 16);
    let folded = !((folded & 0xffff) + (folded >> 16)) as u16;
    frame[50..52].copy_from_slice(&folded.to_be_bytes());
}

fn random_frame() -> impl Strategy<Value = Vec<u8>> {
    let bytes = || proptest::collection::vec(any::<u8>(), 0..200);
    let address = prop_oneof![Just([10, 1, 0, 1]), any::<[u8; 4]>()];
    prop_oneof![
        bytes(),
        bytes().prop_map(|payload| frame([8, 0], &payload)),
        bytes().prop_map(|payload| frame([8, 6], &payload)),
        (prop_oneof![Just(1u8), Just(6), Just(17), any::<u8>()], address, bytes())
            .prop_map(|(protocol, from, payload)| frame([8, 0], &packet(protocol, from, &payload))),
        (any::<u16>(), prop_oneof![Just(80u16), any::<u16>()]).prop_map(|(from, to)| syn(
            [10, 1, 0, 9],
            from,
            to
        )),
    ]
}

proptest! {
    #![proptest_config(config(256))]

    #[test]
    fn random_frames_do_no_harm(
        frames in proptest::collection::vec(random_frame(), 1..200),
        queues in 1usize..3,
    ) {
        let pair = Pair::with(Settings { queues, ..Settings::default() });
        let (client, server) = pair.connected();
        let listener = stream(&pair.b);
        listener.bind(at(B, 80)).unwrap();
        listener.listen(5).unwrap();
        let socket = datagrams(&pair.b);
        socket.bind(at(B, 53)).unwrap();
        for frame in &frames {
            pair.ends[0].inject(frame);
            pair.settle();
        }
        let stats = pair.b.stats();
        prop_assert!(stats.connections <= 1 + 2 * (5 + 6), "{stats:?}");
        send(&*client, b"still there").unwrap();
        prop_assert!(pair.until(300, || server.pending() == 11));
        prop_assert_eq!(receive(&*server, 20).unwrap(), b"still there");
    }

    /// What is nearly right: the frames of a connection, with bits flipped, cut, or repeated.
    #[test]
    fn damaged_frames_do_no_harm(seed: u64, corruption in 0.05..0.5f64) {
        let faults = Faults { corruption, duplication: 0.2, ..Faults::default() };
        let pair = Pair::with(Settings { seed, ..Settings::default() });
        let (client, server) = pair.connected();
        for end in &pair.ends {
            end.set_faults(faults);
        }
        send(&*client, &[1; 5000]).unwrap();
        send(&*server, &[2; 5000]).unwrap();
        pair.until(20, || client.pending() == 5000 && server.pending() == 5000);
        for end in &pair.ends {
            end.set_faults(Faults::default());
        }
        prop_assert!(pair.until(600, || client.pending() == 5000 && server.pending() == 5000));
        prop_assert!(receive(&*server, 5000).unwrap().iter().all(|&byte| byte == 1));
        prop_assert!(receive(&*client, 5000).unwrap().iter().all(|&byte| byte == 2));
    }
}

#[test]
fn a_scan_of_all_ports_is_answered_within_limits() {
    let pair = Pair::new();
    let listener = stream(&pair.b);
    listener.bind(at(B, 80)).unwrap();
    listener.listen(8).unwrap();
    for port in 1..=65_535 {
        pair.ends[0].inject(&syn([10, 1, 0, 9], 999, port));
        if port % 64 == 0 {
            pair.settle();
        }
    }
    pair.settle();
    let stats = pair.b.stats();
    assert_eq!(stats.unwanted, 65_534);
    // The clock stands still: one burst.
    assert_eq!(stats.limited, 65_534 - 1000);
    assert_eq!(stats.connections, 1);
    pair.pass(20);
    assert_eq!(pair.b.stats().connections, 0);
}

#[test]
fn a_flood_of_requests_does_not_keep_others_out() {
    let pair = Pair::new();
    let listener = stream(&pair.b);
    listener.bind(at(B, 80)).unwrap();
    listener.listen(16).unwrap();
    let client = stream(&pair.a);
    let mut port = 1;
    let mut flood = |frames: usize| {
        for _ in 0..frames {
            port = port % 65_000 + 1;
            pair.ends[0].inject(&syn([10, 1, 0, 9], port, 80));
        }
        pair.settle();
    };
    flood(1000);
    assert_eq!(pair.b.stats().connections, 16);
    assert_eq!(errno(client.connect(at(B, 80))), libc::EINPROGRESS);
    // The client tries again, and old ones give way.
    for _ in 0..100 {
        flood(4);
        pair.clock.advance(Duration::from_millis(100));
        pair.settle();
    }
    assert!(pair.until(60, || client.readiness().contains(Readiness::WRITABLE)));
    assert!(pair.b.stats().half_open_dropped > 0);
    assert!(pair.b.stats().connections <= 17);
}

#[test]
fn closing_a_listener_resets_who_was_not_accepted() {
    let pair = Pair::new();
    let listener = stream(&pair.b);
    listener.bind(at(B, 80)).unwrap();
    listener.listen(8).unwrap();
    let client = stream(&pair.a);
    assert_eq!(errno(client.connect(at(B, 80))), libc::EINPROGRESS);
    pair.settle();
    pair.ends[0].inject(&syn([10, 1, 0, 9], 5, 80));
    pair.settle();
    listener.close();
    pair.settle();
    assert_eq!(errno(receive(&*client, 1)), libc::ECONNRESET);
    assert_eq!(pair.b.stats().connections, 0);
    // The port is free.
    let again = stream(&pair.b);
    again.bind(at(B, 80)).unwrap();
    again.listen(1).unwrap();
}

#[test]
fn a_port_is_used_again_at_once() {
    let pair = Pair::new();
    let listener = stream(&pair.b);
    listener.bind(at(B, 80)).unwrap();
    listener.listen(8).unwrap();
    // The side that closes first keeps the connection for a while; with a bound port the same
    // 4-tuple comes back.
    for round in 0..3 {
        let client = stream(&pair.a);
        client.bind(at(A, 5000)).unwrap();
        assert_eq!(errno(client.connect(at(B, 80))), libc::EINPROGRESS);
        assert!(pair.until(30, || listener.readiness() == Readiness::READABLE), "{round}");
        let (server, _) = listener.accept().unwrap();
        server.close();
        pair.settle();
        assert_eq!(receive(&*client, 1).unwrap(), b"");
        client.close();
        pair.settle();
    }
    assert_eq!(pair.b.stats().time_waits, 1);
}

/// A request that is dropped does not make room for anything.
#[test]
fn what_has_ended_stays_when_the_queue_is_full() {
    let pair = Pair::new();
    let listener = stream(&pair.b);
    listener.bind(at(B, 80)).unwrap();
    listener.listen(0).unwrap();
    let client = stream(&pair.a);
    client.bind(at(A, 5000)).unwrap();
    assert_eq!(errno(client.connect(at(B, 80))), libc::EINPROGRESS);
    assert!(pair.until(30, || listener.readiness() == Readiness::READABLE));
    listener.accept().unwrap().0.close();
    pair.settle();
    client.close();
    pair.settle();
    assert_eq!(pair.b.stats().time_waits, 1);
    // Others fill the queue.
    let others: Vec<_> = (0..2).map(|_| stream(&pair.a)).collect();
    for other in &others {
        assert_eq!(errno(other.connect(at(B, 80))), libc::EINPROGRESS);
        pair.settle();
    }
    let full = pair.b.stats().backlog_full;
    let mut again = syn(A.octets(), 5000, 80);
    // Newer than all of the old one.
    again[38..42].copy_from_slice(&[0x7f, 0, 0, 0]);
    for high in [0x00, 0x40, 0x80, 0xc0] {
        again[38] = high;
        checksum(&mut again);
        pair.ends[0].inject(&again);
        pair.settle();
    }
    let stats = pair.b.stats();
    assert!(stats.backlog_full > full, "{stats:?}");
    assert_eq!(stats.time_waits, 1);
    // Its place is given to one for which there is room.
    listener.accept().unwrap();
    for high in [0x00, 0x40, 0x80, 0xc0] {
        again[38] = high;
        checksum(&mut again);
        pair.ends[0].inject(&again);
        pair.settle();
    }
    assert_eq!(pair.b.stats().time_waits, 0);
}

#[test]
fn an_option_reaches_the_wire() {
    let pair = Pair::new();
    let (client, server) = pair.connected();
    client.set(Opt::NoDelay(true)).unwrap();
    // Without waiting for an acknowledgement, which is delayed.
    for _ in 0..5 {
        send(&*client, b"x").unwrap();
        pair.settle();
    }
    assert_eq!(server.pending(), 5);
    server.set(Opt::NoDelay(false)).unwrap();
    for _ in 0..5 {
        send(&*server, b"y").unwrap();
    }
    pair.settle();
    assert_eq!(client.pending(), 1);
    pair.pass(1);
    assert_eq!(client.pending(), 5);
}
