//! The token of a kernel thread.

use super::{explore, explore_crowd, join, past};
use crate::park;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, Ordering::Relaxed};
use loom::thread;

#[test]
fn a_token_wakes_and_publishes() {
    explore(6, || {
        let me = park::current();
        let data = Arc::new(AtomicU32::new(0));
        let t = thread::spawn({
            let data = data.clone();
            move || {
                data.store(1, Relaxed);
                park::unpark(me);
            }
        });
        park::park(me);
        assert_eq!(data.load(Relaxed), 1);
        t.join().unwrap();
    });
}

#[test]
fn two_unparks_are_one_token_or_two() {
    explore_crowd(3, || {
        let me = park::current();
        let ts = [0, 1].map(|_| thread::spawn(move || park::unpark(me)));
        park::park(me);
        join(ts);
        // The second token is there, or went with the first; in neither case does a timed park hang
        // or a fresh token fail.
        park::park_deadline(me, Some(past()));
        assert!(!park::park_deadline(me, Some(past())));
        park::unpark(me);
        park::park(me);
    });
}

#[test]
fn a_timeout_races_with_an_unpark() {
    explore(6, || {
        let me = park::current();
        let t = thread::spawn(move || park::unpark(me));
        if !park::park_deadline(me, Some(past())) {
            park::park(me);
        }
        t.join().unwrap();
        assert!(!park::park_deadline(me, Some(past())), "the token was taken twice or not at all");
    });
}
