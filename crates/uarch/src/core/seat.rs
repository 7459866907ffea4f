//! A core as one of several, with threads that come and go: what `crate::system`, the kernel and
//! the wires between the cores, does with it.

use super::Core;
use super::window::Place;
use crate::cpu::Cpu;
use crate::uintr::{Notification, Timer};

/// What the kernel keeps of a thread that does not run.
#[derive(Clone, Default)]
pub(crate) struct Context {
    pub(crate) cpu: Cpu,
    /// `kb_timer_state_MSR` (xUI 4.3).
    pub(crate) timer: Timer,
    /// UIRR: vectors that wait for delivery.
    pub(crate) requests: u64,
}

/// What a core has done that others must know.
#[derive(Default)]
pub(crate) struct Outside {
    /// Notifications that it has sent, and when they arrive.
    pub(crate) sent: Vec<(u64, Notification)>,
    /// Where it has stored.
    pub(crate) stored: Vec<u64>,
}

impl Core {
    /// Makes it one of several.
    pub(crate) fn share(&mut self) {
        self.outside = Some(Outside::default());
        self.ahead.shared = true;
    }

    /// The cycle that comes next.
    pub(crate) fn now(&self) -> u64 {
        self.cycle
    }

    /// Something will happen in cycle `time`, which the core did not know when it went on to the
    /// next event. `last`: the cycle in which it was last looked at.
    pub(crate) fn not_beyond(&mut self, time: u64, last: u64) {
        self.cycle = self.cycle.min(time.max(last + 1));
    }

    /// What it has done since.
    pub(crate) fn outside(&mut self) -> &mut Outside {
        self.outside.as_mut().expect("it is one of several")
    }

    /// A store has retired.
    pub(super) fn stored(&mut self, place: Place) {
        if let Some(outside) = &mut self.outside {
            outside.stored.push(place.address);
        }
    }

    /// Another core has stored: the line is there, if it was here.
    pub(crate) fn lose_line(&mut self, address: u64) {
        if self.memory.holds(address) {
            self.memory.written_elsewhere(address, self.p.interrupt.remote_line);
        }
    }

    /// Stores in flight leave the memory that all cores have.
    pub(crate) fn hide(&mut self) {
        self.ahead.hide(&mut self.machine.memory);
    }

    /// They are there again.
    pub(crate) fn show(&mut self) {
        self.ahead.show(&mut self.machine.memory);
    }

    /// It fetches no more, until a thread enters.
    pub(crate) fn hold(&mut self) {
        self.held = true;
    }

    /// Whether it was told to hold, and nothing is in flight any more.
    pub(crate) fn quiet(&self) -> bool {
        self.held && self.window.is_empty()
    }

    /// Registers behind the last instruction that has retired; the core must be quiet, or have just
    /// served a system call.
    pub(crate) fn cpu(&mut self) -> &mut Cpu {
        &mut self.ahead.cpu
    }

    /// The thread leaves the core, which is quiet.
    pub(crate) fn leave(&mut self) -> Context {
        debug_assert!(self.quiet() && self.ahead.in_flight().is_empty(), "the core is quiet");
        let (timer, requests) = self.interrupts.leave();
        (self.serial, self.sequenced) = (None, 0);
        (self.front.stopped, self.front.line, self.front.fuses) = (None, None, false);
        Context { cpu: self.ahead.cpu.clone(), timer, requests }
    }

    /// A thread comes in cycle `at` and runs `cost` cycles later. Says whether its timer has
    /// expired meanwhile.
    pub(crate) fn enter(&mut self, context: Context, at: u64, cost: u64) -> bool {
        debug_assert!(self.window.is_empty(), "nothing of another thread is in flight");
        self.cycle = self.cycle.max(at);
        self.held = false;
        self.front.resume = self.cycle + cost;
        self.ahead.cpu = context.cpu;
        self.interrupts.raised(context.requests, self.cycle);
        self.interrupts.timer.restore(context.timer, self.front.resume)
    }

    /// The kernel has worked `cost` cycles for something else; the thread goes on.
    pub(crate) fn go_on(&mut self, cost: u64) {
        self.held = false;
        // After what the kernel has been busy with before, such as a switch.
        self.front.resume = self.front.resume.max(self.cycle) + cost;
    }

    /// A notification arrives for the running thread (xUI 3.3, step 4).
    pub(crate) fn notified(&mut self) {
        self.interrupts.notify(self.cycle);
    }

    /// The local APIC forwards a user vector to the running thread (xUI 4.5).
    pub(crate) fn forwarded(&mut self, vector: u8) {
        self.interrupts.raised(1 << vector, self.cycle);
    }
}
