//! A time that differs from one occurrence to the next: how late a notification comes, how long a
//! disturbance lasts.
//!
//! | text | |
//! |---|---|
//! | `16us` | always |
//! | `exp=16us`, `lognormal=16us/1.2`, ... | drawn, in any form that service times have |
//! | `quantiles=0%:9us,50%:16us,99%:80us,100%:2ms` | as it was measured: linear between these points |
//!
//! In TOML a whole number is nanoseconds.

use std::fmt;
use std::str::FromStr;

use quaver_load::{ServiceTime, Uniform, format_ns};
use serde::de::{self, Deserialize, Deserializer, Visitor};
use serde::{Serialize, Serializer};

/// A time that is always the same (`16us`), drawn as service times are (`exp=16us`), or as it was
/// measured (`quantiles=0%:9us,50%:16us,100%:2ms`, linear between the points).
#[derive(Clone, PartialEq, Debug)]
pub enum Delay {
    /// Always the same, in nanoseconds; may be 0.
    Fixed(u64),
    /// Of a distribution.
    Drawn(ServiceTime),
    /// Shares in percent from 0 to 100, and the nanoseconds that so many do not exceed; both rise.
    Quantiles(Vec<(f64, u64)>),
}

impl Default for Delay {
    /// None.
    fn default() -> Self {
        Delay::Fixed(0)
    }
}

impl Delay {
    /// What was measured, as quantiles up to 99.9 and 100 %. `values` are sorted by this; none make
    /// no delay.
    pub fn measured(values: &mut [u64]) -> Delay {
        const SHARES: [f64; 12] =
            [0.0, 10.0, 25.0, 50.0, 75.0, 90.0, 95.0, 98.0, 99.0, 99.5, 99.9, 100.0];
        values.sort_unstable();
        let Some(last) = values.len().checked_sub(1) else { return Delay::default() };
        let at = |share: f64| (share, values[(share / 100.0 * last as f64).round() as usize]);
        Delay::Quantiles(SHARES.map(at).into())
    }

    /// The mean in nanoseconds.
    pub fn mean_ns(&self) -> f64 {
        match self {
            Delay::Fixed(ns) => *ns as f64,
            Delay::Drawn(service) => service.mean_ns(),
            Delay::Quantiles(points) => {
                let part = |pair: &[(f64, u64)]| {
                    let [(from, low), (to, high)] = [pair[0], pair[1]];
                    (to - from) / 100.0 * (low as f64 + high as f64) / 2.0
                };
                points.windows(2).map(part).sum()
            }
        }
    }

    /// In nanoseconds. Draws no random number for a fixed one.
    #[inline]
    pub fn sample(&self, random: &mut impl Uniform) -> u64 {
        match self {
            Delay::Fixed(ns) => *ns,
            Delay::Drawn(service) => service.sample(random),
            Delay::Quantiles(points) => between(points, 100.0 * random.unit()),
        }
    }
}

/// What a share of `percent` does not exceed.
fn between(points: &[(f64, u64)], percent: f64) -> u64 {
    let at = points.partition_point(|&(share, _)| share <= percent);
    let (Some(&(from, low)), Some(&(to, high))) = (points.get(at.wrapping_sub(1)), points.get(at))
    else {
        return points.last().map_or(0, |&(_, ns)| ns);
    };
    low + ((percent - from) / (to - from) * (high - low) as f64) as u64
}

impl FromStr for Delay {
    type Err = String;

    /// # Errors
    ///
    /// Says what was expected and found.
    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if let Some(points) = text.strip_prefix("quantiles=") {
            return quantiles(points);
        }
        if text.contains('=') {
            return text.parse().map(Delay::Drawn).map_err(|error| format!("{error}"));
        }
        let ns = quaver_sched::parse_duration(text).map_err(|error| {
            format!("{error}; or a distribution such as exp=4us or quantiles=0%:1us,100%:9us")
        })?;
        u64::try_from(ns.as_nanos()).map(Delay::Fixed).map_err(|error| error.to_string())
    }
}

fn quantiles(text: &str) -> Result<Delay, String> {
    let point = |piece: &str| {
        let (share, time) = piece.split_once("%:")?;
        let share = share.trim().parse::<f64>().ok().filter(|s| (0.0..=100.0).contains(s))?;
        Some((share, quaver_load::parse_duration_ns(time).ok()?))
    };
    let points: Option<Vec<_>> = text.split(',').map(point).collect();
    let rise =
        |points: &[(f64, u64)]| points.windows(2).all(|p| p[0].0 < p[1].0 && p[0].1 <= p[1].1);
    match points.as_deref() {
        Some(all @ [(0.0, _), .., (100.0, _)]) if rise(all) => Ok(Delay::Quantiles(all.into())),
        _ => Err(format!(
            "{text:?} are no quantiles: expected rising shares with rising times, from 0% to 100%, \
             such as 0%:9us,50%:16us,100%:2ms"
        )),
    }
}

impl fmt::Display for Delay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Delay::Fixed(ns) => f.write_str(&format_ns(*ns)),
            Delay::Drawn(service) => service.fmt(f),
            Delay::Quantiles(points) => {
                let point = |(share, ns): &(f64, u64)| format!("{share}%:{}", format_ns(*ns));
                write!(f, "quantiles={}", points.iter().map(point).collect::<Vec<_>>().join(","))
            }
        }
    }
}

impl Serialize for Delay {
    /// A fixed one as a number of nanoseconds.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Delay::Fixed(ns) => serializer.serialize_u64(*ns),
            other => serializer.collect_str(other),
        }
    }
}

impl<'de> Deserialize<'de> for Delay {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;
        impl Visitor<'_> for Either {
            type Value = Delay;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a time such as \"16us\", a distribution, or whole nanoseconds")
            }

            fn visit_i64<E: de::Error>(self, ns: i64) -> Result<Delay, E> {
                let ns = u64::try_from(ns).map_err(|_| E::custom(format!("{ns} is negative")))?;
                Ok(Delay::Fixed(ns))
            }

            fn visit_u64<E: de::Error>(self, ns: u64) -> Result<Delay, E> {
                Ok(Delay::Fixed(ns))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Delay, E> {
                text.parse().map_err(E::custom)
            }
        }
        deserializer.deserialize_any(Either)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn texts_come_back_as_they_were() {
        for text in [
            "0ns",
            "16us",
            "exp=16us",
            "lognormal=16us/1.2",
            "quantiles=0%:9us,50%:16us,99.9%:2ms,100%:2ms",
        ] {
            assert_eq!(text.parse::<Delay>().unwrap().to_string(), text);
        }
        assert_eq!("16us".parse::<Delay>(), Ok(Delay::Fixed(16_000)));
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (text, part) in [
            ("-1us", "negative"),
            ("soon", "exp=4us"),
            ("gauss=1us", "gauss=1us"),
            ("quantiles=", "no quantiles"),
            ("quantiles=0%:1us", "no quantiles"),
            ("quantiles=0%:1us,50%:2us", "to 100%"),
            ("quantiles=0%:3us,100%:2us", "rising times"),
            ("quantiles=0%:1us,60%:2us,50%:2us,100%:3us", "rising shares"),
            ("quantiles=0%:1us,100%:-3us", "no quantiles"),
        ] {
            let error = text.parse::<Delay>().unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn draws_are_as_the_distribution_says() {
        let mut random = Random::new(3);
        for text in [
            "exp=16us",
            "lognormal=16us/0.5",
            "uniform=1us..9us",
            "bimodal=90%/1us/50us",
            "quantiles=0%:0ns,50%:10us,90%:20us,100%:400us",
        ] {
            let delay: Delay = text.parse().unwrap();
            let count = 200_000;
            let sum: u64 = (0..count).map(|_| delay.sample(&mut random)).sum();
            let mean = sum as f64 / count as f64;
            assert!((mean / delay.mean_ns() - 1.0).abs() < 0.02, "{text}: {mean}");
        }
        let before = random.clone().bits();
        assert_eq!(Delay::Fixed(7).sample(&mut random), 7);
        assert_eq!(random.bits(), before, "a fixed one draws nothing");
    }

    #[test]
    fn what_was_measured_is_drawn_again() {
        let mut values: Vec<u64> = (0..=1_000).rev().collect();
        values[0] = 50_000;
        let delay = Delay::measured(&mut values);
        assert_eq!(between(&[(0.0, 3), (100.0, 5)], 100.0), 5);
        let mut random = Random::new(1);
        let mut drawn: Vec<u64> = (0..100_001).map(|_| delay.sample(&mut random)).collect();
        drawn.sort_unstable();
        for (share, expected) in [(10, 100), (50, 500), (95, 950), (99, 990)] {
            let got = drawn[share * 1_000];
            assert!(got.abs_diff(expected) <= 10, "{share} %: {got}");
        }
        assert!(drawn[100_000] > 20_000);
        assert_eq!(Delay::measured(&mut []), Delay::Fixed(0));
    }
}
