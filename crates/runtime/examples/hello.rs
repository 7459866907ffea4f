//! A busy thread does not hold up a quick one, on a single worker.

use std::time::Instant;

#[quaver::main(workers = 1)]
fn main() {
    let start = Instant::now();
    let busy = quaver::spawn(|| (0..500_000_000u64).fold(1, |a, b| std::hint::black_box(a ^ b)));
    let quick = quaver::spawn(move || start.elapsed());
    println!("the quick one ran after {:?}", quick.join().expect("it does not panic"));
    busy.join().expect("it does not panic");
    println!("the busy one ended after {:?}", start.elapsed());
}
