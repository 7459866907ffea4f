//! The recorder under threads: nothing is lost, nothing counted twice. No assertion depends on how
//! fast they run.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use quaver_load::{
    ArrivalProcess, Clock as _, Completion, Limit, Mix, OpenLoop, RealClock, Recorder, Request,
    Schedule, Sent,
};

/// Four threads complete all requests, every one of them each: one wins each time.
#[test]
fn each_request_completes_once() {
    let requests = 20_000;
    let recorder = Recorder::new(["a"], requests as usize).unwrap();
    for id in 0..requests {
        let request =
            Request { id, intended_ns: 0, class: 0, service_ns: 1, key_random: 0, warm_up: false };
        assert!(recorder.sent(&request));
    }
    let recorded = AtomicU64::new(0);
    thread::scope(|scope| {
        for worker in 0..4 {
            let (recorder, recorded) = (&recorder, &recorded);
            scope.spawn(move || {
                for id in 0..requests {
                    if recorder.complete(id, worker + 1) == Completion::Recorded {
                        recorded.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    assert_eq!(recorded.into_inner(), requests);
    assert_eq!(recorder.outstanding(), 0);
    let summary = recorder.summary(10);
    assert_eq!((summary.total.completed, summary.stray), (requests, 3 * requests));
    assert!(summary.total.latency_ns.unwrap().max.value <= 4);
}

/// In real time, with a limit that may or may not bite: whatever happens, it all adds up.
#[test]
fn every_request_is_accounted_for() {
    let mix: Mix = "short:9:fixed=1us,long:1:fixed=100us".parse().unwrap();
    let limit = Limit::Duration(Duration::from_millis(50));
    let schedule = Schedule::new(ArrivalProcess::Poisson, 20_000.0, &mix, limit, 3).unwrap();
    let recorder = Recorder::for_schedule(&schedule).unwrap();
    let clock = RealClock::with_spin_ns(0);
    let accepted = AtomicU64::new(0);
    let outcome = thread::scope(|scope| {
        let (queue, requests) = mpsc::channel::<Request>();
        let (recorder, accepted) = (&recorder, &accepted);
        scope.spawn(move || {
            for request in requests {
                recorder.complete(request.id, clock.now_ns());
            }
        });
        OpenLoop::new(recorder).max_outstanding(50).time_limit(Duration::from_secs(60)).run(
            &schedule,
            &clock,
            |request| {
                assert!(clock.now_ns() >= request.intended_ns);
                accepted.fetch_add(1, Ordering::Relaxed);
                queue.send(*request).map_or(Sent::Refused, |()| Sent::Accepted)
            },
        )
    });
    // The server has ended, so every request that was sent has completed, also those that missed
    // the grace period.
    let summary = outcome.summary(&recorder);
    let total = &summary.total;
    assert_eq!(total.offered, schedule.count());
    assert_eq!(total.completed, accepted.into_inner());
    assert_eq!(total.offered, total.completed + total.dropped + total.unsent);
    assert_eq!(outcome.drops().outstanding, total.dropped);
    assert_eq!(summary.stray, 0);
    assert_eq!(outcome.lateness().len(), total.completed + total.dropped);
}
