//! No text makes a parser panic, hang or take much memory, and what is written can be read back.

use proptest::collection::vec;
use proptest::prelude::*;
use quaver_load::{
    ArrivalProcess, Class, Limit, LoadFractions, Mix, Schedule, ServiceTime, Slo, Trace, format_ns,
    parse_duration_ns,
};

/// Texts made of the pieces that the grammars are made of, so that many come close to being valid.
fn nearly_valid() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        proptest::sample::select(vec![
            "get",
            "scan",
            ":",
            ",",
            "%",
            "=",
            "/",
            "..",
            ".",
            "<=",
            "x",
            "us",
            "ms",
            "s",
            "ns",
            "µs",
            "-",
            "+",
            " ",
            "\n",
            "\r\n",
            "#",
            "fixed",
            "exp",
            "lognormal",
            "uniform",
            "bimodal",
            "poisson",
            "batch",
            "onoff",
            "p99",
            "p99.9",
            "max",
            "time_us",
            "nan",
            "inf",
            "1e9",
            "0",
            "1",
            "5",
            "95",
            "99.5",
            "18446744073709551616",
            "\0",
            "é",
        ])
        .prop_map(str::to_owned),
        any::<char>().prop_map(String::from),
    ];
    vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

/// Error messages are made for people: one line, not longer than a few.
#[track_caller]
fn assert_decent(message: &str) {
    assert!(!message.contains('\n') && message.chars().count() < 900, "{message}");
}

fn parse_everything(text: &str) {
    if let Err(error) = text.parse::<Mix>() {
        assert_decent(&error.to_string());
        assert!(error.column() <= text.chars().count() + 1);
    }
    if let Err(error) = text.parse::<ArrivalProcess>() {
        assert_decent(&error.to_string());
        assert!(error.column() <= text.chars().count() + 1);
    }
    if let Err(error) = text.parse::<LoadFractions>() {
        assert_decent(&error.to_string());
        assert!(error.column() <= text.chars().count() + 1);
    }
    if let Err(error) = text.parse::<Slo>() {
        assert_decent(&error.to_string());
        assert!(error.column() <= text.chars().count() + 1);
    }
    if let Err(error) = parse_duration_ns(text) {
        assert_decent(&error.to_string());
        assert!(error.column() <= text.chars().count() + 1);
    }
    parse_trace(text.as_bytes());
}

fn parse_trace(bytes: &[u8]) {
    match Trace::read("t", bytes) {
        Err(error) => assert_decent(&error.to_string()),
        Ok(trace) => {
            assert!(trace.records().is_sorted_by_key(|record| record.time_ns));
            let classes = trace.classes().len() as u32;
            assert!(trace.records().iter().all(|record| record.class < classes));
            let count = trace.records().len() as u64;
            let _ = trace.clone().at_rate(1e3);
            let schedule = Schedule::from_trace(trace.from_zero(), Limit::Requests(u64::MAX), 0);
            assert_eq!(schedule.count(), count);
        }
    }
}

fn service() -> impl Strategy<Value = ServiceTime> {
    let ns = 1..u64::MAX;
    prop_oneof![
        ns.clone().prop_map(|ns| ServiceTime::Fixed { ns }),
        ns.clone().prop_map(|mean_ns| ServiceTime::Exponential { mean_ns }),
        (ns.clone(), 0.0..10.0)
            .prop_map(|(mean_ns, sigma)| ServiceTime::Lognormal { mean_ns, sigma }),
        (ns.clone(), ns.clone())
            .prop_map(|(a, b)| ServiceTime::Uniform { low_ns: a.min(b), high_ns: a.max(b) }),
        (0.0..100.0, ns.clone(), ns).prop_map(|(short_percent, short_ns, long_ns)| {
            ServiceTime::Bimodal { short_percent, short_ns, long_ns }
        }),
    ]
}

fn mix() -> impl Strategy<Value = Mix> {
    let class = ("[a-zA-Z0-9_.-]{1,64}", 0.001..1e6, proptest::option::of(service()));
    vec(class, 1..8).prop_filter_map("names are different", |classes| {
        let class = |(name, weight, service)| Class { name, weight, service };
        Mix::new(classes.into_iter().map(class).collect()).ok()
    })
}

proptest! {
    #[test]
    fn parsers_never_panic(text in any::<String>(), near in nearly_valid()) {
        parse_everything(&text);
        parse_everything(&near);
    }

    #[test]
    fn trace_bytes_never_panic(bytes in vec(any::<u8>(), 0..200)) {
        parse_trace(&bytes);
    }

    #[test]
    fn traces_are_read_as_written(
        lines in vec((0u64..1_000_000, 0usize..3, proptest::option::of(0u64..1_000_000)), 1..50)
    ) {
        let mut lines = lines;
        lines.sort();
        let us = |ns: u64| format!("{}.{:03}", ns / 1000, ns % 1000);
        let text: String = lines
            .iter()
            .map(|&(time, class, service)| {
                let service = service.map_or(String::new(), |ns| format!(",{}", us(ns)));
                format!("{},class{class}{service}\n", us(time))
            })
            .collect();
        let trace = Trace::read("t", text.as_bytes()).unwrap();
        let got: Vec<_> = trace
            .records()
            .iter()
            .map(|r| (r.time_ns, trace.classes()[r.class as usize].clone(), r.service_ns))
            .collect();
        let written: Vec<_> =
            lines.iter().map(|&(time, of, ns)| (time, format!("class{of}"), ns)).collect();
        prop_assert_eq!(got, written);
        // Cut anywhere but at the end of a line, it is refused.
        for cut in 1..text.len() {
            if !text[..cut].ends_with('\n') {
                prop_assert!(Trace::read("t", &text.as_bytes()[..cut]).is_err());
            }
        }
    }

    #[test]
    fn durations_are_read_as_written(ns in any::<u64>()) {
        prop_assert_eq!(parse_duration_ns(&format_ns(ns)), Ok(ns));
    }

    #[test]
    fn mixes_are_read_as_written(mix in mix()) {
        prop_assert_eq!(mix.to_string().parse::<Mix>(), Ok(mix));
    }

    /// Extreme parameters neither panic nor leave the promised range.
    #[test]
    fn any_valid_mix_can_be_scheduled(mix in mix(), rate in 0.001..1e9, seed in any::<u64>()) {
        for process in [ArrivalProcess::Poisson, ArrivalProcess::Batch { mean_size: 1e6 }] {
            let schedule = Schedule::new(process, rate, &mix, Limit::Requests(50), seed).unwrap();
            let requests: Vec<_> = schedule.iter().collect();
            prop_assert_eq!(requests.len(), 50);
            prop_assert!(requests.is_sorted_by_key(|r| r.intended_ns));
            for request in requests {
                let class = &mix.classes()[request.class as usize];
                prop_assert_eq!(class.service.is_some(), request.service_ns > 0);
                if let Some(ServiceTime::Uniform { low_ns, high_ns }) = class.service {
                    prop_assert!((low_ns..=high_ns).contains(&request.service_ns));
                }
            }
        }
    }
}
