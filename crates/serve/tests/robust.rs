//! Clients that send nonsense, too much, too little, or nothing: the server goes on.

mod common;

use std::io::{Read, Write};
use std::net::Shutdown;
use std::sync::Arc;
use std::time::{Duration, Instant};

use common::{PATIENCE, ask, rest};
use quaver_serve::limits::{Budget, Limits};

/// Reproducible noise.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn bytes(&mut self, most: u64) -> Vec<u8> {
        let length = self.next() % most;
        (0..length).map(|_| self.next() as u8).collect()
    }
}

fn throw_noise(running: &common::Running, begin: &[&[u8]]) {
    std::thread::scope(|scope| {
        for client in 0..4 {
            scope.spawn(move || {
                let mut noise = Noise(0x9e37_79b9_7f4a_7c15 ^ client);
                for round in 0..25 {
                    let mut s = running.connect();
                    // The server may close first.
                    let _ = s.write_all(begin[round % begin.len()]);
                    let _ = s.write_all(&noise.bytes(3000));
                    match noise.next() % 3 {
                        0 => drop(s),
                        1 => {
                            let _ = s.shutdown(Shutdown::Write);
                            rest(&mut s);
                        }
                        _ => {
                            let _ = s.shutdown(Shutdown::Read);
                            let _ = s.write_all(&noise.bytes(3000));
                        }
                    }
                }
            });
        }
    });
    running.wait_for_connections(0);
}

#[test]
fn noise_kills_no_server_of_resp() {
    let running = common::resp(Limits::default());
    throw_noise(&running, &[b"", b"*", b"*3\r\n$3\r\nSET\r\n$", b"GET ", b"*2\r\n$3\r\nGET\r\n"]);
    ask(&mut running.connect(), "PING\r\n", "+PONG\r\n");
}

#[test]
fn noise_kills_no_server_of_memcached() {
    let running = common::memcached(Limits::default());
    let header = [0x80, 1, 0, 4, 8, 0, 0, 0, 0, 0, 0, 200];
    throw_noise(&running, &[b"", b"set k 0 0 5000\r\n", b"get ", &header, b"\x80"]);
    ask(&mut running.connect(), "verbosity 1\r\n", "OK\r\n");
}

#[test]
fn more_clients_than_may_be_are_told_so() {
    let running = common::resp(Limits { connections: 2, ..Limits::default() });
    let mut first = running.connect();
    let mut second = running.connect();
    ask(&mut first, "PING\r\n", "+PONG\r\n");
    ask(&mut second, "PING\r\n", "+PONG\r\n");
    let mut third = running.connect();
    assert_eq!(rest(&mut third), b"-ERR max number of clients reached\r\n");
    drop(second);
    running.wait_for_connections(1);
    ask(&mut running.connect(), "PING\r\n", "+PONG\r\n");
}

#[test]
fn a_client_that_says_nothing_is_let_go() {
    let idle = Some(Duration::from_millis(50));
    let running = common::resp(Limits { idle, ..Limits::default() });
    let mut silent = running.connect();
    let mut half = running.connect();
    half.write_all(b"*2\r\n$3\r\nGET\r\n").unwrap();
    assert_eq!(rest(&mut silent), b"");
    assert_eq!(rest(&mut half), b"");
    running.wait_for_connections(0);
}

#[test]
fn a_client_that_takes_no_replies_is_let_go() {
    let write = Duration::from_millis(100);
    let running = common::resp(Limits { write, ..Limits::default() });
    let mut s = running.connect();
    let value = "x".repeat(1 << 20);
    let set = format!("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n${}\r\n{value}\r\n", value.len());
    ask(&mut s, &set, "+OK\r\n");
    // Far more than the buffers of both kernels hold.
    s.write_all("GET k\r\n".repeat(100).as_bytes()).unwrap();
    running.wait_for_connections(0);
}

#[test]
fn memory_for_requests_is_shared_and_bounded() {
    let buffers = Arc::new(Budget::new(1 << 20));
    let limits = Limits { buffers: Arc::clone(&buffers), value: 1 << 20, ..Limits::default() };
    let running = common::resp(limits);
    let half = format!("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1000000\r\n{}", "x".repeat(900_000));
    let mut first = running.connect();
    first.write_all(half.as_bytes()).unwrap();
    let until = Instant::now() + PATIENCE;
    while buffers.left() > 1 << 18 {
        assert!(Instant::now() < until);
        std::thread::sleep(Duration::from_millis(1));
    }
    let mut second = running.connect();
    // The server may close while this is written.
    let _ = second.write_all(half.as_bytes());
    let _ = second.shutdown(Shutdown::Write);
    assert_eq!(rest(&mut second), b"-ERR no memory is left for this client\r\n");
    ask(&mut running.connect(), "PING\r\n", "+PONG\r\n");
    first.write_all("x".repeat(100_000).as_bytes()).unwrap();
    ask(&mut first, "\r\n", "+OK\r\n");
}

#[test]
fn what_has_arrived_is_answered_before_the_end() {
    let mut running = common::resp(Limits::default());
    let mut clients: Vec<_> = (0..10).map(|_| running.connect()).collect();
    for s in &mut clients {
        ask(s, "PING\r\n", "+PONG\r\n");
        s.write_all("INCR n\r\n".repeat(20).as_bytes()).unwrap();
    }
    assert_eq!(running.stop(), 0);
    for s in &mut clients {
        assert_eq!(rest(s).iter().filter(|byte| **byte == b':').count(), 20);
    }
    let counted = running.service.store.get(b"n").unwrap().unwrap();
    assert_eq!(counted.value, b"200");
    assert!(std::net::TcpStream::connect(running.address()).is_err());
}

#[test]
fn a_client_that_does_not_end_is_cut_off() {
    let grace = Duration::from_millis(100);
    let mut running = common::resp(Limits { grace, ..Limits::default() });
    let mut s = running.connect();
    let value = "x".repeat(1 << 20);
    let set = format!("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n${}\r\n{value}\r\n", value.len());
    ask(&mut s, &set, "+OK\r\n");
    s.write_all("GET k\r\n".repeat(100).as_bytes()).unwrap();
    // Wait until it stands in the middle of a reply.
    let mut byte = [0];
    s.read_exact(&mut byte).unwrap();
    assert_eq!(running.stop(), 0);
}

#[test]
fn an_address_in_use_is_an_error() {
    let running = common::resp(Limits::default());
    let taken = quaver_serve::TcpServer::bind(running.address(), Limits::default());
    assert_eq!(taken.err().unwrap().kind(), std::io::ErrorKind::AddrInUse);
}
