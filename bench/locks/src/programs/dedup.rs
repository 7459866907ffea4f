//! After PARSEC's Dedup: a stream of data is cut into chunks where its content says so, chunks that
//! were seen before are replaced by a reference, the others are compressed. The table of chunks has
//! a lock for each bucket, 266,000 at full size, all of them used. (FlexGuard 5.3, Figure 3i-l.)
//!
//! The original is a pipeline with queues between its stages; here each thread takes a piece of the
//! stream, from a counter behind a lock, through all stages.

use std::collections::HashSet;

use super::{Locked, Ran, Size};
use crate::locks::{BenchLock, Use};
use crate::work::random::Random;

/// The locks at full size.
pub const BUCKETS: usize = 266_000;
/// Of the stream.
const BYTES: u64 = 64 << 20;
/// What a thread takes at once. Chunks end with pieces, so that the result is always the same.
const PIECE: usize = 64 << 10;
/// A chunk ends where the rolling sum has so many zeros in the end: 256 bytes on average.
const MASK: u32 = (1 << 8) - 1;
/// The longest chunk.
const LONGEST: usize = 2048;

/// The program.
pub struct Dedup {
    /// How it runs.
    pub size: Size,
    /// How many buckets.
    pub buckets: usize,
}

/// What came out: the chunks that differ, and how long they are when compressed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Found {
    chunks: u64,
    different: u64,
    packed: u64,
}

/// Half of the pieces are copies of others.
fn stream(length: usize) -> Vec<u8> {
    let (mut data, mut random) = (Vec::with_capacity(length), Random::new(11));
    while data.len() < length {
        let pieces = (data.len() / PIECE) as u64;
        if pieces > 0 && random.number().is_multiple_of(2) {
            let from = (random.number() % pieces) as usize * PIECE;
            data.extend_from_within(from..from + PIECE);
        } else {
            let end = data.len() + PIECE;
            while data.len() < end {
                // Runs of a byte, so that there is something to compress.
                let number = random.number();
                let run = (number >> 8) as usize % 6 + 1;
                data.extend(std::iter::repeat_n(number as u8, run.min(end - data.len())));
            }
        }
    }
    data
}

/// Calls `each` with the chunks of a piece.
fn cut(mut piece: &[u8], mut each: impl FnMut(&[u8])) {
    while !piece.is_empty() {
        let mut sum = 0u32;
        let ends = |&byte: &u8| {
            sum = sum.rotate_left(5) ^ u32::from(byte).wrapping_mul(0x9e37_79b1);
            (sum >> 7) & MASK == 0
        };
        let length = piece.iter().take(LONGEST).position(ends).map_or(LONGEST, |at| at + 1);
        let (chunk, rest) = piece.split_at(length.min(piece.len()));
        each(chunk);
        piece = rest;
    }
}

/// FNV-1a.
fn print_of(chunk: &[u8]) -> u64 {
    chunk.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// The length in runs of a byte.
fn packed(chunk: &[u8]) -> u64 {
    chunk.chunk_by(|a, b| a == b).map(|run| 2 * run.len().div_ceil(255) as u64).sum()
}

fn alone(data: &[u8]) -> Found {
    let (mut found, mut seen) = (Found::default(), HashSet::new());
    for piece in data.chunks(PIECE) {
        cut(piece, |chunk| {
            found.chunks += 1;
            if seen.insert(print_of(chunk)) {
                found.different += 1;
                found.packed += packed(chunk);
            }
        });
    }
    found
}

impl Use for Dedup {
    type Out = Ran;

    fn with<L: BenchLock>(self) -> Ran {
        let data = stream(self.size.of(BYTES) as usize);
        let mut table: Vec<Locked<L, Vec<u64>>> = Vec::new();
        table.resize_with(self.buckets, || Locked::new(Vec::new()));
        let pieces: Locked<L, _> = Locked::new(data.chunks(PIECE));
        let (found, took) = self.size.run(|_| {
            let (mut node, mut found) = (L::Node::default(), Found::default());
            while let Some(piece) = pieces.with(&mut node, Iterator::next) {
                cut(piece, |chunk| {
                    found.chunks += 1;
                    let print = print_of(chunk);
                    let new = table[print as usize % table.len()].with(&mut node, |bucket| {
                        let new = !bucket.contains(&print);
                        if new {
                            bucket.push(print);
                        }
                        new
                    });
                    if new {
                        found.different += 1;
                        found.packed += packed(chunk);
                    }
                });
            }
            found
        });
        let sum = found.into_iter().fold(Found::default(), |a, b| Found {
            chunks: a.chunks + b.chunks,
            different: a.different + b.different,
            packed: a.packed + b.packed,
        });
        let wanted = alone(&data);
        let wrong = (sum != wanted).then(|| format!("{sum:?}, not {wanted:?}"));
        Ran { ops: sum.chunks, took, wrong }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_the_stream_is_known_and_the_rest_is_packed() {
        let found = alone(&stream(4 << 20));
        let share = found.different as f64 / found.chunks as f64;
        assert!((0.3..0.7).contains(&share), "{found:?}");
        assert!(found.packed > 0 && found.packed < 4 << 20, "{found:?}");
    }

    #[test]
    fn chunks_make_up_the_piece() {
        let data = stream(PIECE);
        let mut whole = Vec::new();
        cut(&data, |chunk| {
            assert!((1..=LONGEST).contains(&chunk.len()));
            whole.extend_from_slice(chunk);
        });
        assert_eq!(whole, data);
    }
}
