//! The few system calls that the model serves. README.md lists them.

use std::io::Write;

use crate::cpu::Cpu;
use crate::memory::{Memory, PAGE, Rights};
use crate::system::request::Request;
use crate::uop::reg;

/// Where the tables are: UPIDs, with 64 bytes for each thread, from the next page on the UITT, and
/// behind it DUPIDs. A kernel would hide them from programs; this one does not.
pub const TABLES: u64 = 0x7ffe_0000_0000;
const UITT: u64 = TABLES + PAGE;
/// Bytes of the UITT.
const UITT_SIZE: u64 = 16 * 64 * THREADS as u64;
const DUPIDS: u64 = UITT + UITT_SIZE;
/// Threads that may take user interrupts; each has 64 entries of the UITT.
pub(crate) const THREADS: usize = 64;
/// The vector that announces user interrupts.
pub(crate) const UINV: u8 = 0xec;
/// Bytes below the stack pointer that belong to the interrupted function.
const RED_ZONE: u64 = 128;
/// File descriptors of `uintr_create_fd` begin here.
const FIRST_FD: u64 = 1000;
/// Where `mmap` begins.
const MAPPINGS: u64 = 0x7000_0000_0000;
/// The most that a program may map.
const LARGEST: u64 = 8 << 30;

const ENOENT: i64 = -2;
const EBADF: i64 = -9;
const ENOMEM: i64 = -12;
const EFAULT: i64 = -14;
const EBUSY: i64 = -16;
const EINVAL: i64 = -22;
const ENOTTY: i64 = -25;
const ENOSYS: i64 = -38;

/// How fast time-stamp counters run, in cycles and nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Clock {
    /// Cycles of a second.
    pub(crate) frequency: u64,
}

impl Default for Clock {
    /// Without a timing model: the paper's 2 GHz.
    fn default() -> Clock {
        Clock { frequency: 2_000_000_000 }
    }
}

impl Clock {
    /// Nanoseconds that have passed after so many cycles.
    pub(crate) fn ns(self, cycles: u64) -> u64 {
        let ns = u128::from(cycles) * 1_000_000_000 / u128::from(self.frequency);
        u64::try_from(ns).unwrap_or(u64::MAX)
    }

    /// Cycles until so many nanoseconds have passed.
    pub(crate) fn cycles(self, ns: u64) -> u64 {
        let cycles = (u128::from(ns) * u128::from(self.frequency)).div_ceil(1_000_000_000);
        u64::try_from(cycles).unwrap_or(u64::MAX)
    }
}

/// Where a program's output goes.
#[derive(Debug)]
pub enum Output {
    /// To standard output and standard error.
    Echo,
    /// Here.
    Keep(Vec<u8>),
}

/// What became of a call.
pub enum Outcome {
    /// It returns this.
    Done(i64),
    /// The program ends.
    Exit(u8),
    /// It is not served.
    Unknown(u64),
}

/// The state of the few things that calls change.
#[derive(Debug)]
pub struct Kernel {
    /// Where the program writes to.
    pub output: Output,
    /// What turns the time-stamp counter into time.
    pub(crate) clock: Clock,
    first_break: u64,
    current_break: u64,
    next_mapping: u64,
    /// Vectors with a file descriptor, by thread.
    vectors: [u64; THREADS],
    /// If there are threads: what a scheduler knows.
    pub(crate) threads: Option<Threads>,
}

/// Where the caller of a system call is, and what it wants of the scheduler.
#[derive(Debug)]
pub(crate) struct Threads {
    /// The calling thread, and the core on which it runs.
    pub(crate) thread: usize,
    pub(crate) core: usize,
    /// What a call asks for; it returns 0 unless the scheduler sets another result.
    pub(crate) asked: Option<Request>,
    /// The handlers of signals: their address, and where they return to.
    pub(crate) handlers: [(u64, u64); 65],
}

impl Kernel {
    /// A kernel for a program whose data ends at `end`.
    pub fn new(end: u64) -> Kernel {
        Kernel {
            output: Output::Keep(Vec::new()),
            clock: Clock::default(),
            first_break: end,
            current_break: end,
            next_mapping: MAPPINGS,
            vectors: [0; THREADS],
            threads: None,
        }
    }

    /// Serves the call that the registers describe. `now` is the time-stamp counter.
    pub fn call(&mut self, cpu: &mut Cpu, memory: &mut Memory, now: u64) -> Outcome {
        let number = cpu.reg(reg::RAX);
        let [a, b, c] = [reg::RDI, reg::RSI, reg::RDX].map(|r| cpu.reg(r));
        let (flags, r8) = (cpu.reg(10), cpu.reg(8));
        if let Some(threads) = &mut self.threads
            && let Some(done) = threads.call(cpu, memory, now, self.clock)
        {
            return Outcome::Done(done);
        }
        Outcome::Done(match number {
            1 => self.write(memory, a, b, c),
            // poll: files are as they are. rt_sigaction, rt_sigprocmask, sigaltstack: nobody sends
            // signals
            7 | 13 | 14 | 131 => 0,
            // fstat, lseek, newfstatat: there are no files
            5 | 8 | 262 => EBADF,
            9 => self.map(memory, a, b, c, flags, r8),
            10 => {
                if memory.protect(a, b, rights(c)) {
                    0
                } else {
                    ENOMEM
                }
            }
            11 => {
                memory.unmap(a, b);
                0
            }
            12 => self.move_break(memory, a) as i64,
            16 => ENOTTY,
            24 | 273 => 0,
            39 | 186 | 218 => 1,
            60 | 231 => return Outcome::Exit(a as u8),
            // readlink, openat, readlinkat
            89 | 257 | 267 => ENOENT,
            158 => match a {
                0x1001 | 0x1002 => {
                    cpu.set(if a == 0x1002 { reg::FS } else { reg::GS }, 3, b);
                    0
                }
                _ => EINVAL,
            },
            228 => {
                let ns = self.clock.ns(now);
                let time = [ns / 1_000_000_000, ns % 1_000_000_000].map(u64::to_le_bytes).concat();
                if memory.poke(b, &time) { 0 } else { EFAULT }
            }
            // sysinfo, sched_getaffinity, prlimit64, rseq
            99 | 204 | 302 | 334 => ENOSYS,
            318 => {
                let bytes: Vec<u8> = (0..b.min(256)).map(|i| (i * 37 + 11) as u8).collect();
                if memory.poke(a, &bytes) { bytes.len() as i64 } else { EFAULT }
            }
            471..=475 | 0x7855_0001 | 0x7855_0002 => self.interrupts(cpu, memory, number, a, b),
            _ => return Outcome::Unknown(number),
        })
    }

    fn write(&mut self, memory: &Memory, fd: u64, address: u64, length: u64) -> i64 {
        if fd != 1 && fd != 2 {
            return EBADF;
        }
        let mut bytes = vec![0; length.min(1 << 20) as usize];
        if !memory.peek(address, &mut bytes) {
            return EFAULT;
        }
        match &mut self.output {
            Output::Keep(kept) => kept.extend_from_slice(&bytes),
            // Nobody to tell if it cannot be written.
            Output::Echo if fd == 1 => drop(std::io::stdout().write_all(&bytes)),
            Output::Echo => drop(std::io::stderr().write_all(&bytes)),
        }
        bytes.len() as i64
    }

    fn map(
        &mut self,
        memory: &mut Memory,
        at: u64,
        length: u64,
        protection: u64,
        flags: u64,
        fd: u64,
    ) -> i64 {
        const FIXED: u64 = 0x10;
        const ANONYMOUS: u64 = 0x20;
        let length = length.div_ceil(PAGE) * PAGE;
        if flags & ANONYMOUS == 0 || length == 0 {
            return if fd as i32 == -1 { EINVAL } else { EBADF };
        }
        if memory.size() + length > LARGEST {
            return ENOMEM;
        }
        let at = if flags & FIXED != 0 {
            at
        } else {
            let at = self.next_mapping;
            self.next_mapping += length + PAGE;
            at
        };
        memory.map(at, length, rights(protection));
        at as i64
    }

    fn move_break(&mut self, memory: &mut Memory, to: u64) -> u64 {
        if to < self.first_break || to - self.first_break > LARGEST {
            return self.current_break;
        }
        let (old, new) = (self.current_break.div_ceil(PAGE) * PAGE, to.div_ceil(PAGE) * PAGE);
        if new > old {
            memory.map(old, new - old, Rights::RW);
        } else {
            memory.unmap(new, old - new);
        }
        self.current_break = to;
        to
    }

    /// The calls that set up user interrupts.
    fn interrupts(
        &mut self,
        cpu: &mut Cpu,
        memory: &mut Memory,
        number: u64,
        a: u64,
        flags: u64,
    ) -> i64 {
        let (thread, core) = self.threads.as_ref().map_or((0, 0), |t| (t.thread, t.core));
        match number {
            471 if flags != 0 || a == 0 => EINVAL,
            471 if cpu.uintr.upid != 0 => EBUSY,
            471 => {
                let upid = upid(thread);
                let mut old = [0; 8];
                if !memory.peek(upid, &mut old) {
                    memory.map(TABLES, PAGE, Rights::RW);
                    memory.map(DUPIDS, PAGE, Rights::RW);
                }
                let header = u64::from(UINV) << 16 | (core as u64) << 32;
                memory.poke(upid, &[header, 0].map(u64::to_le_bytes).concat());
                cpu.uintr.handler = a;
                cpu.uintr.stack_adjust = RED_ZONE;
                cpu.uintr.uinv = UINV;
                cpu.uintr.upid = upid;
                0
            }
            472 if cpu.uintr.upid == 0 => EINVAL,
            472 => {
                (cpu.uintr.upid, cpu.uintr.handler, cpu.uintr.uif) = (0, 0, false);
                self.vectors[thread] = 0;
                0
            }
            473 if a > 63 || cpu.uintr.upid == 0 => EINVAL,
            473 if self.vectors[thread] >> a & 1 == 1 => EBUSY,
            473 => {
                self.vectors[thread] |= 1 << a;
                (FIRST_FD + 64 * thread as u64 + a) as i64
            }
            474 => {
                // The entry's index is 64 times the receiving thread, and the vector.
                let entry = a.wrapping_sub(FIRST_FD);
                let (receiver, vector) = ((entry / 64) as usize, entry % 64);
                if self.vectors.get(receiver).is_none_or(|known| known >> vector & 1 == 0) {
                    return EBADF;
                }
                let mut old = [0; 8];
                if !memory.peek(UITT, &mut old) {
                    memory.map(UITT, UITT_SIZE, Rights::RW);
                }
                (cpu.uintr.uitt, cpu.uintr.uitt_last) = (UITT, UITT_SIZE / 16 - 1);
                let words = [1 | vector << 8, upid(receiver)].map(u64::to_le_bytes);
                memory.poke(UITT + 16 * entry, &words.concat());
                entry as i64
            }
            475 if cpu.uintr.uitt == 0 || a > cpu.uintr.uitt_last => EINVAL,
            475 => {
                memory.poke(UITT + 16 * a, &[0; 16]);
                0
            }
            0x7855_0001 if a > 63 || cpu.uintr.upid == 0 => EINVAL,
            0x7855_0001 => {
                cpu.uintr.timer.vector = Some(a as u8);
                0
            }
            _ => {
                cpu.uintr.timer = crate::uintr::Timer::default();
                0
            }
        }
    }
}

/// The UPID of a thread.
pub(crate) fn upid(thread: usize) -> u64 {
    TABLES + 64 * thread as u64
}

/// What the kernel keeps for a thread that devices interrupt while it does not run (xUI 4.5): as a
/// UPID, the vectors in its second word.
pub(crate) fn dupid(thread: usize) -> u64 {
    DUPIDS + 64 * thread as u64
}

fn rights(protection: u64) -> Rights {
    Rights { read: protection & 1 != 0, write: protection & 2 != 0, execute: protection & 4 != 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_counted_at_any_frequency() {
        let clock = Clock::default();
        assert_eq!(clock.frequency, crate::core::Parameters::default().frequency);
        assert_eq!((clock.ns(7), clock.cycles(7)), (3, 14));
        let odd = Clock { frequency: 2_100_000_001 };
        // A sleep is never too short.
        for ns in [1, 10, 999_999_999, 1 << 40] {
            assert!((ns..ns + 2).contains(&odd.ns(odd.cycles(ns))), "{ns}");
        }
        assert_eq!(odd.cycles(u64::MAX), u64::MAX);
        assert_eq!(Clock { frequency: 1 }.ns(u64::MAX), u64::MAX);
    }
}
