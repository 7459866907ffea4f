//! Numbers with units: `4us`, `99.5%`.
//!
//! No exponents, signs, infinities: what a person would not write is more likely a mistake.

use std::time::Duration;

use quaver_sched::{DurationError, parse_duration};

use crate::error::{Spec, SpecError};

/// Parses a duration such as `4us`, `1.5ms`, `10µs` or `2s` and gives it in nanoseconds, as
/// [`quaver_sched::parse_duration`] does.
///
/// # Errors
///
/// When the text is no non-negative decimal number followed by `ns`, `us` (or `µs`), `ms` or `s`,
/// has a part of a nanosecond, or is longer than `u64::MAX` nanoseconds (584 years).
///
/// ```
/// assert_eq!(quaver_load::parse_duration_ns("1.5ms").unwrap(), 1_500_000);
/// ```
pub fn parse_duration_ns(text: &str) -> Result<u64, SpecError> {
    duration(&Spec::new("duration", text), text.trim())
}

/// Writes a duration with the largest unit that it reaches, exactly: [`parse_duration_ns`] gives it
/// back.
///
/// ```
/// assert_eq!(quaver_load::format_ns(1_500), "1.5us");
/// ```
pub fn format_ns(ns: u64) -> String {
    quaver_sched::format_duration(Duration::from_nanos(ns))
}

/// A duration in nanoseconds from a piece of `spec`.
pub(crate) fn duration(spec: &Spec<'_>, piece: &str) -> Result<u64, SpecError> {
    let expected = |error| match error {
        DurationError::TooLong(_) => "a duration of at most 18446744073s",
        DurationError::TooFine(_) => "a duration of whole nanoseconds",
        _ => "a duration such as 4us (units: ns, us, ms, s)",
    };
    let span = parse_duration(piece).map_err(|error| spec.error(piece, expected(error)))?;
    Ok(span.as_nanos() as u64)
}

/// A non-negative decimal number from a piece of `spec`.
pub(crate) fn number(spec: &Spec<'_>, piece: &str, expected: &str) -> Result<f64, SpecError> {
    let value = if is_decimal(piece) { piece.parse::<f64>().ok() } else { None };
    value.filter(|v| v.is_finite()).ok_or_else(|| spec.error(piece, expected))
}

/// `digits` or `digits.digits` times `scale`, rounded to the nearest. `None` when it is neither or
/// too large.
pub(crate) fn scaled_decimal(text: &str, scale: u64) -> Option<u64> {
    // 18 fractional digits are nine more than any scale here can show.
    const DIGITS: usize = 18;
    if !is_decimal(text) {
        return None;
    }
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let whole: u64 = whole.parse().ok()?;
    let fraction = &fraction[..fraction.len().min(DIGITS)];
    let unit = 10u128.pow(fraction.len() as u32);
    let fraction: u128 = if fraction.is_empty() { 0 } else { fraction.parse().ok()? };
    let scale = u128::from(scale);
    let value = u128::from(whole) * scale + (fraction * scale + unit / 2) / unit;
    u64::try_from(value).ok()
}

/// `digits` or `digits.digits`.
pub(crate) fn is_decimal(text: &str) -> bool {
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    match text.split_once('.') {
        Some((whole, fraction)) => digits(whole) && digits(fraction),
        None => digits(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_exact() {
        for (text, ns) in [
            ("0ns", 0),
            ("4us", 4_000),
            ("4µs", 4_000),
            ("0.1us", 100),
            ("1.5ms", 1_500_000),
            ("2s", 2_000_000_000),
            (" 7ns ", 7),
            ("18446744073.709551615s", u64::MAX),
        ] {
            assert_eq!(parse_duration_ns(text), Ok(ns), "{text}");
        }
    }

    #[test]
    fn what_is_no_duration_is_refused() {
        for text in [
            "", "4", "us", "-4us", "4 us", "4min", "1e3us", ".5us", "5.us", "1.2.3us", "+1s",
            "4US", "0.4ns",
        ] {
            assert!(parse_duration_ns(text).is_err(), "{text}");
        }
        for (text, part) in [("99999999999s", "at most"), ("0.5ns", "whole nanoseconds")] {
            let error = parse_duration_ns(text).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn formatting_gives_the_shortest_exact_text() {
        for (ns, text) in [
            (0, "0ns"),
            (999, "999ns"),
            (4_000, "4us"),
            (1_500, "1.5us"),
            (1_000_001, "1.000001ms"),
            (10_000_000_000, "10s"),
        ] {
            assert_eq!(format_ns(ns), text);
        }
    }
}
