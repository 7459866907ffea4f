//! How long a request takes to serve.

use std::fmt;
use std::str::FromStr;

use crate::error::{Spec, SpecError};
use crate::random::Uniform;
use crate::units;

/// A distribution of service times, in nanoseconds.
///
/// | text | |
/// |---|---|
/// | `fixed=4us` | always 4 µs |
/// | `exp=10us` | exponential with mean 10 µs |
/// | `lognormal=10us/1.5` | lognormal with mean 10 µs; the logarithm has standard deviation 1.5 |
/// | `uniform=1us..9us` | uniform, both ends included |
/// | `bimodal=99.5%/500ns/500us` | 500 ns with probability 99.5 %, else 500 µs |
///
/// Samples are rounded to nanoseconds and at least 1 ns, because 0 means *unknown* in a
/// [`Request`](crate::Request).
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ServiceTime {
    /// Always the same.
    Fixed {
        /// The service time.
        ns: u64,
    },
    /// Exponential.
    Exponential {
        /// The mean.
        mean_ns: u64,
    },
    /// Lognormal: the logarithm is normal.
    Lognormal {
        /// The mean of the service time itself, not of its logarithm.
        mean_ns: u64,
        /// The standard deviation of the natural logarithm, from 0 to 10.
        sigma: f64,
    },
    /// Uniform over the whole nanoseconds from `low_ns` to `high_ns`, both included.
    Uniform {
        /// The shortest.
        low_ns: u64,
        /// The longest; not below `low_ns`.
        high_ns: u64,
    },
    /// One of two values.
    Bimodal {
        /// The share of the short value in percent, from 0 to 100.
        short_percent: f64,
        /// The short value.
        short_ns: u64,
        /// The long value.
        long_ns: u64,
    },
}

impl ServiceTime {
    /// The mean in nanoseconds (before the rounding of samples).
    pub fn mean_ns(&self) -> f64 {
        match *self {
            Self::Fixed { ns } => ns as f64,
            Self::Exponential { mean_ns } | Self::Lognormal { mean_ns, .. } => mean_ns as f64,
            Self::Uniform { low_ns, high_ns } => (low_ns as f64 + high_ns as f64) / 2.0,
            Self::Bimodal { short_percent, short_ns, long_ns } => {
                let short = short_percent / 100.0;
                short * short_ns as f64 + (1.0 - short) * long_ns as f64
            }
        }
    }

    /// What is wrong with the parameters, if anything.
    pub(crate) fn problem(&self) -> Option<&'static str> {
        let shortest = match *self {
            Self::Fixed { ns } => ns,
            Self::Exponential { mean_ns } | Self::Lognormal { mean_ns, .. } => mean_ns,
            Self::Uniform { low_ns, .. } => low_ns,
            Self::Bimodal { short_ns, long_ns, .. } => short_ns.min(long_ns),
        };
        match *self {
            _ if shortest == 0 => Some("a service time above 0"),
            Self::Lognormal { sigma, .. } if !(0.0..=10.0).contains(&sigma) => {
                Some("a standard deviation of the logarithm from 0 to 10")
            }
            Self::Uniform { low_ns, high_ns } if low_ns > high_ns => {
                Some("an upper end that is not below the lower")
            }
            Self::Bimodal { short_percent, .. } if !(0.0..=100.0).contains(&short_percent) => {
                Some("a share from 0% to 100%")
            }
            _ => None,
        }
    }

    /// Draws a service time in nanoseconds, at least 1.
    pub fn sample(&self, random: &mut impl Uniform) -> u64 {
        let ns = match *self {
            Self::Fixed { ns } => ns,
            Self::Exponential { mean_ns } => (random.exponential(mean_ns as f64) + 0.5) as u64,
            Self::Lognormal { mean_ns, sigma } => {
                let exponent = sigma * random.normal() - sigma * sigma / 2.0;
                (mean_ns as f64 * libm::exp(exponent) + 0.5) as u64
            }
            Self::Uniform { low_ns, high_ns } => {
                let values = high_ns.saturating_sub(low_ns) as f64 + 1.0;
                // The minimum: with very many values the product may round up to their number.
                low_ns.saturating_add((random.unit() * values) as u64).min(high_ns)
            }
            Self::Bimodal { short_percent, short_ns, long_ns } => {
                if random.unit() < short_percent / 100.0 { short_ns } else { long_ns }
            }
        };
        ns.max(1)
    }

    /// Parses `piece`, a part of `spec`.
    pub(crate) fn parse(spec: &Spec<'_>, piece: &str) -> Result<Self, SpecError> {
        let (kind, parameters) = piece.split_once('=').unwrap_or((piece, ""));
        let split = |separator: &str, expected: &str| {
            parameters.split_once(separator).ok_or_else(|| spec.error(parameters, expected))
        };
        let service = match kind {
            "fixed" => Self::Fixed { ns: units::duration(spec, parameters)? },
            "exp" => Self::Exponential { mean_ns: units::duration(spec, parameters)? },
            "lognormal" => {
                let (mean, sigma) = split("/", "MEAN/SIGMA such as 10us/1.5")?;
                let mean_ns = units::duration(spec, mean)?;
                let expected = "a standard deviation of the logarithm from 0 to 10";
                Self::Lognormal { mean_ns, sigma: units::number(spec, sigma, expected)? }
            }
            "uniform" => {
                let (low, high) = split("..", "LOW..HIGH such as 1us..9us")?;
                let low_ns = units::duration(spec, low)?;
                Self::Uniform { low_ns, high_ns: units::duration(spec, high)? }
            }
            "bimodal" => {
                let expected = "SHARE%/SHORT/LONG such as 99.5%/500ns/500us";
                let (share, times) = split("/", expected)?;
                let (short, long) =
                    times.split_once('/').ok_or_else(|| spec.error(parameters, expected))?;
                let percent = share.strip_suffix('%').ok_or_else(|| spec.error(share, expected))?;
                let short_percent = units::number(spec, percent, "a share such as 99.5%")?;
                let short_ns = units::duration(spec, short)?;
                Self::Bimodal { short_percent, short_ns, long_ns: units::duration(spec, long)? }
            }
            _ => {
                return Err(spec.error(
                    piece,
                    "a service time: fixed=T, exp=MEAN, lognormal=MEAN/SIGMA, uniform=LOW..HIGH or \
                     bimodal=SHARE%/SHORT/LONG",
                ));
            }
        };
        match service.problem() {
            Some(expected) => Err(spec.error(parameters, expected)),
            None => Ok(service),
        }
    }
}

impl FromStr for ServiceTime {
    type Err = SpecError;

    /// # Errors
    ///
    /// Names the column, and what was expected there.
    fn from_str(text: &str) -> Result<Self, SpecError> {
        Self::parse(&Spec::new("service time", text), text.trim())
    }
}

impl fmt::Display for ServiceTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = units::format_ns;
        match *self {
            Self::Fixed { ns } => write!(f, "fixed={}", time(ns)),
            Self::Exponential { mean_ns } => write!(f, "exp={}", time(mean_ns)),
            Self::Lognormal { mean_ns, sigma } => write!(f, "lognormal={}/{sigma}", time(mean_ns)),
            Self::Uniform { low_ns, high_ns } => {
                write!(f, "uniform={}..{}", time(low_ns), time(high_ns))
            }
            Self::Bimodal { short_percent, short_ns, long_ns } => {
                write!(f, "bimodal={short_percent}%/{}/{}", time(short_ns), time(long_ns))
            }
        }
    }
}
