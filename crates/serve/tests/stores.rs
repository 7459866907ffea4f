//! All stores do the same, which is what an ordered map does.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use quaver_serve::store::memory::Memory;
use quaver_serve::store::redb::Redb;
use quaver_serve::store::rocksdb::Rocks;
use quaver_serve::store::{Change, Item, Store, StoreError, fill, now_ms};

/// All stores that this machine has.
fn stores() -> Vec<Arc<dyn Store>> {
    let mut stores: Vec<Arc<dyn Store>> =
        vec![Arc::new(Memory::new(1 << 24)), Arc::new(Redb::open(None).unwrap())];
    match Rocks::open(None) {
        Ok(rocks) => stores.push(Arc::new(rocks)),
        Err(StoreError::NoLibrary(why)) => eprintln!("without RocksDB: {why}"),
        Err(error) => panic!("{error}"),
    }
    stores
}

fn rows(store: &dyn Store, start: &[u8], count: usize) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut rows = Vec::new();
    store
        .scan(start, count, &mut |key, item| {
            rows.push((key.to_vec(), item.value.clone()));
            true
        })
        .unwrap();
    rows
}

#[derive(Clone, Debug)]
enum Step {
    Set(Vec<u8>, Vec<u8>),
    Delete(Vec<u8>),
    Get(Vec<u8>),
    Scan(Vec<u8>, usize),
    Clear,
}

fn step() -> impl Strategy<Value = Step> {
    let key = || vec(0..4_u8, 0..4);
    prop_oneof![
        8 => (key(), vec(any::<u8>(), 0..40)).prop_map(|(key, value)| Step::Set(key, value)),
        3 => key().prop_map(Step::Delete),
        4 => key().prop_map(Step::Get),
        2 => (key(), 0..100_usize).prop_map(|(start, count)| Step::Scan(start, count)),
        1 => Just(Step::Clear),
    ]
}

/// Does the same to a store and to a map.
fn compare(store: &dyn Store, steps: &[Step]) {
    let mut map: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
    store.clear().unwrap();
    for step in steps {
        match step {
            Step::Set(key, value) => {
                store.set(key, Item::new(value.clone())).unwrap();
                map.insert(key.clone(), value.clone());
            }
            Step::Delete(key) => {
                assert_eq!(store.delete(key).unwrap(), map.remove(key).is_some());
            }
            Step::Get(key) => {
                let found = store.get(key).unwrap().map(|item| item.value.clone());
                assert_eq!(found.as_ref(), map.get(key));
            }
            Step::Scan(start, count) => {
                let expected: Vec<_> = map
                    .range(start.clone()..)
                    .take(*count)
                    .map(|(key, value)| (key.clone(), value.clone()))
                    .collect();
                assert_eq!(rows(store, start, *count), expected);
            }
            Step::Clear => {
                store.clear().unwrap();
                map.clear();
            }
        }
        assert_eq!(store.len(), map.len() as u64, "{} after {step:?}", store.name());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn stores_are_ordered_maps(steps in vec(step(), 1..60)) {
        thread_local!(static STORES: Vec<Arc<dyn Store>> = stores());
        STORES.with(|stores| stores.iter().for_each(|store| compare(store.as_ref(), &steps)));
    }
}

#[test]
fn what_has_expired_is_gone() {
    for store in stores() {
        let expired = Item { expires_ms: now_ms() - 1, ..Item::new(*b"old") };
        let living = Item { expires_ms: now_ms() + 600_000, ..Item::new(*b"new") };
        store.set(b"a", expired).unwrap();
        store.set(b"b", living).unwrap();
        assert_eq!(store.get(b"a").unwrap(), None, "{}", store.name());
        assert_eq!(rows(store.as_ref(), b"", 10), [(b"b".to_vec(), b"new".to_vec())]);
        let mut seen = None;
        store
            .update(b"a", &mut |old| {
                seen = Some(old.is_none());
                Change::Keep
            })
            .unwrap();
        assert_eq!(seen, Some(true));
    }
}

#[test]
fn several_entries_can_be_set_at_once() {
    for store in stores() {
        let entries = (0..10_u8).map(|key| (vec![key].into(), Item::new([key; 3])));
        store.set_all(&mut entries.into_iter()).unwrap();
        let expected: Vec<_> = (0..10_u8).map(|key| (vec![key], vec![key; 3])).collect();
        assert_eq!(rows(store.as_ref(), b"", 100), expected, "{}", store.name());
    }
}

#[test]
fn versions_rise() {
    for store in stores() {
        let mut last = 0;
        for _ in 0..10 {
            let version = store.set(b"a", Item::new(*b"x")).unwrap();
            assert!(version > last);
            last = version;
            assert_eq!(store.get(b"a").unwrap().unwrap().version, version, "{}", store.name());
        }
    }
}

#[test]
fn changes_of_many_threads_all_count() {
    const EACH: u64 = 100;
    for store in stores() {
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..EACH {
                        store
                            .update(b"n", &mut |old| {
                                let number = old.map_or(0, |item| number(&item.value));
                                Change::Put(Item::new((number + 1).to_string()))
                            })
                            .unwrap();
                    }
                });
            }
        });
        let found = store.get(b"n").unwrap().unwrap();
        assert_eq!(number(&found.value), 4 * EACH, "{}", store.name());
    }
}

fn number(text: &[u8]) -> u64 {
    std::str::from_utf8(text).unwrap().parse().unwrap()
}

/// Writers add and remove rows while a reader walks over those that stay.
#[test]
fn a_scan_beside_writers_sees_what_stays() {
    for store in stores() {
        fill(store.as_ref(), 300, 8, &|| true).unwrap();
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                for round in 0..40_u32 {
                    for key in 0..20 {
                        let name = format!("key:0000000001{key:02}x{round}");
                        store.set(name.as_bytes(), Item::new(*b"passing")).unwrap();
                        store.delete(name.as_bytes()).unwrap();
                    }
                }
            });
            while !writer.is_finished() {
                let seen = rows(store.as_ref(), b"", 10_000);
                let stay = seen.iter().filter(|(key, _)| key.len() == 16).count();
                assert_eq!(stay, 300, "{}", store.name());
                assert!(seen.is_sorted_by(|a, b| a.0 < b.0), "{}", store.name());
            }
        });
    }
}

#[test]
fn a_full_store_refuses_and_keeps_what_it_has() {
    let store = Memory::new(10_000);
    let mut stored = 0;
    let error = loop {
        match store.set(format!("{stored:04}").as_bytes(), Item::new(vec![0; 100])) {
            Ok(_) => stored += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(error, StoreError::Full { limit: 10_000 });
    assert_eq!((store.len(), rows(&store, b"", 1000).len()), (stored, stored as usize));
    // The same size again, and less, fit; and what is removed makes room.
    store.set(b"0000", Item::new(vec![1; 100])).unwrap();
    store.set(b"0001", Item::new(vec![1; 10])).unwrap();
    assert!(store.delete(b"0002").unwrap());
    store.set(b"more", Item::new(vec![1; 100])).unwrap();
    store.clear().unwrap();
    assert_eq!((store.len(), store.bytes()), (0, Some(0)));
}

#[test]
fn tidying_gives_back_what_has_expired() {
    let store = Memory::new(1 << 20);
    for key in 0..500_u32 {
        let expires_ms = if key % 2 == 0 { 1 } else { 0 };
        store.set(&key.to_be_bytes(), Item { expires_ms, ..Item::new(*b"x") }).unwrap();
    }
    let before = store.bytes().unwrap();
    (0..256).for_each(|_| store.tidy());
    assert_eq!(store.len(), 250);
    assert_eq!(store.bytes().unwrap(), before / 2);
    assert_eq!(rows(&store, b"", 1000).len(), 250);
}

/// Threads that scan look into one cache of RocksDB's, under its locks. None is preempted there, so
/// none waits in the kernel.
#[test]
fn scans_in_rocksdb_do_not_wait_for_each_other() {
    let rocks = match Rocks::open(None) {
        Err(StoreError::NoLibrary(why)) => return eprintln!("skipped: {why}"),
        rocks => rocks.unwrap(),
    };
    fill(&rocks, 20_000, 64, &|| true).unwrap();
    // In files, which are read by way of the cache.
    rocks.sync().unwrap();
    let runtime = quaver::Builder::new()
        .workers(1)
        .clock(quaver::Clock::TimerThread)
        .quantum(Some(Duration::from_micros(50)))
        .tax(100)
        .build()
        .unwrap();
    runtime.run(|| {
        quaver::scope(|s| {
            for _ in 0..32 {
                s.spawn(|| {
                    // Without memory, for which threads wait as well.
                    let mut count = 0;
                    let mut visit = |_: &[u8], _: &Item| {
                        count += 1;
                        true
                    };
                    rocks.scan(b"", 20_000, &mut visit).unwrap();
                    assert_eq!(count, 20_000);
                });
            }
        });
    });
    let stats = runtime.stats();
    runtime.shutdown();
    assert!(stats.preempt_useful > 100, "{stats:?}");
    assert!(stats.handovers < stats.preempt_useful / 20, "{stats:?}");
}

#[test]
fn entries_are_there_after_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("kv.redb");
    let item = Item { flags: 7, ..Item::new(*b"value") };
    for round in 0..2 {
        let store = Redb::open(Some(&file)).unwrap();
        if round == 0 {
            store.set(b"key", item.clone()).unwrap();
            store.sync().unwrap();
        }
        let found = store.get(b"key").unwrap().unwrap();
        assert_eq!((&found.value, found.flags), (&item.value, 7));
        let next = store.set(b"other", Item::new(*b"x")).unwrap();
        assert!(next > found.version);
    }
    let rocks = directory.path().join("rocks");
    for round in 0..2 {
        let store = match Rocks::open(Some(&rocks)) {
            Err(StoreError::NoLibrary(_)) => return,
            store => store.unwrap(),
        };
        if round == 0 {
            store.set(b"key", item.clone()).unwrap();
        }
        assert_eq!(store.len(), 1);
        assert_eq!(store.get(b"key").unwrap().unwrap().value, item.value);
    }
}

#[test]
fn a_path_that_cannot_be_used_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    std::fs::write(
        &file,
        "no database, and long enough to be read as the header of one".repeat(99),
    )
    .unwrap();
    let error = Redb::open(Some(&file)).err().unwrap().to_string();
    assert!(error.contains("redb") && error.contains("file"), "{error}");
    let error = Redb::open(Some(&file.join("below"))).err().unwrap().to_string();
    assert!(error.contains("below"), "{error}");
    match Rocks::open(Some(&file)) {
        Err(StoreError::NoLibrary(_)) => {}
        Err(error) => assert!(error.to_string().contains("rocksdb"), "{error}"),
        Ok(_) => panic!("a file is no directory"),
    }
}
