//! The kernel threads of a runtime: what each does, and their start.

use super::Inner;
use crate::clock;
use crate::interpose;
use crate::kernel_thread::{self, ThreadPurpose};
use crate::reactor::{self, REACTOR};
use crate::share::Share;
use crate::worker::carrier;
use crate::worker::descheduled;
use crate::worker::room;
use crate::worker::slot::Slot;
use core::ffi::CStr;
use core::sync::atomic::Ordering::*;
use std::io::Write;

impl Inner {
    fn start<T: Sync>(
        &self,
        kind: ThreadPurpose,
        argument: &'static T,
        body: extern "C" fn(&'static T),
    ) -> std::io::Result<()> {
        self.alive.fetch_add(1, AcqRel);
        kernel_thread::start(kind, argument, body).inspect_err(|_| self.thread_gone())
    }

    /// Starts all kernel threads but further spares.
    pub(super) fn start_all(&'static self) -> std::io::Result<()> {
        if self.share.as_ref().is_some_and(Share::fills_cores) {
            // Before a worker could listen.
            REACTOR.reserve_listener()?;
            self.start(ThreadPurpose::Service, self, listener)?;
        }
        let carrier = ThreadPurpose::Carrier(self.signal_mask);
        self.slots().iter().try_for_each(|slot| self.start(carrier, slot, first_carrier))?;
        self.start(ThreadPurpose::Service, self, keeper)?;
        if self.clock.thread().is_some() {
            let sleeps = matches!(self.clock, clock::Running::Thread(_));
            let watches = sleeps && self.descheduled.is_some();
            let kind = if watches { ThreadPurpose::Watcher } else { ThreadPurpose::Service };
            self.start(kind, self, clock_thread)?;
        }
        if self.descheduled.is_some() {
            self.start(ThreadPurpose::Watcher, self, monitor_thread)?;
        }
        for (rescue, body) in self.rescue.iter().zip([rescue_thread, fault_thread]) {
            if rescue.is_some() {
                self.start(ThreadPurpose::Service, self, body)?;
            }
        }
        self.spares.wait_for_first();
        Ok(())
    }
}

extern "C" fn first_carrier(slot: &'static Slot) {
    let mut name = *b"quaver-\0\0\0\0\0";
    let _ = write!(&mut name[7..11], "{}", slot.id);
    kernel_thread::name(CStr::from_bytes_until_nul(&name).unwrap_or(c"quaver"));
    carrier::main(slot.rt(), Some(slot));
}

extern "C" fn spare_carrier(rt: &'static Inner) {
    kernel_thread::name(c"quaver-spare");
    carrier::main(rt, None);
}

extern "C" fn keeper(rt: &'static Inner) {
    kernel_thread::name(c"quaver-keeper");
    let stop = || {
        interpose::wake_postponed();
        rt.stopping.load(Acquire)
    };
    rt.spares.keep(
        stop,
        || rt.start(ThreadPurpose::Carrier(rt.signal_mask), rt, spare_carrier),
        || {
            let porter =
                !rt.room.wants_porter() || rt.start(ThreadPurpose::Service, rt, porter).is_ok();
            if !porter {
                rt.room.has_no_porter();
            }
            let watcher =
                !rt.watch.is_to_start() || rt.start(ThreadPurpose::Service, rt, watcher).is_ok();
            if !watcher {
                rt.watch.has_not_started();
            }
            porter && watcher
        },
    );
    rt.thread_gone();
}

extern "C" fn porter(rt: &'static Inner) {
    kernel_thread::name(c"quaver-porter");
    room::porter(rt);
    rt.thread_gone();
}

extern "C" fn watcher(rt: &'static Inner) {
    kernel_thread::name(c"quaver-watch");
    reactor::watch(rt);
    rt.thread_gone();
}

extern "C" fn listener(rt: &'static Inner) {
    kernel_thread::name(c"quaver-files");
    REACTOR.serve(rt);
    rt.thread_gone();
}

extern "C" fn rescue_thread(rt: &'static Inner) {
    kernel_thread::name(c"quaver-rescue");
    clock::rescue::run(rt, clock::rescue::CALLS);
    rt.thread_gone();
}

extern "C" fn fault_thread(rt: &'static Inner) {
    kernel_thread::name(c"quaver-faults");
    clock::rescue::run(rt, clock::rescue::FAULTS);
    rt.thread_gone();
}

extern "C" fn monitor_thread(rt: &'static Inner) {
    kernel_thread::name(c"quaver-monitor");
    descheduled::run(rt);
    rt.thread_gone();
}

extern "C" fn clock_thread(rt: &'static Inner) {
    kernel_thread::name(c"quaver-clock");
    crate::preempt::attach(rt);
    if let Some(keep_time) = rt.clock.thread() {
        keep_time(rt);
    }
    rt.thread_gone();
}
