//! Which jobs to run.

use anyhow::bail;
use quaver_selftest::{Libraries, boundaries, boundaries::scenarios, torture};

use super::{Args, Job, What};
use crate::run::find_shim;

/// Instructions stepped for each scenario: a second or less, and half a minute.
const QUICK_STEPS: u64 = 3_000;
const FULL_STEPS: u64 = 1_000_000;
/// Where scenarios are cut off: most are shorter than the second number unless they wait.
const QUICK_MOST: u64 = 5_000;
const FULL_MOST: u64 = 300_000;
/// How long each program runs.
const QUICK_SECONDS: f64 = 1.2;
const FULL_SECONDS: f64 = 60.0;
/// And how long at most until it has been preempted as often as was asked for.
const QUICK_PATIENCE: f64 = 60.0;
const FULL_PATIENCE: f64 = 86_400.0;

fn known() -> Vec<&'static str> {
    scenarios::all().iter().map(|s| s.name).chain(torture::names()).collect()
}

/// The jobs that the command line asks for.
pub(super) fn jobs(args: &Args, seed: u64) -> anyhow::Result<Vec<Job>> {
    if let Some(name) = args.only.iter().find(|name| !known().contains(&name.as_str())) {
        bail!("there is no scenario or program '{name}'; `quaver selftest --list` shows them");
    }
    let chosen = |name: &str| args.only.is_empty() || args.only.iter().any(|only| only == name);
    let workers = args.workers.map_or_else(|| vec![1, 2], |n| vec![n as usize]);
    let mut jobs = Vec::new();
    if args.what != What::Torture {
        let names = scenarios::all().into_iter().map(|s| s.name).filter(|name| chosen(name));
        let cases: Vec<_> =
            workers.iter().flat_map(|&w| libraries(args, w).map(move |l| (w, l))).collect();
        for (name, &(workers, libraries)) in
            names.flat_map(|name| cases.iter().map(move |c| (name, c)))
        {
            jobs.push(Job::Boundaries(boundaries::Job {
                libraries,
                scenario: name.into(),
                workers,
                steps: args.steps.unwrap_or(if args.quick { QUICK_STEPS } else { FULL_STEPS }),
                most: if args.quick { QUICK_MOST } else { FULL_MOST },
                seed,
                only: args.at,
                by_user_interrupt: args.what == What::Uintr,
            }));
        }
    }
    if !matches!(args.what, What::Boundaries | What::Uintr) && args.at.is_none() {
        let names: Vec<_> = torture::names().into_iter().filter(|name| chosen(name)).collect();
        // Without the shim they are skipped.
        let quaver = find_shim().ok().and_then(|_| std::env::current_exe().ok());
        let libraries = names.iter().any(|name| !torture::shimmed::is_one(name));
        for (name, &workers) in names.iter().flat_map(|name| workers.iter().map(move |w| (name, w)))
        {
            let usual = if args.quick { QUICK_SECONDS } else { FULL_SECONDS };
            // In parts all programs have their turn again and again.
            let patience = match args.add_to {
                Some(_) => usual,
                None if args.quick => QUICK_PATIENCE,
                None => FULL_PATIENCE,
            };
            // Whoever asks for a number of preemptions waits for them; but how often a program of a
            // package is preempted is up to it.
            let waits =
                args.preemptions.is_some() && !(libraries && torture::shimmed::is_one(name));
            let seconds = args.seconds.unwrap_or(if waits { patience } else { usual });
            jobs.push(Job::Torture(torture::Job {
                program: name.to_string(),
                workers,
                seconds,
                preemptions: u64::MAX,
                seed,
                quaver: quaver.clone(),
            }));
        }
    }
    if jobs.is_empty() {
        bail!("nothing is left to do: --only names nothing of what was asked for");
    }
    Ok(jobs)
}

/// Asks `jobs` for so many preemptions together, and the first one for its share. What it lacks in
/// the end the others have to make up for.
pub(super) fn share(jobs: &mut [Job], preemptions: u64) {
    let torture = jobs.iter().filter(|job| matches!(job, Job::Torture(_))).count() as u64;
    if let Some(Job::Torture(job)) = jobs.first_mut() {
        job.preemptions = preemptions.div_ceil(torture).max(1);
    }
}

/// What is done in libraries: as asked for; in a quick run one of both for each number of workers.
fn libraries(args: &Args, workers: usize) -> impl Iterator<Item = Libraries> + use<> {
    let all = [Libraries::Defer, Libraries::Insist];
    let one = args.libraries.map(Libraries::from).or(args.quick.then(|| all[(workers - 1) % 2]));
    all.into_iter().filter(move |&l| one.is_none_or(|one| one == l))
}

/// What there is to choose from.
pub(super) fn listing() -> String {
    let scenarios: Vec<_> = scenarios::all().iter().map(|s| s.name).collect();
    let programs = torture::names();
    format!("boundaries: {}\n\ntorture: {}\n", scenarios.join(", "), programs.join(", "))
}

/// `BOUNDARY` or `BOUNDARY/STRIDE`.
pub(super) fn parse_at(text: &str) -> Result<(u64, u64), String> {
    let (first, stride) = text.split_once('/').unwrap_or((text, "0"));
    match (first.parse(), stride.parse()) {
        (Ok(first @ 1..), Ok(stride)) => Ok((first, stride)),
        _ => Err("expected a boundary, counted from 1, such as 17, or 17/50".into()),
    }
}

/// A number of seconds above zero.
pub(super) fn parse_seconds(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(seconds) if seconds > 0.0 && seconds < 1e9 => Ok(seconds),
        _ => Err("expected a number of seconds, such as 2.5".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_read() {
        assert_eq!(parse_at("17"), Ok((17, 0)));
        assert_eq!(parse_at("17/50"), Ok((17, 50)));
        for bad in ["", "0", "x", "1/", "1/2/3", "-1"] {
            assert!(parse_at(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn what_one_lacks_others_make_up_for() {
        let job = |name: &str| {
            Job::Torture(torture::Job {
                program: name.into(),
                workers: 1,
                seconds: 1.0,
                preemptions: u64::MAX,
                seed: 1,
                quaver: None,
            })
        };
        let mut jobs = [job("a"), job("b"), job("c")];
        let asked = |jobs: &[Job]| match &jobs[0] {
            Job::Torture(job) => job.preemptions,
            Job::Boundaries(_) => unreachable!(),
        };
        share(&mut jobs, 30);
        assert_eq!(asked(&jobs), 10);
        share(&mut jobs[1..], 30 - 4);
        assert_eq!(asked(&jobs[1..]), 13);
        share(&mut jobs[2..], 0);
        assert_eq!(asked(&jobs[2..]), 1);
    }

    #[test]
    fn names_are_different() {
        let mut names = known();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
    }
}
