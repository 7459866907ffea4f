//! Entries in `redb`, a B-tree with snapshots: in memory, or in a file.
//!
//! Readers never wait. Writers take turns. A change is on the disk a second later
//! ([`tidy`](Store::tidy)), and after [`sync`](Store::sync).

use std::borrow::Cow;
use std::fmt::Display;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use redb::backends::InMemoryBackend;
use redb::{
    Database, Durability, ReadableDatabase, ReadableTable, ReadableTableMetadata, TableDefinition,
    WriteTransaction,
};

use super::{Change, Item, Store, StoreError, Versions, record};

const TABLE: TableDefinition<'static, &'static [u8], &'static [u8]> = TableDefinition::new("kv");

/// Large enough for the stores of benchmarks, so that they stay in memory.
const CACHE_BYTES: usize = 1 << 30;

/// How many calls of `tidy` make a second.
const TIDIES_A_SECOND: u32 = 10;

/// How much memory the machine has, in bytes.
fn memory() -> u64 {
    // SAFETY: no arguments.
    let of = |name| u64::try_from(unsafe { libc::sysconf(name) }).unwrap_or(0);
    of(libc::_SC_PHYS_PAGES).saturating_mul(of(libc::_SC_PAGESIZE))
}

/// The store.
pub struct Redb {
    database: Database,
    versions: Versions,
    /// There are changes that are not on the disk.
    changed: AtomicBool,
    tidies: AtomicU32,
    in_memory: bool,
}

impl Redb {
    /// A store in the file at `path`, which is made if there is none; in memory without a path.
    ///
    /// # Errors
    ///
    /// The file cannot be opened, or is no such store.
    pub fn open(path: Option<&Path>) -> Result<Redb, StoreError> {
        let mut builder = Database::builder();
        builder.set_cache_size(CACHE_BYTES);
        let database = match path {
            Some(path) => builder
                .create(path)
                .map_err(|error| failed(format!("cannot open {}: {error}", path.display())))?,
            None => builder.create_with_backend(InMemoryBackend::new()).map_err(failed)?,
        };
        let store = Redb {
            database,
            versions: Versions::new(),
            changed: AtomicBool::new(false),
            tidies: AtomicU32::new(0),
            in_memory: path.is_none(),
        };
        // Readers need the table.
        store.write(|transaction| {
            transaction.open_table(TABLE).map_err(failed)?;
            Ok(true)
        })?;
        store.sync()?;
        Ok(store)
    }

    /// Runs `f` in a transaction, and commits if it says so.
    fn write(
        &self,
        f: impl FnOnce(&WriteTransaction) -> Result<bool, StoreError>,
    ) -> Result<(), StoreError> {
        let mut transaction = self.database.begin_write().map_err(failed)?;
        transaction.set_durability(Durability::None).map_err(failed)?;
        if f(&transaction)? {
            transaction.commit().map_err(failed)?;
            self.changed.store(true, Ordering::Relaxed);
        } else {
            transaction.abort().map_err(failed)?;
        }
        Ok(())
    }
}

fn failed(error: impl Display) -> StoreError {
    StoreError::Backend { store: "redb", message: error.to_string() }
}

fn live(bytes: &[u8]) -> Result<Option<Item>, StoreError> {
    let item = record::decode(bytes).ok_or_else(|| failed("an entry has no header"))?;
    Ok(item.is_live().then_some(item))
}

impl Store for Redb {
    fn name(&self) -> &'static str {
        "redb"
    }

    fn get(&self, key: &[u8]) -> Result<Option<Arc<Item>>, StoreError> {
        let table =
            self.database.begin_read().map_err(failed)?.open_table(TABLE).map_err(failed)?;
        match table.get(key).map_err(failed)? {
            Some(bytes) => Ok(live(bytes.value())?.map(Arc::new)),
            None => Ok(None),
        }
    }

    fn update(
        &self,
        key: &[u8],
        change: &mut dyn FnMut(Option<&Item>) -> Change,
    ) -> Result<Option<u64>, StoreError> {
        let mut version = None;
        self.write(|transaction| {
            let mut table = transaction.open_table(TABLE).map_err(failed)?;
            let old = match table.get(key).map_err(failed)? {
                Some(bytes) => live(bytes.value())?,
                None => None,
            };
            match change(old.as_ref()) {
                Change::Keep => return Ok(false),
                Change::Put(mut item) => {
                    item.version = self.versions.next();
                    version = Some(item.version);
                    table.insert(key, record::encode(&item).as_slice()).map_err(failed)?;
                }
                Change::Delete => drop(table.remove(key).map_err(failed)?),
            }
            Ok(true)
        })?;
        Ok(version)
    }

    fn set_all(
        &self,
        entries: &mut dyn Iterator<Item = (Cow<'_, [u8]>, Item)>,
    ) -> Result<(), StoreError> {
        self.write(|transaction| {
            let mut table = transaction.open_table(TABLE).map_err(failed)?;
            for (key, mut item) in entries {
                item.version = self.versions.next();
                table.insert(&*key, record::encode(&item).as_slice()).map_err(failed)?;
            }
            Ok(true)
        })
    }

    fn scan(
        &self,
        start: &[u8],
        count: usize,
        visit: &mut dyn FnMut(&[u8], &Item) -> bool,
    ) -> Result<(), StoreError> {
        let table =
            self.database.begin_read().map_err(failed)?.open_table(TABLE).map_err(failed)?;
        let mut left = count;
        for row in table.range(start..).map_err(failed)? {
            if left == 0 {
                break;
            }
            let (key, bytes) = row.map_err(failed)?;
            if let Some(item) = live(bytes.value())? {
                left -= 1;
                if !visit(key.value(), &item) {
                    break;
                }
            }
        }
        Ok(())
    }

    fn len(&self) -> u64 {
        let count = || {
            let table = self.database.begin_read().map_err(failed)?.open_table(TABLE);
            table.map_err(failed)?.len().map_err(failed)
        };
        count().unwrap_or_default()
    }

    fn clear(&self) -> Result<(), StoreError> {
        self.write(|transaction| {
            transaction.delete_table(TABLE).map_err(failed)?;
            transaction.open_table(TABLE).map_err(failed)?;
            Ok(true)
        })
    }

    fn room(&self, bytes: usize) -> Option<(u64, &'static str)> {
        let left = || memory() / bytes.max(1) as u64;
        self.in_memory.then(|| (left(), "this machine's memory"))
    }

    fn tidy(&self) {
        if self.tidies.fetch_add(1, Ordering::Relaxed).is_multiple_of(TIDIES_A_SECOND) {
            // An error comes again at the end, where it is reported.
            let _ = self.sync();
        }
    }

    fn sync(&self) -> Result<(), StoreError> {
        if !self.changed.swap(false, Ordering::Relaxed) {
            return Ok(());
        }
        let commit = || self.database.begin_write().map_err(failed)?.commit().map_err(failed);
        commit().inspect_err(|_| self.changed.store(true, Ordering::Relaxed))
    }
}
