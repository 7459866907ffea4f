//! After hackbench: groups of threads that send each other messages of 512 bytes through sockets,
//! so that the kernel switches threads all the time. What a monitor of switches costs is seen here
//! best. (FlexGuard 5.4.)

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use super::crew::switches;

/// As in the paper.
const BYTES: usize = 512;

/// How many pairs, and how many messages each sends.
#[derive(Clone, Copy, Debug)]
pub struct Crowd {
    /// Of threads.
    pub pairs: usize,
    /// Of each pair, there and back.
    pub messages: u64,
    /// Whether each thread holds a lock of its own all the time.
    pub holding: bool,
}

/// What it took.
#[derive(Clone, Copy, Debug)]
pub struct Took {
    /// Messages, there and back.
    pub messages: u64,
    /// On the wall.
    pub wall: Duration,
    /// Of the CPU, all threads.
    pub cpu: Duration,
    /// Switches of threads.
    pub switches: u64,
}

fn cpu_time() -> Duration {
    Duration::from_nanos(quaver_bench_common::clock::process_cpu_ns())
}

impl Crowd {
    /// Runs it.
    ///
    /// # Errors
    ///
    /// When there are no more sockets.
    pub fn run(&self) -> std::io::Result<Took> {
        let pairs = (0..self.pairs).map(|_| UnixStream::pair()).collect::<Result<Vec<_>, _>>()?;
        let (count, holding) = (self.messages, self.holding);
        let before: u64 = switches().iter().sum();
        let (begun, cpu) = (Instant::now(), cpu_time());
        let exchange = move |mut stream: UnixStream, first: bool| -> std::io::Result<()> {
            let lock = quaver_lock::Mutex::new(());
            let _held = holding.then(|| lock.lock());
            let mut message = [7; BYTES];
            for _ in 0..count {
                if first {
                    stream.write_all(&message)?;
                }
                stream.read_exact(&mut message)?;
                if !first {
                    stream.write_all(&message)?;
                }
            }
            Ok(())
        };
        std::thread::scope(|s| {
            let mut all = Vec::new();
            for (one, other) in pairs {
                all.push(s.spawn(move || exchange(one, true)));
                all.push(s.spawn(move || exchange(other, false)));
            }
            all.into_iter().try_for_each(|thread| thread.join().expect("no panic"))
        })?;
        let after: u64 = switches().iter().sum();
        Ok(Took {
            messages: count * self.pairs as u64,
            wall: begun.elapsed(),
            cpu: cpu_time() - cpu,
            switches: after - before,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_go_there_and_back() {
        for holding in [false, true] {
            let took = Crowd { pairs: 3, messages: 200, holding }.run().unwrap();
            assert_eq!(took.messages, 600);
            assert!(took.switches > 200, "{took:?}");
        }
    }
}
