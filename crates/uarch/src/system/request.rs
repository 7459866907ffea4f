//! System calls that a scheduler serves: threads, sleep, signals of a timer, forwarded devices.

use crate::cpu::Cpu;
use crate::kernel::{Clock, Threads};
use crate::memory::Memory;
use crate::uop::reg;

/// What a system call asks the scheduler for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Request {
    /// A thread with this stack pointer, and base of FS.
    Clone { stack: u64, tls: Option<u64> },
    /// The thread ends, and with the last one the program.
    Exit { status: u8 },
    /// Another thread may run.
    Yield,
    /// It sleeps until this cycle; `u64::MAX`: until a signal.
    Sleep { until: u64 },
    /// It goes on on another core.
    Move { core: usize },
    /// An alarm in so many cycles, and then in periods; 0: none.
    Alarm { first: u64, period: u64 },
    /// The handler of a signal has returned.
    SignalReturn,
    /// Interrupts of a device, by the core's vector, come as a user vector.
    Forward { vector: u8, user: u8 },
}

/// The signal of an alarm.
pub(crate) const SIGALRM: usize = 14;
/// The lowest vector of devices: those below are the processor's.
pub const FIRST_DEVICE: u64 = 32;

const EFAULT: i64 = -14;
const EINVAL: i64 = -22;
/// CLONE_VM, CLONE_THREAD; CLONE_SETTLS.
const THREAD: u64 = 0x100 | 0x10000;
const SET_TLS: u64 = 0x80000;

impl Threads {
    pub(crate) fn new() -> Threads {
        Threads { thread: 0, core: 0, asked: None, handlers: [(0, 0); 65] }
    }

    /// Serves the call that the registers describe, if it is one of the scheduler's: its result.
    pub(crate) fn call(
        &mut self,
        cpu: &Cpu,
        memory: &mut Memory,
        now: u64,
        clock: Clock,
    ) -> Option<i64> {
        let [a, b, c, r8] = [reg::RDI, reg::RSI, reg::RDX, 8].map(|r| cpu.reg(r));
        let request = match cpu.reg(reg::RAX) {
            13 => return Some(self.action(memory, a, b)),
            15 => Request::SignalReturn,
            24 => Request::Yield,
            34 => Request::Sleep { until: u64::MAX },
            35 => match times(memory, a) {
                Some([seconds, ns]) if ns < 1_000_000_000 => {
                    let ns = seconds.saturating_mul(1_000_000_000).saturating_add(ns);
                    Request::Sleep { until: now.saturating_add(clock.cycles(ns)) }
                }
                Some(_) => return Some(EINVAL),
                None => return Some(EFAULT),
            },
            38 if a != 0 => return Some(EINVAL),
            38 => {
                let cycles = |[seconds, us]: [u64; 2]| {
                    let us = seconds.saturating_mul(1_000_000).saturating_add(us);
                    clock.cycles(us.saturating_mul(1000))
                };
                let (Some(period), Some(first)) = (times(memory, b), times(memory, b + 16)) else {
                    return Some(EFAULT);
                };
                Request::Alarm { first: cycles(first), period: cycles(period) }
            }
            56 if a & THREAD != THREAD || b == 0 => return Some(EINVAL),
            56 => Request::Clone { stack: b, tls: (a & SET_TLS != 0).then_some(r8) },
            60 => Request::Exit { status: a as u8 },
            186 => return Some(self.thread as i64 + 1),
            203 => {
                let mut mask = [0; 8];
                if !memory.peek(c, &mut mask[..b.min(8) as usize]) {
                    return Some(EFAULT);
                }
                match u64::from_le_bytes(mask) {
                    0 => return Some(EINVAL),
                    mask => Request::Move { core: mask.trailing_zeros() as usize },
                }
            }
            309 => {
                let core = (self.core as u32).to_le_bytes();
                return Some(if a == 0 || memory.poke(a, &core) { 0 } else { EFAULT });
            }
            0x7855_0003 if !(FIRST_DEVICE..256).contains(&a) || b > 63 => return Some(EINVAL),
            0x7855_0003 => Request::Forward { vector: a as u8, user: b as u8 },
            _ => return None,
        };
        self.asked = Some(request);
        Some(0)
    }

    /// rt_sigaction: the handler and where it returns to.
    fn action(&mut self, memory: &Memory, signal: u64, action: u64) -> i64 {
        let Some(known) = self.handlers.get_mut(signal as usize).filter(|_| signal != 0) else {
            return EINVAL;
        };
        if action != 0 {
            let mut words = [0; 24];
            if !memory.peek(action, &mut words) {
                return EFAULT;
            }
            let word =
                |i: usize| u64::from_le_bytes(words[8 * i..8 * i + 8].try_into().expect("eight"));
            *known = (word(0), word(2));
        }
        0
    }
}

/// Two words: seconds and parts of one.
fn times(memory: &Memory, address: u64) -> Option<[u64; 2]> {
    let mut bytes = [0; 16];
    memory.peek(address, &mut bytes).then(|| {
        [0, 8].map(|i| u64::from_le_bytes(bytes[i..i + 8].try_into().expect("eight bytes")))
    })
}
