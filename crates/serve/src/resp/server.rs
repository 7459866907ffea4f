//! Commands on the connection and the server.

use super::commands::{self, After, Context, Wrong};
use super::{glob, integer};
use crate::VERSION;

pub(super) fn ping(c: &mut Context<'_, '_>) -> Result<After, Wrong> {
    match c.words.get(1) {
        Some(message) => c.reply.bulk(message),
        None => c.reply.simple("PONG"),
    }
    Ok(After::GoOn)
}

pub(super) fn echo(c: &mut Context<'_, '_>) -> Result<After, Wrong> {
    let message = c.word(1);
    c.reply.bulk(message);
    Ok(After::GoOn)
}

pub(super) fn quit(c: &mut Context<'_, '_>) -> Result<After, Wrong> {
    c.reply.simple("OK");
    Ok(After::Close)
}

pub(super) fn select(c: &mut Context<'_, '_>) -> Result<After, Wrong> {
    if c.integer(1)? != 0 {
        return Err(Wrong::Database);
    }
    c.reply.simple("OK");
    Ok(After::GoOn)
}

/// `COMMAND ...`: no client needs the answer to go on.
pub(super) fn command(c: &mut Context<'_, '_>) -> Result<After, Wrong> {
    if c.is(1, "count") {
        c.reply.integer(commands::count() as i64);
    } else if c.is(1, "docs") {
        c.reply.map(0);
    } else {
        c.reply.array(0);
    }
    Ok(After::GoOn)
}

/// `CONFIG GET pattern...`: a few settings that clients ask for, as Redis would have them.
pub(super) fn config(c: &mut Context<'_, '_>) -> Result<After, Wrong> {
    if c.is(1, "resetstat") {
        c.reply.simple("OK");
        return Ok(After::GoOn);
    }
    if !c.is(1, "get") || c.words.len() < 3 {
        return Err(subcommand(c));
    }
    let clients = c.service.limits.connections.to_string();
    let bulk = c.service.limits.value.to_string();
    let timeout = c.service.limits.idle.map_or(0, |idle| idle.as_secs()).to_string();
    let settings: [(&str, &str); 7] = [
        ("save", ""),
        ("appendonly", "no"),
        ("databases", "1"),
        ("maxclients", &clients),
        ("maxmemory-policy", "noeviction"),
        ("proto-max-bulk-len", &bulk),
        ("timeout", &timeout),
    ];
    let wanted = |name: &str| {
        c.words.from(2).any(|pattern| glob::matches(&pattern.to_ascii_lowercase(), name.as_bytes()))
    };
    let found: Vec<_> = settings.into_iter().filter(|(name, _)| wanted(name)).collect();
    c.reply.map(found.len());
    for (name, value) in found {
        c.reply.bulk(name.as_bytes());
        c.reply.bulk(value.as_bytes());
    }
    Ok(After::GoOn)
}

/// `CLIENT ID|GETNAME|SETNAME|SETINFO|NO-EVICT|NO-TOUCH|REPLY ON`
pub(super) fn client(c: &mut Context<'_, '_>) -> Result<After, Wrong> {
    let words = c.words.len();
    if c.is(1, "id") && words == 2 {
        let id = c.session.id as i64;
        c.reply.integer(id);
    } else if c.is(1, "getname") && words == 2 {
        let name = c.session.name.clone();
        c.reply.bulk_or_null((!name.is_empty()).then_some(&name));
    } else if c.is(1, "setname") && words == 3 {
        name(c, 2)?;
        c.reply.simple("OK");
    } else if (c.is(1, "setinfo") && words == 4)
        || ((c.is(1, "no-evict") || c.is(1, "no-touch")) && words == 3)
        || (c.is(1, "reply") && words == 3 && c.is(2, "on"))
    {
        c.reply.simple("OK");
    } else {
        return Err(subcommand(c));
    }
    Ok(After::GoOn)
}

/// `HELLO [version [AUTH user password] [SETNAME name]]`
pub(super) fn hello(c: &mut Context<'_, '_>) -> Result<After, Wrong> {
    let mut version = c.session.version;
    if let Some(wanted) = c.words.get(1) {
        version = match integer(wanted) {
            Some(2) => 2,
            Some(3) => 3,
            _ => return Err(Wrong::Version),
        };
    }
    let mut index = 2;
    while index < c.words.len() {
        if c.is(index, "setname") && index + 1 < c.words.len() {
            name(c, index + 1)?;
            index += 2;
        } else {
            return Err(Wrong::Syntax);
        }
    }
    c.session.version = version;
    let id = c.session.id as i64;
    c.reply.speak(version);
    c.reply.map(6);
    for (name, value) in [("server", "quaver"), ("version", VERSION)] {
        c.reply.bulk(name.as_bytes());
        c.reply.bulk(value.as_bytes());
    }
    c.reply.bulk(b"proto");
    c.reply.integer(version.into());
    c.reply.bulk(b"id");
    c.reply.integer(id);
    for (name, value) in [("mode", "standalone"), ("role", "master")] {
        c.reply.bulk(name.as_bytes());
        c.reply.bulk(value.as_bytes());
    }
    Ok(After::GoOn)
}

/// Takes the word `index` for the connection's name.
fn name(c: &mut Context<'_, '_>, index: usize) -> Result<(), Wrong> {
    let name = c.word(index);
    if name.len() > 256 || !name.iter().all(u8::is_ascii_graphic) {
        return Err(Wrong::Syntax);
    }
    c.session.name = name.to_vec();
    Ok(())
}

pub(super) fn info(c: &mut Context<'_, '_>) -> Result<After, Wrong> {
    let counts = c.service.counts();
    let store = &c.service.store;
    let bytes = store.bytes().map_or(String::new(), |bytes| format!("used_memory:{bytes}\r\n"));
    let text = format!(
        "# Server\r\nredis_version:{VERSION}\r\nserver_name:quaver\r\nredis_mode:standalone\r\n\
         process_id:{pid}\r\nuptime_in_seconds:{seconds}\r\n\r\n\
         # Clients\r\nmaxclients:{clients}\r\n\r\n\
         # Memory\r\n{bytes}\r\n\
         # Stats\r\ntotal_connections_received:{connections}\r\n\
         total_commands_processed:{requests}\r\nkeyspace_hits:{hits}\r\n\
         keyspace_misses:{misses}\r\n\r\n\
         # Keyspace\r\nstore:{name}\r\ndb0:keys={keys},expires=0,avg_ttl=0\r\n",
        pid = std::process::id(),
        seconds = counts.seconds,
        clients = c.service.limits.connections,
        connections = counts.connections,
        requests = counts.requests,
        hits = counts.hits,
        misses = counts.misses,
        name = store.name(),
        keys = store.len(),
    );
    c.reply.bulk(text.as_bytes());
    Ok(After::GoOn)
}

fn subcommand(c: &Context<'_, '_>) -> Wrong {
    let word = c.word(1);
    Wrong::Subcommand(String::from_utf8_lossy(&word[..word.len().min(128)]).into_owned())
}
