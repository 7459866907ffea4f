//! Tables of the crate redb in memory: batches of insertions and removals, look-ups and scans,
//! against a plain list of what must be there.
#[path = "../common.rs"]
mod common;
use common::{Rng, at_least, fail, finish, mix, start};
use redb::backends::InMemoryBackend;
use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition};

const RECORDS: TableDefinition<u64, &[u8]> = TableDefinition::new("records");
const BY_NAME: TableDefinition<&str, u64> = TableDefinition::new("by name");
const KEYS: u32 = 20000;
const BATCH: usize = 500;
const LOOKUPS: usize = 2000;
const SCANS: usize = 20;
const LONGEST_SCAN: u64 = 200;

/// What a key has been given, if anything.
type Model = Vec<Option<u64>>;

fn name(key: u64) -> String {
    format!("user/{:05}/{key}", key.wrapping_mul(2654435761) % 99991)
}

/// The bytes stored for a value, of which the first eight say which it is.
fn bytes(value: u64) -> Vec<u8> {
    let filler = (0..value % 64).map(|i| (value.wrapping_mul(i + 1) >> 7) as u8);
    value.to_le_bytes().into_iter().chain(filler).collect()
}

fn write(database: &Database, model: &mut Model, rng: &mut Rng) -> Result<(), redb::Error> {
    let transaction = database.begin_write()?;
    {
        let mut records = transaction.open_table(RECORDS)?;
        let mut by_name = transaction.open_table(BY_NAME)?;
        for _ in 0..BATCH {
            let (key, value) = (rng.below(KEYS), rng.next());
            let stored = &mut model[key as usize];
            let key = u64::from(key);
            let removed = rng.below(3) == 0;
            let before = if removed {
                by_name.remove(&*name(key))?;
                records.remove(key)?
            } else {
                by_name.insert(&*name(key), key)?;
                records.insert(key, &*bytes(value))?
            };
            if before.map(|old| old.value().to_vec()) != stored.map(bytes) {
                fail!("key {key} had another value");
            }
            *stored = (!removed).then_some(value);
        }
    }
    Ok(transaction.commit()?)
}

fn read(database: &Database, model: &Model, rng: &mut Rng) -> Result<u64, redb::Error> {
    let transaction = database.begin_read()?;
    let records = transaction.open_table(RECORDS)?;
    let by_name = transaction.open_table(BY_NAME)?;
    let mut sum = 0;
    for _ in 0..LOOKUPS {
        let key = u64::from(rng.below(KEYS));
        let found = by_name.get(&*name(key))?.map(|key| key.value());
        let wanted = model[key as usize];
        if found != wanted.map(|_| key) {
            fail!("{} leads to {found:?}", name(key));
        }
        let value = records.get(key)?.map(|value| value.value().to_vec());
        if value != wanted.map(bytes) {
            fail!("key {key} has another value");
        }
        sum = mix(sum, wanted.unwrap_or(key));
    }
    for _ in 0..SCANS {
        let from = u64::from(rng.below(KEYS));
        let to = u64::from(KEYS).min(from + LONGEST_SCAN);
        let mut wanted = (from..to).filter_map(|key| Some((key, model[key as usize]?)));
        for entry in records.range(from..to)? {
            let (key, value) = entry?;
            let found = (key.value(), value.value().first_chunk().map(|b| u64::from_le_bytes(*b)));
            let next = wanted.next();
            if next.map(|(key, value)| (key, Some(value))) != Some(found) {
                fail!("a scan from {from} finds {found:?} instead of {next:?}");
            }
            sum = mix(sum, found.0);
        }
        if wanted.next().is_some() {
            fail!("a scan from {from} ends early");
        }
    }
    Ok(sum)
}

fn work(rounds: usize) -> Result<u64, redb::Error> {
    let database = Database::builder().create_with_backend(InMemoryBackend::new())?;
    let mut model = vec![None; KEYS as usize];
    let (mut rng, mut sum) = (Rng(31), 0);
    for _ in 0..rounds {
        write(&database, &mut model, &mut rng)?;
        sum = mix(sum, read(&database, &model, &mut rng)?);
    }
    let transaction = database.begin_read()?;
    let (mut count, mut last) = (0, String::new());
    for entry in transaction.open_table(BY_NAME)?.iter()? {
        let (name, key) = entry?;
        if name.value() <= &*last || model[key.value() as usize].is_none() {
            fail!("{} comes too late, or should not be there", name.value());
        }
        last = name.value().to_owned();
        count += 1;
    }
    if count != model.iter().flatten().count() {
        fail!("{count} names instead of {}", model.iter().flatten().count());
    }
    Ok(mix(sum, count as u64))
}

fn main() {
    match work(at_least(2, 300.0 * start())) {
        Ok(sum) => finish("redb", sum),
        Err(error) => fail!("redb: {error}"),
    }
}
