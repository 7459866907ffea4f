//! A private TLS block for each user thread.
//!
//! Code compiled for threads assumes that its thread-local variables move with it. A user thread moves between kernel
//! threads, even in the middle of a function, so `fs` must move with the user thread: every user thread has a complete
//! glibc thread block (static TLS, dynamic thread vector, `struct pthread`) of its own.
//!
//! ```text
//!   base                                     tp = fs base
//!    | static TLS of all modules (negative)   | tcbhead_t, struct pthread  |
//!    +----------------------------------------+----------------------------+
//!    |<------------- below ------------------>|<--------- above ---------->|
//! ```
//!
//! glibc builds the block itself: `_dl_allocate_tls` is what `pthread_create` calls, reachable through `dlsym`, as are
//! the size of `struct pthread` and the offset of its `tid` (symbols kept for libthread_db). What `pthread_create`
//! does besides is done in [`Layout::init`].
//!
//! # Recycling
//!
//! A finished thread's destructors run on it ([`run_destructors`]); then [`Layout::reset`] gives all modules but libc
//! and the dynamic loader their initial image back. libc's variables stay: they hold malloc's per-thread cache and arena
//! choice, which belong to the block and serve its next owner; `errno` and the locale are set back.
//! Variables of modules that were loaded with `dlopen` are freed ([`dynamic`]).
//!
//! A runtime can do without all this: [`shared`].

mod dynamic;
mod keys;
pub(crate) mod shared;

use crate::arch::segment;
use crate::thread::raw;
use core::ffi::{CStr, c_void};
use std::sync::OnceLock;

type AllocateTls = unsafe extern "C" fn(*mut c_void) -> *mut c_void;
type DeallocateTls = unsafe extern "C" fn(*mut c_void, bool);
type StaticInfo = unsafe extern "C" fn(*mut usize, *mut usize);
type Plain = unsafe extern "C" fn();

/// The locale that `setlocale` sets (`LC_GLOBAL_LOCALE` of `locale.h`).
const LC_GLOBAL_LOCALE: libc::locale_t = core::ptr::without_provenance_mut(usize::MAX);

/// Offsets in `tcbhead_t`, fixed by the x86-64 psABI and glibc's compatibility promises.
mod tcb {
    pub(super) const SELF_TCB: usize = 0;
    pub(super) const SELF: usize = 16;
    pub(super) const MULTIPLE_THREADS: usize = 24;
    pub(super) const STACK_GUARD: usize = 40;
    pub(super) const POINTER_GUARD: usize = 48;
}

/// A module's initial TLS image and where it lies below the thread pointer.
struct Image {
    /// Distance from the start of the module's block up to the thread pointer.
    below_tp: usize,
    init: *const u8,
    file_size: usize,
    mem_size: usize,
}

// SAFETY: `init` points into a loaded module's read-only segment; modules with static TLS are never unloaded.
unsafe impl Send for Image {}
// SAFETY: as above, it is only read.
unsafe impl Sync for Image {}

/// How this process's thread blocks are laid out.
pub(crate) struct Layout {
    allocate: AllocateTls,
    deallocate: DeallocateTls,
    ctype_init: Plain,
    call_dtors: Plain,
    below: usize,
    above: usize,
    align: usize,
    tid_offset: usize,
    /// Offset of the links of libc's list of threads.
    list_offset: Option<usize>,
    rseq_cpu_id_offset: Option<isize>,
    images: Vec<Image>,
    /// Modules with TLS outside the block existed when the layout was found.
    has_dynamic: bool,
    /// The generation of the list of modules at that time.
    generation: usize,
    keys: Option<keys::Keys>,
    /// Where the mark of attached blocks lies, below the thread pointer; `None` if it is outside static TLS.
    mark_below_tp: Option<usize>,
}

/// Why user threads cannot have private TLS here.
#[derive(Debug, Clone, thiserror::Error)]
#[error(
    "this C library has no `{symbol}`: private thread-local storage needs glibc 2.34 or newer, dynamically linked"
)]
pub struct Unsupported {
    symbol: String,
}

fn symbol(name: &CStr) -> Result<*mut c_void, Unsupported> {
    // SAFETY: plain symbol look-up with a NUL-terminated name.
    let p = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    if p.is_null() {
        Err(Unsupported { symbol: name.to_string_lossy().into_owned() })
    } else {
        Ok(p)
    }
}

/// The process's layout, found at the first call.
///
/// # Errors
///
/// [`Unsupported`] names the missing entry point of the C library.
pub(crate) fn layout() -> Result<&'static Layout, Unsupported> {
    static LAYOUT: OnceLock<Result<Layout, Unsupported>> = OnceLock::new();
    LAYOUT.get_or_init(Layout::find).as_ref().map_err(Clone::clone)
}

impl Layout {
    fn find() -> Result<Layout, Unsupported> {
        // SAFETY: the symbols have these types in every glibc that exports them (checked against 2.34 to 2.41).
        let (allocate, deallocate, static_info, ctype_init, call_dtors) = unsafe {
            (
                core::mem::transmute::<*mut c_void, AllocateTls>(symbol(c"_dl_allocate_tls")?),
                core::mem::transmute::<*mut c_void, DeallocateTls>(symbol(c"_dl_deallocate_tls")?),
                core::mem::transmute::<*mut c_void, StaticInfo>(symbol(
                    c"_dl_get_tls_static_info",
                )?),
                core::mem::transmute::<*mut c_void, Plain>(symbol(c"__ctype_init")?),
                core::mem::transmute::<*mut c_void, Plain>(symbol(c"__call_tls_dtors")?),
            )
        };
        let pthread_size = symbol(c"_thread_db_sizeof_pthread")?.cast::<u32>();
        // A libthread_db descriptor: size in bits, number of elements, offset in bytes.
        let tid = symbol(c"_thread_db_pthread_tid")?.cast::<[u32; 3]>();
        // SAFETY: constants in libc's read-only data.
        let (pthread_size, tid) = unsafe { (*pthread_size as usize, *tid) };
        let (mut size, mut align) = (0usize, 0usize);
        // SAFETY: writes both words.
        unsafe { static_info(&mut size, &mut align) };
        let align = align.max(64);
        // SAFETY: `__rseq_offset` is a public constant of glibc 2.35 and newer.
        let rseq = symbol(c"__rseq_offset").ok().map(|p| unsafe { *p.cast::<isize>() } + 4);
        let modules = loaded_modules();
        Ok(Layout {
            allocate,
            deallocate,
            ctype_init,
            call_dtors,
            below: size.next_multiple_of(align),
            above: pthread_size.next_multiple_of(align),
            align,
            tid_offset: tid[2] as usize,
            // SAFETY: a descriptor as above.
            list_offset: symbol(c"_thread_db_pthread_list")
                .ok()
                .map(|p| unsafe { *p.cast::<[u32; 3]>() }[2] as usize),
            rseq_cpu_id_offset: rseq,
            images: modules.images,
            has_dynamic: modules.has_dynamic,
            // SAFETY: the calling thread's block.
            generation: unsafe { dynamic::generation(segment::fs_base()) },
            keys: keys::Keys::find(),
            mark_below_tp: Some(segment::fs_base().wrapping_sub(raw::attached_mark() as usize))
                .filter(|&d| d <= size),
        })
    }

    /// Bytes that a block needs, for an end address that may have any alignment.
    pub(crate) fn size(&self) -> usize {
        self.below + self.above + self.align
    }

    /// How far below the thread pointer the flag of attached threads lies, if that is the same in all blocks.
    pub(crate) fn mark_below_tp(&self) -> Option<usize> {
        self.mark_below_tp
    }

    /// Lays a block out below `top`: the thread pointer, and the first address of the block.
    pub(crate) fn place(&self, top: usize) -> (usize, usize) {
        let tp = (top - self.above) & !(self.align - 1);
        (tp, tp - self.below)
    }

    /// Builds the block of a new user thread in zeroed memory around `tp`. `number` is unique among user threads.
    /// `false`: out of memory.
    ///
    /// # Safety
    ///
    /// `tp` comes from [`place`](Layout::place), and the whole block is zeroed, writable and unused.
    pub(crate) unsafe fn init(&self, tp: usize, number: u32) -> bool {
        // SAFETY: as `pthread_create` does for a thread whose stack it was given.
        if unsafe { (self.allocate)(tp as *mut c_void) }.is_null() {
            return false;
        }
        let own = segment::fs_base();
        let word = |at: usize| (tp + at) as *mut usize;
        // SAFETY: all offsets lie in tcbhead_t or struct pthread, which are ours now.
        unsafe {
            word(tcb::SELF_TCB).write(tp);
            word(tcb::SELF).write(tp);
            // Forbids the shortcuts that libc takes in single-threaded processes.
            word(tcb::MULTIPLE_THREADS).cast::<i32>().write(1);
            for guard in [tcb::STACK_GUARD, tcb::POINTER_GUARD] {
                word(guard).write(((own + guard) as *const usize).read());
            }
            // Mutexes record their owner by this number; real ones are below 2^22 (PID_MAX_LIMIT).
            word(self.tid_offset).cast::<i32>().write((1 << 29) | number as i32);
            if let Some(o) = self.list_offset {
                // Linked to itself: in the child of a fork, libc takes the calling thread out of its list.
                word(o).write(tp + o);
                word(o + 8).write(tp + o);
            }
            if let Some(o) = self.rseq_cpu_id_offset {
                // Not registered: sched_getcpu must ask the kernel.
                ((tp as isize + o) as *mut i32).write(-1);
            }
        }
        self.mark(tp);
        true
    }

    /// Marks a block as one of a user thread, so that a signal that comes before its first instruction is recognised.
    fn mark(&self, tp: usize) {
        if let Some(below) = self.mark_below_tp {
            // SAFETY: a bool in the block's static TLS.
            unsafe { ((tp - below) as *mut bool).write(true) };
        }
    }

    /// What must be initialised from within the new block; once, on its first thread.
    pub(crate) fn init_from_inside(&self) {
        // SAFETY: sets libc's TLS pointers to the current locale's character tables, as start_thread does.
        unsafe { (self.ctype_init)() };
    }

    /// Gives a block's variables, except libc's own, their initial values.
    ///
    /// # Safety
    ///
    /// The block is complete, its thread has finished and run its destructors, and nobody uses it.
    pub(crate) unsafe fn reset(&self, tp: usize) {
        for image in &self.images {
            let at = (tp - image.below_tp) as *mut u8;
            // SAFETY: static TLS of a loaded module lies within the block; `init` holds `file_size` bytes.
            unsafe {
                core::ptr::copy_nonoverlapping(image.init, at, image.file_size);
                core::ptr::write_bytes(
                    at.add(image.file_size),
                    0,
                    image.mem_size - image.file_size,
                );
            }
        }
        self.mark(tp);
    }

    /// Frees what glibc allocated for the block. The memory around `tp` stays the caller's.
    ///
    /// # Safety
    ///
    /// As for [`reset`](Layout::reset); the block must be built anew before its next use.
    pub(crate) unsafe fn release(&self, tp: usize) {
        // SAFETY: `false`: the block itself was not allocated by glibc.
        unsafe { (self.deallocate)(tp as *mut c_void, false) };
    }

    /// Runs the destructors of the calling thread's `thread_local!` and C++ `thread_local` variables, then those of its
    /// `pthread_setspecific` values, as at the end of any thread.
    pub(crate) fn run_destructors(&self) {
        // SAFETY: runs and empties the list that `__cxa_thread_atexit_impl` filled on this block.
        unsafe { (self.call_dtors)() };
        if let Some(keys) = &self.keys {
            keys.run_destructors();
        }
        let tp = segment::fs_base();
        // SAFETY: the calling thread's block; its destructors have just run.
        unsafe {
            if self.has_dynamic || dynamic::generation(tp) != self.generation {
                dynamic::release(tp);
            }
        }
        // What the next thread on this block must not inherit of libc's own variables.
        // SAFETY: the calling thread's errno and locale.
        unsafe {
            *libc::__errno_location() = 0;
            if libc::uselocale(core::ptr::null_mut()) != LC_GLOBAL_LOCALE {
                libc::uselocale(LC_GLOBAL_LOCALE);
            }
        }
    }
}

/// What the loaded modules mean for recycling.
#[derive(Default)]
struct Modules {
    images: Vec<Image>,
    has_dynamic: bool,
}

fn loaded_modules() -> Modules {
    let mut modules = Modules::default();
    // SAFETY: the callback gets valid module descriptions and our struct.
    unsafe { libc::dl_iterate_phdr(Some(collect), &mut modules as *mut Modules as *mut c_void) };
    modules
}

unsafe extern "C" fn collect(
    info: *mut libc::dl_phdr_info,
    _size: usize,
    data: *mut c_void,
) -> i32 {
    // SAFETY: `data` is the struct of `loaded_modules`; `info` is valid during the callback.
    let (info, modules) = unsafe { (&*info, &mut *data.cast::<Modules>()) };
    // SAFETY: dlpi_name is a C string, empty for the main program.
    let name = unsafe { CStr::from_ptr(info.dlpi_name) }.to_string_lossy();
    let file = name.rsplit('/').next().unwrap_or("");
    // SAFETY: dlpi_phdr has dlpi_phnum entries.
    let headers = unsafe { core::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()) };
    if file.starts_with("libc.so")
        || file.starts_with("ld-linux")
        || !headers.iter().any(|h| h.p_type == libc::PT_TLS)
    {
        return 0;
    }
    // In static TLS if it lies shortly below the thread pointer; elsewhere, or nowhere yet, if it is allocated on demand.
    let below_tp = segment::fs_base().wrapping_sub(info.dlpi_tls_data as usize);
    if below_tp > 1 << 20 {
        modules.has_dynamic = true;
        return 0;
    }
    for h in headers.iter().filter(|h| h.p_type == libc::PT_TLS) {
        modules.images.push(Image {
            below_tp,
            init: (info.dlpi_addr + h.p_vaddr) as *const u8,
            file_size: h.p_filesz as usize,
            mem_size: h.p_memsz as usize,
        });
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layout_is_found_and_covers_static_tls() {
        let l = layout().unwrap();
        assert!(l.below >= 64 && l.above >= 512, "{} {}", l.below, l.above);
        assert!(l.tid_offset > 512 && l.tid_offset < l.above);
        for i in &l.images {
            assert!(i.below_tp <= l.below && i.mem_size <= i.below_tp + l.align);
        }
        let (tp, base) = l.place(1 << 20);
        assert!(tp % 64 == 0 && base >= (1 << 20) - l.size());
    }

    #[test]
    fn values_of_pthread_keys_are_found() {
        assert!(layout().unwrap().keys.is_some());
    }

    #[test]
    fn the_tid_offset_is_right() {
        let l = layout().unwrap();
        // SAFETY: within the calling thread's struct pthread.
        let tid = unsafe { ((segment::fs_base() + l.tid_offset) as *const i32).read() };
        assert_eq!(tid, crate::sys::gettid());
    }
}
