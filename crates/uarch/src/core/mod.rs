//! The timing model: an out-of-order core, one cycle at a time.

mod config;
mod parameters;
mod report;

pub use config::{Config, Mechanism, Source, When};
pub use parameters::{Parameters, SHIPPED};
pub use report::{Latency, Measured, Report, Stalls};

use crate::fault::Error;
use crate::machine::Machine;

/// A program on a core with timing.
pub struct Core {
    /// The program, its memory, and its kernel. Registers are those of the last retired
    /// instruction once [`Core::run`] has returned.
    pub machine: Machine,
}

impl Core {
    /// A core that has not begun.
    pub fn new(machine: Machine, config: &Config) -> Core {
        let _ = config;
        Core { machine }
    }

    /// Runs until the program ends.
    ///
    /// # Errors
    ///
    /// As [`Machine::run`].
    pub fn run(&mut self) -> Result<Report, Error> {
        Err(Error::Parameters("the timing model is not built yet".to_owned()))
    }
}

/// Runs a program twice: as `config` says, and without interrupts. `machine` makes one that is
/// ready to run; it is called for each.
///
/// # Errors
///
/// As [`Machine::run`].
pub fn measure(
    machine: impl Fn() -> Result<Machine, Error>,
    config: &Config,
) -> Result<Measured, Error> {
    let without = Config { mechanism: Mechanism::None, when: When::ByProgram, ..config.clone() };
    let baseline = Core::new(machine()?, &without).run()?;
    let run = Core::new(machine()?, config).run()?;
    Ok(Measured { baseline, run })
}
