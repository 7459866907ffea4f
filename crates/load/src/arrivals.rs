//! When requests are sent: arrival processes.
//!
//! Every process offers the same long-run rate; they differ in how the requests clump.
//!
//! | text | process | squared coefficient of variation of the gaps |
//! |---|---|---|
//! | `uniform` | one request every 1/rate seconds, from 0 | 0 |
//! | `poisson` | independent users: exponential gaps | 1 |
//! | `batch=M` | batches whose sizes are geometric with mean M arrive as a Poisson process; the requests of a batch are simultaneous | 2M - 1 |
//! | `onoff=ON/OFF` | Poisson while *on*, silent while *off*; the periods are exponential with these means | 1 + 2 rate OFF² / (ON + OFF) |

use std::fmt;
use std::str::FromStr;

use crate::error::{Spec, SpecError};
use crate::random::{Random, Stream, Uniform as _};
use crate::units;

const NS_PER_S: f64 = 1e9;

/// How the requests of one generator are spread in time.
///
/// Parsed from `uniform`, `poisson`, `batch=8` and `onoff=1ms/9ms`; written the same way.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ArrivalProcess {
    /// A constant gap of 1/rate; the first request at 0.
    Uniform,
    /// Exponential gaps with mean 1/rate.
    Poisson,
    /// Batch Poisson: batches arrive as a Poisson process with rate/`mean_size` batches a second; a
    /// batch is a number of simultaneous requests, geometric on 1, 2, 3... with this mean.
    Batch {
        /// Requests in a batch, on average; at least 1 (which is Poisson).
        mean_size: f64,
    },
    /// Interrupted Poisson: exponential *on* and *off* periods alternate. During *on* requests
    /// arrive as a Poisson process of rate × (on + off) / on, during *off* none. The start is
    /// stationary: *on* with probability on / (on + off).
    OnOff {
        /// Mean length of an *on* period in nanoseconds; above 0.
        on_ns: u64,
        /// Mean length of an *off* period in nanoseconds.
        off_ns: u64,
    },
}

/// Why an arrival process cannot be run at a rate.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum ArrivalError {
    /// The rate is no usable number.
    #[error("rate {0} requests/s: expected a number from 0.001 to 1000000000")]
    Rate(f64),
    /// The mean size of a batch is no usable number.
    #[error("mean batch size {0}: expected a number from 1 to 1000000")]
    BatchSize(f64),
    /// There is no *on* period.
    #[error("the on period has no length: expected one above 0")]
    OnPeriod,
    /// Nearly every *on* period would be without a request.
    #[error(
        "one period of on and off in {0} would see a request: expected periods so long that at \
         least one in 100 does; with shorter ones the process cannot be told from poisson, so use \
         that"
    )]
    PeriodsTooShort(f64),
}

impl ArrivalProcess {
    /// The intended send times at `rate` requests a second: never-ending, in nanoseconds from 0,
    /// never going back.
    ///
    /// The same process, rate and seed give the same times on every machine. Among different rates
    /// the Poisson and the batch process keep their pattern and only stretch it.
    ///
    /// # Errors
    ///
    /// When the rate or a parameter is outside what the error says.
    pub fn times(self, rate: f64, seed: u64) -> Result<ArrivalTimes, ArrivalError> {
        if !(0.001..=1e9).contains(&rate) {
            return Err(ArrivalError::Rate(rate));
        }
        let gap = NS_PER_S / rate;
        let mut random = Random::new(seed, Stream::Arrivals);
        let state = match self {
            Self::Uniform => State::Uniform { sent: 0, gap },
            Self::Poisson => State::Batch { now: 0.0, gap, mean_size: 1.0, left: 0 },
            Self::Batch { mean_size } => {
                if !(1.0..=1e6).contains(&mean_size) {
                    return Err(ArrivalError::BatchSize(mean_size));
                }
                State::Batch { now: 0.0, gap: gap * mean_size, mean_size, left: 0 }
            }
            Self::OnOff { on_ns, off_ns } => {
                let (on, off) = (on_ns as f64, off_ns as f64);
                if on_ns == 0 {
                    return Err(ArrivalError::OnPeriod);
                }
                if (on + off) < gap / 100.0 {
                    return Err(ArrivalError::PeriodsTooShort(gap / (on + off)));
                }
                let share = on / (on + off);
                let starts_on = random.unit() < share;
                let now = if starts_on { 0.0 } else { random.exponential(off) };
                let on_until = now + random.exponential(on);
                State::OnOff { now, on_until, gap: gap * share, on, off }
            }
        };
        Ok(ArrivalTimes { random, state })
    }
}

impl fmt::Display for ArrivalProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Uniform => write!(f, "uniform"),
            Self::Poisson => write!(f, "poisson"),
            Self::Batch { mean_size } => write!(f, "batch={mean_size}"),
            Self::OnOff { on_ns, off_ns } => {
                write!(f, "onoff={}/{}", units::format_ns(on_ns), units::format_ns(off_ns))
            }
        }
    }
}

impl FromStr for ArrivalProcess {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        let spec = Spec::new("arrival process", text);
        let (name, parameters) = match text.trim().split_once('=') {
            Some((name, parameters)) => (name, Some(parameters)),
            None => (text.trim(), None),
        };
        match (name, parameters) {
            ("uniform", None) => Ok(Self::Uniform),
            ("poisson", None) => Ok(Self::Poisson),
            ("batch", Some(size)) => {
                let expected = "a mean batch size of at least 1, such as 8";
                let mean_size = units::number(&spec, size, expected)?;
                if mean_size < 1.0 {
                    return Err(spec.error(size, expected));
                }
                Ok(Self::Batch { mean_size })
            }
            ("onoff", Some(periods)) => {
                let (on, off) = periods
                    .split_once('/')
                    .ok_or_else(|| spec.error(periods, "two mean periods such as 1ms/9ms"))?;
                let (on_ns, off_ns) = (units::duration(&spec, on)?, units::duration(&spec, off)?);
                if on_ns == 0 {
                    return Err(spec.error(on, "an on period above 0"));
                }
                Ok(Self::OnOff { on_ns, off_ns })
            }
            _ => Err(spec.error(text.trim(), "uniform, poisson, batch=MEAN or onoff=ON/OFF")),
        }
    }
}

/// The intended send times of an [`ArrivalProcess`]: a never-ending iterator of nanoseconds from 0.
///
/// A clone continues with the same times.
#[derive(Clone, Debug)]
pub struct ArrivalTimes {
    random: Random,
    state: State,
}

/// Times and gaps are in nanoseconds; a double holds them to the nanosecond for 104 days.
#[derive(Clone, Debug)]
enum State {
    /// Times are products, not sums, so that they do not drift.
    Uniform {
        sent: u64,
        gap: f64,
    },
    /// Poisson is the case in which every batch is one request.
    Batch {
        now: f64,
        gap: f64,
        mean_size: f64,
        left: u64,
    },
    OnOff {
        now: f64,
        on_until: f64,
        gap: f64,
        on: f64,
        off: f64,
    },
}

impl Iterator for ArrivalTimes {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        let random = &mut self.random;
        let time = match &mut self.state {
            State::Uniform { sent, gap } => {
                let time = *sent as f64 * *gap;
                *sent += 1;
                time
            }
            State::Batch { now, gap, mean_size, left } => {
                if *left == 0 {
                    *now += random.exponential(*gap);
                    *left = if *mean_size == 1.0 { 1 } else { random.geometric(*mean_size) };
                }
                *left -= 1;
                *now
            }
            State::OnOff { now, on_until, gap, on, off } => loop {
                let next = *now + random.exponential(*gap);
                if next <= *on_until {
                    *now = next;
                    break next;
                }
                // Exponential gaps have no memory: what was left of this one needs no carrying into
                // the next period.
                *now = *on_until + random.exponential(*off);
                *on_until = *now + random.exponential(*on);
            },
        };
        // The cast saturates; the largest time is out of reach of any run.
        Some((time + 0.5) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_understood_and_written_back() {
        for (text, process) in [
            ("uniform", ArrivalProcess::Uniform),
            ("poisson", ArrivalProcess::Poisson),
            ("batch=8", ArrivalProcess::Batch { mean_size: 8.0 }),
            ("batch=1.5", ArrivalProcess::Batch { mean_size: 1.5 }),
            ("onoff=1ms/9ms", ArrivalProcess::OnOff { on_ns: 1_000_000, off_ns: 9_000_000 }),
        ] {
            assert_eq!(text.parse(), Ok(process));
            assert_eq!(process.to_string(), text);
        }
    }

    #[test]
    fn errors_point_at_the_piece() {
        for (text, column, part) in [
            ("", 1, "poisson"),
            ("exponential", 1, "poisson"),
            ("poisson=3", 1, "poisson"),
            ("batch", 1, "batch=MEAN"),
            ("batch=0.5", 7, "at least 1"),
            ("batch=-3", 7, "at least 1"),
            ("onoff=1ms", 7, "two mean periods"),
            ("onoff=1ms/9", 11, "units"),
            ("onoff=0ms/9ms", 7, "above 0"),
        ] {
            let error = text.parse::<ArrivalProcess>().unwrap_err();
            assert_eq!(error.column(), column, "{error}");
            assert!(error.to_string().contains(part), "{error}");
        }
    }

    #[test]
    fn unusable_rates_and_parameters_are_refused() {
        for rate in [0.0, -1.0, f64::NAN, f64::INFINITY, 2e9] {
            assert!(matches!(ArrivalProcess::Poisson.times(rate, 1), Err(ArrivalError::Rate(_))));
        }
        for mean_size in [0.0, f64::NAN, 1e7] {
            let batch = ArrivalProcess::Batch { mean_size };
            assert!(matches!(batch.times(1.0, 1), Err(ArrivalError::BatchSize(_))));
        }
        let silent = ArrivalProcess::OnOff { on_ns: 0, off_ns: 1 };
        assert_eq!(silent.times(1.0, 1).unwrap_err(), ArrivalError::OnPeriod);
        let hectic = ArrivalProcess::OnOff { on_ns: 1, off_ns: 1 };
        assert!(matches!(hectic.times(1.0, 1), Err(ArrivalError::PeriodsTooShort(_))));
    }

    #[test]
    fn uniform_times_do_not_drift() {
        let mut times = ArrivalProcess::Uniform.times(3.0, 0).unwrap();
        assert_eq!(times.next(), Some(0));
        assert_eq!(times.next(), Some(333_333_333));
        assert_eq!(times.nth(3 * 86_400 - 2), Some(86_400 * 1_000_000_000));
    }
}
