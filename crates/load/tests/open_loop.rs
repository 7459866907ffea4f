//! The loop and its limits in simulated time; every request is accounted for.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use quaver_load::{
    ArrivalProcess, ClassSummary, Clock as _, Completion, Drops, Fate, Limit, Mix, OpenLoop,
    Recorder, Request, Schedule, Sent, SimClock, Summary,
};

const MS: u64 = 1_000_000;

/// A request of one class each millisecond, with a service time of 1 ms.
fn each_ms(requests: u64) -> Schedule {
    let mix: Mix = "a:fixed=1ms".parse().unwrap();
    Schedule::new(ArrivalProcess::Uniform, 1e3, &mix, Limit::Requests(requests), 1).unwrap()
}

#[track_caller]
fn assert_counts(class: &ClassSummary, completed: u64, unfinished: u64, dropped: u64, unsent: u64) {
    let got = (class.completed, class.unfinished, class.dropped, class.unsent);
    assert_eq!(got, (completed, unfinished, dropped, unsent));
    assert_eq!(class.sent, completed + unfinished);
    assert_eq!(class.offered, completed + unfinished + dropped + unsent);
    assert_eq!(class.latency_ns.map_or(0, |latency| latency.count), class.offered);
}

/// A server that takes 100 µs a request and once stalls for 100 ms must show it in p99, though only
/// a few requests would notice if the generator waited for it, or if latency counted from the
/// actual send.
#[test]
fn a_stalled_server_shows_in_the_tail() {
    let schedule = each_ms(5_000);
    let recorder = Recorder::for_schedule(&schedule).unwrap();
    let clock = SimClock::new();
    let from_actual_send = RefCell::new(Vec::new());
    let outcome = OpenLoop::new(&recorder).run(&schedule, &clock, |request| {
        // Serves within the call, so the stall also keeps the generator from sending.
        let sent_at = clock.now_ns();
        clock.advance(if request.id == 2_000 { 100 * MS } else { MS / 10 });
        recorder.complete(request.id, clock.now_ns());
        from_actual_send.borrow_mut().push(clock.now_ns() - sent_at);
        Sent::Accepted
    });
    let summary = outcome.summary(&recorder);
    assert_counts(&summary.total, 5_000, 0, 0, 0);

    // The requests due during the stall wait 100, 99.1, 98.2... ms: 111 of them, the fiftieth
    // longest is p99.
    let latency = summary.total.latency_ns.unwrap();
    assert!((50 * MS..60 * MS).contains(&latency.p99.value), "{latency:?}");
    // Percentiles have three digits.
    assert_eq!((latency.p50.value / 1_000, latency.max.value), (100, 100 * MS));
    // No gap in the middle: late requests went out as soon as possible, in order, and lateness
    // tells of them.
    let lateness = summary.generator.unwrap().lateness_ns.unwrap();
    assert_eq!(lateness.max.value, 99 * MS);
    assert!(lateness.p99.value > 50 * MS);
    assert_eq!(lateness.p50.value, 0);

    // What a generator that counts from the actual send would have reported.
    let mut naive = from_actual_send.into_inner();
    naive.sort_unstable();
    assert_eq!(naive[4_949], MS / 10);
}

/// The same when the server is separate and the generator is punctual.
#[test]
fn a_stalled_server_does_not_stop_the_generator() {
    let schedule = each_ms(5_000);
    let recorder = Recorder::for_schedule(&schedule).unwrap();
    let free_at = Cell::new(0);
    let clock = SimClock::new();
    let outcome = OpenLoop::new(&recorder).run(&schedule, &clock, |request| {
        let service = if request.id == 2_000 { 100 * MS } else { MS / 10 };
        let end = free_at.get().max(clock.now_ns()) + service;
        free_at.set(end);
        let (recorder, id) = (&recorder, request.id);
        clock.at(end, move |clock| {
            recorder.complete(id, clock.now_ns());
        });
        Sent::Accepted
    });
    let summary = outcome.summary(&recorder);
    assert!(summary.total.latency_ns.unwrap().p99.value > 50 * MS);
    assert_eq!(summary.generator.unwrap().lateness_ns.unwrap().max.value, 0);
}

#[test]
fn beyond_max_outstanding_requests_are_dropped_and_counted() {
    let schedule = each_ms(1_000);
    let recorder = Recorder::for_schedule(&schedule).unwrap();
    let clock = SimClock::new();
    // Each takes 20.5 ms, so that 21 would be outstanding without the limit.
    let most = Cell::new(0);
    let outcome = OpenLoop::new(&recorder).max_outstanding(10).run(&schedule, &clock, |request| {
        most.set(most.get().max(recorder.outstanding()));
        let (recorder, id) = (&recorder, request.id);
        clock.at(clock.now_ns() + 20 * MS + MS / 2, move |clock| {
            recorder.complete(id, clock.now_ns());
        });
        Sent::Accepted
    });
    assert_eq!(most.get(), 10);
    let summary = outcome.summary(&recorder);
    // 10 of every 21 are sent, beginning with the first 10.
    let sent = 1_000 / 21 * 10 + 10;
    assert_counts(&summary.total, sent, 0, 1_000 - sent, 0);
    let drops = Drops { outstanding: 1_000 - sent, refused: 0, no_slot: 0 };
    assert_eq!(outcome.drops(), drops);
    assert_eq!(summary.generator.unwrap().drops, drops);
    // What was dropped cannot make the percentiles look good.
    let latency = summary.total.latency_ns.unwrap();
    assert!(latency.p99.at_least && !latency.p99.is_within(u64::MAX));
    assert!(!latency.min.at_least);
}

#[test]
fn the_time_limit_leaves_the_rest_unsent() {
    let schedule = each_ms(100);
    let recorder = Recorder::for_schedule(&schedule).unwrap();
    let clock = SimClock::new();
    clock.advance(7 * MS);
    let limit = Duration::from_millis(30);
    let outcome = OpenLoop::new(&recorder).time_limit(limit).run(&schedule, &clock, |request| {
        recorder.complete(request.id, clock.now_ns());
        Sent::Accepted
    });
    let summary = outcome.summary(&recorder);
    assert_counts(&summary.total, 30, 0, 0, 70);
    // It does not wait for requests that it will not send.
    assert_eq!(outcome.end_ns(), 36 * MS);

    // A sending function that is slow uses the time up: 12 sends of 2.5 ms.
    let recorder = Recorder::for_schedule(&schedule).unwrap();
    let outcome = OpenLoop::new(&recorder).time_limit(limit).run(&schedule, &clock, |request| {
        clock.advance(5 * MS / 2);
        recorder.complete(request.id, clock.now_ns());
        Sent::Accepted
    });
    assert_counts(&outcome.summary(&recorder).total, 12, 0, 0, 88);
}

#[test]
fn unfinished_requests_raise_percentiles_to_a_bound() {
    let schedule = each_ms(100);
    let recorder = Recorder::for_schedule(&schedule).unwrap();
    let clock = SimClock::new();
    let open_loop = OpenLoop::new(&recorder).grace(Duration::from_millis(50));
    let outcome = open_loop.run(&schedule, &clock, |request| {
        if !request.id.is_multiple_of(10) {
            recorder.complete(request.id, clock.now_ns() + 1_000);
        }
        Sent::Accepted
    });
    // Sent at 0, 10... 90 ms; the end is 50 ms after the last request at 99 ms.
    assert_eq!(outcome.end_ns(), 149 * MS);
    let summary = outcome.summary(&recorder);
    assert_counts(&summary.total, 90, 10, 0, 0);
    let latency = summary.total.latency_ns.unwrap();
    assert_eq!((latency.p50.value, latency.p50.at_least), (1_000, false));
    assert_eq!((latency.p90.value, latency.p90.at_least), (1_000, false));
    // The ages are 59, 69... 149 ms; rank 99 of 100 is the ninth.
    assert_eq!((latency.p99.value, latency.p99.at_least), (139 * MS, true));
    assert_eq!((latency.max.value, latency.max.at_least), (149 * MS, true));
    let slowdown = summary.total.slowdown.unwrap();
    assert_eq!((slowdown.p99.value, slowdown.p99.at_least), (139.0, true));
    assert_eq!((slowdown.p50.value, slowdown.p50.at_least), (0.001, false));
}

/// However short the grace period, a request that never completes must not lower a percentile.
#[test]
fn leaving_requests_unfinished_never_improves_a_percentile() {
    let run = |unfinished: u64| -> Summary {
        let schedule = each_ms(1_000);
        let recorder = Recorder::for_schedule(&schedule).unwrap();
        let clock = SimClock::new();
        let open_loop = OpenLoop::new(&recorder).grace(Duration::ZERO);
        let outcome = open_loop.run(&schedule, &clock, |request| {
            // The last ones are unfinished: their age at the end is nearly 0.
            if request.id < 1_000 - unfinished {
                recorder.complete(request.id, clock.now_ns() + MS * (1 + request.id % 100));
            }
            Sent::Accepted
        });
        outcome.summary(&recorder)
    };
    let all = run(0).total.latency_ns.unwrap();
    for unfinished in [1, 5, 20, 200, 600, 1_000] {
        let some = run(unfinished).total.latency_ns.unwrap();
        for (with, without) in [
            (some.p50, all.p50),
            (some.p90, all.p90),
            (some.p99, all.p99),
            (some.p999, all.p999),
            (some.max, all.max),
        ] {
            assert!(with.at_least || with.value >= without.value, "{unfinished}: {some:?}");
        }
    }
}

#[test]
fn refused_requests_are_dropped() {
    let schedule = each_ms(100);
    let recorder = Recorder::for_schedule(&schedule).unwrap();
    let clock = SimClock::new();
    let outcome = OpenLoop::new(&recorder).max_outstanding(1).run(&schedule, &clock, |request| {
        if request.id % 4 == 3 {
            return Sent::Refused;
        }
        recorder.complete(request.id, clock.now_ns());
        // Served although the sending function says otherwise: what happened counts.
        if request.id == 0 { Sent::Refused } else { Sent::Accepted }
    });
    assert_counts(&outcome.summary(&recorder).total, 75, 0, 25, 0);
    assert_eq!(outcome.drops(), Drops { outstanding: 0, refused: 25, no_slot: 0 });
}

#[test]
fn without_a_slot_requests_are_dropped_and_counted() {
    let schedule = each_ms(100).warm_up(Duration::from_millis(10));
    let recorder = Recorder::new(["a"], 60).unwrap();
    let clock = SimClock::new();
    let limit = Duration::from_millis(100);
    let outcome = OpenLoop::new(&recorder).time_limit(limit).run(&schedule, &clock, |request| {
        recorder.complete(request.id, clock.now_ns() + 1);
        Sent::Accepted
    });
    let summary = outcome.summary(&recorder);
    assert_counts(&summary.total, 50, 0, 40, 10);
    assert_eq!(outcome.drops(), Drops { outstanding: 0, refused: 0, no_slot: 40 });
    assert_eq!(summary.total.slowdown.unwrap().count, 100);
    let latency = summary.total.latency_ns.unwrap();
    assert_eq!((latency.p50.at_least, latency.p90.at_least), (false, true));
}

#[test]
fn the_warm_up_is_sent_and_not_recorded() {
    let schedule = each_ms(100).warm_up(Duration::from_millis(50));
    let recorder = Recorder::for_schedule(&schedule).unwrap();
    let clock = SimClock::new();
    let sent = Cell::new(0);
    let outcome = OpenLoop::new(&recorder).run(&schedule, &clock, |request| {
        sent.set(sent.get() + 1);
        // Slow and late while warm; then 10 µs.
        if request.warm_up {
            clock.advance(MS / 2);
        }
        recorder.complete(request.id, clock.now_ns() + 10_000);
        Sent::Accepted
    });
    assert_eq!(sent.get(), 150);
    let summary = outcome.summary(&recorder);
    assert_counts(&summary.total, 100, 0, 0, 0);
    assert_eq!(summary.warm_up, 50);
    assert_eq!(summary.window_ns, 99 * MS);
    let latency = summary.total.latency_ns.unwrap();
    assert_eq!((latency.min.value, latency.max.value), (10_000, 10_000));
    assert_eq!(outcome.lateness().len(), 100);
    assert_eq!(summary.total.offered_rate, Some(1e3));
}

#[test]
fn intended_times_count_from_the_start_of_the_run() {
    let schedule = each_ms(3);
    let recorder = Recorder::for_schedule(&schedule).unwrap();
    let clock = SimClock::new();
    clock.advance(1_000 * MS);
    let times = RefCell::new(Vec::new());
    let outcome = OpenLoop::new(&recorder).run(&schedule, &clock, |request| {
        times.borrow_mut().push((request.intended_ns, clock.now_ns()));
        recorder.complete(request.id, clock.now_ns());
        Sent::Accepted
    });
    let expected = [1_000, 1_001, 1_002].map(|ms| (ms * MS, ms * MS));
    assert_eq!(*times.borrow(), expected);
    assert_eq!(outcome.summary(&recorder).total.latency_ns.unwrap().max.value, 0);
}

#[test]
fn rates_are_those_of_the_window() {
    // Twice the load that the server can bear: it achieves half, and what drains after the end does
    // not count.
    let schedule = each_ms(1_001);
    let recorder = Recorder::for_schedule(&schedule).unwrap();
    let free_at = Cell::new(0);
    let clock = SimClock::new();
    let open_loop = OpenLoop::new(&recorder).grace(Duration::from_secs(10));
    let outcome = open_loop.run(&schedule, &clock, |request| {
        let end = free_at.get().max(clock.now_ns()) + 2 * MS;
        free_at.set(end);
        let (recorder, id) = (&recorder, request.id);
        clock.at(end, move |clock| {
            recorder.complete(id, clock.now_ns());
        });
        Sent::Accepted
    });
    let summary = outcome.summary(&recorder);
    assert_counts(&summary.total, 1_001, 0, 0, 0);
    assert_eq!(summary.total.offered_rate, Some(1e3));
    assert_eq!(summary.total.achieved_rate, Some(500.0));
}

#[test]
fn an_empty_run_has_no_figures() {
    let schedule = each_ms(0);
    let recorder = Recorder::for_schedule(&schedule).unwrap();
    let clock = SimClock::new();
    let outcome = OpenLoop::new(&recorder).run(&schedule, &clock, |_| Sent::Accepted);
    let summary = outcome.summary(&recorder);
    assert_counts(&summary.total, 0, 0, 0, 0);
    assert_eq!(summary.total.latency_ns, None);
    assert_eq!(summary.total.offered_rate, None);
    assert_eq!(summary.total.lost_share(), 0.0);
}

fn request(id: u64, class: u32) -> Request {
    Request { id, intended_ns: 10 * id, class, service_ns: 0, key_random: 0, warm_up: false }
}

#[test]
fn a_generator_of_ones_own_can_record() {
    let recorder = Recorder::new(["get", "put"], 4).unwrap();
    assert!(recorder.sent(&request(0, 0)));
    assert!(recorder.sent(&request(1, 1)));
    recorder.dropped(&request(2, 0));
    recorder.unsent(&request(3, 1));
    assert_eq!(recorder.outstanding(), 2);
    assert_eq!(recorder.complete(1, 25), Completion::Recorded);
    assert_eq!(recorder.complete(1, 26), Completion::Duplicate);
    for id in [2, 3, 4, u64::MAX] {
        assert_eq!(recorder.complete(id, 25), Completion::Unknown);
    }
    assert_eq!(recorder.outstanding(), 1);

    let fates: Vec<_> = recorder.samples().map(|s| (s.id, s.fate, s.latency_ns())).collect();
    let expected = [
        (0, Fate::Unfinished, None),
        (1, Fate::Completed { at_ns: 25 }, Some(15)),
        (2, Fate::Dropped, None),
        (3, Fate::Unsent, None),
    ];
    assert_eq!(fates, expected);
    let summary = recorder.summary(100);
    assert_eq!(summary.stray, 5);
    assert_counts(summary.class("get").unwrap(), 0, 1, 1, 0);
    assert_counts(summary.class("put").unwrap(), 1, 0, 0, 1);
    assert_eq!(summary.class("post"), None);
    assert_eq!(summary.total.slowdown, None);
    assert_eq!(summary.total.lost_share(), 0.75);
    assert_eq!(recorder.completed_latencies(Some(1)).max(), 15);
    assert_eq!(recorder.completed_latencies(None).len(), 1);

    let json = serde_json::to_string(&summary).unwrap();
    assert_eq!(serde_json::from_str::<Summary>(&json).unwrap(), summary);
}

#[test]
#[should_panic(expected = "no known class")]
fn unknown_classes_are_a_mistake() {
    Recorder::new(["get"], 1).unwrap().sent(&request(0, 1));
}

#[test]
fn an_impossible_size_is_an_error() {
    let Err(error) = Recorder::new(["get"], usize::MAX) else {
        panic!("there is no such memory");
    };
    assert!(error.to_string().contains("lower the rate or the duration"), "{error}");
}
