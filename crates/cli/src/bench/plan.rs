//! What a benchmark asks the harness to do.

use std::ffi::OsString;
use std::fmt;
use std::time::Duration;

use serde::Serialize;

use super::lock;

/// A benchmark: groups of jobs, one group after another.
#[derive(Debug, Default)]
pub struct Plan {
    /// Jobs of one group are measured in turn.
    pub groups: Vec<Group>,
    /// What is left out, and why.
    pub notes: Vec<String>,
}

/// Jobs whose numbers are compared: measured in turn, in every round. The first one is the
/// reference of ratios.
#[derive(Debug, Default)]
pub struct Group {
    /// What the group is about, for the progress bar.
    pub title: String,
    /// In the order of the table.
    pub jobs: Vec<Job>,
}

impl Group {
    /// Whether its processes use locks and should find a monitor. What a monitor costs is measured
    /// without.
    pub fn wants_lockd(&self) -> bool {
        self.jobs.iter().any(|job| job.about.is_some())
    }
}

/// One child process, started anew in every round.
#[derive(Clone, Debug)]
pub struct Job {
    /// What is measured, with the settings that matter.
    pub implementation: String,
    /// Program and arguments.
    pub command: Vec<OsString>,
    /// Where it may run.
    pub cpus: Vec<usize>,
    /// When to give up.
    pub limit: Duration,
    /// Which of its metrics become rows.
    pub readings: Vec<Reading>,
    /// What it is about, for programs that read rows. Its rows then have all its metrics.
    pub labels: Option<Labels>,
    /// Of `lock`: what it is about.
    pub about: Option<lock::About>,
    /// What its metrics should come to.
    pub aims: Vec<Aim>,
}

/// What a metric should come to, against others of the group.
#[derive(Clone, PartialEq, Debug)]
pub struct Aim {
    /// The name of the row.
    pub row: String,
    /// The metric.
    pub metric: String,
    /// The bound of the ratio of this to the best of the others, in the same round.
    pub bound: Bound,
    /// The implementations that it is compared with.
    pub against: Vec<String>,
    /// Which of them is the best.
    pub pick: Pick,
}

/// What makes an implementation the best one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pick {
    /// Its value in each round: the strictest, because the best of several is also the luckiest.
    Round,
    /// Its median.
    Median,
}

impl Aim {
    /// A row `row`: `metric` against the best of these implementations.
    pub fn new(
        row: impl Into<String>,
        metric: impl Into<String>,
        bound: Bound,
        against: &[impl AsRef<str>],
    ) -> Aim {
        let against = against.iter().map(|name| name.as_ref().to_owned()).collect();
        Aim { row: row.into(), metric: metric.into(), bound, against, pick: Pick::Round }
    }
}

/// A bound of a ratio.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// Less is better.
    AtMost(f64),
    /// More is better.
    AtLeast(f64),
}

impl Bound {
    /// Whether there are values that are not within. One without limit only says what is better.
    pub fn binds(self) -> bool {
        let (Bound::AtMost(limit) | Bound::AtLeast(limit)) = self;
        limit.is_finite()
    }

    /// The best of some values, if there are any.
    pub fn best(self, values: impl Iterator<Item = f64>) -> Option<f64> {
        match self {
            Bound::AtMost(_) => values.min_by(f64::total_cmp),
            Bound::AtLeast(_) => values.max_by(f64::total_cmp),
        }
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Bound::AtMost(most) => write!(f, "<= {most:.2}x"),
            Bound::AtLeast(least) => write!(f, ">= {least:.2}x"),
        }
    }
}

/// What a row is about.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Labels {
    /// Rows of one section, program and compiler were measured in turn.
    pub section: &'static str,
    /// What ran; empty where all programs are meant.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub program: String,
    /// Who compiled it.
    pub compiler: String,
    /// In which way.
    pub variant: &'static str,
    /// How often it was interrupted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quantum_us: Option<u64>,
    /// How many instructions a probe should serve.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instructions: Option<usize>,
}

impl Job {
    /// Is it Quaver that is measured, not a peer?
    pub fn is_ours(&self) -> bool {
        self.implementation.starts_with("quaver")
    }
}

/// A metric of a child's answer that becomes a row.
#[derive(Clone, PartialEq, Debug)]
pub struct Reading {
    /// The name of the row.
    pub row: String,
    /// The name of the metric in the answer.
    pub metric: String,
    /// The unit of the row.
    pub unit: &'static str,
}

impl Reading {
    /// A row `row` in `unit`, from `metric`.
    pub fn new(row: impl Into<String>, metric: impl Into<String>, unit: &'static str) -> Self {
        Self { row: row.into(), metric: metric.into(), unit }
    }
}

/// How thorough to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Effort {
    /// A look instead of a measurement: shorter, and fewer settings.
    pub quick: bool,
}

impl Effort {
    /// `quick` for a look, `full` for a measurement.
    pub fn pick<T>(self, quick: T, full: T) -> T {
        if self.quick { quick } else { full }
    }
}

impl Plan {
    /// Keeps the jobs whose implementation contains one of `parts`; all if there are none.
    pub fn keep_only(&mut self, parts: &[String]) {
        if !parts.is_empty() {
            for group in &mut self.groups {
                group.jobs.retain(|job| parts.iter().any(|part| job.implementation.contains(part)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_asked_for_is_kept() {
        let job = |implementation: &str| Job {
            implementation: implementation.into(),
            command: vec![],
            cpus: vec![],
            limit: Duration::ZERO,
            readings: vec![],
            labels: None,
            about: None,
            aims: vec![],
        };
        let jobs = || ["quaver timer-thread", "go", "may"].map(job).into();
        let kept = |parts: &[&str]| {
            let mut plan = Plan::default();
            plan.groups.push(Group { title: String::new(), jobs: jobs() });
            plan.keep_only(&parts.iter().map(|part| part.to_string()).collect::<Vec<_>>());
            let jobs = plan.groups.remove(0).jobs;
            jobs.into_iter().map(|job| job.implementation).collect::<Vec<_>>()
        };
        assert_eq!(kept(&["quaver", "may"]), ["quaver timer-thread", "may"]);
        assert_eq!(kept(&[]).len(), 3);
        assert!(kept(&["erlang"]).is_empty());
    }
}
