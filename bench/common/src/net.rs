//! Servers under test, for `quaver bench net`: what they do, and how they are talked to.
//!
//! A server listens on a port of its own choice, prints `listening ADDRESS`, and ends with status 0
//! when its standard input ends. It answers *messages*: [`MESSAGE`] bytes, which come back as they
//! are. The first byte says what is to be done before that, see [`Kind`].
//!
//! All of them read whatever has come, up to [`ROOM`] bytes, work on the whole messages in it, and
//! send the answers by one call. One that waits for exactly one message would need another call to
//! learn that there is no second one.

use std::hint::black_box;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::process;
use std::thread;

use crate::compute::scalar;

/// Where servers listen: any port of the loopback device.
pub const ADDRESS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// Bytes of a message.
pub const MESSAGE: usize = 64;

/// Bytes that a server reads at a time.
pub const ROOM: usize = 4096;

/// The page of a server of HTTP that is there at once.
pub const FAST: &str = "/fast";
/// The page for which it computes, without giving way to others.
pub const SLOW: &str = "/slow";

/// What the first byte of a message asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Nothing: an answer at once.
    Get,
    /// Computing before the answer.
    Scan,
}

impl Kind {
    /// The byte.
    pub fn byte(self) -> u8 {
        match self {
            Kind::Get => 0,
            Kind::Scan => 1,
        }
    }
}

/// What came from a connection and is not answered yet.
pub struct Inbox {
    bytes: [u8; ROOM],
    filled: usize,
    answered: usize,
}

impl Inbox {
    /// An empty one.
    #[expect(clippy::new_without_default, reason = "it is 4 KiB: nothing to make in passing")]
    pub fn new() -> Inbox {
        Inbox { bytes: [0; ROOM], filled: 0, answered: 0 }
    }

    /// Where to read into; never empty. Forgets what has been answered.
    pub fn room(&mut self) -> &mut [u8] {
        self.bytes.copy_within(self.answered..self.filled, 0);
        self.filled -= self.answered;
        self.answered = 0;
        &mut self.bytes[self.filled..]
    }

    /// Notes that `n` bytes have come, does the work that whole messages ask for, of `iterations`
    /// rounds of [`scalar`], and returns the answer to them: it may be empty.
    pub fn answer(&mut self, n: usize, iterations: u64) -> &[u8] {
        self.filled += n;
        self.answered = self.filled / MESSAGE * MESSAGE;
        let answer = &self.bytes[..self.answered];
        for message in answer.chunks(MESSAGE) {
            if message[0] == Kind::Scan.byte() {
                black_box(scalar(1, iterations));
            }
        }
        answer
    }
}

/// Answers messages until the other side closes the connection, on a thread that may wait.
///
/// # Errors
///
/// Those of the connection.
pub fn converse(stream: &mut (impl Read + Write), iterations: u64) -> io::Result<()> {
    let mut inbox = Inbox::new();
    loop {
        match stream.read(inbox.room()) {
            Ok(0) => return Ok(()),
            Ok(n) => stream.write_all(inbox.answer(n, iterations))?,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Says where this server listens. From now on a kernel thread waits for the end of the standard
/// input, and ends the process.
pub fn announce(address: SocketAddr) {
    println!("listening {address}");
    thread::spawn(|| {
        // An input that cannot be read has ended, too.
        let _ = io::copy(&mut io::stdin(), &mut io::sink());
        process::exit(0);
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_messages_are_answered_and_parts_kept() {
        let sent: Vec<u8> = (0..2 * MESSAGE as u8).map(|i| i & !1).collect();
        let mut inbox = Inbox::new();
        let mut answers = Vec::new();
        for part in sent.chunks(50) {
            inbox.room()[..part.len()].copy_from_slice(part);
            answers.push(inbox.answer(part.len(), 1).to_vec());
        }
        assert_eq!(answers.iter().map(Vec::len).collect::<Vec<_>>(), [0, MESSAGE, MESSAGE]);
        assert_eq!(answers.concat(), sent);
        assert_eq!(inbox.room().len(), ROOM);
    }

    /// Gives its bytes in parts, and keeps what is written.
    struct Parts(Vec<u8>, usize, Vec<u8>);

    impl Read for Parts {
        fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
            let n = self.1.min(to.len()).min(self.0.len());
            to[..n].copy_from_slice(&self.0[..n]);
            self.0.drain(..n);
            Ok(n)
        }
    }

    impl Write for Parts {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.2.extend(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_conversation_ends_with_the_connection() {
        for part in [1, 63, 64, 65, 5000] {
            let sent: Vec<u8> = (0..100 * MESSAGE).map(|i| (i / 7) as u8 & !1).collect();
            let mut stream = Parts(sent.clone(), part, Vec::new());
            converse(&mut stream, 1).unwrap();
            assert_eq!(stream.2, sent, "in parts of {part}");
        }
    }
}
