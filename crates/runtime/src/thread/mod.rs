//! User threads: starting, joining, names, scopes. The API follows `std::thread`.

mod builder;
pub(crate) mod control;
mod handle;
mod join;
pub(crate) mod label;
pub(crate) mod life;
mod packet;
mod pool;
pub(crate) mod raw;
pub(crate) mod run_time;
mod scope;
pub(crate) mod stack;
pub(crate) mod table;

pub use builder::Builder;
pub(crate) use builder::{spawn_unchecked, spawn_with};
pub use handle::{Thread, ThreadId, current, park, park_timeout, yield_now};
pub(crate) use handle::{only_yield, try_yield, try_yield_to_fresh};
pub use join::JoinHandle;
pub use quaver_sched::Service;
pub(crate) use scope::wake_owners;
pub use scope::{Scope, ScopedJoinHandle, scope};

use crate::arch::{pkru, switch};
use crate::park::{self, Waiter};
use crate::preempt;
use crate::runtime::{Inner, NoRuntime, ShutDown};
use crate::tls::shared;
use crate::worker::carrier::{After, Carrier};
use crate::worker::scheduler;
use crate::worker::slot::Slot;
use control::{Uthread, park_state, phase};
use core::sync::atomic::Ordering::*;
use life::Leaving;
use quaver_sched::{Attributes, Why};
use stack::OwnStack;
use std::io;
use std::sync::Arc;
use table::LocalPool;

/// Starts a user thread.
///
/// On a worker it goes to the worker's own queue; from a kernel thread to the shared one. The
/// thread may start at once on another worker, and is preempted like any other. The closure lives
/// on the new thread's stack: no allocation is made (unless it is very large). Never blocks.
///
/// # Panics
///
/// If no runtime is running, the limit of threads is reached, or memory is exhausted.
/// [`Builder::spawn`] reports these as errors.
///
/// ```
/// # quaver::Builder::new().workers(1).build().unwrap().run(|| {
/// let answer = quaver::spawn(|| 6 * 7);
/// assert_eq!(answer.join().unwrap(), 42);
/// # });
/// ```
#[track_caller]
pub fn spawn<T: Send + 'static>(f: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    match Builder::new().spawn(f) {
        Ok(handle) => handle,
        Err(e) => panic!("cannot spawn a user thread: {e}"),
    }
}

/// Starts a user thread that nobody will join. A panic in it is reported on standard error and ends
/// only it.
///
/// # Panics
///
/// As [`spawn`].
#[track_caller]
pub fn spawn_detached(f: impl FnOnce() + Send + 'static) {
    let rt = Inner::running().ok_or_else(|| io::Error::other(NoRuntime));
    if let Err(e) = rt.and_then(|rt| spawn_detached_on(rt, f)) {
        panic!("cannot spawn a user thread: {e}");
    }
}

pub(crate) fn spawn_detached_on(
    rt: &'static Inner,
    f: impl FnOnce() + Send + 'static,
) -> io::Result<()> {
    // SAFETY: everything is 'static.
    unsafe { Start { detached: true, ..Start::new(&Attributes::default()) }.start(rt, f) }.map(drop)
}

/// What a thread is started with.
struct Start<'a> {
    name: Option<Box<str>>,
    attributes: &'a Attributes,
    /// There will be no handle.
    detached: bool,
    /// To be told when nothing of the thread borrows any more.
    scope: Option<Arc<scope::Data>>,
    /// `None`: the one in its region.
    stack: Option<OwnStack>,
}

impl<'a> Start<'a> {
    fn new(attributes: &'a Attributes) -> Start<'a> {
        Start { name: None, attributes, detached: false, scope: None, stack: None }
    }

    /// Makes a thread and queues it.
    ///
    /// # Safety
    ///
    /// As [`spawn_unchecked`].
    unsafe fn start<T: Send, F: FnOnce() -> T + Send>(
        self,
        rt: &'static Inner,
        f: F,
    ) -> io::Result<u32> {
        let stack_size = self.stack.as_ref().map_or(rt.config.stack_size, OwnStack::size);
        let room = packet::PacketRoom::new::<F, T>(stack_size);
        let me = raw::current();
        let (t, slot) = take_thread(rt, me)?;
        if let Some(stack) = self.stack {
            rt.table.put_on(t, stack);
        }
        // SAFETY: `t` is free and ours; the caller vouches for lifetimes.
        unsafe {
            let packet = packet::place::<F, T>(t, f, room);
            t.rsp.set(switch::init_stack(packet & !15, thread_main));
            *t.name.get() = self.name;
        }
        t.label.set([0; 16]);
        t.scope.set(self.scope.map_or(core::ptr::null(), Arc::into_raw));
        t.no_preempt.set(1);
        t.regions.set(0);
        t.unstoppable.set(0);
        t.mutexes.set(0);
        t.blocking.set(0);
        t.pkru.set(pkru::get());
        t.park.store(park_state::EMPTY, Relaxed);
        t.life.begin(self.detached);
        // SAFETY: this carrier has the slot and preemption is disabled.
        let id = LocalPool::next_id(slot.map(|s| unsafe { s.pool() }));
        t.id.set(id);
        t.permit.store(id << 1, Relaxed);
        t.ran.reset();
        t.phase.store(phase::ALIVE, Relaxed);
        t.pacing.begin();
        let stats = slot.map_or(&rt.stats, |s| &s.stats);
        stats.spawned.add_shared(1, slot.is_none());
        rt.policy.task_init(t.task(), self.attributes, slot.map_or(0, Slot::run_since));
        let handle = t.handle;
        scheduler::make_runnable(rt, slot, t, Why::New, true);
        if let Some(me) = me {
            me.preempt_enable();
        }
        Ok(handle)
    }
}

/// Takes a free thread, for the calling user thread (`me`) or a kernel thread. On success
/// preemption is disabled, and the slot is the caller's.
///
/// # Errors
///
/// The runtime has been shut down, the limit of threads is reached, or memory is exhausted.
#[inline]
fn take_thread(
    rt: &'static Inner,
    me: Option<&'static Uthread>,
) -> io::Result<(&'static Uthread, Option<&'static Slot>)> {
    let mut announced = false;
    loop {
        if let Some(me) = me {
            me.preempt_disable();
        }
        // SAFETY: preemption is disabled until the slot has been used (or this is no user thread).
        let slot = me.and_then(|_| unsafe { Carrier::here() }.slot());
        if slot.is_none() != announced {
            if announced {
                rt.table.retract()
            } else {
                rt.table.announce()
            }
            announced = !announced;
        }
        // After announcing: the runtime does not let go of the table while that stands.
        let stopping = rt.stopping.load(SeqCst);
        if !stopping {
            // SAFETY: this carrier has the slot and preemption is disabled.
            let pool = slot.map(|s| unsafe { s.pool() });
            if let Some(t) = rt.table.take(pool) {
                return Ok((t, slot));
            }
        }
        // Whatever allocates waits until preemption is enabled: the allocator's lock may be another
        // thread's.
        if let Some(me) = me {
            me.preempt_enable();
        }
        let grown = if stopping {
            Err(io::Error::other(ShutDown))
        } else {
            rt.table.grow().map_err(io::Error::other)
        };
        if let Err(e) = grown {
            if announced {
                rt.table.retract();
            }
            return Err(e);
        }
    }
}

/// The first function of every user thread.
extern "C" fn thread_main() -> ! {
    // This block's flag: `finish_switch` and everything after may ask who it is.
    raw::attach();
    scheduler::finish_switch();
    let Some(t) = raw::current() else { unreachable!("a thread that is nobody") };
    pkru::set(t.pkru.get());
    // SAFETY: preemption is still disabled.
    let rt = unsafe { Carrier::here() }.rt();
    let tls = rt.table.tls();
    match tls {
        Some(tls) if !t.tls_ready.replace(true) => tls.init_from_inside(),
        Some(_) => {}
        // SAFETY: prepared when the runtime was built; the thread that ran here before has saved
        // its own.
        None => unsafe { shared::begin() },
    }
    t.preempt_enable();
    if let Some(run) = t.run.get() {
        // SAFETY: placed by `start` for this run; catches panics.
        unsafe { run(t.packet.get()) };
    }
    let scope = t.scope.replace(core::ptr::null());
    let dropped = if scope.is_null() { t.life.is_detached() } else { t.life.ready() };
    if dropped {
        packet::drop_result(t);
    }
    if !scope.is_null() {
        // SAFETY: made by `Arc::into_raw` in `start`, and taken here once.
        unsafe { Arc::from_raw(scope) }.leave();
    }
    match tls {
        Some(tls) => tls.run_destructors(),
        None => {
            t.preempt_disable();
            // SAFETY: prepared; preemption is disabled.
            let handle = unsafe { shared::end() };
            t.preempt_enable();
            drop(handle);
        }
    }
    if !raw::attached() {
        // It has forked, this is the child, and its last thread ends.
        std::process::exit(0);
    }
    // SAFETY: the thread's own; debuggers and the overflow report look at it only while the thread
    // runs.
    drop(unsafe { (*t.name.get()).take() });
    t.preempt_disable();
    match (t.life.exiting(dropped), t.joiner()) {
        (Leaving::Joined, Some(joiner)) => park::unpark(joiner),
        (Leaving::Suspended, Some(Waiter::User { handle, .. })) => {
            // SAFETY: preemption is disabled, and the slot is used at once.
            let slot = unsafe { Carrier::here() }.slot();
            let joiner = rt.table.get(handle);
            scheduler::make_runnable(rt, slot, joiner, Why::Woken, false);
        }
        (Leaving::Detached, _) => {
            // Code of the user. Nobody waits for the end.
            t.preempt_enable();
            packet::drop_result(t);
            t.preempt_disable();
        }
        _ => {}
    }
    // SAFETY: the calling thread, preemption disabled. Nobody resumes an ended thread.
    unsafe { scheduler::leave(t, After::Exit(t)) };
    unreachable!("an ended user thread was resumed")
}

/// Makes an ended thread's block and stack available again. Called with preemption disabled.
pub(crate) fn recycle(rt: &Inner, slot: Option<&Slot>, t: &Uthread) {
    preempt::assert_disabled();
    // Nothing is freed here: allocators have locks, and this may run on the stack of another,
    // interrupted thread.
    // SAFETY: this carrier has the slot and preemption is disabled.
    rt.table.give(t, slot.map(|s| unsafe { s.pool() }));
}

/// [`recycle`] from wherever a handle is dropped.
fn recycle_here(rt: &'static Inner, t: &Uthread) {
    let me = raw::current();
    if let Some(me) = me {
        me.preempt_disable();
    }
    // SAFETY: preemption is disabled until the slot has been used (or this is no user thread).
    let slot = me.and_then(|_| unsafe { Carrier::here() }.slot());
    recycle(rt, slot, t);
    if let Some(me) = me {
        me.preempt_enable();
    }
}

/// Gives a thread another priority and lets those know whom it concerns. `false`: the policy heeds
/// none. The caller sees to it that `t` is not recycled meanwhile.
pub(crate) fn set_priority(rt: &'static Inner, t: &Uthread, priority: u8) -> bool {
    if !rt.policy.heeds_priority() {
        return false;
    }
    let me = raw::current();
    if let Some(me) = me {
        me.preempt_disable();
    }
    rt.policy.set_priority(t.task(), priority);
    // It may have to run before something that runs now, or to give way.
    if !rt.idle.wake_one(rt) {
        rt.clock.work_somewhere(rt);
    }
    if let Some(me) = me {
        me.preempt_enable();
    }
    true
}
