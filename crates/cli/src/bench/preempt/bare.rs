//! The empty handler: what it costs to be told.

use std::time::Duration;

use super::crew::Crew;
use super::measure::{Done, timed};
use super::ticker::{self, Source, Ticker};

/// Runs the threads' work, one after the other, on the calling kernel thread, which is interrupted
/// every `quantum`.
pub fn run(
    crew: &Crew,
    source: Source,
    quantum: Duration,
    helper_cpu: Option<usize>,
) -> anyhow::Result<Done> {
    ticker::install(handler)?;
    let ticker = Ticker::start(source, quantum, helper_cpu)?;
    let before = ticker::events();
    let (results, took) = timed(|| crew.compute_all())?;
    let events = ticker::events() - before;
    drop(ticker);
    Ok(Done { results, events, took })
}

extern "C" fn handler(_: libc::c_int) {
    ticker::event();
    ticker::resumed();
}
