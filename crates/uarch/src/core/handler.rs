//! The model's own handler, for programs that know nothing of interrupts: it counts, and returns.

use crate::fault::Error;
use crate::machine::Machine;
use crate::memory::{PAGE, Rights};
use crate::uop::reg;

/// Where it is; the page behind it holds the count.
const HANDLER: u64 = 0x7ffd_0000_0000;
/// The user vector of the model's interrupts.
pub const VECTOR: u8 = 1;

/// Whether an instruction is the handler's.
pub(super) fn contains(address: u64) -> bool {
    address / PAGE == HANDLER / PAGE
}

/// Registers the handler, and allows interrupts.
///
/// # Errors
///
/// The program already has a handler.
pub(super) fn install(machine: &mut Machine) -> Result<(), Error> {
    let code = [
        0x48, 0xff, 0x05, 0xf9, 0x0f, 0x00, 0x00, // inc qword [rip + 0xff9]: the count
        0x48, 0x83, 0xc4, 0x08, // add rsp, 8: the vector
        0xf3, 0x0f, 0x01, 0xec, // uiret
    ];
    machine.memory.map(HANDLER, PAGE, Rights::RX);
    machine.memory.map(HANDLER + PAGE, PAGE, Rights::RW);
    machine.memory.poke(HANDLER, &code);
    let registers = machine.cpu.r;
    for (call, a) in [(471, HANDLER), (473, u64::from(VECTOR)), (0x7855_0001, VECTOR.into())] {
        machine.cpu.r[usize::from(reg::RAX)] = call;
        machine.cpu.r[usize::from(reg::RDI)] = a;
        machine.cpu.r[usize::from(reg::RSI)] = 0;
        match machine.kernel.call(&mut machine.cpu, &mut machine.memory, 0) {
            crate::kernel::Outcome::Done(value) if value >= 0 => {}
            _ => {
                return Err(Error::Program(
                    "the program has a handler of its own already; leave the timer to it".into(),
                ));
            }
        }
    }
    machine.cpu.r = registers;
    machine.cpu.uintr.uif = true;
    Ok(())
}

/// How often the handler has run.
pub(super) fn count(machine: &Machine) -> u64 {
    let mut bytes = [0; 8];
    machine.memory.peek(HANDLER + PAGE, &mut bytes);
    u64::from_le_bytes(bytes)
}
