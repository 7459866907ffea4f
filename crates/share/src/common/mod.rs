//! One run queue for several applications of one owner, in memory that they share. (Skyloft 3.3.)
//!
//! All their threads are tasks of one policy of `quaver-sched`, the same code as elsewhere. Each
//! application has a worker on each core, of which one runs; a worker whose policy picks a task of
//! another application wakes that one's worker and sleeps. States, invariants and what happens when
//! somebody dies are in this crate's README.
//!
//! * `layout`: words of the shared memory. `region`: the memory, and the policy in it.
//! * `lock`, `word`, `life`: who has the lock, and whether he lives. `models`: in every order.
//! * `decide`: what is done under the lock.
//! * `seat`: workers that sleep. `watch`: who looks after them. `device`: by the kernel module,
//!   where it is.

mod decide;
mod device;
#[cfg(feature = "broker")]
mod glance;
#[cfg(all(test, not(loom)))]
mod heap;
mod layout;
mod life;
mod lock;
#[cfg(all(test, loom))]
mod models;
mod policy;
mod region;
mod seat;
#[cfg(all(test, not(loom)))]
mod tests;
mod watch;
mod word;

#[cfg(feature = "broker")]
pub(crate) use device::open_device;
#[cfg(feature = "broker")]
pub(crate) use glance::Glance;
pub use layout::MOST_MEMBERS;

use crate::door::ticks;
use crate::files::out_of_the_way;
use decide::Section;
use device::Device;
use layout::{Now, READY};
use life::Life;
use quaver_sched::{Pick, Policy, Spec, Time};
use region::Region;
use rustix::io::Errno;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU8, fence};

/// Why this process has no part in a common queue.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum QueueError {
    /// No or too many CPUs or tasks.
    #[error("a common queue is for 1 to 62 CPUs and 1 to 67108864 threads of each application")]
    Sizes,
    /// Something else is where the queue must be.
    #[error("the address of the common queue is in use in this process; join earlier")]
    Address,
    /// It is none.
    #[error("the file is no common queue")]
    Foreign,
    /// The policies are not the same code.
    #[error("the common queue was made by another version of quaver; use the same one everywhere")]
    Version,
    /// All places are taken.
    #[error("{MOST_MEMBERS} applications use the common queue already")]
    Full,
    /// What the kernel says.
    #[error("cannot use the common queue: {0}")]
    System(String),
}

impl From<Errno> for QueueError {
    fn from(error: Errno) -> QueueError {
        QueueError::System(error.to_string())
    }
}

/// What a member must have of a queue. One without a device is made of the memory alone.
#[derive(Debug)]
pub struct Files {
    /// Its memory.
    pub memory: OwnedFd,
    /// The open file of `/dev/quaver` that all members have in common, if there is this project's
    /// kernel module: workers hand cores over by it.
    pub device: Option<OwnedFd>,
}

impl From<OwnedFd> for Files {
    fn from(memory: OwnedFd) -> Files {
        Files { memory, device: None }
    }
}

/// The part of one application in a common queue. As a [`Policy`] it schedules the tasks of this
/// application, numbered from 0 as its host numbers them, among those of all, with one more rule: a
/// worker that is given nothing calls [`rests`](Self::rests) and [`wait`](Self::wait) before it
/// asks again, and a task that goes on running although [`is_away`](Self::is_away) says yes must be
/// enqueued. Dropped, its tasks are gone and its cores are others'.
///
/// Every operation may wait for a lock that others hold for less than a microsecond; the caller
/// must not be preempted by its own scheduler meanwhile. All calls for one core come from its
/// worker, one at a time. Nothing uses the heap but [`create`](Self::create),
/// [`join`](Self::join) and [`cpus`](Self::cpus), so handlers of signals may call the rest.
pub struct Common {
    region: Arc<Region>,
    policy: &'static dyn Policy,
    me: usize,
    /// Of each core: another application has it from this one's worker, and was not woken yet.
    owes: Box<[AtomicU8]>,
    left: AtomicBool,
    /// Somebody looks after workers that sleep.
    watched: AtomicBool,
    look: Look,
    device: Option<Device>,
    process: u32,
}

/// How a process does, see `life`.
type Look = Box<dyn Fn(u64) -> Life + Send + Sync>;

impl std::fmt::Debug for Common {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Common").field("me", &self.me).field("spec", self.spec()).finish()
    }
}

impl Common {
    /// Makes a queue for these CPUs, and so many tasks of each application. Whoever has the file
    /// can join.
    ///
    /// # Errors
    ///
    /// Sizes that cannot be, or what the kernel says.
    pub fn create(spec: &Spec, cpus: &[usize], tasks: u32) -> Result<OwnedFd, QueueError> {
        Region::create(spec, cpus, tasks)
    }

    /// Takes part. There is to be a worker for each core from then on.
    ///
    /// # Errors
    ///
    /// The file is no queue of the same version, or all places are taken.
    pub fn join(files: impl Into<Files>) -> Result<Common, QueueError> {
        quaver_rsb::prepare();
        let Files { memory, device } = files.into();
        let who = life::of(std::process::id());
        let who = who.ok_or_else(|| QueueError::System("no /proc here".into()))?;
        let mut common =
            Common::join_as(Region::open_once(memory.as_fd())?, who, Box::new(life::look))?;
        common.device = device.map(|file| Device(out_of_the_way(file)));
        Ok(common)
    }

    fn join_as(region: Arc<Region>, who: u64, look: Look) -> Result<Common, QueueError> {
        let head = region.head();
        let claim = |member: usize| {
            let at = &head.members[member].who;
            let before = at.load(Acquire);
            let free = before == 0 || look(before) == Life::Ended;
            free && at.compare_exchange(before, who, AcqRel, Relaxed).is_ok()
        };
        let me = (0..MOST_MEMBERS).find(|&member| claim(member)).ok_or(QueueError::Full)?;
        let (memory, cores, all) = region.policy_memory();
        // SAFETY: the creator has made it in this memory; footprints were compared by `open`. It is
        // used under the lock only, and made again under the lock.
        let policy = unsafe { region.spec.open_at(memory, cores, all) };
        let owes = (0..cores).map(|_| AtomicU8::new(seat::NOTHING)).collect();
        let (left, watched) = (AtomicBool::new(false), AtomicBool::new(false));
        let process = std::process::id();
        let common =
            Common { region, policy, me, owes, left, watched, look, device: None, process };
        // What the process before of this number has left.
        common.bury(me, &common.lock_as(true));
        Ok(common)
    }

    /// The policy, as text says it.
    pub fn spec(&self) -> &Spec {
        &self.region.spec
    }

    /// The CPUs, one for each core of the queue.
    pub fn cpus(&self) -> Vec<usize> {
        let cpus = &self.head().cpus[..self.region.cores()];
        cpus.iter().map(|cpu| cpu.load(Relaxed) as usize).collect()
    }

    /// How many tasks this application may have.
    pub fn tasks(&self) -> u32 {
        self.region.tasks()
    }

    /// Its number, below [`MOST_MEMBERS`].
    pub fn number(&self) -> usize {
        self.me
    }

    /// How often a core was given from one application to another.
    pub fn switches(&self) -> u64 {
        let cores = &self.head().cores_now[..self.region.cores()];
        cores.iter().map(|core| core.switches.load(Relaxed)).sum()
    }

    /// How often the queue was made anew because somebody had died in the middle of a change.
    pub fn rebuilt(&self) -> u64 {
        self.head().rebuilt.load(Relaxed)
    }

    /// What the worker of this core runs next, if it may: what it was given, or what the policy
    /// picks; if `steals`, from other cores' queues. `None` with [`is_away`](Self::is_away):
    /// another application has the core now, and the worker goes to [`rests`](Self::rests).
    pub fn next(&self, core: usize, steals: bool, now: Time) -> Option<Pick> {
        if self.is_away(core) {
            return None;
        }
        let section = self.enter()?;
        let pick = self.choose(core, steals, now);
        drop(section);
        pick.map(|pick| Pick { task: self.local(pick.task), ..pick })
    }

    /// Whether another application has this core.
    #[inline]
    pub fn is_away(&self, core: usize) -> bool {
        self.now(core).member.is_some_and(|member| member != self.me)
    }

    /// Whether this application's worker was given a task on this core which it has not taken yet.
    /// Without the lock it may say so of one that has just become ready and is given to nobody.
    pub fn is_given(&self, core: usize) -> bool {
        let now = self.now(core);
        let ready = |pick: Pick| self.entry(pick.task).word.load(Acquire) & READY != 0;
        now.member == Some(self.me) && now.pick.is_some_and(ready)
    }

    /// The worker of this core has nothing to run: the core is given to whoever has, and its worker
    /// is woken, at the latest by [`wait`](Self::wait), which comes next.
    pub fn rests(&self, core: usize) {
        if self.has_left() {
            return;
        }
        if self.now(core).member == Some(self.me)
            && let Some(section) = self.enter()
            // Asked under the lock: a task that this core names and that becomes ready is not named
            // any more first, so without it both may be seen.
            && !self.is_given(core)
        {
            self.set_now(core, Now::NOBODY);
            self.fill(&section);
            if self.is_away(core) {
                section.wakes_later(core);
                self.owes[core].store(seat::OWED, Release);
            }
        }
        self.pay_later(core);
    }

    /// Looks whether members have died or are stopped, and gives their cores to others. Members do
    /// this by themselves when a core of theirs was long away.
    pub fn tend(&self) {
        self.bury_the_dead(&self.lock());
    }

    fn has_left(&self) -> bool {
        self.left.load(Acquire)
    }

    /// The lock, unless this application has left, maybe while the caller waited for the lock:
    /// whatever it put there would be the next one's of this number.
    fn enter(&self) -> Option<Section<'_>> {
        if self.has_left() {
            return None;
        }
        let section = self.lock();
        (!self.has_left()).then_some(section)
    }

    /// In the child of a fork, which has no part in the queue and does not have its memory: from
    /// now on nothing is done.
    pub fn forked(&self) {
        self.left.store(true, Release);
    }

    /// This application takes part no more: its tasks are gone. A second time nothing happens.
    pub fn leave(&self) {
        if self.left.swap(true, AcqRel) {
            return;
        }
        (0..self.region.cores()).for_each(|core| self.wake_owed(core));
        let section = self.lock();
        self.bury(self.me, &section);
        self.head().members[self.me].who.store(0, Release);
    }
}

impl Drop for Common {
    fn drop(&mut self) {
        self.leave();
    }
}
