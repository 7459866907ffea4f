//! One spare in a list, who gives it a slot, and who stops it. A lost wake-up blocks all threads,
//! which loom reports.

use super::Seat;
use loom::sync::atomic::{AtomicBool, Ordering::*};
use loom::sync::{Arc, Mutex};

const SLOT: usize = 7;

struct Office {
    seat: Seat,
    /// The spare is in the list.
    listed: Mutex<bool>,
    stopping: AtomicBool,
}

impl Office {
    /// The spare: was it given the slot?
    fn wait(&self) -> bool {
        let ends = || {
            if !self.stopping.load(Acquire) {
                return false;
            }
            core::mem::replace(&mut *self.listed.lock().unwrap(), false)
        };
        let slot = self.seat.wait(ends, || None);
        assert!(slot.is_none_or(|slot| slot == SLOT));
        slot.is_some()
    }

    /// Somebody blocks: did the spare take the slot?
    fn give(&self) -> bool {
        let taken = core::mem::replace(&mut *self.listed.lock().unwrap(), false);
        if taken {
            self.seat.give(SLOT);
        }
        taken
    }

    fn stop(&self) {
        self.stopping.store(true, SeqCst);
        if *self.listed.lock().unwrap() {
            self.seat.call();
        }
    }
}

fn explore(program: impl Fn(&Arc<Office>) -> bool + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(move || {
        let office = Arc::new(Office {
            seat: Seat::new(),
            listed: Mutex::new(true),
            stopping: AtomicBool::new(false),
        });
        let spare = loom::thread::spawn({
            let office = office.clone();
            move || office.wait()
        });
        let given = program(&office);
        assert_eq!(spare.join().unwrap(), given, "who has the slot?");
    });
}

#[test]
fn a_spare_gets_the_slot() {
    explore(|office| office.give());
}

#[test]
fn a_spare_is_stopped() {
    explore(|office| {
        office.stop();
        false
    });
}

/// A slot that is given while the runtime stops is not lost.
#[test]
fn a_slot_is_given_while_the_runtime_stops() {
    explore(|office| {
        let stopper = loom::thread::spawn({
            let office = office.clone();
            move || office.stop()
        });
        let given = office.give();
        stopper.join().unwrap();
        given
    });
}
