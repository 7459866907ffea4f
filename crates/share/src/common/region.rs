//! The memory: a file without a name, which every member has at the same address, because the
//! policy in it holds addresses of its tables.

use super::QueueError;
use super::layout::{Entry, Head, MAGIC, MOST_MEMBERS, SPEC};
use crate::door::{ticks, ticks_per_us};
use crate::layout::MOST_PLACES;
use quaver_sched::random::splitmix64;
use quaver_sched::{Footprint, Spec};
use rustix::fs::{
    MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, ftruncate, memfd_create,
};
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::{NonNull, null_mut};
use std::slice;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Far from where the kernel and linkers put anything: places for queues are here. A process keeps
/// the memory of each queue that it has had, so the next one must be elsewhere in all likelihood:
/// there are as many places as there is room for.
const FIRST: u64 = 0x2000_0000_0000;
const ROOM: u64 = 1 << 44;
/// Places that are looked at before there is said to be none.
const TRIES: u64 = 1 << 10;

/// Tasks of a member, so that all of them have numbers of 30 bits.
const MOST_TASKS: u32 = (1 << 30) / MOST_MEMBERS as u32;

/// A mapping, which stays for as long as the process lives: policies are used through it.
pub(super) struct Region {
    head: &'static Head,
    entries: &'static [Entry],
    policy: NonNull<[u8]>,
    pub(super) spec: Spec,
}

// SAFETY: the memory consists of atomics; that of the policy is used as `Spec::build_at` demands.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

/// How the memory is divided.
struct Plan {
    policy: usize,
    size: usize,
    footprint: Footprint,
}

impl Plan {
    fn new(spec: &Spec, cores: usize, tasks: u32) -> Plan {
        let all = tasks * MOST_MEMBERS as u32;
        let footprint = spec.footprint(cores, all);
        let policy = size_of::<Head>() + (all as usize * size_of::<Entry>()).next_multiple_of(4096);
        Plan { policy, size: policy + footprint.size.next_multiple_of(4096), footprint }
    }
}

/// What a head says.
struct Said {
    spec: Spec,
    cores: usize,
    tasks: u32,
    address: u64,
    mark: u64,
}

impl Said {
    /// `None`: it is no head.
    fn by(head: &Head) -> Option<Said> {
        let text: Vec<u8> = head.spec.iter().map(|byte| byte.load(Relaxed)).collect();
        let text = text.split(|&byte| byte == 0).next()?;
        let cores = head.cores.load(Relaxed) as usize;
        let tasks = head.tasks.load(Relaxed);
        let sound = head.magic.load(Acquire) == MAGIC
            && (1..=MOST_PLACES).contains(&cores)
            && (1..=MOST_TASKS).contains(&tasks);
        sound.then_some(())?;
        Some(Said {
            spec: std::str::from_utf8(text).ok()?.parse().ok()?,
            cores,
            tasks,
            address: head.address.load(Relaxed),
            mark: head.mark.load(Relaxed),
        })
    }
}

/// The head alone, wherever there is room.
#[cfg(feature = "broker")]
pub(super) fn map_head(file: impl AsFd) -> Result<NonNull<u8>, QueueError> {
    Ok(mapped(file, None, size_of::<Head>())?)
}

fn mapped(file: impl AsFd, at: Option<u64>, size: usize) -> Result<NonNull<u8>, Errno> {
    let rights = ProtFlags::READ | ProtFlags::WRITE;
    let (place, flags) = match at {
        Some(at) => (at as *mut _, MapFlags::SHARED | MapFlags::FIXED_NOREPLACE),
        None => (null_mut(), MapFlags::SHARED),
    };
    // SAFETY: a new mapping; where something else is, there is none.
    let at = unsafe { mmap(place, size, rights, flags, file, 0) }?;
    // SAFETY: the mapping made above. A forked child would be a second process of one number.
    unsafe { madvise(at, size, Advice::LinuxDontFork) }?;
    Ok(NonNull::new(at.cast()).expect("not at address 0"))
}

impl Region {
    /// Memory of a new queue.
    pub(super) fn create(spec: &Spec, cpus: &[usize], tasks: u32) -> Result<OwnedFd, QueueError> {
        let text = spec.to_string();
        if cpus.is_empty() || cpus.len() > MOST_PLACES || !(1..=MOST_TASKS).contains(&tasks) {
            return Err(QueueError::Sizes);
        }
        assert!(text.len() <= SPEC, "texts of policies are short");
        let plan = Plan::new(spec, cpus.len(), tasks);
        let file = memfd_create("quaver-queue", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        ftruncate(&file, plan.size as u64)?;
        fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        let apart = plan.size.next_power_of_two() as u64;
        // Mixed, for what tells two of them apart is in few bits.
        let mut mixed = ticks() ^ u64::from(std::process::id()) << 40;
        let first = splitmix64(&mut mixed);
        for attempt in 0..TRIES {
            let at = FIRST + first.wrapping_add(attempt) % (ROOM / apart) * apart;
            let region = match mapped(&file, Some(at), plan.size) {
                Err(Errno::EXIST) => continue,
                at => Region::over(at?, spec.clone(), &plan, tasks),
            };
            let head = region.head;
            head.cores.store(cpus.len() as u32, Relaxed);
            head.tasks.store(tasks, Relaxed);
            head.ticks_per_us.store(ticks_per_us(), Relaxed);
            head.address.store(at, Relaxed);
            head.mark.store(plan.footprint.mark, Relaxed);
            for (to, from) in head.spec.iter().zip(text.bytes()) {
                to.store(from, Relaxed);
            }
            for (to, &from) in head.cpus.iter().zip(cpus) {
                to.store(from as u32, Relaxed);
            }
            // SAFETY: nobody else has the memory yet.
            unsafe { region.build() };
            head.magic.store(MAGIC, Release);
            let base = std::ptr::from_ref(region.head).cast_mut();
            // SAFETY: the mapping made above, of which nothing is used any more.
            unsafe { munmap(base.cast(), plan.size) }?;
            return Ok(file);
        }
        Err(QueueError::Address)
    }

    /// As [`open`](Self::open); the same memory if this process has it already. A forked child has
    /// none of its parent's.
    pub(super) fn open_once(file: BorrowedFd<'_>) -> Result<Arc<Region>, QueueError> {
        type Name = (u32, u64, u64);
        static OPEN: Mutex<Vec<(Name, Arc<Region>)>> = Mutex::new(Vec::new());
        let stat = fstat(file)?;
        let wanted = (std::process::id(), stat.st_dev, stat.st_ino);
        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, region)) = open.iter().find(|&&(name, _)| name == wanted) {
            return Ok(region.clone());
        }
        let region = Arc::new(Region::open(file)?);
        open.push((wanted, region.clone()));
        Ok(region)
    }

    /// The queue in this file, which is not needed any more.
    pub(super) fn open(file: BorrowedFd<'_>) -> Result<Region, QueueError> {
        let size = fstat(file)?.st_size as usize;
        if !fcntl_get_seals(file)?.contains(SealFlags::SHRINK) || size < size_of::<Head>() {
            return Err(QueueError::Foreign);
        }
        let first = mapped(file, None, size_of::<Head>())?;
        // SAFETY: a mapping of this size, of atomics only, which is removed after its last use.
        let head: &Head = unsafe { first.cast().as_ref() };
        let said = Said::by(head);
        // SAFETY: the mapping made above.
        unsafe { munmap(first.as_ptr().cast(), size_of::<Head>()) }?;
        let Said { spec, cores, tasks, address, mark } = said.ok_or(QueueError::Foreign)?;
        let plan = Plan::new(&spec, cores, tasks);
        if (plan.size, plan.footprint.mark) != (size, mark) {
            return Err(QueueError::Version);
        }
        let at = match mapped(file, Some(address), size) {
            Err(Errno::EXIST) => return Err(QueueError::Address),
            at => at?,
        };
        Ok(Region::over(at, spec, &plan, tasks))
    }

    fn over(at: NonNull<u8>, spec: Spec, plan: &Plan, tasks: u32) -> Region {
        let all = tasks as usize * MOST_MEMBERS;
        // SAFETY: within the mapping, which is as large as the plan says and never removed; heads
        // and entries consist of atomics.
        let (head, entries, policy) = unsafe {
            (
                at.cast().as_ref(),
                slice::from_raw_parts(at.add(size_of::<Head>()).cast().as_ptr(), all),
                at.add(plan.policy),
            )
        };
        let policy = NonNull::slice_from_raw_parts(policy, plan.size - plan.policy);
        Region { head, entries, policy, spec }
    }

    pub(super) fn head(&self) -> &Head {
        self.head
    }

    pub(super) fn entries(&self) -> &[Entry] {
        self.entries
    }

    pub(super) fn cores(&self) -> usize {
        self.head.cores.load(Relaxed) as usize
    }

    /// Tasks of each member.
    pub(super) fn tasks(&self) -> u32 {
        (self.entries.len() / MOST_MEMBERS) as u32
    }

    pub(super) fn policy_memory(&self) -> (NonNull<[u8]>, usize, u32) {
        (self.policy, self.cores(), self.entries.len() as u32)
    }

    /// Makes the policy, empty.
    ///
    /// # Safety
    ///
    /// Nobody uses the policy or makes it meanwhile: the caller holds the lock, or is the creator.
    pub(super) unsafe fn build(&self) {
        let (memory, cores, all) = self.policy_memory();
        let base = memory.cast::<u8>().as_ptr();
        // SAFETY: the policy's memory, which nobody uses; its pages are zero afterwards. Otherwise
        // they are made so.
        unsafe {
            if madvise(base.cast(), memory.len(), Advice::LinuxRemove).is_err() {
                base.write_bytes(0, memory.len());
            }
        }
        let per_us = u128::from(self.head.ticks_per_us.load(Relaxed));
        let to_time = |time: Duration| (time.as_nanos() * per_us / 1000) as u64;
        // SAFETY: zeroed above, mapped for ever, used by nobody.
        unsafe { self.spec.build_at(memory, cores, all, to_time) };
    }
}
