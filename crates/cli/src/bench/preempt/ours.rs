//! Ours: user threads on one worker.

use super::crew::Crew;
use super::measure::{Done, timed};
use crate::bench::settings::Settings;

/// Runs each thread's work on a user thread of a runtime with `settings`.
pub fn run(settings: &Settings, crew: &'static Crew) -> anyhow::Result<Done> {
    let runtime = settings.build()?;
    let before = runtime.stats();
    let (results, took) = runtime.run(move || {
        timed(|| {
            let spawn = |which| quaver::spawn(move || crew.compute(which));
            let threads: Vec<_> = (0..crew.len()).map(spawn).collect();
            threads
                .into_iter()
                .map(|thread| thread.join().expect("computing does not panic"))
                .collect()
        })
    })?;
    let events = runtime.stats().since(&before).preempt_useful;
    Ok(Done { results, events, took })
}
