//! Which thread runs where: the scheduler of the minimal kernel.

use super::request::Request;
use super::slow;
use super::{NEVER, System, Thread};
use crate::core::Context;
use crate::cpu::Cpu;
use crate::fault::Error;
use crate::kernel::{THREADS, UINV};
use crate::mechanism::forwarding::Vectors;
use crate::uintr::Uintr;
use crate::uop::reg;

const EINTR: i64 = -4;
const EAGAIN: i64 = -11;
const EINVAL: i64 = -22;

/// What a thread does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum State {
    Running,
    Ready,
    /// Until this cycle; [`NEVER`]: until a signal.
    Asleep(u64),
    Ended,
}

/// Why a core drains its pipeline: what comes then.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Leave {
    /// Another thread is next, and this one is ready.
    Yield,
    Sleep(u64),
    Exit(u8),
    Move(usize),
    /// The kernel takes an interrupt, and the thread goes on.
    Trap,
    /// The thread's alarm rings.
    Signal,
    /// Its handler has returned.
    SignalReturn,
}

impl System {
    /// A thread that is ready on a core. Says its number.
    pub(super) fn add(&mut self, cpu: Cpu, core: usize) -> usize {
        let number = self.threads.len();
        self.threads.push(Thread {
            context: Some(Context { cpu, ..Context::default() }),
            core,
            state: State::Ready,
            forwarded: Vectors::default(),
            alarm: NEVER,
            period: 0,
            interrupted: None,
        });
        self.seats[core].ready.push_back(number);
        number
    }

    /// When the kernel has something to do on a core.
    pub(super) fn next_event(&self, at: usize) -> u64 {
        let seat = &self.seats[at];
        let mut next = seat.messages.first_key_value().map_or(NEVER, |(&(time, _), _)| time);
        for thread in self.threads.iter().filter(|thread| thread.core == at) {
            next = next.min(match thread.state {
                State::Asleep(until) => until.min(thread.alarm),
                State::Running if seat.leaving.is_none() && thread.interrupted.is_none() => {
                    thread.alarm
                }
                _ => NEVER,
            });
        }
        if seat.running.is_some() && seat.leaving.is_none() && !seat.ready.is_empty() {
            next = next.min(seat.since + self.quantum);
        }
        next
    }

    /// Does what is due on a core.
    pub(super) fn events(&mut self, at: usize, time: u64) {
        self.arrivals(at, time);
        for number in 0..self.threads.len() {
            let thread = &self.threads[number];
            if thread.core != at {
                continue;
            }
            let rings = thread.alarm <= time && thread.interrupted.is_none();
            match thread.state {
                State::Asleep(until) if until <= time || rings => self.wake(number, time),
                State::Running if rings && self.seats[at].leaving.is_none() => {
                    self.drain(at, Leave::Signal);
                }
                _ => {}
            }
        }
        let seat = &self.seats[at];
        if seat.running.is_none() {
            // The kernel may still be busy with what has woken the thread.
            if time >= seat.since
                && let Some(number) = self.seats[at].ready.pop_front()
            {
                self.enter(at, number, time);
            }
        } else if seat.leaving.is_none()
            && !seat.ready.is_empty()
            && time >= seat.since + self.quantum
        {
            self.drain(at, Leave::Yield);
        }
    }

    /// A thread that sleeps is ready.
    pub(super) fn wake(&mut self, number: usize, time: u64) {
        let thread = &mut self.threads[number];
        let State::Asleep(until) = thread.state else { return };
        if let Some(context) = thread.context.as_mut().filter(|_| until > time) {
            context.cpu.set(reg::RAX, 3, EINTR as u64);
        }
        thread.state = State::Ready;
        let at = thread.core;
        let seat = &mut self.seats[at];
        seat.ready.push_back(number);
        if seat.running.is_none() {
            // An interrupt of the kernel's timer, or a device's, has ended the sleep.
            seat.idle += time.saturating_sub(seat.since);
            seat.since = time + self.p.kernel.trap;
            seat.kernel += self.p.kernel.trap;
        } else {
            seat.core.not_beyond(time, seat.last);
            self.drain(at, Leave::Yield);
        }
    }

    /// The core fetches no more. What comes when nothing is in flight any more: `leave`, unless
    /// something comes already.
    pub(super) fn drain(&mut self, at: usize, leave: Leave) {
        let seat = &mut self.seats[at];
        if seat.running.is_some() && seat.leaving.is_none_or(|known| known == Leave::Trap) {
            seat.leaving = Some(leave);
            seat.core.hold();
        }
    }

    /// The kernel takes an interrupt on a core.
    pub(super) fn trap(&mut self, at: usize) {
        self.seats[at].slow.traps += 1;
        if self.seats[at].leaving.is_none() {
            self.drain(at, Leave::Trap);
        }
    }

    /// A system call for the scheduler, which a core has just executed.
    pub(super) fn serve(&mut self, at: usize, request: Request) {
        let number = self.seats[at].running.expect("it made the call");
        let now = self.seats[at].last;
        let leave = match request {
            Request::Clone { stack, tls } => {
                let result = if self.threads.len() < THREADS {
                    let mut cpu = self.seats[at].core.cpu().clone();
                    cpu.set(reg::RAX, 3, 0);
                    cpu.set(reg::RSP, 3, stack);
                    if let Some(tls) = tls {
                        cpu.set(reg::FS, 3, tls);
                    }
                    // The UITT is the process's, all else the thread's.
                    let (uitt, uitt_last) = (cpu.uintr.uitt, cpu.uintr.uitt_last);
                    cpu.uintr = Uintr { uitt, uitt_last, ..Uintr::default() };
                    self.add(cpu, at) as i64 + 1
                } else {
                    EAGAIN
                };
                self.seats[at].core.cpu().set(reg::RAX, 3, result as u64);
                return;
            }
            Request::Move { core } if core >= self.seats.len() => {
                self.seats[at].core.cpu().set(reg::RAX, 3, EINVAL as u64);
                return;
            }
            Request::Move { core } if core == at => return,
            Request::Alarm { first, period } => {
                let thread = &mut self.threads[number];
                thread.alarm = if first == 0 { NEVER } else { now + first };
                thread.period = period;
                return;
            }
            Request::Forward { vector, user } => {
                self.owners.insert(vector, number);
                self.threads[number].forwarded.insert(vector);
                // A device may be wired to any core.
                self.seats.iter_mut().for_each(|seat| seat.apic.map(vector, user));
                self.seats[at].apic.active = self.threads[number].forwarded;
                return;
            }
            Request::Exit { status } => Leave::Exit(status),
            Request::Yield => Leave::Yield,
            Request::Sleep { until } => Leave::Sleep(until),
            Request::Move { core } => Leave::Move(core),
            Request::SignalReturn => Leave::SignalReturn,
        };
        let seat = &mut self.seats[at];
        (seat.leaving, _) = (Some(leave), seat.core.hold());
    }

    /// Nothing is in flight on a core that was told to hold.
    ///
    /// # Errors
    ///
    /// A handler of signals has returned that was not called.
    pub(super) fn leave(&mut self, at: usize) -> Result<(), Error> {
        let seat = &mut self.seats[at];
        let (number, now) = (seat.running.expect("it held"), seat.core.now());
        let leave = seat.leaving.take().expect("it was told why");
        let cost = match leave {
            Leave::Trap => self.p.kernel.trap,
            Leave::Signal => {
                let thread = &mut self.threads[number];
                // An alarm that rings late skips the periods that have passed.
                let passed = now.saturating_sub(thread.alarm).checked_div(thread.period);
                thread.alarm =
                    passed.map_or(NEVER, |passed| thread.alarm + (passed + 1) * thread.period);
                let kernel = self.machine.kernel.threads.as_ref().expect("there are threads");
                let cpu = seat.core.cpu();
                let before = Box::new(cpu.clone());
                if !slow::signal(kernel, &mut self.machine.memory, cpu) {
                    self.machine.end(128 + super::request::SIGALRM as u8);
                    return Ok(());
                }
                thread.interrupted = Some(before);
                seat.slow.signals += 1;
                self.p.kernel.alarm
            }
            Leave::SignalReturn => {
                let Some(before) = self.threads[number].interrupted.take() else {
                    let address = seat.core.cpu().rip;
                    return Err(Error::Call { address, number: 15 });
                };
                let cpu = seat.core.cpu();
                let uintr = std::mem::take(&mut cpu.uintr);
                *cpu = Cpu { uintr, ..*before };
                0
            }
            _ => {
                self.exchange(at, number, leave, now);
                return Ok(());
            }
        };
        let seat = &mut self.seats[at];
        seat.kernel += cost;
        seat.core.go_on(cost);
        Ok(())
    }

    /// The thread leaves its core.
    fn exchange(&mut self, at: usize, number: usize, leave: Leave, now: u64) {
        let seat = &mut self.seats[at];
        let context = seat.core.leave();
        seat.running = None;
        seat.since = now;
        seat.last = now;
        seat.apic.active = Vectors::default();
        slow::suspend(&mut self.machine.memory, context.cpu.uintr.upid);
        let thread = &mut self.threads[number];
        thread.context = Some(context);
        thread.state = State::Ready;
        match leave {
            Leave::Sleep(until) => {
                thread.state = State::Asleep(until);
                self.seats[at].kernel += self.p.kernel.switch;
                self.seats[at].since = now + self.p.kernel.switch;
                self.seats[at].last = now + self.p.kernel.switch;
            }
            Leave::Exit(status) => {
                thread.state = State::Ended;
                if self.threads.iter().all(|thread| thread.state == State::Ended) {
                    self.machine.end(status);
                }
            }
            Leave::Move(core) => {
                thread.core = core;
                let seat = &mut self.seats[core];
                seat.slow.migrations += 1;
                seat.ready.push_back(number);
                if seat.running.is_none() {
                    seat.idle += now.saturating_sub(seat.since);
                    seat.since = seat.since.max(now);
                } else {
                    seat.core.not_beyond(now, seat.last);
                }
            }
            _ => self.seats[at].ready.push_back(number),
        }
    }

    /// A thread comes to a core, which has none.
    fn enter(&mut self, at: usize, number: usize, time: u64) {
        let seat = &mut self.seats[at];
        let thread = &mut self.threads[number];
        let mut context = thread.context.take().expect("it does not run");
        let upid = context.cpu.uintr.upid;
        seat.idle += time.saturating_sub(seat.since);
        thread.state = State::Running;
        let memory = &mut self.machine.memory;
        let reposts = slow::resume(memory, upid, at);
        context.requests |= slow::kept(memory, number);
        let cost = self.p.kernel.switch;
        seat.slow.late_timers += u64::from(seat.core.enter(context, time, cost));
        seat.running = Some(number);
        seat.apic.active = thread.forwarded;
        seat.kernel += cost;
        seat.switches += 1;
        seat.since = seat.core.now();
        seat.last = seat.since;
        if reposts {
            seat.slow.reposted += 1;
            // Through the local APIC, as a sender's (xUI 3.2).
            self.send(at, self.seats[at].since + cost, UINV);
        }
    }
}
