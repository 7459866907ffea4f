//! Requests of memcached's binary protocol: bytes in, a command out.
//!
//! A request is a header of 24 bytes, then extras, key and value, whose lengths it says:
//!
//! ```text
//!  0 magic  1 opcode  2 key length  4 extras length  5 data type  6 partition
//!  8 length of all three  12 opaque, for the client  16 version (cas)
//! ```

use super::operations::Mode;
use super::text::KEY;

/// The first byte of a request.
pub const REQUEST: u8 = 0x80;
/// The first byte of a response.
pub const RESPONSE: u8 = 0x81;
/// Bytes of a header.
pub const HEADER: usize = 24;

/// What is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Status {
    /// It is done.
    Ok = 0,
    /// There is no such entry.
    NotFound = 1,
    /// There is one, or another version.
    Exists = 2,
    /// The value is too long.
    TooLarge = 3,
    /// The lengths, or the key, do not fit the command.
    Invalid = 4,
    /// There is nothing to append to.
    NotStored = 5,
    /// The value is no number.
    NoNumber = 6,
    /// There is no such command.
    Unknown = 0x81,
    /// There is no room.
    Full = 0x82,
    /// The store fails.
    Failed = 0x84,
}

impl Status {
    /// What memcached says of it.
    pub fn text(self) -> &'static str {
        match self {
            Status::Ok => "",
            Status::NotFound => "Not found",
            Status::Exists => "Data exists for key.",
            Status::TooLarge => "Too large.",
            Status::Invalid => "Invalid arguments",
            Status::NotStored => "Not stored.",
            Status::NoNumber => "Non-numeric server-side value for incr or decr",
            Status::Unknown => "Unknown command",
            Status::Full => "Out of memory",
            Status::Failed => "Internal error",
        }
    }
}

/// What a command does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// `get` and its kin.
    Get {
        /// The reply has the key.
        with_key: bool,
        /// The entry expires at this time.
        touch: Option<u32>,
    },
    /// `set` and its kin.
    Store {
        /// Under which condition, and how.
        mode: Mode,
        /// The client's flags.
        flags: u32,
        /// When the entry expires.
        expiry: u32,
    },
    /// `delete`
    Delete,
    /// `increment`, `decrement`
    Add {
        /// By how much.
        amount: u64,
        /// Less, not more.
        down: bool,
        /// What it is if there is none.
        initial: u64,
        /// When it expires then; all bits set: it is not made.
        expiry: u32,
    },
    /// `touch`
    Touch(u32),
    /// `flush`, so many seconds from now
    Flush(u32),
    /// `noop`
    Noop,
    /// `version`
    Version,
    /// `stat`
    Stat,
    /// `verbosity`
    Verbosity,
    /// `quit`
    Quit,
}

/// A request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request<'a> {
    /// As it was sent: the reply has it too.
    pub opcode: u8,
    /// What it asks for.
    pub command: Command,
    /// Only the unexpected is answered: that there is an entry, or that something failed.
    pub quiet: bool,
    /// The client's, for the reply.
    pub opaque: u32,
    /// The version that the entry must have; 0: any.
    pub version: u64,
    /// The key.
    pub key: &'a [u8],
    /// The value.
    pub value: &'a [u8],
}

/// What has been found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step<'a> {
    /// The request goes on in bytes that have not arrived.
    More,
    /// A request of this many bytes.
    Request(usize, Request<'a>),
    /// No request that can be served. It is answered, and `skip` more bytes belong to it.
    Wrong {
        /// The code that the reply has.
        opcode: u8,
        /// The client's, for the reply.
        opaque: u32,
        /// Why.
        why: Status,
        /// Bytes that are used.
        used: usize,
        /// Bytes that follow and belong to it.
        skip: usize,
    },
    /// No header: the client speaks something else.
    Strange,
}

/// Parses the request at the beginning of `input`, whose body has `limit` bytes at most.
pub fn parse(input: &[u8], limit: usize) -> Step<'_> {
    match input.first() {
        None => return Step::More,
        Some(&REQUEST) => {}
        Some(_) => return Step::Strange,
    }
    let Some(header) = input.first_chunk::<HEADER>() else { return Step::More };
    let (opcode, extras) = (header[1], usize::from(header[4]));
    let key = usize::from(u16::from_be_bytes([header[2], header[3]]));
    let body = read_u32(header, 8) as usize;
    let opaque = read_u32(header, 12);
    let wrong = |why, used, skip| Step::Wrong { opcode, opaque, why, used, skip };
    if body > limit {
        return wrong(Status::TooLarge, HEADER, body);
    }
    if extras + key > body {
        return wrong(Status::Invalid, HEADER, body);
    }
    let used = HEADER + body;
    let Some(body) = input.get(HEADER..used) else { return Step::More };
    let (extras, rest) = body.split_at(extras);
    let (key, value) = rest.split_at(key);
    match command(opcode, extras, key, value) {
        Ok((command, quiet)) => {
            let version = u64::from_be_bytes(header[16..].try_into().unwrap_or_default());
            Step::Request(used, Request { opcode, command, quiet, opaque, version, key, value })
        }
        Err(why) => wrong(why, used, 0),
    }
}

/// The command of a code, and whether it is a quiet one.
fn command(opcode: u8, extras: &[u8], key: &[u8], value: &[u8]) -> Result<(Command, bool), Status> {
    // A quiet command is another code for the same; `code` is the one that is not.
    let (code, quiet) = match opcode {
        0x09 => (0x00, true),
        0x0d => (0x0c, true),
        0x11..=0x1a => (QUIET[usize::from(opcode - 0x11)], true),
        0x1e | 0x24 => (opcode - 1, true),
        _ => (opcode, false),
    };
    let touch = || Ok::<u32, Status>(read_u32(exactly::<4>(extras)?, 0));
    let command = match code {
        0x00 | 0x0c => {
            exactly::<0>(extras)?;
            Command::Get { with_key: code == 0x0c, touch: None }
        }
        0x1d | 0x23 => Command::Get { with_key: code == 0x23, touch: Some(touch()?) },
        0x01..=0x03 => {
            let extras = exactly::<8>(extras)?;
            let mode = [Mode::Set, Mode::Add, Mode::Replace][usize::from(code - 1)];
            Command::Store { mode, flags: read_u32(extras, 0), expiry: read_u32(extras, 4) }
        }
        0x0e | 0x0f => {
            exactly::<0>(extras)?;
            let mode = if code == 0x0e { Mode::Append } else { Mode::Prepend };
            Command::Store { mode, flags: 0, expiry: 0 }
        }
        0x04 => Command::Delete,
        0x05 | 0x06 => {
            let extras = exactly::<20>(extras)?;
            let long =
                |at| u64::from(read_u32(extras, at)) << 32 | u64::from(read_u32(extras, at + 4));
            let (amount, initial) = (long(0), long(8));
            Command::Add { amount, down: code == 0x06, initial, expiry: read_u32(extras, 16) }
        }
        0x1c => Command::Touch(touch()?),
        0x08 if extras.is_empty() => Command::Flush(0),
        0x08 => Command::Flush(touch()?),
        0x1b => {
            touch()?;
            Command::Verbosity
        }
        0x07 => Command::Quit,
        0x0a => Command::Noop,
        0x0b => Command::Version,
        0x10 => Command::Stat,
        _ => return Err(Status::Unknown),
    };
    let (needs_key, may_have_value) = match command {
        Command::Store { .. } => (true, true),
        Command::Get { .. } | Command::Delete | Command::Add { .. } | Command::Touch(_) => {
            (true, false)
        }
        _ => (false, false),
    };
    let key_fits = if needs_key {
        (1..=KEY).contains(&key.len())
    } else {
        key.is_empty() || command == Command::Stat
    };
    if key_fits && (may_have_value || value.is_empty()) {
        Ok((command, quiet))
    } else {
        Err(Status::Invalid)
    }
}

/// What the codes from 0x11 on say, quietly: set, add, replace, delete, increment, decrement, quit,
/// flush, append, prepend.
const QUIET: [u8; 10] = [0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, 0x0e, 0x0f];

fn exactly<const N: usize>(extras: &[u8]) -> Result<&[u8; N], Status> {
    extras.try_into().map_err(|_| Status::Invalid)
}

fn read_u32(bytes: &[u8], at: usize) -> u32 {
    let bytes = bytes.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
    u32::from_be_bytes(bytes.unwrap_or_default())
}

/// A response.
#[derive(Clone, Copy, Debug, Default)]
pub struct Response<'a> {
    /// That of the request.
    pub opcode: u8,
    /// That of the request.
    pub opaque: u32,
    /// 0: done.
    pub status: u16,
    /// Of the entry; 0: there is none.
    pub version: u64,
    /// Flags of the entry, if it is one.
    pub extras: &'a [u8],
    /// Its key, if that is asked for.
    pub key: &'a [u8],
    /// Its value, or a text.
    pub value: &'a [u8],
}

impl Response<'_> {
    /// Appends the bytes of the response.
    pub fn write(&self, output: &mut Vec<u8>) {
        let Response { opcode, opaque, status, version, extras, key, value } = self;
        output.extend_from_slice(&[RESPONSE, *opcode]);
        output.extend_from_slice(&(key.len() as u16).to_be_bytes());
        output.extend_from_slice(&[extras.len() as u8, 0]);
        output.extend_from_slice(&status.to_be_bytes());
        output.extend_from_slice(&((extras.len() + key.len() + value.len()) as u32).to_be_bytes());
        output.extend_from_slice(&opaque.to_be_bytes());
        output.extend_from_slice(&version.to_be_bytes());
        for part in [extras, key, value] {
            output.extend_from_slice(part);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A request: code, extras, key, value.
    fn request(opcode: u8, extras: &[u8], key: &[u8], value: &[u8]) -> Vec<u8> {
        let mut bytes = vec![REQUEST, opcode];
        bytes.extend_from_slice(&(key.len() as u16).to_be_bytes());
        bytes.extend_from_slice(&[extras.len() as u8, 0, 0, 0]);
        bytes.extend_from_slice(&((extras.len() + key.len() + value.len()) as u32).to_be_bytes());
        bytes.extend_from_slice(&7_u32.to_be_bytes());
        bytes.extend_from_slice(&9_u64.to_be_bytes());
        [bytes, extras.to_vec(), key.to_vec(), value.to_vec()].concat()
    }

    fn parsed(bytes: &[u8]) -> Request<'_> {
        match parse(bytes, 1000) {
            Step::Request(used, request) if used == bytes.len() => request,
            other => panic!("{other:?}"),
        }
    }

    fn refused(bytes: &[u8]) -> Status {
        match parse(bytes, 1000) {
            Step::Wrong { why, used, skip, .. } => {
                assert_eq!(used + skip, bytes.len());
                why
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn requests_are_what_they_say() {
        let bytes = request(0x11, &[0, 0, 0, 5, 0, 0, 0, 6], b"key", b"value");
        let set = parsed(&bytes);
        assert_eq!(set.command, Command::Store { mode: Mode::Set, flags: 5, expiry: 6 });
        assert_eq!((set.key, set.value), (b"key".as_slice(), b"value".as_slice()));
        assert_eq!((set.quiet, set.opaque, set.version, set.opcode), (true, 7, 9, 0x11));
        for end in 0..bytes.len() {
            assert_eq!(parse(&bytes[..end], 1000), Step::More);
        }
    }

    #[test]
    fn quiet_codes_are_the_plain_ones() {
        let long = [0; 20];
        for (quiet, plain) in [
            (0x09, 0x00),
            (0x0d, 0x0c),
            (0x11, 0x01),
            (0x12, 0x02),
            (0x13, 0x03),
            (0x14, 0x04),
            (0x15, 0x05),
            (0x16, 0x06),
            (0x17, 0x07),
            (0x18, 0x08),
            (0x19, 0x0e),
            (0x1a, 0x0f),
            (0x1e, 0x1d),
            (0x24, 0x23),
        ] {
            let (extras, key): (_, &[u8]) = match plain {
                0x01..=0x03 => (&long[..8], b"k"),
                0x05 | 0x06 => (&long[..], b"k"),
                0x1d | 0x23 => (&long[..4], b"k"),
                0x07 | 0x08 => (&long[..0], b""),
                _ => (&long[..0], b"k"),
            };
            let (one, other) = (request(quiet, extras, key, b""), request(plain, extras, key, b""));
            let (one, other) = (parsed(&one), parsed(&other));
            assert_eq!(one.command, other.command, "{quiet:#x}");
            assert!(one.quiet && !other.quiet);
        }
    }

    #[test]
    fn what_does_not_fit_is_refused_as_a_whole() {
        assert_eq!(refused(&request(0x55, b"", b"", b"")), Status::Unknown);
        assert_eq!(refused(&request(0x00, b"", b"", b"")), Status::Invalid);
        assert_eq!(refused(&request(0x00, b"", b"k", b"v")), Status::Invalid);
        assert_eq!(refused(&request(0x00, b"x", b"k", b"")), Status::Invalid);
        assert_eq!(refused(&request(0x01, b"1234567", b"k", b"")), Status::Invalid);
        assert_eq!(refused(&request(0x00, b"", &[b'k'; 251], b"")), Status::Invalid);
        assert_eq!(refused(&request(0x0a, b"", b"k", b"")), Status::Invalid);
        let large = request(0x01, &[0; 8], b"k", &[0; 1000]);
        assert_eq!(refused(&large), Status::TooLarge);
        let mut short = request(0x00, b"", b"key", b"");
        short[11] = 2;
        let why = parse(&short, 1000);
        assert!(matches!(why, Step::Wrong { why: Status::Invalid, .. }));
        assert_eq!(parse(b"get k\r\n", 1000), Step::Strange);
    }
}
