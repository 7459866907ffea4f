//! A shutdown, and threads that are preempted in the middle of a library.

use super::InLibrary;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};

struct Library {
    door: InLibrary,
    /// Threads that stand in the middle of it, off their worker.
    inside: AtomicUsize,
    stopping: AtomicBool,
}

impl Library {
    /// Preempted once, and resumed.
    fn visit(&self) {
        if self.door.enter() {
            self.inside.fetch_add(1, Relaxed);
            assert!(!self.stopping.load(Relaxed), "stopped in the middle of a library");
            self.inside.fetch_sub(1, Relaxed);
            self.door.leave();
        }
    }

    /// Waits, then lets go of threads wherever they are.
    fn shut_down(&self) {
        while !self.door.is_left() {
            loom::thread::yield_now();
        }
        assert_eq!(self.inside.load(Relaxed), 0);
        self.stopping.store(true, Relaxed);
    }
}

#[test]
fn nobody_is_let_go_of_inside() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let library = Arc::new(Library {
            door: InLibrary::new(),
            inside: AtomicUsize::new(0),
            stopping: AtomicBool::new(false),
        });
        let visitors = [(); 2].map(|()| {
            let library = library.clone();
            loom::thread::spawn(move || library.visit())
        });
        library.shut_down();
        for visitor in visitors {
            visitor.join().unwrap();
        }
    });
}
