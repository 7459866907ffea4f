//! Entries in memory: a hash map in shards for single keys, and an ordered index for ranges.
//!
//! Locks are taken in one order: a shard's, then the index's. A range is read a few keys at a time:
//! the index is locked while keys are copied, and each entry is then looked up in its shard. So a
//! range of thousands of keys keeps no writer waiting, and shows each entry as it is when it is
//! looked up.

use std::collections::hash_map::{Entry, RandomState};
use std::collections::{BTreeSet, HashMap};
use std::hash::BuildHasher;
use std::ops::Bound;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError};

use quaver::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::{Change, Item, Store, StoreError, Versions};

type Key = Arc<[u8]>;
type Map = HashMap<Key, Arc<Item>>;

/// So many that writers of different keys seldom meet.
const SHARDS: usize = 256;
/// Keys that are copied while the index is locked: some microseconds.
const AT_ONCE: usize = 32;
/// What an entry takes beside key and value: headers, hash table, index.
const OVERHEAD: u64 = 160;

/// The store.
pub struct Memory {
    hasher: RandomState,
    shards: Box<[RwLock<Map>]>,
    index: RwLock<BTreeSet<Key>>,
    versions: Versions,
    entries: AtomicU64,
    bytes: AtomicU64,
    limit: u64,
    /// The shard that is tidied next.
    untidy: AtomicUsize,
}

impl Memory {
    /// A store whose entries may take `limit` bytes.
    pub fn new(limit: u64) -> Memory {
        Memory {
            hasher: RandomState::new(),
            shards: (0..SHARDS).map(|_| RwLock::new(Map::new())).collect(),
            index: RwLock::new(BTreeSet::new()),
            versions: Versions::new(),
            entries: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            limit,
            untidy: AtomicUsize::new(0),
        }
    }

    fn shard(&self, key: &[u8]) -> &RwLock<Map> {
        // The map inside uses other bits of a hash of its own.
        &self.shards[self.hasher.hash_one(key) as usize % SHARDS]
    }

    /// Takes room for `new` bytes where `old` are given back.
    fn take_room(&self, old: u64, new: u64) -> Result<(), StoreError> {
        if new <= old {
            self.bytes.fetch_sub(old - new, Ordering::Relaxed);
            return Ok(());
        }
        let used = self.bytes.fetch_add(new - old, Ordering::Relaxed) + (new - old);
        if used > self.limit {
            self.bytes.fetch_sub(new - old, Ordering::Relaxed);
            return Err(StoreError::Full { limit: self.limit });
        }
        Ok(())
    }

    /// Notes that an entry of this size has been removed.
    fn forget(&self, key: &Key, size: u64) {
        write(&self.index).remove(key);
        self.bytes.fetch_sub(size, Ordering::Relaxed);
        self.entries.fetch_sub(1, Ordering::Relaxed);
    }
}

fn size(key: &[u8], item: &Item) -> u64 {
    OVERHEAD + key.len() as u64 + item.value.len() as u64
}

// A panic while a lock is held leaves the data whole: nothing between two steps can panic but a
// caller's closure, before anything has changed.
fn read<T>(lock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    lock.read().unwrap_or_else(PoisonError::into_inner)
}

fn write<T>(lock: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    lock.write().unwrap_or_else(PoisonError::into_inner)
}

impl Store for Memory {
    fn name(&self) -> &'static str {
        "memory"
    }

    fn get(&self, key: &[u8]) -> Result<Option<Arc<Item>>, StoreError> {
        let found = read(self.shard(key)).get(key).map(Arc::clone);
        Ok(found.filter(|item| item.is_live()))
    }

    fn update(
        &self,
        key: &[u8],
        change: &mut dyn FnMut(Option<&Item>) -> Change,
    ) -> Result<Option<u64>, StoreError> {
        let mut shard = write(self.shard(key));
        let old = shard.get(key);
        let old_size = old.map_or(0, |item| size(key, item));
        match change(old.map(Arc::as_ref).filter(|item| item.is_live())) {
            Change::Keep => Ok(None),
            Change::Delete => {
                if let Some((key, _)) = shard.remove_entry(key) {
                    self.forget(&key, old_size);
                }
                Ok(None)
            }
            Change::Put(mut item) => {
                self.take_room(old_size, size(key, &item))?;
                item.version = self.versions.next();
                let version = item.version;
                match shard.entry(Key::from(key)) {
                    Entry::Occupied(mut entry) => drop(entry.insert(Arc::new(item))),
                    Entry::Vacant(entry) => {
                        write(&self.index).insert(Arc::clone(entry.key()));
                        entry.insert(Arc::new(item));
                        self.entries.fetch_add(1, Ordering::Relaxed);
                    }
                }
                Ok(Some(version))
            }
        }
    }

    fn scan(
        &self,
        start: &[u8],
        count: usize,
        visit: &mut dyn FnMut(&[u8], &Item) -> bool,
    ) -> Result<(), StoreError> {
        let mut left = count;
        let mut last: Option<Key> = None;
        let mut keys: Vec<Key> = Vec::with_capacity(AT_ONCE.min(count));
        while left > 0 {
            keys.clear();
            {
                let index = read(&self.index);
                let from = match &last {
                    Some(last) => Bound::Excluded(last.as_ref()),
                    None => Bound::Included(start),
                };
                let next = index.range::<[u8], _>((from, Bound::Unbounded));
                keys.extend(next.take(AT_ONCE).map(Arc::clone));
            }
            let Some(key) = keys.last() else { break };
            last = Some(Arc::clone(key));
            for key in &keys {
                if left == 0 {
                    break;
                }
                if let Some(item) = self.get(key)? {
                    left -= 1;
                    if !visit(key, &item) {
                        return Ok(());
                    }
                }
            }
        }
        Ok(())
    }

    fn len(&self) -> u64 {
        self.entries.load(Ordering::Relaxed)
    }

    fn clear(&self) -> Result<(), StoreError> {
        for shard in &self.shards {
            let mut shard = write(shard);
            for (key, item) in shard.drain() {
                self.forget(&key, size(&key, &item));
            }
        }
        Ok(())
    }

    fn bytes(&self) -> Option<u64> {
        Some(self.bytes.load(Ordering::Relaxed))
    }

    fn room(&self, bytes: usize) -> Option<(u64, &'static str)> {
        let left = self.limit.saturating_sub(self.bytes.load(Ordering::Relaxed));
        Some((left / (OVERHEAD + bytes as u64), "--max-memory"))
    }

    fn tidy(&self) {
        let next = self.untidy.fetch_add(1, Ordering::Relaxed) % SHARDS;
        let expired = |item: &Arc<Item>| item.expires_ms != 0 && !item.is_live();
        // Most shards have nothing that expires, and need no writer.
        if !read(&self.shards[next]).values().any(expired) {
            return;
        }
        let mut shard = write(&self.shards[next]);
        for (key, item) in shard.extract_if(|_, item| expired(item)) {
            self.forget(&key, size(&key, &item));
        }
    }
}
