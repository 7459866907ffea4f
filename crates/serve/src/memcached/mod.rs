//! memcached's protocols, text and binary. The first byte of a connection says which: 0x80 begins a
//! binary request and no line.
//!
//! * [`text`], [`binary`]: requests, from bytes; no I/O.
//! * [`operations`]: what they do to the store.
//! * `text_replies`, `binary_replies`: what is answered.

pub mod binary;
mod binary_replies;
pub mod operations;
pub mod text;
mod text_replies;

use std::sync::Arc;

use crate::connection::{Protocol, Refusal, Served};
use crate::service::Service;

/// What the first byte of a connection has said.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Spoken {
    Nothing,
    Text,
    Binary,
}

/// A connection that speaks one of both.
pub struct Connection {
    service: Arc<Service>,
    spoken: Spoken,
    /// Bytes to come that belong to a request that was refused.
    skip: usize,
}

impl Connection {
    /// A new connection to this service.
    pub fn new(service: Arc<Service>) -> Connection {
        service.next_id();
        Connection { service, spoken: Spoken::Nothing, skip: 0 }
    }
}

impl Protocol for Connection {
    fn serve(&mut self, input: &[u8], output: &mut Vec<u8>) -> Served {
        let Some(&first) = input.first() else { return Served::More };
        if self.skip > 0 {
            let skipped = self.skip.min(input.len());
            self.skip -= skipped;
            return Served::Request(skipped);
        }
        if self.spoken == Spoken::Nothing {
            self.spoken = if first == binary::REQUEST { Spoken::Binary } else { Spoken::Text };
        }
        let (served, skip) = match self.spoken {
            Spoken::Binary => binary_replies::serve(&self.service, input, output),
            _ => text_replies::serve(&self.service, input, output),
        };
        self.skip = skip;
        if served != Served::More {
            self.service.count_request();
        }
        served
    }

    fn refuse(reason: Refusal, output: &mut Vec<u8>) {
        let text: &[u8] = match reason {
            Refusal::Clients => b"ERROR Too many open connections\r\n",
            Refusal::Memory => b"SERVER_ERROR out of memory reading request\r\n",
        };
        output.extend_from_slice(text);
    }
}
