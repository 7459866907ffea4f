//! Durations as text.

use std::time::Duration;

use proptest::{prelude::*, test_runner::RngSeed};
use quaver_sched::{DurationError, format_duration, parse_duration};

#[test]
fn accepted_forms() {
    for (text, nanos) in [
        ("0ns", 0),
        ("0s", 0),
        ("100ns", 100),
        ("20us", 20_000),
        ("20\u{b5}s", 20_000),
        ("20\u{3bc}s", 20_000),
        ("1.5ms", 1_500_000),
        ("0.001us", 1),
        ("1.000000001s", 1_000_000_001),
        ("1.500000000000000000000us", 1_500),
        ("007ms", 7_000_000),
        ("  2s\n", 2_000_000_000),
        ("18446744073709551615ns", u64::MAX),
        ("18446744073.709551615s", u64::MAX),
    ] {
        assert_eq!(parse_duration(text), Ok(Duration::from_nanos(nanos)), "{text}");
    }
}

#[test]
fn refused_forms() {
    use DurationError::*;
    type Kind = fn(String) -> DurationError;
    let cases: &[(&str, Kind)] = &[
        ("", Unit),
        ("20", Unit),
        ("20m", Unit),
        ("20 min", Unit),
        ("us20", Unit),
        ("s", Number),
        ("us", Number),
        ("fus", Number),
        ("20 us", Number),
        ("1,5ms", Number),
        (".5ms", Number),
        ("1.ms", Number),
        ("1.2.3ms", Number),
        ("1e3us", Number),
        ("+1us", Number),
        ("--1us", Number),
        ("\u{662}us", Number),
        ("-1us", Negative),
        ("-0s", Negative),
        ("0.5ns", TooFine),
        ("1.0001us", TooFine),
        ("18446744073709551616ns", TooLong),
        ("18446744073.709551616s", TooLong),
        ("99999999999999999999999s", TooLong),
    ];
    for (text, error) in cases {
        assert_eq!(parse_duration(text), Err(error(text.to_string())), "{text}");
    }
}

#[test]
fn errors_show_the_text_and_the_accepted_forms() {
    for text in ["20", "xus", "-1us", "0.1ns", "99999999999s"] {
        let message = parse_duration(text).unwrap_err().to_string();
        assert!(message.contains(&format!("`{text}`")), "{message}");
        assert!(message.contains("20us, 1.5ms"), "{message}");
    }
}

#[test]
fn formatted() {
    for (nanos, text) in [
        (0, "0ns"),
        (999, "999ns"),
        (1_000, "1us"),
        (20_000, "20us"),
        (1_500_000, "1.5ms"),
        (1_000_001, "1.000001ms"),
        (100_000_000_000, "100s"),
        (u64::MAX, "18446744073.709551615s"),
    ] {
        assert_eq!(format_duration(Duration::from_nanos(nanos)), text);
    }
    assert_eq!(format_duration(Duration::MAX), "18446744073709551615.999999999s");
}

proptest! {
    #![proptest_config(ProptestConfig {
        rng_seed: RngSeed::Fixed(1),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn formatting_and_parsing_are_inverse(nanos: u64, shift in 0..64u32) {
        let duration = Duration::from_nanos(nanos >> shift);
        prop_assert_eq!(parse_duration(&format_duration(duration)), Ok(duration));
    }

    #[test]
    fn no_text_panics(text in r"\PC*", number in r"[-+]?[0-9.]{0,30}", unit in r"[numsμµ]{0,3}") {
        let _ = parse_duration(&text);
        let _ = parse_duration(&(number + &unit));
    }
}
