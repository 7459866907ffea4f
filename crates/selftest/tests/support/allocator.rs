//! Whatever allocator the program has: user threads allocate, grow, shrink, hand on and free blocks
//! whose every byte is known, and are preempted and moved all the while.
//!
//! It proves three things about an allocator that knows nothing of user threads. Nobody is
//! preempted between two steps of its code such that another thread meets a half-changed free list:
//! a block would be given out twice and its contents would be wrong. Nobody waits for ever for one
//! of its locks on the only worker. And what it keeps for each thread belongs to the user thread:
//! blocks outlive the threads that they come from, and are freed by others, on other workers.

#[path = "../../../runtime/tests/support/mod.rs"]
mod runtime;

use runtime::{Rng, Setup, stats, until_preempted};
use std::alloc::{Layout, alloc, alloc_zeroed, dealloc, realloc};
use std::sync::Mutex;

/// A block of which every byte follows from its seed.
struct Block {
    start: *mut u8,
    layout: Layout,
    seed: u8,
}

// SAFETY: a block belongs to whoever has it.
unsafe impl Send for Block {}

impl Block {
    fn new(rng: &mut Rng) -> Block {
        let size = match rng.below(64) {
            0 => rng.below(600_000),
            1..8 => rng.below(20_000),
            _ => rng.below(300),
        } as usize
            + 1;
        let layout = Layout::from_size_align(size, 1 << rng.below(8)).unwrap();
        let zeroed = rng.below(4) == 0;
        // SAFETY: the layout is not empty.
        let start = unsafe { if zeroed { alloc_zeroed(layout) } else { alloc(layout) } };
        assert!(!start.is_null() && start.addr() % layout.align() == 0, "{start:p}, {layout:?}");
        let mut block = Block { start, layout, seed: 0 };
        if zeroed {
            assert!(block.bytes().iter().all(|&b| b == 0), "not zeroed: {layout:?}");
        }
        block.seed = rng.next() as u8;
        block.fill_from(0);
        block
    }

    fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: allocated with this size, and initialised by `new` or `resize`, or about to be.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.layout.size()) }
    }

    fn fill_from(&mut self, from: usize) {
        let seed = self.seed;
        // SAFETY: inside the block.
        unsafe { self.start.add(from).write_bytes(seed, self.layout.size() - from) };
        // The ends say whose they are.
        let size = self.layout.size();
        self.bytes()[size - 1] = !seed;
    }

    fn check(&mut self) {
        let (seed, layout) = (self.seed, self.layout);
        let (last, rest) = self.bytes().split_last().unwrap();
        assert!(*last == !seed && rest.iter().all(|&b| b == seed), "overwritten: {layout:?}");
    }

    fn resize(&mut self, rng: &mut Rng) {
        self.check();
        let old = self.layout.size();
        let new = match rng.below(16) {
            0 => rng.below(200_000) as usize + 1,
            _ => old / 2 + rng.below(old as u64 + 10) as usize + 1,
        };
        // SAFETY: the block's layout; the new size is not zero.
        self.start = unsafe { realloc(self.start, self.layout, new) };
        assert!(!self.start.is_null());
        self.layout = Layout::from_size_align(new, self.layout.align()).unwrap();
        let kept = old.min(new) - usize::from(old <= new);
        let seed = self.seed;
        assert!(self.bytes()[..kept].iter().all(|&b| b == seed), "lost: {old} to {new} bytes");
        self.fill_from(kept.min(new - 1));
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        self.check();
        // SAFETY: allocated with this layout, freed once.
        unsafe { dealloc(self.start, self.layout) };
    }
}

/// One step of a thread: blocks of its own, blocks that others left, and blocks of a thread that
/// ends at once.
fn step(rng: &mut Rng, places: &[Mutex<Option<Block>>]) {
    if rng.below(16) == 0 {
        let seed = rng.next();
        let short = quaver::spawn(move || {
            let mut rng = Rng(seed);
            let blocks: Vec<Block> = (0..4).map(|_| Block::new(&mut rng)).collect();
            drop(Block::new(&mut rng));
            blocks
        });
        drop(short.join().unwrap());
        return;
    }
    let mut mine = Block::new(rng);
    if rng.below(2) == 0 {
        mine.resize(rng);
    }
    let place = &places[rng.below(places.len() as u64) as usize];
    let found = place.lock().unwrap().replace(mine);
    if let Some(mut block) = found {
        if rng.below(4) == 0 {
            block.resize(rng);
        }
        drop(block);
    }
}

/// Runs such threads on runtimes of all kinds.
pub fn blocks_are_whole_under_preemption() {
    for setup in Setup::all() {
        let places: Vec<_> = (0..64).map(|_| Mutex::new(None)).collect();
        setup.run(|| {
            quaver::scope(|s| {
                for i in 0..4 {
                    let places = &places;
                    s.spawn(move || {
                        let mut rng = Rng(i);
                        until_preempted(setup.preemptions(300), |_| step(&mut rng, places));
                    });
                }
            });
            println!("   {} requests put off", stats().preempt_deferred);
        });
        // The rest, on a kernel thread.
        drop(places);
    }
}
