//! Echoes of 64 bytes over a wire in memory, for tools that count instructions:
//!
//! ```text
//! cargo build --profile fast -p quaver-net --example echo_cost
//! valgrind --tool=callgrind target/fast/examples/echo_cost CONNECTIONS ROUNDS
//! ```
//!
//! The difference between two numbers of rounds, divided by that of the messages, is what both ends
//! need for a message, with the wire. Clients write all their questions before the server looks, as
//! at a high load.

use quaver::net::stack::{Kind, Readiness, Socket, Stack};
use quaver_net::clock::Clock;
use quaver_net::device::Device;
use quaver_net::memory::Wire;
use quaver_net::{Net, Shared};
use std::io::{self, IoSlice, IoSliceMut};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

const SIZE: usize = 64;

/// The two stacks, until nothing moves any more.
fn settle(a: &Net, b: &Net) {
    while a.turn() | b.turn() {}
}

fn wanted(result: io::Result<usize>) {
    assert_eq!(result.expect("there is room, and something to receive"), SIZE);
}

fn receive(socket: &dyn Socket) -> io::Result<usize> {
    let mut room = [0; SIZE];
    socket.receive(&mut [IoSliceMut::new(&mut room)], false).map(|got| got.len)
}

fn send(socket: &dyn Socket) -> io::Result<usize> {
    socket.send(&[IoSlice::new(&[7; SIZE])], None)
}

fn main() {
    let mut numbers = std::env::args().skip(1).map(|text| text.parse().expect("a number"));
    let (connections, rounds) = (numbers.next().unwrap_or(256), numbers.next().unwrap_or(10));
    let clock = Clock::simulated();
    let wire = Wire { capacity: 1 << 20, ..Wire::new(clock.clone()) };
    let (a, b) = wire.connect().expect("two descriptors");
    let net = |ip: [u8; 4], devices: Vec<_>| {
        let devices = devices.into_iter().map(|device| Box::new(device) as Box<dyn Device>);
        let builder = Net::builder(Ipv4Addr::from(ip), 24).devices(devices).clock(clock.clone());
        builder.buffers(8192, 8192).build().expect("a stack")
    };
    let (a, b) = (net([10, 0, 0, 1], a), net([10, 0, 0, 2], b));
    let stream = |net: &Arc<Net>| Shared::from(net.clone()).socket(Kind::Stream).expect("a socket");
    let at = SocketAddr::from(([10, 0, 0, 2], 7));
    let listener = stream(&b);
    listener.bind(at).expect("the port is free");
    listener.listen(4096).expect("it is bound");
    let mut pairs = Vec::new();
    for _ in 0..connections {
        let client = stream(&a);
        // It says that it is under way.
        let _ = client.connect(at);
        settle(&a, &b);
        let (server, _) = listener.accept().expect("it is connected");
        pairs.push((client, server));
    }
    for _ in 0..rounds {
        for (client, _) in &pairs {
            wanted(send(&**client));
        }
        settle(&a, &b);
        for (_, server) in &pairs {
            assert!(server.readiness().contains(Readiness::READABLE));
            wanted(receive(&**server));
            wanted(send(&**server));
            assert!(receive(&**server).is_err());
        }
        settle(&a, &b);
        for (client, _) in &pairs {
            wanted(receive(&**client));
        }
        clock.advance(Duration::from_micros(500));
    }
    println!("{} messages, {:?}", connections * rounds, b.stats());
}
