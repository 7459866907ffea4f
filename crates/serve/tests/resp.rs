//! A client of Redis against the server, over sockets.

mod common;

use std::io::{Read, Write};
use std::sync::Arc;
use std::time::Duration;

use common::{ask, rest};
use quaver_serve::limits::{Budget, Limits};
use quaver_serve::store::Item;

#[test]
fn commands_answer_as_redis_does() {
    let running = common::resp(Limits::default());
    let mut s = running.connect();
    for (request, expected) in [
        ("PING\r\n", "+PONG\r\n"),
        ("PING hello\r\n", "$5\r\nhello\r\n"),
        ("ECHO hello\r\n", "$5\r\nhello\r\n"),
        ("SET k v\r\n", "+OK\r\n"),
        ("GET k\r\n", "$1\r\nv\r\n"),
        ("GET nothing\r\n", "$-1\r\n"),
        ("SET k w NX\r\n", "$-1\r\n"),
        ("SET k w XX GET\r\n", "$1\r\nv\r\n"),
        ("SET other w XX\r\n", "$-1\r\n"),
        ("SET k v EX 0\r\n", "-ERR invalid expire time in 'set' command\r\n"),
        ("SET k v EX 10 PX 10\r\n", "-ERR syntax error\r\n"),
        ("SET k v NX XX\r\n", "-ERR syntax error\r\n"),
        ("SET k v EX 100\r\n", "+OK\r\n"),
        ("TTL k\r\n", ":100\r\n"),
        ("PERSIST k\r\n", ":1\r\n"),
        ("TTL k\r\n", ":-1\r\n"),
        ("TTL nothing\r\n", ":-2\r\n"),
        ("EXPIRE k 1000\r\n", ":1\r\n"),
        ("SET k v KEEPTTL\r\n", "+OK\r\n"),
        ("TTL k\r\n", ":1000\r\n"),
        ("EXPIRE k 0\r\n", ":1\r\n"),
        ("EXISTS k\r\n", ":0\r\n"),
        ("SETNX k v\r\n", ":1\r\n"),
        ("SETNX k w\r\n", ":0\r\n"),
        ("APPEND k w\r\n", ":2\r\n"),
        ("STRLEN k\r\n", ":2\r\n"),
        ("GETSET k x\r\n", "$2\r\nvw\r\n"),
        ("TYPE k\r\n", "+string\r\n"),
        ("GETDEL k\r\n", "$1\r\nx\r\n"),
        ("TYPE k\r\n", "+none\r\n"),
        ("INCR n\r\n", ":1\r\n"),
        ("INCRBY n 9\r\n", ":10\r\n"),
        ("DECR n\r\n", ":9\r\n"),
        ("DECRBY n 10\r\n", ":-1\r\n"),
        ("SET n 9223372036854775807\r\n", "+OK\r\n"),
        ("INCR n\r\n", "-ERR increment or decrement would overflow\r\n"),
        ("SET n x\r\n", "+OK\r\n"),
        ("INCR n\r\n", "-ERR value is not an integer or out of range\r\n"),
        ("MSET a 1 b 2\r\n", "+OK\r\n"),
        ("MSET a 1 b\r\n", "-ERR wrong number of arguments for 'mset' command\r\n"),
        ("MGET a b c\r\n", "*3\r\n$1\r\n1\r\n$1\r\n2\r\n$-1\r\n"),
        ("DBSIZE\r\n", ":3\r\n"),
        ("RANGE a 2\r\n", "*4\r\n$1\r\na\r\n$1\r\n1\r\n$1\r\nb\r\n$1\r\n2\r\n"),
        ("RANGE a -2\r\n", "-ERR value is not an integer or out of range\r\n"),
        ("DEL a b c\r\n", ":2\r\n"),
        ("SELECT 0\r\n", "+OK\r\n"),
        ("SELECT 1\r\n", "-ERR DB index is out of range\r\n"),
        ("GET\r\n", "-ERR wrong number of arguments for 'get' command\r\n"),
        ("FROB a b\r\n", "-ERR unknown command 'FROB', with args beginning with: 'a' 'b' \r\n"),
        ("CONFIG GET appendonly\r\n", "*2\r\n$10\r\nappendonly\r\n$2\r\nno\r\n"),
        ("CLIENT SETNAME me\r\n", "+OK\r\n"),
        ("CLIENT GETNAME\r\n", "$2\r\nme\r\n"),
        ("CLIENT KILL all\r\n", "-ERR unknown subcommand 'KILL'\r\n"),
        ("HELLO 4\r\n", "-NOPROTO unsupported protocol version\r\n"),
        ("FLUSHALL\r\n", "+OK\r\n"),
        ("DBSIZE\r\n", ":0\r\n"),
        ("QUIT\r\n", "+OK\r\n"),
    ] {
        ask(&mut s, request, expected);
    }
    assert_eq!(rest(&mut s), b"");
}

#[test]
fn version_three_has_its_own_nothing_and_maps() {
    let running = common::resp(Limits::default());
    let mut s = running.connect();
    s.write_all(b"HELLO 3\r\n").unwrap();
    let mut header = [0; 4];
    s.read_exact(&mut header).unwrap();
    assert_eq!(&header, b"%6\r\n");
    s.write_all(b"GET nothing\r\nCONFIG GET save\r\n").unwrap();
    let expected = "_\r\n%1\r\n$4\r\nsave\r\n$0\r\n\r\n";
    s.shutdown(std::net::Shutdown::Write).unwrap();
    let reply = String::from_utf8(rest(&mut s)).unwrap();
    assert!(reply.ends_with(expected), "{reply:?}");
}

#[test]
fn a_time_to_live_ends() {
    let running = common::resp(Limits::default());
    let mut s = running.connect();
    ask(&mut s, "SET k v PX 30\r\n", "+OK\r\n");
    std::thread::sleep(Duration::from_millis(40));
    ask(&mut s, "GET k\r\n", "$-1\r\n");
    ask(&mut s, "INCR k\r\n", ":1\r\n");
}

#[test]
fn an_iteration_meets_every_key_once() {
    let running = common::resp(Limits::default());
    let mut s = running.connect();
    for key in 0..57 {
        ask(&mut s, &format!("SET key:{key:02} v\r\n"), "+OK\r\n");
    }
    let (mut cursor, mut seen) = ("0".to_owned(), Vec::new());
    loop {
        s.write_all(format!("SCAN {cursor} COUNT 7 MATCH key:*\r\nPING end\r\n").as_bytes())
            .unwrap();
        let mut reply = Vec::new();
        while !reply.ends_with(b"$3\r\nend\r\n") {
            let mut byte = [0];
            s.read_exact(&mut byte).unwrap();
            reply.push(byte[0]);
        }
        let text = String::from_utf8(reply).unwrap();
        let words: Vec<&str> = text.lines().filter(|line| !line.starts_with(['$', '*'])).collect();
        cursor = words[0].to_owned();
        seen.extend(words[1..words.len() - 1].iter().map(|key| (*key).to_owned()));
        if cursor == "0" {
            break;
        }
    }
    let expected: Vec<String> = (0..57).map(|key| format!("key:{key:02}")).collect();
    assert_eq!(seen, expected);
    ask(&mut s, "SCAN 99999\r\n", "-ERR invalid cursor\r\n");
}

#[test]
fn an_iteration_takes_no_more_memory_than_there_is() {
    // Room for what is free anyway: keys of 20,000 bytes, twice, with their lengths.
    let buffers = Arc::new(Budget::new(0));
    let running = common::resp(Limits { buffers, ..Limits::default() });
    let long = "x".repeat(19_990);
    for number in 0..10 {
        let key = format!("{long}{number:010}");
        running.service.store.set(key.as_bytes(), Item::new("v")).unwrap();
    }
    let mut s = running.connect();
    let (mut cursor, mut found, mut steps) = (0, 0, 0);
    loop {
        s.write_all(format!("SCAN {cursor} COUNT 1000\r\nPING end\r\n").as_bytes()).unwrap();
        let mut text = Vec::new();
        while !text.ends_with(b"$3\r\nend\r\n") {
            let mut bytes = [0; 4096];
            let n = s.read(&mut bytes).unwrap();
            text.extend_from_slice(&bytes[..n]);
        }
        let text = String::from_utf8(text).unwrap();
        let lines: Vec<&str> = text.split("\r\n").collect();
        cursor = lines[2].parse().unwrap();
        found += lines.iter().filter(|line| line.starts_with('x')).count();
        steps += 1;
        if cursor == 0 {
            break;
        }
    }
    assert_eq!((found, steps), (10, 10));
}

#[test]
fn requests_sent_together_are_answered_in_order() {
    let running = common::resp(Limits::default());
    let mut s = running.connect();
    let requests: String = (0..5_000).map(|i| format!("ECHO {i}\r\n")).collect();
    let sender = std::thread::spawn({
        let mut s = s.try_clone().unwrap();
        move || {
            s.write_all(requests.as_bytes()).unwrap();
            s.shutdown(std::net::Shutdown::Write).unwrap();
        }
    });
    let replies = String::from_utf8(rest(&mut s)).unwrap();
    sender.join().unwrap();
    let numbers = replies.lines().skip(1).step_by(2).map(|line| line.parse::<usize>().unwrap());
    assert!(numbers.eq(0..5_000));
}

#[test]
fn counters_of_many_connections_add_up() {
    let running = common::resp(Limits::default());
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let mut s = running.connect();
                let requests = "INCR n\r\n".repeat(50);
                s.write_all(requests.as_bytes()).unwrap();
                s.shutdown(std::net::Shutdown::Write).unwrap();
                assert_eq!(rest(&mut s).iter().filter(|byte| **byte == b':').count(), 50);
            });
        }
    });
    ask(&mut running.connect(), "GET n\r\n", "$3\r\n400\r\n");
}

#[test]
fn large_values_travel_and_larger_ones_are_refused() {
    let limits = Limits { value: 1 << 20, ..Limits::default() };
    let running = common::resp(limits);
    let mut s = running.connect();
    let value = "x".repeat(1 << 20);
    let set = format!("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n${}\r\n{value}\r\n", value.len());
    ask(&mut s, &set, "+OK\r\n");
    ask(&mut s, "GET k\r\n", &format!("${}\r\n{value}\r\n", value.len()));
    ask(&mut s, "APPEND k y\r\n", "-ERR string exceeds maximum allowed size (1048576 bytes)\r\n");
    let mget = format!("MGET {}\r\n", "k ".repeat(5));
    ask(&mut s, &mget, "-ERR the reply is too long, or no memory is left for it; ask for less\r\n");
    ask(
        &mut s,
        "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1048577\r\n",
        "-ERR Protocol error: invalid bulk length\r\n",
    );
    assert_eq!(rest(&mut s), b"");
}

#[test]
fn a_range_can_be_read_by_its_digest() {
    let running = common::resp(Limits { rows: 1000, ..Limits::default() });
    quaver_serve::store::fill(running.service.store.as_ref(), 100, 16, &|| true).unwrap();
    let mut s = running.connect();
    let digest = |s: &mut std::net::TcpStream, request: &str| {
        s.write_all(request.as_bytes()).unwrap();
        let mut reply = [0; 64];
        let mut length = 0;
        while reply[..length].iter().filter(|byte| **byte == b'\n').count() < 3 {
            length += s.read(&mut reply[length..]).unwrap();
        }
        String::from_utf8(reply[..length].to_vec()).unwrap()
    };
    let all = digest(&mut s, "RANGE key 1000 DIGEST\r\n");
    assert!(all.starts_with("*2\r\n:100\r\n:"), "{all}");
    assert_eq!(all, digest(&mut s, "RANGE key 1000 DIGEST\r\n"));
    let fewer = digest(&mut s, "RANGE key:000000000050 1000 DIGEST\r\n");
    assert!(fewer.starts_with("*2\r\n:50\r\n:"), "{fewer}");
    ask(&mut s, "RANGE key 1001 DIGEST\r\n", "-ERR the count is above 1000; ask for less\r\n");
}
