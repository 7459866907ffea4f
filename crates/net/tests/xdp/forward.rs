//! A forwarder between two kernels, or between two devices that send what no kernel would.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use quaver_net::device::Device;
use quaver_net::l3fwd::{Counts, Drop, Forwarder, Hop, PortSettings, Route, parse, random};
use quaver_net::xdp::{Filter, Mode, Xdp, open};

use crate::frames::*;
use crate::place::{Place, connect, have, skipped};

/// `left` and `right`, with a place between them that has a port to each: `pl`, `pr`.
struct Road {
    left: Place,
    middle: Place,
    right: Place,
}

impl Road {
    /// With the kernels' addresses 10.1.0.2 and 10.2.0.2 at its ends.
    fn new() -> Road {
        let road = Road { left: Place::new(), middle: Place::new(), right: Place::new() };
        let Road { left, middle, right } = &road;
        connect((middle, "pl", None), (left, "vl", Some("10.1.0.2/24")), "");
        connect((middle, "pr", None), (right, "vr", Some("10.2.0.2/24")), "");
        left.ip("route add default via 10.1.0.1");
        right.ip("route add default via 10.2.0.1");
        road
    }

    /// Opens a forwarder with addresses of its own, and a route to 10.3.0.0/16 behind `right`.
    fn open(&self, mode: Option<Mode>) -> Forwarder {
        let port = |interface: &str, address: [u8; 4]| PortSettings {
            interface: interface.into(),
            address: Some((address.into(), 24)),
        };
        let ports = [port("pl", [10, 1, 0, 1]), port("pr", [10, 2, 0, 1])];
        let mut forwarder = self.middle.run(move || Forwarder::open(&ports, mode).unwrap());
        for route in parse("10.3.0.0/16 pr 10.2.0.2", &["pl", "pr"]).unwrap() {
            forwarder.add(&route).unwrap();
        }
        assert_eq!(forwarder.routes(), 3);
        forwarder
    }
}

/// A forwarder at work in a thread.
struct Work {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Forwarder>,
}

impl Work {
    fn start(mut forwarder: Forwarder) -> Work {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                if forwarder.poll().unwrap() == 0 {
                    forwarder.wait(Duration::from_millis(20)).unwrap();
                }
            }
            // What has come before the end.
            while forwarder.poll().unwrap() > 0 {}
            forwarder
        });
        Work { stop, thread }
    }

    fn stop(self) -> Forwarder {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

fn dropped(counts: &Counts, reasons: &[Drop]) -> Vec<u64> {
    reasons.iter().map(|&why| counts.dropped(why)).collect()
}

#[test]
fn kernels_reach_each_other_through_it() {
    if skipped() {
        return;
    }
    for mode in [None, Some(Mode::Native)] {
        let road = Road::new();
        let forwarder = road.open(mode);
        let expected = mode.unwrap_or(Mode::Skb);
        assert!(forwarder.ports().eq([("pl", expected), ("pr", expected)]));
        let work = Work::start(forwarder);
        // The first may be lost while addresses are asked for.
        road.left.command("ping -c 2 -i 0.2 -W 10 10.2.0.2");
        road.right.command("ping -c 2 -i 0.2 -W 10 10.1.0.2");
        road.right.ip("addr add 10.3.0.1/32 dev lo");
        road.left.command("ping -c 2 -i 0.2 -W 10 10.3.0.1");
        datagrams(&road);
        let forwarder = work.stop();
        let counts = forwarder.counts();
        assert!(counts.forwarded >= 2000 + 6 && counts.arp > 0, "{counts}");
        let reasons = [Drop::NoRoute, Drop::Ttl, Drop::Checksum, Drop::QueueFull, Drop::TooLong];
        assert_eq!(dropped(&counts, &reasons), [0; 5], "{counts}");
        assert!(forwarder.lost().all(|lost| lost == Default::default()));
    }
}

/// 1,000 datagrams and their answers, with checksums that kernels accept. What a busy kernel drops
/// is sent again.
fn datagrams(road: &Road) {
    let server = road.right.run(|| UdpSocket::bind("10.2.0.2:7").unwrap());
    let client = road.left.run(|| UdpSocket::bind("10.1.0.2:0").unwrap());
    server.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    client.set_read_timeout(Some(PATIENCE / 10)).unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    let echo = thread::spawn(move || {
        let mut buffer = [0; 2000];
        while !stopped.load(Ordering::Relaxed) {
            if let Ok((len, from)) = server.recv_from(&mut buffer) {
                server.send_to(&buffer[..len], from).unwrap();
            }
        }
    });
    let mut buffer = [0; 2000];
    let mut lost = 0;
    for n in 0..1000u32 {
        let len = 4 + n as usize * 7 % 1400;
        loop {
            buffer[..4].copy_from_slice(&n.to_be_bytes());
            client.send_to(&buffer[..len], "10.2.0.2:7").unwrap();
            match client.recv(&mut buffer) {
                Ok(got) if buffer[..4] == n.to_be_bytes() => break assert_eq!(got, len),
                _ => lost += 1,
            }
            assert!(lost < 10, "datagrams are lost all the time");
        }
    }
    stop.store(true, Ordering::Relaxed);
    echo.join().unwrap();
}

#[test]
fn a_stream_goes_through_unchanged() {
    if skipped() {
        return;
    }
    if !have("ethtool") {
        return eprintln!("skipped: no `ethtool` command");
    }
    const LEN: usize = 8 << 20;
    let road = Road::new();
    // The kernels would not cut segments otherwise.
    road.left.command("ethtool -K vl tx off");
    road.right.command("ethtool -K vr tx off");
    let work = Work::start(road.open(None));
    let listener = road.right.run(|| TcpListener::bind("10.2.0.2:0").unwrap());
    let address = listener.local_addr().unwrap();
    let sent: Vec<u8> =
        (0..LEN as u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let expected = sent.clone();
    let receiver = thread::spawn(move || {
        let mut received = Vec::new();
        listener.accept().unwrap().0.read_to_end(&mut received).unwrap();
        received
    });
    let mut stream = road.left.run(move || TcpStream::connect(address).unwrap());
    stream.write_all(&sent).unwrap();
    drop(stream);
    assert!(receiver.join().unwrap() == expected);
    work.stop();
}

#[test]
fn what_cannot_go_on_is_dropped_and_counted() {
    if skipped() {
        return;
    }
    let road = Road::new();
    let mut forwarder = road.open(None);
    let client = road.left.run(|| UdpSocket::bind("10.1.0.2:0").unwrap());
    client.set_ttl(1).unwrap();
    for _ in 0..3 {
        client.send_to(b"old", "10.2.0.2:9").unwrap();
    }
    client.set_ttl(64).unwrap();
    for _ in 0..4 {
        client.send_to(b"lost", "10.99.0.1:9").unwrap();
    }
    // Nobody there has this address.
    for _ in 0..5 {
        client.send_to(b"nobody", "10.2.0.77:9").unwrap();
    }
    let end = Instant::now() + PATIENCE;
    loop {
        let counts = forwarder.counts();
        if dropped(&counts, &[Drop::Ttl, Drop::NoRoute, Drop::Unresolved]) == [3, 4, 5] {
            break;
        }
        assert!(Instant::now() < end, "{counts}");
        if forwarder.poll().unwrap() == 0 {
            forwarder.wait(Duration::from_millis(20)).unwrap();
        }
    }
    assert_eq!(forwarder.counts().forwarded, 0);
}

/// A frame of UDP over IPv4 from `from` to the port `to`, for 10.7.0.0/16.
fn packet(from: &Xdp, to: [u8; 6], n: u16, len: usize) -> Vec<u8> {
    let mut frame = vec![n as u8; len];
    frame[..6].copy_from_slice(&to);
    frame[6..12].copy_from_slice(&from.address());
    frame[12..14].copy_from_slice(&[8, 0]);
    let ip = &mut frame[ETHERNET..ETHERNET + 20];
    ip.copy_from_slice(&[0x45, 0, 0, 0, 0, 0, 0, 0, 64, 17, 0, 0, 10, 1, 0, 2, 10, 7, 0, 0]);
    ip[2..4].copy_from_slice(&((len - ETHERNET) as u16).to_be_bytes());
    ip[18..20].copy_from_slice(&n.to_be_bytes());
    let sum: u32 = ip.chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(word[1])).sum();
    let sum = !(((sum & 0xffff) + (sum >> 16)) as u16);
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    frame
}

#[test]
fn devices_at_both_ends_get_what_was_sent_and_nothing_else() {
    if skipped() {
        return;
    }
    let road = Road::new();
    let device = |place: &Place, name: &'static str| {
        place.run(move || open(name, None, &Filter::All).unwrap()).remove(0)
    };
    let (mut left, mut right) = (device(&road.left, "vl"), device(&road.right, "vr"));
    let ports =
        ["pl", "pr"].map(|interface| PortSettings { interface: interface.into(), address: None });
    let mut forwarder = road.middle.run(move || Forwarder::open(&ports, None).unwrap());
    // Many routes, of which one matters; those of 10.0.0.0/8 would be in its way.
    for route in random(16_000, 2, 1).iter().filter(|route| route.prefix.first().octets()[0] != 10)
    {
        forwarder.add(route).unwrap();
    }
    let hop = Hop::Hardware(right.address());
    forwarder.add(&Route { prefix: "10.7.0.0/16".parse().unwrap(), port: 1, hop }).unwrap();
    let hop = Hop::Gateway([10, 2, 0, 2].into());
    let route = Route { prefix: "10.8.0.0/16".parse().unwrap(), port: 1, hop };
    let error = forwarder.add(&route).unwrap_err().to_string();
    assert!(error.contains("address=A/BITS"), "{error}");
    let mac = |place: &Place, name: &str| {
        let line = place.ip(&format!("-o link show {name}"));
        let text = line.split("link/ether ").nth(1).unwrap()[..17].to_owned();
        quaver_net::l3fwd::hardware(&text).unwrap()
    };
    let (to, from) = (mac(&road.middle, "pl"), mac(&road.middle, "pr"));
    let work = Work::start(forwarder);

    let mut sent = 0u16;
    for round in 0..60u16 {
        let lens: Vec<_> =
            (0..100).map(|n| 60 + usize::from(round * 100 + n) * 11 % 1455).collect();
        let frames: Vec<_> =
            lens.iter().zip(sent..).map(|(&len, n)| packet(&left, to, n, len)).collect();
        // Between them what is dropped: not IPv4, cut off, a wrong checksum, to somebody else.
        let mut wrong =
            [frames[0].clone(), frames[0].clone(), frames[0].clone(), frames[0].clone()];
        wrong[0][12] = 0x86;
        wrong[1].truncate(40);
        wrong[2][ETHERNET + 19] ^= 1;
        wrong[3][0] ^= 2;
        for frame in frames.iter().chain(&wrong) {
            send(&mut left, frame);
        }
        left.flush().unwrap();
        let got = receive(&mut right, frames.len());
        for (mut before, after) in frames.into_iter().zip(got) {
            before[..6].copy_from_slice(&right.address());
            before[6..12].copy_from_slice(&from);
            before[ETHERNET + 8] = 63;
            // One less in the upper half of its word: the sum is so much more.
            let sum = u16::from_be_bytes([before[ETHERNET + 10], before[ETHERNET + 11]]);
            let (sum, carry) = sum.overflowing_add(0x100);
            before[ETHERNET + 10..ETHERNET + 12]
                .copy_from_slice(&(sum + u16::from(carry)).to_be_bytes());
            assert!(before == after, "{before:02x?}\n{after:02x?}");
        }
        sent += 100;
    }
    let counts = work.stop().counts();
    assert_eq!((counts.received, counts.forwarded), (60 * 104, 6000), "{counts}");
    let reasons = [Drop::NotIpv4, Drop::TooShort, Drop::Checksum, Drop::NotForPort];
    assert_eq!(dropped(&counts, &reasons), [60; 4], "{counts}");
    assert!(drain(&mut right).is_empty() && drain(&mut left).is_empty());
}

#[test]
fn an_interface_that_is_deleted_ends_it_by_name() {
    if skipped() {
        return;
    }
    let road = Road::new();
    let mut forwarder = road.open(None);
    forwarder.poll().unwrap();
    road.middle.ip("link del pr");
    let error: io::Error = loop {
        let round = forwarder.poll().and_then(|_| forwarder.wait(Duration::from_millis(5)));
        if let Err(error) = round {
            break error;
        }
    };
    assert!(error.to_string().contains("interface pr has gone"), "{error}");
}
