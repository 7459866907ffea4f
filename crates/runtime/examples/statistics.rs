//! What the runtime has done: two busy threads share a worker.

use std::hint::black_box;

fn main() -> Result<(), quaver::BuildError> {
    let runtime = quaver::Builder::from_env().workers(1).build()?;
    runtime.run(|| {
        let busy = || (0..100_000_000u64).fold(1, |a, b| black_box(a ^ b));
        let both = [quaver::spawn(busy), quaver::spawn(busy)];
        for thread in both {
            thread.join().expect("it does not panic");
        }
    });
    for (name, value) in runtime.stats().iter() {
        println!("{name:>18} {value}");
    }
    Ok(())
}
