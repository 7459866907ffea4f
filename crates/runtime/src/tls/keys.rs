//! Values of `pthread_setspecific`, destroyed when a user thread ends.
//!
//! glibc keeps them in `struct pthread`: a block for the first 32 keys, just before an array of
//! pointers to further blocks of 32, which is followed by a flag "anything was ever set". The
//! array's offset and the table of destructors are exported for libthread_db. The rest is inferred
//! and *tried* once at the start ([`Keys::find`]); should another glibc lay things out differently,
//! destructors of keys do not run, and nothing else is affected.

use super::symbol;
use crate::arch::segment;
use core::ffi::c_void;

/// Keys in a block (`PTHREAD_KEY_2NDLEVEL_SIZE`), and blocks (`PTHREAD_KEY_1STLEVEL_SIZE`).
const BLOCK: usize = 32;
/// Rounds over all keys, because destructors may set values again
/// (`PTHREAD_DESTRUCTOR_ITERATIONS`).
const ROUNDS: usize = 4;

/// `struct pthread_key_data`: which incarnation of the key the value was set for, and the value.
#[repr(C)]
struct KeyData {
    seq: usize,
    data: *mut c_void,
}

/// `struct pthread_key_struct`.
#[repr(C)]
struct Key {
    seq: usize,
    destructor: Option<unsafe extern "C" fn(*mut c_void)>,
}

/// Where values are, relative to the thread pointer.
pub(super) struct Keys {
    table: *const Key,
    first_block: usize,
    blocks: usize,
    used: usize,
}

// SAFETY: `table` is libc's static table, read as glibc itself reads it, without a lock.
unsafe impl Send for Keys {}
// SAFETY: as above.
unsafe impl Sync for Keys {}

impl Keys {
    /// Finds the layout and tries it on the calling thread.
    pub(super) fn find() -> Option<Keys> {
        let table = symbol(c"__pthread_keys").ok()?.cast::<Key>();
        // SAFETY: a libthread_db descriptor: bits, elements, offset.
        let offset =
            unsafe { *symbol(c"_thread_db_pthread_specific").ok()?.cast::<[u32; 3]>() }[2] as usize;
        let keys = Keys {
            table,
            first_block: offset.checked_sub(BLOCK * size_of::<KeyData>())?,
            blocks: offset,
            used: offset + BLOCK * size_of::<usize>(),
        };
        keys.try_out().then_some(keys)
    }

    /// As in every thread: the first pointer is that of the block before it.
    ///
    /// # Safety
    ///
    /// A descriptor that nobody uses yet.
    pub(super) unsafe fn init(&self, tp: usize) {
        // SAFETY: the first of the block pointers.
        unsafe { ((tp + self.blocks) as *mut usize).write(tp + self.first_block) };
    }

    /// Sets a value of a fresh key and looks whether it is where it should be.
    fn try_out(&self) -> bool {
        let mut key = 0;
        // SAFETY: plain use of the pthread API with a key of our own.
        unsafe {
            if libc::pthread_key_create(&mut key, None) != 0 {
                return false;
            }
            let magic = self as *const Keys as *const c_void;
            let set = libc::pthread_setspecific(key, magic) == 0;
            let tp = segment::fs_base();
            let found = set
                && *((tp + self.used) as *const u8) == 1
                && (*self.table.add(key as usize)).seq % 2 == 1
                && self.block(tp, key as usize / BLOCK).as_ref().is_some_and(|first| {
                    let value = &*core::ptr::from_ref(first).add(key as usize % BLOCK);
                    value.data.cast_const() == magic
                        && value.seq == (*self.table.add(key as usize)).seq
                });
            libc::pthread_key_delete(key);
            found
        }
    }

    /// The first value of a block of 32, or null if the thread never set one of them.
    ///
    /// # Safety
    ///
    /// `tp` is the calling thread's, and `block` below 32.
    unsafe fn block(&self, tp: usize, block: usize) -> *mut KeyData {
        if block == 0 {
            return (tp + self.first_block) as *mut KeyData;
        }
        // SAFETY: one of the 32 block pointers.
        unsafe { *((tp + self.blocks) as *const *mut KeyData).add(block) }
    }

    /// Calls the destructors of the calling thread's values and forgets all values. `after_round`
    /// is called after each round, for what the destructors have left behind. Nothing of the
    /// thread's runs when this has returned.
    #[inline]
    pub(super) fn run_destructors(&self, after_round: impl Fn()) {
        let tp = segment::fs_base();
        if self.any(tp) {
            self.run_all(tp, after_round);
        }
    }

    /// Was a value set since the flag was taken down?
    fn any(&self, tp: usize) -> bool {
        // SAFETY: a byte of the calling thread's struct pthread.
        unsafe { *((tp + self.used) as *const u8) != 0 }
    }

    #[cold]
    fn run_all(&self, tp: usize, after_round: impl Fn()) {
        for _ in 0..ROUNDS {
            self.each_block(tp, |first, key| self.run_block(first, key));
            after_round();
            if !self.any(tp) {
                return;
            }
        }
        // As when a kernel thread ends: what is set yet again has no destructor. The next thread
        // must not find it.
        self.each_block(tp, |first, _| {
            for i in 0..BLOCK {
                // SAFETY: 32 values in a block.
                unsafe { (*first.add(i)).data = core::ptr::null_mut() };
            }
        });
    }

    /// Takes the flag down and hands `f` the blocks that there are, each with the number of its
    /// first key.
    fn each_block(&self, tp: usize, f: impl Fn(*mut KeyData, usize)) {
        // SAFETY: our own struct pthread; nobody else touches these fields.
        unsafe { *((tp + self.used) as *mut u8) = 0 };
        for block in 0..BLOCK {
            // SAFETY: our own struct pthread.
            let first = unsafe { self.block(tp, block) };
            if !first.is_null() {
                f(first, block * BLOCK);
            }
        }
    }

    fn run_block(&self, first: *mut KeyData, key: usize) {
        for i in 0..BLOCK {
            // SAFETY: 32 values in a block; the table has an entry for each key.
            unsafe {
                let value = &mut *first.add(i);
                let data = core::mem::replace(&mut value.data, core::ptr::null_mut());
                let entry = &*self.table.add(key + i);
                if !data.is_null()
                    && value.seq == entry.seq
                    && let Some(destroy) = entry.destructor
                {
                    destroy(data);
                }
            }
        }
    }
}
