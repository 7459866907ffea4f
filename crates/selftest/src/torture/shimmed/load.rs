//! Clients of memcached that check every answer. Each connection has keys of its own, so it knows
//! what it must get; a counter is shared and must add up.

use super::Rng;
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Error, ErrorKind, Read, Result, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// How much to ask.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    pub(super) connections: u64,
    /// Of each connection.
    pub(super) requests: u64,
}

/// Does somebody listen there?
pub(super) fn answers(socket: &Path) -> bool {
    UnixStream::connect(socket).is_ok()
}

impl Load {
    /// Asks. Returns what was counted: the same each time.
    pub(super) fn run(self, socket: &Path, seed: u64) -> std::result::Result<String, String> {
        let told = |e: Error| format!("memcached's client: {e}");
        Connection::new(socket).and_then(|mut c| c.set("shared", 0, b"0")).map_err(told)?;
        let each = std::thread::scope(|s| {
            let one = |number| s.spawn(move || self.one(socket, number, seed));
            let clients: Vec<_> = (0..self.connections).map(one).collect();
            let end = |client: std::thread::ScopedJoinHandle<'_, Result<u64>>| {
                client.join().unwrap_or_else(|_| Err(Error::other("a client panicked")))
            };
            clients.into_iter().map(end).collect::<Result<Vec<u64>>>()
        });
        let increments: u64 = each.map_err(told)?.into_iter().sum();
        let total = Connection::new(socket).and_then(|mut c| c.increment("shared", 0));
        let total = total.map_err(told)?;
        if total != increments {
            return Err(format!("memcached's counter is {total} after {increments} increments"));
        }
        Ok(format!("{} answers as expected, counter {total}", self.connections * self.requests))
    }

    /// One connection's requests. Returns how often it has incremented the counter.
    fn one(self, socket: &Path, number: u64, seed: u64) -> Result<u64> {
        let mut connection = Connection::new(socket)?;
        let mut rng = Rng(seed ^ number << 32);
        let mut known: HashMap<String, (u64, Vec<u8>)> = HashMap::new();
        let mut increments = 0;
        for i in 0..self.requests {
            let key = format!("c{number}k{}", rng.below(50));
            match rng.below(10) {
                0..4 => {
                    let length = 64 * (1 + rng.below(39));
                    let value = rng.text(length as usize);
                    // A line of its own would end it.
                    let value: Vec<u8> = value.into_iter().map(|b| b.max(b' ')).collect();
                    connection.set(&key, i, &value)?;
                    known.insert(key, (i, value));
                }
                4..9 => {
                    let found = connection.get(&key)?;
                    if found.as_ref() != known.get(&key) {
                        return Err(Error::other(format!("{key} is {found:?}")));
                    }
                }
                _ => {
                    connection.increment("shared", 1)?;
                    increments += 1;
                }
            }
        }
        Ok(increments)
    }
}

struct Connection(BufReader<UnixStream>);

impl Connection {
    fn new(socket: &Path) -> Result<Connection> {
        let stream = UnixStream::connect(socket)?;
        // A server that hangs is a difference.
        stream.set_read_timeout(Some(Duration::from_secs(120)))?;
        Ok(Connection(BufReader::new(stream)))
    }

    fn ask(&mut self, request: &[u8]) -> Result<String> {
        self.0.get_mut().write_all(request)?;
        self.line()
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        if self.0.read_line(&mut line)? == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        Ok(line.trim_end().into())
    }

    fn set(&mut self, key: &str, flags: u64, value: &[u8]) -> Result<()> {
        let mut request = format!("set {key} {flags} 0 {}\r\n", value.len()).into_bytes();
        request.extend_from_slice(value);
        request.extend_from_slice(b"\r\n");
        expect(&self.ask(&request)?, "STORED")
    }

    /// Flags and value.
    fn get(&mut self, key: &str) -> Result<Option<(u64, Vec<u8>)>> {
        let head = self.ask(format!("get {key}\r\n").as_bytes())?;
        if head == "END" {
            return Ok(None);
        }
        let words: Vec<_> = head.split(' ').collect();
        let strange = || Error::other(format!("strange answer {head:?}"));
        let ["VALUE", name, flags, length] = words[..] else { return Err(strange()) };
        if name != key {
            return Err(strange());
        }
        let length: usize = length.parse().map_err(|_| strange())?;
        let mut value = vec![0; length + 2];
        self.0.read_exact(&mut value)?;
        if value.split_off(length) != b"\r\n" {
            return Err(strange());
        }
        expect(&self.line()?, "END")?;
        Ok(Some((flags.parse().map_err(|_| strange())?, value)))
    }

    fn increment(&mut self, key: &str, by: u64) -> Result<u64> {
        let answer = self.ask(format!("incr {key} {by}\r\n").as_bytes())?;
        answer.parse().map_err(|_| Error::other(format!("strange answer {answer:?}")))
    }
}

fn expect(found: &str, wanted: &str) -> Result<()> {
    if found == wanted {
        Ok(())
    } else {
        Err(Error::other(format!("{found:?} in place of {wanted:?}")))
    }
}
