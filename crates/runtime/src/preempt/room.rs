//! Threads that a request finds in a system call that blocks, when there is no kernel thread to
//! make it on.

use super::frame::{Frame, SystemCall};
use crate::sys;
use crate::thread::control::Uthread;
use crate::worker::carrier::{After, Carrier};
use crate::worker::room::{For, Occupant};
use crate::worker::scheduler;
use crate::worker::slot::Slot;

/// Lets `t` wait in the room until its call need not wait, if no kernel thread is to be had for it
/// soon. `false`: it has not waited. Afterwards it makes the call on whatever worker it is.
///
/// # Safety
///
/// `t`, the calling thread, was interrupted at `frame`, at a system call that may block; the gate
/// is closed.
pub(super) unsafe fn wait_in_room(
    c: &Carrier,
    slot: &Slot,
    t: &'static Uthread,
    frame: &impl Frame,
) -> bool {
    if c.rt().spares.expected() {
        return false;
    }
    let Some(what) = waits_for(frame.call()) else { return false };
    slot.stats.blocking_limit_reached.add_shared(1, true);
    let mut node = Occupant::new(t, what);
    // SAFETY: the calling thread, gate closed. The node outlives the wait, which ends when the
    // porter has let go of it.
    unsafe { scheduler::leave(t, After::Aside(&raw mut node)) };
    true
}

/// What the call waits for; `None`: it does not wait, or for a limited time.
fn waits_for(call: SystemCall) -> Option<For> {
    let fd = call.args[0] as i32;
    let (events, flags) = match call.number {
        libc::SYS_read | libc::SYS_readv | libc::SYS_accept | libc::SYS_accept4 => {
            (libc::POLLIN, 0)
        }
        libc::SYS_write | libc::SYS_writev | libc::SYS_connect => (libc::POLLOUT, 0),
        libc::SYS_recvfrom | libc::SYS_recvmmsg => (libc::POLLIN, call.args[3]),
        libc::SYS_recvmsg => (libc::POLLIN, call.args[2]),
        libc::SYS_sendto | libc::SYS_sendmmsg => (libc::POLLOUT, call.args[3]),
        libc::SYS_sendmsg => (libc::POLLOUT, call.args[2]),
        _ => return Some(For::Time),
    };
    // The call may be about to be made for the first time, so it is not known yet to wait.
    let does_not_wait = flags as i32 & libc::MSG_DONTWAIT != 0 || sys::is_nonblocking(fd);
    (!does_not_wait && !sys::has_timeout(fd)).then_some(For::File(fd, events))
}
