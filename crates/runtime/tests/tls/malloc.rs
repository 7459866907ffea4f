//! Memory that is allocated, handed on and freed.

use crate::support::{Rng, Setup, until_preempted};
use std::alloc::{Layout, alloc, dealloc, realloc};
use std::sync::Mutex;

/// A block of memory with a pattern that depends on its owner.
struct Block {
    at: *mut u8,
    layout: Layout,
    seed: u8,
}

// SAFETY: plain memory with one owner.
unsafe impl Send for Block {}

impl Block {
    fn new(size: usize, align: usize, seed: u8) -> Block {
        let layout = Layout::from_size_align(size.max(1), align).unwrap();
        // SAFETY: the size is not 0.
        let at = unsafe { alloc(layout) };
        assert!(!at.is_null() && (at as usize).is_multiple_of(align));
        let mut block = Block { at, layout, seed };
        block.bytes().iter_mut().enumerate().for_each(|(i, b)| *b = seed.wrapping_add(i as u8));
        block
    }

    fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: our own memory; written by `new` before it is read.
        unsafe { std::slice::from_raw_parts_mut(self.at, self.layout.size()) }
    }

    fn check(&mut self) {
        let seed = self.seed;
        let damaged =
            self.bytes().iter().enumerate().position(|(i, &b)| b != seed.wrapping_add(i as u8));
        assert_eq!(damaged, None, "a block of {} bytes is damaged", self.layout.size());
    }

    fn resize(&mut self, size: usize) {
        self.check();
        let (old, size) = (self.layout.size(), size.max(1));
        // SAFETY: allocated with this layout; the size is not 0.
        self.at = unsafe { realloc(self.at, self.layout, size) };
        assert!(!self.at.is_null());
        self.layout = Layout::from_size_align(size, self.layout.align()).unwrap();
        let seed = self.seed;
        let tail = self.bytes().iter_mut().enumerate().skip(old);
        tail.for_each(|(i, b)| *b = seed.wrapping_add(i as u8));
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        self.check();
        // SAFETY: allocated with this layout.
        unsafe { dealloc(self.at, self.layout) };
    }
}

/// Threads allocate, resize, exchange and free memory while they are preempted and moved.
#[test]
fn malloc_works_across_preemption() {
    for setup in Setup::all() {
        setup.run(|| {
            let exchange: [Mutex<Vec<Block>>; 4] = Default::default();
            quaver::scope(|s| {
                for i in 0..5u64 {
                    let exchange = &exchange;
                    s.spawn(move || {
                        let mut rng = Rng(i);
                        let mut mine: Vec<Block> = Vec::new();
                        until_preempted(setup.preemptions(200), |step| {
                            for _ in 0..4 {
                                let size = match rng.below(20) {
                                    0 => rng.below(40_000),
                                    1..5 => rng.below(3_000),
                                    _ => rng.below(200),
                                } as usize;
                                let place = rng.below(mine.len().max(1) as u64) as usize;
                                match rng.below(8) {
                                    0 if !mine.is_empty() => mine[place].resize(size),
                                    1 if !mine.is_empty() => {
                                        let block = mine.swap_remove(place);
                                        exchange[rng.below(4) as usize].lock().unwrap().push(block);
                                    }
                                    2 | 3 if !mine.is_empty() => drop(mine.swap_remove(place)),
                                    4 => {
                                        let taken =
                                            exchange[rng.below(4) as usize].lock().unwrap().pop();
                                        mine.extend(taken);
                                    }
                                    _ => {
                                        let align = 1 << rng.below(8);
                                        mine.push(Block::new(size, align, (step + i) as u8));
                                    }
                                }
                                if mine.len() > 100 {
                                    mine.drain(..50);
                                }
                            }
                        });
                    });
                }
            });
        });
    }
}

/// Threads of one life after the other: caches of malloc are handed on with the block.
#[test]
fn malloc_works_in_short_threads() {
    for setup in Setup::all() {
        setup.run(|| {
            let mut kept: Vec<Block> = Vec::new();
            let mut rng = Rng(3);
            for round in 0..60u64 {
                let threads: Vec<_> = (0..10)
                    .map(|i| {
                        quaver::spawn(move || {
                            let mut rng = Rng(round * 10 + i);
                            let mut blocks: Vec<_> = (0..30)
                                .map(|_| Block::new(rng.below(300) as usize, 8, i as u8))
                                .collect();
                            blocks.retain(|_| rng.below(2) == 0);
                            blocks
                        })
                    })
                    .collect();
                kept.extend(threads.into_iter().flat_map(|t| t.join().unwrap()));
                kept.retain(|_| rng.below(3) != 0);
            }
        });
    }
}
