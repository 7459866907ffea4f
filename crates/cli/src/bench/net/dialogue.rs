//! What the client says to a server, and what it must answer.

use std::str;

use anyhow::{Context, bail, ensure};
use quaver_bench_common::net::{Kind, MESSAGE};

/// How many headers an answer may have.
const HEADERS: usize = 32;

/// One kind of request and its answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Dialogue {
    /// A message with a number, which comes back as it is.
    Message(Kind),
    /// A page of HTTP/1.1, on a connection that stays.
    Page(&'static str),
    /// `get` in memcached's text protocol, of a key that is there.
    Memcached,
    /// `GET` in that of Redis, of a key that is there.
    Redis,
}

/// Bytes of the value of a key.
pub const VALUE: usize = 64;

impl Dialogue {
    /// Gives the bytes of request `id` to `send`.
    pub fn request<R>(self, id: u64, send: impl FnOnce(&[u8]) -> R) -> R {
        match self {
            Dialogue::Message(kind) => send(&message(kind, id)),
            Dialogue::Page(path) => {
                send(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes())
            }
            Dialogue::Memcached => send(b"get key:000000000007\r\n"),
            Dialogue::Redis => send(b"*2\r\n$3\r\nGET\r\n$16\r\nkey:000000000007\r\n"),
        }
    }

    /// The length of the answer to request `id` at the beginning of `bytes`, if all of it is there.
    ///
    /// # Errors
    ///
    /// It is not the right answer.
    pub fn answer(self, id: u64, bytes: &[u8]) -> anyhow::Result<Option<usize>> {
        match self {
            Dialogue::Message(kind) => {
                let Some(answer) = bytes.get(..MESSAGE) else { return Ok(None) };
                ensure!(answer == message(kind, id), "message {id} came back changed");
                Ok(Some(MESSAGE))
            }
            Dialogue::Page(path) => page(bytes).with_context(|| format!("the answer to {path}")),
            Dialogue::Memcached => entry(bytes, b"VALUE key:000000000007 0 64\r\n", b"\r\nEND\r\n"),
            Dialogue::Redis => entry(bytes, b"$64\r\n", b"\r\n"),
        }
    }
}

fn message(kind: Kind, id: u64) -> [u8; MESSAGE] {
    let mut message = [0; MESSAGE];
    message[0] = kind.byte();
    message[8..16].copy_from_slice(&id.to_le_bytes());
    message
}

/// An entry between these, if all of it is there.
fn entry(bytes: &[u8], before: &[u8], after: &[u8]) -> anyhow::Result<Option<usize>> {
    let length = before.len() + VALUE + after.len();
    let known = bytes.len().min(before.len());
    let end = bytes.get(..length).is_none_or(|answer| answer.ends_with(after));
    if bytes[..known] != before[..known] || !end {
        bail!("the answer is no entry: {:?}", String::from_utf8_lossy(bytes));
    }
    Ok((bytes.len() >= length).then_some(length))
}

fn page(bytes: &[u8]) -> anyhow::Result<Option<usize>> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS];
    let mut response = httparse::Response::new(&mut headers);
    let httparse::Status::Complete(head) = response.parse(bytes)? else { return Ok(None) };
    let status = response.code.unwrap_or_default();
    ensure!(status == 200, "has the status {status}");
    let length = response.headers.iter().find(|h| h.name.eq_ignore_ascii_case("content-length"));
    let length = length.context("has no Content-Length")?;
    let length: usize = str::from_utf8(length.value)?.parse().context("has a bad length")?;
    Ok((bytes.len() >= head + length).then_some(head + length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_back_whole_and_unchanged() {
        let scan = Dialogue::Message(Kind::Scan);
        let sent = scan.request(7, <[u8]>::to_vec);
        assert_eq!((sent.len(), sent[0]), (MESSAGE, Kind::Scan.byte()));
        assert_eq!(scan.answer(7, &sent).unwrap(), Some(MESSAGE));
        assert_eq!(scan.answer(7, &sent[1..]).unwrap(), None);
        assert!(scan.answer(8, &sent).is_err());
        assert!(Dialogue::Message(Kind::Get).answer(7, &sent).is_err());
    }

    #[test]
    fn entries_are_those_of_the_key() {
        let value = "v".repeat(VALUE);
        let whole = format!("VALUE key:000000000007 0 64\r\n{value}\r\nEND\r\n");
        for (dialogue, whole, wrong) in [
            (Dialogue::Memcached, whole, "END\r\n"),
            (Dialogue::Redis, format!("${VALUE}\r\n{value}\r\n"), "$-1\r\n"),
        ] {
            assert!(dialogue.request(1, |bytes| bytes.ends_with(b"key:000000000007\r\n")));
            let answer = |text: &str| dialogue.answer(1, text.as_bytes());
            assert_eq!(answer(&format!("{whole}more")).unwrap(), Some(whole.len()));
            for part in 0..whole.len() {
                assert_eq!(answer(&whole[..part]).unwrap(), None, "{part}");
            }
            assert!(answer(wrong).unwrap_err().to_string().contains("no entry"));
            assert!(answer(&whole.replace("v\r\n", "vvvv")).is_err());
        }
    }

    #[test]
    fn pages_end_where_their_headers_say() {
        let answer = |text: &str| Dialogue::Page("/fast").answer(1, text.as_bytes());
        let whole = "HTTP/1.1 200 OK\r\ncontent-length: 4\r\ndate: x\r\n\r\nfast";
        assert_eq!(answer(whole).unwrap(), Some(whole.len()));
        assert_eq!(answer(&format!("{whole}HTTP")).unwrap(), Some(whole.len()));
        for part in [10, whole.len() - 5, whole.len() - 1] {
            assert_eq!(answer(&whole[..part]).unwrap(), None, "{part}");
        }
        let wrong = [
            ("HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n", "status 404"),
            ("HTTP/1.1 200 OK\r\n\r\n", "no Content-Length"),
            ("HTTP/1.1 200 OK\r\ncontent-length: x\r\n\r\n", "bad length"),
        ];
        for (text, part) in wrong {
            let error = format!("{:#}", answer(text).unwrap_err());
            assert!(error.contains("/fast") && error.contains(part), "{error}");
        }
    }
}
