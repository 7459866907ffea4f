//! Datagrams as Aspen's load generator sends them: number, kind, key, time; 32 bits each, the
//! lowest byte first. A reply is the same with the time in which the server served the request.

use super::Operation;
use super::protocol::About;

/// Bytes of a request, and of a reply.
pub const SIZE: usize = 16;
/// Kind of a request: reads a key.
pub const GET: u32 = 0x0a;
/// Kind of a request: reads rows from the key on, as many as the server was told to.
pub const SCAN: u32 = 0x0b;
/// Kind of a request, which Aspen's has not: writes the key.
pub const SET: u32 = 0x0c;
/// Set in the kind of a reply: the request was not served.
pub const REFUSED: u32 = 1 << 31;

/// A request or a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// The number of the request, for the client.
    pub id: u32,
    /// What it asks for: [`GET`], [`SCAN`], [`SET`], or from 1 on a kernel of the analytics server.
    pub kind: u32,
    /// The number of the key.
    pub key: u32,
    /// Of a reply: how long it took to serve, in nanoseconds.
    pub run_ns: u32,
}

impl Message {
    /// Its bytes.
    pub fn encode(&self) -> [u8; SIZE] {
        let mut bytes = [0; SIZE];
        let words = [self.id, self.kind, self.key, self.run_ns];
        for (place, word) in bytes.chunks_exact_mut(4).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// The message of these bytes; `None` when there are more or fewer than there should be.
    pub fn decode(bytes: &[u8]) -> Option<Message> {
        let bytes: &[u8; SIZE] = bytes.try_into().ok()?;
        let (words, _) = bytes.as_chunks::<4>();
        let word = |index: usize| u32::from_le_bytes(words[index]);
        Some(Message { id: word(0), kind: word(1), key: word(2), run_ns: word(3) })
    }
}

/// Appends a request. Its number must fit 32 bits.
pub(super) fn request(operation: Operation, about: About<'_>, out: &mut Vec<u8>) {
    let kind = match operation {
        Operation::Get | Operation::Incr => GET,
        Operation::Range => SCAN,
        Operation::Set => SET,
        Operation::Kernel(kernel) => kernel,
    };
    let message = Message { id: about.id as u32, kind, key: about.key as u32, run_ns: 0 };
    out.extend_from_slice(&message.encode());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_words_with_the_lowest_byte_first() {
        let message = Message { id: 1, kind: SCAN, key: 0x0102, run_ns: u32::MAX };
        let bytes = message.encode();
        assert_eq!(bytes, [1, 0, 0, 0, 11, 0, 0, 0, 2, 1, 0, 0, 255, 255, 255, 255]);
        assert_eq!(Message::decode(&bytes), Some(message));
        assert_eq!(Message::decode(&bytes[1..]), None);
        assert_eq!(Message::decode(&[0; 17]), None);
    }
}
