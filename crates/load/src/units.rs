//! Numbers with units: `4us`, `99.5%`.
//!
//! Durations are parsed in integers, so `0.1us` is exactly 100 ns. No exponents, signs, infinities: what a person
//! would not write is more likely a mistake.

use crate::error::{Spec, SpecError};

/// The units of a duration, longest first, with their nanoseconds.
const UNITS: [(&str, u64); 4] = [("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000), ("ns", 1)];

/// Parses a duration such as `4us`, `1.5ms`, `10µs` or `2s` and gives it in nanoseconds, rounded to the nearest.
///
/// # Errors
///
/// When the text is no non-negative decimal number followed by `ns`, `us` (or `µs`), `ms` or `s`, or when it is longer
/// than `u64::MAX` nanoseconds (584 years).
///
/// ```
/// assert_eq!(quaver_load::parse_duration_ns("1.5ms").unwrap(), 1_500_000);
/// ```
pub fn parse_duration_ns(text: &str) -> Result<u64, SpecError> {
    duration(&Spec::new("duration", text), text.trim())
}

/// Writes a duration with the largest unit that it reaches, exactly: [`parse_duration_ns`] gives it back.
///
/// ```
/// assert_eq!(quaver_load::format_ns(1_500), "1.5us");
/// ```
pub fn format_ns(ns: u64) -> String {
    let (unit, size) =
        UNITS.into_iter().find(|&(_, size)| ns >= size).unwrap_or(UNITS[UNITS.len() - 1]);
    let fraction = ns % size;
    if fraction == 0 {
        return format!("{}{unit}", ns / size);
    }
    let digits = size.ilog10() as usize;
    let fraction = format!("{fraction:0digits$}");
    format!("{}.{}{unit}", ns / size, fraction.trim_end_matches('0'))
}

/// A duration in nanoseconds from a piece of `spec`.
pub(crate) fn duration(spec: &Spec<'_>, piece: &str) -> Result<u64, SpecError> {
    let expected = "a duration such as 4us (units: ns, us, ms, s)";
    let end = piece.find(|c: char| !is_number_part(c)).unwrap_or(piece.len());
    let (number, unit) = piece.split_at(end);
    let unit = if unit == "µs" || unit == "μs" { "us" } else { unit };
    let size = UNITS
        .into_iter()
        .find_map(|(name, size)| (name == unit).then_some(size))
        .ok_or_else(|| spec.error(piece, expected))?;
    if !is_decimal(number) {
        return Err(spec.error(piece, expected));
    }
    scaled_decimal(number, size)
        .ok_or_else(|| spec.error(piece, "a duration of at most 18446744073s"))
}

/// A non-negative decimal number from a piece of `spec`.
pub(crate) fn number(spec: &Spec<'_>, piece: &str, expected: &str) -> Result<f64, SpecError> {
    let value = if is_decimal(piece) { piece.parse::<f64>().ok() } else { None };
    value.filter(|v| v.is_finite()).ok_or_else(|| spec.error(piece, expected))
}

/// `digits` or `digits.digits` times `scale`, rounded to the nearest. `None` when it is neither or too large.
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

fn is_number_part(c: char) -> bool {
    c.is_ascii_digit() || c == '.'
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
            ("0.4ns", 0),
            ("0.5ns", 1),
            ("18446744073.709551615s", u64::MAX),
        ] {
            assert_eq!(parse_duration_ns(text), Ok(ns), "{text}");
        }
    }

    #[test]
    fn what_is_no_duration_is_refused() {
        for text in [
            "", "4", "us", "-4us", "4 us", "4min", "1e3us", ".5us", "5.us", "1.2.3us", "+1s", "4US",
        ] {
            assert!(parse_duration_ns(text).is_err(), "{text}");
        }
        let error = parse_duration_ns("99999999999s").unwrap_err().to_string();
        assert!(error.contains("at most"), "{error}");
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
