//! What requests and replies look like on the wire.

use std::str::FromStr;

use super::{Operation, PoolError, aspen, memcached, resp};

/// A protocol that servers are spoken to in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// That of Redis.
    Resp,
    /// memcached's text protocol.
    Memcached,
    /// Datagrams of 16 bytes, as Aspen's load generator sends them.
    AspenUdp,
}

/// What a protocol runs over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// Connections: replies come in the order of requests.
    Tcp,
    /// Datagrams: replies name their request.
    Udp,
}

/// What a server has answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    /// What was asked for.
    Done,
    /// An error, or that there is no such key.
    Refused,
}

/// There is no protocol of this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown protocol {0:?}: expected resp, memcached or aspen-udp")]
pub struct UnknownProtocol(String);

/// The bytes are no reply: server and client do not speak the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Strange;

/// What a request is about, beside its operation.
#[derive(Clone, Copy, Debug)]
pub(super) struct About<'a> {
    /// The number of the request.
    pub(super) id: u64,
    /// The number of the key.
    pub(super) key: u64,
    /// What is written.
    pub(super) value: &'a [u8],
    /// Rows that are read.
    pub(super) rows: u64,
}

impl Protocol {
    /// What it runs over.
    pub fn transport(self) -> Transport {
        match self {
            Protocol::Resp | Protocol::Memcached => Transport::Tcp,
            Protocol::AspenUdp => Transport::Udp,
        }
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Protocol::Resp => "resp",
            Protocol::Memcached => "memcached",
            Protocol::AspenUdp => "aspen-udp",
        }
    }

    /// Can it ask for this?
    pub fn has(self, operation: Operation) -> bool {
        match self {
            Protocol::Resp => !matches!(operation, Operation::Kernel(_)),
            Protocol::Memcached => {
                matches!(operation, Operation::Get | Operation::Set | Operation::Incr)
            }
            Protocol::AspenUdp => operation != Operation::Incr,
        }
    }

    /// Can it ask for these operations of classes with these names?
    ///
    /// # Errors
    ///
    /// The first that it has no request for.
    pub fn check(self, classes: &[String], operations: &[Operation]) -> Result<(), PoolError> {
        let lacks = classes.iter().zip(operations).find(|(_, operation)| !self.has(**operation));
        match lacks {
            Some((class, _)) => {
                Err(PoolError::Operation { protocol: self.name(), class: class.clone() })
            }
            None => Ok(()),
        }
    }

    /// Appends a request, of an operation that the protocol has.
    pub(super) fn request(self, operation: Operation, about: About<'_>, out: &mut Vec<u8>) {
        match self {
            Protocol::Resp => resp::request(operation, about, out),
            Protocol::Memcached => memcached::request(operation, about, out),
            Protocol::AspenUdp => aspen::request(operation, about, out),
        }
    }

    /// The reply at the beginning of `input`, and its length, if all of it is there.
    pub(super) fn reply(self, input: &[u8]) -> Result<Option<(usize, Reply)>, Strange> {
        match self {
            Protocol::Resp => resp::reply(input),
            Protocol::Memcached => memcached::reply(input),
            Protocol::AspenUdp => Err(Strange),
        }
    }
}

impl FromStr for Protocol {
    type Err = UnknownProtocol;

    fn from_str(text: &str) -> Result<Protocol, UnknownProtocol> {
        let known = [Protocol::Resp, Protocol::Memcached, Protocol::AspenUdp];
        let named = known.into_iter().find(|protocol| protocol.name() == text);
        named.ok_or_else(|| UnknownProtocol(text.to_owned()))
    }
}

/// The line at the beginning of `input` without its end, and its length with it.
pub(super) fn line(input: &[u8]) -> Option<(&[u8], usize)> {
    let end = input.iter().position(|&byte| byte == b'\n')?;
    let line = &input[..end];
    Some((line.strip_suffix(b"\r").unwrap_or(line), end + 1))
}

/// The decimal number that a text is.
pub(super) fn number(text: &[u8]) -> Option<usize> {
    std::str::from_utf8(text).ok()?.parse().ok()
}
