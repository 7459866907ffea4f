//! Programs that replace themselves by others: wrapper scripts, `env`, `nice`.
//!
//! What the process has become is the program that was meant, so it runs on user threads, too;
//! programs that it starts, in processes of their own, do not. So the environment of the new image
//! gets back what [`keep`] was told; which only the process that was started by `quaver run` does.
//! What it inherits of signals is in [`new_image`].

use crate::real::real;
use crate::signal::new_image;
use crate::state;
use core::ffi::{CStr, c_char, c_int};
use core::sync::atomic::{AtomicI32, Ordering::Relaxed};
use quaver::foreign::{confined, region};
use std::ffi::{CString, OsString};
use std::os::unix::ffi::OsStringExt;
use std::sync::OnceLock;

type Strings = *const *const c_char;

unsafe extern "C" {
    static environ: Strings;
}

/// What the environment of a new image must have.
struct Kept {
    /// This library's path.
    preload: Vec<u8>,
    /// `QUAVER_...=...`
    settings: Vec<CString>,
}

static KEPT: OnceLock<Kept> = OnceLock::new();
/// The process that was started by `quaver run`.
static PROCESS: AtomicI32 = AtomicI32::new(0);

/// This is the process. Before `main`.
pub(crate) fn start() {
    PROCESS.store(std::process::id() as i32, Relaxed);
}

/// Is this that process, and not a child of it? The child of a `vfork` has the same memory, but
/// what it leaves there behind its parent finds.
pub(crate) fn in_parent() -> bool {
    // SAFETY: no requirements.
    PROCESS.load(Relaxed) == unsafe { libc::getpid() }
}

/// Calls `f` on one kernel thread from its beginning to its end, unless this is a child: what
/// replaces or ends the child of a `vfork` in `f` would leave its parent's thread there for ever.
pub(crate) fn in_place<R>(f: impl FnOnce() -> R) -> R {
    let in_parent = in_parent();
    if in_parent {
        region::begin();
    }
    let r = f();
    if in_parent {
        region::end();
    }
    r
}

/// The same for an `f` that starts a program, which may run wherever the process may.
pub(crate) fn in_place_for_program<R>(f: impl FnOnce() -> R) -> R {
    // SAFETY: in a region, or in a child.
    in_place(|| unsafe { confined::outside(f) })
}

const PRELOAD: &[u8] = b"LD_PRELOAD=";

/// From now on images that take the place of this process's have this library preloaded. Before
/// `main`.
pub(crate) fn keep(preload: &str) {
    let setting = |(name, value): (OsString, OsString)| {
        let mut text = name.into_vec();
        if !text.starts_with(b"QUAVER_") {
            return None;
        }
        text.push(b'=');
        text.extend(value.into_vec());
        CString::new(text).ok()
    };
    let settings = std::env::vars_os().filter_map(setting).collect();
    let _ = KEPT.set(Kept { preload: preload.into(), settings });
}

/// Gives a variable of the environment another value, or takes it out if that is empty. Before
/// `main`: nobody else reads the environment, and the program may not be ready for calls of its own
/// `setenv`, as shells have one.
pub(crate) fn replace_variable(variable: &str, value: &str) {
    let wanted = format!("{variable}=");
    let new = CString::new(format!("{wanted}{value}")).ok().filter(|_| !value.is_empty());
    // SAFETY: a list of C strings that ends with null, and that nobody else uses. The new one is
    // never freed.
    unsafe {
        let (mut from, mut to) = (environ.cast_mut(), environ.cast_mut());
        while !from.is_null() && !(*from).is_null() {
            if name(CStr::from_ptr(*from).to_bytes()) != wanted.as_bytes() {
                to.write(*from);
                to = to.add(1);
            }
            from = from.add(1);
        }
        if to != from {
            if let Some(new) = new {
                to.write(new.into_raw());
                to = to.add(1);
            }
            to.write(core::ptr::null());
        }
    }
}

/// The name of a variable, with the equals sign.
fn name(entry: &[u8]) -> &[u8] {
    let end = entry.iter().position(|&byte| byte == b'=').map_or(entry.len(), |at| at + 1);
    &entry[..end]
}

/// An environment for a new image.
struct Environment {
    list: Vec<*const c_char>,
    /// The last entry but one.
    _preload: CString,
}

/// `given`, and what was kept.
///
/// # Safety
///
/// `given` is null or a list of C strings that ends with null.
unsafe fn environment(kept: &Kept, given: Strings) -> Option<Environment> {
    let mut preload = [PRELOAD, &kept.preload].concat();
    let mut list: Vec<*const c_char> = Vec::new();
    // SAFETY: the caller's contract.
    let bytes = |entry: *const c_char| unsafe { CStr::from_ptr(entry) }.to_bytes();
    let mut next = given;
    // SAFETY: the caller's contract.
    while !next.is_null() && unsafe { !(*next).is_null() } {
        // SAFETY: as above.
        let entry = unsafe { *next };
        match bytes(entry).strip_prefix(PRELOAD) {
            Some(others) => {
                preload.push(b':');
                preload.extend(others);
            }
            None => list.push(entry),
        }
        next = next.wrapping_add(1);
    }
    for setting in &kept.settings {
        let wanted = name(setting.to_bytes());
        if !list.iter().any(|&entry| name(bytes(entry)) == wanted) {
            list.push(setting.as_ptr());
        }
    }
    let preload = CString::new(preload).ok()?;
    list.extend([preload.as_ptr(), core::ptr::null()]);
    Some(Environment { list, _preload: preload })
}

/// Calls `f`, which replaces the program, with the environment for it. Returns only if that fails.
///
/// # Safety
///
/// As for [`environment`].
unsafe fn replace(given: Strings, f: impl FnOnce(Strings) -> c_int) -> c_int {
    let kept = KEPT.get().filter(|_| in_parent());
    // SAFETY: the caller's contract.
    let made = kept.and_then(|kept| unsafe { environment(kept, given) });
    let given = made.as_ref().map_or(given, |made| made.list.as_ptr());
    let Some(me) = state::me() else { return f(given) };
    // SAFETY: in `in_place`, or in a child.
    new_image::replace(me, || unsafe { confined::outside(|| f(given)) })
}

/// See `execve(2)`.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn execve(path: *const c_char, argv: Strings, envp: Strings) -> c_int {
    // SAFETY: handed on.
    unsafe {
        replace(
            envp,
            |envp| real!(execve(path => *const c_char, argv => Strings, envp => Strings) -> c_int),
        )
    }
}

/// See `fexecve(3)`.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fexecve(fd: c_int, argv: Strings, envp: Strings) -> c_int {
    // SAFETY: handed on.
    unsafe {
        replace(envp, |envp| real!(fexecve(fd => c_int, argv => Strings, envp => Strings) -> c_int))
    }
}

/// See `execvpe(3)`.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn execvpe(file: *const c_char, argv: Strings, envp: Strings) -> c_int {
    // SAFETY: handed on.
    unsafe {
        replace(
            envp,
            |envp| real!(execvpe(file => *const c_char, argv => Strings, envp => Strings) -> c_int),
        )
    }
}

/// See `execv(3)`.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn execv(path: *const c_char, argv: Strings) -> c_int {
    // SAFETY: handed on; the C library's variable.
    unsafe { execve(path, argv, environ) }
}

/// See `execvp(3)`.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn execvp(file: *const c_char, argv: Strings) -> c_int {
    // SAFETY: handed on; the C library's variable.
    unsafe { execvpe(file, argv, environ) }
}

/// Which of those functions it is that take the arguments of the new image one by one.
#[repr(usize)]
enum OneByOne {
    Path,
    File,
    WithEnvironment,
}

/// The arguments of [`one_by_one`]'s callers as a list.
///
/// # Safety
///
/// `in_registers` are five of them, `on_stack` the others; null ends them, and the environment
/// comes behind it if `which` has one.
unsafe extern "C" fn exec_list(
    first: *const c_char,
    in_registers: Strings,
    on_stack: Strings,
    which: OneByOne,
) -> c_int {
    // SAFETY: the caller's contract.
    let argument =
        |i: usize| unsafe { if i < 5 { *in_registers.add(i) } else { *on_stack.add(i - 5) } };
    let count = (0..).take_while(|&i| !argument(i).is_null()).count();
    let call = |argv: &mut [*const c_char]| {
        for (i, place) in argv.iter_mut().enumerate() {
            *place = argument(i);
        }
        let argv = argv.as_ptr();
        // SAFETY: as there; the C library's variable.
        unsafe {
            match which {
                OneByOne::Path => execve(first, argv, environ),
                OneByOne::File => execvpe(first, argv, environ),
                OneByOne::WithEnvironment => execve(first, argv, argument(count + 1).cast()),
            }
        }
    };
    // In the child of a vfork nothing may be allocated: another thread may hold the allocator's
    // lock and never be seen to release it.
    if count < FEW {
        call(&mut [core::ptr::null(); FEW][..=count])
    } else {
        call(&mut vec![core::ptr::null(); count + 1])
    }
}

/// Arguments that have room on the stack.
const FEW: usize = 256;

/// A function with a variable number of arguments, which Rust has only for calls:
///
/// ```text
///   rsp -> rsi | rdx | rcx | r8 | r9 | return address | further arguments
/// ```
macro_rules! one_by_one {
    ($($(#[$doc:meta])* $name:ident => $which:expr;)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        ///
        /// As there.
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(first: *const c_char, argument: *const c_char) -> c_int {
            core::arch::naked_asm!(
                ".cfi_startproc",
                "push r9",
                "push r8",
                "push rcx",
                "push rdx",
                "push rsi",
                ".cfi_adjust_cfa_offset 40",
                "mov rsi, rsp",
                "lea rdx, [rsp + 48]",
                "mov ecx, {which}",
                "call {list}",
                "add rsp, 40",
                ".cfi_adjust_cfa_offset -40",
                "ret",
                ".cfi_endproc",
                which = const $which as usize,
                list = sym exec_list,
            )
        }
    )*};
}

one_by_one! {
    /// See `execl(3)`.
    execl => OneByOne::Path;
    /// See `execlp(3)`.
    execlp => OneByOne::File;
    /// See `execle(3)`.
    execle => OneByOne::WithEnvironment;
}
