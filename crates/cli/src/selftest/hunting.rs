//! What the hunts for differing programs share: a line now and then, and how they end.

use std::io::IsTerminal;
use std::process::ExitCode;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::Context;
use serde::Serialize;

use crate::interrupt::Interrupt;
use crate::output::{self, Target};

/// Between two lines of a log.
const INTERVAL: Duration = Duration::from_secs(30);

/// A hunt that a person or a script has started.
pub(super) struct Hunting {
    interrupt: Interrupt,
    start: Instant,
    said: Mutex<Instant>,
    always: bool,
}

impl Hunting {
    /// From now on Ctrl-C and SIGTERM end it.
    pub(super) fn begin() -> anyhow::Result<Hunting> {
        let interrupt = Interrupt::install().context("cannot take over SIGINT and SIGTERM")?;
        let start = Instant::now();
        let always = std::io::stderr().is_terminal();
        Ok(Hunting { interrupt, start, said: Mutex::new(start), always })
    }

    /// Says what `line` makes of the seconds gone, if it is time to: always to a person, seldom to
    /// a log.
    pub(super) fn say(&self, line: impl FnOnce(u64) -> String) {
        let Ok(mut said) = self.said.lock() else { return };
        if self.always || said.elapsed() >= INTERVAL {
            *said = Instant::now();
            eprintln!("selftest: {}", line(self.start.elapsed().as_secs()));
        }
    }

    /// Has somebody ended it?
    pub(super) fn is_over(&self) -> bool {
        self.interrupt.raised().is_some()
    }

    /// Prints and writes the report. The exit code is 0 only if nothing differs.
    ///
    /// # Errors
    ///
    /// It cannot be written.
    pub(super) fn end(
        &self,
        report: &impl Serialize,
        text: &str,
        differs: bool,
        json: Option<&Target>,
    ) -> anyhow::Result<ExitCode> {
        if json != Some(&Target::Stdout) {
            output::print(text)?;
        }
        if let Some(target) = json {
            target.write_json(report)?;
        }
        Ok(match self.interrupt.raised() {
            _ if differs => ExitCode::FAILURE,
            Some(signal) => signal.exit_code().into(),
            None => ExitCode::SUCCESS,
        })
    }
}

/// How many programs run at a time.
pub(super) fn jobs() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from).min(4)
}
