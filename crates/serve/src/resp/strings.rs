//! Commands on values as strings.

use std::borrow::Cow;

use super::commands::{After, Context, Wrong, checked_key, covered};
use crate::limits::Room;
use crate::store::{Change, Item, now_ms};

/// What a condition of `SET` asks for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Only {
    Always,
    IfAbsent,
    IfPresent,
}

/// When an entry that is set expires.
#[derive(Clone, Copy)]
enum Expiry {
    Never,
    AsBefore,
    At(u64),
}

/// The options of `SET`.
struct Options {
    only: Only,
    expiry: Expiry,
    /// The reply is the value before.
    get: bool,
}

pub(super) fn get(c: &mut Context<'_, '_>) -> Result<After, Wrong> {
    let found = c.service.store.get(c.key(1)?)?;
    c.service.count_found(found.is_some());
    let value = found.as_ref().map(|item| item.value.as_slice());
    let room = &mut Room::new(&c.service.limits);
    covered(room, c.reply.len() + value.map_or(0, <[u8]>::len))?;
    c.reply.bulk_or_null(value);
    Ok(After::GoOn)
}

pub(super) fn mget(c: &mut Context<'_, '_>) -> Result<After, Wrong> {
    let start = c.reply.len();
    let room = &mut Room::new(&c.service.limits);
    c.reply.array(c.words.len() - 1);
    for key in c.words.from(1) {
        let found = c.service.store.get(checked_key(key)?)?;
        c.service.count_found(found.is_some());
        let value = found.as_ref().map(|item| item.value.as_slice());
        covered(room, c.reply.len() - start + value.map_or(0, <[u8]>::len))?;
        c.reply.bulk_or_null(value);
    }
    Ok(After::GoOn)
}

pub(super) fn set(c: &mut Context<'_, '_>) -> Result<After, Wrong> {
    let options = options(c)?;
    put(c, 2, &options)
}

pub(super) fn setnx(c: &mut Context<'_, '_>) -> Result<After, Wrong> {
    let mut set = false;
    let mut item = Some(Item::new(c.word(2)));
    c.service.store.update(c.key(1)?, &mut |old| match item.take() {
        Some(item) if old.is_none() => {
            set = true;
            Change::Put(item)
        }
        _ => Change::Keep,
    })?;
    c.reply.integer(set.into());
    Ok(After::GoOn)
}

pub(super) fn setex(c: &mut Context<'_, '_>) -> Result<After, Wrong> {
    let expiry = from_now("setex", c.integer(2)?, 1000)?;
    put(c, 3, &Options { only: Only::Always, expiry, get: false })
}

pub(super) fn psetex(c: &mut Context<'_, '_>) -> Result<After, Wrong> {
    let expiry = from_now("psetex", c.integer(2)?, 1)?;
    put(c, 3, &Options { only: Only::Always, expiry, get: false })
}

pub(super) fn getset(c: &mut Context<'_, '_>) -> Result<After, Wrong> {
    put(c, 2, &Options { only: Only::Always, expiry: Expiry::Never, get: true })
}

/// Sets the entry of the first key to the word `value`.
fn put(c: &mut Context<'_, '_>, value: usize, options: &Options) -> Result<After, Wrong> {
    let mut item = Item::new(c.word(value));
    let (mut before, mut set) = (None, false);
    c.service.store.update(c.key(1)?, &mut |old| {
        if options.get {
            before = old.map(|item| item.value.clone());
        }
        set = match options.only {
            Only::Always => true,
            Only::IfAbsent => old.is_none(),
            Only::IfPresent => old.is_some(),
        };
        if !set {
            return Change::Keep;
        }
        item.expires_ms = match options.expiry {
            Expiry::Never => 0,
            Expiry::AsBefore => old.map_or(0, |item| item.expires_ms),
            Expiry::At(ms) => ms,
        };
        Change::Put(std::mem::take(&mut item))
    })?;
    if options.get {
        c.reply.bulk_or_null(before.as_deref());
    } else if set {
        c.reply.simple("OK");
    } else {
        c.reply.null();
    }
    Ok(After::GoOn)
}

fn options(c: &Context<'_, '_>) -> Result<Options, Wrong> {
    let mut options = Options { only: Only::Always, expiry: Expiry::Never, get: false };
    let mut index = 3;
    while index < c.words.len() {
        let fresh = matches!(options.expiry, Expiry::Never);
        let time = |scale, absolute| {
            if !fresh || index + 1 >= c.words.len() {
                return Err(Wrong::Syntax);
            }
            let value = c.integer(index + 1)?;
            let expiry =
                if absolute { at("set", value, scale) } else { from_now("set", value, scale) };
            Ok((expiry?, 2))
        };
        let (expiry, used) = if c.is(index, "nx") && options.only != Only::IfPresent {
            options.only = Only::IfAbsent;
            (options.expiry, 1)
        } else if c.is(index, "xx") && options.only != Only::IfAbsent {
            options.only = Only::IfPresent;
            (options.expiry, 1)
        } else if c.is(index, "get") {
            options.get = true;
            (options.expiry, 1)
        } else if c.is(index, "keepttl") && fresh {
            (Expiry::AsBefore, 1)
        } else if c.is(index, "ex") {
            time(1000, false)?
        } else if c.is(index, "px") {
            time(1, false)?
        } else if c.is(index, "exat") {
            time(1000, true)?
        } else if c.is(index, "pxat") {
            time(1, true)?
        } else {
            return Err(Wrong::Syntax);
        };
        options.expiry = expiry;
        index += used;
    }
    Ok(options)
}

/// An expiry `value` from now, in units of `scale` milliseconds.
fn from_now(command: &'static str, value: i64, scale: u64) -> Result<Expiry, Wrong> {
    let span = positive(value).and_then(|value| value.checked_mul(scale));
    let time = span.and_then(|span| now_ms().checked_add(span));
    time.map(Expiry::At).ok_or(Wrong::Expiry(command))
}

/// An expiry at the Unix time `value`, in units of `scale` milliseconds.
fn at(command: &'static str, value: i64, scale: u64) -> Result<Expiry, Wrong> {
    let time = positive(value).and_then(|value| value.checked_mul(scale));
    time.map(Expiry::At).ok_or(Wrong::Expiry(command))
}

fn positive(value: i64) -> Option<u64> {
    u64::try_from(value).ok().filter(|&value| value > 0)
}

pub(super) fn mset(c: &mut Context<'_, '_>) -> Result<After, Wrong> {
    if c.words.len().is_multiple_of(2) {
        c.reply.error("ERR wrong number of arguments for 'mset' command");
        return Ok(After::GoOn);
    }
    // All or none is what clients expect of malformed ones.
    for key in c.words.from(1).step_by(2) {
        checked_key(key)?;
    }
    let pairs = c.words.from(1).step_by(2).zip(c.words.from(2).step_by(2));
    let mut entries = pairs.map(|(key, value)| (Cow::from(key), Item::new(value)));
    c.service.store.set_all(&mut entries)?;
    c.reply.simple("OK");
    Ok(After::GoOn)
}

pub(super) fn getdel(c: &mut Context<'_, '_>) -> Result<After, Wrong> {
    let mut found = None;
    c.service.store.update(c.key(1)?, &mut |old| {
        found = old.map(|item| item.value.clone());
        Change::Delete
    })?;
    c.reply.bulk_or_null(found.as_deref());
    Ok(After::GoOn)
}

pub(super) fn append(c: &mut Context<'_, '_>) -> Result<After, Wrong> {
    let (tail, limit) = (c.word(2), c.service.limits.value);
    let mut length = 0;
    c.service.store.update(c.key(1)?, &mut |old| {
        let mut item = old.cloned().unwrap_or_default();
        length = item.value.len() + tail.len();
        if length > limit {
            return Change::Keep;
        }
        item.value.extend_from_slice(tail);
        Change::Put(item)
    })?;
    if length > limit {
        return Err(Wrong::TooLong(limit));
    }
    c.reply.integer(length as i64);
    Ok(After::GoOn)
}

pub(super) fn strlen(c: &mut Context<'_, '_>) -> Result<After, Wrong> {
    let found = c.service.store.get(c.key(1)?)?;
    c.reply.integer(found.map_or(0, |item| item.value.len() as i64));
    Ok(After::GoOn)
}
