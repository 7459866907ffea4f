//! RESP, the protocol of Redis, as a client speaks it.

use super::protocol::{About, Reply, Strange, line, number};
use super::{Operation, key};

/// Appends a request.
pub(super) fn request(operation: Operation, about: About<'_>, out: &mut Vec<u8>) {
    let key = key(about.key);
    match operation {
        Operation::Get => words(&[b"GET", &key], out),
        Operation::Set => words(&[b"SET", &key, about.value], out),
        // Counters are keys of their own: values of others are no numbers.
        Operation::Incr => words(&[b"INCR", &[b"counter:".as_slice(), &key].concat()], out),
        Operation::Range => {
            words(&[b"RANGE", &key, about.rows.to_string().as_bytes(), b"DIGEST"], out);
        }
        // The protocol has none.
        Operation::Kernel(_) => words(&[b"PING"], out),
    }
}

fn words(words: &[&[u8]], out: &mut Vec<u8>) {
    let header = |kind: u8, length: usize, out: &mut Vec<u8>| {
        out.push(kind);
        out.extend_from_slice(length.to_string().as_bytes());
        out.extend_from_slice(b"\r\n");
    };
    header(b'*', words.len(), out);
    for word in words {
        header(b'$', word.len(), out);
        out.extend_from_slice(word);
        out.extend_from_slice(b"\r\n");
    }
}

/// The reply at the beginning of `input`, of version 2. Nothing where a value should be counts as
/// refused.
pub(super) fn reply(input: &[u8]) -> Result<Option<(usize, Reply)>, Strange> {
    let (mut at, mut left, mut reply) = (0, 1_usize, Reply::Done);
    while left > 0 {
        left -= 1;
        let Some((text, used)) = line(&input[at..]) else { return Ok(None) };
        at += used;
        let (kind, text) = text.split_first().ok_or(Strange)?;
        match kind {
            b'+' | b':' => {}
            b'-' => reply = Reply::Refused,
            b'$' | b'*' if text == b"-1" => reply = Reply::Refused,
            b'$' => {
                at = number(text)
                    .and_then(|length| at.checked_add(length)?.checked_add(2))
                    .ok_or(Strange)?;
                if at > input.len() {
                    return Ok(None);
                }
            }
            b'*' => left = left.saturating_add(number(text).ok_or(Strange)?),
            _ => return Err(Strange),
        }
    }
    Ok(Some((at, reply)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_arrays_of_bulk_strings() {
        let about = About { id: 0, key: 7, value: b"v", rows: 50 };
        let text = |operation| {
            let mut out = Vec::new();
            request(operation, about, &mut out);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(text(Operation::Get), "*2\r\n$3\r\nGET\r\n$16\r\nkey:000000000007\r\n");
        assert!(text(Operation::Set).ends_with("007\r\n$1\r\nv\r\n"));
        assert!(text(Operation::Range).ends_with("007\r\n$2\r\n50\r\n$6\r\nDIGEST\r\n"));
    }

    #[test]
    fn replies_end_where_they_end() {
        for (text, expected) in [
            ("+OK\r\n", Reply::Done),
            (":-12\r\n", Reply::Done),
            ("$5\r\na\r\nbc\r\n", Reply::Done),
            ("$0\r\n\r\n", Reply::Done),
            ("$-1\r\n", Reply::Refused),
            ("-ERR no\r\n", Reply::Refused),
            ("*2\r\n:5\r\n:6\r\n", Reply::Done),
            ("*2\r\n*1\r\n$1\r\na\r\n+x\r\n", Reply::Done),
            ("*0\r\n", Reply::Done),
        ] {
            let longer = format!("{text}+next\r\n");
            assert_eq!(reply(longer.as_bytes()), Ok(Some((text.len(), expected))), "{text}");
            for end in 0..text.len() {
                assert_eq!(reply(&text.as_bytes()[..end]), Ok(None), "{text}");
            }
        }
        for text in ["x\r\n", "\r\n", "$x\r\n", "*-2\r\n"] {
            assert_eq!(reply(text.as_bytes()), Err(Strange), "{text}");
        }
    }
}
