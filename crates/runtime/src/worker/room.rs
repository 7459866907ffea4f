//! The waiting room: threads that block in the kernel when all kernel threads that there may be are
//! blocked already.
//!
//! Such a thread cannot make its call without keeping a worker from the others. So it is switched
//! out at the call, and one kernel thread, the *porter*, waits in `poll` for the files of all of
//! them; who finds its file ready queues for a worker and makes its call, which does not wait any
//! more. Calls that wait for something else are made again after a while.
//!
//! ```text
//!  thread, in the handler                        porter
//!  node on its own stack; leave()                take all nodes that have come
//!  far side: push the node, then signal          ppoll(files, earliest time), signal unblocked
//!  ...                                           node is ready: make its thread runnable
//!  resumed: the node is nobody's, gone
//! ```
//!
//! A node is published by the far side of the switch, so its thread is switched out before the
//! porter can see it, and it is not touched after its thread has been made runnable. The signal
//! that ends the porter's `ppoll` is blocked outside of it, so it is not lost between taking nodes
//! and waiting.

use crate::runtime::Inner;
use crate::sys;
use crate::thread::control::Uthread;
use crate::tsc::{self, NEVER, Ticks};
use crate::worker::scheduler;
use core::cell::Cell;
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicUsize, Ordering::*};
use quaver_sched::Why;
use std::time::Duration;

/// When a call is made again that waits for no file.
const AGAIN: Duration = Duration::from_millis(20);
/// When `poll` fails, all calls are made again after this time.
const FAILED: Duration = Duration::from_millis(100);

/// What a call waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum For {
    /// A file, with these events of `poll`.
    File(i32, i16),
    /// Nobody can tell.
    Time,
}

/// A thread in the room. Lives on that thread's stack.
pub(crate) struct Occupant {
    thread: &'static Uthread,
    what: For,
    next: Cell<*mut Occupant>,
}

impl Occupant {
    pub(crate) fn new(thread: &'static Uthread, what: For) -> Occupant {
        Occupant { thread, what, next: Cell::new(core::ptr::null_mut()) }
    }
}

/// Who waits here.
pub(crate) struct Room {
    /// Nodes that have come since the porter took the last ones.
    arrived: AtomicPtr<Occupant>,
    count: AtomicUsize,
    /// The porter's kernel thread; 0: there is none yet.
    porter: AtomicI32,
    /// One is needed, or has been started.
    wanted: AtomicBool,
    started: AtomicBool,
}

impl Room {
    pub(crate) fn new() -> Room {
        Room {
            arrived: AtomicPtr::new(core::ptr::null_mut()),
            count: AtomicUsize::new(0),
            porter: AtomicI32::new(0),
            wanted: AtomicBool::new(false),
            started: AtomicBool::new(false),
        }
    }

    /// How many wait.
    pub(crate) fn count(&self) -> usize {
        self.count.load(Relaxed)
    }

    /// Must a porter be started? Asked by the keeper of the spares.
    pub(crate) fn wants_porter(&self) -> bool {
        self.wanted.load(Acquire) && !self.started.swap(true, AcqRel)
    }

    /// The porter could not be started: the keeper asks again.
    pub(crate) fn has_no_porter(&self) {
        self.started.store(false, Release);
    }

    /// A thread has been switched out to wait here.
    ///
    /// # Safety
    ///
    /// `node` lives until the thread is resumed, which happens only after it has been made runnable
    /// here.
    pub(crate) unsafe fn enter(&self, rt: &Inner, node: *mut Occupant) {
        self.count.fetch_add(1, Relaxed);
        let mut head = self.arrived.load(Relaxed);
        loop {
            // SAFETY: the caller's contract; nobody else knows the node yet.
            unsafe { (*node).next.set(head) };
            match self.arrived.compare_exchange_weak(head, node, SeqCst, Relaxed) {
                Ok(_) => break,
                Err(now) => head = now,
            }
        }
        if !self.wanted.swap(true, SeqCst) {
            rt.spares.wake_keeper();
        }
        self.wake(rt);
    }

    /// Makes the porter look.
    pub(crate) fn wake(&self, rt: &Inner) {
        let porter = self.porter.load(SeqCst);
        if porter != 0 {
            let _ = sys::tgkill(rt.pid, porter, rt.config.signal);
        }
    }
}

/// What the porter knows of a node.
struct Guest {
    node: *mut Occupant,
    /// When it goes, whatever has happened.
    until: Ticks,
}

/// The porter's kernel thread. It may allocate: nobody whom it serves holds a lock of the
/// allocator, for they are all in calls that block.
pub(crate) fn porter(rt: &'static Inner) {
    let room = &rt.room;
    room.porter.store(sys::gettid(), SeqCst);
    let (mut guests, mut files): (Vec<Guest>, Vec<libc::pollfd>) = (Vec::new(), Vec::new());
    while !rt.stopping.load(Relaxed) {
        let mut node = room.arrived.swap(core::ptr::null_mut(), SeqCst);
        let now = tsc::now();
        // SAFETY: in the list, so its thread waits.
        while let Some(guest) = unsafe { node.as_ref() } {
            let (fd, events, until) = match guest.what {
                For::File(fd, events) => (fd, events, NEVER),
                For::Time => (-1, 0, now + tsc::from_duration(AGAIN)),
            };
            guests.push(Guest { node, until });
            files.push(libc::pollfd { fd, events, revents: 0 });
            node = guest.next.get();
        }
        let first = guests.iter().map(|guest| guest.until).min().unwrap_or(NEVER);
        let time = (first != NEVER).then(|| tsc::to_duration(first.saturating_sub(now)));
        let failed = match sys::ppoll(&mut files, time, rt.config.signal) {
            Ok(()) | Err(libc::EINTR) => false,
            // More files than the process may have open: some are waited for by many.
            Err(_) => {
                std::thread::sleep(FAILED);
                true
            }
        };
        let now = tsc::now();
        for i in (0..guests.len()).rev() {
            if failed || files[i].revents != 0 || guests[i].until <= now {
                files.swap_remove(i);
                let node = guests.swap_remove(i).node;
                // SAFETY: its thread waits until the next line but one.
                let thread = unsafe { (*node).thread };
                room.count.fetch_sub(1, Relaxed);
                scheduler::make_runnable(rt, None, thread, Why::Woken, false);
            }
        }
    }
}
