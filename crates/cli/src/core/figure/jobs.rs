//! Many runs of the model at the same time, one on each core, with a bar.

use anyhow::{Context, Result};
use indicatif::{ProgressBar, ProgressStyle};
use rayon::prelude::*;

/// Runs all jobs and gives their results in the jobs' order. Blocks until all are done, or one has
/// failed.
///
/// # Errors
///
/// Those of the first job, in this order, that fails, with its name.
pub fn all<J: Sync, R: Send>(
    jobs: &[J],
    name: impl Fn(&J) -> String + Sync,
    run: impl Fn(&J) -> Result<R> + Sync,
) -> Result<Vec<R>> {
    let bar = ProgressBar::new(jobs.len() as u64);
    let style = "{spinner} {elapsed} {wide_bar} {pos}/{len} {msg} ";
    bar.set_style(ProgressStyle::with_template(style).context("the style of the bar")?);
    bar.enable_steady_tick(std::time::Duration::from_millis(200));
    // The longest jobs may be the last ones: taken one at a time, no core waits for another's.
    let results: Vec<Result<R>> = jobs
        .par_iter()
        .with_max_len(1)
        .map(|job| {
            let result = run(job).with_context(|| name(job));
            bar.set_message(name(job));
            bar.inc(1);
            result
        })
        .collect();
    bar.finish_and_clear();
    results.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_have_the_order_of_the_jobs() {
        let jobs: Vec<u64> = (0..100).collect();
        let squares = all(&jobs, u64::to_string, |job| Ok(job * job)).unwrap();
        assert_eq!(squares, jobs.iter().map(|job| job * job).collect::<Vec<_>>());
    }

    #[test]
    fn a_job_that_fails_is_named() {
        let run = |job: &u64| if job % 40 == 39 { anyhow::bail!("no luck") } else { Ok(()) };
        let error = all(&(0..100).collect::<Vec<_>>(), |job| format!("job {job}"), run);
        assert_eq!(format!("{:#}", error.unwrap_err()), "job 39: no luck");
    }
}
