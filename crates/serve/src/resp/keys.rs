//! Commands on keys: which there are, how long, and ranges of them.

use super::commands::{After, Context, Wrong, checked_key};
use super::glob;
use super::reply::Replies;
use crate::limits::Room;
use crate::store::{Change, now_ms};

pub(super) fn del(c: &mut Context<'_, '_>) -> Result<After, Wrong> {
    let mut removed = 0;
    for key in c.words.from(1) {
        removed += i64::from(c.service.store.delete(checked_key(key)?)?);
    }
    c.reply.integer(removed);
    Ok(After::GoOn)
}

pub(super) fn exists(c: &mut Context<'_, '_>) -> Result<After, Wrong> {
    let mut found = 0;
    for key in c.words.from(1) {
        found += i64::from(c.service.store.get(checked_key(key)?)?.is_some());
    }
    c.reply.integer(found);
    Ok(After::GoOn)
}

pub(super) fn type_of(c: &mut Context<'_, '_>) -> Result<After, Wrong> {
    let found = c.service.store.get(c.key(1)?)?;
    c.reply.simple(if found.is_some() { "string" } else { "none" });
    Ok(After::GoOn)
}

pub(super) fn dbsize(c: &mut Context<'_, '_>) -> Result<After, Wrong> {
    c.reply.integer(c.service.store.len() as i64);
    Ok(After::GoOn)
}

pub(super) fn flush(c: &mut Context<'_, '_>) -> Result<After, Wrong> {
    if c.words.len() == 2 && !c.is(1, "async") && !c.is(1, "sync") {
        return Err(Wrong::Syntax);
    }
    c.service.flush(0)?;
    c.reply.simple("OK");
    Ok(After::GoOn)
}

pub(super) fn expire(c: &mut Context<'_, '_>) -> Result<After, Wrong> {
    expire_in(c, "expire", 1000)
}

pub(super) fn pexpire(c: &mut Context<'_, '_>) -> Result<After, Wrong> {
    expire_in(c, "pexpire", 1)
}

fn expire_in(c: &mut Context<'_, '_>, name: &'static str, scale: i64) -> Result<After, Wrong> {
    let span = c.integer(2)?.checked_mul(scale).ok_or(Wrong::Expiry(name))?;
    let at = now_ms().checked_add_signed(span);
    // A time that has passed removes the entry.
    let at = if span <= 0 { Some(0) } else { at };
    let at = at.ok_or(Wrong::Expiry(name))?;
    let mut found = false;
    c.service.store.update(c.key(1)?, &mut |old| {
        found = old.is_some();
        match old {
            Some(_) if at == 0 => Change::Delete,
            Some(item) => {
                let mut item = item.clone();
                item.expires_ms = at;
                Change::Put(item)
            }
            None => Change::Keep,
        }
    })?;
    c.reply.integer(found.into());
    Ok(After::GoOn)
}

pub(super) fn persist(c: &mut Context<'_, '_>) -> Result<After, Wrong> {
    let mut changed = false;
    c.service.store.update(c.key(1)?, &mut |old| match old {
        Some(item) if item.expires_ms != 0 => {
            changed = true;
            let mut item = item.clone();
            item.expires_ms = 0;
            Change::Put(item)
        }
        _ => Change::Keep,
    })?;
    c.reply.integer(changed.into());
    Ok(After::GoOn)
}

pub(super) fn ttl(c: &mut Context<'_, '_>) -> Result<After, Wrong> {
    time_left(c, 1000)
}

pub(super) fn pttl(c: &mut Context<'_, '_>) -> Result<After, Wrong> {
    time_left(c, 1)
}

fn time_left(c: &mut Context<'_, '_>, scale: u64) -> Result<After, Wrong> {
    let found = c.service.store.get(c.key(1)?)?;
    c.reply.integer(match found.map(|item| item.expires_ms) {
        None => -2,
        Some(0) => -1,
        Some(at) => (at.saturating_sub(now_ms()).saturating_add(scale / 2) / scale) as i64,
    });
    Ok(After::GoOn)
}

/// `SCAN cursor [MATCH pattern] [COUNT n] [TYPE type]`
pub(super) fn scan(c: &mut Context<'_, '_>) -> Result<After, Wrong> {
    let text = std::str::from_utf8(c.word(1)).map_err(|_| Wrong::Cursor)?;
    let cursor: u64 = text.parse().map_err(|_| Wrong::Cursor)?;
    let (mut pattern, mut count, mut strings): (Option<&[u8]>, _, _) = (None, 10, true);
    for index in (2..c.words.len()).step_by(2) {
        let value = c.words.get(index + 1).ok_or(Wrong::Syntax)?;
        if c.is(index, "match") {
            pattern = Some(value);
        } else if c.is(index, "count") {
            count = usize::try_from(c.integer(index + 1)?).map_err(|_| Wrong::Syntax)?;
            if count == 0 {
                return Err(Wrong::Syntax);
            }
        } else if c.is(index, "type") {
            strings = value.eq_ignore_ascii_case(b"string");
        } else {
            return Err(Wrong::Syntax);
        }
    }
    let count = count.min(c.service.limits.rows);
    let start = match cursor {
        0 => Vec::new(),
        cursor => c.service.cursors.key(cursor).ok_or(Wrong::Cursor)?,
    };
    let mut room = Room::new(&c.service.limits);
    let mut body = Vec::new();
    let mut keys = Replies::new(&mut body, c.session.version);
    let (mut seen, mut found, mut next) = (0, 0, None);
    // One more than asked for: where the next call begins. So is a key for which there is no room.
    c.service.store.scan(&start, count + 1, &mut |key, _| {
        // It is there twice when it is joined to its header.
        if seen == count || !room.covers(2 * (keys.len() + key.len())) {
            next = Some(key.to_vec());
            return false;
        }
        seen += 1;
        if strings && pattern.is_none_or(|pattern| glob::matches(pattern, key)) {
            found += 1;
            keys.bulk(key);
        }
        true
    })?;
    if seen == 0 && next.is_some() {
        return Err(Wrong::Reply);
    }
    let cursor = next.map_or(0, |key| c.service.cursors.keep(key));
    c.reply.array(2);
    c.reply.bulk(cursor.to_string().as_bytes());
    c.reply.array(found);
    c.reply.raw(&body);
    Ok(After::GoOn)
}

/// `RANGE start count [DIGEST]`, which Redis does not have: keys and values in order; with `DIGEST`
/// only how many, and a number that depends on all of them.
pub(super) fn range(c: &mut Context<'_, '_>) -> Result<After, Wrong> {
    let start = c.key(1)?;
    let count = usize::try_from(c.integer(2)?).map_err(|_| Wrong::Integer)?;
    if count > c.service.limits.rows {
        return Err(Wrong::Rows(c.service.limits.rows));
    }
    let (mut rows, mut sum) = (0_usize, 0_u64);
    if c.words.len() == 4 {
        if !c.is(3, "digest") {
            return Err(Wrong::Syntax);
        }
        c.service.store.scan(start, count, &mut |key, item| {
            rows += 1;
            sum = crate::digest::row(sum, key, &item.value);
            true
        })?;
        c.reply.array(2);
        c.reply.integer(rows as i64);
        // Any 64 bits, as a number with a sign.
        c.reply.integer(sum as i64);
        return Ok(After::GoOn);
    }
    let mut room = Room::new(&c.service.limits);
    let mut has_room = true;
    let mut body = Vec::new();
    let mut replies = Replies::new(&mut body, c.session.version);
    c.service.store.scan(start, count, &mut |key, item| {
        // It is there twice when it is joined to its header.
        has_room = room.covers(2 * (replies.len() + key.len() + item.value.len()));
        if has_room {
            rows += 1;
            replies.bulk(key);
            replies.bulk(&item.value);
        }
        has_room
    })?;
    if !has_room {
        return Err(Wrong::Reply);
    }
    c.reply.array(2 * rows);
    c.reply.raw(&body);
    Ok(After::GoOn)
}
