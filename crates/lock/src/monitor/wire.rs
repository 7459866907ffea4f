//! Messages between lockd and its clients, each one packet of a Unix socket.
//!
//! Both ends run on one machine, so words are as the machine has them. The version changes with the
//! layout of anything that both ends or the kernel program share.

use super::Registration;

/// At the beginning of each message.
const MAGIC: u32 = u32::from_ne_bytes(*b"QvLk");
/// Of the messages, of [`Registration`], and of the page.
const VERSION: u32 = 2;
/// The length of an answer's text: longer ones are cut.
const TEXT: usize = 248;

/// What a client sends.
#[repr(C)]
struct Request {
    magic: u32,
    version: u32,
    registration: Registration,
}

/// What a client asks for.
#[cfg(any(feature = "host", test))]
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// The count of preempted threads; its threads are to be watched.
    Count(Registration),
    /// The states of its carriers.
    Carriers,
}

/// The length of the longest request in bytes.
pub(super) const REQUEST: usize = size_of::<Request>();
/// The length of a message's beginning.
const BEGINNING: usize = 8;
/// Most descriptors that come with an answer.
pub(super) const DESCRIPTORS: usize = 2;
/// The length of an answer in bytes.
pub(super) const ANSWER: usize = 16 + TEXT;

/// The message that asks for `registration`.
pub(super) fn request(registration: &Registration) -> [u8; REQUEST] {
    let request = Request { magic: MAGIC, version: VERSION, registration: *registration };
    // SAFETY: whole words without padding, of the same size.
    unsafe { std::mem::transmute(request) }
}

/// The message that asks for the states of carriers: nothing but the beginning.
pub(super) fn carriers_request() -> [u8; BEGINNING] {
    let mut bytes = [0; BEGINNING];
    bytes[..4].copy_from_slice(&MAGIC.to_ne_bytes());
    bytes[4..].copy_from_slice(&VERSION.to_ne_bytes());
    bytes
}

/// What `message` asks for, or what is wrong with it.
#[cfg(any(feature = "host", test))]
pub(super) fn parse_request(message: &[u8]) -> Result<Asked, &'static str> {
    if message.len() != REQUEST && message.len() != BEGINNING {
        return Err("a message of another length");
    }
    if word(message, 0) != Some(MAGIC) {
        return Err("not a message of quaver-lock");
    }
    if word(message, 4) != Some(VERSION) {
        return Err("another version of quaver-lock; use the same one on both sides");
    }
    let Ok(bytes) = <[u8; REQUEST]>::try_from(message) else { return Ok(Asked::Carriers) };
    // SAFETY: of the same size; any bits are a value.
    let request: Request = unsafe { std::mem::transmute(bytes) };
    request.registration.check()?;
    Ok(Asked::Count(request.registration))
}

fn word(message: &[u8], at: usize) -> Option<u32> {
    message.get(at..at + 4).map(|w| u32::from_ne_bytes(w.try_into().expect("four bytes")))
}

/// The message that says yes, or no and why.
#[cfg(any(feature = "host", test))]
pub(super) fn answer(result: Result<(), &str>) -> [u8; ANSWER] {
    let mut bytes = [0; ANSWER];
    let text = result.err().unwrap_or_default().as_bytes();
    let text = &text[..text.len().min(TEXT)];
    bytes[..4].copy_from_slice(&MAGIC.to_ne_bytes());
    bytes[4..8].copy_from_slice(&VERSION.to_ne_bytes());
    bytes[8..12].copy_from_slice(&u32::from(result.is_err()).to_ne_bytes());
    bytes[12..16].copy_from_slice(&(text.len() as u32).to_ne_bytes());
    bytes[16..16 + text.len()].copy_from_slice(text);
    bytes
}

/// What an answer says: yes, or no and why.
pub(super) fn parse_answer(message: &[u8]) -> Result<(), String> {
    if word(message, 0) != Some(MAGIC) || message.len() != ANSWER {
        return Err("it does not speak the language of lockd".into());
    }
    if word(message, 8) == Some(0) {
        return Ok(());
    }
    let length = (word(message, 12).unwrap_or(0) as usize).min(TEXT);
    Err(String::from_utf8_lossy(&message[16..16 + length]).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_arrive_as_they_were_sent() {
        let own = Registration::own().unwrap();
        let message = request(&own);
        assert_eq!(parse_request(&message), Ok(Asked::Count(own)));
        assert_eq!(parse_request(&carriers_request()), Ok(Asked::Carriers));
        assert_eq!(parse_answer(&answer(Ok(()))), Ok(()));
        assert_eq!(parse_answer(&answer(Err("no"))), Err("no".to_owned()));
        let long = "x".repeat(1000);
        assert_eq!(parse_answer(&answer(Err(&long))), Err("x".repeat(TEXT)));
    }

    #[test]
    fn bad_messages_are_refused() {
        let good = request(&Registration::own().unwrap());
        assert!(parse_request(&[]).is_err());
        assert!(parse_request(&good[1..]).is_err());
        for at in [0, 4, 24, 40, 44] {
            let mut bad = good;
            bad[at] ^= 0xff;
            assert!(parse_request(&bad).is_err(), "byte {at}");
        }
        for at in [0, 4] {
            let mut bad = carriers_request();
            bad[at] ^= 0xff;
            assert!(parse_request(&bad).is_err(), "byte {at}");
        }
        assert!(parse_answer(b"hello").is_err());
        assert!(parse_answer(&[0; ANSWER]).is_err());
    }
}
