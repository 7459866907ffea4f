//! Parsers, with what clients send, with arbitrary cuts, and with anything at all.

use std::sync::Arc;

use proptest::collection::vec;
use proptest::prelude::*;
use quaver_serve::memcached::{binary, text};
use quaver_serve::resp::request::{Malformed, Parser, RequestLimits, Step};
use quaver_serve::store::{Item, Store, memory::Memory};
use quaver_serve::{Limits, Protocol, Served, Service, memcached, resp};
use redis_protocol::resp2::decode::decode;
use redis_protocol::resp2::encode::encode;
use redis_protocol::resp2::types::{OwnedFrame, Resp2Frame};

const LIMITS: RequestLimits = RequestLimits { words: 1000, word: 10_000, request: 100_000 };

/// A request as another library writes it.
fn encoded(words: &[Vec<u8>]) -> Vec<u8> {
    let words = words.iter().map(|word| OwnedFrame::BulkString(word.clone())).collect();
    let frame = OwnedFrame::Array(words);
    let mut bytes = vec![0; frame.encode_len(false)];
    let length = encode(&mut bytes, &frame, false).unwrap();
    bytes.truncate(length);
    bytes
}

/// All requests of `input`, which arrives in these parts.
fn requests(parser: &mut Parser, parts: &[&[u8]]) -> Result<Vec<Vec<Vec<u8>>>, Malformed> {
    let (mut buffer, mut found) = (Vec::new(), Vec::new());
    for part in parts {
        buffer.extend_from_slice(part);
        while let Step::Request(used) = parser.step(&buffer)? {
            found.push(parser.words(&buffer).from(0).map(<[u8]>::to_vec).collect());
            buffer.drain(..used);
        }
    }
    Ok(found)
}

fn service() -> Arc<Service> {
    let store = Memory::new(1 << 20);
    store.set(b"key", Item::new(*b"5")).unwrap();
    let limits = Limits { value: 4096, words: 64, rows: 100, ..Limits::default() };
    Arc::new(Service::new(Arc::new(store), limits))
}

/// Feeds a connection as a socket would. How much was left unused at the end.
fn feed(protocol: &mut impl Protocol, input: &[u8], cut: usize) -> (usize, Vec<u8>) {
    let (mut buffer, mut output) = (Vec::new(), Vec::new());
    for part in input.chunks(cut.max(1)) {
        buffer.extend_from_slice(part);
        loop {
            match protocol.serve(&buffer, &mut output) {
                Served::More => break,
                Served::Request(used) => {
                    assert!(used > 0 && used <= buffer.len());
                    buffer.drain(..used);
                }
                Served::Last(used) => {
                    assert!(used <= buffer.len());
                    return (buffer.len() - used, output);
                }
            }
        }
    }
    (buffer.len(), output)
}

/// How many replies of RESP there are; all must be whole.
fn replies(mut bytes: &[u8]) -> usize {
    let mut count = 0;
    while !bytes.is_empty() {
        let (_, used) = decode(bytes).unwrap().expect("a reply is whole");
        bytes = &bytes[used..];
        count += 1;
    }
    count
}

#[test]
fn inline_requests_are_words() {
    for (line, expected) in [
        ("PING\r\n", vec!["PING"]),
        ("  set  a   b \n", vec!["set", "a", "b"]),
        ("\r\n", vec![]),
        ("set k \"a b\\n\\x41\\\"\"\r\n", vec!["set", "k", "a b\nA\""]),
        ("set k 'a \\'b\\n'\r\n", vec!["set", "k", "a 'b\\n"]),
        ("get \"\"\r\n", vec!["get", ""]),
    ] {
        let found = requests(&mut Parser::new(LIMITS), &[line.as_bytes()]).unwrap();
        let expected: Vec<Vec<u8>> = expected.iter().map(|word| word.as_bytes().to_vec()).collect();
        assert_eq!(found, [expected], "{line}");
    }
}

#[test]
fn what_is_no_request_is_called_by_its_name() {
    let long = format!("*1\r\n${}\r\n", LIMITS.word + 1);
    let many = format!("*{}\r\n", LIMITS.words + 1);
    let line = "x".repeat(70_000);
    for (bytes, expected) in [
        ("*x\r\n", Malformed::Words),
        (&many, Malformed::Words),
        ("*99999999999999999999\r\n", Malformed::Words),
        ("*1\r\n:5\r\n", Malformed::NoLength(b':')),
        ("*1\r\n$-1\r\n", Malformed::Length),
        ("*1\r\n$x\r\n", Malformed::Length),
        (&long, Malformed::Length),
        ("*1\r\n$1\r\nabc", Malformed::NoEnd),
        ("*1111111111111111111111111", Malformed::LengthLine),
        ("set \"a\r\n", Malformed::Quotes),
        ("set \"a\"b\r\n", Malformed::Quotes),
        (&line, Malformed::Line),
    ] {
        let found = requests(&mut Parser::new(LIMITS), &[bytes.as_bytes()]);
        assert_eq!(found, Err(expected), "{bytes:.30}");
    }
    let words = vec![vec![b'x'; LIMITS.word]; 11];
    let found = requests(&mut Parser::new(LIMITS), &[&encoded(&words)]);
    assert_eq!(found, Err(Malformed::Request));
}

#[test]
fn an_empty_array_asks_for_nothing() {
    for bytes in ["*0\r\n", "*-1\r\n"] {
        let (left, output) = feed(&mut resp::Connection::new(service()), bytes.as_bytes(), 100);
        assert_eq!((left, output), (0, vec![]));
    }
}

proptest! {
    #[test]
    fn requests_survive_any_cut(
        all in vec(vec(vec(any::<u8>(), 0..50), 1..8), 1..6),
        cuts in vec(0..2000_usize, 0..10),
    ) {
        let bytes: Vec<u8> = all.iter().flat_map(|words| encoded(words)).collect();
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
        cuts.extend([0, bytes.len()]);
        cuts.sort_unstable();
        let parts: Vec<&[u8]> = cuts.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect();
        let found = requests(&mut Parser::new(LIMITS), &parts);
        prop_assert_eq!(found, Ok(all));
    }

    #[test]
    fn any_bytes_are_survived_by_resp(bytes in vec(any::<u8>(), 0..300), cut in 1..50_usize) {
        let (_, output) = feed(&mut resp::Connection::new(service()), &bytes, cut);
        replies(&output);
    }

    /// Bytes that look like requests go deeper.
    #[test]
    fn almost_requests_are_survived_by_resp(
        words in vec("[*$:+\\-\r\n0-9a-z\"' ]{0,12}", 0..20),
        cut in 1..50_usize,
    ) {
        feed(&mut resp::Connection::new(service()), words.concat().as_bytes(), cut);
    }

    /// Every command, with any words: each request gets exactly one reply, which is whole.
    #[test]
    fn every_command_answers_once(
        commands in vec(
            (
                "get|set|range|ping|incr|mget|mset|append|client|command|config|dbsize|decr|decrby|\
                 del|echo|exists|expire|flushall|getdel|getset|hello|incrby|info|persist|pexpire|\
                 psetex|pttl|scan|select|setex|setnx|strlen|ttl|type|unlink|nonsense",
                vec(
                    "key|other|0|1|-1|9223372036854775807|digest|get|nx|xx|ex|px|match|count|\\*|\
                     [a-c]{0,9}",
                    0..6,
                ),
            ),
            1..20,
        ),
        cut in 1..200_usize,
    ) {
        let mut input = Vec::new();
        for (name, words) in &commands {
            // In version 3 there are replies that the decoder below does not know.
            let words = if name == "hello" { &words[..0] } else { &words[..] };
            let all: Vec<Vec<u8>> =
                std::iter::once(name).chain(words).map(|word| word.as_bytes().to_vec()).collect();
            input.extend(encoded(&all));
        }
        let (left, output) = feed(&mut resp::Connection::new(service()), &input, cut);
        prop_assert_eq!(left, 0);
        prop_assert_eq!(replies(&output), commands.len());
    }

    #[test]
    fn any_bytes_are_survived_by_memcached(
        bytes in vec(any::<u8>(), 0..300),
        is_binary in any::<bool>(),
        cut in 1..50_usize,
    ) {
        let mut bytes = bytes;
        if is_binary {
            bytes.insert(0, binary::REQUEST);
        }
        feed(&mut memcached::Connection::new(service()), &bytes, cut);
    }

    #[test]
    fn almost_requests_are_survived_by_memcached(
        lines in vec(
            "(get|gets|gat|set|add|replace|append|prepend|cas|incr|decr|touch|delete|stats|\
             flush_all|version|verbosity|noreply)( (key|other|0|1|-1|5|5000|noreply)){0,6}\r\n\
             ([a-z]{0,6}\r\n)?",
            1..10,
        ),
        cut in 1..200_usize,
    ) {
        let input = lines.concat();
        let mut connection = memcached::Connection::new(service());
        let (left, output) = feed(&mut connection, input.as_bytes(), cut);
        // What is left waits for its data.
        prop_assert!(left <= input.len());
        prop_assert!(output.is_empty() || output.ends_with(b"\r\n"));
    }

    /// Headers with any codes and lengths that fit.
    #[test]
    fn binary_requests_are_answered_or_refused_as_a_whole(
        requests in vec(
            (
                any::<u8>(),
                vec(any::<u8>(), 0..25),
                vec(any::<u8>(), 0..9),
                vec(any::<u8>(), 0..9),
            ),
            1..8,
        ),
        cut in 1..100_usize,
    ) {
        let mut input = Vec::new();
        for (opcode, extras, key, value) in &requests {
            // Quitting ends the connection before the others.
            let opcode = if matches!(opcode, 0x07 | 0x17) { 0x0a } else { *opcode };
            input.extend([binary::REQUEST, opcode]);
            input.extend((key.len() as u16).to_be_bytes());
            input.extend([extras.len() as u8, 0, 0, 0]);
            input.extend(((extras.len() + key.len() + value.len()) as u32).to_be_bytes());
            input.extend([0; 12]);
            input.extend(extras.iter().chain(key).chain(value));
        }
        let (left, output) = feed(&mut memcached::Connection::new(service()), &input, cut);
        prop_assert_eq!(left, 0);
        let mut rest = &output[..];
        while !rest.is_empty() {
            prop_assert_eq!(rest[0], binary::RESPONSE);
            let body = u32::from_be_bytes(rest[8..12].try_into().unwrap()) as usize;
            rest = &rest[binary::HEADER + body..];
        }
    }

    #[test]
    fn a_cut_changes_no_line(line in "[ -~]{0,60}\r\n", end in 0..62_usize) {
        let limits = text::TextLimits { value: 100 };
        let end = end.min(line.len() - 1);
        prop_assert_eq!(text::parse(&line.as_bytes()[..end], limits), text::Step::More);
    }
}
