//! Where entries are kept: one trait, three stores.
//!
//! | store | what | GET beside writers | order of [`scan`](Store::scan) |
//! |---|---|---|---|
//! | [`memory`] | hash map in shards, and an ordered index of the keys | waits for writers of its shard | by an index that is locked for a few keys at a time |
//! | [`redb`] | B-tree | a snapshot: never waits | a snapshot |
//! | [`rocksdb`] | log-structured tree, Debian's library | never waits | a snapshot |
//!
//! Every operation may be preempted at any point. So locks are those of `quaver::sync`, in which
//! user threads park, and none is held for longer than one entry takes, or a few dozen keys.
//!
//! A change is made by [`update`](Store::update): it reads and writes an entry as one step, which
//! is what counters, compare-and-swap and conditional writes need.
//!
//! An entry that has expired is not found any more. The memory of it comes back when it is written
//! again, or, in the memory store, when [`tidy`](Store::tidy) comes by.

pub mod memory;
mod record;
pub mod redb;
pub mod rocksdb;

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use quaver::sync::CancelToken;

/// What a key stands for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Item {
    /// The value.
    pub value: Vec<u8>,
    /// What the client wants to know of it; nothing to the store.
    pub flags: u32,
    /// When it ends, in milliseconds of the Unix clock; 0: never.
    pub expires_ms: u64,
    /// Another one after every change. Given by the store.
    pub version: u64,
}

impl Item {
    /// An entry without flags that does not expire.
    pub fn new(value: impl Into<Vec<u8>>) -> Item {
        Item { value: value.into(), ..Item::default() }
    }

    /// Is it still there?
    pub fn is_live(&self) -> bool {
        self.expires_ms == 0 || now_ms() < self.expires_ms
    }
}

/// What becomes of an entry.
#[derive(Debug, PartialEq, Eq)]
pub enum Change {
    /// It stays as it is.
    Keep,
    /// It becomes this.
    Put(Item),
    /// It goes.
    Delete,
}

/// Why a store did not do what it was asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// There is no room for the entry.
    #[error("the store is full: {limit} bytes are allowed (--max-memory)")]
    Full {
        /// How many bytes may be used.
        limit: u64,
    },
    /// There will be no room for so many.
    #[error("there is room for {room} entries of {bytes} bytes, not for {entries} ({why})")]
    TooMany {
        /// How many there would be.
        entries: u64,
        /// Key and value of one.
        bytes: usize,
        /// How many there can be.
        room: u64,
        /// What bounds them.
        why: &'static str,
    },
    /// The library that keeps the data reports an error.
    #[error("{store}: {message}")]
    Backend {
        /// Its name.
        store: &'static str,
        /// What it says.
        message: String,
    },
    /// The library is not installed, or another version than is known.
    #[error("{0}")]
    NoLibrary(String),
}

/// An ordered key-value store, used by all threads at once.
pub trait Store: Send + Sync {
    /// Its name, as it is chosen.
    fn name(&self) -> &'static str;

    /// The entry of a key.
    ///
    /// # Errors
    ///
    /// The store's library fails.
    fn get(&self, key: &[u8]) -> Result<Option<Arc<Item>>, StoreError>;

    /// Changes the entry of a key as one step: `change` sees what is there and says what is to be.
    /// Called once, and must not use the store. The version of what was put, if something was.
    ///
    /// # Errors
    ///
    /// No room, or the store's library fails; then nothing has changed.
    fn update(
        &self,
        key: &[u8],
        change: &mut dyn FnMut(Option<&Item>) -> Change,
    ) -> Result<Option<u64>, StoreError>;

    /// Shows up to `count` entries in the order of their keys, from the first that is not below
    /// `start`, until `visit` says `false`.
    ///
    /// # Errors
    ///
    /// The store's library fails.
    fn scan(
        &self,
        start: &[u8],
        count: usize,
        visit: &mut dyn FnMut(&[u8], &Item) -> bool,
    ) -> Result<(), StoreError>;

    /// How many entries there are, with those that have expired and still take room.
    fn len(&self) -> u64;

    /// Is there no entry?
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Removes all entries.
    ///
    /// # Errors
    ///
    /// The store's library fails.
    fn clear(&self) -> Result<(), StoreError>;

    /// Bytes that the entries take, if the store keeps count.
    fn bytes(&self) -> Option<u64> {
        None
    }

    /// For how many more entries with so many bytes of key and value there is room, and what bounds
    /// it; `None`: that shows when they come.
    fn room(&self, bytes: usize) -> Option<(u64, &'static str)> {
        let _ = bytes;
        None
    }

    /// Does a bit of what must be done now and then. To be called every [`TIDY`].
    fn tidy(&self) {}

    /// Writes what has been changed to the disk, if there is one.
    ///
    /// # Errors
    ///
    /// The store's library fails.
    fn sync(&self) -> Result<(), StoreError> {
        Ok(())
    }

    /// Makes or replaces an entry.
    ///
    /// # Errors
    ///
    /// As [`update`](Store::update).
    fn set(&self, key: &[u8], item: Item) -> Result<u64, StoreError> {
        let mut item = Some(item);
        let version = self.update(key, &mut |_| match item.take() {
            Some(item) => Change::Put(item),
            None => Change::Keep,
        })?;
        Ok(version.unwrap_or_default())
    }

    /// Makes or replaces several entries: as one step, or one after the other.
    ///
    /// # Errors
    ///
    /// As [`update`](Store::update); then some may have been made.
    fn set_all(
        &self,
        entries: &mut dyn Iterator<Item = (Cow<'_, [u8]>, Item)>,
    ) -> Result<(), StoreError> {
        for (key, item) in entries {
            self.set(&key, item)?;
        }
        Ok(())
    }

    /// Removes an entry. Was there one?
    ///
    /// # Errors
    ///
    /// As [`update`](Store::update).
    fn delete(&self, key: &[u8]) -> Result<bool, StoreError> {
        let mut found = false;
        self.update(key, &mut |old| {
            found = old.is_some();
            Change::Delete
        })?;
        Ok(found)
    }
}

/// How often [`Store::tidy`] is to be called.
pub const TIDY: Duration = Duration::from_millis(100);

/// Calls [`Store::tidy`] as often as it wants, until it is told to stop. To be called on a user
/// thread.
pub fn keep_tidy(store: &dyn Store, stop: &CancelToken) {
    while stop.sleep(TIDY).is_ok() {
        store.tidy();
    }
}

/// Milliseconds of the Unix clock.
pub fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

/// Numbers for versions. They begin with the time, so that a store that is opened again goes on
/// with higher ones.
struct Versions(AtomicU64);

impl Versions {
    fn new() -> Versions {
        Versions(AtomicU64::new(now_ms() << 16))
    }

    fn next(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed) + 1
    }
}

/// Fills a store with `keys` entries named as `quaver load` names them, for as long as `goes_on`
/// says so. Did it say so until the end?
///
/// # Errors
///
/// As [`Store::update`]; at once if there is no [room](Store::room).
pub fn fill(
    store: &dyn Store,
    keys: u64,
    value_bytes: usize,
    goes_on: &dyn Fn() -> bool,
) -> Result<bool, StoreError> {
    const AT_ONCE: usize = 1000;
    let bytes = quaver_load::net::key(0).len() + value_bytes;
    if let Some((room, why)) = store.room(bytes)
        && keys > room
    {
        return Err(StoreError::TooMany { entries: keys, bytes, room, why });
    }
    for first in (0..keys).step_by(AT_ONCE) {
        if !goes_on() {
            return Ok(false);
        }
        let batch = first..keys.min(first + AT_ONCE as u64);
        store.set_all(&mut batch.map(|index| {
            let key = quaver_load::net::key(index);
            (Cow::from(key.to_vec()), Item::new(quaver_load::net::value(index, value_bytes)))
        }))?;
    }
    store.sync()?;
    Ok(true)
}
