//! A private TLS block for each user thread.
//!
//! Code compiled for threads assumes that its thread-local variables move with it. A user thread
//! moves between kernel threads, even in the middle of a function, so `fs` must move with the user
//! thread: every user thread has a complete glibc thread block (static TLS, dynamic thread vector,
//! `struct pthread`) of its own.
//!
//! ```text
//!   base                                     tp = fs base
//!    | static TLS of all modules (negative)   | tcbhead_t, struct pthread  |
//!    +----------------------------------------+----------------------------+
//!    |<------------- below ------------------>|<--------- above ---------->|
//! ```
//!
//! glibc builds the block itself: `_dl_allocate_tls` is what `pthread_create` calls, reachable
//! through `dlsym`, as are the size of `struct pthread` and the offset of its `tid` (symbols kept
//! for libthread_db). What `pthread_create` and `start_thread` do besides is done in
//! [`Layout::init`]; [`fields`] says field by field what that is.
//!
//! # Recycling
//!
//! A finished thread's destructors run on it ([`run_destructors`]); then [`Layout::reset`] gives
//! all modules but libc and the dynamic loader their initial image back. libc's variables stay:
//! they hold malloc's per-thread cache and arena choice, which belong to the block and serve its
//! next owner; `errno` and the locale are set back. Variables of modules that were loaded with
//! `dlopen` are freed ([`dynamic`]) or, if they lie in the block, get their initial values from the
//! loader ([`late`]).
//!
//! A runtime can do without all this: [`shared`].

mod descriptors;
mod dynamic;
mod fields;
mod functions;
mod keys;
mod late;
mod list;
mod modules;
mod number;
pub(crate) mod shared;
#[cfg(test)]
mod tests;
mod unsupported;

pub use unsupported::Unsupported;

use crate::arch::{probe, segment};
use crate::thread::{raw, stack};
use core::ffi::{CStr, c_void};
use core::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::OnceLock;

type AllocateTls = unsafe extern "C" fn(*mut c_void) -> *mut c_void;
type DeallocateTls = unsafe extern "C" fn(*mut c_void, bool);
type StaticInfo = unsafe extern "C" fn(*mut usize, *mut usize);
type Plain = unsafe extern "C" fn();

/// The locale that `setlocale` sets (`LC_GLOBAL_LOCALE` of `locale.h`).
const LC_GLOBAL_LOCALE: libc::locale_t = core::ptr::without_provenance_mut(usize::MAX);

/// The program loads libraries itself.
static LIST: AtomicBool = AtomicBool::new(false);

/// From now on the blocks of user threads must be in libc's list.
pub(crate) fn list_from_now_on() {
    LIST.store(true, SeqCst);
}

/// Must they be?
pub(crate) fn must_list() -> bool {
    LIST.load(SeqCst)
}

/// Offsets in `tcbhead_t`, fixed by the x86-64 psABI and glibc's compatibility promises.
mod tcb {
    pub(super) const SELF_TCB: usize = 0;
    pub(super) const SELF: usize = 16;
    pub(super) const MULTIPLE_THREADS: usize = 24;
    pub(super) const STACK_GUARD: usize = 40;
    pub(super) const POINTER_GUARD: usize = 48;
}

/// What the variables of a module are at first, and where in a block they are.
struct Image {
    /// Distance from their start up to the thread pointer.
    below_tp: usize,
    init: *const [u8],
    /// Size of the variables, of which `init` is the beginning and the rest is zero.
    size: usize,
}

// SAFETY: `init` is part of a module's read-only segment, which is only read while the module is
// known to stay.
unsafe impl Send for Image {}
// SAFETY: as above.
unsafe impl Sync for Image {}

impl Image {
    /// Gives the variables in the block at `tp` their initial values.
    ///
    /// # Safety
    ///
    /// The module is loaded, the block complete, and nobody uses these variables of it.
    #[inline]
    unsafe fn write(&self, tp: usize) {
        let at = (tp - self.below_tp) as *mut u8;
        let len = self.init.len();
        // SAFETY: static TLS of a loaded module lies within the block.
        unsafe {
            core::ptr::copy_nonoverlapping(self.init.cast(), at, len);
            core::ptr::write_bytes(at.add(len), 0, self.size - len);
        }
    }
}

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
    fields: fields::Fields,
    list: Option<list::ThreadList>,
    /// Offset of the links of that list in a block.
    links_offset: Option<usize>,
    rseq_cpu_id_offset: Option<isize>,
    /// Of the modules that were there when the process started, which stay.
    images: Vec<Image>,
    late: late::Late,
    /// Modules with TLS outside the block existed when the layout was found.
    has_dynamic: bool,
    /// The generation of the list of modules at that time.
    generation: usize,
    keys: Option<keys::Keys>,
    /// Where the mark of attached blocks lies, below the thread pointer; `None` if it is outside
    /// static TLS.
    mark_below_tp: Option<usize>,
}

fn symbol(name: &CStr) -> Result<*mut c_void, Unsupported> {
    // SAFETY: plain symbol look-up with a NUL-terminated name.
    let p = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    if p.is_null() { Err(Unsupported::Symbol(name.to_string_lossy().into_owned())) } else { Ok(p) }
}

/// The process's layout, found at the first call.
///
/// # Errors
///
/// [`Unsupported`] names what is missing or different in the C library.
pub(crate) fn layout() -> Result<&'static Layout, Unsupported> {
    LAYOUT.get_or_init(Layout::find).as_ref().map_err(Clone::clone)
}

static LAYOUT: OnceLock<Result<Layout, Unsupported>> = OnceLock::new();

/// The layout, if it has been found: without it there are no user threads with descriptors of their
/// own.
pub(crate) fn known_layout() -> Option<&'static Layout> {
    LAYOUT.get()?.as_ref().ok()
}

/// How long `struct pthread` is.
fn pthread_size() -> Result<usize, Unsupported> {
    let size = symbol(c"_thread_db_sizeof_pthread")?.cast::<u32>();
    // SAFETY: a constant in libc's read-only data.
    Ok(unsafe { *size as usize })
}

/// How far static TLS reaches below the thread pointer, with what is kept for libraries to come,
/// and its alignment.
fn static_tls() -> Result<(usize, usize), Unsupported> {
    let info = symbol(c"_dl_get_tls_static_info")?;
    let (mut size, mut align) = (0usize, 0usize);
    // SAFETY: the function has this type in every glibc that exports it, and writes both words.
    unsafe { core::mem::transmute::<*mut c_void, StaticInfo>(info)(&mut size, &mut align) };
    // libc's size is that of the whole block, with the descriptor.
    Ok((size.saturating_sub(pthread_size()?), align))
}

/// Where a thread's descriptor has its number.
fn tid_offset() -> Result<usize, Unsupported> {
    descriptors::offset(c"_thread_db_pthread_tid")
        .ok_or_else(|| Unsupported::Symbol("_thread_db_pthread_tid".into()))
}

/// The numbers of the kernel threads that libc knows; `None` if its list was not found.
pub(crate) fn kernel_threads() -> Option<Vec<i32>> {
    static FOUND: OnceLock<Option<(list::ThreadList, usize)>> = OnceLock::new();
    let find = || list::ThreadList::find().zip(tid_offset().ok());
    let (list, tid_offset) = FOUND.get_or_init(find).as_ref()?;
    let mut tids = Vec::new();
    loop {
        let mut missing = 0;
        list.each(|tp| {
            // SAFETY: a thread's block, which stays while it is listed.
            let tid = unsafe { ((tp + tid_offset) as *const i32).read_volatile() };
            // Zero: it is about to start, or has ended.
            if tid <= 0 || number::is_user(tid) {
            } else if tids.len() < tids.capacity() {
                tids.push(tid);
            } else {
                missing += 1;
            }
        });
        if missing == 0 {
            return Some(tids);
        }
        let room = tids.len() + missing + 8;
        tids.clear();
        tids.reserve(room);
    }
}

impl Layout {
    fn find() -> Result<Layout, Unsupported> {
        // SAFETY: the symbols have these types in every glibc that exports them (checked against
        // 2.34 to 2.41).
        let (allocate, deallocate, ctype_init, call_dtors) = unsafe {
            (
                core::mem::transmute::<*mut c_void, AllocateTls>(symbol(c"_dl_allocate_tls")?),
                core::mem::transmute::<*mut c_void, DeallocateTls>(symbol(c"_dl_deallocate_tls")?),
                core::mem::transmute::<*mut c_void, Plain>(symbol(c"__ctype_init")?),
                core::mem::transmute::<*mut c_void, Plain>(symbol(c"__call_tls_dtors")?),
            )
        };
        let pthread_size = pthread_size()?;
        let tid_offset = tid_offset()?;
        // SAFETY: `__rseq_offset` is a public constant of glibc 2.35 and newer.
        let rseq = symbol(c"__rseq_offset").ok().map(|p| unsafe { *p.cast::<isize>() });
        let fields = fields::Fields::find(pthread_size, tid_offset, rseq)?;
        let (below, align) = static_tls()?;
        let align = align.max(64);
        let below = below.next_multiple_of(align);
        let table = modules::ModuleTable::find();
        let mut modules = Modules::default();
        modules::each(table.as_ref(), |m| modules.add(m));
        Ok(Layout {
            allocate,
            deallocate,
            ctype_init,
            call_dtors,
            below,
            above: pthread_size.next_multiple_of(align),
            align,
            tid_offset,
            fields,
            list: list::ThreadList::find(),
            links_offset: descriptors::offset(c"_thread_db_pthread_list"),
            rseq_cpu_id_offset: rseq.map(|at| at + 4),
            late: late::Late::find(table, modules.static_now, modules.static_at_start),
            images: modules.images,
            has_dynamic: modules.has_dynamic,
            // SAFETY: the calling thread's block.
            generation: unsafe { dynamic::generation(segment::fs_base()) },
            keys: keys::Keys::find(),
            mark_below_tp: Some(segment::fs_base().wrapping_sub(raw::attached_mark() as usize))
                .filter(|&d| d <= below),
        })
    }

    /// Bytes that a block needs, for an end address that may have any alignment.
    pub(crate) fn size(&self) -> usize {
        self.below + self.above + self.align
    }

    /// How far below the thread pointer the flag of attached threads lies, if that is the same in
    /// all blocks.
    pub(crate) fn mark_below_tp(&self) -> Option<usize> {
        self.mark_below_tp
    }

    /// Lays a block out below `top`: the thread pointer, and the first address of the block.
    pub(crate) fn place(&self, top: usize) -> (usize, usize) {
        let tp = (top - self.above) & !(self.align - 1);
        (tp, tp - self.below)
    }

    /// Tells libc that the thread at `tp` has another stack: `region`, which begins with a guard.
    ///
    /// # Safety
    ///
    /// The block of a user thread that does not run.
    pub(crate) unsafe fn set_stack(&self, tp: usize, region: core::ops::Range<usize>) {
        // SAFETY: handed on.
        unsafe { self.fields.set_stack(tp, region, stack::GUARD) };
    }

    /// Builds the block of the new user thread `handle` in zeroed memory around `tp`. `region` has
    /// its stack and the block, and begins with the guard. `false`: out of memory.
    ///
    /// # Safety
    ///
    /// `tp` comes from [`place`](Layout::place), and the whole block is zeroed, writable and
    /// unused. If it is to be `listed`, it stays until it is taken [out](Layout::unlist).
    pub(crate) unsafe fn init(
        &self,
        tp: usize,
        handle: u32,
        region: core::ops::Range<usize>,
        listed: bool,
    ) -> bool {
        if let Some(o) = self.links_offset {
            let links = (tp + o) as *mut usize;
            // Linked to itself: in the child of a fork, libc takes the calling thread out of its
            // list.
            // SAFETY: in struct pthread, which is ours.
            unsafe { (links.write(tp + o), links.add(1).write(tp + o)) };
        }
        if listed {
            // First, so that a library that is loaded now is known either to the list's readers or
            // to `allocate`.
            // SAFETY: the caller's contract.
            unsafe { self.list(tp) };
        }
        // SAFETY: as `pthread_create` does for a thread whose stack it was given.
        if unsafe { (self.allocate)(tp as *mut c_void) }.is_null() {
            if listed {
                // SAFETY: listed above.
                unsafe { self.unlist(tp) };
            }
            return false;
        }
        let own = segment::fs_base();
        let word = |at: usize| (tp + at) as *mut usize;
        // SAFETY: all offsets lie in tcbhead_t or struct pthread, which are ours now.
        unsafe {
            probe::prepare(tp);
            word(tcb::SELF_TCB).write(tp);
            word(tcb::SELF).write(tp);
            // Forbids the shortcuts that libc takes in single-threaded processes.
            word(tcb::MULTIPLE_THREADS).cast::<i32>().write(1);
            for guard in [tcb::STACK_GUARD, tcb::POINTER_GUARD] {
                word(guard).write(((own + guard) as *const usize).read());
            }
            let number = number::number(std::process::id(), handle);
            word(self.tid_offset).cast::<u32>().write(number);
            self.fields.init(tp, region, stack::GUARD);
            if let Some(keys) = &self.keys {
                keys.init(tp);
            }
            if let Some(o) = self.rseq_cpu_id_offset {
                // Not registered: sched_getcpu must ask the kernel.
                ((tp as isize + o) as *mut i32).write(-1);
            }
        }
        self.mark(tp);
        true
    }

    /// Marks a block as one of a user thread, so that a signal that comes before its first
    /// instruction is recognised.
    fn mark(&self, tp: usize) {
        if let Some(below) = self.mark_below_tp {
            // SAFETY: a bool in the block's static TLS.
            unsafe { ((tp - below) as *mut bool).write(true) };
        }
    }

    /// What must be initialised from within the new block; once, on its first thread.
    pub(crate) fn init_from_inside(&self) {
        // SAFETY: sets libc's TLS pointers to the current locale's character tables, as
        // start_thread does.
        unsafe { (self.ctype_init)() };
    }

    /// Gives a block's variables, except libc's own, their initial values.
    ///
    /// # Safety
    ///
    /// The block is complete, its thread has finished and run its destructors, and nobody uses it.
    pub(crate) unsafe fn reset(&self, tp: usize) {
        for image in &self.images {
            // SAFETY: the caller's contract; these modules stay.
            unsafe { image.write(tp) };
        }
        self.mark(tp);
    }

    /// Puts a block into libc's list of threads, before it is initialised or later.
    ///
    /// # Safety
    ///
    /// The block is writable and stays so until it is [taken out](Layout::unlist).
    pub(crate) unsafe fn list(&self, tp: usize) {
        if let Some(list) = &self.list {
            // SAFETY: the caller's contract.
            unsafe { list.add(tp) };
        }
    }

    /// Takes it out again.
    ///
    /// # Safety
    ///
    /// It was put in, by this process: in the child of a fork libc has emptied the list.
    pub(crate) unsafe fn unlist(&self, tp: usize) {
        if let Some(list) = &self.list {
            // SAFETY: the caller's contract.
            unsafe { list.remove(tp) };
        }
    }

    /// The stack that the user thread behind a `pthread_t` says it has, with its TLS block, and the
    /// size of the guard below; `None` for a kernel thread.
    ///
    /// # Safety
    ///
    /// A thread that has not ended.
    pub(crate) unsafe fn stack_of(
        &self,
        thread: libc::pthread_t,
    ) -> Option<(core::ops::Range<usize>, usize)> {
        let tp = thread as usize;
        // SAFETY: the caller's contract: `pthread_t` is the address of the descriptor.
        unsafe {
            let tid = ((tp + self.tid_offset) as *const i32).read_volatile();
            number::is_user(tid).then(|| self.fields.stack(tp))
        }
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

    /// Runs the destructors of the calling thread's `thread_local!` and C++ `thread_local`
    /// variables, then those of its `pthread_setspecific` values, as at the end of any thread, and
    /// what these have left behind: the next thread on this block would have to run it.
    pub(crate) fn run_destructors(&self) {
        // SAFETY: runs and empties the list that `__cxa_thread_atexit_impl` filled on this block.
        let call_dtors = || unsafe { (self.call_dtors)() };
        call_dtors();
        if let Some(keys) = &self.keys {
            keys.run_destructors(call_dtors);
        }
        let tp = segment::fs_base();
        // SAFETY: the calling thread's block; its destructors have just run.
        unsafe {
            if self.has_dynamic || dynamic::generation(tp) != self.generation {
                dynamic::release(tp);
            }
            if self.late.any() {
                self.late.reset(tp);
            }
            let tid = ((tp + self.tid_offset) as *const u32).read();
            self.fields.end_resolver(tp);
            self.fields.abandon(tp, tid);
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
    /// Bytes of static TLS of all modules, and of those that were there at the start.
    static_now: usize,
    static_at_start: usize,
}

impl Modules {
    fn add(&mut self, m: modules::Module) {
        let Some(image) = m.image else {
            self.has_dynamic = true;
            return;
        };
        self.static_now = self.static_now.max(image.below_tp);
        if m.from_start {
            self.static_at_start = self.static_at_start.max(image.below_tp);
            if !m.is_libc {
                self.images.push(image);
            }
        }
    }
}
