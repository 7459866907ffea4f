//! Requests of memcached's text protocol: bytes in, a command out.
//!
//! A request is a line, for storage commands followed by a block of data of the length that the
//! line says, and a line end.

use super::operations::Mode;

/// What a client may send.
#[derive(Clone, Copy, Debug)]
pub struct TextLimits {
    /// Bytes of a value.
    pub value: usize,
}

/// Bytes of a line: some hundreds of keys.
const LINE: usize = 64 * 1024;
/// Bytes of a key.
pub const KEY: usize = 250;

/// A command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command<'a> {
    /// `get`, `gets`, `gat`, `gats`
    Get {
        /// The keys.
        keys: Vec<&'a [u8]>,
        /// Versions are asked for too.
        versions: bool,
        /// The entries found expire at this time.
        touch: Option<i64>,
    },
    /// `set`, `add`, `replace`, `append`, `prepend`, `cas`
    Store {
        /// Under which condition, and how.
        mode: Mode,
        /// The key.
        key: &'a [u8],
        /// The client's flags.
        flags: u32,
        /// When the entry expires.
        expiry: i64,
        /// The value.
        value: &'a [u8],
    },
    /// `delete`
    Delete(&'a [u8]),
    /// `incr`, `decr`
    Add {
        /// The key.
        key: &'a [u8],
        /// By how much.
        amount: u64,
        /// Less, not more.
        down: bool,
    },
    /// `touch`
    Touch {
        /// The key.
        key: &'a [u8],
        /// When the entry expires.
        expiry: i64,
    },
    /// `stats`, with what is asked for
    Stats(Option<&'a [u8]>),
    /// `flush_all`, so many seconds from now
    Flush(i64),
    /// `version`
    Version,
    /// `verbosity`
    Verbosity,
    /// `quit`
    Quit,
}

/// Why a line is no command. The texts are those of memcached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// There is no such command, or it has another number of words.
    #[error("ERROR")]
    Unknown,
    /// A key or a number is none.
    #[error("CLIENT_ERROR bad command line format")]
    Format,
    /// An amount is none.
    #[error("CLIENT_ERROR invalid numeric delta argument")]
    Amount,
    /// A time is none.
    #[error("CLIENT_ERROR invalid exptime argument")]
    Expiry,
    /// The data are shorter or longer than the line says.
    #[error("CLIENT_ERROR bad data chunk")]
    Data,
    /// The data are longer than a value may be.
    #[error("SERVER_ERROR object too large for cache")]
    TooLarge,
    /// The line does not end.
    #[error("CLIENT_ERROR line too long")]
    Line,
}

/// What has been found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step<'a> {
    /// The request goes on in bytes that have not arrived.
    More,
    /// A request.
    Command {
        /// Its bytes.
        used: usize,
        /// What it asks for.
        command: Command<'a>,
        /// The client wants no answer.
        quiet: bool,
    },
    /// No request.
    Wrong {
        /// Its bytes.
        used: usize,
        /// Bytes that follow and belong to it, of which some may not have arrived.
        skip: usize,
        /// Why.
        why: Malformed,
    },
}

/// Parses the request at the beginning of `input`.
pub fn parse(input: &[u8], limits: TextLimits) -> Step<'_> {
    let seen = &input[..input.len().min(LINE)];
    let Some(end) = seen.iter().position(|&byte| byte == b'\n') else {
        if input.len() < LINE {
            return Step::More;
        }
        return Step::Wrong { used: input.len(), skip: 0, why: Malformed::Line };
    };
    let line = &input[..end];
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let used = end + 1;
    let mut words: Vec<&[u8]> = line.split(|&b| b == b' ').filter(|w| !w.is_empty()).collect();
    if words.is_empty() {
        return Step::Wrong { used, skip: 0, why: Malformed::Unknown };
    }
    let name = words.remove(0);
    let parsed = match name {
        b"get" | b"gets" => get(words, name == b"gets", false),
        b"gat" | b"gats" => get(words, name == b"gats", true),
        _ => {
            let quiet = words.pop_if(|word| *word == b"noreply").is_some();
            if let Some(mode) = mode(name) {
                return match Line::parse(mode, &words) {
                    Ok(line) => line.with_data(input, used, quiet, limits),
                    Err((why, skip)) => Step::Wrong { used, skip, why },
                };
            }
            return match one_line(name, &words, quiet) {
                Ok(command) => Step::Command { used, command, quiet },
                Err(why) => Step::Wrong { used, skip: 0, why },
            };
        }
    };
    match parsed {
        Ok(command) => Step::Command { used, command, quiet: false },
        Err(why) => Step::Wrong { used, skip: 0, why },
    }
}

fn get(mut words: Vec<&[u8]>, versions: bool, touch: bool) -> Result<Command<'_>, Malformed> {
    if words.len() < 1 + usize::from(touch) {
        return Err(Malformed::Unknown);
    }
    let touch =
        if touch { Some(number::<i64>(words.remove(0)).ok_or(Malformed::Expiry)?) } else { None };
    if !words.iter().all(|key| is_key(key)) {
        return Err(Malformed::Format);
    }
    Ok(Command::Get { keys: words, versions, touch })
}

/// Which commands store; `Compare` gets its version later.
fn mode(name: &[u8]) -> Option<Mode> {
    Some(match name {
        b"set" => Mode::Set,
        b"add" => Mode::Add,
        b"replace" => Mode::Replace,
        b"append" => Mode::Append,
        b"prepend" => Mode::Prepend,
        b"cas" => Mode::Compare(0),
        _ => return None,
    })
}

/// The line of a command that stores.
struct Line<'a> {
    mode: Mode,
    key: &'a [u8],
    flags: u32,
    expiry: i64,
    length: usize,
}

impl<'a> Line<'a> {
    /// With an error come the bytes of data that follow the line, if it says how many.
    fn parse(mode: Mode, words: &[&'a [u8]]) -> Result<Line<'a>, (Malformed, usize)> {
        let (first, version) = match (mode, words) {
            (Mode::Compare(_), [first @ .., version]) => (first, Some(*version)),
            _ => (words, None),
        };
        let &[key, flags, expiry, length] = first else {
            return Err((Malformed::Unknown, 0));
        };
        let length = number::<i32>(length).and_then(|length| usize::try_from(length).ok());
        let length = length.ok_or((Malformed::Format, 0))?;
        let wrong = (Malformed::Format, length + 2);
        if !is_key(key) {
            return Err(wrong);
        }
        let mode = match version {
            Some(version) => Mode::Compare(number(version).ok_or(wrong)?),
            None => mode,
        };
        let (flags, expiry) = (number(flags).ok_or(wrong)?, number(expiry).ok_or(wrong)?);
        Ok(Line { mode, key, flags, expiry, length })
    }

    /// The command, with the data that follow at `start`.
    fn with_data(self, input: &'a [u8], start: usize, quiet: bool, limits: TextLimits) -> Step<'a> {
        let Line { mode, key, flags, expiry, length } = self;
        if length > limits.value {
            return Step::Wrong { used: start, skip: length + 2, why: Malformed::TooLarge };
        }
        let end = start + length;
        match input.get(end..end + 2) {
            None => Step::More,
            Some(b"\r\n") => {
                let command =
                    Command::Store { mode, key, flags, expiry, value: &input[start..end] };
                Step::Command { used: end + 2, command, quiet }
            }
            Some(_) => Step::Wrong { used: end + 2, skip: 0, why: Malformed::Data },
        }
    }
}

/// A command without data. `noreply` has been taken off `words`.
fn one_line<'a>(name: &[u8], words: &[&'a [u8]], quiet: bool) -> Result<Command<'a>, Malformed> {
    let key = |key: &'a [u8]| if is_key(key) { Ok(key) } else { Err(Malformed::Format) };
    match (name, words) {
        // The number was a time once, and may still be sent if it is 0.
        (b"delete", [name] | [name, b"0"]) => Ok(Command::Delete(key(name)?)),
        (b"delete", [_, _]) => Err(Malformed::Format),
        (b"incr" | b"decr", [name_of, amount]) => Ok(Command::Add {
            key: key(name_of)?,
            amount: number(amount).ok_or(Malformed::Amount)?,
            down: name == b"decr",
        }),
        (b"touch", [name, expiry]) => {
            Ok(Command::Touch { key: key(name)?, expiry: number(expiry).ok_or(Malformed::Expiry)? })
        }
        (b"flush_all", []) => Ok(Command::Flush(0)),
        (b"flush_all", [delay]) => Ok(Command::Flush(number(delay).ok_or(Malformed::Expiry)?)),
        // Without an answer memcached takes anything.
        (b"verbosity", []) if quiet => Ok(Command::Verbosity),
        (b"verbosity", [level]) => {
            number::<u32>(level).map(|_| Command::Verbosity).ok_or(Malformed::Format)
        }
        // Nothing of these can do without an answer.
        _ if quiet => Err(Malformed::Unknown),
        (b"stats", []) => Ok(Command::Stats(None)),
        (b"stats", [what]) => Ok(Command::Stats(Some(what))),
        (b"version", []) => Ok(Command::Version),
        (b"quit", []) => Ok(Command::Quit),
        _ => Err(Malformed::Unknown),
    }
}

fn is_key(key: &[u8]) -> bool {
    (1..=KEY).contains(&key.len()) && !key.iter().any(|byte| *byte <= b' ' || *byte == 0x7f)
}

fn number<T: std::str::FromStr>(text: &[u8]) -> Option<T> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: TextLimits = TextLimits { value: 1000 };

    fn command(text: &str) -> (Command<'_>, bool) {
        match parse(text.as_bytes(), LIMITS) {
            Step::Command { used, command, quiet } => {
                assert_eq!(used, text.len());
                (command, quiet)
            }
            other => panic!("{text:?}: {other:?}"),
        }
    }

    fn wrong(text: &str) -> (usize, usize, Malformed) {
        match parse(text.as_bytes(), LIMITS) {
            Step::Wrong { used, skip, why } => (used, skip, why),
            other => panic!("{text:?}: {other:?}"),
        }
    }

    #[test]
    fn commands_are_what_they_say() {
        let keys: Vec<&[u8]> = vec![b"a", b"noreply"];
        let get = Command::Get { keys, versions: false, touch: None };
        assert_eq!(command("get a  noreply\r\n"), (get, false));
        let gats = Command::Get { keys: vec![b"a"], versions: true, touch: Some(-1) };
        assert_eq!(command("gats -1 a\n"), (gats, false));
        let (key, value): (&[u8], &[u8]) = (b"k", b"a\r\nb");
        let set = Command::Store { mode: Mode::Set, key, flags: 7, expiry: 0, value };
        assert_eq!(command("set k 7 0 4 noreply\r\na\r\nb\r\n"), (set, true));
        let mode = Mode::Compare(u64::MAX);
        let cas = Command::Store { mode, key, flags: 0, expiry: -5, value: b"" };
        assert_eq!(command("cas k 0 -5 0 18446744073709551615\r\n\r\n"), (cas, false));
        assert_eq!(command("delete k 0\r\n").0, Command::Delete(b"k"));
        let add = Command::Add { key: b"k", amount: 3, down: true };
        assert_eq!(command("decr k 3 noreply\r\n"), (add, true));
        assert_eq!(command("flush_all noreply\r\n"), (Command::Flush(0), true));
        assert_eq!(command("flush_all 10\r\n"), (Command::Flush(10), false));
        assert_eq!(command("verbosity 1 noreply\r\n"), (Command::Verbosity, true));
        assert_eq!(command("verbosity noreply\r\n"), (Command::Verbosity, true));
        assert_eq!(command("stats settings\r\n").0, Command::Stats(Some(b"settings")));
    }

    #[test]
    fn what_is_not_whole_is_waited_for() {
        let text = "set k 0 0 5\r\nvalue\r\n";
        for end in 0..text.len() {
            assert_eq!(parse(&text.as_bytes()[..end], LIMITS), Step::More);
        }
    }

    #[test]
    fn errors_say_what_is_wrong_and_where_the_next_request_begins() {
        let long = "k".repeat(251);
        let line = "x".repeat(LINE);
        for (text, used, skip, why) in [
            ("\r\n", 2, 0, Malformed::Unknown),
            ("frobnicate\r\n", 12, 0, Malformed::Unknown),
            ("get\r\n", 5, 0, Malformed::Unknown),
            ("delete\r\n", 8, 0, Malformed::Unknown),
            ("delete k 5\r\n", 12, 0, Malformed::Format),
            ("delete a b c d e\r\n", 18, 0, Malformed::Unknown),
            ("quit noreply\r\n", 14, 0, Malformed::Unknown),
            ("version noreply\r\n", 17, 0, Malformed::Unknown),
            ("stats noreply\r\n", 15, 0, Malformed::Unknown),
            ("verbosity\r\n", 11, 0, Malformed::Unknown),
            ("verbosity foo bar my\r\n", 22, 0, Malformed::Unknown),
            ("incr k x\r\n", 10, 0, Malformed::Amount),
            ("touch k x\r\n", 11, 0, Malformed::Expiry),
            ("set k 0 0 -1\r\n", 14, 0, Malformed::Format),
            ("flush_all x\r\n", 13, 0, Malformed::Expiry),
            ("set k x 0 5\r\n", 13, 7, Malformed::Format),
            ("set k 0 0 1001\r\n", 16, 1003, Malformed::TooLarge),
            ("set k 0 0 2\r\nabcd", 17, 0, Malformed::Data),
            (&format!("get {long}\r\n"), 257, 0, Malformed::Format),
            (&format!("set {long} 0 0 5\r\n"), 263, 7, Malformed::Format),
            (&line, LINE, 0, Malformed::Line),
        ] {
            assert_eq!(wrong(text), (used, skip, why), "{text:.20}");
        }
    }
}
