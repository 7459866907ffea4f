//! User threads: starting, joining, names, scopes. The API follows `std::thread`.

pub(crate) mod control;
mod join;
pub(crate) mod label;
mod local;
mod packet;
pub(crate) mod raw;
mod scope;
pub(crate) mod stack;
pub(crate) mod table;

pub use join::JoinHandle;
pub(crate) use local::try_yield;
pub use local::{Thread, ThreadId, current, park, park_timeout, yield_now};
pub use quaver_sched::Service;
pub use scope::{Scope, ScopedJoinHandle, scope};

use crate::arch::{pkru, switch};
use crate::park;
use crate::runtime::{Inner, NoRuntime, ShutDown};
use crate::tls::shared;
use crate::worker::carrier::{After, Carrier};
use crate::worker::scheduler;
use crate::worker::slot::Slot;
use control::{Uthread, life, park_state, phase};
use core::sync::atomic::{AtomicU64, Ordering::*};
use quaver_sched::{Attributes, Why};
use std::io;
use std::sync::Arc;

/// Starts a user thread.
///
/// On a worker it goes to the worker's own queue; from a kernel thread to the shared one. The thread may start at
/// once on another worker, and is preempted like any other. The closure lives on the new thread's stack: no allocation is
/// made (unless it is very large). Never blocks.
///
/// # Panics
///
/// If no runtime is running, the limit of threads is reached, or memory is exhausted. [`Builder::spawn`] reports these as
/// errors.
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

/// Starts a user thread that nobody will join. A panic in it is reported on standard error and ends only it.
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

/// Properties of a thread to be started.
///
/// ```
/// # quaver::Builder::new().workers(1).build().unwrap().run(|| {
/// let t = quaver::thread::Builder::new().name("worker".into()).spawn(|| {
///     assert_eq!(quaver::thread::current().unwrap().name().as_deref(), Some("worker"));
/// })?;
/// t.join().unwrap();
/// # Ok::<(), std::io::Error>(())
/// # }).unwrap();
/// ```
#[derive(Debug, Default)]
pub struct Builder {
    name: Option<String>,
    attributes: Attributes,
}

impl Builder {
    /// A thread without a name.
    pub fn new() -> Builder {
        Builder::default()
    }

    /// Names the thread, for debuggers and for the report of a stack overflow.
    #[must_use]
    pub fn name(mut self, name: String) -> Builder {
        self.name = Some(name);
        self
    }

    /// The thread's share of processor time, relative to others: 1 to 10000, default 100; values outside are taken for the
    /// nearest. Heeded by the policies `cfs` and `eevdf`.
    #[must_use]
    pub fn weight(mut self, weight: u32) -> Builder {
        self.attributes.weight = weight;
        self
    }

    /// How urgent the thread is: 0 to 7, the most urgent, default 3; larger values are taken for 7.
    /// Heeded by the policy `priority`. [`JoinHandle::set_priority`] changes it later.
    #[must_use]
    pub fn priority(mut self, priority: u8) -> Builder {
        self.attributes.priority = priority;
        self
    }

    /// Whether somebody waits for the thread (the default), or it may have what the others leave. Heeded by the policy
    /// `shinjuku-shenango`.
    #[must_use]
    pub fn service(mut self, service: Service) -> Builder {
        self.attributes.service = service;
        self
    }

    /// Starts the thread.
    ///
    /// # Errors
    ///
    /// No runtime is running, the limit of threads is reached, or memory is exhausted.
    pub fn spawn<T: Send + 'static>(
        self,
        f: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<JoinHandle<T>> {
        let rt = Inner::running().ok_or_else(|| io::Error::other(NoRuntime))?;
        // SAFETY: everything is 'static.
        unsafe { self.spawn_unchecked(rt, f, None) }
    }

    /// Starts a thread that may borrow what lives as long as the scope; see [`scope`].
    ///
    /// # Errors
    ///
    /// As [`spawn`](Builder::spawn).
    ///
    /// ```
    /// # quaver::Builder::new().workers(1).build().unwrap().run(|| {
    /// let word = String::from("borrowed");
    /// quaver::scope(|s| {
    ///     let builder = quaver::thread::Builder::new().name("reader".into());
    ///     let reader = builder.spawn_scoped(s, || word.len())?;
    ///     assert_eq!(reader.join().unwrap(), 8);
    ///     Ok::<(), std::io::Error>(())
    /// })
    /// # }).unwrap();
    /// ```
    pub fn spawn_scoped<'scope, T: Send + 'scope>(
        self,
        scope: &'scope Scope<'scope, '_>,
        f: impl FnOnce() -> T + Send + 'scope,
    ) -> io::Result<ScopedJoinHandle<'scope, T>> {
        scope.start(self, f)
    }

    /// Starts a thread; if it is one of a scope, it tells the scope when nothing of it borrows any more.
    ///
    /// # Safety
    ///
    /// The thread ends, or calls `Data::leave` of the scope, before anything ends that `f` or `T` borrows.
    unsafe fn spawn_unchecked<T: Send>(
        self,
        rt: &'static Inner,
        f: impl FnOnce() -> T + Send,
        scope: Option<Arc<scope::Data>>,
    ) -> io::Result<JoinHandle<T>> {
        let name = self.name.map(String::into_boxed_str);
        // SAFETY: handed on.
        let handle = unsafe { start(rt, f, name.clone(), &self.attributes, 0, scope)? };
        Ok(JoinHandle::new(rt, handle, name))
    }
}

/// Starts a thread with a handle to join.
///
/// # Safety
///
/// The thread ends before anything that `f` or `T` borrows.
pub(crate) unsafe fn spawn_unchecked<T: Send>(
    rt: &'static Inner,
    f: impl FnOnce() -> T + Send,
    name: Option<Box<str>>,
) -> io::Result<JoinHandle<T>> {
    // SAFETY: handed on.
    unsafe { spawn_with(rt, f, name, &Attributes::default()) }
}

/// [`spawn_unchecked`] with what the policy is to know of the thread.
///
/// # Safety
///
/// As [`spawn_unchecked`].
pub(crate) unsafe fn spawn_with<T: Send>(
    rt: &'static Inner,
    f: impl FnOnce() -> T + Send,
    name: Option<Box<str>>,
    attributes: &Attributes,
) -> io::Result<JoinHandle<T>> {
    // SAFETY: handed on.
    let handle = unsafe { start(rt, f, name, attributes, 0, None)? };
    Ok(JoinHandle::new(rt, handle, None))
}

pub(crate) fn spawn_detached_on(
    rt: &'static Inner,
    f: impl FnOnce() + Send + 'static,
) -> io::Result<()> {
    let life = life::DETACHED | life::RELEASED;
    // SAFETY: everything is 'static.
    unsafe { start(rt, f, None, &Attributes::default(), life, None) }.map(drop)
}

/// Where thread numbers come from.
static NEXT_ID: AtomicU64 = AtomicU64::new(1);

/// Makes a thread and queues it.
///
/// # Safety
///
/// As [`spawn_unchecked`].
unsafe fn start<T: Send, F: FnOnce() -> T + Send>(
    rt: &'static Inner,
    f: F,
    name: Option<Box<str>>,
    attributes: &Attributes,
    initial_life: u32,
    scope: Option<Arc<scope::Data>>,
) -> io::Result<u32> {
    let room = packet::Room::new::<F, T>(rt.config.stack_size);
    let me = raw::current();
    let (t, slot) = take_thread(rt, me)?;
    // SAFETY: `t` is free and ours; the caller vouches for lifetimes.
    unsafe {
        let packet = packet::place::<F, T>(t, f, room);
        t.rsp.set(switch::init_stack(packet & !15, thread_main));
        *t.name.get() = name;
    }
    t.label.set([0; 16]);
    t.scope.set(scope.map_or(core::ptr::null(), Arc::into_raw));
    t.no_preempt.set(1);
    t.regions.set(0);
    t.pkru.set(pkru::get());
    t.park.store(park_state::EMPTY, Relaxed);
    t.life.store(initial_life, Relaxed);
    let id = NEXT_ID.fetch_add(1, Relaxed);
    t.id.set(id);
    t.permit.store(id << 1, Relaxed);
    t.phase.store(phase::ALIVE, Relaxed);
    let stats = slot.map_or(&rt.stats, |s| &s.stats);
    stats.spawned.add_shared(1, slot.is_none());
    rt.policy.task_init(t.task(), attributes, slot.map_or(0, Slot::run_since));
    let handle = t.handle;
    scheduler::make_runnable(rt, slot, t, Why::New, true);
    if let Some(me) = me {
        me.preempt_enable();
    }
    Ok(handle)
}

/// Takes a free thread, for the calling user thread (`me`) or a kernel thread. On success preemption is disabled, and the
/// slot is the caller's.
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
        // Whatever allocates waits until preemption is enabled: the allocator's lock may be another thread's.
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
        // SAFETY: prepared when the runtime was built; the thread that ran here before has saved its own.
        None => unsafe { shared::begin() },
    }
    t.preempt_enable();
    if let Some(run) = t.run.get() {
        // SAFETY: placed by `start` for this run; catches panics.
        unsafe { run(t.packet.get()) };
    }
    if t.life.load(Relaxed) & life::DETACHED != 0
        || t.life.fetch_add(life::READY, AcqRel) & life::DETACHED != 0
    {
        packet::drop_result(t);
    }
    let scope = t.scope.replace(core::ptr::null());
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
    // SAFETY: the thread's own; debuggers and the overflow report look at it only while the thread runs.
    drop(unsafe { (*t.name.get()).take() });
    t.preempt_disable();
    if t.life.load(Relaxed) & life::RELEASED == 0
        && t.life.fetch_add(life::EXITING, AcqRel) & life::JOINING != 0
        && let Some(w) = t.joiner()
    {
        park::unpark(w);
    }
    // SAFETY: the calling thread, preemption disabled. Nobody resumes an ended thread.
    unsafe { scheduler::leave(t, After::Exit(t)) };
    unreachable!("an ended user thread was resumed")
}

/// Makes an ended thread's block and stack available again. Called with preemption disabled.
pub(crate) fn recycle(rt: &Inner, slot: Option<&Slot>, t: &Uthread) {
    // Nothing is freed here: allocators have locks, and this may run on the stack of another, interrupted thread.
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
