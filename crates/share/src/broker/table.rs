//! The table, as its only writer has it.

use super::Options;
use crate::door::ticks_per_us;
use crate::layout::{MAGIC, Table, VERSION};
use crate::map::{self, Mapping};
use rustix::io::Errno;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering::{Relaxed, Release};
use std::time::Duration;

/// The table. Others can read it only.
#[derive(Debug)]
pub(super) struct OwnTable {
    file: OwnedFd,
    mapping: Mapping,
    ticks_per_us: u32,
}

impl OwnTable {
    /// `cycle`: what it takes to give a core up and have it back.
    pub(super) fn new(options: &Options, cycle: Duration) -> Result<OwnTable, Errno> {
        let file = map::page("quaver-share-table")?;
        let mapping = Mapping::new(&file, true)?;
        map::seal(&file)?;
        let table = OwnTable { file, mapping, ticks_per_us: ticks_per_us() };
        let t = table.get();
        t.places.store(options.cpus.len() as u32, Relaxed);
        t.ticks_per_us.store(table.ticks_per_us, Relaxed);
        t.bound.store(table.ticks(options.bound), Relaxed);
        t.cycle.store(table.ticks(cycle), Relaxed);
        for (place, &cpu) in t.cpus.iter().zip(&options.cpus) {
            place.store(cpu as u32, Relaxed);
        }
        t.version.store(VERSION, Relaxed);
        t.magic.store(MAGIC, Release);
        Ok(table)
    }

    pub(super) fn get(&self) -> &Table {
        // SAFETY: a table consists of atomics.
        unsafe { self.mapping.cast() }
    }

    pub(super) fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// A time in ticks.
    pub(super) fn ticks(&self, time: Duration) -> u64 {
        (time.as_nanos() * u128::from(self.ticks_per_us) / 1000) as u64
    }

    /// Ticks in microseconds.
    pub(super) fn us(&self, ticks: u64) -> f64 {
        ticks as f64 / f64::from(self.ticks_per_us)
    }
}
