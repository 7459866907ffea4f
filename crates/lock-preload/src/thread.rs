//! The number of the calling thread, as glibc keeps it: owners of mutexes are compared with it, by
//! us and by glibc.

use std::arch::asm;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// From the thread pointer to the number; 0 before [`find`], and if glibc does not say.
static OFFSET: AtomicUsize = AtomicUsize::new(0);

/// The calling thread's number in its PID namespace. Right in a child of `fork`, too, from its
/// first instruction on, because glibc changes it there.
#[inline]
pub(crate) fn number() -> u32 {
    match OFFSET.load(Relaxed) {
        0 => ask(),
        offset => at(offset),
    }
}

fn at(offset: usize) -> u32 {
    let number: u32;
    // SAFETY: inside glibc's descriptor of the thread, which lies at the thread pointer.
    unsafe {
        asm!("mov {:e}, dword ptr fs:[{}]", out(reg) number, in(reg) offset,
            options(nostack, readonly, preserves_flags));
    }
    number
}

#[cold]
fn ask() -> u32 {
    // SAFETY: no arguments.
    unsafe { libc::gettid() as u32 }
}

/// Learns where glibc keeps the number: it tells debuggers. Without that each call asks the kernel.
pub(crate) fn find() {
    /// As `libthread_db` reads it: size in bits, elements, offset in bytes.
    #[repr(C)]
    struct Field {
        bits: u32,
        elements: u32,
        offset: u32,
    }
    // SAFETY: a look-up with a C string; glibc's symbol of this type, or null.
    let field = unsafe {
        libc::dlsym(libc::RTLD_DEFAULT, c"_thread_db_pthread_tid".as_ptr()).cast::<Field>().as_ref()
    };
    let Some(field) = field else { return };
    let plausible = field.bits == 32 && field.elements == 1 && field.offset < 2048;
    if plausible && at(field.offset as usize) == ask() {
        OFFSET.store(field.offset as usize, Relaxed);
    }
}
