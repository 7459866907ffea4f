//! How many threads could run, over time. (FlexGuard 5.3, Figure 5a.)

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

/// Between two looks.
const EVERY: Duration = Duration::from_millis(5);

/// How many threads of the crew ran or could have run, at the looks.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Runnable {
    /// Fewest.
    pub min: f64,
    /// On average.
    pub mean: f64,
    /// Most.
    pub max: f64,
}

/// Looks at the states of threads.
#[derive(Debug)]
pub struct Watch(Vec<File>);

/// The calling thread's number.
pub fn tid() -> i32 {
    // SAFETY: a call that cannot fail.
    unsafe { libc::gettid() }
}

impl Watch {
    /// Of threads of this process, by number; of those that are there.
    pub fn of(tids: &[i32]) -> Self {
        let open = |tid: &i32| File::open(format!("/proc/self/task/{tid}/stat")).ok();
        Self(tids.iter().filter_map(open).collect())
    }

    fn count(&self) -> usize {
        let mut text = [0; 128];
        let mut runs = |file: &File| {
            let length = file.read_at(&mut text, 0).unwrap_or(0);
            // "number (name) state ...": the name may have parentheses, too.
            let name_ends = text[..length].iter().rposition(|&byte| byte == b')');
            name_ends.is_some_and(|at| text.get(at + 2) == Some(&b'R'))
        };
        self.0.iter().filter(|file| runs(file)).count()
    }

    /// Looks for `time`.
    pub fn during(&self, time: Duration) -> Runnable {
        let begun = Instant::now();
        let mut counts = Vec::new();
        while begun.elapsed() < time {
            std::thread::sleep(EVERY);
            counts.push(self.count() as f64);
        }
        let mean = counts.iter().sum::<f64>() / counts.len().max(1) as f64;
        let [min, max] = [f64::min, f64::max].map(|pick| counts.iter().copied().reduce(pick));
        Runnable { min: min.unwrap_or(0.0), mean, max: max.unwrap_or(0.0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
    use std::sync::{Barrier, Mutex};

    #[test]
    fn sleepers_do_not_count() {
        let (ready, over) = (Barrier::new(4), Barrier::new(4));
        let (tids, stop) = (Mutex::new(Vec::new()), AtomicBool::new(false));
        std::thread::scope(|s| {
            for _ in 0..2 {
                s.spawn(|| {
                    tids.lock().unwrap().push(tid());
                    ready.wait();
                    over.wait();
                });
            }
            s.spawn(|| {
                tids.lock().unwrap().push(tid());
                ready.wait();
                while !stop.load(Relaxed) {
                    std::hint::spin_loop();
                }
                over.wait();
            });
            ready.wait();
            std::thread::sleep(Duration::from_millis(20));
            let watch = Watch::of(&tids.lock().unwrap());
            assert_eq!((watch.0.len(), watch.count()), (3, 1));
            stop.store(true, Relaxed);
            over.wait();
        });
    }
}
