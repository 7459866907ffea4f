//! What requests do: which commands there are, and what all have in common.

use super::reply::Replies;
use super::request::Words;
use super::{keys, numbers, server, strings};
use crate::limits::Room;
use crate::service::Service;
use crate::store::StoreError;

/// What belongs to a connection.
#[derive(Debug)]
pub(super) struct Session {
    /// Its number.
    pub(super) id: u64,
    /// The version of the protocol: 2 or 3.
    pub(super) version: u8,
    /// The name that the client has given it.
    pub(super) name: Vec<u8>,
}

impl Session {
    pub(super) fn new(id: u64) -> Session {
        Session { id, version: 2, name: Vec::new() }
    }
}

/// What becomes of the connection after a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum After {
    GoOn,
    Close,
}

/// Why a request is answered by an error. The texts are those of Redis, which clients know.
#[derive(Debug, thiserror::Error)]
pub(super) enum Wrong {
    #[error("ERR syntax error")]
    Syntax,
    #[error("ERR value is not an integer or out of range")]
    Integer,
    #[error("ERR increment or decrement would overflow")]
    Overflow,
    #[error("ERR invalid expire time in '{0}' command")]
    Expiry(&'static str),
    #[error("ERR the key is longer than {0} bytes")]
    Key(usize),
    #[error("ERR string exceeds maximum allowed size ({0} bytes)")]
    TooLong(usize),
    #[error("ERR the reply is too long, or no memory is left for it; ask for less")]
    Reply,
    #[error("ERR the count is above {0}; ask for less")]
    Rows(usize),
    #[error("ERR DB index is out of range")]
    Database,
    #[error("ERR invalid cursor")]
    Cursor,
    #[error("NOPROTO unsupported protocol version")]
    Version,
    #[error("ERR unknown subcommand '{0}'")]
    Subcommand(String),
    #[error("OOM command not allowed when used memory > 'maxmemory'.")]
    Full,
    #[error("ERR {0}")]
    Store(StoreError),
}

impl From<StoreError> for Wrong {
    fn from(error: StoreError) -> Wrong {
        match error {
            StoreError::Full { .. } => Wrong::Full,
            other => Wrong::Store(other),
        }
    }
}

/// Everything that a command works with.
pub(super) struct Context<'a, 'b> {
    pub(super) service: &'a Service,
    pub(super) session: &'a mut Session,
    /// With the command's name as the first one.
    pub(super) words: Words<'a>,
    pub(super) reply: &'a mut Replies<'b>,
}

/// Keys may be this long: stores keep them in pages and indexes.
const KEY: usize = 64 * 1024;

impl<'a> Context<'a, '_> {
    /// A word that the number of words says is there.
    pub(super) fn word(&self, index: usize) -> &'a [u8] {
        self.words.get(index).unwrap_or_default()
    }

    /// A word that is a key.
    pub(super) fn key(&self, index: usize) -> Result<&'a [u8], Wrong> {
        checked_key(self.word(index))
    }

    /// A word that is a number.
    pub(super) fn integer(&self, index: usize) -> Result<i64, Wrong> {
        super::integer(self.word(index)).ok_or(Wrong::Integer)
    }

    /// Is the word this one, in capitals or not?
    pub(super) fn is(&self, index: usize, word: &str) -> bool {
        self.word(index).eq_ignore_ascii_case(word.as_bytes())
    }
}

/// A key, if it is not too long.
pub(super) fn checked_key(key: &[u8]) -> Result<&[u8], Wrong> {
    if key.len() > KEY { Err(Wrong::Key(KEY)) } else { Ok(key) }
}

/// Makes sure that a reply of this many bytes has room.
pub(super) fn covered(room: &mut Room<'_>, bytes: usize) -> Result<(), Wrong> {
    if room.covers(bytes) { Ok(()) } else { Err(Wrong::Reply) }
}

type Command = fn(&mut Context<'_, '_>) -> Result<After, Wrong>;

/// A command: its name, how many words it has with its name, and what it does.
struct Entry {
    name: &'static str,
    least: usize,
    most: usize,
    run: Command,
}

const ANY: usize = usize::MAX;

const fn entry(name: &'static str, least: usize, most: usize, run: Command) -> Entry {
    Entry { name, least, most, run }
}

/// All commands. Those that benchmarks send by the million come first.
#[rustfmt::skip]
static COMMANDS: &[Entry] = &[
    entry("get", 2, 2, strings::get),
    entry("set", 3, ANY, strings::set),
    entry("range", 3, 4, keys::range),
    entry("ping", 1, 2, server::ping),
    entry("incr", 2, 2, numbers::incr),
    entry("mget", 2, ANY, strings::mget),
    entry("mset", 3, ANY, strings::mset),
    entry("append", 3, 3, strings::append),
    entry("client", 2, ANY, server::client),
    entry("command", 1, ANY, server::command),
    entry("config", 2, ANY, server::config),
    entry("dbsize", 1, 1, keys::dbsize),
    entry("decr", 2, 2, numbers::decr),
    entry("decrby", 3, 3, numbers::decrby),
    entry("del", 2, ANY, keys::del),
    entry("echo", 2, 2, server::echo),
    entry("exists", 2, ANY, keys::exists),
    entry("expire", 3, 3, keys::expire),
    entry("flushall", 1, 2, keys::flush),
    entry("flushdb", 1, 2, keys::flush),
    entry("getdel", 2, 2, strings::getdel),
    entry("getset", 3, 3, strings::getset),
    entry("hello", 1, ANY, server::hello),
    entry("incrby", 3, 3, numbers::incrby),
    entry("info", 1, ANY, server::info),
    entry("persist", 2, 2, keys::persist),
    entry("pexpire", 3, 3, keys::pexpire),
    entry("psetex", 4, 4, strings::psetex),
    entry("pttl", 2, 2, keys::pttl),
    entry("quit", 1, ANY, server::quit),
    entry("scan", 2, ANY, keys::scan),
    entry("select", 2, 2, server::select),
    entry("setex", 4, 4, strings::setex),
    entry("setnx", 3, 3, strings::setnx),
    entry("strlen", 2, 2, strings::strlen),
    entry("ttl", 2, 2, keys::ttl),
    entry("type", 2, 2, keys::type_of),
    entry("unlink", 2, ANY, keys::del),
];

/// How many commands there are.
pub(super) fn count() -> usize {
    COMMANDS.len()
}

/// Runs a request and appends its reply. A request without words has none.
pub(super) fn run(
    service: &Service,
    session: &mut Session,
    words: Words<'_>,
    output: &mut Vec<u8>,
) -> After {
    let Some(name) = words.get(0) else { return After::GoOn };
    let version = session.version;
    let mut reply = Replies::new(output, version);
    let before = reply.len();
    let found = COMMANDS.iter().find(|entry| name.eq_ignore_ascii_case(entry.name.as_bytes()));
    let Some(entry) = found else {
        reply.error(unknown(name, words));
        return After::GoOn;
    };
    if words.len() < entry.least || words.len() > entry.most {
        let name = entry.name;
        reply.error(format_args!("ERR wrong number of arguments for '{name}' command"));
        return After::GoOn;
    }
    let mut context = Context { service, session, words, reply: &mut reply };
    match (entry.run)(&mut context) {
        Ok(after) => after,
        Err(wrong) => {
            reply.truncate(before);
            reply.error(wrong);
            After::GoOn
        }
    }
}

/// What Redis says to a command that it does not know.
fn unknown(name: &[u8], words: Words<'_>) -> String {
    let shown = |word: &[u8]| String::from_utf8_lossy(&word[..word.len().min(128)]).into_owned();
    let mut text = format!("ERR unknown command '{}', with args beginning with: ", shown(name));
    for word in words.from(1) {
        if text.len() >= 256 {
            break;
        }
        text += &format!("'{}' ", shown(word));
    }
    text
}
