//! Puts the keys of a run into a server.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use super::protocol::{About, Protocol, Reply, Transport};
use super::{Operation, value};

/// Why the keys are not there.
#[derive(Debug, thiserror::Error)]
pub enum FillError {
    /// The protocol is one of datagrams, of which some are lost.
    #[error("{0} cannot fill a server: let the server fill its store itself (--fill)")]
    Datagrams(&'static str),
    /// The connection does not come about, or breaks.
    #[error("cannot fill {to}")]
    Connection {
        /// The server.
        to: SocketAddr,
        /// What the system says.
        source: io::Error,
    },
    /// The server refuses a key.
    #[error("{to} refuses to store key {key}: has it enough memory?")]
    Refused {
        /// The server.
        to: SocketAddr,
        /// The number of the key.
        key: u64,
    },
}

/// Requests that are sent at once.
const BATCH: u64 = 256;
/// How long the server may take over them.
const PATIENCE: Duration = Duration::from_secs(30);

/// Stores `keys` keys, with values of `value_bytes` bytes.
///
/// # Errors
///
/// The server cannot be reached, or refuses one.
pub fn fill(
    protocol: Protocol,
    to: SocketAddr,
    keys: u64,
    value_bytes: usize,
) -> Result<(), FillError> {
    if protocol.transport() == Transport::Udp {
        return Err(FillError::Datagrams(protocol.name()));
    }
    let failed = |source| FillError::Connection { to, source };
    let mut stream = TcpStream::connect_timeout(&to, PATIENCE).map_err(failed)?;
    stream.set_read_timeout(Some(PATIENCE)).map_err(failed)?;
    stream.set_write_timeout(Some(PATIENCE)).map_err(failed)?;
    let (mut out, mut input) = (Vec::new(), Vec::new());
    for first in (0..keys).step_by(BATCH as usize) {
        let end = (first + BATCH).min(keys);
        out.clear();
        for key in first..end {
            let value = value(key, value_bytes);
            let about = About { id: 0, key, value: &value, rows: 0 };
            protocol.request(Operation::Set, about, &mut out);
        }
        stream.write_all(&out).map_err(failed)?;
        for key in first..end {
            if next_reply(&mut stream, protocol, &mut input).map_err(failed)? == Reply::Refused {
                return Err(FillError::Refused { to, key });
            }
        }
    }
    Ok(())
}

fn next_reply(
    stream: &mut TcpStream,
    protocol: Protocol,
    input: &mut Vec<u8>,
) -> io::Result<Reply> {
    loop {
        match protocol.reply(input) {
            Ok(Some((used, reply))) => {
                input.drain(..used);
                return Ok(reply);
            }
            Ok(None) => {}
            Err(_) => {
                let what = format!("the server does not speak {}", protocol.name());
                return Err(io::Error::new(ErrorKind::InvalidData, what));
            }
        }
        let mut bytes = [0; 4096];
        match stream.read(&mut bytes)? {
            0 => return Err(ErrorKind::UnexpectedEof.into()),
            n => input.extend_from_slice(&bytes[..n]),
        }
    }
}
