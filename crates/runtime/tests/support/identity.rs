//! What the standard library calls the calling thread.

use super::{spin, until_preempted};
use std::collections::HashSet;
use std::sync::Mutex;

/// Each of `threads` threads, which last for so many preemptions in all, has an identity of its
/// own, and keeps it when it is moved. Those of later threads are new, too.
pub fn each_thread_has_its_own(threads: usize, preemptions: u64) {
    let seen = Mutex::new(HashSet::from([std::thread::current().id()]));
    quaver::scope(|s| {
        for _ in 0..threads {
            s.spawn(|| {
                let me = std::thread::current();
                assert!(seen.lock().unwrap().insert(me.id()), "an id of another thread");
                until_preempted(preemptions, |_| {
                    spin(200);
                    assert_eq!(std::thread::current().id(), me.id());
                });
            });
        }
    });
    for _ in 0..50 {
        let id = quaver::spawn(|| std::thread::current().id()).join().unwrap();
        assert!(seen.lock().unwrap().insert(id), "an id of an earlier thread");
    }
}
