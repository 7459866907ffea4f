//! Futex calls that a library makes by `syscall` instructions of its own, made to wait as user
//! threads.
//!
//! The shim replaces functions, and gcc's OpenMP runtime, libgomp, calls none: its locks and
//! barriers wait by inline instructions. Such a wait would block the worker, and the thread that is
//! waited for would run only when the clock has noticed. So the code of this one library is
//! rewritten when it is loaded: each `syscall` becomes a jump.
//!
//! * [`find`]: where the library is. [`image`]: what it consists of.
//! * [`plan`]: which instructions can give way to the jump.
//! * [`trampoline`]: what is jumped to.
//! * [`entry`]: the function that all trampolines call.
//! * [`write`](mod@write): changes the code.
//!
//! What is not understood stays as it was: one instruction, or, with vector instructions that this
//! shim does not save, the whole library. So does everything where code must not be changed.
//!
//! # Why no thread is in the code that changes
//!
//! The code changes at the start of the runtime, when the program has one thread, or in a call of
//! `pthread_getaffinity_np`. libgomp makes that in its constructor, and until the constructor has
//! returned no other thread has the library from `dlopen`. If another thread happens to find the
//! library first, the constructor waits for it. The thread that comes here has made a call, and a
//! window has none in it.

mod entry;
mod find;
mod image;
mod plan;
mod trampoline;
mod write;

use core::ops::Range;
use core::slice;
use core::sync::atomic::AtomicU32;
use image::{Image, Part};
use quaver::foreign::futex::Limits;
use quaver::foreign::lock;

/// A lock: one thread looks and changes code, and who comes meanwhile waits until that is done.
pub(crate) static LOOKING: AtomicU32 = AtomicU32::new(0);

/// Redirects the calls of libraries that have been loaded since this was called last.
pub(crate) fn look() {
    lock::lock(&LOOKING, &Limits::NONE);
    for library in find::new() {
        let part = |at: &Range<usize>| {
            // SAFETY: a loaded library's segment that is only read. Who calls this keeps the
            // library loaded: it is in its constructor, or belongs to the program.
            let bytes = unsafe { slice::from_raw_parts(at.start as *const u8, at.len()) };
            Part { at: at.start as u64, bytes }
        };
        let image = Image { parts: library.parts.iter().map(part).collect() };
        let functions = image.functions(library.unwinding as u64);
        if let Some(windows) = functions.and_then(|all| plan::windows(&image, &all)) {
            // SAFETY: the windows are this code's, and nobody is in them: the module documentation.
            unsafe { write::redirect(&library.code, &windows) };
        }
    }
    lock::unlock(&LOOKING);
}
