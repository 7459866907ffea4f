//! The embedded ordered key-value store that the demo serves, and the data in it.
//!
//! # Which store
//!
//! A request may be preempted inside the store, so what counts beside speed is what its read path
//! locks. On one core of a virtual machine, 64-byte values in memory, release build:
//!
//! | store | GET | SCAN of 5,000 keys | locks on the read path |
//! |---|---|---|---|
//! | `redb` 4.4, one snapshot for all | 0.2 µs (5,000 keys) to 0.7 µs (1 M) | 300 µs | the read side of one `RwLock` for each page |
//! | `redb` 4.4, a transaction for each request | 0.6 to 1.3 µs | 300 µs | the same, and a `Mutex` at begin and end |
//! | `fjall` 3.1, data in the memtable | 0.3 µs | 800 µs | the read side of two `RwLock`s; a sharded map for snapshots |
//! | `fjall` 3.1, data in a table on tmpfs | 0.9 to 1.2 µs | 1,000 µs | the same and the block cache's |
//!
//! `redb` is taken: a real B-tree store, closest to GETs of a microsecond and SCANs of a few
//! hundred, and with all data in its page cache nobody ever takes a write lock, so a preempted
//! reader blocks no other. `fjall` also runs background threads for compaction, which would share
//! the workers' CPUs. `crossbeam-skiplist` is a map, no store.
//!
//! All data stay in memory (`redb`'s own in-memory backend): no file is left behind however the
//! demo ends.
//!
//! # Data and checks
//!
//! Keys are distinct pseudo-random numbers, values [`VALUE_WORDS`] words computed from the key. A
//! GET compares the whole value with what it must be. A SCAN checks that the keys ascend, counts
//! the rows, and compares the sum of their digests with the difference of two prefix sums taken
//! when the data were generated, before the store saw them.

use std::fmt;
use std::ops::RangeInclusive;

use anyhow::{Context, Result};
use redb::backends::InMemoryBackend;
use redb::{Database, ReadOnlyTable, ReadableDatabase, TableDefinition};

/// A value is this many 64-bit words.
pub const VALUE_WORDS: usize = 8;

const VALUE_BYTES: usize = VALUE_WORDS * 8;

/// More than all pages of the largest permitted store take, so that no page is ever evicted.
const CACHE_BYTES: usize = 4 << 30;

/// Accepted numbers of keys: a SCAN should not be the whole store, and loading should take seconds.
pub const KEYS: RangeInclusive<u64> = 100..=5_000_000;

const TABLE: TableDefinition<'static, u64, &'static [u8]> = TableDefinition::new("demo");

/// The store, loaded, together with what is needed to check every answer.
///
/// Shared by all threads; every operation may be preempted at any point.
pub struct Store {
    // The table is a snapshot of the database, which must live as long.
    table: ReadOnlyTable<u64, &'static [u8]>,
    _database: Database,
    /// All keys, ascending.
    keys: Vec<u64>,
    /// `sums[i]` is the sum of the digests of the rows before row `i`.
    sums: Vec<u64>,
}

/// The store gave a wrong answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wrong(String);

impl Wrong {
    /// An answer that is wrong in this way.
    pub fn new(what: impl Into<String>) -> Self {
        Wrong(what.into())
    }
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the store gave a wrong answer: {}", self.0)
    }
}

impl std::error::Error for Wrong {}

impl Store {
    /// Loads `keys` rows that depend on `seed` alone.
    ///
    /// # Errors
    ///
    /// The store refuses the data, for example because memory is short.
    pub fn load(keys: u64, seed: u64) -> Result<Store> {
        Store::load_while(keys, seed, || true)?.context("the loading was stopped")
    }

    /// As [`load`](Store::load), as long as `go_on` is true, which is asked often. `None`: it was
    /// not.
    ///
    /// # Errors
    ///
    /// As [`load`](Store::load).
    pub fn load_while(keys: u64, seed: u64, go_on: impl Fn() -> bool) -> Result<Option<Store>> {
        // The function is a bijection, so keys are distinct.
        let mut keys: Vec<u64> = (0..keys).map(|i| scramble(i ^ scramble(seed))).collect();
        let database = Database::builder()
            .set_cache_size(CACHE_BYTES)
            .create_with_backend(InMemoryBackend::new())
            .context("cannot make the key-value store")?;
        let fill = |database: &Database| -> Result<Option<ReadOnlyTable<_, _>>, redb::Error> {
            let write = database.begin_write()?;
            {
                let mut table = write.open_table(TABLE)?;
                for &key in &keys {
                    if !go_on() {
                        return Ok(None);
                    }
                    table.insert(key, value(key).as_slice())?;
                }
            }
            write.commit()?;
            Ok(Some(database.begin_read()?.open_table(TABLE)?))
        };
        let Some(table) = fill(&database).context("cannot load the key-value store")? else {
            return Ok(None);
        };

        keys.sort_unstable();
        let mut sums = vec![0];
        sums.extend(keys.iter().scan(0u64, |sum, &key| {
            *sum = sum.wrapping_add(digest(key, &value(key)));
            Some(*sum)
        }));
        Ok(Some(Store { table, _database: database, keys, sums }))
    }

    /// The number of rows.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Is there no row?
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Looks up `count` keys, the first of which `random` chooses, and checks their values.
    ///
    /// # Errors
    ///
    /// A value is missing or not the one that was stored.
    pub fn get(&self, random: u64, count: usize) -> Result<(), Wrong> {
        let mut random = random;
        for _ in 0..count {
            self.get_one(self.keys[below(random, self.keys.len())])?;
            random = scramble(random);
        }
        Ok(())
    }

    fn get_one(&self, key: u64) -> Result<(), Wrong> {
        let found = self.table.get(key).map_err(|error| Wrong::new(error.to_string()))?;
        let found = found.ok_or_else(|| Wrong::new(format!("key {key:#x} is missing")))?;
        if words(found.value()).eq(words(&value(key))) {
            Ok(())
        } else {
            Err(Wrong::new(format!("key {key:#x} has another value than was stored")))
        }
    }

    /// Reads `count` consecutive rows from a place that `random` chooses, or all rows if there are
    /// no more than that, and checks them.
    ///
    /// # Errors
    ///
    /// Rows are missing, out of order or not those that were stored.
    pub fn scan(&self, random: u64, count: usize) -> Result<(), Wrong> {
        let count = count.min(self.len());
        let first = below(random, self.len() - count + 1);
        let rows = self.table.range(self.keys[first]..).map_err(|e| Wrong::new(e.to_string()))?;

        let (mut seen, mut sum, mut last) = (0, 0u64, None);
        for row in rows.take(count) {
            let (key, value) = row.map_err(|error| Wrong::new(error.to_string()))?;
            if last >= Some(key.value()) {
                return Err(Wrong::new(format!("a scan met key {:#x} out of order", key.value())));
            }
            last = Some(key.value());
            sum = sum.wrapping_add(digest(key.value(), value.value()));
            seen += 1;
        }
        let expected = self.sums[first + count].wrapping_sub(self.sums[first]);
        if seen == count && sum == expected {
            Ok(())
        } else {
            Err(Wrong::new(format!(
                "a scan of {count} rows from row {first} returned {seen} with digest {sum:#x}, \
                 expected {expected:#x}"
            )))
        }
    }
}

/// A number below `end`, uniformly if `random` is.
fn below(random: u64, end: usize) -> usize {
    ((u128::from(random) * end as u128) >> 64) as usize
}

/// A bijection of 64-bit numbers that looks random (the finaliser of MurmurHash3 after an odd
/// step).
fn scramble(number: u64) -> u64 {
    let mut x = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    x = (x ^ (x >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    x ^ (x >> 33)
}

/// The value that belongs to a key.
fn value(key: u64) -> [u8; VALUE_BYTES] {
    let mut bytes = [0; VALUE_BYTES];
    let mut word = key;
    for chunk in bytes.chunks_exact_mut(8) {
        word = scramble(word);
        chunk.copy_from_slice(&word.to_le_bytes());
    }
    bytes
}

/// The value as words. Comparing word by word keeps the work in this program, where it can be
/// preempted, and out of the C library, where it cannot.
fn words(value: &[u8]) -> impl Iterator<Item = u64> + '_ {
    let (words, rest) = value.as_chunks::<8>();
    // A value of another length differs in the number of words, or here.
    let odd = (!rest.is_empty()).then_some(u64::MAX);
    words.iter().map(|word| u64::from_le_bytes(*word)).chain(odd)
}

/// A number that depends on every bit of a row.
fn digest(key: u64, value: &[u8]) -> u64 {
    words(value)
        .fold(key, |sum, word| sum.rotate_left(7) ^ word.wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn store() -> Store {
        Store::load(1000, 1).unwrap()
    }

    #[test]
    fn every_row_can_be_read_and_is_right() {
        let store = store();
        assert_eq!(store.len(), 1000);
        for i in 0..1000u64 {
            store.get(i << 54, 3).unwrap();
        }
    }

    #[test]
    fn scans_of_every_length_are_right_to_the_last_row() {
        let store = store();
        for count in [1, 2, 17, 999, 1000, 5000] {
            for random in [0, 1 << 63, u64::MAX] {
                store.scan(random, count).unwrap();
            }
        }
    }

    #[test]
    fn a_wrong_value_is_noticed_by_get_and_scan() {
        let mut store = store();
        // What the store holds is right; so change what is expected of it.
        store.sums[500] ^= 1;
        assert!(store.scan(u64::MAX, 500).unwrap_err().to_string().contains("digest"));
        store.keys[0] ^= 1;
        assert!(store.get(0, 1).unwrap_err().to_string().contains("missing"));
    }

    #[test]
    fn a_value_of_another_key_or_length_is_noticed() {
        let database = Database::builder().create_with_backend(InMemoryBackend::new()).unwrap();
        let write = database.begin_write().unwrap();
        {
            let mut table = write.open_table(TABLE).unwrap();
            table.insert(1, value(2).as_slice()).unwrap();
            table.insert(3, &value(3)[..63]).unwrap();
            table.insert(5, value(5).as_slice()).unwrap();
        }
        write.commit().unwrap();
        let table = database.begin_read().unwrap().open_table(TABLE).unwrap();
        let store = Store { table, _database: database, keys: vec![1, 3, 5], sums: vec![0; 4] };
        assert!(store.get_one(1).unwrap_err().to_string().contains("another value"));
        assert!(store.get_one(3).is_err());
        store.get_one(5).unwrap();
        assert!(store.scan(0, 3).is_err());
    }

    #[test]
    fn the_digest_depends_on_every_byte_and_the_key() {
        let (key, value) = (7, value(7));
        let right = digest(key, &value);
        assert_ne!(digest(8, &value), right);
        for byte in 0..VALUE_BYTES {
            let mut other = value;
            other[byte] ^= 1;
            assert_ne!(digest(key, &other), right, "byte {byte}");
        }
    }

    #[test]
    fn the_seed_decides_the_keys() {
        let keys = |seed| Store::load(100, seed).unwrap().keys;
        assert_eq!(keys(1), keys(1));
        assert_ne!(keys(1), keys(2));
    }

    #[test]
    fn the_whole_range_of_random_numbers_is_used() {
        assert_eq!(below(0, 10), 0);
        assert_eq!(below(u64::MAX, 10), 9);
        assert_eq!(below(1 << 63, 10), 5);
    }
}
