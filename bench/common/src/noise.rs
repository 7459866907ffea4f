//! What the machine itself does to latencies: how often, and for how long, it stops a thread that
//! only looks at the clock.
//!
//! Interrupts take microseconds. On a virtual machine the host may run others in its place for
//! milliseconds, and no scheduler inside can do anything about it; so results are shown beside
//! this.

use std::time::{Duration, Instant};

use serde::Serialize;

use crate::affinity;

/// Shorter stops are the timer tick and other interrupts, which a virtual machine makes slow.
const STOP: Duration = Duration::from_micros(50);

/// Stops of a spinning thread on one CPU.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct Noise {
    /// How long it was watched, in seconds.
    pub watched_s: f64,
    /// Stops of more than 50 µs.
    pub stops: u64,
    /// All these stops together, in percent of the time.
    pub lost_percent: f64,
    /// The longest, in microseconds.
    pub longest_us: f64,
}

impl Noise {
    /// Watches `cpu` for `span`, on a kernel thread of its own.
    ///
    /// # Errors
    ///
    /// The thread cannot be started or put on that CPU.
    pub fn watch(cpu: usize, span: Duration) -> anyhow::Result<Noise> {
        affinity::on_cpu("noise", cpu, || Ok(Noise::of(std::iter::repeat_with(Instant::now), span)))
    }

    /// What these readings of a clock, as fast as they came, say until `span` is over.
    fn of(mut times: impl Iterator<Item = Instant>, span: Duration) -> Noise {
        let Some(first) = times.next() else { return Noise::default() };
        let (mut last, mut stops, mut lost, mut longest) =
            (first, 0, Duration::ZERO, Duration::ZERO);
        for now in times {
            let gap = now - last;
            last = now;
            if gap > STOP {
                stops += 1;
                lost += gap;
                longest = longest.max(gap);
            }
            if now - first >= span {
                break;
            }
        }
        Noise::new(last - first, stops, lost, longest)
    }

    fn new(watched: Duration, stops: u64, lost: Duration, longest: Duration) -> Noise {
        let watched_s = watched.as_secs_f64();
        Noise {
            watched_s,
            stops,
            lost_percent: 100.0 * lost.as_secs_f64() / watched_s.max(f64::MIN_POSITIVE),
            longest_us: longest.as_secs_f64() * 1e6,
        }
    }

    /// Both together.
    pub fn and(self, other: Noise) -> Noise {
        let watched_s = self.watched_s + other.watched_s;
        let lost = |noise: Noise| noise.lost_percent * noise.watched_s;
        Noise {
            watched_s,
            stops: self.stops + other.stops,
            lost_percent: (lost(self) + lost(other)) / watched_s.max(f64::MIN_POSITIVE),
            longest_us: self.longest_us.max(other.longest_us),
        }
    }

    /// A sentence without its full stop, where the noise shows in a 99th percentile: about one
    /// request in a hundred arrives during a stop or just behind one.
    pub fn warning(&self, cpu: usize) -> Option<String> {
        (self.lost_percent >= 0.2).then(|| {
            format!(
                "the machine itself stopped a spinning thread on CPU {cpu} for more than 50 µs \
                 {:.0} times a second, up to {:.1} ms, {:.1} % of the time; no scheduler can make \
                 p99 better than that",
                self.stops as f64 / self.watched_s,
                self.longest_us / 1e3,
                self.lost_percent
            )
        })
    }
}

/// A warning when others use the machine, from the content of `/proc/loadavg`.
pub fn busy(loadavg: &str) -> Option<String> {
    let load: f64 = loadavg.split_whitespace().next()?.parse().ok()?;
    (load > 0.5).then(|| {
        format!("the machine was busy when this began (load average {load}): wait until it is idle")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn readings(gaps_us: &[u64]) -> Vec<Instant> {
        let mut at = Instant::now();
        let mut times = vec![at];
        for &gap in gaps_us {
            at += Duration::from_micros(gap);
            times.push(at);
        }
        times
    }

    #[test]
    fn gaps_are_counted_from_50_us() {
        let noise =
            Noise::of(readings(&[1, 50, 51, 98, 1, 799]).into_iter(), Duration::from_secs(1));
        assert_eq!(noise.stops, 3);
        assert!((noise.watched_s - 1e-3).abs() < 1e-9);
        assert!((noise.lost_percent - 94.8).abs() < 1e-6);
        assert!((noise.longest_us - 799.0).abs() < 1e-6);
    }

    #[test]
    fn it_ends_with_the_span() {
        let noise =
            Noise::of(readings(&[10, 10, 100, 5000]).into_iter(), Duration::from_micros(120));
        assert_eq!((noise.stops, noise.longest_us), (1, 100.0));
    }

    #[test]
    fn only_much_noise_is_worth_a_warning() {
        let quiet = Noise::of(readings(&[100, 99_900]).into_iter(), Duration::from_micros(100));
        assert_eq!(quiet.stops, 1);
        let idle = Noise { watched_s: 1.0, stops: 3, lost_percent: 0.1, longest_us: 900.0 };
        assert_eq!(idle.warning(1), None);
        let noisy =
            idle.and(Noise { watched_s: 1.0, stops: 21, lost_percent: 3.9, longest_us: 4000.0 });
        let text = noisy.warning(7).unwrap();
        for part in ["CPU 7", "12 times", "4.0 ms", "2.0 %"] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn a_real_cpu_can_be_watched() {
        let cpu = affinity::allowed().unwrap()[0];
        let noise = Noise::watch(cpu, Duration::from_millis(5)).unwrap();
        assert!(noise.watched_s >= 0.005);
        assert!(Noise::watch(8000, Duration::from_millis(5)).is_err());
    }

    #[test]
    fn a_busy_machine_is_mentioned() {
        assert_eq!(busy("0.42 0.10 0.05 1/100 12345"), None);
        assert!(busy("1.90 0.10 0.05 1/100 12345").unwrap().contains("1.9"));
        assert_eq!(busy("?"), None);
    }
}
