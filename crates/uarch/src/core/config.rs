//! What a run of the timing model is asked for.

use serde::{Deserialize, Serialize};

use super::Parameters;

/// How an interrupt enters the pipeline. README.md compares them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mechanism {
    /// It does not: nothing is delivered, and no time is spent on it. The baseline.
    #[default]
    None,
    /// All work in flight is squashed first: UIPI as shipped (xUI 3.5).
    Flush,
    /// All work in flight retires first (xUI 3.5; what gem5 does).
    Drain,
    /// It joins the stream where fetch is (xUI 4.2).
    Tracked,
    /// The kernel sends a signal: a flush, and the kernel's cost as a parameter (xUI 2).
    Signal,
}

/// Who interrupts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// The core's own timer: delivery alone (xUI 4.3).
    #[default]
    KbTimer,
    /// SENDUIPI on a timer core: notification processing reads the UPID, then delivery (xUI 3.3).
    Uipi,
    /// A device, forwarded by the local APIC: delivery alone (xUI 4.5).
    Device,
}

/// When the source interrupts. The model then installs a handler of its own, which counts; the
/// program must not register one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum When {
    /// Only if the program itself asks: by `set_timer` or SENDUIPI.
    #[default]
    ByProgram,
    /// Each time that this many cycles have passed.
    Every(u64),
    /// Once, in this cycle.
    At(u64),
    /// When the device beside the core does ([`super::Device`]).
    ByDevice,
}

/// A run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Config {
    /// The core's parameters.
    pub parameters: Parameters,
    /// How interrupts enter the pipeline.
    pub mechanism: Mechanism,
    /// Who interrupts.
    pub source: Source,
    /// When.
    pub when: When,
    /// Interrupts are delivered before instructions with the safepoint prefix only (xUI 4.4).
    pub safepoints: bool,
    /// Retired instructions after which the program counts as an endless loop.
    pub limit: u64,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            parameters: Parameters::default(),
            mechanism: Mechanism::None,
            source: Source::KbTimer,
            when: When::ByProgram,
            safepoints: false,
            limit: 1_000_000_000,
        }
    }
}
