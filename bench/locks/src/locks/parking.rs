//! A waiter's word that it looks at for a while, and then sleeps at: for locks with queues.

use std::hint::spin_loop;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

use super::sleep;

const WAITING: u32 = 0;
const PARKED: u32 = 1;
const TOLD: u32 = 2;

/// Looks before a waiter sleeps: about what a switch costs. (FlexGuard 2.2, note 4.)
const LOOKS: u64 = 1000;

/// Where one thread waits for another's word.
#[derive(Default)]
pub struct Spot(AtomicU32);

impl Spot {
    /// Before a wait, while nobody else knows of it.
    pub fn reset(&self) {
        self.0.store(WAITING, Relaxed);
    }

    /// Looks, then sleeps, until told. Returns how often it looked.
    pub fn wait(&self) -> u64 {
        let mut looks = 0;
        loop {
            if self.0.load(Acquire) == TOLD {
                return looks;
            }
            if !looks.is_multiple_of(LOOKS) || looks == 0 {
                spin_loop();
                looks += 1;
            } else if self.0.compare_exchange(WAITING, PARKED, AcqRel, Acquire) != Err(TOLD) {
                sleep::wait(&self.0, PARKED, None);
                // A call without a word from anybody: look again, so that who was only roused is
                // awake when its turn comes.
                looks += u64::from(self.0.load(Relaxed) == WAITING);
            }
        }
    }

    /// Ends the wait. The spot may be gone when this returns.
    pub fn tell(&self) {
        let word = self.0.as_ptr();
        if self.0.swap(TOLD, AcqRel) == PARKED {
            sleep::wake(word, 1);
        }
    }

    /// Makes who sleeps look again; nothing else.
    pub fn rouse(&self) {
        let word = self.0.as_ptr();
        if self.0.load(Relaxed) == PARKED
            && self.0.compare_exchange(PARKED, WAITING, AcqRel, Relaxed).is_ok()
        {
            sleep::wake(word, 1);
        }
    }
}
