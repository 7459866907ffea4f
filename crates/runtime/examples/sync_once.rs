//! Values that are made once, by whoever needs them first: `Once`, `OnceLock` and `LazyLock`.

use quaver::sync::{LazyLock, Once, OnceLock};

static PRIMES: LazyLock<Vec<u32>> = LazyLock::new(|| {
    println!("sieving (once)");
    (2..2_000u32).filter(|n| (2..*n).take_while(|d| d * d <= *n).all(|d| n % d != 0)).collect()
});

static LARGEST: OnceLock<u32> = OnceLock::new();

static HELLO: Once = Once::new();

#[quaver::main]
fn main() {
    let threads: Vec<_> = (0..8)
        .map(|id| {
            quaver::spawn(move || {
                HELLO.call_once(|| println!("thread {id} was first"));
                // All threads wait for the one that sieves; nobody sieves twice.
                let count = PRIMES.len();
                let largest = *LARGEST.get_or_init(|| PRIMES[count - 1]);
                (count, largest)
            })
        })
        .collect();
    for thread in threads {
        assert_eq!(thread.join().unwrap(), (303, 1_999));
    }
    println!("{} primes, the largest is {}", PRIMES.len(), LARGEST.wait());
}
