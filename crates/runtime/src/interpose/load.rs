//! `dlopen` and `dlmopen`: libc's, after the threads have been made known to the dynamic loader
//! ([`crate::tls`]).
//!
//! Where libc looks for a library depends on who calls it, which it learns from the return address.
//! So these functions do not call libc's: they leave everything as it was and jump there.
//!
//! `dl_iterate_phdr` holds a lock of the loader's while it calls the program's function. A thread
//! that a shutdown stopped there would keep it for ever, so it is not preempted meanwhile.

use crate::preempt::unstoppable;
use crate::runtime::Inner;
use crate::tls;
use core::arch::naked_asm;
use core::ffi::{CStr, c_char, c_int, c_void};
use core::sync::atomic::{AtomicPtr, Ordering::*};

macro_rules! come_by {
    ($($name:ident($($argument:ident: $ty:ty),*);)*) => {$(
        #[doc = concat!("libc's `", stringify!($name), "`.")]
        ///
        /// # Safety
        ///
        /// As for libc's.
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $ty),*) -> *mut c_void {
            extern "C" fn before() -> *mut c_void {
                static LIBCS: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());
                let name = CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes());
                prepare(name.expect("ends with a zero"), &LIBCS)
            }
            // Stack: | third argument | second | first | return address |, aligned to 16 for the
            // call.
            naked_asm!(
                ".cfi_startproc",
                "push rdi",
                ".cfi_adjust_cfa_offset 8",
                "push rsi",
                ".cfi_adjust_cfa_offset 8",
                "push rdx",
                ".cfi_adjust_cfa_offset 8",
                "call {before}",
                "pop rdx",
                ".cfi_adjust_cfa_offset -8",
                "pop rsi",
                ".cfi_adjust_cfa_offset -8",
                "pop rdi",
                ".cfi_adjust_cfa_offset -8",
                "jmp rax",
                ".cfi_endproc",
                before = sym before,
            )
        }
    )*};
}

come_by! {
    dlopen(file: *const c_char, flags: c_int);
    dlmopen(namespace: libc::Lmid_t, file: *const c_char, flags: c_int);
}

/// Makes the threads known; libc's function of this name.
fn prepare(name: &CStr, libcs: &AtomicPtr<c_void>) -> *mut c_void {
    tls::list_from_now_on();
    if let Some(rt) = Inner::latest() {
        rt.table.before_dlopen();
    }
    let function = next(name, libcs);
    assert!(!function.is_null(), "the C library has no {name:?}");
    function
}

type Callback = unsafe extern "C-unwind" fn(*mut c_void, usize, *mut c_void) -> c_int;

/// libc's `dl_iterate_phdr`, without preemptions.
///
/// # Safety
///
/// As for libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn dl_iterate_phdr(
    callback: Option<Callback>,
    data: *mut c_void,
) -> c_int {
    static LIBCS: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());
    type Function = unsafe extern "C-unwind" fn(Option<Callback>, *mut c_void) -> c_int;
    let function = next(c"dl_iterate_phdr", &LIBCS);
    if function.is_null() {
        return 0;
    }
    // SAFETY: libc's function of this name has this type.
    let function = unsafe { core::mem::transmute::<*mut c_void, Function>(function) };
    // SAFETY: the caller's contract.
    unstoppable(|| unsafe { function(callback, data) })
}

/// libc's function of this name; null in a program that is linked statically.
fn next(name: &CStr, libcs: &AtomicPtr<c_void>) -> *mut c_void {
    let mut function = libcs.load(Acquire);
    if function.is_null() {
        // SAFETY: a symbol look-up.
        function = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
        libcs.store(function, Release);
    }
    function
}
