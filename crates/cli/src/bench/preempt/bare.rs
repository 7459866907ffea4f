//! The empty handler: what it costs to be told.

use std::time::Duration;

use super::measure::{Done, Hog, timed};
use super::ticker::{self, Source, Ticker};

/// Runs both hogs, one after the other, on the calling kernel thread, which is interrupted every
/// `quantum`.
pub fn run(
    hog: Hog,
    source: Source,
    quantum: Duration,
    helper_cpu: Option<usize>,
) -> anyhow::Result<Done> {
    ticker::install(handler)?;
    let ticker = Ticker::start(source, quantum, helper_cpu)?;
    let before = ticker::events();
    let (results, took) = timed(|| [hog.compute(0), hog.compute(1)])?;
    let events = ticker::events() - before;
    drop(ticker);
    Ok(Done { results, events, took })
}

extern "C" fn handler(_: libc::c_int) {
    ticker::event();
    ticker::resumed();
}
