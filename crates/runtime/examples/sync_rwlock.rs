//! A routing table that many threads read and one thread updates.
//!
//! Readers are inside together. The writer is not starved by them: a reader that comes while the
//! writer waits queues behind it.

use quaver::sync::RwLock;
use std::collections::BTreeMap;
use std::sync::Arc;

const READERS: usize = 8;
const VERSIONS: u32 = 200;

struct Table {
    version: u32,
    routes: BTreeMap<u32, u32>,
}

#[quaver::main]
fn main() {
    let table = Arc::new(RwLock::new(Table { version: 0, routes: BTreeMap::new() }));

    let readers: Vec<_> = (0..READERS)
        .map(|_| {
            let table = table.clone();
            quaver::spawn(move || {
                let mut lookups = 0u64;
                loop {
                    let table = table.read().unwrap();
                    // Every update is seen whole.
                    assert!(table.routes.values().all(|v| *v == table.version));
                    lookups += 1;
                    if table.version == VERSIONS {
                        return lookups;
                    }
                }
            })
        })
        .collect();

    for version in 1..=VERSIONS {
        let mut table = table.write().unwrap();
        table.version = version;
        for destination in 0..32 {
            table.routes.insert(destination, version);
        }
        drop(table);
        quaver::yield_now();
    }

    let lookups: u64 = readers.into_iter().map(|r| r.join().unwrap()).sum();
    println!("{lookups} lookups saw {VERSIONS} versions");
}
