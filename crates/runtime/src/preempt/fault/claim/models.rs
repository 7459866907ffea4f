//! Who takes the slot, and the carrier that wakes meanwhile. The kernel's promise, that no code of
//! the thread's runs between the taker's look and the handler, is where the model begins.

use super::*;
use loom::sync::Arc;
use loom::sync::atomic::AtomicU32;
use loom::thread;

const RUN: u64 = 7;

struct Claimed {
    claim: Claim,
    /// Who uses the slot at this moment.
    users: AtomicU32,
}

impl Claimed {
    fn use_slot(&self) {
        assert_eq!(self.users.fetch_add(1, Relaxed), 0, "two carriers on one slot");
    }
}

/// One side has the slot from then on, whichever comes first, and both know which.
#[test]
fn one_side_has_the_slot() {
    loom::model(|| {
        let shared = Arc::new(Claimed { claim: Claim::new(), users: AtomicU32::new(0) });
        shared.claim.ask(RUN);
        let carrier = {
            let shared = shared.clone();
            thread::spawn(move || {
                let found = shared.claim.found();
                if found == Found::Nothing {
                    shared.use_slot();
                }
                found
            })
        };
        let taken = shared.claim.take(RUN);
        if taken {
            shared.use_slot();
        } else {
            shared.claim.forget(RUN);
        }
        assert_eq!(taken, carrier.join().unwrap() == Found::Taken);
        assert!(!shared.claim.is_set());
    });
}
