//! Quaver's lock with its monitor, whose holder also asks the kernel not to preempt it. (FlexGuard
//! with the slice extension, 2.4.)
//!
//! A waiter asks before it tries, because the kernel may look at any time after, and takes that
//! back before it waits.

use super::BenchLock;
use super::slice::Node;

/// The lock.
pub struct Both(quaver_lock::Lock);

impl BenchLock for Both {
    type Node = Node;

    fn create() -> Self {
        Self(quaver_lock::Lock::new())
    }

    fn lock(&self, node: &mut Node) -> u64 {
        node.ask(1);
        if !self.0.try_lock() {
            node.settle();
            self.0.lock();
            node.ask(1);
        }
        0
    }

    unsafe fn unlock(&self, node: &mut Node) {
        // SAFETY: held by the calling thread, as the caller sees to.
        unsafe { self.0.unlock() };
        node.settle();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::UnsafeCell;

    /// Where the kernel has no extension, too: the area is the test's own.
    #[test]
    fn holders_ask_and_nobody_else_does() {
        struct Shared(Both, UnsafeCell<u64>);
        // SAFETY: the number is used under the lock only.
        unsafe impl Sync for Shared {}
        const ROUNDS: u64 = 20_000;
        let shared = Shared(Both::create(), UnsafeCell::new(0));
        let shared = &shared;
        std::thread::scope(|s| {
            for _ in 0..3 {
                s.spawn(move || {
                    let mut area = [0; 2];
                    let area = &raw mut area;
                    // SAFETY: this thread's bytes, which live as long as the node.
                    let (mut node, asks) = unsafe { (Node::on(&mut *area), || (&raw const *area)) };
                    for _ in 0..ROUNDS {
                        shared.0.lock(&mut node);
                        // SAFETY: as above; under the lock, which this thread has taken.
                        unsafe {
                            assert_eq!(asks().read_volatile(), [1, 0]);
                            *shared.1.get() += 1;
                            shared.0.unlock(&mut node);
                            assert_eq!(asks().read_volatile(), [0, 0]);
                        }
                    }
                });
            }
        });
        // SAFETY: all have ended.
        assert_eq!(unsafe { *shared.1.get() }, 3 * ROUNDS);
    }
}
