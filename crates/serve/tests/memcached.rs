//! A client of memcached against the server, over sockets.

mod common;

use std::io::{Read, Write};
use std::time::Duration;

use common::{ask, rest};
use quaver_serve::Limits;

#[test]
fn text_commands_answer_as_memcached_does() {
    let running = common::memcached(Limits { value: 1000, ..Limits::default() });
    let mut s = running.connect();
    let large = format!("set k 0 0 1001\r\n{}\r\n", "x".repeat(1001));
    for (request, expected) in [
        ("set k 5 0 3\r\nabc\r\n", "STORED\r\n"),
        ("get k nothing\r\n", "VALUE k 5 3\r\nabc\r\nEND\r\n"),
        ("add k 0 0 1\r\nx\r\n", "NOT_STORED\r\n"),
        ("replace nothing 0 0 1\r\nx\r\n", "NOT_STORED\r\n"),
        ("append k 9 0 2\r\nde\r\n", "STORED\r\n"),
        ("prepend k 9 0 1\r\n_\r\n", "STORED\r\n"),
        ("get k\r\n", "VALUE k 5 6\r\n_abcde\r\nEND\r\n"),
        ("append nothing 0 0 1\r\nx\r\n", "NOT_STORED\r\n"),
        ("cas k 0 0 1 1\r\nx\r\n", "EXISTS\r\n"),
        ("cas nothing 0 0 1 1\r\nx\r\n", "NOT_FOUND\r\n"),
        ("touch k 100\r\n", "TOUCHED\r\n"),
        ("touch nothing 100\r\n", "NOT_FOUND\r\n"),
        ("gat 100 k\r\n", "VALUE k 5 6\r\n_abcde\r\nEND\r\n"),
        ("incr k 1\r\n", "CLIENT_ERROR cannot increment or decrement non-numeric value\r\n"),
        ("incr nothing 1\r\n", "NOT_FOUND\r\n"),
        ("set n 0 0 20\r\n18446744073709551615\r\n", "STORED\r\n"),
        ("incr n 2\r\n", "1\r\n"),
        ("decr n 5\r\n", "0\r\n"),
        ("delete n\r\n", "DELETED\r\n"),
        ("delete n\r\n", "NOT_FOUND\r\n"),
        ("set k 0 0 3\r\nabcd\r\n", "CLIENT_ERROR bad data chunk\r\nERROR\r\n"),
        (&large, "SERVER_ERROR object too large for cache\r\n"),
        ("set k 0 -1 1\r\nx\r\n", "STORED\r\n"),
        ("get k\r\n", "END\r\n"),
        ("verbosity 1\r\n", "OK\r\n"),
        ("nonsense\r\n", "ERROR\r\n"),
        ("set a 0 0 1 noreply\r\nx\r\nget a\r\n", "VALUE a 0 1\r\nx\r\nEND\r\n"),
        ("flush_all 100\r\nget a\r\n", "OK\r\nVALUE a 0 1\r\nx\r\nEND\r\n"),
        ("flush_all\r\nget a\r\n", "OK\r\nEND\r\n"),
        ("stats reset\r\n", "RESET\r\n"),
    ] {
        ask(&mut s, request, expected);
    }
    s.write_all(b"stats\r\nquit\r\n").unwrap();
    let stats = String::from_utf8(rest(&mut s)).unwrap();
    assert!(stats.contains("STAT curr_items 0\r\n") && stats.ends_with("END\r\n"), "{stats}");
}

#[test]
fn a_version_lets_one_writer_win() {
    let running = common::memcached(Limits::default());
    let mut s = running.connect();
    ask(&mut s, "set k 0 0 1\r\nx\r\n", "STORED\r\n");
    s.write_all(b"gets k\r\n").unwrap();
    let mut reply = Vec::new();
    while !reply.ends_with(b"END\r\n") {
        let mut byte = [0];
        s.read_exact(&mut byte).unwrap();
        reply.push(byte[0]);
    }
    let reply = String::from_utf8(reply).unwrap();
    let version = reply.lines().next().unwrap().rsplit(' ').next().unwrap();
    ask(&mut s, &format!("cas k 0 0 1 {version}\r\ny\r\n"), "STORED\r\n");
    ask(&mut s, &format!("cas k 0 0 1 {version}\r\nz\r\n"), "EXISTS\r\n");
    ask(&mut s, "get k\r\n", "VALUE k 0 1\r\ny\r\nEND\r\n");
}

#[test]
fn a_delayed_flush_comes_when_it_is_due() {
    let running = common::memcached(Limits::default());
    let mut s = running.connect();
    ask(&mut s, "set k 0 0 1\r\nx\r\n", "STORED\r\n");
    ask(&mut s, "flush_all 1\r\n", "OK\r\n");
    std::thread::sleep(Duration::from_millis(1050));
    ask(&mut s, "get k\r\n", "END\r\n");
    ask(&mut s, "set k 0 0 1\r\nx\r\n", "STORED\r\n");
    ask(&mut s, "get k\r\n", "VALUE k 0 1\r\nx\r\nEND\r\n");
}

/// A binary request.
fn binary(opcode: u8, extras: &[u8], key: &[u8], value: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0x80, opcode];
    bytes.extend((key.len() as u16).to_be_bytes());
    bytes.extend([extras.len() as u8, 0, 0, 0]);
    bytes.extend(((extras.len() + key.len() + value.len()) as u32).to_be_bytes());
    bytes.extend([0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0]);
    [bytes, extras.to_vec(), key.to_vec(), value.to_vec()].concat()
}

/// Code, status and value (without extras and key) of a response.
fn response(s: &mut std::net::TcpStream) -> (u8, u16, Vec<u8>) {
    let mut header = [0; 24];
    s.read_exact(&mut header).unwrap();
    assert_eq!((header[0], &header[12..16]), (0x81, &[0, 0, 0, 9][..]));
    let lengths = usize::from(header[4]) + usize::from(u16::from_be_bytes([header[2], header[3]]));
    let mut body = vec![0; u32::from_be_bytes(header[8..12].try_into().unwrap()) as usize];
    s.read_exact(&mut body).unwrap();
    (header[1], u16::from_be_bytes([header[6], header[7]]), body.split_off(lengths))
}

#[test]
fn binary_commands_answer_as_memcached_does() {
    let running = common::memcached(Limits { value: 1000, ..Limits::default() });
    let mut s = running.connect();
    let counter = |amount: u64, initial: u64, expiry: u32| {
        [&amount.to_be_bytes()[..], &initial.to_be_bytes(), &expiry.to_be_bytes()].concat()
    };
    let large = vec![0; 2000];
    for (request, expected) in [
        (binary(0x01, &[0; 8], b"k", b"abc"), Some((0x01, 0, b"".to_vec()))),
        (binary(0x00, b"", b"k", b""), Some((0x00, 0, b"abc".to_vec()))),
        (binary(0x00, b"", b"x", b""), Some((0x00, 1, b"Not found".to_vec()))),
        (binary(0x09, b"", b"x", b""), None),
        (binary(0x11, &[0; 8], b"q", b"quiet"), None),
        (binary(0x0c, b"", b"q", b""), Some((0x0c, 0, b"quiet".to_vec()))),
        (binary(0x12, &[0; 8], b"q", b"x"), Some((0x12, 2, b"Data exists for key.".to_vec()))),
        (binary(0x0e, b"", b"k", b"d"), Some((0x0e, 0, b"".to_vec()))),
        (binary(0x0f, b"", b"k", b"_"), Some((0x0f, 0, b"".to_vec()))),
        (binary(0x1d, &[0; 4], b"k", b""), Some((0x1d, 0, b"_abcd".to_vec()))),
        (binary(0x0e, b"", b"x", b"d"), Some((0x0e, 5, b"Not stored.".to_vec()))),
        (binary(0x05, &counter(1, 7, u32::MAX), b"n", b""), Some((0x05, 1, b"Not found".to_vec()))),
        (binary(0x05, &counter(1, 7, 0), b"n", b""), Some((0x05, 0, 7_u64.to_be_bytes().into()))),
        (binary(0x06, &counter(9, 0, 0), b"n", b""), Some((0x06, 0, 0_u64.to_be_bytes().into()))),
        (binary(0x01, &[0; 8], b"k", &large), Some((0x01, 3, b"Too large.".to_vec()))),
        (binary(0x04, b"", b"k", b""), Some((0x04, 0, b"".to_vec()))),
        (binary(0x55, b"", b"", b""), Some((0x55, 0x81, b"Unknown command".to_vec()))),
        (binary(0x0b, b"", b"", b""), Some((0x0b, 0, env!("CARGO_PKG_VERSION").into()))),
    ] {
        s.write_all(&request).unwrap();
        s.write_all(&binary(0x0a, b"", b"", b"")).unwrap();
        if let Some(expected) = expected {
            assert_eq!(response(&mut s), expected);
        }
        assert_eq!(response(&mut s), (0x0a, 0, vec![]));
    }
    s.write_all(&binary(0x07, b"", b"", b"")).unwrap();
    assert_eq!(response(&mut s), (0x07, 0, vec![]));
    assert_eq!(rest(&mut s), b"");
}
