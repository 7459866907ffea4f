//! The kernel's part in user interrupts: what it does with the descriptors of a thread that leaves
//! a core or comes to one (xUI 3.2, 4.5), and with signals.

use serde::Serialize;

use super::request::SIGALRM;
use crate::cpu::Cpu;
use crate::kernel::{Threads, dupid};
use crate::memory::Memory;
use crate::uintr::{ON, SN};
use crate::uop::reg;

/// How often slow paths were taken on a core.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Slow {
    /// Notifications that were sent from here.
    pub notifications: u64,
    /// Threads that came here from another core.
    pub migrations: u64,
    /// Notifications for a thread that no longer ran here.
    pub stale: u64,
    /// Interrupts that had been posted to a thread while it did not run, and that the kernel has
    /// sent to itself for it.
    pub reposted: u64,
    /// Interrupts of devices that the kernel has kept for their thread.
    pub kept: u64,
    /// Timers that expired while their thread did not run.
    pub late_timers: u64,
    /// Interrupts that the kernel took.
    pub traps: u64,
    /// Signals of alarms.
    pub signals: u64,
}

fn words(memory: &Memory, address: u64) -> Option<[u64; 2]> {
    let mut bytes = [0; 16];
    (address != 0 && memory.peek(address, &mut bytes)).then(|| {
        [0, 8].map(|i| u64::from_le_bytes(bytes[i..i + 8].try_into().expect("eight bytes")))
    })
}

fn write(memory: &mut Memory, address: u64, words: [u64; 2]) {
    memory.poke(address, &words.map(u64::to_le_bytes).concat());
}

/// The thread leaves its core: senders must not notify it.
pub(super) fn suspend(memory: &mut Memory, upid: u64) {
    if let Some([header, posted]) = words(memory, upid) {
        write(memory, upid, [header | SN, posted]);
    }
}

/// The thread comes to a core: notifications go there. Says whether something was posted meanwhile:
/// the kernel must notify the core itself.
pub(super) fn resume(memory: &mut Memory, upid: u64, core: usize) -> bool {
    let Some([header, posted]) = words(memory, upid) else { return false };
    let header = header & 0xffff_ffff & !(SN | ON) | (core as u64) << 32;
    write(memory, upid, [header | if posted == 0 { 0 } else { ON }, posted]);
    posted != 0
}

/// Keeps a device's interrupt for a thread.
pub(super) fn keep(memory: &mut Memory, thread: usize, user: u8) {
    let address = dupid(thread);
    if let Some([header, posted]) = words(memory, address) {
        write(memory, address, [header | ON, posted | 1 << user]);
    }
}

/// What was kept for a thread that comes to a core.
pub(super) fn kept(memory: &mut Memory, thread: usize) -> u64 {
    let address = dupid(thread);
    let Some([_, posted]) = words(memory, address) else { return 0 };
    if posted != 0 {
        write(memory, address, [0, 0]);
    }
    posted
}

/// Sends the signal of an alarm: the handler is next, and returns to where it asked for. False if
/// there is no handler, or no stack.
pub(super) fn signal(threads: &Threads, memory: &mut Memory, cpu: &mut Cpu) -> bool {
    let (handler, restorer) = threads.handlers[SIGALRM];
    // Below the red zone, as after a call.
    let stack = (cpu.rsp().wrapping_sub(128) & !15).wrapping_sub(8);
    if handler < 2 || !memory.poke(stack, &restorer.to_le_bytes()) {
        return false;
    }
    cpu.set(reg::RSP, 3, stack);
    cpu.set(reg::RDI, 3, SIGALRM as u64);
    cpu.rip = handler;
    true
}
