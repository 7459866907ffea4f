//! Interrupts on their way: sources, what waits at the core, injection and its retirement.
//!
//! Nothing here is speculative but the flag UIF, which is in the journal's registers. Requests are
//! taken when the interrupt's last uop retires; a squash before that only forgets that it was
//! injected.

use std::collections::VecDeque;

use super::Core;
use super::config::{Config, Source, When};
use super::device::Raised;
use super::fetch::{Blame, Stopped};
use super::handler::VECTOR;
use super::predict::Kind;
use super::window::{NEVER, Origin};
use crate::decode;
use crate::fault::{Error, Fault};
use crate::mechanism::safepoint::Safepoints;
use crate::mechanism::{self, Action, Rule, View};
use crate::uintr::{ON, SN, Timer};

/// So many interrupts without an instruction of the program between them are an endless run.
const FRUITLESS: u64 = 10_000;

/// An interrupt whose microcode is in flight.
#[derive(Clone, Copy, Debug)]
struct Injected {
    vector: u8,
    /// Notification processing precedes its delivery.
    notified: bool,
    arrival: u64,
}

/// All that interrupts need.
pub(super) struct Interrupts {
    rule: Option<&'static dyn Rule>,
    source: Source,
    pub(super) safepoints: Safepoints,
    /// Cycles between the sender's interrupts; 0: one only.
    period: u64,
    /// Interrupts since an instruction of the program was done, and where that is.
    pub(super) fruitless: u64,
    pub(super) last_done: u64,
    /// When the sender sends next.
    next: u64,
    /// KB timer of the core.
    pub(super) timer: Timer,
    /// Notifications under way: when they arrive, and what they have posted beside the UPID.
    arriving: VecDeque<(u64, u64)>,
    /// Vectors to deliver.
    pending: u64,
    /// Vectors to deliver after notification processing.
    posted: u64,
    /// The notification's vector has arrived: the UPID must be read.
    notified: bool,
    /// When the oldest that waits has arrived.
    arrival: Option<u64>,
    injected: Option<Injected>,
    /// The pipeline was squashed: microcode is next.
    entering: bool,
    /// Delivered and not yet in the handler: when it had arrived.
    pub(super) entered: Option<u64>,
    pub(super) handler_times: Vec<u64>,
    fetch_times: u64,
    injections: u64,
}

impl Interrupts {
    pub(super) fn new(config: &Config) -> Interrupts {
        let rule = mechanism::rule(config.mechanism);
        let (first, period) = match config.when {
            When::ByProgram | When::ByDevice => (NEVER, 0),
            When::Every(period) => (period.max(1), period.max(1)),
            When::At(cycle) => (cycle, 0),
        };
        let mut timer = Timer::default();
        let mut next = NEVER;
        if rule.is_some() && first != NEVER {
            if config.source == Source::KbTimer {
                timer = Timer { vector: Some(VECTOR), deadline: Some(first), period };
            } else {
                next = first;
            }
        }
        Interrupts {
            rule,
            source: config.source,
            safepoints: Safepoints::new(config.safepoints, &config.parameters),
            fruitless: 0,
            last_done: 0,
            period,
            next,
            timer,
            arriving: VecDeque::new(),
            pending: 0,
            posted: 0,
            notified: false,
            arrival: None,
            injected: None,
            entering: false,
            entered: None,
            handler_times: Vec::new(),
            fetch_times: 0,
            injections: 0,
        }
    }

    /// The injected interrupt is squashed: it waits again.
    pub(super) fn squashed(&mut self) {
        let injected = self.injected.take().expect("its microcode was in flight");
        self.arrival = Some(injected.arrival);
    }

    /// SENDUIPI to this core: the notification arrives at `time`.
    pub(super) fn sent_to_self(&mut self, time: u64, vectors: u64) {
        if self.rule.is_some() {
            self.arriving.push_back((time, vectors));
        }
    }

    /// The notification's vector arrives from another core.
    pub(super) fn notify(&mut self, cycle: u64) {
        self.notified = true;
        self.arrival.get_or_insert(cycle);
    }

    /// The thread leaves: the state of its timer, and the vectors that wait for its return. What
    /// its UPID holds stays there.
    pub(super) fn leave(&mut self) -> (Timer, u64) {
        debug_assert!(self.injected.is_none(), "nothing is in flight");
        let mut requests = std::mem::take(&mut self.pending) | std::mem::take(&mut self.posted);
        requests |= self.arriving.drain(..).fold(0, |all, (_, vectors)| all | vectors);
        (self.notified, self.entering, self.arrival) = (false, false, None);
        (self.timer.save(), requests)
    }

    /// A device has raised vectors.
    pub(super) fn raised(&mut self, vectors: u64, cycle: u64) {
        if vectors != 0 {
            self.pending |= vectors;
            self.arrival.get_or_insert(cycle);
        }
    }

    /// When something happens here without the pipeline.
    pub(super) fn next_event(&self) -> u64 {
        let deadline = self.timer.deadline.filter(|_| self.rule.is_some()).unwrap_or(NEVER);
        let arriving = self.arriving.front().map_or(NEVER, |&(time, _)| time);
        deadline.min(arriving).min(self.next)
    }

    /// Mean cycles until the microcode was fetched.
    pub(super) fn mean_fetched(&self) -> f64 {
        self.fetch_times as f64 / self.injections.max(1) as f64
    }
}

impl Core {
    /// Takes what the sources send in this cycle.
    pub(super) fn arrive(&mut self) {
        let cycle = self.cycle;
        let raised = self.device_acts();
        if self.interrupts.rule.is_none() {
            return;
        }
        self.take(raised);
        let mut arrived = false;
        if let Some(vector) = self.interrupts.timer.expired(cycle) {
            self.interrupts.pending |= 1 << vector;
            arrived = true;
        }
        if self.interrupts.next <= cycle {
            let i = &mut self.interrupts;
            i.next = if i.period == 0 { NEVER } else { i.next + i.period };
            match i.source {
                Source::Uipi => self.post(),
                _ => {
                    i.pending |= 1 << VECTOR;
                    arrived = true;
                }
            }
        }
        let i = &mut self.interrupts;
        while i.arriving.front().is_some_and(|&(time, _)| time <= cycle) {
            let (_, vectors) = i.arriving.pop_front().expect("it was looked at");
            i.posted |= vectors;
            i.notified = true;
            arrived = true;
        }
        if arrived && i.arrival.is_none() {
            i.arrival = Some(cycle);
        }
    }

    /// What a device wants.
    pub(super) fn take(&mut self, raised: Raised) {
        if self.interrupts.rule.is_none() {
            return;
        }
        self.interrupts.raised(raised.vectors, self.cycle);
        if raised.posts {
            self.post();
        }
    }

    fn upid(&self) -> Option<[u64; 2]> {
        let address = self.ahead.cpu.uintr.upid;
        let mut bytes = [0; 16];
        (address != 0 && self.machine.memory.peek(address, &mut bytes)).then(|| {
            [0, 8].map(|i| u64::from_le_bytes(bytes[i..i + 8].try_into().expect("eight bytes")))
        })
    }

    fn set_upid(&mut self, words: [u64; 2]) {
        let bytes = words.map(u64::to_le_bytes).concat();
        self.machine.memory.poke(self.ahead.cpu.uintr.upid, &bytes);
    }

    /// SENDUIPI on the sender's core.
    fn post(&mut self) {
        let Some([header, posted]) = self.upid() else { return };
        let address = self.ahead.cpu.uintr.upid;
        self.memory.written_elsewhere(address, self.p.interrupt.remote_line);
        let notify = header & (ON | SN) == 0;
        self.set_upid([header | if notify { ON } else { 0 }, posted | 1 << VECTOR]);
        if notify {
            let time = self.cycle + self.p.interrupt.notification_delay;
            self.interrupts.arriving.push_back((time, 0));
        }
    }

    /// The rule, if it must be asked.
    fn asked(&self) -> Option<&'static dyn Rule> {
        let i = &self.interrupts;
        let wanted = i.pending | i.posted != 0 || i.notified;
        i.rule.filter(|_| wanted && i.injected.is_none() && !i.entering && !self.held)
    }

    fn look(&mut self) -> View {
        let safepoints = self.interrupts.safepoints;
        let upcoming = safepoints.allows(|| self.safepoint_ahead());
        let oldest = self.window.front();
        View {
            flag_ahead: self.ahead.cpu.uintr.uif,
            flag_retired: self.ahead.oldest_flag(),
            safe_ahead: upcoming,
            safe_retired: safepoints.allows(|| oldest.map_or(upcoming, |entry| entry.safepoint)),
            empty: oldest.is_none(),
            boundary: oldest.is_none_or(|entry| entry.first)
                && self.window.iter().all(|entry| entry.origin == Origin::Program),
        }
    }

    /// Whether the next instruction to be fetched is seen to have the safepoint prefix.
    fn safepoint_ahead(&mut self) -> bool {
        let address = self.ahead.cpu.rip;
        let visible = self.interrupts.safepoints.bit(true, self.in_uop_cache(address));
        visible && self.ahead.upcoming(&mut self.machine.memory).is_some_and(|uop| uop.safepoint)
    }

    /// What to do before the next instruction is fetched.
    pub(super) fn before_fetch(&mut self) -> Action {
        if self.interrupts.entering {
            return Action::Inject;
        }
        let Some(rule) = self.asked() else { return Action::Go };
        let view = self.look();
        rule.at_fetch(&view)
    }

    /// Whether the mechanism wants all that has not retired squashed.
    pub(super) fn squashes_here(&mut self) -> bool {
        let Some(rule) = self.asked() else { return false };
        let view = self.look();
        rule.at_retirement(&view) == Action::Squash
    }

    /// Squashes, if the mechanism wants that.
    pub(super) fn after_retirement(&mut self) {
        if !self.squashes_here() {
            return;
        }
        let from = self.window.end() - self.window.len() as u64;
        let squashed = self.squash(from, true);
        let cycles = squashed.div_ceil(self.p.window.squash as u64);
        let entry = self.interrupts.rule.map_or(0, |rule| rule.after_squash(&self.p));
        self.serial = None;
        self.front.stopped = None;
        self.front.line = None;
        self.front.fuses = false;
        self.front.resume = self.cycle + cycles + entry;
        self.front.blame = Blame::Interrupt;
        self.interrupts.entering = true;
        self.moved = true;
    }

    /// Fetches the microcode of the interrupt that waits.
    pub(super) fn inject(&mut self) {
        self.moved = true;
        self.front.stopped = None;
        let upid = self.upid();
        let i = &mut self.interrupts;
        i.entering = false;
        let notified = i.notified;
        let mut vectors = i.pending | i.posted;
        if let Some([_, posted]) = upid.filter(|_| notified) {
            vectors |= posted;
        }
        if vectors == 0 {
            // Nothing was posted.
            (i.notified, i.arrival) = (false, None);
            return;
        }
        let vector = 63 - vectors.leading_zeros() as u8;
        let address = self.ahead.cpu.rip;
        let (number, accesses) = match self.ahead.deliver(&mut self.machine.memory, vector) {
            Ok(done) => done,
            Err(fault) => {
                // On a wrong path it means nothing.
                self.front.stopped = Some(Stopped::Fault(fault));
                return;
            }
        };
        let arrival = i.arrival.take().unwrap_or(self.cycle);
        i.injected = Some(Injected { vector, notified, arrival });
        i.fetch_times += self.cycle - arrival;
        i.injections += 1;
        let mut like = Self::blank(self.cycle, address, Origin::Interrupt);
        like.number = number;
        let handler = self.ahead.cpu.rip;
        self.far(&mut like, Kind::Delivery, address, handler);
        like.available = self.interrupts.rule.map_or(0, |rule| rule.at_entry(&self.p));
        if notified {
            let steps = self.p.microcode.notification.clone();
            self.sequence(&steps, &[], &like, false);
            like.first = false;
        }
        let steps = self.p.microcode.delivery.clone();
        self.sequence(&steps, &accesses, &like, true);
    }

    /// The last uop of an interrupt's microcode has retired.
    ///
    /// # Errors
    ///
    /// The program has unmapped the UPID, or does not get on.
    pub(super) fn interrupt_retires(&mut self) -> Result<(), Error> {
        let injected = self.interrupts.injected.take().expect("its microcode was in flight");
        if injected.notified {
            let upid = self.ahead.cpu.uintr.upid;
            let Some([header, posted]) = self.upid() else {
                return Err(Error::Fault {
                    address: self.ahead.cpu.rip,
                    text: "notification processing before this instruction".to_owned(),
                    fault: Fault::read(upid),
                });
            };
            self.set_upid([header & !ON, 0]);
            let i = &mut self.interrupts;
            i.pending |= posted | std::mem::take(&mut i.posted);
            i.notified = false;
        }
        let i = &mut self.interrupts;
        i.pending &= !(1 << injected.vector);
        i.entered = Some(injected.arrival);
        i.fruitless += 1;
        let (interrupts, address) = (i.fruitless, i.last_done);
        self.report.interrupts += 1;
        if interrupts >= FRUITLESS {
            let text = decode::disassemble(&self.machine.memory, address);
            return Err(Error::Swamped { address, text, interrupts });
        }
        Ok(())
    }
}
