//! All user threads of a runtime: control blocks, stacks and the free lists.
//!
//! A handle is an index; blocks never move. Regions are mapped in chunks when handles are first
//! used and kept until the runtime ends. Free handles are kept last-in first-out, so that warm
//! stacks are used again: first in a small list of each slot (no lock), then in the global list.

use super::control::{NONE, Uthread, phase};
pub(crate) use super::pool::LocalPool;
use super::pool::MAX as LOCAL_MAX;
use super::stack::{self, OwnStack, Shape};
use crate::park::SpinLock;
use crate::preempt;
use crate::sync::{Mutex, MutexGuard};
use crate::tls;
use core::ops::Range;
use core::sync::atomic::{AtomicIsize, AtomicU32, Ordering::*};
use std::io;
use std::sync::PoisonError;

/// The table.
pub(crate) struct Table {
    pub(crate) blocks: *mut Uthread,
    max: u32,
    shape: Shape,
    /// How the threads' TLS blocks are laid out; `None`: they have none of their own.
    tls: Option<&'static tls::Layout>,
    shared: Shared,
    /// Its lock makes [`Table::grow`] one thread's at a time; its holder may be preempted.
    growth: Mutex<Growth>,
    /// Handles that have ever been used: `0..high`.
    pub(crate) high: AtomicU32,
}

/// What threads that have no slot write with each thread that they make. The table itself is read
/// all the time.
#[repr(align(128))]
struct Shared {
    /// The first free handle that is in no slot's pool. Nothing is allocated under this lock.
    free: SpinLock<u32>,
    /// Handles given out minus handles returned without a slot's pool; see [`LocalPool::balance`].
    balance: AtomicIsize,
}

// SAFETY: `blocks` is a mapping that lives as long as the table; `Uthread` has its own sharing
// rules.
unsafe impl Send for Table {}
// SAFETY: as above.
unsafe impl Sync for Table {}

#[derive(Default)]
struct Growth {
    /// The newest chunk.
    chunk: Option<Chunk>,
    /// All TLS blocks are in libc's list of threads.
    listed: bool,
}

/// Regions that were mapped together.
#[derive(Clone, Copy)]
struct Chunk {
    /// The handle of its first region.
    first: u32,
    base: usize,
}

/// Why no thread could be made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Exhausted {
    #[error("the limit of {0} user threads is reached (raise it with Builder::max_threads)")]
    Limit(u32),
    #[error("cannot map another stack: {0} (memory, RLIMIT_AS or vm.max_map_count is exhausted)")]
    Memory(#[from] io::Error),
}

impl Table {
    /// Reserves the table.
    ///
    /// # Errors
    ///
    /// The kernel's, if even the address space cannot be had.
    pub(crate) fn new(
        max: u32,
        stack: usize,
        tls: Option<&'static tls::Layout>,
    ) -> io::Result<Table> {
        let bytes = max as usize * size_of::<Uthread>();
        // SAFETY: a new private mapping, touched entry by entry.
        let p = unsafe {
            libc::mmap(
                core::ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if p == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Table {
            blocks: p.cast(),
            max,
            shape: Shape::new(stack, tls.map_or(0, tls::Layout::size)),
            tls,
            shared: Shared { free: SpinLock::new(NONE), balance: AtomicIsize::new(0) },
            growth: Mutex::default(),
            high: AtomicU32::new(0),
        })
    }

    /// The block of a handle that has been given out at least once.
    #[inline(always)]
    pub(crate) fn get(&self, handle: u32) -> &Uthread {
        debug_assert!(handle < self.high.load(Relaxed));
        // SAFETY: below `high`, so written by `grow`; blocks are never moved or removed while the
        // table lives.
        unsafe { &*self.blocks.add(handle as usize) }
    }

    /// The block of a handle that may be stale.
    pub(crate) fn get_checked(&self, handle: u32) -> Option<&Uthread> {
        (handle < self.high.load(Acquire)).then(|| self.get(handle))
    }

    /// The table's share of the number of threads in use; add the pools' (`LocalPool::balance`).
    pub(crate) fn balance(&self) -> isize {
        self.shared.balance.load(SeqCst)
    }

    /// All handles ever used, for iteration.
    pub(crate) fn high(&self) -> u32 {
        self.high.load(Acquire)
    }

    /// The TLS layout that the blocks have; `None`: threads use the TLS of their carriers.
    pub(crate) fn tls(&self) -> Option<&'static tls::Layout> {
        self.tls
    }

    /// The thread whose guard contains `address`. Async-signal-safe.
    pub(crate) fn guard_owner(&self, address: usize) -> Option<&Uthread> {
        (0..self.high.load(Acquire)).map(|h| self.get(h)).find(|t| {
            let r = t.region.load(Relaxed);
            r != 0 && (r..r + stack::GUARD).contains(&address)
        })
    }

    /// Is `address` in the memory of a thread, which may have ended: guard, stack or TLS block?
    pub(crate) fn owns(&self, address: usize) -> bool {
        (0..self.high.load(Acquire)).map(|h| self.get(h)).any(|t| {
            let stack = self.stack(t);
            stack.contains(&address) || address != 0 && t.fs.get() == address
        })
    }

    /// Addresses of a thread's stack, without its guard.
    pub(crate) fn stack(&self, t: &Uthread) -> Range<usize> {
        t.region.load(Relaxed) + stack::GUARD..t.stack_top.load(Relaxed) + 1
    }

    /// Usable bytes of a thread's stack.
    pub(crate) fn stack_size(&self, t: &Uthread) -> usize {
        t.stack_top.load(Relaxed) - t.region.load(Relaxed) - stack::GUARD
    }

    /// Takes a free thread. With a slot's pool this is a few loads and stores. `None`: there is
    /// none; [`grow`](Table::grow) makes one. Neither allocates nor frees.
    pub(crate) fn take(&self, pool: Option<&mut LocalPool>) -> Option<&Uthread> {
        let Some(pool) = pool else { return self.take_global() };
        let t = if pool.first == NONE {
            self.take_global()?
        } else {
            let t = self.get(pool.first);
            pool.first = t.next_free.get();
            pool.len -= 1;
            t
        };
        pool.balance += 1;
        Some(t)
    }

    /// Announces a [`take`](Table::take) without a pool: from now on the table is not released. To
    /// be undone by [`retract`](Table::retract) if no thread was taken.
    pub(crate) fn announce(&self) {
        self.shared.balance.fetch_add(1, SeqCst);
    }

    /// Undoes [`announce`](Table::announce).
    pub(crate) fn retract(&self) {
        self.shared.balance.fetch_sub(1, SeqCst);
    }

    #[cold]
    fn take_global(&self) -> Option<&Uthread> {
        let mut free = self.shared.free.lock();
        if *free == NONE {
            return None;
        }
        let t = self.get(*free);
        *free = t.next_free.get();
        Some(t)
    }

    /// What only one thread may change at a time. From when a program calls `dlopen`, all blocks
    /// are in libc's list.
    fn growth(&self) -> MutexGuard<'_, Growth> {
        let mut growth = self.growth.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(tls) = self.tls
            && !growth.listed
            && tls::must_list()
        {
            for h in 0..self.high() {
                // SAFETY: `release` takes it out.
                unsafe { tls.list(self.get(h).fs.get()) };
            }
            growth.listed = true;
        }
        growth
    }

    /// A library is about to be loaded: its initial values must reach all threads. Waits for
    /// whoever makes a thread.
    pub(crate) fn before_dlopen(&self) {
        drop(self.growth());
    }

    /// Uses a handle for the first time: maps its region, builds its TLS block and makes it a free
    /// thread.
    ///
    /// It allocates and may wait for others who do the same. So on a user thread preemption must be
    /// enabled: who holds the allocator's lock may be a preempted thread. Where no thread has a
    /// slot, the table must have been [announced](Table::announce) as in use.
    ///
    /// # Errors
    ///
    /// The limit is reached or memory is exhausted.
    #[cold]
    pub(crate) fn grow(&self) -> Result<(), Exhausted> {
        preempt::assert_enabled();
        let mut growth = self.growth();
        if *self.shared.free.lock() != NONE {
            return Ok(());
        }
        let handle = self.high.load(Relaxed);
        if handle >= self.max {
            return Err(Exhausted::Limit(self.max));
        }
        let index = (handle % stack::CHUNK) as usize;
        if index == 0 && growth.chunk.is_none_or(|c| c.first != handle) {
            growth.chunk = Some(Chunk { first: handle, base: self.shape.map_chunk()? });
        }
        let Some(Chunk { base, .. }) = growth.chunk else {
            unreachable!("handles are used in turn")
        };
        let region = base + index * self.shape.size;
        self.shape.guard(region)?;
        let top = region + self.shape.size;
        let (tp, base) = self.tls.map_or((0, top - 64), |tls| tls.place(top));
        // SAFETY: the top of a fresh, zeroed region.
        let built =
            self.tls.is_none_or(|tls| unsafe { tls.init(tp, handle, region..top, growth.listed) });
        if !built {
            return Err(Exhausted::Memory(io::Error::from_raw_os_error(libc::ENOMEM)));
        }
        let block = Uthread::new(handle);
        block.region.store(region, Relaxed);
        block.fs.set(tp);
        block.stack_top.store(base & !63, Relaxed);
        // SAFETY: the entry is within the mapping and nobody else uses it before `high` covers it.
        unsafe { self.blocks.add(handle as usize).write(block) };
        self.high.store(handle + 1, Release);
        self.put_free(handle, handle);
        Ok(())
    }

    /// Puts a chain of free handles before the others.
    fn put_free(&self, first: u32, last: u32) {
        let mut free = self.shared.free.lock();
        self.get(last).next_free.set(*free);
        *free = first;
    }

    /// Puts a thread that has been taken on a stack of its own.
    pub(super) fn put_on(&self, t: &Uthread, stack: OwnStack) {
        let (region, top) = stack.bounds();
        let before = (t.region.swap(region, Relaxed), t.stack_top.swap(top, Relaxed));
        // SAFETY: the thread is the caller's, and does not run.
        unsafe {
            if let Some(tls) = self.tls {
                tls.set_stack(t.fs.get(), stack.region());
            }
            *t.own_stack.get() = Some((stack, before.0, before.1));
        }
    }

    /// Gives a thread back. Its stack and TLS block must not be in use.
    pub(crate) fn give(&self, t: &Uthread, pool: Option<&mut LocalPool>) {
        // SAFETY: the thread has ended and is the caller's.
        if let Some((stack, region, top)) = unsafe { (*t.own_stack.get()).take() } {
            t.region.store(region, Relaxed);
            t.stack_top.store(top, Relaxed);
            if let Some(tls) = self.tls {
                // SAFETY: as above.
                unsafe { tls.set_stack(t.fs.get(), region..region + self.shape.size) };
            }
            drop(stack);
        }
        t.phase.store(phase::FREE, Relaxed);
        if let Some(tls) = self.tls {
            // SAFETY: the thread has ended and nobody else has it.
            unsafe { tls.reset(t.fs.get()) };
        }
        let Some(pool) = pool else {
            self.retract();
            self.put_free(t.handle, t.handle);
            return;
        };
        pool.balance -= 1;
        t.next_free.set(pool.first);
        pool.first = t.handle;
        pool.len += 1;
        if pool.len > LOCAL_MAX {
            self.give_back_half(pool);
        }
    }

    #[cold]
    fn give_back_half(&self, pool: &mut LocalPool) {
        let first = pool.first;
        let mut last = first;
        for _ in 1..LOCAL_MAX / 2 {
            last = self.get(last).next_free.get();
        }
        pool.first = self.get(last).next_free.get();
        pool.len -= LOCAL_MAX / 2;
        self.put_free(first, last);
    }

    /// Frees all stacks and TLS blocks. The table itself stays, empty: late calls with stale
    /// handles find nothing.
    ///
    /// # Safety
    ///
    /// No thread is in use, no carrier runs and no reference to a block is kept.
    pub(crate) unsafe fn release(&self) {
        let mut growth = self.growth.lock().unwrap_or_else(PoisonError::into_inner);
        let Growth { chunk, listed } = core::mem::take(&mut *growth);
        let high = self.high.swap(0, AcqRel);
        let block = |h: u32| {
            // SAFETY: `grow` has built the block.
            unsafe { &*self.blocks.add(h as usize) }
        };
        if let Some(tls) = self.tls {
            for h in 0..high {
                // SAFETY: the block is not in use.
                unsafe {
                    let tp = block(h).fs.get();
                    if listed {
                        tls.unlist(tp);
                    }
                    tls.release(tp);
                }
            }
        }
        for h in (0..high).step_by(stack::CHUNK as usize) {
            // SAFETY: the caller's contract; the region of a chunk's first handle is at its
            // beginning.
            unsafe { self.shape.unmap_chunk(block(h).region.load(Relaxed)) };
        }
        // One that was mapped for a handle that then could not be built.
        if let Some(c) = chunk.filter(|c| c.first >= high) {
            // SAFETY: as above.
            unsafe { self.shape.unmap_chunk(c.base) };
        }
        // SAFETY: our own mapping, which reads as zeroes afterwards.
        unsafe {
            libc::madvise(
                self.blocks.cast(),
                self.max as usize * size_of::<Uthread>(),
                libc::MADV_DONTNEED,
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(max: u32) -> Table {
        Table::new(max, 64 * 1024, Some(tls::layout().unwrap())).unwrap()
    }

    fn take<'a>(t: &'a Table, mut pool: Option<&mut LocalPool>) -> &'a Uthread {
        loop {
            if let Some(u) = t.take(pool.as_deref_mut()) {
                return u;
            }
            t.grow().unwrap();
        }
    }

    #[test]
    fn handles_are_reused_last_in_first_out() {
        let t = table(1000);
        let mut pool = LocalPool::new();
        t.announce();
        t.announce();
        let (a, b) = (take(&t, None).handle, take(&t, None).handle);
        assert_ne!(a, b);
        t.give(t.get(a), Some(&mut pool));
        t.give(t.get(b), Some(&mut pool));
        assert_eq!(t.take(Some(&mut pool)).unwrap().handle, b);
        assert_eq!(t.take(Some(&mut pool)).unwrap().handle, a);
        assert_eq!(t.balance() + pool.balance, 2);
    }

    #[test]
    fn no_number_is_given_twice() {
        let mut pools = [LocalPool::new(), LocalPool::new()];
        let mut seen = std::collections::HashSet::new();
        for i in 0..1000 {
            let (one, two) = pools.split_at_mut(1);
            let pool = [None, one.first_mut(), two.first_mut()].into_iter().nth(i % 3).flatten();
            let id = LocalPool::next_id(pool);
            assert!(id != 0 && seen.insert(id), "{id}");
        }
    }

    #[test]
    fn the_limit_is_an_error() {
        let t = table(70);
        for _ in 0..70 {
            take(&t, None);
        }
        assert!(t.take(None).is_none());
        assert!(matches!(t.grow(), Err(Exhausted::Limit(70))));
        t.give(t.get(69), None);
        assert_eq!(t.take(None).unwrap().handle, 69);
    }

    #[test]
    fn a_full_pool_gives_half_back() {
        let t = table(2000);
        let mut pool = LocalPool::new();
        let all: Vec<u32> = (0..600).map(|_| take(&t, None).handle).collect();
        for &h in &all {
            t.give(t.get(h), Some(&mut pool));
        }
        assert!(pool.len <= LOCAL_MAX);
        let mut seen: Vec<u32> =
            (0..600).map(|i| take(&t, (i % 2 == 0).then_some(&mut pool)).handle).collect();
        seen.sort_unstable();
        assert_eq!(seen, all);
        assert_eq!(t.high(), 600);
    }

    #[test]
    fn guards_are_found() {
        let t = table(100);
        let u = take(&t, None);
        assert_eq!(t.guard_owner(u.region.load(Relaxed) + 5).unwrap().handle, u.handle);
        assert!(t.guard_owner(u.stack_top.load(Relaxed) - 64).is_none());
        assert!(t.stack_size(u) >= 64 * 1024);
    }
}
