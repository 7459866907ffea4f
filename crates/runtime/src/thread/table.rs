//! All user threads of a runtime: control blocks, stacks and the free lists.
//!
//! A handle is an index; blocks never move. Regions are mapped in chunks when handles are first used and kept until
//! the runtime ends. Free handles are kept last-in first-out, so that warm stacks are used again: first in a small
//! list of each slot (no lock), then in the global list.

use super::control::{NONE, Uthread, phase};
use super::stack::{self, Shape};
use crate::park::SpinLock;
use crate::tls;
use core::sync::atomic::{AtomicIsize, AtomicU32, Ordering::*};
use std::io;

/// The table.
pub(crate) struct Table {
    blocks: *mut Uthread,
    max: u32,
    shape: Shape,
    tls: &'static tls::Layout,
    global: SpinLock<Global>,
    /// Handles given out minus handles returned without a slot's pool; see [`LocalPool::balance`].
    balance: AtomicIsize,
    /// Handles that have ever been used: `0..high`.
    high: AtomicU32,
}

// SAFETY: `blocks` is a mapping that lives as long as the table; `Uthread` has its own sharing rules.
unsafe impl Send for Table {}
// SAFETY: as above.
unsafe impl Sync for Table {}

struct Global {
    free: u32,
    /// Base address of the chunk for the handles beyond `high`.
    chunk: usize,
    chunks: Vec<usize>,
}

/// Why no thread could be made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Exhausted {
    #[error("the limit of {0} user threads is reached (raise it with Builder::max_threads)")]
    Limit(u32),
    #[error("cannot map another stack: {0} (memory, RLIMIT_AS or vm.max_map_count is exhausted)")]
    Memory(#[from] io::Error),
}

/// Free handles of one slot. Used by the slot's carrier only, with preemption disabled.
pub(crate) struct LocalPool {
    first: u32,
    len: u32,
    /// Handles given out minus handles returned by this slot. Kept apart for each slot so that spawning shares no cache
    /// line; only the sum over all slots and the table means something.
    balance: isize,
}

/// How many free handles a slot keeps before it gives half of them back.
const LOCAL_MAX: u32 = 256;

impl LocalPool {
    /// Where a pool counts its share of the number of threads in use.
    ///
    /// # Safety
    ///
    /// `pool` points to a pool.
    pub(crate) unsafe fn balance_of(pool: *const LocalPool) -> *const isize {
        // SAFETY: a field's address.
        unsafe { &raw const (*pool).balance }
    }

    pub(crate) const fn new() -> LocalPool {
        LocalPool { first: NONE, len: 0, balance: 0 }
    }
}

impl Table {
    /// Reserves the table.
    ///
    /// # Errors
    ///
    /// The kernel's, if even the address space cannot be had.
    pub(crate) fn new(max: u32, stack: usize, tls: &'static tls::Layout) -> io::Result<Table> {
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
            shape: Shape::new(stack, tls.size()),
            tls,
            global: SpinLock::new(Global { free: NONE, chunk: 0, chunks: Vec::new() }),
            balance: AtomicIsize::new(0),
            high: AtomicU32::new(0),
        })
    }

    /// The block of a handle that has been given out at least once.
    #[inline(always)]
    pub(crate) fn get(&self, handle: u32) -> &Uthread {
        debug_assert!(handle < self.high.load(Relaxed));
        // SAFETY: below `high`, so written by `grow`; blocks are never moved or removed while the table lives.
        unsafe { &*self.blocks.add(handle as usize) }
    }

    /// The block of a handle that may be stale.
    pub(crate) fn get_checked(&self, handle: u32) -> Option<&Uthread> {
        (handle < self.high.load(Acquire)).then(|| self.get(handle))
    }

    /// The table's share of the number of threads in use; add the pools' (`LocalPool::balance`).
    pub(crate) fn balance(&self) -> isize {
        self.balance.load(SeqCst)
    }

    /// All handles ever used, for iteration.
    pub(crate) fn high(&self) -> u32 {
        self.high.load(Acquire)
    }

    /// The TLS layout that the blocks have.
    pub(crate) fn tls(&self) -> &'static tls::Layout {
        self.tls
    }

    /// The thread whose guard contains `address`. Async-signal-safe.
    pub(crate) fn guard_owner(&self, address: usize) -> Option<&Uthread> {
        (0..self.high.load(Acquire)).map(|h| self.get(h)).find(|t| {
            let r = t.region.get();
            r != 0 && (r..r + stack::GUARD).contains(&address)
        })
    }

    /// Addresses of a thread's stack, without its guard.
    pub(crate) fn stack(&self, t: &Uthread) -> core::ops::Range<usize> {
        t.region.get() + stack::GUARD..t.stack_top.get() + 1
    }

    /// Usable bytes of a thread's stack.
    pub(crate) fn stack_size(&self, t: &Uthread) -> usize {
        t.stack_top.get() - t.region.get() - stack::GUARD
    }

    /// Takes a free thread. With a slot's pool this is a few loads and stores.
    ///
    /// # Errors
    ///
    /// The limit is reached or memory is exhausted.
    pub(crate) fn take(&self, pool: Option<&mut LocalPool>) -> Result<&Uthread, Exhausted> {
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
        Ok(t)
    }

    /// Announces a [`take`](Table::take) without a pool: from now on the table is not released. To be undone by
    /// [`retract`](Table::retract) if no thread was taken.
    pub(crate) fn announce(&self) {
        self.balance.fetch_add(1, SeqCst);
    }

    /// Undoes [`announce`](Table::announce).
    pub(crate) fn retract(&self) {
        self.balance.fetch_sub(1, SeqCst);
    }

    #[cold]
    fn take_global(&self) -> Result<&Uthread, Exhausted> {
        let mut g = self.global.lock();
        if g.free != NONE {
            let t = self.get(g.free);
            g.free = t.next_free.get();
            return Ok(t);
        }
        self.grow(&mut g)
    }

    /// Uses a handle for the first time: maps its region and builds its TLS block.
    fn grow(&self, g: &mut Global) -> Result<&Uthread, Exhausted> {
        let handle = self.high.load(Relaxed);
        if handle >= self.max {
            return Err(Exhausted::Limit(self.max));
        }
        let index = (handle % stack::CHUNK) as usize;
        if index == 0 && g.chunks.len() == (handle / stack::CHUNK) as usize {
            g.chunk = self.shape.map_chunk()?;
            g.chunks.push(g.chunk);
        }
        let region = g.chunk + index * self.shape.size;
        self.shape.guard(region)?;
        let (tp, base) = self.tls.place(region + self.shape.size);
        // SAFETY: the top of a fresh, zeroed region.
        if !unsafe { self.tls.init(tp, handle) } {
            return Err(Exhausted::Memory(io::Error::from_raw_os_error(libc::ENOMEM)));
        }
        let block = Uthread::new(handle);
        block.region.set(region);
        block.fs.set(tp);
        block.stack_top.set(base & !63);
        // SAFETY: the entry is within the mapping and nobody else uses it before `high` covers it.
        unsafe { self.blocks.add(handle as usize).write(block) };
        self.high.store(handle + 1, Release);
        Ok(self.get(handle))
    }

    /// Gives a thread back. Its stack and TLS block must not be in use.
    pub(crate) fn give(&self, t: &Uthread, pool: Option<&mut LocalPool>) {
        t.phase.store(phase::FREE, Relaxed);
        // SAFETY: the thread has ended and nobody else has it.
        unsafe { self.tls.reset(t.fs.get()) };
        let Some(pool) = pool else {
            self.retract();
            let mut g = self.global.lock();
            t.next_free.set(g.free);
            g.free = t.handle;
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
        let mut g = self.global.lock();
        self.get(last).next_free.set(g.free);
        g.free = first;
    }

    /// Frees all stacks and TLS blocks. The table itself stays, empty: late calls with stale handles find nothing.
    ///
    /// # Safety
    ///
    /// No thread is in use, no carrier runs and no reference to a block is kept.
    pub(crate) unsafe fn release(&self) {
        let g = self.global.lock();
        let high = self.high.swap(0, AcqRel);
        for h in 0..high {
            // SAFETY: the block was built in `grow`, and is not in use.
            unsafe {
                let t = &*self.blocks.add(h as usize);
                self.tls.release(t.fs.get());
            }
        }
        for &chunk in &g.chunks {
            // SAFETY: the caller's contract.
            unsafe { self.shape.unmap_chunk(chunk) };
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
        Table::new(max, 64 * 1024, tls::layout().unwrap()).unwrap()
    }

    #[test]
    fn handles_are_reused_last_in_first_out() {
        let t = table(1000);
        let mut pool = LocalPool::new();
        t.announce();
        t.announce();
        let (a, b) = (t.take(None).unwrap().handle, t.take(None).unwrap().handle);
        assert_ne!(a, b);
        t.give(t.get(a), Some(&mut pool));
        t.give(t.get(b), Some(&mut pool));
        assert_eq!(t.take(Some(&mut pool)).unwrap().handle, b);
        assert_eq!(t.take(Some(&mut pool)).unwrap().handle, a);
        assert_eq!(t.balance() + pool.balance, 2);
    }

    #[test]
    fn the_limit_is_an_error() {
        let t = table(70);
        for _ in 0..70 {
            t.take(None).unwrap();
        }
        assert!(matches!(t.take(None), Err(Exhausted::Limit(70))));
        t.give(t.get(69), None);
        assert_eq!(t.take(None).unwrap().handle, 69);
    }

    #[test]
    fn a_full_pool_gives_half_back() {
        let t = table(2000);
        let mut pool = LocalPool::new();
        let all: Vec<u32> = (0..600).map(|_| t.take(None).unwrap().handle).collect();
        for &h in &all {
            t.give(t.get(h), Some(&mut pool));
        }
        assert!(pool.len <= LOCAL_MAX);
        let mut seen: Vec<u32> =
            (0..600).map(|i| t.take((i % 2 == 0).then_some(&mut pool)).unwrap().handle).collect();
        seen.sort_unstable();
        assert_eq!(seen, all);
        assert_eq!(t.high(), 600);
    }

    #[test]
    fn guards_are_found() {
        let t = table(100);
        let u = t.take(None).unwrap();
        assert_eq!(t.guard_owner(u.region.get() + 5).unwrap().handle, u.handle);
        assert!(t.guard_owner(u.stack_top.get() - 64).is_none());
        assert!(t.stack_size(u) >= 64 * 1024);
    }
}
