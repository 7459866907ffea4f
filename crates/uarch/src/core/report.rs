//! What a run of the timing model has found.

use serde::{Deserialize, Serialize};

use super::timeline::Steps;

/// Cycles in which no uop was renamed, by cause.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Stalls {
    /// Fetch waits for instruction bytes.
    pub instruction_cache: u64,
    /// A branch was predicted wrongly: the front end fills again.
    pub mispredict: u64,
    /// An interrupt: squash, entry into microcode, filling again.
    pub interrupt: u64,
    /// A uop that serialises is executed.
    pub serialize: u64,
    /// The front end delivers nothing for another reason.
    pub front_end: u64,
    /// The reorder buffer is full.
    pub reorder_buffer: u64,
    /// The scheduler is full.
    pub scheduler: u64,
    /// The load queue is full.
    pub load_queue: u64,
    /// The store queue is full.
    pub store_queue: u64,
    /// No physical register is free.
    pub registers: u64,
}

/// Cycles from an interrupt's arrival at the core.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Latency {
    /// Until its first uop is fetched: mean.
    pub fetched: f64,
    /// Until the handler's first instruction retires: mean.
    pub handler: f64,
    /// The same: the longest.
    pub handler_max: u64,
}

/// One run.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Report {
    /// The program's status.
    pub status: u8,
    /// Until the program's end.
    pub cycles: u64,
    /// Retired instructions of the program, without those of the model's own handler.
    pub instructions: u64,
    /// Retired instructions of the model's own handler.
    pub handler_instructions: u64,
    /// Interrupts delivered.
    pub interrupts: u64,
    /// Deliveries that were fetched, squashed by a wrong branch before them, and fetched again.
    pub reinjected: u64,
    /// Retired branches.
    pub branches: u64,
    /// Of these, predicted wrongly.
    pub mispredicts: u64,
    /// Retired uops.
    pub uops: u64,
    /// Uops that were fetched and squashed.
    pub squashed: u64,
    /// Of these, by interrupts.
    pub squashed_by_interrupts: u64,
    /// Loads that retired, by where they found their data: first-level cache or a store.
    pub loads: u64,
    /// Misses of the first-level data cache.
    pub l1_misses: u64,
    /// Misses of the second-level cache.
    pub l2_misses: u64,
    /// Cycles without renaming.
    pub stalls: Stalls,
    /// How long interrupts took.
    pub latency: Latency,
    /// What they spent it on.
    pub steps: Steps,
}

/// A run with interrupts beside the same one without.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Measured {
    /// Without interrupts.
    pub baseline: Report,
    /// With them.
    pub run: Report,
}

impl Measured {
    /// Cycles that an interrupt adds to the program; nothing if there was none.
    pub fn cycles_per_interrupt(&self) -> Option<f64> {
        let more = self.run.cycles as f64 - self.baseline.cycles as f64;
        (self.run.interrupts > 0).then(|| more / self.run.interrupts as f64)
    }

    /// How much longer the program takes: 0.05 is 5 %.
    pub fn slowdown(&self) -> f64 {
        self.run.cycles as f64 / self.baseline.cycles.max(1) as f64 - 1.0
    }
}
