//! Wake-ups by signal handlers that have interrupted the runtime.
//!
//! A handler of the program may wake a futex wherever it runs, as natively. The lists of those who
//! wait and the run queues have locks, though, which the code that it has interrupted may hold. A
//! handler that finds the runtime interrupted ([`preempt::in_section`]) therefore only writes down
//! what it wants, here, and the keeper of spares, which no handler interrupts, does it within
//! microseconds.
//!
//! # Protocol
//!
//! ```text
//!   FREE --a handler--> WRITING --the same--> WRITTEN --the keeper--> FREE
//! ```
//!
//! A handler never waits: one that finds no slot free asks for everybody to be woken, which is
//! always allowed, since a futex wait may end for no reason. The keeper is woken after that; it
//! looks again before it sleeps.
//!
//! [`preempt::in_section`]: crate::preempt::in_section

use super::futex;
use crate::runtime::Inner;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::*};

const FREE: u32 = 0;
const WRITING: u32 = 1;
const WRITTEN: u32 = 2;

struct Wish {
    state: AtomicU32,
    n: AtomicU32,
    bits: AtomicU32,
    address: AtomicUsize,
}

static WISHES: [Wish; 32] = [const {
    Wish {
        state: AtomicU32::new(FREE),
        n: AtomicU32::new(0),
        bits: AtomicU32::new(0),
        address: AtomicUsize::new(0),
    }
}; 32];

/// There were more.
static TOO_MANY: AtomicBool = AtomicBool::new(false);

/// Asks for up to `n` user threads to be woken. Async-signal-safe; never waits.
pub(super) fn post(address: usize, n: u32, bits: u32) {
    // Without a runtime no user thread waits.
    let Some(rt) = Inner::latest() else { return };
    let free = |w: &&Wish| w.state.compare_exchange(FREE, WRITING, Acquire, Relaxed).is_ok();
    match WISHES.iter().find(free) {
        Some(wish) => {
            wish.address.store(address, Relaxed);
            wish.n.store(n, Relaxed);
            wish.bits.store(bits, Relaxed);
            wish.state.store(WRITTEN, Release);
        }
        None => TOO_MANY.store(true, Release),
    }
    rt.spares.wake_keeper();
}

/// The keeper does what handlers have asked for.
pub(crate) fn wake_postponed() {
    for wish in &WISHES {
        if wish.state.load(Acquire) == WRITTEN {
            let (address, n) = (wish.address.load(Relaxed), wish.n.load(Relaxed));
            let bits = wish.bits.load(Relaxed);
            wish.state.store(FREE, Release);
            futex::wake_users(address, n, bits);
        }
    }
    if TOO_MANY.swap(false, AcqRel) {
        futex::wake_everybody();
    }
}

/// In the child of a fork: nobody asks for anything.
pub(super) fn forget() {
    WISHES.iter().for_each(|wish| wish.state.store(FREE, Relaxed));
    TOO_MANY.store(false, Relaxed);
}
