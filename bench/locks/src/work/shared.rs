//! The shared-memory microbenchmark: each thread takes the lock, reads and writes two lines of the
//! cache, frees the lock, and spins for 100 cycles. (FlexGuard 5.2, Figures 1, 2 and 5.)

use std::cell::UnsafeCell;
use std::hint::black_box;

use super::crew::{Crew, Done, pause};
use crate::locks::{BenchLock, Use};

/// Cycles between two critical sections of a thread, as in the paper.
pub const BETWEEN: u64 = 100;

/// A line of the cache (two, as processors fetch them in pairs).
#[repr(align(128))]
struct Line(UnsafeCell<u64>);

#[repr(align(128))]
struct Apart<L>(L);

struct Shared<L> {
    lock: Apart<L>,
    lines: [Line; 2],
}

// SAFETY: the lines are used under the lock only.
unsafe impl<L: Sync> Sync for Shared<L> {}

/// With `between` cycles between two critical sections.
pub struct SharedMemory {
    /// The threads.
    pub crew: Crew,
    /// Cycles.
    pub between: u64,
}

impl Use for SharedMemory {
    /// And by how many the lines differ from the number of sections: these had no exclusion.
    type Out = (Done, u64);

    fn with<L: BenchLock>(self) -> (Done, u64) {
        let lock = Apart(L::create());
        let shared = Shared { lock, lines: [const { Line(UnsafeCell::new(0)) }; 2] };
        let between = self.between;
        let done = self.crew.run(|_| {
            let (mut node, shared) = (L::Node::default(), &shared);
            move |tally| {
                tally.begin();
                let spins = shared.lock.0.lock(&mut node);
                for line in &shared.lines {
                    // SAFETY: under the lock.
                    unsafe { *black_box(line.0.get()) += 1 };
                }
                // SAFETY: taken above, with this node.
                unsafe { shared.lock.0.unlock(&mut node) };
                tally.end(spins);
                pause(between);
            }
        });
        let total = done.total();
        let lost = shared.lines.map(|line| line.0.into_inner().abs_diff(total));
        (done, lost[0].max(lost[1]))
    }
}
