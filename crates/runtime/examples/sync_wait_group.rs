//! Walks a tree with one thread for each node, and waits for all of them, whose number nobody knows
//! beforehand.

use quaver::sync::{WaitGroup, WaitGroupGuard};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

fn visit(depth: u32, visited: Arc<AtomicU64>, group: WaitGroup, working: WaitGroupGuard) {
    visited.fetch_add(1, Ordering::Relaxed);
    if depth > 0 {
        for _ in 0..3 {
            // Counted here, before this node is done, so the count cannot touch zero too early.
            let (visited, group, child) = (visited.clone(), group.clone(), group.guard());
            quaver::spawn(move || visit(depth - 1, visited, group, child));
        }
    }
    drop(working);
}

#[quaver::main]
fn main() {
    let visited = Arc::new(AtomicU64::new(0));
    let group = WaitGroup::new();
    visit(7, visited.clone(), group.clone(), group.guard());
    group.wait();
    let visited = visited.load(Ordering::Relaxed);
    println!("{visited} nodes visited");
    assert_eq!(visited, (3u64.pow(8) - 1) / 2);
}
