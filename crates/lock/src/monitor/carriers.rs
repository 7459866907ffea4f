//! Which carriers of a runtime have lost their CPU, for that runtime.
//!
//! The kernel program finds a carrier by its gs base (`bpf/carriers.h`), so a process registers and
//! its threads do not. It then has a page, which only the kernel program can write to, and a
//! *bell*: a descriptor that becomes readable when a carrier that is a worker was preempted by
//! another process, or has fallen asleep in a page fault.

use super::{Absent, Reason, Source, client, socket_path};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::null_mut;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64};

/// Carriers are `0..CARRIERS`. The same in `bpf/carriers.h`.
pub const CARRIERS: usize = 1008;

/// The carrier runs, or sleeps of its own will.
pub const ON_CPU: u32 = 0;
/// It is preempted.
pub const PREEMPTED: u32 = 1;
/// It sleeps in a page fault.
pub const ASLEEP: u32 = 2;

const PAGE: usize = 4096;

/// What the kernel program says. The same in `bpf/carriers.h`.
#[derive(Debug)]
#[repr(C)]
struct Page {
    id: u64,
    away: AtomicI64,
    preempted: AtomicU64,
    asleep: AtomicU64,
    unused: [u64; 4],
    state: [AtomicU32; CARRIERS],
}

const _: () = assert!(size_of::<Page>() == PAGE);

/// The words at a carrier's gs base, as the kernel program reads them.
#[derive(Debug)]
#[repr(C)]
pub struct CarrierHead {
    /// The address of this.
    pub this: usize,
    /// Not read.
    pub thread: usize,
    /// Not 0: it is a worker.
    pub slot: usize,
    /// Which word of the page is its own; from [`CARRIERS`] on: none.
    pub index: u32,
}

/// What the monitor says of this process's carriers.
#[derive(Debug)]
pub struct Carriers {
    page: &'static Page,
    bell: OwnedFd,
    /// How far the bell has been heard, and has rung: words that the kernel shares with us.
    heard: &'static AtomicU64,
    rung: &'static AtomicU64,
    source: Source,
}

/// One runtime of a process has them.
static TAKEN: AtomicBool = AtomicBool::new(false);

impl Carriers {
    /// Lets lockd, or else a program of this process, watch the carriers. For one runtime of a
    /// process at a time. Takes as long as [`attach`](super::attach).
    ///
    /// # Errors
    ///
    /// There is no monitor, or another runtime has it.
    pub fn watch() -> Result<Self, Absent> {
        if TAKEN.swap(true, AcqRel) {
            return Err(Absent { first: Reason::Taken, second: None });
        }
        let found = Self::ask_lockd().or_else(|first| {
            let here = super::carriers_here().and_then(|found| Self::map(found, Source::Own));
            here.map_err(|second| Absent { first, second: Some(second) })
        });
        found.inspect_err(|_| TAKEN.store(false, Release))
    }

    /// As [`watch`](Self::watch), by lockd only.
    ///
    /// # Errors
    ///
    /// lockd does not answer, or says no, or another runtime has the monitor.
    pub fn watch_by_lockd() -> Result<Self, Absent> {
        if TAKEN.swap(true, AcqRel) {
            return Err(Absent { first: Reason::Taken, second: None });
        }
        Self::ask_lockd()
            .inspect_err(|_| TAKEN.store(false, Release))
            .map_err(|first| Absent { first, second: None })
    }

    fn ask_lockd() -> Result<Self, Reason> {
        client::carriers(&socket_path()).and_then(|found| Self::map(found, Source::Lockd))
    }

    fn map([page, bell]: [OwnedFd; 2], source: Source) -> Result<Self, Reason> {
        let failed = |e: rustix::io::Errno| Reason::Map(e.into());
        let (read, shared) = (ProtFlags::READ, MapFlags::SHARED);
        let both = read | ProtFlags::WRITE;
        // SAFETY: new mappings, of maps that lockd or we have made: a page of our layout, and a
        // ring whose first two pages are its positions.
        let [page, heard, rung] = unsafe {
            let page = mmap(null_mut(), PAGE, read, shared, &page, 0).map_err(failed)?;
            let heard = mmap(null_mut(), PAGE, both, shared, &bell, 0).map_err(failed);
            let rung = mmap(null_mut(), PAGE, read, shared, &bell, PAGE as u64).map_err(failed);
            let (Ok(heard), Ok(rung)) = (&heard, &rung) else {
                for at in [Ok(page), heard.as_ref().copied(), rung.as_ref().copied()] {
                    at.map(|at| munmap(at, PAGE)).ok();
                }
                return Err(heard.and(rung).expect_err("one of them"));
            };
            [page, *heard, *rung]
        };
        // SAFETY: mapped above; unmapped when `self` is dropped, and not lent for longer.
        unsafe {
            Ok(Self {
                page: &*page.cast(),
                bell,
                heard: &*heard.cast(),
                rung: &*rung.cast(),
                source,
            })
        }
    }

    /// Who hosts the program.
    pub fn source(&self) -> Source {
        self.source
    }

    /// How many carriers that are workers have lost their CPU.
    pub fn away(&self) -> &AtomicI64 {
        &self.page.away
    }

    /// What each carrier does: [`ON_CPU`], [`PREEMPTED`] or [`ASLEEP`].
    pub fn states(&self) -> &[AtomicU32] {
        &self.page.state
    }

    /// How often carriers were preempted, and fell asleep in page faults, ever.
    pub fn counts(&self) -> [u64; 2] {
        [self.page.preempted.load(Relaxed), self.page.asleep.load(Relaxed)]
    }

    /// Readable since the bell has rung.
    pub fn bell(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }

    /// The bell is not readable before it rings again. Look at the states after this, not before.
    pub fn silence(&self) {
        self.heard.store(self.rung.load(Acquire), Release);
    }
}

impl Drop for Carriers {
    fn drop(&mut self) {
        let [heard, rung] = [self.heard, self.rung].map(|at| std::ptr::from_ref(at).cast::<u8>());
        for at in [std::ptr::from_ref(self.page).cast(), heard, rung] {
            // SAFETY: mapped in `map`; the borrows of it have ended.
            let _ = unsafe { munmap(at.cast_mut().cast(), PAGE) };
        }
        TAKEN.store(false, Release);
    }
}
