//! A carrier that sleeps in a page fault loses its slot. (Skyloft 6 leaves this open.)
//!
//! A signal does not end such a sleep, so the carrier cannot give the slot away itself, as it does
//! in a system call ([`blocked`](super::blocked)). Somebody else takes it, and gives it to a spare.
//! The signal stays pending meanwhile: when the fault is over the kernel calls the handler before
//! any other instruction, and the handler queues the thread for a worker. [`claim`] says who has
//! the slot when both come at once.
//!
//! What a thread was doing decides whether it may be left alone, as for any preemption, and is
//! known to the kernel: `/proc/self/task/TID/syscall` has the registers of a thread that sleeps,
//! `status` its signals. A slot is taken only from a thread that
//!
//! * is in the kernel without a system call, in state D or S, and is not traced,
//! * has our signal pending and does not block it,
//! * is in no section of the runtime, no region of the user's, and no library that has locks,
//! * is on its own stack and has its own TLS.
//!
//! All this is looked at after the signal was sent, and holds until the handler runs, because the
//! thread executes nothing before.

pub(crate) mod claim;

use self::claim::Found;
use super::frame::Frame;
use super::judge::Verdict;
use super::place::{Place, interrupted_at};
use super::ranges::{Code, code_of_thread};
use crate::arch::{entry, pkru};
use crate::os::turns::Role;
use crate::runtime::Inner;
use crate::thread::control::Uthread;
use crate::tsc;
use crate::worker::carrier::Carrier;
use crate::worker::scheduler;
use crate::worker::slot::Slot;
use core::sync::atomic::Ordering::*;
use quaver_sched::Why;

/// What became of an attempt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Attempt {
    /// The carrier does not sleep in a fault, or is where it must keep its slot.
    Elsewhere,
    /// It did, but has woken, or there is no spare yet. It has been asked to give way.
    Asked,
    /// A spare has the slot.
    Taken,
}

/// Takes the slot that runs the dispatch `run` from its carrier, if that sleeps in a page fault.
/// From any kernel thread but carriers, of which one at a time tries; reads files of `/proc`.
pub(crate) fn take_slot(rt: &Inner, slot: &Slot, run: u64) -> Attempt {
    let Ok(_turn) = rt.fault_turn.try_lock() else { return Attempt::Elsewhere };
    let tid = slot.tid.load(Relaxed);
    let t = rt.table.get(slot.run_task.load(Relaxed));
    if !sleeps_in_fault(rt, t, tid) || slot.run.load(Acquire) != run {
        return Attempt::Elsewhere;
    }
    let Some(spare) = rt.spares.take() else { return Attempt::Asked };
    t.fault.ask(run);
    // If it wakes, or the signal ends its sleep, it is preempted like any other.
    slot.request.begin(run, tsc::now(), rt.lost_after, true);
    let taken = super::signal::send(rt, tid)
        && signal_is_pending(tid, rt.config.signal)
        && sleeps_in_fault(rt, t, tid)
        && slot.run.load(Acquire) == run
        && slot.tid.load(Relaxed) == tid
        && claim_as_away(rt, t, run);
    if !taken {
        t.fault.forget(run);
        rt.spares.put_back(spare);
        return Attempt::Asked;
    }
    slot.stats.fault_handovers.add(1);
    // SAFETY: the claim has made the slot ours. Its carrier is alive: it sleeps, or is in the
    // handler, which writes the same word. Should another handler's frame come first, it finds no
    // slot.
    unsafe {
        let sleeper = &*slot.carrier.load(Relaxed);
        sleeper.slot.set(core::ptr::null());
        sleeper.turns.change_for(tid, Role::Away);
        scheduler::release(slot, Some(t));
    }
    spare.take_over(slot);
    Attempt::Taken
}

/// The carrier counts as away before the handler can say that it is back.
fn claim_as_away(rt: &Inner, t: &Uthread, run: u64) -> bool {
    rt.away.fetch_add(1, AcqRel);
    let taken = t.fault.take(run);
    if !taken {
        rt.away.fetch_sub(1, AcqRel);
    }
    taken
}

/// By the handler: has the slot been taken from `t` while it slept? Then the thread has queued for
/// a worker and runs on one again, or must go on without.
///
/// # Safety
///
/// As for [`judge`](super::judge::judge).
#[cold]
pub(super) unsafe fn wakes(
    c: &Carrier,
    t: &'static Uthread,
    gate: u32,
    frame: &mut impl Frame,
) -> Option<Verdict> {
    match t.fault.found() {
        Found::Taken => c.lose_slot(),
        Found::Strays if c.slot().is_none() && t.blocking.get() == 0 => {}
        Found::Nothing | Found::Strays => return None,
    }
    // Another handler's frame may have come between the fault and this one: it must end first.
    // SAFETY: `frame` is where `t` was interrupted.
    let place = pkru::with_all_rights(|| unsafe { interrupted_at(c.rt(), t, frame) });
    if gate > 0 || !matches!(place, Place::Anywhere | Place::Syscall | Place::Interrupted) {
        t.fault.strays();
        return Some(Verdict::Stale);
    }
    // SAFETY: the calling thread, gate closed.
    unsafe { scheduler::leave_if_work(t, Why::Woken) };
    Some(Verdict::HandedOver)
}

/// Does the carrier `tid` sleep in a page fault of `t`, where `t` may be left alone?
fn sleeps_in_fault(rt: &Inner, t: &Uthread, tid: i32) -> bool {
    let Some((sp, pc)) = fault_of(tid) else { return false };
    // SAFETY: in bounds. The words belong to the thread, which sleeps; if it does not any more, the
    // claim fails, whatever is read here.
    let [sections, regions, blocking] =
        [&t.no_preempt, &t.regions, &t.blocking].map(|c| unsafe { c.as_ptr().read_volatile() });
    // SAFETY: as above.
    let own_tls = unsafe { t.fs.as_ptr().read_volatile() } != 0;
    sections == 0
        && regions == 0
        && blocking == 0
        && own_tls
        && rt.table.stack(t).contains(&sp)
        && !entry::contains(pc)
        // SAFETY: on the thread's own stack.
        && unsafe { code_of_thread(pc, sp) } == Code::Free
}

/// Stack pointer and address of a kernel thread of this process that sleeps in the kernel, but in
/// no system call.
fn fault_of(tid: i32) -> Option<(usize, usize)> {
    in_no_call(&read(tid, "syscall")?)
}

/// The same from the text of the file.
fn in_no_call(text: &str) -> Option<(usize, usize)> {
    let mut words = text.strip_prefix("-1 ")?.split_ascii_whitespace();
    let mut address = || usize::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok();
    Some((address()?, address()?))
}

/// Does the kernel thread sleep, untraced, with the signal pending and not blocked?
fn signal_is_pending(tid: i32, signal: i32) -> bool {
    read(tid, "status").is_some_and(|status| pending_in(&status, signal))
}

/// The same from the text of the file.
fn pending_in(status: &str, signal: i32) -> bool {
    let field = |name| {
        let mut lines = status.lines();
        lines.find_map(|line| Some(line.strip_prefix(name)?.strip_prefix(':')?.trim()))
    };
    let has = |name| {
        let mask = field(name).and_then(|mask| u64::from_str_radix(mask, 16).ok());
        mask.map(|mask| mask >> (signal - 1) & 1 == 1)
    };
    field("State").is_some_and(|state| state.starts_with(['D', 'S']))
        && field("TracerPid") == Some("0")
        && has("SigPnd") == Some(true)
        && has("SigBlk") == Some(false)
}

fn read(tid: i32, file: &str) -> Option<String> {
    std::fs::read_to_string(format!("/proc/self/task/{tid}/{file}")).ok()
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::sys;

    #[test]
    fn calls_and_running_threads_are_no_faults() {
        assert_eq!(in_no_call("-1 0x7ffe 0x7f0\n"), Some((0x7ffe, 0x7f0)));
        for text in ["running\n", "0 0x3 0x1 0x2 0x0 0x0 0x0 0x7ffe 0x7f0\n", "-1", "-1 12 13", ""]
        {
            assert_eq!(in_no_call(text), None, "{text}");
        }
    }

    #[test]
    fn the_signal_must_be_pending_and_allowed() {
        let status = |state: &str, tracer: u32, pending: u64, blocked: u64| {
            format!(
                "Name:\tx\nState:\t{state}\nTracerPid:\t{tracer}\nSigPnd:\t{pending:016x}\n\
                 ShdPnd:\t0000000000000000\nSigBlk:\t{blocked:016x}\n"
            )
        };
        let bit = 1 << 22;
        assert!(pending_in(&status("D (disk sleep)", 0, bit, 0), 23));
        assert!(pending_in(&status("S (sleeping)", 0, bit | 1, 1), 23));
        assert!(!pending_in(&status("R (running)", 0, bit, 0), 23));
        assert!(!pending_in(&status("t (tracing stop)", 0, bit, 0), 23));
        assert!(!pending_in(&status("D (disk sleep)", 9, bit, 0), 23), "a tracer may eat it");
        assert!(!pending_in(&status("D (disk sleep)", 0, bit << 1, 0), 23));
        assert!(!pending_in(&status("D (disk sleep)", 0, bit, bit), 23));
        assert!(!pending_in("", 23));
    }

    /// The kernel says of this thread, which waits in a call, what is expected.
    #[test]
    fn who_waits_in_a_call_has_no_fault() {
        let (tid, asleep) = (std::sync::atomic::AtomicI32::new(0), std::sync::Barrier::new(2));
        std::thread::scope(|s| {
            s.spawn(|| {
                tid.store(sys::gettid(), SeqCst);
                asleep.wait();
            });
            while tid.load(SeqCst) == 0 {
                std::thread::yield_now();
            }
            assert_eq!(fault_of(tid.load(SeqCst)), None);
            assert!(!signal_is_pending(tid.load(SeqCst), 23));
            asleep.wait();
        });
    }
}
