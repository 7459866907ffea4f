//! Durations as text: `20us`, `1.5ms`, `100ns`, `2s`.

use alloc::{format, string::String};
use core::{error::Error, fmt, time::Duration};

/// Units by length, so that the first one that ends a text is the right one; with nanoseconds in
/// each.
const UNITS: [(&str, u64); 6] = [
    ("\u{b5}s", 1_000),  // micro sign
    ("\u{3bc}s", 1_000), // Greek mu
    ("ns", 1),
    ("us", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
];

/// The forms that [`parse_duration`] accepts, for error messages and help texts.
pub const DURATION_FORMS: &str =
    "a number, whole or decimal, and a unit: ns, us (or \u{b5}s), ms or s, as in 20us, 1.5ms";

/// Why a text is no duration. Its display names the text and the accepted forms.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum DurationError {
    /// It does not end in a unit.
    Unit(String),
    /// What stands before the unit is no number.
    Number(String),
    /// It is below zero.
    Negative(String),
    /// It has a part of a nanosecond.
    TooFine(String),
    /// It is above 2^64 - 1 ns, about 584 years.
    TooLong(String),
}

impl fmt::Display for DurationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (text, why) = match self {
            DurationError::Unit(text) => (text, "has no unit that is known"),
            DurationError::Number(text) => (text, "does not begin with a number"),
            DurationError::Negative(text) => (text, "is negative"),
            DurationError::TooFine(text) => (text, "is finer than a nanosecond"),
            DurationError::TooLong(text) => (text, "is longer than 584 years"),
        };
        write!(f, "duration `{text}` {why}; expected {DURATION_FORMS}")
    }
}

impl Error for DurationError {}

/// Parse a duration such as `20us`, `1.5ms`, `100ns`, `0s`. White space around it is ignored;
/// nothing is rounded.
///
/// # Errors
///
/// [`DurationError`], which says what was wrong and what is accepted.
///
/// ```
/// # use core::time::Duration;
/// assert_eq!(quaver_sched::parse_duration("1.5ms"), Ok(Duration::from_micros(1500)));
/// assert!(quaver_sched::parse_duration("20").is_err());
/// ```
pub fn parse_duration(text: &str) -> Result<Duration, DurationError> {
    let text = text.trim();
    let err = |kind: fn(String) -> DurationError| kind(text.into());
    let (number, unit) = UNITS
        .iter()
        .find_map(|&(name, unit)| Some((text.strip_suffix(name)?, unit)))
        .ok_or_else(|| err(DurationError::Unit))?;
    let (number, negative) = match number.strip_prefix('-') {
        Some(number) => (number, true),
        None => (number, false),
    };
    let (whole, fraction) = match number.split_once('.') {
        Some((whole, fraction)) if !fraction.is_empty() => (whole, fraction),
        Some(_) => return Err(err(DurationError::Number)),
        None => (number, ""),
    };
    let digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
    if whole.is_empty() || !digits(whole) || !digits(fraction) {
        return Err(err(DurationError::Number));
    }
    if negative {
        return Err(err(DurationError::Negative));
    }

    let too_long = || err(DurationError::TooLong);
    let whole = decimal(whole).ok_or_else(too_long)?;
    let mut nanos = whole.checked_mul(unit).ok_or_else(too_long)?;
    let mut place = unit;
    for digit in fraction.trim_end_matches('0').bytes() {
        if place == 1 {
            return Err(err(DurationError::TooFine));
        }
        place /= 10;
        let part = u64::from(digit - b'0') * place;
        nanos = nanos.checked_add(part).ok_or_else(too_long)?;
    }
    Ok(Duration::from_nanos(nanos))
}

/// The value of a string of decimal digits, if it fits.
fn decimal(digits: &str) -> Option<u64> {
    digits
        .bytes()
        .try_fold(0u64, |value, digit| value.checked_mul(10)?.checked_add(u64::from(digit - b'0')))
}

/// Write a duration in the largest unit of which it has at least one, exactly: `20us`, `1.5ms`,
/// `0ns`. [`parse_duration`] reads it back to the same value, up to 584 years.
///
/// ```
/// # use core::time::Duration;
/// assert_eq!(quaver_sched::format_duration(Duration::from_nanos(2500)), "2.5us");
/// ```
pub fn format_duration(duration: Duration) -> String {
    let nanos = duration.as_nanos();
    let (name, unit) = match nanos {
        0..1_000 => return format!("{nanos}ns"),
        1_000..1_000_000 => ("us", 1_000),
        1_000_000..1_000_000_000 => ("ms", 1_000_000),
        _ => ("s", 1_000_000_000u32),
    };
    let (whole, rest) = (nanos / u128::from(unit), nanos % u128::from(unit));
    if rest == 0 {
        return format!("{whole}{name}");
    }
    let width = unit.ilog10() as usize;
    let fraction = format!("{rest:0width$}");
    format!("{whole}.{}{name}", fraction.trim_end_matches('0'))
}
