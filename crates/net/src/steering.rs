//! Which shard has a connection.
//!
//! A peer's connection lives in the shard to whose queue its request has come; the interface may
//! change its mind later. To which queue the answers to our own requests will come, nobody knows
//! beforehand. Frames that come to another queue are given to the shard that has the connection.

use crate::lock::Lock;
use crate::stack::table::{Key, Seed, Table};

#[derive(Debug)]
pub(crate) struct Steering {
    /// `None`: there is one shard.
    table: Option<Lock<Table<Key, usize>>>,
}

impl Steering {
    pub(crate) fn new(shards: usize, seed: Seed) -> Steering {
        Steering { table: (shards > 1).then(|| Lock::new(Table::with_hasher(seed))) }
    }

    /// Is there anything to steer?
    pub(crate) fn is_needed(&self) -> bool {
        self.table.is_some()
    }

    /// A shard will have a connection. `false`: another has it.
    pub(crate) fn claim(&self, key: Key, shard: usize) -> bool {
        match &self.table {
            Some(table) => *table.lock().entry(key).or_insert(shard) == shard,
            None => true,
        }
    }

    /// Who has it?
    pub(crate) fn owner(&self, key: Key) -> Option<usize> {
        self.table.as_ref()?.lock().get(&key).copied()
    }

    /// The shard does not have it any more.
    pub(crate) fn forget(&self, key: Key, shard: usize) {
        if let Some(table) = &self.table {
            let mut table = table.lock();
            if table.get(&key) == Some(&shard) {
                table.remove(&key);
            }
        }
    }
}
