//! Policy specifications as text.

use std::{error::Error, time::Duration};

use proptest::{prelude::*, test_runner::RngSeed};
use quaver_sched::{Class, Place, Running, Spec, SpecError, Task, Why};

const ALL: &str = "two-queue, ws, rr, fifo, cfs, eevdf, shinjuku, shinjuku-shenango, priority, \
                   las, adaptive, aspen";

fn us(n: u64) -> Duration {
    Duration::from_micros(n)
}

fn parse(text: &str) -> Spec {
    text.parse().unwrap_or_else(|e| panic!("{text}: {e}"))
}

#[test]
fn full_forms() {
    for (text, full) in [
        ("two-queue", "two-queue:quantum=20us,long=400us,max-age=10ms"),
        (" two-queue ", "two-queue:quantum=20us,long=400us,max-age=10ms"),
        ("two-queue:quantum=5us", "two-queue:quantum=5us,long=100us,max-age=2.5ms"),
        (
            "two-queue: max-age = none , long=0.2ms",
            "two-queue:quantum=20us,long=200us,max-age=none",
        ),
        ("two-queue:quantum=none", "two-queue:quantum=none,long=400us,max-age=10ms"),
        ("two-queue:quantum=0,long=1ns", "two-queue:quantum=none,long=1ns,max-age=10ms"),
        ("two-queue:history=none", "two-queue:quantum=20us,long=400us,max-age=10ms"),
        ("two-queue:history=0.1ms", "two-queue:quantum=20us,long=400us,max-age=10ms,history=100us"),
        ("ws", "ws:quantum=20us"),
        ("ws:quantum=50us", "ws:quantum=50us"),
        ("ws:quantum=0ms", "ws:quantum=none"),
        ("rr:quantum=1500ns", "rr:quantum=1.5us"),
        ("fifo", "fifo"),
        ("cfs", "cfs:quantum=20us,latency=80us"),
        ("cfs:quantum=12.5us", "cfs:quantum=12.5us,latency=50us"),
        ("eevdf:quantum=12.5us", "eevdf:quantum=12.5us"),
        ("shinjuku:quantum=30us", "shinjuku:quantum=30us"),
        ("shinjuku-shenango", "shinjuku-shenango:quantum=20us,delay=5us,be=1ms"),
        ("shinjuku-shenango:quantum=1ns", "shinjuku-shenango:quantum=1ns,delay=1ns,be=50ns"),
        ("priority:max-age=none", "priority:quantum=20us,max-age=none"),
        ("las", "las:quantum=20us"),
        (
            "adaptive:quantum=5us",
            "adaptive:quantum=5us,max=250us,window=250us,cost=500ns,max-age=250us",
        ),
    ] {
        let spec = parse(text);
        assert_eq!(spec.to_string(), full);
        assert_eq!(parse(full), spec, "the full form reads back");
    }
}

#[test]
fn errors_say_what_is_wrong_and_what_is_allowed() {
    let cases: &[(&str, &[&str])] = &[
        ("", &["unknown policy ``", ALL]),
        ("best", &["unknown policy `best`", ALL]),
        ("WS", &["unknown policy `WS`"]),
        ("ws:", &["`` is not of the form key=value", "allowed keys are quantum"]),
        ("ws:quantum", &["`quantum` is not of the form key=value"]),
        ("ws:quantum=5us,", &["`` is not of the form"]),
        ("ws:long=5us", &["policy `ws` has no key `long`", "allowed keys are quantum"]),
        ("two-queue:age=5us", &["no key `age`", "allowed keys are quantum, long, max-age"]),
        ("fifo:quantum=5us", &["policy `fifo` has no key `quantum`", "this policy has no keys"]),
        ("rr:quantum=5us,quantum=6us", &["key `quantum` is given twice"]),
        ("rr:quantum=fast", &["key `quantum`", "`fast`", "20us, 1.5ms"]),
        ("rr:quantum=5", &["key `quantum`", "`5` has no unit", "20us, 1.5ms"]),
        ("rr:quantum=-5us", &["key `quantum`", "`-5us` is negative"]),
        ("rr:quantum=99999999999s", &["key `quantum`", "longer than 584 years"]),
        ("two-queue:long=0s", &["key `long` must be above zero"]),
        ("two-queue:long=none", &["key `long`", "`none`"]),
        ("two-queue:max-age=0s", &["key `max-age` must be above zero"]),
        ("two-queue:history=0s", &["key `history` must be above zero"]),
        ("aspen:history=1ms", &["policy `aspen` has no key `history`"]),
        ("cfs:latency=1us", &["key `latency`: 1us is shorter than the quantum, 20us"]),
        ("cfs:delay=1us", &["policy `cfs` has no key `delay`", "are quantum, latency"]),
        ("adaptive:window=none", &["key `window`", "`none`"]),
        ("adaptive:cost=0us", &["key `cost` must be above zero"]),
        (
            "two-queue:quantum=20us,long=10us",
            &["key `long`: 10us is shorter than the quantum, 20us"],
        ),
    ];
    for (text, parts) in cases {
        let error = text.parse::<Spec>().expect_err(text);
        let message = error.to_string();
        for part in *parts {
            assert!(message.contains(part), "{text}: {message:?} lacks {part:?}");
        }
        let has_source = matches!(error, SpecError::BadValue { .. });
        assert_eq!(error.source().is_some(), has_source);
    }
}

#[test]
fn names_are_complete_and_build_what_they_say() {
    let names: Vec<_> = Spec::names().iter().map(|&(name, _)| name).collect();
    assert_eq!(names.join(", "), ALL);
    assert_eq!(Spec::default().name(), names[0]);
    let made = [Spec::two_queue(), Spec::work_stealing(), Spec::round_robin(), Spec::fifo()];
    for made in made {
        assert_eq!(parse(made.name()), made);
    }
    for (name, description) in Spec::names() {
        let spec = parse(name);
        let rule = if *name == "shinjuku" { "rr" } else { name };
        assert_eq!(spec.build(2, 10, |d| d.as_nanos() as u64).name(), rule);
        // The description names exactly the keys.
        let keys: Vec<_> = spec.keys().collect();
        let listed = match keys.len() {
            0 => "no keys".into(),
            1 => format!("key: {}", keys[0]),
            _ => format!("keys: {}", keys.join(", ")),
        };
        assert!(description.ends_with(&format!("({listed})")), "{name}");
        assert!(keys.iter().all(|key| spec.get(key).is_some()));
    }
}

#[test]
fn builder_keeps_the_parameters_sound() {
    let spec = Spec::two_queue().with_quantum(Some(us(200)));
    assert_eq!(spec.quantum(), Some(us(200)));
    assert_eq!(spec.long_quantum(), Some(us(400)));
    let spec = spec.with_long_quantum(us(1));
    assert_eq!(spec.long_quantum(), Some(us(200)), "not below the quantum");
    assert_eq!(spec.clone().with_long_quantum(us(1)).long_quantum(), Some(us(200)));
    assert_eq!(spec.with_max_age(None).max_age(), None);
    assert_eq!(Spec::two_queue().max_age(), Some(us(10_000)));
    assert_eq!(Spec::round_robin().with_quantum(Some(us(0))).quantum(), None);
    assert_eq!(Spec::round_robin().with_quantum(None).quantum(), None);
    // Keys that a policy does not have stay without effect.
    let fifo = Spec::fifo().with_quantum(Some(us(5))).with_max_age(None);
    assert_eq!(fifo.with_long_quantum(us(7)), Spec::fifo());
    assert_eq!(Spec::work_stealing().long_quantum(), None);
    assert_eq!(Spec::work_stealing().max_age(), None);
    let cfs = parse("cfs").with_quantum(Some(us(500)));
    assert_eq!(cfs.get("latency"), Some(Some(us(500))), "not below the quantum");
}

/// The times reach the policy in the host's unit.
#[test]
fn build_converts_times() {
    let ticks_per_us = 3;
    let to_time = |d: Duration| d.as_micros() as u64 * ticks_per_us;
    let running = |class| Running { task: Task(0), since: 1000, class };
    let policy = parse("two-queue:quantum=20us,long=70us,max-age=200us").build(1, 4, to_time);
    policy.task_enqueue(Place::Local(0), Task(1), Why::Preempted, 1000);
    assert_eq!(policy.preempt_at(0, &running(Class::Fresh), None), Some(1060));
    assert_eq!(policy.preempt_at(0, &running(Class::Preempted), None), Some(1210));
    policy.task_enqueue(Place::Local(0), Task(2), Why::New, 1000);
    assert_eq!(policy.task_dequeue(0, 1601).unwrap().task, Task(1), "601 > 600 ticks old");

    for text in ["ws:quantum=5us", "rr:quantum=5us"] {
        let policy = parse(text).build(1, 4, to_time);
        policy.task_enqueue(Place::Local(0), Task(1), Why::New, 1000);
        assert_eq!(policy.preempt_at(0, &running(Class::Fresh), None), Some(1015));
    }
    // Too short for the host's unit is not "never".
    let policy = parse("ws:quantum=5ns").build(1, 4, to_time);
    policy.task_enqueue(Place::Local(0), Task(1), Why::New, 1000);
    assert_eq!(policy.preempt_at(0, &running(Class::Fresh), None), Some(1001));
}

/// Room for millions of tasks is reserved, not used.
#[test]
#[cfg(target_os = "linux")]
fn large_tables_cost_nothing_until_used() {
    let resident_kib = || {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS:"));
        let number = line.unwrap().split_whitespace().nth(1);
        number.unwrap().parse::<u64>().unwrap()
    };
    let before = resident_kib();
    let policies: Vec<_> = Spec::names()
        .iter()
        .map(|(name, _)| parse(name).build(4, 1 << 24, |d| d.as_nanos() as u64))
        .collect();
    for policy in &policies {
        policy.task_enqueue(Place::Shared, Task((1 << 24) - 1), Why::New, 0);
        assert!(policy.has_work(0));
    }
    // All tables together are several GiB.
    assert!(resident_kib() < before + (64 << 10));
}

proptest! {
    #![proptest_config(ProptestConfig {
        rng_seed: RngSeed::Fixed(1),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn display_reads_back(
        policy in 0..Spec::names().len(),
        quantum in prop::option::of(1u64..1 << 40),
        long in 1u64..1 << 40,
        age in prop::option::of(1u64..1 << 40),
    ) {
        let nanos = Duration::from_nanos;
        let spec = parse(Spec::names()[policy].0)
            .with_quantum(quantum.map(nanos))
            .with_long_quantum(nanos(long))
            .with_max_age(age.map(nanos));
        prop_assert_eq!(parse(&spec.to_string()), spec);
    }

    #[test]
    fn no_text_panics(
        any in r"\PC*",
        name in "(two-queue|ws|fifo|cfs|adaptive)",
        settings in "[:,=]?((quantum|long|latency|cost|max-age|x)?=?[0-9.]{0,22}[num]?s?,?){0,3}",
    ) {
        for text in [any, name.clone() + &settings, name + ":" + &settings] {
            if let Ok(spec) = text.parse::<Spec>() {
                prop_assert_eq!(parse(&spec.to_string()), spec);
            }
        }
    }
}
