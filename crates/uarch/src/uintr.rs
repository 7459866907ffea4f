//! User interrupts: the architecture of UPID, UITT, delivery and UIRET (Intel's manual, volume 3,
//! chapter "User interrupts"; xUI 3.2, 3.3).
//!
//! A UPID is 16 bytes: ON bit 0, SN bit 1, NV bits 23:16, NDST bits 63:32, PIR bits 127:64 (xUI
//! Table 1). An entry of the UITT is 16 bytes: valid bit 0, user vector bits 15:8, address of the
//! UPID bits 127:64.

use crate::cpu::{Cpu, flag};
use crate::fault::Fault;
pub use crate::mechanism::kb_timer::Timer;
use crate::memory::{Bus, TOP};
use crate::uop::reg;

/// UPID: a notification is outstanding.
pub const ON: u64 = 1;
/// UPID: senders must not notify.
pub const SN: u64 = 2;

/// The state that the kernel sets by MSRs, the user flag, and the timer.
#[derive(Clone, Default, Debug, PartialEq, Eq)]
pub struct Uintr {
    /// Interrupts may be delivered. STUI, CLUI, delivery and UIRET change it.
    pub uif: bool,
    /// UIRR: vectors that wait for delivery, a bit each.
    pub requests: u64,
    /// Address of the handler.
    pub handler: u64,
    /// Bytes below the stack pointer that delivery leaves alone; with bit 0: the stack to load.
    pub stack_adjust: u64,
    /// The vector that announces user interrupts.
    pub uinv: u8,
    /// Address of this thread's UPID; 0 if it has none.
    pub upid: u64,
    /// Address of the UITT; 0 if SENDUIPI is not enabled.
    pub uitt: u64,
    /// Index of the UITT's last entry.
    pub uitt_last: u64,
    /// xUI's timer.
    pub timer: Timer,
    /// Interrupts delivered.
    pub delivered: u64,
}

impl Uintr {
    /// Whether a delivery must happen before the next instruction.
    pub fn pending(&self) -> bool {
        self.uif && self.requests != 0
    }
}

fn load<B: Bus>(bus: &mut B, address: u64) -> Result<u64, Fault> {
    bus.load(address).map(u64::from_le_bytes)
}

/// What a SENDUIPI makes the local APIC send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Notification {
    /// APIC ID of the receiver (NDST).
    pub destination: u32,
    /// The vector (NV).
    pub vector: u8,
}

/// SENDUIPI: posts to the UPID that the entry names. Says whom to notify, if anyone.
///
/// # Errors
///
/// The table has no valid entry of this index, or a table is not mapped.
pub fn send<B: Bus>(cpu: &Cpu, bus: &mut B, index: u64) -> Result<Option<Notification>, Fault> {
    let state = &cpu.uintr;
    if state.uitt == 0 {
        return Err(Fault::Invalid);
    }
    if index > state.uitt_last {
        return Err(Fault::Protection("SENDUIPI with an index beyond the UITT"));
    }
    let entry = state.uitt + 16 * index;
    let (low, upid) = (load(bus, entry)?, load(bus, entry + 8)?);
    let vector = low >> 8 & 0xff;
    if low & 1 == 0 || vector > 63 || upid % 64 != 0 {
        return Err(Fault::Protection("SENDUIPI with an entry of the UITT that is not valid"));
    }
    let (mut header, posted) = (load(bus, upid)?, load(bus, upid + 8)?);
    bus.store(upid + 8, (posted | 1 << vector).to_le_bytes())?;
    if header & (ON | SN) != 0 {
        return Ok(None);
    }
    header |= ON;
    bus.store(upid, header.to_le_bytes())?;
    Ok(Some(Notification { destination: (header >> 32) as u32, vector: (header >> 16) as u8 }))
}

/// Notification processing: what was posted in the UPID becomes requests.
///
/// # Errors
///
/// The UPID is not mapped.
pub fn acknowledge<B: Bus>(cpu: &mut Cpu, bus: &mut B) -> Result<(), Fault> {
    let upid = cpu.uintr.upid;
    let header = load(bus, upid)?;
    bus.store(upid, (header & !ON).to_le_bytes())?;
    cpu.uintr.requests |= load(bus, upid + 8)?;
    bus.store(upid + 8, 0u64.to_le_bytes())
}

/// Delivery of the highest requested vector: pushes stack pointer, flags, address and vector, and
/// goes on in the handler with UIF clear.
///
/// # Errors
///
/// The stack cannot be written; nothing has changed.
pub fn deliver<B: Bus>(cpu: &mut Cpu, bus: &mut B) -> Result<(), Fault> {
    let vector = u64::from(63 - cpu.uintr.requests.leading_zeros());
    let old = cpu.rsp();
    let adjust = cpu.uintr.stack_adjust;
    let stack = if adjust & 1 == 1 { adjust - 1 } else { old.wrapping_sub(adjust) };
    let stack = (stack & !15).wrapping_sub(32);
    let frame = [vector, cpu.rip, cpu.flags, old];
    for (i, word) in frame.into_iter().enumerate().rev() {
        bus.store(stack.wrapping_add(8 * i as u64), word.to_le_bytes())?;
    }
    cpu.set(reg::RSP, 3, stack);
    cpu.rip = cpu.uintr.handler;
    cpu.uintr.requests &= !(1 << vector);
    cpu.uintr.uif = false;
    cpu.uintr.delivered += 1;
    Ok(())
}

/// UIRET: pops address, flags and stack pointer; the handler has removed the vector.
pub(crate) fn uiret<B: Bus>(cpu: &mut Cpu, bus: &mut B) -> Result<(), Fault> {
    let frame = cpu.rsp();
    let mut words = [0; 3];
    for (i, word) in words.iter_mut().enumerate() {
        *word = load(bus, frame.wrapping_add(8 * i as u64))?;
    }
    let [rip, flags, rsp] = words;
    if rip >= TOP {
        return Err(Fault::Protection("UIRET to an address outside that of programs"));
    }
    cpu.rip = rip;
    cpu.flags = cpu.flags & !flag::USER | flags & flag::USER;
    cpu.set(reg::RSP, 3, rsp);
    cpu.uintr.uif = true;
    Ok(())
}
