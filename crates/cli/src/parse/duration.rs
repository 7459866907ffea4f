//! Spans of time with limits; the syntax is that of policies, `50us` or `1.5ms`.

use std::ops::RangeInclusive;
use std::time::Duration;

pub use quaver_sched::format_duration as format;
use quaver_sched::parse_duration;

/// A parser of spans within `range`, for clap.
///
/// # Errors
///
/// The parser's errors show how to write a span, or name the accepted range.
pub fn within(
    range: RangeInclusive<Duration>,
) -> impl Fn(&str) -> Result<Duration, String> + Clone + Send + Sync + 'static {
    move |text| {
        let span = parse_duration(text).map_err(|error| error.to_string())?;
        if range.contains(&span) {
            Ok(span)
        } else {
            Err(format!("accepted are {} to {}", format(*range.start()), format(*range.end())))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_the_range_or_the_syntax() {
        let parse = within(Duration::from_micros(5)..=Duration::from_millis(100));
        assert_eq!(parse("5us"), Ok(Duration::from_micros(5)));
        assert_eq!(parse("100ms"), Ok(Duration::from_millis(100)));
        for text in ["4999ns", "101ms", "0s"] {
            let error = parse(text).unwrap_err();
            assert!(error.contains("5us to 100ms"), "{error}");
        }
        assert!(parse("20").unwrap_err().contains("unit"));
    }
}
