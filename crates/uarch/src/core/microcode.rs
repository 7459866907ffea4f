//! Sequences of uops that the sequencer's memory holds: notification, delivery, UIRET, SENDUIPI.

use serde::{Deserialize, Serialize};

/// What a step of microcode does.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepOp {
    /// Computes.
    Alu,
    /// Loads what the instruction itself loads; the first one of them first.
    Load,
    /// Stores what the instruction itself stores; the first one of them first.
    Store,
    /// Loads from the UPID.
    LoadUpid,
    /// Stores to the UPID.
    StoreUpid,
    /// Reads the stack pointer and writes it.
    Stack,
    /// Waits for all before it; stops all after it.
    Serialize,
    /// The next instruction's address is known once it has executed.
    Jump,
}

/// A step, or several equal ones. Each depends on the one before it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// What it does.
    pub op: StepOp,
    /// How often.
    #[serde(default = "one")]
    pub count: u32,
    /// Cycles of a step that serialises.
    #[serde(default)]
    pub latency: u64,
    /// It serialises only because it writes UIF.
    #[serde(default)]
    pub flag: bool,
}

fn one() -> u32 {
    1
}
