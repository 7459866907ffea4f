//! From the program's first instruction to its `main`, which runs on a user thread.
//!
//! `__libc_start_main` is called by the program's start code. The one here starts the runtime,
//! unless a constructor that made a thread has done so already, and gives the C library a `main` of
//! its own: it runs the program's on a user thread, which also calls `exit`, so that destructors
//! and `atexit` functions run where `main` ran.

use crate::real::real;
use crate::say::fatal;
use crate::state::{self, LIVE, Thread};
use crate::{
    cancel, exec, inline_calls, mutex, raw_calls, refuse, robust, signal, stats, thread, unwind,
};
use core::ffi::{c_char, c_int, c_void};
use core::mem::MaybeUninit;
use core::ptr;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicUsize, Ordering::*};
use quaver::foreign::{fork, once, preempt, thread as uthread};
use quaver::{Builder, Runtime};
use std::time::Duration;

type Main = unsafe extern "C-unwind" fn(c_int, *mut *mut c_char, *mut *mut c_char) -> c_int;

static PROGRAM: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());
static FORK_HANDLER: AtomicBool = AtomicBool::new(false);
unsafe extern "C" {
    fn pthread_atfork(
        prepare: Option<extern "C" fn()>,
        parent: Option<extern "C" fn()>,
        child: Option<extern "C" fn()>,
    ) -> c_int;
}
/// A once: is the runtime running?
static STARTED: AtomicU32 = AtomicU32::new(0);
static DEFAULT_SIZE: AtomicUsize = AtomicUsize::new(0);

/// What attributes say of the stack where the program has not: the C library's default at the
/// start.
pub(crate) fn default_size() -> usize {
    DEFAULT_SIZE.load(Relaxed)
}

fn find_default_size() -> usize {
    let (mut attributes, mut size) = (MaybeUninit::<libc::pthread_attr_t>::uninit(), 0);
    let attributes = attributes.as_mut_ptr();
    // SAFETY: initialised first, destroyed last; room for the answer.
    unsafe {
        if libc::pthread_attr_init(attributes) != 0 {
            return 0;
        }
        libc::pthread_attr_getstacksize(attributes, &mut size);
        libc::pthread_attr_destroy(attributes);
    }
    size
}

/// Starts the runtime if it is not running.
#[inline]
pub(crate) fn ensure() {
    once::call(&STARTED, start);
}

/// The size that a thread has by default: that of the main thread's stack, as the C library does
/// it.
fn default_stack() -> usize {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: writes `limit`.
    unsafe { libc::getrlimit(libc::RLIMIT_STACK, &mut limit) };
    let wanted =
        if limit.rlim_cur == libc::RLIM_INFINITY { 64 << 20 } else { limit.rlim_cur as usize };
    wanted.clamp(1 << 20, 1 << 30).next_multiple_of(4096)
}

/// Without preemption there is still this: programs were written for a kernel that interrupts who
/// spins until another thread has done something, as it does who blocks.
const RESCUE: Duration = Duration::from_millis(100);

fn start() {
    state::init();
    exec::start();
    refuse::start();
    quaver_monitor::provide_by_lockd();
    let mut builder = Builder::from_env();
    signal::prepare(preempt::signal(&builder));
    state::set_internal(true);
    let size = match std::env::var("QUAVER_STACK_SIZE") {
        Ok(_) => None,
        Err(_) => Some(default_stack()),
    };
    for (variable, name, default) in [
        ("QUAVER_MAX_BLOCKING", "max_blocking", "30000"),
        ("QUAVER_MAX_THREADS", "max_threads", "65536"),
    ] {
        if std::env::var_os(variable).is_none() {
            builder = builder.set(name, default);
        }
    }
    if let Some(size) = size {
        builder = builder.stack_size(size);
    }
    DEFAULT_SIZE.store(find_default_size(), Relaxed);
    if std::env::var("QUAVER_QUANTUM").is_ok_and(|q| matches!(&*q, "off" | "none" | "0")) {
        builder = builder.quantum(Some(RESCUE));
    }
    uthread::count_run_time();
    // The runtime's kernel threads begin with what this one blocks now.
    // SAFETY: nothing that the program has said changes.
    match unsafe { signal::with_kernel_mask(signal::of_runtime(), || builder.build()) } {
        // It ends with the process.
        Ok(runtime) => {
            crate::net::start(&runtime);
            core::mem::forget::<Runtime>(runtime);
        }
        Err(e) => fatal(format_args!("{e}")),
    }
    state::set_internal(false);
    cancel::install_kick();
    if !FORK_HANDLER.swap(true, Relaxed) {
        // SAFETY: a handler that may run in any child.
        let r = unsafe { pthread_atfork(None, None, Some(in_child)) };
        if r != 0 {
            fatal(format_args!("cannot install a fork handler"));
        }
    }
    signal::start();
    raw_calls::start();
    inline_calls::look();
    quaver::foreign::thread::overflow_is_a_fault();
    quaver::foreign::sleep::set_sleeper(crate::time::sleep_for);
    stats::start();
    forget_environment();
}

/// Programs that this one starts are their own affair, unless the user wants them here too.
fn forget_environment() {
    if std::env::var("QUAVER_SHIM_FOLLOW").is_ok_and(|v| v == "1") {
        return;
    }
    let all = std::env::var("LD_PRELOAD").unwrap_or_default();
    let (ours, others): (Vec<&str>, Vec<&str>) = all
        .split([':', ' '])
        .filter(|path| !path.is_empty())
        .partition(|path| path.ends_with("libquaver_shim.so"));
    if let Some(path) = ours.first() {
        exec::keep(path);
    }
    exec::replace_variable("LD_PRELOAD", &others.join(":"));
}

/// In the child of a fork: its only thread is its main thread, and a kernel thread until the end.
/// The next `pthread_create` starts a runtime for the threads that it makes.
extern "C" fn in_child() {
    // SAFETY: the only thread, before anything else.
    unsafe { fork::in_child() };
    for word in [&STARTED, &state::META, &inline_calls::LOOKING] {
        word.store(0, Relaxed);
    }
    signal::in_child();
    robust::in_child();
    mutex::in_child();
    LIVE.store(1, Relaxed);
    if let Some(me) = state::me() {
        me.uthread.set(None);
        me.blocked_in.store(0, Relaxed);
        state::set_main(me);
    }
}

struct Arguments(c_int, *mut *mut c_char, *mut *mut c_char);

/// The program's `main`, as a start routine.
unsafe extern "C-unwind" fn run_main(arguments: *mut c_void) -> *mut c_void {
    // SAFETY: from `main_on_user_thread`, which waits.
    unsafe {
        let Arguments(argc, argv, envp) = *arguments.cast::<Arguments>();
        let main = core::mem::transmute::<*mut c_void, Main>(PROGRAM.load(Relaxed));
        let status = main(argc, argv, envp);
        libc::exit(status)
    }
}

extern "C" fn main_on_user_thread(
    argc: c_int,
    argv: *mut *mut c_char,
    envp: *mut *mut c_char,
) -> c_int {
    signal::will_wait();
    ensure();
    let arguments = Box::into_raw(Box::new(Arguments(argc, argv, envp)));
    // SAFETY: no requirements.
    let pid = unsafe { libc::getpid() };
    let t: &'static Thread =
        Box::leak(Box::new(Thread::new(run_main, arguments.cast(), pid as u32)));
    // SAFETY: 16 bytes; nobody knows the thread yet.
    unsafe {
        let mut comm = [0u8; 16];
        libc::prctl(libc::PR_GET_NAME, comm.as_mut_ptr());
        *t.name.get() = comm;
    }
    LIVE.fetch_add(1, Relaxed);
    // This kernel thread only waits from now on. What it blocks was meant for the program.
    // SAFETY: what the runtime's kernel threads block.
    let blocked = unsafe { signal::set_kernel_mask(signal::of_runtime()) };
    t.signals.mask.store(blocked, Relaxed);
    signal::queue::add(t);
    state::set_main(t);
    robust::be_keeper();
    signal::new_image::take_inherited(blocked);
    let body = move || {
        // By itself: it may be asked for before the one that starts it goes on.
        t.uthread.set(uthread::current());
        let itself = core::ptr::from_ref(t).cast_mut().cast();
        // SAFETY: as for any thread.
        let result = unsafe { unwind::call_with_base(begin, itself, &t.base) };
        // Only pthread_exit comes here.
        thread::finish(t, result);
    };
    match uthread::spawn(Some("main".into()), body) {
        Ok((handle, _)) => core::mem::forget(handle),
        Err(e) => fatal(format_args!("cannot start the main thread: {e}")),
    }
    signal::wait_for_ever()
}

/// What the main thread does inside its base: from here on handlers run on it, and may end it.
///
/// # Safety
///
/// With the main thread's block, on that thread, once.
unsafe extern "C-unwind" fn begin(t: *mut c_void) -> *mut c_void {
    // SAFETY: the caller's contract.
    let t: &'static Thread = unsafe { &*t.cast() };
    state::set_me(t);
    signal::mask::inherit(t, t.signals.mask.load(Relaxed));
    signal::courier::until_running();
    // SAFETY: the program's main function, by way of the C library's start code.
    unsafe { (t.start)(t.argument) }
}

/// Called by the program's start code.
///
/// # Safety
///
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __libc_start_main(
    main: Main,
    argc: c_int,
    argv: *mut *mut c_char,
    init: *mut c_void,
    fini: *mut c_void,
    rtld_fini: *mut c_void,
    stack_end: *mut c_void,
) -> c_int {
    PROGRAM.store(main as *mut c_void, Relaxed);
    // SAFETY: handed on, with another main.
    unsafe {
        real!(__libc_start_main(main_on_user_thread as *mut c_void => *mut c_void, argc => c_int,
            argv => *mut *mut c_char,
            init => *mut c_void, fini => *mut c_void, rtld_fini => *mut c_void,
                stack_end => *mut c_void) -> c_int)
    }
}
