//! Where the preemption signal enters: closes the gate of the interrupted thread before any
//! compiled code runs.
//!
//! A second notification may come at any instruction of the handler. Behind the closed gate it
//! leaves a flag and goes; before that it must be recognised by its address, because the code
//! beneath the first frame may be the C library's, whatever the second one has interrupted. So what
//! runs with the gate still open is this assembly and nothing else, and all of it lies in
//! [`contains`].
//!
//! ```text
//!   rdi, rsi, rdx   as the kernel sets them: signal, siginfo, ucontext     (handed on)
//!   rcx             the thread whose gate was closed, or 0: on a kernel thread, in the scheduler,
//!                   or if this library's TLS is not static (loaded by dlopen into a full process)
//!   rsp             untouched: the handler returns to the kernel's trampoline
//! ```

use crate::arch::segment::GS_CURRENT;
use crate::thread::control::Uthread;
use core::ffi::c_void;
use core::mem::offset_of;
use core::sync::atomic::{AtomicIsize, Ordering::Relaxed};

/// Where the flag "`gs` is a carrier" lies, relative to `fs`; 0 if that differs from thread to
/// thread.
static MARK: AtomicIsize = AtomicIsize::new(0);

/// What the entry goes on with.
type Handler =
    unsafe extern "C" fn(i32, *mut libc::siginfo_t, *mut c_void, Option<&'static Uthread>);

/// The handler to install. `below_tp`: how far below `fs` the flag lies in all TLS blocks.
/// `alternate`: it begins on an alternate stack.
pub(crate) fn handler(below_tp: Option<usize>, alternate: bool) -> usize {
    MARK.store(below_tp.map_or(0, |d| -(d as isize)), Relaxed);
    let _: [Handler; 2] = [crate::preempt::on_signal, crate::preempt::on_alternate_stack];
    if alternate {
        quaver_enter_alternate as *const () as usize
    } else {
        quaver_enter as *const () as usize
    }
}

macro_rules! entry {
    ($name:literal, $handler:path) => {
        core::arch::global_asm!(
            concat!(".pushsection .text.", $name, ", \"ax\", @progbits"),
            concat!(".globl ", $name),
            concat!(".hidden ", $name),
            concat!(".type ", $name, ", @function"),
            concat!($name, ":"),
                ".cfi_startproc",
                "xor ecx, ecx",
                "mov rax, [rip + {mark}]",
                "test rax, rax",
                "jz 2f",
                "cmp byte ptr fs:[rax], 0",
                "je 2f",
                "mov rcx, gs:[{current}]",
                "test rcx, rcx",
                "jz 2f",
                "inc dword ptr [rcx + {no_preempt}]",
                "2:",
                "jmp {handler}",
                ".cfi_endproc",
                concat!(".size ", $name, ", . - ", $name),
            concat!(".globl ", $name, "_end"),
            concat!(".hidden ", $name, "_end"),
            concat!($name, "_end:"),
            ".popsection",
            mark = sym MARK,
            current = const GS_CURRENT,
            no_preempt = const offset_of!(Uthread, no_preempt),
            handler = sym $handler,
        );
    };
}

entry!("quaver_enter", crate::preempt::on_signal);
entry!("quaver_enter_alternate", crate::preempt::on_alternate_stack);
#[cfg(feature = "inspect")]
entry!("quaver_enter_inspected", crate::preempt::inspect::entered);

unsafe extern "C" {
    fn quaver_enter();
    static quaver_enter_end: u8;
    fn quaver_enter_alternate();
    static quaver_enter_alternate_end: u8;
    #[cfg(feature = "inspect")]
    fn quaver_enter_inspected();
    #[cfg(feature = "inspect")]
    static quaver_enter_inspected_end: u8;
}

/// May the gate still be open at `address`?
pub(crate) fn contains(address: usize) -> bool {
    let usual = (quaver_enter as *const () as usize)..(&raw const quaver_enter_end as usize);
    let alternate = (quaver_enter_alternate as *const () as usize)
        ..(&raw const quaver_enter_alternate_end as usize);
    usual.contains(&address) || alternate.contains(&address)
}

/// The same for a handler of [`inspect`](crate::preempt::inspect), and where it begins.
#[cfg(feature = "inspect")]
pub(crate) fn inspected() -> core::ops::Range<usize> {
    let _: Handler = crate::preempt::inspect::entered;
    (quaver_enter_inspected as *const () as usize)..(&raw const quaver_enter_inspected_end as usize)
}
