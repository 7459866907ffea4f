//! Threads that a request finds in a system call that blocks: they make it without a worker.

use super::defer::put_off;
use super::frame::{Frame, SystemCall};
use super::judge::Verdict;
use crate::arch::pkru;
use crate::os::turns::Role;
use crate::runtime::Inner;
use crate::sys;
use crate::thread::control::Uthread;
use crate::tsc;
use crate::worker::carrier::{After, Carrier};
use crate::worker::scheduler;
use crate::worker::slot::Slot;
use core::sync::atomic::Ordering::*;
use quaver_sched::Why;

/// `t` waits for a lock of the C library or a mutex. Others go on meanwhile; but it is not stopped
/// for good, because it may hold another lock of the library (malloc waits for one list's lock
/// while it has an arena's).
///
/// # Safety
///
/// As for [`judge`](super::judge::judge); the thread is at that call.
pub(super) unsafe fn wait_for_library(
    c: &Carrier,
    slot: &Slot,
    t: &'static Uthread,
    now: tsc::Ticks,
    frame: &mut impl Frame,
) -> Verdict {
    let rt = c.rt();
    if rt.stopping.load(Relaxed) {
        // The holder runs: who was stopped before holds no such lock.
        slot.stats.preempt_deferred.add_shared(1, true);
        put_off(slot, now);
        return Verdict::Deferred;
    }
    let late = slot.late_by(now);
    rt.in_library.wait();
    // SAFETY: the gate is closed, and the thread is at a system call that it wants to make, or else
    // leaves as any thread.
    let verdict = unsafe {
        if scheduler::hand_over(c) {
            slot.count_useful(late);
            make_call_without_slot(rt, t, frame);
            Verdict::HandedOver
        } else if scheduler::leave_if_work(t, Why::Preempted) {
            slot.count_useful(late);
            Verdict::Preempted
        } else {
            put_off(slot, now);
            Verdict::Alone
        }
    };
    rt.in_library.leave();
    verdict
}

/// Makes the system call at which `t` was interrupted, on a carrier that has just given its slot
/// away, then queues `t` and returns when a worker has resumed it.
///
/// Who comes back from a futex may have been woken to take a lock. If the runtime ends before the
/// thread can do so, somebody else must be woken: it may be a lock of malloc's, for which kernel
/// threads wait, too.
///
/// # Safety
///
/// `t`, the calling thread, was interrupted at `frame`, at a `syscall` instruction; the gate is
/// closed.
pub(super) unsafe fn make_call_without_slot(
    rt: &Inner,
    t: &'static Uthread,
    frame: &mut impl Frame,
) {
    let SystemCall { number, args } = frame.call();
    // SAFETY: the arguments are what the thread itself was about to pass to the kernel.
    unsafe {
        let rights = pkru::get();
        // A spare waits for this CPU already, and it will be busy when the call returns.
        Carrier::here().turns.change(Role::Away);
        pkru::set(frame.rights());
        t.away.store(sys::gettid(), SeqCst);
        let result = sys::syscall6(number, args);
        let again = t.away.swap(0, SeqCst) < 0 && result == -i64::from(libc::EINTR);
        pkru::set(rights);
        if !again {
            frame.finish_call(result);
        }
        let comes_back = rt.in_library.enter();
        if !comes_back && number == libc::SYS_futex && result == 0 {
            pass_wake_on(args);
        }
        if t.fs.get() == 0 {
            // The library in which it is may have noted this carrier's thread-local variables, or
            // the carrier as the owner of a lock (`fgets` does).
            scheduler::leave_and_come_home(t, Why::Woken);
        } else {
            scheduler::leave(t, After::Requeue(t, Why::Woken));
        }
        if comes_back {
            rt.in_library.leave();
        }
    }
}

/// Wakes another one, after a futex call with these arguments has been woken, or was no wait.
///
/// # Safety
///
/// The arguments of a `futex` call of the program's that has succeeded.
unsafe fn pass_wake_on([word, operation, .., bits]: [u64; 6]) {
    let how = operation as i32 & !libc::FUTEX_CLOCK_REALTIME;
    let (operation, bits) = match how & libc::FUTEX_CMD_MASK {
        libc::FUTEX_WAIT => (libc::FUTEX_WAKE, 0),
        libc::FUTEX_WAIT_BITSET => (libc::FUTEX_WAKE_BITSET, bits),
        _ => return,
    };
    let operation = operation | how & libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: waking touches no memory of the program's.
    unsafe { sys::syscall6(libc::SYS_futex, [word, operation as u64, 1, 0, 0, bits]) };
}
