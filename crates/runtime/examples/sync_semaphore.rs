//! At most three threads at a time use a scarce resource; the others wait in order.

use quaver::sync::{AcquireTimeoutError, Semaphore};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

const CONNECTIONS: usize = 3;

#[quaver::main]
fn main() {
    let pool = Arc::new(Semaphore::new(CONNECTIONS));
    let open = Arc::new(AtomicUsize::new(0));
    let most = Arc::new(AtomicUsize::new(0));
    let clients: Vec<_> = (0..20)
        .map(|_| {
            let (pool, open, most) = (pool.clone(), open.clone(), most.clone());
            quaver::spawn(move || {
                let _connection = pool.acquire().unwrap();
                most.fetch_max(open.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                quaver::sleep(Duration::from_micros(200));
                open.fetch_sub(1, Ordering::SeqCst);
            })
        })
        .collect();
    for client in clients {
        client.join().unwrap();
    }
    let most = most.load(Ordering::SeqCst);
    println!("20 clients, never more than {most} connections");
    assert!(most <= CONNECTIONS);

    // Patience has an end, if wanted.
    let _all: Vec<_> = (0..CONNECTIONS).map(|_| pool.acquire().unwrap()).collect();
    let refused = pool.acquire_timeout(Duration::from_millis(1)).err();
    assert_eq!(refused, Some(AcquireTimeoutError::TimedOut));
}
