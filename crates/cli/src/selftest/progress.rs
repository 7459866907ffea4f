//! Says how far the selftest has come, on standard error: a bar on a terminal, elsewhere a line
//! every now and then, so that whoever reads a log sees that a long run lives.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use quaver_selftest::Counts;

/// Between two lines of a log.
const INTERVAL: Duration = Duration::from_secs(30);

/// See the module documentation.
pub(super) struct Progress {
    bar: Option<ProgressBar>,
    start: Instant,
    said: Instant,
    jobs: usize,
    done: usize,
    /// Preemptions of the jobs that are done.
    preemptions: u64,
    what: String,
}

impl Progress {
    /// Of so many jobs.
    pub(super) fn new(jobs: usize) -> Progress {
        let bar = std::io::stderr().is_terminal().then(|| {
            let style = "{bar:30} {pos}/{len} {elapsed} {msg}";
            let style = ProgressStyle::with_template(style).expect("the template is well-formed");
            ProgressBar::new(jobs as u64).with_style(style)
        });
        let now = Instant::now();
        Progress { bar, start: now, said: now, jobs, done: 0, preemptions: 0, what: String::new() }
    }

    /// The next job begins.
    pub(super) fn begin(&mut self, name: &str, workers: usize) {
        self.what = format!("{name}, {workers} workers");
        self.so_far(&Counts::default());
    }

    /// The job has counted this.
    pub(super) fn so_far(&mut self, counts: &Counts) {
        let text = self.text(counts);
        if let Some(bar) = &self.bar {
            bar.set_message(text);
        } else if self.said.elapsed() >= INTERVAL {
            self.said = Instant::now();
            let (done, jobs, seconds) = (self.done, self.jobs, self.start.elapsed().as_secs());
            eprintln!("selftest: {done} of {jobs} done in {seconds} s; {text}");
        }
    }

    fn text(&self, counts: &Counts) -> String {
        format!("{}; {} preemptions", self.what, self.preemptions + counts.preemptions)
    }

    /// The job is done, and has counted this.
    pub(super) fn end(&mut self, counts: &Counts) {
        self.done += 1;
        self.preemptions += counts.preemptions;
        if let Some(bar) = &self.bar {
            bar.inc(1);
        }
    }

    /// All are done.
    pub(super) fn finish(self) {
        if let Some(bar) = self.bar {
            bar.finish_and_clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn preemptions_add_up() {
        let mut progress = Progress::new(2);
        let counts = |preemptions| Counts { preemptions, ..Counts::default() };
        progress.begin("one", 1);
        progress.end(&counts(5));
        progress.begin("other", 2);
        assert_eq!(progress.text(&counts(3)), "other, 2 workers; 8 preemptions");
        assert_eq!(progress.done, 1);
        progress.finish();
    }
}
