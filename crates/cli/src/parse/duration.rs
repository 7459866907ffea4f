//! Spans of time as users write them: `50us`, `1.5ms`, `2s`.

use std::time::Duration;

/// Reads a span with its unit: `ns`, `us` (or `µs`), `ms`, `s`. Plain `0` needs no unit.
///
/// # Errors
///
/// A message that shows how to write it.
pub fn parse(text: &str) -> Result<Duration, String> {
    let text = text.trim();
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let wrong = || {
        format!(
            "'{text}' is no time span; write a number and a unit, like 500ns, 20us, 1.5ms or 2s"
        )
    };
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(wrong)?;
    let (number, unit) = text.split_at(digits);
    let scale = match unit.trim() {
        "ns" => 1.0,
        "us" | "µs" | "μs" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        _ => return Err(wrong()),
    };
    let nanos = number.parse::<f64>().map_err(|_| wrong())? * scale;
    if nanos > 86_400e9 {
        return Err(format!("'{text}' is longer than a day"));
    }
    Ok(Duration::from_nanos(nanos.round() as u64))
}

/// Reads a span of at least `min` and at most `max`.
///
/// # Errors
///
/// As [`parse`], or a message that names the accepted range.
pub fn parse_within(text: &str, min: Duration, max: Duration) -> Result<Duration, String> {
    let span = parse(text)?;
    if (min..=max).contains(&span) {
        Ok(span)
    } else {
        Err(format!("accepted are {} to {}", format(min), format(max)))
    }
}

/// Writes a span in the largest unit that gives at least 1, with at most three digits behind the point.
pub fn format(span: Duration) -> String {
    let nanos = span.as_nanos() as f64;
    let (value, unit) = match span.as_nanos() {
        0..1_000 => (nanos, "ns"),
        1_000..1_000_000 => (nanos / 1e3, "us"),
        1_000_000..1_000_000_000 => (nanos / 1e6, "ms"),
        _ => (nanos / 1e9, "s"),
    };
    let digits = format!("{value:.3}");
    let digits = digits.trim_end_matches('0').trim_end_matches('.');
    format!("{digits}{unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_every_unit() {
        assert_eq!(parse("500ns").unwrap(), Duration::from_nanos(500));
        assert_eq!(parse("20us").unwrap(), Duration::from_micros(20));
        assert_eq!(parse("20µs").unwrap(), Duration::from_micros(20));
        assert_eq!(parse("1.5 ms").unwrap(), Duration::from_micros(1500));
        assert_eq!(parse("2s").unwrap(), Duration::from_secs(2));
        assert_eq!(parse("0").unwrap(), Duration::ZERO);
    }

    #[test]
    fn refuses_what_has_no_unit_or_no_number() {
        for text in ["20", "us", "20 minutes", "1.2.3s", "-5us", "", "inf s", "9e9s"] {
            assert!(parse(text).is_err(), "{text:?} was taken");
        }
        assert!(parse("100000s").unwrap_err().contains("day"));
    }

    #[test]
    fn names_the_accepted_range() {
        let (min, max) = (Duration::from_micros(5), Duration::from_millis(100));
        assert_eq!(parse_within("5us", min, max).unwrap(), min);
        let error = parse_within("4us", min, max).unwrap_err();
        assert!(error.contains("5us to 100ms"), "{error}");
    }

    #[test]
    fn format_is_the_inverse_of_parse() {
        for text in ["0ns", "999ns", "20us", "1.5ms", "2s", "100ms"] {
            assert_eq!(format(parse(text).unwrap()), text);
        }
    }
}
