//! Runs a static program on the model and says how fast: for those who work on this crate.
//!
//! `cargo run -p quaver-uarch --profile fast --example run -- PROGRAM`

use std::time::Instant;

use quaver_uarch::Machine;
use quaver_uarch::kernel::Output;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let program = std::env::args().nth(1).ok_or("which program?")?;
    let mut machine = Machine::with_program(&std::fs::read(&program)?, &[&program])?;
    machine.kernel.output = Output::Echo;
    let begin = Instant::now();
    let status = machine.run(u64::MAX)?;
    let (count, seconds) = (machine.instructions(), begin.elapsed().as_secs_f64());
    eprintln!("status {status}, {count} instructions, {:.1} MIPS", count as f64 / seconds / 1e6);
    Ok(())
}
