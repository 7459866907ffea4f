//! Stacks that user threads drive, in real time.

mod common;

use common::live::Waiting;
use common::{A, B, at, errno};
use quaver::net::stack::Kind;
use quaver_net::clock::Clock;
use quaver_net::device::Device;
use quaver_net::memory::{Faults, Wire};
use quaver_net::{Net, Running};
use std::net::Ipv4Addr;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// There is one runtime in a process at a time.
static ONE: Mutex<()> = Mutex::new(());

/// Two stacks, in a runtime of two workers.
fn with_pair(queues: usize, faults: Faults, body: impl FnOnce(&Running, &Running) + Send) {
    let _one = ONE.lock().unwrap_or_else(|e| e.into_inner());
    let runtime = quaver::Builder::new().workers(2).build().unwrap();
    runtime.run(|| {
        let handle = quaver::Handle::current().unwrap();
        let wire = Wire { queues, faults, seed: 7, ..Wire::new(Clock::real()) };
        let (a, b) = wire.connect().unwrap();
        let start = |address: Ipv4Addr, devices: Vec<_>| {
            Net::builder(address, 24)
                .devices(devices.into_iter().map(|device| Box::new(device) as Box<dyn Device>))
                .start(&handle)
                .unwrap()
        };
        let (a, b) = (start(A, a), start(B, b));
        body(&a, &b);
        a.stop();
        b.stop();
    });
}

/// Bytes that say where they are.
fn pattern(from: usize, len: usize) -> Vec<u8> {
    (from..from + len).map(|i| (i as u32).wrapping_mul(2_654_435_761).to_be_bytes()[0]).collect()
}

fn bulk(a: &Running, b: &Running, bytes: usize) {
    let listener = Waiting::listen(&*b.stack(), at(B, 80), 8);
    let server = quaver::spawn(move || {
        let connection = listener.accept().unwrap();
        let got = connection.read_to_end().unwrap();
        connection.write_all(&got).unwrap();
        connection.shutdown();
        got.len()
    });
    let client = Waiting::stream(&*a.stack());
    client.connect(at(B, 80)).unwrap();
    let client = std::sync::Arc::new(client);
    let data = pattern(0, bytes);
    client.write_all(&data).unwrap();
    client.shutdown();
    assert!(client.read_to_end().unwrap() == data);
    assert_eq!(server.join().unwrap(), bytes);
}

#[test]
fn bulk_both_ways() {
    with_pair(1, Faults::default(), |a, b| bulk(a, b, 4 << 20));
}

#[test]
fn bulk_over_a_bad_wire() {
    let faults = Faults {
        loss: 0.01,
        duplication: 0.01,
        reordering: 0.01,
        corruption: 0.001,
        ..Faults::default()
    };
    with_pair(1, faults, |a, b| bulk(a, b, 200 << 10));
}

#[test]
fn echoes_of_many_over_several_queues() {
    with_pair(3, Faults::default(), |a, b| {
        let listener = Waiting::listen(&*b.stack(), at(B, 80), 1000);
        quaver::spawn_detached(move || {
            while let Ok(connection) = listener.accept() {
                quaver::spawn_detached(move || {
                    let mut buffer = [0; 64];
                    while let Ok(n @ 1..) = connection.read(&mut buffer) {
                        connection.write_all(&buffer[..n]).unwrap();
                    }
                });
            }
        });
        quaver::scope(|s| {
            for i in 0..200u32 {
                let stack = a.stack();
                s.spawn(move || {
                    let client = Waiting::stream(&*stack);
                    client.connect(at(B, 80)).unwrap();
                    for j in 0..20u32 {
                        let message = (i * 1000 + j).to_be_bytes();
                        client.write_all(&message).unwrap();
                        let mut answer = [0; 4];
                        client.read_exact(&mut answer).unwrap();
                        assert_eq!(answer, message);
                    }
                });
            }
        });
        assert_eq!(b.net().stats().accepted, 200);
    });
}

#[test]
fn an_earlier_timer_of_a_sender_is_kept() {
    with_pair(1, Faults { loss: 1.0, ..Faults::default() }, |a, _| {
        // The keeper sleeps without a limit. Nobody answers: the neighbour is asked for three
        // times, a second apart.
        quaver::sleep(Duration::from_millis(20));
        let client = Waiting::stream(&*a.stack());
        let start = Instant::now();
        let failed = errno(client.connect(at(B, 9)));
        assert_eq!(failed, libc::EHOSTUNREACH);
        assert!(start.elapsed() >= Duration::from_millis(2900), "{:?}", start.elapsed());
    });
}

#[test]
fn a_stack_that_is_stopped_ends_its_sockets() {
    with_pair(1, Faults::default(), |a, b| {
        let listener = Waiting::listen(&*b.stack(), at(B, 80), 8);
        let client = Waiting::stream(&*a.stack());
        client.connect(at(B, 80)).unwrap();
        let server = listener.accept().unwrap();
        let waits = quaver::spawn(move || errno(server.read(&mut [0])));
        quaver::yield_now();
        b.net().stop();
        assert_eq!(waits.join().unwrap(), libc::ENETDOWN);
        assert_eq!(errno(listener.accept()), libc::ENETDOWN);
        assert_eq!(errno(b.stack().socket(Kind::Stream)), libc::ENETDOWN);
    });
}
