//! The harness: runs a plan and turns the answers of children into rows.
//!
//! Machines drift: other tenants come, clocks change. So the jobs of a group run in turn, round
//! after round, every second round backwards so that nobody always comes first, and a ratio is
//! taken inside one round.
//!
//! An implementation that is not there or fails costs its rows and leaves a note; it never stops
//! the benchmark. A crash of one of ours is remembered, so that the command fails in the end.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use indicatif::ProgressBar;
use quaver_bench_common::{Outcome, Sample};
use serde::Serialize;

use super::lock;
use super::plan::{Aim, Bound, Group, Job, Labels, Pick, Plan};
use super::stats::{Summary, median_interval, paired_ratios};
use crate::interrupt::Interrupt;
use crate::process::{self, Crash};

/// After so many failures a job is not tried again: a livelock costs its whole time limit every
/// time.
const FAILURES: usize = 2;

/// One line of the result.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Row {
    /// The benchmark.
    pub benchmark: &'static str,
    /// What was measured.
    pub name: String,
    /// By which implementation, with its settings.
    pub implementation: String,
    /// Of the numbers.
    pub unit: &'static str,
    /// Lowest of all runs.
    pub min: f64,
    /// Median of all runs.
    pub median: f64,
    /// Highest of all runs.
    pub max: f64,
    /// How many runs gave a number.
    pub runs: usize,
    /// Median over rounds of "this / the first implementation of the table in the same round".
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ratio: Option<f64>,
    /// Where the median of these ratios lies, with a probability of 95 %.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ratio_interval: Option<[f64; 2]>,
    /// What it is about.
    #[serde(flatten)]
    pub labels: Option<Labels>,
    /// Of `lock`: what it is about, and its numbers under names that programs look for.
    #[serde(flatten)]
    pub lock: Option<lock::Labelled>,
    /// With labels, or of `lock`: the numbers of all rounds; `null` where there is none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<Option<f64>>,
    /// With these: medians of the other metrics.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub metrics: BTreeMap<String, f64>,
    /// Of a row that is a ratio by itself: what it should be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aim: Option<Bound>,
    /// What the implementation said about its numbers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// What came out of a plan.
#[derive(Debug, Default)]
pub struct Results {
    /// In the order of the plan; rows of the same name together.
    pub rows: Vec<Row>,
    /// What is missing, and why.
    pub notes: Vec<String>,
    /// How processes of Quaver crashed or computed wrongly.
    pub crashes: Vec<String>,
}

/// Runs `plan`; the progress bar advances by one for each child. An `interrupt` ends it after the
/// child that runs, whose answer does not count; the results are those of the rounds before.
pub fn run(
    benchmark: &'static str,
    plan: &Plan,
    rounds: usize,
    bar: &ProgressBar,
    interrupt: &Interrupt,
) -> Results {
    let mut results = Results { notes: plan.notes.clone(), ..Results::default() };
    for group in &plan.groups {
        if interrupt.raised().is_some() {
            break;
        }
        let _lockd = match group.jobs.first() {
            Some(job) if group.wants_lockd() => lock::Server::start(&job.cpus),
            _ => None,
        };
        let mut logs: Vec<Log> = group.jobs.iter().map(|_| Log::default()).collect();
        'rounds: for round in 0..rounds {
            let mut order: Vec<usize> = (0..group.jobs.len()).collect();
            if round % 2 == 1 {
                order.reverse();
            }
            for i in order {
                let job = &group.jobs[i];
                bar.set_message(format!("{}: {}", group.title, job.implementation));
                let answer = logs[i].wants_more().then(|| start(job));
                if interrupt.raised().is_some() {
                    // Ctrl-C reaches the child, too.
                    break 'rounds;
                }
                logs[i].add(answer);
                bar.inc(1);
            }
        }
        results.rows.extend(rows(benchmark, group, &logs));
        results.rows.extend(aims(benchmark, group, &logs));
        results.notes.extend(notes(group, &logs));
        results.crashes.extend(crashes(group, &logs));
    }
    results
}

/// How many children `plan` starts.
pub fn children(plan: &Plan, rounds: usize) -> u64 {
    (plan.groups.iter().map(|group| group.jobs.len()).sum::<usize>() * rounds) as u64
}

fn start(job: &Job) -> anyhow::Result<Outcome> {
    let mut words = job.command.iter();
    let mut command = Command::new(words.next().expect("a job names its program"));
    command.args(words);
    process::run(command, &job.cpus, job.limit)
}

/// What a job answered, round by round.
#[derive(Debug, Default)]
pub struct Log {
    samples: Vec<Option<Sample>>,
    /// Why it has no numbers: it cannot do that.
    unsupported: Option<String>,
    /// Why there are fewer numbers than rounds.
    failures: Vec<String>,
    /// Those of them that were crashes.
    crashes: Vec<String>,
}

impl Log {
    /// Is a further round worth running?
    fn wants_more(&self) -> bool {
        self.unsupported.is_none() && self.failures.len() < FAILURES
    }

    /// Adds a round; `None`: it was not run.
    fn add(&mut self, outcome: Option<anyhow::Result<Outcome>>) {
        let failed = |error: anyhow::Error| {
            let text = format!("{error:#}");
            if error.is::<Crash>() {
                self.crashes.push(text.clone());
            }
            Outcome::failed(text)
        };
        self.samples.push(match outcome.map(|outcome| outcome.unwrap_or_else(failed)) {
            Some(Outcome::Sample(sample)) => Some(sample),
            Some(Outcome::Unsupported { unsupported }) => {
                self.unsupported = Some(unsupported);
                None
            }
            Some(Outcome::Failed { error }) => {
                self.failures.push(error);
                None
            }
            None => None,
        });
    }

    /// A metric, round by round.
    pub fn values(&self, metric: &str) -> Vec<Option<f64>> {
        let value = |sample: &Option<Sample>| sample.as_ref()?.metrics.get(metric).copied();
        self.samples.iter().map(value).collect()
    }

    /// Medians of all metrics but one.
    fn others(&self, metric: &str) -> BTreeMap<String, f64> {
        let names = self.samples.iter().flatten().flat_map(|sample| sample.metrics.keys());
        let names: BTreeSet<&String> = names.filter(|name| *name != metric).collect();
        let median = |name: &String| {
            let values: Vec<f64> = self.values(name).into_iter().flatten().collect();
            Some((name.clone(), Summary::of(&values)?.median))
        };
        names.into_iter().filter_map(median).collect()
    }

    /// What the samples say, each thing once.
    fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        for note in self.samples.iter().flatten().flat_map(|sample| &sample.notes) {
            if !notes.contains(note) {
                notes.push(note.clone());
            }
        }
        notes
    }
}

fn rows(benchmark: &'static str, group: &Group, logs: &[Log]) -> Vec<Row> {
    let mut names: Vec<&str> = Vec::new();
    for reading in group.jobs.iter().flat_map(|job| &job.readings) {
        if !names.contains(&reading.row.as_str()) {
            names.push(&reading.row);
        }
    }
    let mut rows = Vec::new();
    for name in names {
        let mut reference: Option<Vec<Option<f64>>> = None;
        for (job, log) in group.jobs.iter().zip(logs) {
            for reading in job.readings.iter().filter(|reading| reading.row == name) {
                let values = log.values(&reading.metric);
                let numbers: Vec<f64> = values.iter().copied().flatten().collect();
                let Some(Summary { min, median, max, runs }) = Summary::of(&numbers) else {
                    continue;
                };
                let ratios = reference.as_ref().map(|first| paired_ratios(&values, first));
                let ratios = ratios.unwrap_or_default();
                let labels = job.labels.clone();
                let ratio = Summary::of(&ratios).map(|summary| summary.median);
                let labelled = |about| lock::Labelled {
                    about,
                    ops_per_s: median,
                    ratio_to_pthread: ratio,
                    better: lock::Better::of(&values, &reading.metric, group, logs),
                };
                let tells = labels.is_some() || job.about.is_some();
                rows.push(Row {
                    benchmark,
                    name: name.to_owned(),
                    implementation: job.implementation.clone(),
                    unit: reading.unit,
                    min,
                    median,
                    max,
                    runs,
                    ratio,
                    ratio_interval: median_interval(&ratios),
                    values: if tells { values.clone() } else { Vec::new() },
                    metrics: if tells { log.others(&reading.metric) } else { BTreeMap::new() },
                    labels,
                    lock: job.about.clone().map(labelled),
                    aim: None,
                    notes: log.notes(),
                });
                reference.get_or_insert(values);
            }
        }
    }
    rows
}

/// What became of aims; rows of the same name together.
fn aims(benchmark: &'static str, group: &Group, logs: &[Log]) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    for (job, log) in group.jobs.iter().zip(logs) {
        for aim in &job.aims {
            let reference = best(aim, group, logs);
            let ratios = paired_ratios(&log.values(&aim.metric), &reference);
            let Some(Summary { min, median, max, runs }) = Summary::of(&ratios) else { continue };
            let after = rows.iter().rposition(|row| row.name == aim.row);
            let row = Row {
                benchmark,
                name: aim.row.clone(),
                implementation: job.implementation.clone(),
                unit: "x",
                min,
                median,
                max,
                runs,
                ratio: None,
                ratio_interval: median_interval(&ratios),
                labels: None,
                lock: None,
                values: Vec::new(),
                metrics: BTreeMap::new(),
                aim: Some(aim.bound).filter(|bound| bound.binds()),
                notes: Vec::new(),
            };
            rows.insert(after.map_or(rows.len(), |at| at + 1), row);
        }
    }
    rows
}

/// What `aim` compares with, round by round.
fn best(aim: &Aim, group: &Group, logs: &[Log]) -> Vec<Option<f64>> {
    let others = group.jobs.iter().zip(logs);
    let others = others.filter(|(job, _)| aim.against.contains(&job.implementation));
    let others: Vec<_> = others.map(|(_, log)| log.values(&aim.metric)).collect();
    match aim.pick {
        Pick::Round => {
            let rounds = others.iter().map(Vec::len).max().unwrap_or(0);
            let of_round = |round| others.iter().filter_map(move |values| *values.get(round)?);
            (0..rounds).map(|round| aim.bound.best(of_round(round))).collect()
        }
        Pick::Median => {
            let median = |values: &Vec<Option<f64>>| {
                let numbers: Vec<f64> = values.iter().copied().flatten().collect();
                Summary::of(&numbers).map(|summary| summary.median)
            };
            let best = aim.bound.best(others.iter().filter_map(median));
            others.into_iter().find(|values| median(values) == best).unwrap_or_default()
        }
    }
}

fn notes(group: &Group, logs: &[Log]) -> Vec<String> {
    let mut notes = Vec::new();
    for (job, log) in group.jobs.iter().zip(logs) {
        let who = format!("{}: {}", group.title, job.implementation);
        if let Some(why) = &log.unsupported {
            notes.push(format!("{who}: left out: {why}"));
        }
        if let Some(why) = log.failures.last() {
            let (failures, rounds) = (log.failures.len(), log.samples.len());
            notes.push(format!("{who}: failed {failures} times in {rounds} rounds: {why}"));
        }
    }
    notes
}

/// Crashes of ours: what happens to peers is theirs.
fn crashes(group: &Group, logs: &[Log]) -> Vec<String> {
    let ours = group.jobs.iter().zip(logs).filter(|(job, _)| job.is_ours());
    let told = |(job, log): (&Job, &Log)| {
        let who = format!("{}: {}", group.title, job.implementation);
        log.crashes.iter().map(|why| format!("{who}: {why}")).collect::<Vec<_>>()
    };
    ours.flat_map(told).collect()
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::time::Duration;

    use super::super::plan::Reading;
    use super::*;
    use crate::doctor::detect::cpus::allowed;

    /// A job that is a shell script; `$1` is a file of its own that lives as long as the test.
    fn job(implementation: &str, script: &str, state: &std::path::Path) -> Job {
        let command: [OsString; 5] = [
            "sh".into(),
            "-c".into(),
            script.into(),
            "sh".into(),
            state.join(implementation).into(),
        ];
        Job {
            implementation: implementation.to_owned(),
            command: command.into(),
            cpus: allowed(),
            limit: Duration::from_secs(60),
            readings: vec![Reading::new("speed", "x", "m/s")],
            labels: None,
            about: None,
            aims: vec![],
        }
    }

    fn answer(value: &str) -> String {
        format!(r#"echo '{{"metrics":{{"x":{value}}},"notes":["said"]}}'"#)
    }

    fn run_jobs(jobs: Vec<Job>, rounds: usize) -> Results {
        let group = Group { title: "race".into(), jobs };
        let plan = Plan { groups: vec![group], notes: vec!["first".into()] };
        let bar = ProgressBar::hidden();
        let results = run("test", &plan, rounds, &bar, &Interrupt::default());
        assert_eq!(bar.position(), children(&plan, rounds));
        results
    }

    #[test]
    fn rows_have_statistics_ratios_and_notes() {
        let state = tempfile::tempdir().unwrap();
        // 1, 2, 3 in the three rounds, and twice that.
        let counter = "n=$(cat $1 2>/dev/null || echo 0); n=$((n + 1)); echo $n > $1";
        let slow = format!("{counter}; {}", answer("'$((n * 2))'"));
        let fast = format!("{counter}; {}", answer("'$n'"));
        let results =
            run_jobs(vec![job("fast", &fast, state.path()), job("slow", &slow, state.path())], 3);
        assert_eq!(results.notes, ["first"]);
        let [first, second] = &results.rows[..] else { panic!("{results:?}") };
        assert_eq!((first.min, first.median, first.max, first.runs), (1.0, 2.0, 3.0, 3));
        assert_eq!((first.ratio, second.ratio), (None, Some(2.0)));
        assert_eq!((second.name.as_str(), second.unit), ("speed", "m/s"));
        assert_eq!(second.notes, ["said"]);
    }

    #[test]
    fn aims_compare_with_the_best_of_a_round() {
        let state = tempfile::tempdir().unwrap();
        let of = |name: &str, value: &str| job(name, &answer(value), state.path());
        let against = ["first", "second", "missing"];
        let mut ours = of("quaver", "3");
        ours.aims = [("less", Bound::AtMost(0.5)), ("more", Bound::AtLeast(1.0))]
            .map(|(row, bound)| Aim::new(row, "x", bound, &against))
            .into();
        ours.aims.push(Aim::new("nobody", "x", Bound::AtMost(1.0), &["missing"]));
        let results = run_jobs(vec![of("first", "6"), of("second", "2"), ours], 2);
        let rows = results.rows.iter().filter(|row| row.aim.is_some());
        let rows: Vec<_> = rows.map(|row| (row.name.as_str(), row.median, row.runs)).collect();
        assert_eq!(rows, [("less", 1.5, 2), ("more", 0.5, 2)]);
    }

    #[test]
    fn aims_by_median_take_one_implementation_for_all_rounds() {
        let state = tempfile::tempdir().unwrap();
        // Of the rounds 9, 1, 1 and 2, 2, 2 the second has the better median.
        let odd =
            r#"n=$(cat $1 2>/dev/null || echo 9); echo 1 > $1; "#.to_owned() + &answer("'$n'");
        let mut ours = job("quaver", &answer("2"), state.path());
        let pick = Pick::Median;
        let aim = Aim::new("aim", "x", Bound::AtLeast(1.0), &["odd", "even"]);
        ours.aims = vec![Aim { pick, ..aim.clone() }];
        let others = [job("odd", &odd, state.path()), job("even", &answer("2"), state.path())];
        let results = run_jobs(others.into_iter().chain([ours]).collect(), 3);
        let row = results.rows.iter().find(|row| row.aim.is_some()).unwrap();
        assert_eq!((row.min, row.median, row.max), (1.0, 1.0, 1.0));
    }

    #[test]
    fn what_cannot_be_measured_leaves_a_note_and_no_row() {
        let state = tempfile::tempdir().unwrap();
        let unsupported = r#"echo x >> $1; echo '{"unsupported":"no such thing"}'"#;
        let broken = "echo x >> $1; echo broken >&2; exit 1";
        let results = run_jobs(
            vec![
                job("unsupported", unsupported, state.path()),
                job("broken", broken, state.path()),
                job("fine", &answer("1"), state.path()),
            ],
            5,
        );
        let implementations: Vec<_> = results.rows.iter().map(|row| &row.implementation).collect();
        assert_eq!(implementations, ["fine"]);
        assert!(results.notes[1].contains("unsupported: left out: no such thing"));
        assert!(results.notes[2].contains("broken: failed 2 times in 5 rounds"));
        assert!(results.notes[2].contains("exit status: 1; broken"));
        // Neither was tried in vain.
        let tries =
            |name| std::fs::read_to_string(state.path().join(name)).unwrap().lines().count();
        assert_eq!((tries("unsupported"), tries("broken")), (1, FAILURES));
    }

    #[test]
    fn only_crashes_of_ours_are_ours() {
        let state = tempfile::tempdir().unwrap();
        let crash = "kill -SEGV $$";
        let refuse = r#"echo '{"error":"nothing was preempted"}'"#;
        let jobs = [("quaver x", crash), ("go", crash), ("quaver y", refuse)];
        let jobs = jobs.map(|(name, script)| job(name, script, state.path()));
        let results = run_jobs(jobs.into(), 1);
        assert_eq!(results.notes.len(), 4, "{results:?}");
        let [one] = &results.crashes[..] else { panic!("{results:?}") };
        assert!(one.contains("race: quaver x: signal: 11"), "{one}");
    }

    #[test]
    fn every_second_round_runs_backwards() {
        let state = tempfile::tempdir().unwrap();
        let script = |name| format!("echo {name} >> $(dirname $1)/order; {}", answer("1"));
        run_jobs(
            vec![job("a", &script("a"), state.path()), job("b", &script("b"), state.path())],
            3,
        );
        let order = std::fs::read_to_string(state.path().join("order")).unwrap();
        assert_eq!(order.split_whitespace().collect::<String>(), "abbaab");
    }

    #[test]
    fn one_failure_is_forgiven() {
        let state = tempfile::tempdir().unwrap();
        let once = format!("test -e $1 && {} || {{ touch $1; exit 1; }}", answer("1"));
        let results = run_jobs(vec![job("shaky", &once, state.path())], 3);
        assert_eq!(results.rows[0].runs, 2);
        assert!(results.notes[1].contains("failed 1 times"));
    }
}
