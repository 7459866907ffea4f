//! One job in a process of its own: what crashes or hangs is a difference as well, and disturbs no
//! other.
//!
//! The child (`quaver selftest --child JOB`) writes lines of JSON to its standard output: what it
//! has counted so far, every second or so where that makes sense, and what came of the job at the
//! end. One that says nothing for too long is taken to hang.

use std::io::{BufRead, BufReader, Read, Seek};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use quaver_selftest::{Counts, Outcome, boundaries, torture};
use serde::{Deserialize, Serialize};

use super::Job;
use crate::doctor::detect::cpus::allowed;
use crate::interrupt::Interrupt;
use crate::output;
use crate::process;

/// A line of the child's.
#[derive(Debug, Serialize, Deserialize)]
enum Line {
    SoFar(Counts),
    Done(Outcome),
}

/// Between two lines, at least.
const INTERVAL: Duration = Duration::from_secs(1);

/// Between two looks whether the user wants it to end.
const LOOK: Duration = Duration::from_millis(200);

/// For the child to end after its last line.
const FAREWELL: Duration = Duration::from_secs(60);

/// What the child does.
///
/// # Errors
///
/// `job` is no job, or nobody reads the answer.
pub(super) fn be_one(job: &str) -> anyhow::Result<()> {
    let job: Job = serde_json::from_str(job).context("the job is no valid JSON")?;
    let say = |line: &Line| output::print(&(serde_json::to_string(line)? + "\n"));
    let mut last = Instant::now();
    let mut so_far = |counts: &Counts| {
        if last.elapsed() >= INTERVAL {
            last = Instant::now();
            // A parent that has gone away has killed this process.
            let _ = say(&Line::SoFar(counts.clone()));
        }
    };
    say(&Line::Done(match job {
        Job::Boundaries(job) => boundaries::run(&job),
        Job::Torture(job) => torture::run(&job, &mut so_far),
    }))
}

/// Does a job in a child; `watch` is told what has been counted so far. What ends in any other way
/// than with an answer is a difference, unless the user has ended it.
pub(super) fn run(job: &Job, interrupt: &Interrupt, watch: &mut dyn FnMut(&Counts)) -> Outcome {
    let mut so_far = Counts::default();
    let mut watch = |counts: &Counts| {
        so_far = counts.clone();
        watch(counts);
    };
    try_run(job, &|| interrupt.raised().is_some(), &mut watch).unwrap_or_else(|error| {
        let (name, workers) = job.name();
        let mut outcome = Outcome::new(name, workers);
        if interrupt.raised().is_some() {
            outcome.counts = so_far;
            outcome.note = Some("interrupted".into());
        } else {
            outcome.differ(format!("{error:#}"), job.command());
        }
        outcome
    })
}

fn try_run(
    job: &Job,
    stop: &dyn Fn() -> bool,
    watch: &mut dyn FnMut(&Counts),
) -> anyhow::Result<Outcome> {
    let mut err = tempfile::tempfile()?;
    // Not by its name: a file of that name may have been replaced since this program was started.
    let mut command = Command::new("/proc/self/exe");
    command.args(["selftest", "--child", &serde_json::to_string(job)?]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(err.try_clone()?);
    let mut child = process::spawn(&mut command, &allowed()).context("cannot start a process")?;
    let answer = listen(&lines(&mut child), job.patience(), stop, watch);
    // One that hangs is killed at once.
    let patience = if answer.is_err() { Duration::ZERO } else { FAREWELL };
    let status = process::wait(child, patience)?;
    let mut complaint = String::new();
    err.rewind()?;
    err.read_to_string(&mut complaint)?;
    let mut words: Vec<_> =
        complaint.lines().filter(|l| !l.trim().is_empty()).rev().take(3).collect();
    words.reverse();
    let words = words.join("; ");
    match (answer, status) {
        (Err(error), _) => bail!("{error:#}; {words}"),
        (Ok(_), None) => bail!("it does not end; {words}"),
        (Ok(_), Some(status)) if !status.success() => bail!("it crashed: {status}; {words}"),
        (Ok(answer), Some(_)) => answer.with_context(|| format!("it gave no answer; {words}")),
    }
}

/// The child's lines, as they come.
fn lines(child: &mut Child) -> Receiver<String> {
    let (send, receive) = mpsc::channel();
    if let Some(out) = child.stdout.take() {
        std::thread::spawn(move || {
            for line in BufReader::new(out).lines().map_while(Result::ok) {
                if send.send(line).is_err() {
                    break;
                }
            }
        });
    }
    receive
}

/// Reads lines to the end. An error if there is none for too long, or it is to stop.
fn listen(
    lines: &Receiver<String>,
    patience: Duration,
    stop: &dyn Fn() -> bool,
    watch: &mut dyn FnMut(&Counts),
) -> anyhow::Result<Option<Outcome>> {
    let (mut answer, mut last) = (None, Instant::now());
    loop {
        match lines.recv_timeout(patience.min(LOOK)) {
            Ok(line) => {
                last = Instant::now();
                match serde_json::from_str(&line).context("its answer cannot be read")? {
                    Line::SoFar(counts) => watch(&counts),
                    Line::Done(outcome) => answer = Some(outcome),
                }
            }
            Err(RecvTimeoutError::Disconnected) => return Ok(answer),
            Err(RecvTimeoutError::Timeout) if stop() => bail!("stopped"),
            Err(RecvTimeoutError::Timeout) if last.elapsed() >= patience => {
                bail!("it hangs: no word from it for {patience:?}, killed")
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hear(said: &[&str], ends: bool, stop: bool) -> (anyhow::Result<Option<Outcome>>, Vec<u64>) {
        let (send, receive) = mpsc::channel();
        said.iter().for_each(|line| send.send(line.to_string()).unwrap());
        let open = (!ends).then_some(send);
        let mut seen = Vec::new();
        let (patience, stop) = (Duration::from_millis(20), || stop);
        let answer = listen(&receive, patience, &stop, &mut |c| seen.push(c.preemptions));
        drop(open);
        (answer, seen)
    }

    #[test]
    fn a_child_is_heard_to_its_end() {
        let so_far = Line::SoFar(Counts { preemptions: 7, ..Counts::default() });
        let so_far = serde_json::to_string(&so_far).unwrap();
        let done = serde_json::to_string(&Line::Done(Outcome::new("x", 1))).unwrap();
        let (answer, seen) = hear(&[&so_far, &so_far, &done], true, false);
        assert_eq!((answer.unwrap(), seen), (Some(Outcome::new("x", 1)), vec![7, 7]));
        assert_eq!(hear(&[&so_far], true, false).0.unwrap(), None);
        let error = |said: &str, ends, stop| hear(&[said], ends, stop).0.unwrap_err().to_string();
        assert!(error("nonsense", true, false).contains("cannot be read"));
        assert!(error(&so_far, false, false).contains("hangs"));
        assert!(error(&so_far, false, true).contains("stopped"));
    }
}
