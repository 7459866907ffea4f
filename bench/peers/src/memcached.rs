//! `get` and `set` of memcached's text protocol, on tasks of tokio: what the USR load asks for, and
//! no more. The table is behind a lock that is never held across a wait.

use std::collections::HashMap;
use std::io::{self, Write};
use std::net::TcpListener;
use std::sync::{Arc, PoisonError, RwLock};

use quaver_bench_common::net::{ADDRESS, announce};
use quaver_bench_common::spec::AnswerSpec;
use quaver_load::net::{key, value};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Bytes that are read at a time.
const ROOM: usize = 16 << 10;
/// A request that is longer ends its connection.
const LONGEST: usize = 1 << 20;

type Table = RwLock<HashMap<Box<[u8]>, Box<[u8]>>>;

/// Serves until the standard input ends.
///
/// # Errors
///
/// It cannot listen, or accept.
pub async fn serve(spec: &AnswerSpec) -> io::Result<()> {
    let entries = (0..spec.keys).map(|index| {
        (Box::from(&key(index)[..]), value(index, spec.value_bytes).into_boxed_slice())
    });
    let table: Arc<Table> = Arc::new(RwLock::new(entries.collect()));
    let listener = TcpListener::bind(ADDRESS)?;
    listener.set_nonblocking(true)?;
    announce(listener.local_addr()?);
    let listener = tokio::net::TcpListener::from_std(listener)?;
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        tokio::spawn(converse(stream, Arc::clone(&table)));
    }
}

/// A connection that breaks, or says what is not understood, is the client's affair.
async fn converse(mut stream: tokio::net::TcpStream, table: Arc<Table>) -> io::Result<()> {
    let (mut input, mut output) = (Vec::with_capacity(ROOM), Vec::new());
    loop {
        input.reserve(ROOM);
        if stream.read_buf(&mut input).await? == 0 || input.len() > LONGEST {
            return Ok(());
        }
        let mut used = 0;
        while let Some(length) = answer(&input[used..], &table, &mut output)? {
            used += length;
        }
        input.drain(..used);
        stream.write_all(&output).await?;
        output.clear();
    }
}

/// Serves the request at the beginning of `input`, if all of it is there; its length.
fn answer(input: &[u8], table: &Table, output: &mut Vec<u8>) -> io::Result<Option<usize>> {
    let wrong = || io::Error::from(io::ErrorKind::InvalidData);
    let Some(end) = input.iter().position(|&byte| byte == b'\n') else { return Ok(None) };
    let line = input[..end].strip_suffix(b"\r").unwrap_or(&input[..end]);
    let mut words = line.split(|&byte| byte == b' ');
    match (words.next(), words.next()) {
        (Some(b"get"), Some(key)) => {
            let table = table.read().unwrap_or_else(PoisonError::into_inner);
            if let Some(value) = table.get(key) {
                output.extend_from_slice(b"VALUE ");
                output.extend_from_slice(key);
                write!(output, " 0 {}\r\n", value.len())?;
                output.extend_from_slice(value);
                output.extend_from_slice(b"\r\n");
            }
            output.extend_from_slice(b"END\r\n");
            Ok(Some(end + 1))
        }
        (Some(b"set"), Some(key)) => {
            let length = words.nth(2).and_then(|word| str::from_utf8(word).ok()?.parse().ok());
            let length: usize = length.filter(|&length| length <= LONGEST).ok_or_else(wrong)?;
            let value = end + 1..end + 1 + length;
            let whole = value.end + 2;
            if input.len() < whole {
                return Ok(None);
            }
            let mut table = table.write().unwrap_or_else(PoisonError::into_inner);
            table.insert(key.into(), input[value].into());
            output.extend_from_slice(b"STORED\r\n");
            Ok(Some(whole))
        }
        _ => Err(wrong()),
    }
}
