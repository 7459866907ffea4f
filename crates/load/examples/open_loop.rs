//! A server that is a thread with a queue, under an open loop of short and long requests.

use quaver_load::{
    ArrivalProcess, Clock, Limit, Mix, OpenLoop, RealClock, Recorder, Request, Schedule, Sent,
};
use std::sync::mpsc;
use std::time::Duration;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // What is offered: 2000 requests a second for 50 ms, after 10 ms of warm-up.
    let mix: Mix = "short:99.5%:fixed=4us,long:0.5%:fixed=1ms".parse()?;
    let limit = Limit::Duration(Duration::from_millis(50));
    let schedule = Schedule::new(ArrivalProcess::Poisson, 2_000.0, &mix, limit, 42)?
        .warm_up(Duration::from_millis(10));

    let recorder = Recorder::for_schedule(&schedule)?;
    let clock = RealClock::start();
    let outcome = std::thread::scope(|scope| {
        // The server: one thread with a queue. It completes requests by number.
        let (queue, requests) = mpsc::channel::<Request>();
        let (recorder, clock) = (&recorder, &clock);
        scope.spawn(move || {
            for request in requests {
                let end = clock.now_ns() + request.service_ns;
                while clock.now_ns() < end {
                    std::hint::spin_loop();
                }
                recorder.complete(request.id, clock.now_ns());
            }
        });
        // The generator: this thread.
        OpenLoop::new(recorder).max_outstanding(10_000).time_limit(Duration::from_secs(5)).run(
            &schedule,
            clock,
            |request| match queue.send(*request) {
                Ok(()) => Sent::Accepted,
                Err(_) => Sent::Refused,
            },
        )
    });

    let summary = outcome.summary(&recorder); // serialisable with serde
    for class in summary.classes.iter().chain([&summary.total]) {
        if let Some(latency) = &class.latency_ns {
            let sign = if latency.p99.at_least { "at least " } else { "" };
            println!(
                "{}: {} of {} completed, p99 {sign}{} ns",
                class.name, class.completed, class.offered, latency.p99.value
            );
        }
    }
    let total = &summary.total;
    assert_eq!(total.offered, total.completed + total.unfinished + total.dropped + total.unsent);
    Ok(())
}
