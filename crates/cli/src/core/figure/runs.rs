//! Runs of the model for figures: programs as files, what they print, devices.

use std::ops::Range;

use anyhow::{Context, Result, ensure};
use quaver_uarch::Machine;
use quaver_uarch::core::{Config, Core, Device, Port, Report as Run};
use quaver_uarch::kernel::Output;
use quaver_uarch::workload::{Points, Size, Workload};

use super::super::programs::workload_cache;

/// A program of the figures, as a file's content. `more` are definitions: `-DNODES=64`.
///
/// # Errors
///
/// It cannot be built or read.
pub fn program(of: &Workload, size: Size, points: Points, more: &[&str]) -> Result<Vec<u8>> {
    let path = of.build_with(size, points, more, &workload_cache())?;
    std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))
}

/// Where a program has a symbol.
///
/// # Errors
///
/// It has none of this name.
pub fn symbol(file: &[u8], name: &str) -> Result<u64> {
    quaver_uarch::elf::symbol(file, name).with_context(|| format!("the program has no {name}"))
}

/// A core that is ready to run a program with these arguments.
///
/// # Errors
///
/// The file is no program for the model.
pub fn core(file: &[u8], arguments: &[&str], config: &Config) -> Result<Core> {
    let words = [&["program"], arguments].concat();
    Ok(Core::new(Machine::with_program(file, &words)?, config))
}

/// Runs it. Gives what it prints: lines of a name and a number.
///
/// # Errors
///
/// It cannot run, or its status says that something went wrong.
pub fn finish(mut core: Core) -> Result<(Run, Vec<(String, u64)>)> {
    let run = core.run()?;
    ensure!(run.status == 0, "the program has ended with status {}", run.status);
    let Output::Keep(bytes) = &core.machine.kernel.output else { return Ok((run, Vec::new())) };
    let text = String::from_utf8_lossy(bytes);
    let lines = text.lines().filter_map(|line| {
        let (name, value) = line.rsplit_once(' ')?;
        Some((name.to_owned(), value.parse().ok()?))
    });
    let lines = lines.collect();
    Ok((run, lines))
}

/// A line of what a program has printed.
///
/// # Errors
///
/// It has not printed it.
pub fn said(lines: &[(String, u64)], name: &str) -> Result<u64> {
    let line = lines.iter().find(|(known, _)| known == name);
    Ok(line.with_context(|| format!("the program does not say {name}"))?.1)
}

/// Something that happens every so many cycles, from the moment when the program rings.
pub struct Ticker<F> {
    /// The doorbell; 0: from the begin.
    pub door: u64,
    /// Cycles between two ticks.
    pub period: u64,
    /// What happens.
    pub tick: F,
    next: u64,
}

impl<F: FnMut(&mut Port<'_>) + Send> Ticker<F> {
    /// One that waits for the doorbell at an address; 0: it does not wait.
    pub fn new(door: u64, period: u64, tick: F) -> Ticker<F> {
        let next = if door == 0 { period } else { u64::MAX };
        Ticker { door, period, tick, next }
    }
}

impl<F: FnMut(&mut Port<'_>) + Send> Device for Ticker<F> {
    fn next(&self) -> u64 {
        self.next
    }

    fn act(&mut self, cycle: u64, port: &mut Port<'_>) {
        self.next = cycle + self.period;
        (self.tick)(port);
    }

    fn doorbell(&self) -> Range<u64> {
        self.door..self.door + u64::from(self.door != 0)
    }

    fn rung(&mut self, cycle: u64, _: u64, _: &mut Port<'_>) {
        self.next = cycle + self.period;
    }
}
