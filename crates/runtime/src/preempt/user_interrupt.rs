//! Notification by a user interrupt: where it enters, its frame, and how it is sent (Aspen,
//! sections 2.3 and 3.2).
//!
//! One SENDUIPI tells a worker. The sender names a route, one for each slot, and whoever takes a
//! slot lets its route lead to itself. No kernel is involved, and none is entered: a thread that
//! waits in a system call goes on waiting. A request that is not taken in time is followed by a
//! signal, which ends the call, or finds the interrupt taken meanwhile and does nothing.
//!
//! Not every thread can send: a kernel thread that is neither a carrier nor a clock's has no table
//! of routes, and sends signals. Not every carrier can be told so: one that the kernel has refused
//! gets signals. Both kinds may hit each other at any instruction, in any order; the request that
//! they bring is one, and whoever comes second finds it judged.
//!
//! Where the CPU's timer is delegated (Skyloft, section 3.2), it raises [`TICK`] by itself, if the
//! handler has posted that vector since the last time. A tick knows nothing of requests and asks
//! the policy. Requests of others are signals there: a user interrupt would wait for the next tick.

use super::defer::repeat_flagged;
use super::frame::{Frame, SystemCall};
use super::judge::{Requester, in_scheduler, judge};
use super::notify::{Notifier, Stage};
use super::signal::Signals;
use crate::arch::pkru;
use crate::arch::user_interrupt::{self as arch, Saved, place};
use crate::config::MAX_WORKERS;
use crate::runtime::Inner;
use crate::thread::control::Uthread;
use crate::thread::raw;
use crate::tsc;
use crate::uintr::{Provider, Receiver, TICK};
use crate::worker::carrier::Carrier;
use crate::worker::slot::Slot;
use core::cell::Cell;
use core::sync::atomic::{AtomicBool, Ordering::*};
use std::time::Duration;

/// Sends user interrupts; the signal is the second stage.
pub(crate) struct UserInterrupts;

/// What one takes of a worker where nothing can measure it yet: more than the papers' 0.4 us
/// (Aspen, section 2.3), for what follows in caches.
const PRICE: Duration = Duration::from_micros(1);

/// What a preemption by a user interrupt is taken to cost where one by a signal takes `signal`.
pub(crate) fn price(provider: Provider, signal: tsc::Ticks) -> tsc::Ticks {
    match provider {
        // A signal for the interrupt, and traps for the instructions.
        Provider::Emulator => 3 * signal,
        Provider::Module | Provider::IntelKernel => signal.min(tsc::from_duration(PRICE)),
    }
}

thread_local! {
    /// Has the calling kernel thread, which is no carrier, a table of routes?
    static SENDS: Cell<bool> = const { Cell::new(false) };
}

/// Can the calling kernel thread send?
fn may_send() -> bool {
    if raw::attached() {
        // SAFETY: attached, hence a carrier; senders' gates are closed.
        unsafe { Carrier::here() }.receiver.exists()
    } else {
        SENDS.get()
    }
}

/// The route of a worker's requests.
fn requests_of(slot: &Slot) -> usize {
    slot.id
}

/// The route of a worker's own ticks.
fn ticks_of(slot: &Slot) -> usize {
    MAX_WORKERS + slot.id
}

impl Notifier for UserInterrupts {
    fn register(&self, rt: &Inner) -> Receiver {
        Signals.register(rt);
        let Some(interface) = rt.user_interrupts else { return Receiver::NONE };
        interface.register(arch::entry()).unwrap_or_else(|error| {
            static TOLD: AtomicBool = AtomicBool::new(false);
            if !TOLD.swap(true, Relaxed) {
                eprintln!("quaver: a worker gets signals instead of user interrupts: {error}");
            }
            Receiver::NONE
        })
    }

    fn begins(&self, _rt: &Inner, receiver: Receiver) {
        if receiver.exists() {
            // SAFETY: registered, and `gs` is a carrier.
            unsafe { arch::stui() };
        }
    }

    fn ends(&self, rt: &Inner, receiver: Receiver) {
        if let (Some(interface), true) = (rt.user_interrupts, receiver.exists()) {
            // SAFETY: registered.
            unsafe { arch::clui() };
            interface.stop_timer();
            interface.unregister(receiver);
        }
    }

    fn attach(&self, rt: &Inner) {
        SENDS.set(rt.user_interrupts.is_some_and(|interface| interface.attach().is_ok()));
    }

    fn takes(&self, rt: &Inner, slot: &Slot, receiver: Receiver) {
        let Some(interface) = rt.user_interrupts else { return };
        slot.interruptible.store(false, Relaxed);
        if !receiver.exists() {
            return;
        }
        match rt.delegated {
            Some(period) => start_ticks(slot, period),
            None => {
                let led = interface.route(requests_of(slot), receiver).is_ok();
                slot.interruptible.store(led, Release);
            }
        }
    }

    fn notify(&self, rt: &Inner, slot: &Slot, stage: Stage) -> bool {
        let operand = || {
            // A POSIX timer would not know when the second stage is due.
            let interface = rt.user_interrupts.filter(|_| rt.second_stage != 0)?;
            (slot.interruptible.load(Acquire) && may_send()).then_some(())?;
            interface.operand(requests_of(slot))
        };
        match (stage, operand()) {
            (Stage::First, Some(operand)) => {
                // SAFETY: the calling thread has a table, and the route leads somewhere: it has
                // been set before, and routes are never withdrawn.
                unsafe { arch::senduipi(operand) };
                true
            }
            _ => Signals.notify(rt, slot, Stage::First),
        }
    }
}

/// The timer of the CPU interrupts the calling carrier, which has taken `slot`. Where it cannot, a
/// POSIX timer does.
fn start_ticks(slot: &Slot, period: Duration) {
    let rt = slot.rt();
    let Some(interface) = rt.user_interrupts else { return };
    // The carrier's timer may be running, from the last time it had a slot.
    slot.ticks_for.store(0, Relaxed);
    match interface.start_timer(ticks_of(slot), period) {
        Ok(_) => {
            slot.ticks_for.store(slot.tid.load(Relaxed), Relaxed);
            post_tick(slot);
        }
        Err(error) => {
            static TOLD: AtomicBool = AtomicBool::new(false);
            if !TOLD.swap(true, Relaxed) {
                eprintln!("quaver: no delegated timer, a POSIX timer instead: {error}");
            }
            let _ = crate::sys::timer_settime_periodic(slot.timer.load(Relaxed), period);
        }
    }
}

/// Posts the vector that the next tick brings. UPID.SN keeps the notification back.
fn post_tick(slot: &Slot) {
    if let Some(operand) = slot.rt().user_interrupts.and_then(|i| i.operand(ticks_of(slot))) {
        // SAFETY: the calling carrier has a table, and has set this route.
        unsafe { arch::senduipi(operand) };
    }
}

/// User interrupts may come on the calling carrier, of whose thread the gate is closed: a signal
/// does what one of them has not done. The flag is 0 where a handler of the program has switched
/// that had interrupted the entry.
pub(super) fn allow(c: &Carrier) {
    if c.receiver.exists() {
        // SAFETY: registered, and `gs` is the carrier.
        unsafe { arch::stui() };
    }
}

/// The handler. UIF is 1 if the gate was open, and 0 if it was closed or there is no thread.
/// `closed`: the interrupted thread, whose gate [`entry`](arch::entry) has closed.
pub(crate) unsafe extern "C" fn on_user_interrupt(
    saved: *mut Saved,
    closed: Option<&'static Uthread>,
) {
    // SAFETY: what the entry has saved, until it is left; registered kernel threads are carriers,
    // and the gate is closed or there is no thread.
    unsafe {
        let vector = (*saved).vector;
        let c = Carrier::here();
        if let Some(slot) = c.slot() {
            slot.stats.preempt_by_user_interrupt.add_shared(1, true);
            if vector == u64::from(TICK) && slot.ticks_for.load(Relaxed) == c.tid {
                post_tick(slot);
            }
        }
        let Some(t) = closed else { return in_scheduler() };
        let source = source_of(vector as u32);
        let gate = t.no_preempt.get() - 1;
        let mut frame = UserFrame::new(saved);
        let _verdict = judge(source, t, gate, &mut frame);
        #[cfg(feature = "inspect")]
        if source == Requester::Forced {
            let worker = Carrier::here().slot().map(|slot| slot.id);
            crate::uintr::inspect::judged(_verdict, worker, frame.stack_pointer());
        }
        frame.leave(t, gate)
    }
}

/// Who asks by user interrupts with `vector`.
fn source_of(vector: u32) -> Requester {
    match vector {
        TICK => Requester::Tick,
        #[cfg(feature = "inspect")]
        crate::uintr::FORCED => Requester::Forced,
        _ => Requester::Clock,
    }
}

/// The frame that processor and entry have made on the thread's stack.
pub(super) struct UserFrame {
    saved: *mut Saved,
    rights: u32,
}

impl UserFrame {
    /// The frame of the calling handler.
    ///
    /// # Safety
    ///
    /// `saved` is what the entry has given to the calling handler, on a user thread's stack; the
    /// gate is closed.
    pub(super) unsafe fn new(saved: *mut Saved) -> UserFrame {
        // Nothing has changed it since the interruption.
        UserFrame { saved, rights: pkru::get() }
    }

    fn registers(&self) -> &Saved {
        // SAFETY: our own frame, for as long as we are in it.
        unsafe { &*self.saved }
    }
}

// SAFETY: the entry has saved the registers, and the way back loads all of them.
unsafe impl Frame for UserFrame {
    fn address(&self) -> usize {
        self.registers().rip as usize
    }

    fn stack_pointer(&self) -> usize {
        self.registers().rsp as usize
    }

    fn general(&self) -> &[i64] {
        &self.registers().general
    }

    fn call(&self) -> SystemCall {
        use place::{R8, R9, R10, RAX, RDI, RDX, RSI};
        let general = &self.registers().general;
        let args = [RDI, RSI, RDX, R10, R8, R9].map(|at| general[at] as u64);
        SystemCall { number: general[RAX], args }
    }

    fn finish_call(&mut self, result: i64) {
        // SAFETY: our own frame.
        let saved = unsafe { &mut *self.saved };
        saved.general[place::RAX] = result;
        // Behind the `syscall` instruction.
        saved.rip += 2;
    }

    fn rights(&self) -> u32 {
        self.rights
    }

    unsafe fn leave(&mut self, t: &Uthread, gate: u32) -> ! {
        // SAFETY: our own frame; the caller's contract.
        unsafe {
            loop {
                arch::resume(self.saved, t, gate);
                repeat_flagged(t);
            }
        }
    }
}
