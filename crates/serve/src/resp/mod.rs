//! RESP, the protocol of Redis, so that its clients can be used.
//!
//! * [`request`]: bytes to words; [`reply`]: replies to bytes. Neither does I/O.
//! * `commands`: what a request does; `strings`, `numbers`, `keys`, `server`: by subject.
//! * [`Connection`]: all of it as the protocol of one connection.

mod commands;
mod glob;
mod keys;
mod numbers;
pub mod reply;
pub mod request;
mod server;
mod strings;

use std::sync::Arc;

use crate::connection::{Protocol, Refusal, Served};
use crate::limits::Limits;
use crate::service::Service;
use reply::Replies;
use request::{Parser, RequestLimits, Step};

/// A connection that speaks RESP.
pub struct Connection {
    service: Arc<Service>,
    parser: Parser,
    session: commands::Session,
}

impl Connection {
    /// A new connection to this service.
    pub fn new(service: Arc<Service>) -> Connection {
        let parser = Parser::new(request_limits(&service.limits));
        let session = commands::Session::new(service.next_id());
        Connection { service, parser, session }
    }
}

/// The limits of requests within these limits.
pub fn request_limits(limits: &Limits) -> RequestLimits {
    RequestLimits { words: limits.words, word: limits.value, request: limits.request() }
}

impl Protocol for Connection {
    fn serve(&mut self, input: &[u8], output: &mut Vec<u8>) -> Served {
        match self.parser.step(input) {
            Ok(Step::More) => Served::More,
            Ok(Step::Request(used)) => {
                self.service.count_request();
                let words = self.parser.words(input);
                let after = commands::run(&self.service, &mut self.session, words, output);
                self.parser.forget();
                match after {
                    commands::After::GoOn => Served::Request(used),
                    commands::After::Close => Served::Last(used),
                }
            }
            Err(malformed) => {
                Replies::new(output, 2).error(format_args!("ERR {malformed}"));
                Served::Last(input.len())
            }
        }
    }

    fn refuse(reason: Refusal, output: &mut Vec<u8>) {
        Replies::new(output, 2).error(match reason {
            Refusal::Clients => "ERR max number of clients reached",
            Refusal::Memory => "ERR no memory is left for this client",
        });
    }
}

/// The integer that a text is, written as Redis wants it: no blanks, no `+`, no leading zeros.
pub(crate) fn integer(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    let plain = match digits {
        [] => false,
        [b'0'] => !negative,
        [first, ..] => *first != b'0' && digits.iter().all(u8::is_ascii_digit),
    };
    if !plain || digits.len() > 19 {
        return None;
    }
    // Negative, because there is one more of those.
    let value = digits.iter().try_fold(0_i64, |value, digit| {
        value.checked_mul(10)?.checked_sub(i64::from(digit - b'0'))
    })?;
    if negative { Some(value) } else { value.checked_neg() }
}

#[cfg(test)]
mod tests {
    use super::integer;

    #[test]
    fn integers_are_read_to_the_last() {
        for value in [0, 1, -1, 10, i64::MAX, i64::MIN, i64::MAX - 1, -99] {
            assert_eq!(integer(value.to_string().as_bytes()), Some(value));
        }
    }

    #[test]
    fn what_is_no_integer_is_refused() {
        for text in
            ["", "-", "-0", "+1", " 1", "1 ", "01", "1a", "9223372036854775808", "1e3", "--1"]
        {
            assert_eq!(integer(text.as_bytes()), None, "{text}");
        }
        assert_eq!(integer(b"-9223372036854775809"), None);
        assert_eq!(integer(&[b'1'; 100]), None);
    }
}
