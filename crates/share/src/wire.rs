//! Messages between the broker and its members, each one packet of a Unix socket.
//!
//! Both ends run on one machine, so words are as the machine has them.
//!
//! ```text
//!  member                                broker
//!  JOIN service, weight, kind, tid ----> looks at the peer: process, user
//!       <---- ADMITTED number, class; table, page       (or REFUSED, why)
//!  maps both
//!  MAPPED ----------------------------> seals the page; tells everyone
//!       <---- PAGE number; page          for each of the others
//!       <---- WELCOME
//!       <---- PAGE, GONE                 later, at any time
//!       <---- EXPELLED, ENDED            it is no member any more
//!  STATUS ----------------------------> (from anybody)
//!       <---- text
//!  QUEUE -----------------------------> (from the broker's own user)
//!       <---- QUEUE; memory of the common queue; /dev/quaver, if there is one
//! ```

use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use crate::layout::{MAGIC, VERSION};

/// The length of a message's text: longer ones are cut.
const TEXT: usize = 224;
/// The length of a message.
const LENGTH: usize = 32 + TEXT;

/// What a message is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub(crate) enum Subject {
    Join = 1,
    Admitted,
    Mapped,
    Page,
    Welcome,
    Gone,
    Refused,
    Expelled,
    Status,
    Ended,
    Queue,
}

const SUBJECTS: [Subject; 11] = [
    Subject::Join,
    Subject::Admitted,
    Subject::Mapped,
    Subject::Page,
    Subject::Welcome,
    Subject::Gone,
    Subject::Refused,
    Subject::Expelled,
    Subject::Status,
    Subject::Ended,
    Subject::Queue,
];

/// A message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Message {
    pub(crate) subject: Subject,
    pub(crate) words: [u32; 4],
    pub(crate) text: String,
}

impl Message {
    pub(crate) fn new(subject: Subject, words: [u32; 4]) -> Message {
        Message { subject, words, text: String::new() }
    }

    #[cfg(any(feature = "broker", test))]
    pub(crate) fn with_text(subject: Subject, text: impl Into<String>) -> Message {
        Message { text: text.into(), ..Message::new(subject, [0; 4]) }
    }

    pub(crate) fn to_bytes(&self) -> [u8; LENGTH] {
        let mut bytes = [0; LENGTH];
        let mut end = self.text.len().min(TEXT);
        while !self.text.is_char_boundary(end) {
            end -= 1;
        }
        let head = [MAGIC, VERSION, self.subject as u32, end as u32];
        for (i, word) in head.into_iter().chain(self.words).enumerate() {
            bytes[4 * i..4 * i + 4].copy_from_slice(&word.to_ne_bytes());
        }
        bytes[32..32 + end].copy_from_slice(&self.text.as_bytes()[..end]);
        bytes
    }

    /// What `bytes` say, or what is wrong with them.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Message, &'static str> {
        if bytes.len() != LENGTH {
            return Err("a message of another length");
        }
        let word =
            |i: usize| u32::from_ne_bytes(bytes[4 * i..4 * i + 4].try_into().expect("four bytes"));
        if word(0) != MAGIC {
            return Err("not a message of quaver-share");
        }
        if word(1) != VERSION {
            return Err("another version of quaver-share; use the same one on both sides");
        }
        let subject = SUBJECTS.into_iter().find(|&subject| subject as u32 == word(2));
        let text = &bytes[32..32 + (word(3) as usize).min(TEXT)];
        Ok(Message {
            subject: subject.ok_or("a message about nothing")?,
            words: [4, 5, 6, 7].map(word),
            text: String::from_utf8_lossy(text).into_owned(),
        })
    }
}

/// Sends a message, with descriptors.
pub(crate) fn send(
    socket: impl AsFd,
    message: &Message,
    files: &[BorrowedFd<'_>],
) -> Result<(), Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !files.is_empty() {
        ancillary.push(SendAncillaryMessage::ScmRights(files));
    }
    let bytes = message.to_bytes();
    sendmsg(socket, &[IoSlice::new(&bytes)], &mut ancillary, SendFlags::NOSIGNAL).map(drop)
}

/// A message that has come, or why it is none.
pub(crate) type Received = Result<Message, &'static str>;

/// Receives a message, with descriptors. `None`: the other end has closed.
pub(crate) fn receive(socket: impl AsFd) -> Result<Option<(Received, Vec<OwnedFd>)>, Errno> {
    let mut bytes = [0; LENGTH + 1];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC;
    let received = recvmsg(socket, &mut [IoSliceMut::new(&mut bytes)], &mut ancillary, flags)?;
    let mut files = Vec::new();
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(fds) = message {
            files.extend(fds);
        }
    }
    Ok((received.bytes > 0).then(|| (Message::parse(&bytes[..received.bytes]), files)))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn messages_arrive_as_they_were_sent() {
        for subject in SUBJECTS {
            let message = Message { text: "naïve".into(), ..Message::new(subject, [1, 2, 3, 4]) };
            assert_eq!(Message::parse(&message.to_bytes()), Ok(message));
        }
        let long = Message::with_text(Subject::Refused, "ä".repeat(200));
        assert_eq!(Message::parse(&long.to_bytes()).unwrap().text, "ä".repeat(TEXT / 2));
    }

    #[test]
    fn bad_messages_are_refused() {
        let good = Message::new(Subject::Join, [0; 4]).to_bytes();
        assert!(Message::parse(&[]).is_err());
        assert!(Message::parse(&good[1..]).is_err());
        for at in [0, 4, 8] {
            let mut bad = good;
            bad[at] ^= 0x5a;
            assert!(Message::parse(&bad).is_err(), "byte {at}");
        }
        let mut long = good;
        long[12..16].fill(0xff);
        assert_eq!(Message::parse(&long).unwrap().text.len(), TEXT);
    }
}
