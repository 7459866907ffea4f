//! Limits of timers and memory.

use crate::support::child;

/// Threads until there is no address space for another: an error that says so, and what is there
/// works on.
pub(crate) fn too_many_stacks() {
    let gate = std::sync::Arc::new(std::sync::Mutex::new(()));
    let held = gate.lock().unwrap();
    let mut threads = Vec::new();
    let e = loop {
        let gate = gate.clone();
        match quaver::thread::Builder::new().spawn(move || drop(gate.lock().unwrap())) {
            Ok(t) => threads.push(t),
            Err(e) => break e,
        }
    };
    println!("{} threads, then: {e}", threads.len());
    drop(held);
    threads.into_iter().for_each(|t| t.join().unwrap());
    assert_eq!(quaver::spawn(|| 5).join().unwrap(), 5);
}

#[test]
fn exhausted_resources_are_errors() {
    let o = child::run("no timers");
    o.expect_success();
    assert!(o.stdout.contains("POSIX timer") && o.stdout.contains("ulimit -i"), "{o:#?}");
    let o = child::run("no address space");
    o.expect_success();
    assert!(o.stdout.contains("thread table"), "{o:#?}");
    let o = child::run("little address space");
    o.expect_success();
    assert!(o.stdout.contains("threads, then: cannot map another stack"), "{o:#?}");
    assert!(o.stdout.contains("RLIMIT_AS"), "{o:#?}");
}
