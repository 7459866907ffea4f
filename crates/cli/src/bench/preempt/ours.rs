//! Ours: two user threads on one worker.

use super::measure::{Done, Hog, timed};
use crate::bench::settings::Settings;

/// Runs both hogs as user threads of a runtime with `settings`.
pub fn run(settings: &Settings, hog: Hog) -> anyhow::Result<Done> {
    let runtime = settings.build()?;
    let before = runtime.stats();
    let (results, took) = runtime.run(move || {
        timed(|| {
            let hogs = [0, 1].map(|which| quaver::spawn(move || hog.compute(which)));
            hogs.map(|hog| hog.join().expect("computing does not panic"))
        })
    })?;
    let events = runtime.stats().since(&before).preempt_useful;
    Ok(Done { results, events, took })
}
