//! A connection: bytes in, requests to a protocol, replies out.
//!
//! Each connection is a user thread with blocking calls. Requests that arrived together are served
//! one after the other, and their replies sent together. What a client can make a connection hold
//! is bounded: see [`buffer`] for what it sends, [`Limits::reply`] for what it asks for, and
//! [`Limits::write`] for how slowly it takes that.

pub(crate) mod buffer;

use std::io::{self, Read, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::limits::{Budget, FREE, Limits};
use crate::net::{Shutdown, TcpStream};
use buffer::Buffer;

/// What became of the bytes that a protocol was given.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Served {
    /// No whole request is there. Nothing was used.
    More,
    /// A request of this many bytes.
    Request(usize),
    /// The same, and it was the last one: the connection ends when its reply has been sent.
    Last(usize),
}

/// A protocol, as spoken on one connection.
pub trait Protocol: Send {
    /// Serves the request at the beginning of `input`, if all of it is there, and appends what is
    /// to be sent.
    fn serve(&mut self, input: &[u8], output: &mut Vec<u8>) -> Served;

    /// What a client is told whose connection cannot be served.
    fn refuse(reason: Refusal, output: &mut Vec<u8>)
    where
        Self: Sized;
}

/// Why a connection cannot be served.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// There are as many as may be.
    Clients,
    /// There is no memory, or no thread, for it.
    Memory,
}

/// Replies that are sent before more requests are served.
const FLUSH: usize = 64 * 1024;

/// How long a client that was told of an error may go on sending, so that it can read of it.
const LINGER: Duration = Duration::from_millis(500);

/// What connections of a server have in common.
#[derive(Clone, Debug)]
pub(crate) struct Shared {
    pub(crate) limits: Limits,
    pub(crate) budget: Arc<Budget>,
}

/// Serves a connection until its client or the server has had enough. Errors of the connection end
/// it, and are nobody's business.
pub(crate) fn serve<P: Protocol>(stream: &TcpStream, mut protocol: P, shared: &Shared) {
    let mut input = Buffer::new(Arc::clone(&shared.budget), shared.limits.request());
    let mut output = Vec::new();
    if stream.set_nodelay(true).is_err()
        || stream.set_read_timeout(shared.limits.idle).is_err()
        || stream.set_write_timeout(Some(shared.limits.write)).is_err()
    {
        return;
    }
    loop {
        match serve_buffered(stream, &mut protocol, &mut input, &mut output, shared) {
            Ok(true) => {}
            Ok(false) => return linger(stream),
            Err(_) => return,
        }
        let Some(space) = input.space() else {
            P::refuse(Refusal::Memory, &mut output);
            let _ = send(stream, &mut output, shared);
            return linger(stream);
        };
        match retry(|| (&*stream).read(space)) {
            Ok(0) | Err(_) => return,
            Ok(n) => input.filled(n),
        }
    }
}

/// Serves all requests that are there whole, and sends the replies. `false`: one was the last.
fn serve_buffered<P: Protocol>(
    stream: &TcpStream,
    protocol: &mut P,
    input: &mut Buffer,
    output: &mut Vec<u8>,
    shared: &Shared,
) -> io::Result<bool> {
    loop {
        match protocol.serve(input.bytes(), output) {
            Served::More => break,
            Served::Request(used) => {
                input.used(used);
                if output.len() >= FLUSH {
                    send(stream, output, shared)?;
                }
            }
            Served::Last(used) => {
                input.used(used);
                send(stream, output, shared)?;
                return Ok(false);
            }
        }
    }
    send(stream, output, shared)?;
    Ok(true)
}

/// Sends and empties `output`. A client that takes too long is given up.
fn send(stream: &TcpStream, output: &mut Vec<u8>, shared: &Shared) -> io::Result<()> {
    if output.is_empty() {
        return Ok(());
    }
    let large = output.capacity().saturating_sub(FREE + FLUSH);
    if !shared.budget.take(large) {
        return Err(io::ErrorKind::OutOfMemory.into());
    }
    let sent = send_all(stream, output, shared.limits.write);
    shared.budget.give_back(large);
    output.clear();
    if large > 0 {
        output.shrink_to(FLUSH);
    }
    sent
}

fn send_all(stream: &TcpStream, mut bytes: &[u8], limit: Duration) -> io::Result<()> {
    let mut begun = None;
    while !bytes.is_empty() {
        match retry(|| (&*stream).write(bytes)) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(n) => bytes = &bytes[n..],
            Err(error) => return Err(error),
        }
        // The limit of the socket is one of each call; most replies need one.
        if !bytes.is_empty() && begun.get_or_insert_with(Instant::now).elapsed() >= limit {
            return Err(io::ErrorKind::TimedOut.into());
        }
    }
    Ok(())
}

/// Lets the client read the last reply: closing while it sends would make its kernel throw the
/// reply away.
fn linger(stream: &TcpStream) {
    let until = Instant::now() + LINGER;
    if stream.shutdown(Shutdown::Write).is_err() || stream.set_read_timeout(Some(LINGER)).is_err() {
        return;
    }
    let mut scrap = [0; 4096];
    while Instant::now() < until {
        match (&*stream).read(&mut scrap) {
            Ok(0) => return,
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}

fn retry<T>(mut f: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match f() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}
