//! Thread-locals belong to the user thread, whichever worker it runs on.

use std::cell::Cell;

thread_local!(static NUMBER: Cell<u32> = const { Cell::new(0) });

#[quaver::main]
fn main() {
    let threads: Vec<_> = (0..4)
        .map(|i| {
            quaver::spawn(move || {
                NUMBER.set(i);
                quaver::yield_now();
                NUMBER.get()
            })
        })
        .collect();
    let numbers: Vec<_> =
        threads.into_iter().map(|t| t.join().expect("it does not panic")).collect();
    println!("{numbers:?}");
}
