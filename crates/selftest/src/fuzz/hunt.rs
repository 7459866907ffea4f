//! Runs many programs, and looks closer at those that differ.

use super::program::{Operation, Program};
use super::record::Record;
use super::report::{Difference, Report};
use super::run::{Place, Trouble};
use super::shrink::{self, Deviation};
use super::ways::{self, Way};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// What to do.
#[derive(Clone, Debug)]
pub struct Hunt {
    /// Numbers of the programs.
    pub programs: Vec<u64>,
    /// Seed of their sequence.
    pub seed: u64,
    /// The program `quaver`, which runs the interpreter on user threads.
    pub quaver: PathBuf,
    /// Only on this many workers.
    pub workers: Option<usize>,
    /// Processes at a time.
    pub jobs: usize,
    /// So many programs that differ are enough.
    pub enough: u64,
}

/// Is told how far it has come.
pub trait Progress: Sync {
    /// So many programs have been run, of which so many differ.
    fn so_far(&self, programs: u64, differences: u64);
    /// One that differs has been found.
    fn found(&self, difference: &Difference);
    /// Is it to end?
    fn stop(&self) -> bool;
}

/// Programs of one process.
const BATCH: usize = 25;
/// Nothing moves for so long: probably it hangs.
const PATIENCE: Duration = Duration::from_secs(5);
/// And alone, for so long: it does.
const LONG_PATIENCE: Duration = Duration::from_secs(30);
/// How often a program that differs is run again.
const AGAIN: u32 = 5;
/// Differences of a kind that are made smaller.
const SHRUNK: usize = 8;

struct Shared<'a> {
    hunt: &'a Hunt,
    place: Place,
    report: Mutex<Report>,
    kinds: Mutex<BTreeMap<String, u64>>,
    next: AtomicU64,
}

impl Hunt {
    /// Runs all programs in all ways.
    ///
    /// # Errors
    ///
    /// Files cannot be written, or processes not started.
    pub fn run(&self, progress: &dyn Progress) -> std::io::Result<Report> {
        let shared = Shared {
            hunt: self,
            place: Place::new(&self.quaver)?,
            report: Mutex::new(Report { seed: self.seed, ..Report::default() }),
            kinds: Mutex::default(),
            next: AtomicU64::new(0),
        };
        std::thread::scope(|scope| {
            let work = || shared.work(progress);
            let all: Vec<_> = (0..self.jobs.max(1)).map(|_| scope.spawn(work)).collect();
            all.into_iter()
                .try_for_each(|t| t.join().unwrap_or_else(|p| std::panic::resume_unwind(p)))
        })?;
        let mut report = shared.report.into_inner().unwrap_or_else(PoisonError::into_inner);
        let kinds = shared.kinds.into_inner().unwrap_or_else(PoisonError::into_inner);
        report.kinds = kinds.into_iter().collect();
        report.kinds.sort_by_key(|(_, n)| core::cmp::Reverse(*n));
        report.details.sort_by_key(|d| d.program);
        Ok(report)
    }
}

/// Programs that are run together.
struct Batch {
    numbers: Vec<u64>,
    programs: Vec<Program>,
    operations: Vec<Vec<Operation>>,
    native: Vec<Vec<Record>>,
    /// Those that need not be run any more.
    over: Vec<bool>,
}

impl Batch {
    /// A program that hangs would do so in all ways.
    fn leave_out_what_is_over(&mut self) {
        let over = core::mem::take(&mut self.over);
        fn keep<T>(list: &mut Vec<T>, over: &[bool]) {
            let mut over = over.iter();
            list.retain(|_| over.next() == Some(&false));
        }
        keep(&mut self.numbers, &over);
        keep(&mut self.programs, &over);
        keep(&mut self.operations, &over);
        keep(&mut self.native, &over);
        self.over = vec![false; self.numbers.len()];
    }
}

impl Shared<'_> {
    fn report(&self) -> std::sync::MutexGuard<'_, Report> {
        self.report.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn over(&self, progress: &dyn Progress) -> bool {
        progress.stop() || self.report().differences >= self.hunt.enough
    }

    fn work(&self, progress: &dyn Progress) -> std::io::Result<()> {
        while !self.over(progress) {
            let batch = self.next.fetch_add(1, Relaxed) as usize;
            let Some(numbers) = self.hunt.programs.chunks(BATCH).nth(batch) else { break };
            self.batch(numbers, progress)?;
            let (programs, differences) = {
                let mut report = self.report();
                report.programs += numbers.len() as u64;
                (report.programs, report.differences)
            };
            progress.so_far(programs, differences);
        }
        Ok(())
    }

    fn batch(&self, numbers: &[u64], progress: &dyn Progress) -> std::io::Result<()> {
        let programs: Vec<_> =
            numbers.iter().map(|&n| Program::generate(self.hunt.seed, n)).collect();
        let operations: Vec<_> = programs.iter().map(Program::operations).collect();
        let native = self.place.run(&operations, 0, Way::Native, LONG_PATIENCE)?;
        if let Some(trouble) = native.trouble {
            return Err(std::io::Error::other(format!(
                "programs {} to {} with seed {} do not end natively: {trouble:?}",
                numbers[0],
                numbers[numbers.len() - 1],
                self.hunt.seed
            )));
        }
        let over = vec![false; numbers.len()];
        let mut batch =
            Batch { numbers: numbers.into(), programs, operations, native: native.programs, over };
        let wanted = |w: &Way| match (w, self.hunt.workers) {
            (Way::Shim { workers, .. }, Some(wanted)) => *workers == wanted,
            _ => true,
        };
        for way in ways::all().into_iter().filter(wanted) {
            let mut first = 0;
            while first < batch.numbers.len() && !self.over(progress) {
                first = self.batch_in(&mut batch, first, way, progress)?;
            }
            batch.leave_out_what_is_over();
        }
        Ok(())
    }

    /// Runs a batch from program `first` on in one process; the first that is to be run in the next
    /// one.
    fn batch_in(
        &self,
        batch: &mut Batch,
        first: usize,
        way: Way,
        progress: &dyn Progress,
    ) -> std::io::Result<usize> {
        let trace = self.place.run(&batch.operations, first, way, PATIENCE)?;
        let last = batch.numbers.len() - 1;
        // Where it came to an end before its time.
        let ended = trace.trouble.is_some().then(|| {
            let complete = |i: &usize| trace.programs[*i] == batch.native[*i];
            let begun = |i: &usize| trace.programs[*i].iter().any(|r| r.begun);
            let unfinished = |i: &usize| {
                trace.programs[*i]
                    .iter()
                    .zip(&batch.native[*i])
                    .any(|(a, b)| a.done == 0 && b.done != 0)
            };
            (first..=last)
                .find(|i| unfinished(i) || !complete(i))
                .or_else(|| (first..=last).rev().find(begun))
                .unwrap_or(first)
        });
        for i in first..=ended.unwrap_or(last) {
            {
                let mut report = self.report();
                report.runs += 1;
                report.operations += batch.operations[i].len() as u64;
            }
            if batch.over[i] {
                continue;
            }
            let deviation = shrink::compare(&batch.operations[i], &batch.native[i], &trace, i)
                .or_else(|| {
                    let trouble = trace.trouble.as_ref().filter(|_| ended == Some(i))?;
                    let kind = format!("the end of a program: {trouble:?}");
                    Some(Deviation { operation: None, what: kind.clone(), kind })
                });
            if let Some(deviation) = deviation {
                batch.over[i] = true;
                let hangs = trace.trouble == Some(Trouble::Hangs) && ended == Some(i);
                self.look_closer(batch, i, way, deviation, hangs, progress)?;
            }
        }
        Ok(ended.unwrap_or(last) + 1)
    }

    /// Runs a program that differed again, alone.
    fn look_closer(
        &self,
        batch: &Batch,
        i: usize,
        way: Way,
        deviation: Deviation,
        hangs: bool,
        progress: &dyn Progress,
    ) -> std::io::Result<()> {
        let alone = [batch.operations[i].clone()];
        let native = &batch.native[i];
        let known =
            self.kinds.lock().unwrap_or_else(PoisonError::into_inner).contains_key(&deviation.kind);
        let (mut differ, mut runs) = (0, 0);
        let mut seen = None;
        // Seen again is enough for one of a known kind, or that takes long.
        let enough = |differ| differ > 0 && (known || hangs);
        while runs < AGAIN && !progress.stop() && !enough(differ) {
            let trace = self.place.run(&alone, 0, way, LONG_PATIENCE)?;
            runs += 1;
            if shrink::compare(&alone[0], native, &trace, 0).is_some() {
                differ += 1;
                seen = Some(trace);
            }
        }
        for _ in 0..if differ == 0 { 4 * AGAIN } else { AGAIN } {
            let again = self.place.run(&alone, 0, Way::Native, LONG_PATIENCE)?;
            if again.programs[0] != *native {
                self.report().unstable += 1;
                let number = batch.numbers[i];
                let what = shrink::compare(&alone[0], native, &again, 0)
                    .map_or_else(String::new, |d| d.what);
                eprintln!("program {number} is not stable natively: {what}");
                return Ok(());
            }
        }
        if hangs && differ == 0 {
            self.report().unconfirmed += 1;
            let number = batch.numbers[i];
            eprintln!("program {number} with {way} stood still once: {}", deviation.what);
            return Ok(());
        }
        let first_of_kind = {
            let mut kinds = self.kinds.lock().unwrap_or_else(PoisonError::into_inner);
            let count = kinds.entry(deviation.kind.clone()).or_default();
            *count += 1;
            *count == 1
        };
        let details = {
            let mut report = self.report();
            report.differences += 1;
            report.details.len()
        };
        if !first_of_kind {
            return Ok(());
        }
        let again = format!("{differ} of {runs}");
        let mut difference = Difference {
            program: batch.numbers[i],
            way: way.to_string(),
            what: deviation.what,
            again,
            steps: batch.programs[i].step_names().into_iter().map(String::from).collect(),
            operations: Vec::new(),
            reproducer: format!(
                "quaver selftest fuzz --seed {} --only {}",
                self.hunt.seed, batch.numbers[i]
            ),
        };
        if let Some(trace) = seen {
            difference.operations = shrink::listing(&alone[0], native, &trace.programs[0]);
            // One that differs always needs one run to show it.
            let runs = if differ == runs || hangs { 1 } else { (4 * runs).div_ceil(differ) };
            if details < SHRUNK
                && !progress.stop()
                && let Some((program, operations, native, trace)) =
                    shrink::shrink(&self.place, &batch.programs[i], way, runs)
            {
                difference.steps = program.step_names().into_iter().map(String::from).collect();
                difference.operations = shrink::listing(&operations, &native, &trace.programs[0]);
                if let Some(smaller) = shrink::compare(&operations, &native, &trace, 0) {
                    difference.what = smaller.what;
                }
            }
        }
        progress.found(&difference);
        self.report().details.push(difference);
        Ok(())
    }
}
