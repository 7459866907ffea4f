//! What it takes an idle worker to get a task that another worker queues: `cargo run --release -p
//! quaver-sim --example steal`.
//!
//! Two threads on two CPUs stand for the workers and use the policy `ws` itself. One queues a task;
//! the other goes round all queues until it has it. So `look` in `costs.toml` is what a round takes
//! for each queue, and `steal` what a task that is found first takes.

use std::error::Error;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Instant;

use quaver_sched::{Place, Spec, Task, Why};

const TRIES: usize = 20_000;
/// A busy machine disturbs some tries; the median is not moved by them.
const MEDIAN: usize = TRIES / 2;

fn main() -> Result<(), Box<dyn Error>> {
    for workers in [2, 8, 24] {
        let spec: Spec = "ws:quantum=none".parse()?;
        let policy = spec.build(workers, 16, |span| span.as_nanos() as u64);
        let begin = Instant::now();
        let now = || begin.elapsed().as_nanos() as u64;
        // When the task of this number was taken.
        let taken = AtomicU64::new(0);
        let (mut times, mut rounds) = (Vec::new(), Vec::new());
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..TRIES {
                    let start = now();
                    let mut empty = 0;
                    while policy.balance(1, 0).is_none() {
                        empty += 1;
                    }
                    let end = now();
                    rounds.extend((end - start).checked_div(empty));
                    taken.store(end, SeqCst);
                }
            });
            for _ in 0..TRIES {
                // The other one goes round in vain for a while.
                let pause = now() + 2_000;
                while now() < pause {
                    std::hint::spin_loop();
                }
                let queued = now();
                policy.task_enqueue(Place::Local(0), Task(0), Why::New, 0);
                while taken.load(SeqCst) < queued {
                    std::hint::spin_loop();
                }
                times.push(taken.swap(0, SeqCst) - queued);
            }
        });
        times.sort_unstable();
        rounds.sort_unstable();
        println!(
            "{workers} workers: {} ns from queueing to taking, {} ns for a round in vain",
            times[MEDIAN],
            rounds[rounds.len() / 2],
        );
    }
    Ok(())
}
