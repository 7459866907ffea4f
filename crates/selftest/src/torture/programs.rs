//! Libraries that are linked in. Each step is some tens to hundreds of microseconds of work.

use super::{Prepare, Program, Rng, digest};
use std::fmt::Write as _;
use std::io::{Read, Write};

pub(super) const ALL: &[(&str, Prepare)] = &[
    ("sqlite", |seed| Ok(Box::new(Sqlite(seed)))),
    ("zstd", |seed| Ok(Box::new(Zstd(inputs(seed, 12_000))))),
    ("lz4", |seed| Ok(Box::new(Lz4(inputs(seed, 30_000))))),
    ("flate2", |seed| Ok(Box::new(Flate(inputs(seed, 6_000))))),
    ("png", |seed| Ok(Box::new(Png(inputs(seed, 48 * 48 * 3))))),
    ("regex", |seed| Regex::prepare(seed).map(|p| Box::new(p) as Box<dyn Program>)),
    ("serde-json", |seed| Ok(Box::new(Json(seed)))),
    ("blake3", |seed| Ok(Box::new(Blake(inputs(seed, 60_000))))),
];

/// Different data for each of a few steps.
fn inputs(seed: u64, bytes: usize) -> Vec<Vec<u8>> {
    (0..8).map(|i| Rng(seed + i).text(bytes + 7 * i as usize)).collect()
}

/// The data of step `i`.
fn of(inputs: &[Vec<u8>], i: u64) -> &[u8] {
    &inputs[(i % inputs.len() as u64) as usize]
}

/// What a library answers that has failed: never what it should.
fn failed(e: impl std::fmt::Display) -> u64 {
    digest(e.to_string().as_bytes()) | 1
}

/// A database in memory for each step: a table, an index, transactions, queries, floating point.
struct Sqlite(u64);

impl Program for Sqlite {
    fn step(&self, i: u64) -> u64 {
        let work = || -> rusqlite::Result<u64> {
            let mut rng = Rng(self.0 ^ i);
            let mut db = rusqlite::Connection::open_in_memory()?;
            db.execute_batch(
                "create table t (k integer primary key, v text, x real); create index i on t (v);",
            )?;
            let tx = db.transaction()?;
            for k in 0..40 {
                let v = format!("{:x}", rng.below(50));
                let x = rng.below(1000) as f64 / 7.0;
                tx.execute("insert into t values (?1, ?2, ?3)", (k * 3 % 40, v, x))?;
            }
            tx.commit()?;
            db.execute("update t set x = x * 1.5 where k % 3 = ?1", [i % 3])?;
            db.execute("delete from t where v = ?1", [format!("{:x}", rng.below(50))])?;
            let mut query = db.prepare(
                "select v, count(*), sum(x), group_concat(k) from t group by v order by v desc",
            )?;
            let mut rows = query.query([])?;
            let mut text = String::new();
            while let Some(row) = rows.next()? {
                let (v, n): (String, i64) = (row.get(0)?, row.get(1)?);
                let (x, k): (f64, String) = (row.get(2)?, row.get(3)?);
                let _ = write!(text, "{v} {n} {:x} {k};", x.to_bits());
            }
            let sound: String = db.query_row("pragma integrity_check", [], |row| row.get(0))?;
            Ok(digest((text + &sound).as_bytes()))
        };
        work().unwrap_or_else(failed)
    }
}

struct Zstd(Vec<Vec<u8>>);

impl Program for Zstd {
    fn step(&self, i: u64) -> u64 {
        let data = of(&self.0, i);
        let work = || -> std::io::Result<u64> {
            let packed = zstd::encode_all(data, [1, 3, 9, -5][(i % 4) as usize])?;
            let unpacked = zstd::decode_all(&packed[..])?;
            Ok(digest(&packed) ^ u64::from(unpacked == data))
        };
        work().unwrap_or_else(failed)
    }
}

struct Lz4(Vec<Vec<u8>>);

impl Program for Lz4 {
    fn step(&self, i: u64) -> u64 {
        let data = of(&self.0, i);
        let packed = lz4_flex::compress_prepend_size(data);
        match lz4_flex::decompress_size_prepended(&packed) {
            Ok(unpacked) => digest(&packed) ^ u64::from(unpacked == data),
            Err(e) => failed(e),
        }
    }
}

struct Flate(Vec<Vec<u8>>);

impl Program for Flate {
    fn step(&self, i: u64) -> u64 {
        let data = of(&self.0, i);
        let work = || -> std::io::Result<u64> {
            let level = flate2::Compression::new((i % 9) as u32 + 1);
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), level);
            encoder.write_all(data)?;
            let packed = encoder.finish()?;
            let mut unpacked = Vec::new();
            flate2::read::GzDecoder::new(&packed[..]).read_to_end(&mut unpacked)?;
            Ok(digest(&packed) ^ u64::from(unpacked == data))
        };
        work().unwrap_or_else(failed)
    }
}

/// Pictures, encoded and decoded.
struct Png(Vec<Vec<u8>>);

impl Program for Png {
    fn step(&self, i: u64) -> u64 {
        const SIDE: u32 = 48;
        let pixels = &of(&self.0, i)[..(SIDE * SIDE * 3) as usize];
        let mut file = Vec::new();
        let mut encoder = png::Encoder::new(&mut file, SIDE, SIDE);
        encoder.set_color(png::ColorType::Rgb);
        encoder.set_filter(if i.is_multiple_of(2) {
            png::Filter::Paeth
        } else {
            png::Filter::Adaptive
        });
        let written = encoder.write_header().and_then(|mut w| {
            w.write_image_data(pixels)?;
            w.finish()
        });
        if let Err(e) = written {
            return failed(e);
        }
        let read = || -> Result<u64, png::DecodingError> {
            let mut reader = png::Decoder::new(std::io::Cursor::new(&file)).read_info()?;
            let mut out = vec![0; (SIDE * SIDE * 3) as usize];
            reader.next_frame(&mut out)?;
            Ok(u64::from(out == pixels))
        };
        read().map_or_else(failed, |same| digest(&file) ^ same)
    }
}

/// Automata that are built while they run, and shared by all threads.
struct Regex {
    patterns: Vec<regex::Regex>,
    texts: Vec<String>,
}

impl Regex {
    fn prepare(seed: u64) -> Result<Regex, String> {
        let patterns = [
            r"(?i)\b(q\w+m|thr\w*)\s+(\d+)?",
            r"(\w+) (\w+) of",
            r"(a|the|of)+?\s+[^ ]{4,}\d",
            r"^.*user$",
        ];
        let patterns: Result<_, _> = patterns.into_iter().map(regex::Regex::new).collect();
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        let texts = inputs(seed, 3_000).into_iter().map(text).collect();
        Ok(Regex { patterns: patterns.map_err(|e| e.to_string())?, texts })
    }
}

impl Program for Regex {
    fn step(&self, i: u64) -> u64 {
        let text = &self.texts[(i % self.texts.len() as u64) as usize];
        let mut found = String::new();
        for pattern in &self.patterns {
            for groups in pattern.captures_iter(text).take(60) {
                let _ = write!(
                    found,
                    "{:?}{:?}",
                    groups.get(0).map(|m| m.range()),
                    groups.get(1).map(|m| m.as_str())
                );
            }
        }
        digest(pattern_replaced(&self.patterns[0], text).as_bytes()) ^ digest(found.as_bytes())
    }
}

fn pattern_replaced(pattern: &regex::Regex, text: &str) -> String {
    pattern.replace_all(text, "<$2$1>").into_owned()
}

struct Json(u64);

impl Program for Json {
    fn step(&self, i: u64) -> u64 {
        let mut rng = Rng(self.0 ^ i);
        let mut items = Vec::new();
        for k in 0..30 {
            let text = String::from_utf8_lossy(&rng.text(40)).into_owned();
            let number = rng.next() as f64 / (rng.below(1_000_000) + 1) as f64;
            items.push(serde_json::json!({
                "k": k, "text": text, "number": number, "none": null, "some": [1, -2.5e-3, true],
            }));
        }
        let text = serde_json::to_string_pretty(&items).unwrap_or_default();
        match serde_json::from_str::<serde_json::Value>(&text) {
            Ok(back) => digest(back.to_string().as_bytes()) ^ digest(text.as_bytes()),
            Err(e) => failed(e),
        }
    }
}

/// Vector code in assembly, chosen by what the CPU can do.
struct Blake(Vec<Vec<u8>>);

impl Program for Blake {
    fn step(&self, i: u64) -> u64 {
        let data = of(&self.0, i);
        let mut hasher = blake3::Hasher::new();
        data.chunks(9_999).for_each(|chunk| _ = hasher.update(chunk));
        digest(hasher.finalize().as_bytes()) ^ digest(blake3::hash(data).as_bytes()).rotate_left(1)
    }
}
