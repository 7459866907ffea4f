//! What memcached's commands do to the store, in both protocols.

use std::sync::Arc;

use crate::service::Service;
use crate::store::{Change, Item, StoreError, now_ms};

/// Under which condition an entry is stored, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// In any case.
    Set,
    /// If there is none.
    Add,
    /// If there is one.
    Replace,
    /// Behind what is there.
    Append,
    /// Before what is there.
    Prepend,
    /// If what is there has this version.
    Compare(u64),
}

/// What has become of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stored {
    /// It is there, with this version.
    Yes(u64),
    /// The condition of `Mode` does not hold.
    No,
    /// There is another version.
    Exists,
    /// There is no entry to compare with.
    NotFound,
    /// It would be too long.
    TooLarge,
}

/// What has become of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Added {
    /// It is this, with this version.
    Yes(u64, u64),
    /// There is none.
    NotFound,
    /// The value is no number.
    NoNumber,
    /// There is another version.
    Exists,
}

/// Beyond this many seconds an expiry is a Unix time.
const MONTH: i64 = 60 * 60 * 24 * 30;

/// An expiry as clients send it, in milliseconds of the Unix clock; 0: never.
pub(super) fn expires_ms(expiry: i64) -> u64 {
    match expiry {
        0 => 0,
        // At once. Not 0, and passed.
        ..0 => 1,
        1..=MONTH => now_ms() + expiry as u64 * 1000,
        _ => (expiry as u64).saturating_mul(1000),
    }
}

pub(super) fn get(service: &Service, key: &[u8]) -> Result<Option<Arc<Item>>, StoreError> {
    let found = service.store.get(key)?;
    service.count_found(found.is_some());
    Ok(found)
}

/// Gives the entry another expiry. What it is then.
pub(super) fn touch(
    service: &Service,
    key: &[u8],
    expiry: i64,
) -> Result<Option<Item>, StoreError> {
    let mut found = None;
    let version = service.store.update(key, &mut |old| match old {
        Some(item) => {
            let item = Item { expires_ms: expires_ms(expiry), ..item.clone() };
            found = Some(item.clone());
            Change::Put(item)
        }
        None => Change::Keep,
    })?;
    service.count_found(found.is_some());
    Ok(found.map(|item| Item { version: version.unwrap_or_default(), ..item }))
}

/// Stores `item`, if `mode` and `version` (any, if 0) allow it.
pub(super) fn store(
    service: &Service,
    key: &[u8],
    item: Item,
    mode: Mode,
    version: u64,
) -> Result<Stored, StoreError> {
    let limit = service.limits.value;
    let (mut item, mut stored) = (Some(item), Stored::No);
    let put = service.store.update(key, &mut |old| {
        let Some(item) = item.take() else { return Change::Keep };
        let (change, result) = decide(old, item, mode, version, limit);
        stored = result;
        change
    })?;
    Ok(match (stored, put) {
        (Stored::Yes(_), Some(version)) => Stored::Yes(version),
        (stored, _) => stored,
    })
}

fn decide(
    old: Option<&Item>,
    item: Item,
    mode: Mode,
    version: u64,
    limit: usize,
) -> (Change, Stored) {
    let keep = |why| (Change::Keep, why);
    let wanted = match mode {
        Mode::Compare(version) => Some(version),
        _ => Some(version).filter(|&version| version != 0),
    };
    match (wanted, old) {
        (Some(_), None) => return keep(Stored::NotFound),
        (Some(wanted), Some(old)) if old.version != wanted => return keep(Stored::Exists),
        _ => {}
    }
    let item = match (mode, old) {
        (Mode::Set | Mode::Compare(_), _) | (Mode::Add, None) | (Mode::Replace, Some(_)) => item,
        (Mode::Add, Some(_)) | (Mode::Replace | Mode::Append | Mode::Prepend, None) => {
            return keep(Stored::No);
        }
        (Mode::Append, Some(old)) => joined(old, &old.value, &item.value),
        (Mode::Prepend, Some(old)) => joined(old, &item.value, &old.value),
    };
    if item.value.len() > limit {
        return keep(Stored::TooLarge);
    }
    (Change::Put(item), Stored::Yes(0))
}

/// The old entry with another value.
fn joined(old: &Item, first: &[u8], second: &[u8]) -> Item {
    Item { value: [first, second].concat(), ..*old }
}

/// Adds to a number, or makes it if `initial` says with which value and expiry. Up it wraps, down
/// it stops at 0.
pub(super) fn add(
    service: &Service,
    key: &[u8],
    amount: u64,
    down: bool,
    initial: Option<(u64, i64)>,
    version: u64,
) -> Result<Added, StoreError> {
    let mut added = Added::NotFound;
    let put = service.store.update(key, &mut |old| {
        let (number, mut item) = match (old, initial) {
            (Some(old), _) if version != 0 && old.version != version => {
                added = Added::Exists;
                return Change::Keep;
            }
            (Some(old), _) => {
                let Some(number) = number(&old.value) else {
                    added = Added::NoNumber;
                    return Change::Keep;
                };
                let number =
                    if down { number.saturating_sub(amount) } else { number.wrapping_add(amount) };
                (number, old.clone())
            }
            (None, Some((number, expiry))) => {
                (number, Item { expires_ms: expires_ms(expiry), ..Item::default() })
            }
            (None, None) => return Change::Keep,
        };
        item.value = number.to_string().into_bytes();
        added = Added::Yes(number, 0);
        Change::Put(item)
    })?;
    Ok(match (added, put) {
        (Added::Yes(number, _), Some(version)) => Added::Yes(number, version),
        (added, _) => added,
    })
}

/// A decimal number of 64 bits. Blanks behind it are ignored: some clients pad.
fn number(text: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(text).ok()?.trim_end_matches(' ');
    if text.starts_with('+') { None } else { text.parse().ok() }
}

/// Removes the entry, if it has this version (any, if 0).
pub(super) fn delete(service: &Service, key: &[u8], version: u64) -> Result<Stored, StoreError> {
    let mut result = Stored::NotFound;
    service.store.update(key, &mut |old| match old {
        None => Change::Keep,
        Some(old) if version != 0 && old.version != version => {
            result = Stored::Exists;
            Change::Keep
        }
        Some(_) => {
            result = Stored::Yes(0);
            Change::Delete
        }
    })?;
    Ok(result)
}

/// Removes everything, now or so many seconds later, or at a Unix time.
pub(super) fn flush(service: &Service, delay: i64) -> Result<(), StoreError> {
    let at = expires_ms(delay);
    service.flush(if at <= 1 { 0 } else { at.saturating_sub(now_ms()) })
}

/// Names and values of what `stats` shows.
pub(super) fn stats(service: &Service) -> Vec<(&'static str, String)> {
    let counts = service.counts();
    let mut stats = vec![
        ("pid", std::process::id().to_string()),
        ("uptime", counts.seconds.to_string()),
        ("time", (now_ms() / 1000).to_string()),
        ("version", crate::VERSION.to_owned()),
        ("pointer_size", "64".to_owned()),
        ("max_connections", service.limits.connections.to_string()),
        ("total_connections", counts.connections.to_string()),
        ("cmd_total", counts.requests.to_string()),
        ("get_hits", counts.hits.to_string()),
        ("get_misses", counts.misses.to_string()),
        ("curr_items", service.store.len().to_string()),
        ("store", service.store.name().to_owned()),
    ];
    if let Some(bytes) = service.store.bytes() {
        stats.push(("bytes", bytes.to_string()));
    }
    stats
}
