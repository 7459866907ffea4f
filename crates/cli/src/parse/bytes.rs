//! Sizes with limits, written as the settings of the runtime are: `64k`, `16m`, `1g`.

use std::ops::RangeInclusive;

use quaver_sched::settings::parse_bytes;

/// A parser of sizes within `range`, for clap.
///
/// # Errors
///
/// The parser's errors show how to write a size, or name the accepted range.
pub fn within(
    range: RangeInclusive<u64>,
) -> impl Fn(&str) -> Result<u64, String> + Clone + Send + Sync + 'static {
    move |text| {
        let bytes = parse_bytes(text)?;
        if range.contains(&bytes) {
            Ok(bytes)
        } else {
            Err(format!("accepted are {} to {} bytes", range.start(), range.end()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_the_range_or_the_syntax() {
        let parse = within(1..=1 << 20);
        assert_eq!(parse("64k"), Ok(65_536));
        assert!(parse("2m").unwrap_err().contains("1 to 1048576"));
        assert!(parse("much").unwrap_err().contains("k, m or g"));
    }
}
