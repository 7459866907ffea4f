//! Stack overflow is reported with the thread's name; any other fault goes to whoever handled it
//! before.

use crate::sys;
use crate::thread::table::Table;
use crate::thread::{label, stack};
use core::sync::atomic::{AtomicBool, AtomicPtr, Ordering::*};
use std::cell::UnsafeCell;
use std::io::Write;

/// The table in which the handler looks the faulting address up.
static TABLE: AtomicPtr<Table> = AtomicPtr::new(core::ptr::null_mut());

/// An overflow ends the process by the fault, not by `SIGABRT`.
static FAULT: AtomicBool = AtomicBool::new(false);

/// From now on an overflow ends the process by `SIGSEGV`, as in C.
pub(crate) fn overflow_is_a_fault() {
    FAULT.store(true, Relaxed);
}

struct Previous(UnsafeCell<[Option<libc::sigaction>; 2]>);
// SAFETY: written once in `install` under its Once before the handler is installed, then only read.
unsafe impl Sync for Previous {}
static PREVIOUS: Previous = Previous(UnsafeCell::new([None, None]));

/// `si_code` of a SIGSEGV that the kernel forces because a signal frame does not fit.
const SI_KERNEL: i32 = 0x80;

const SIGNALS: [i32; 2] = [libc::SIGSEGV, libc::SIGBUS];

/// Handles faults on `table`'s guards from now on; null: no table any more.
pub(crate) fn install(table: *const Table) {
    TABLE.store(table.cast_mut(), Release);
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        for (i, sig) in SIGNALS.into_iter().enumerate() {
            // SAFETY: a complete sigaction; the handler is async-signal-safe.
            unsafe {
                let mut old: libc::sigaction = core::mem::zeroed();
                let mut new: libc::sigaction = core::mem::zeroed();
                new.sa_sigaction = on_fault as *const () as usize;
                new.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER;
                libc::sigaction(sig, core::ptr::null(), &mut old);
                (&mut *PREVIOUS.0.get())[i] = Some(old);
                libc::sigaction(sig, &new, core::ptr::null_mut());
            }
        }
    });
}

/// A writer to standard error that uses no lock and no buffer.
struct RawStderr;
impl Write for RawStderr {
    fn write(&mut self, buf: &[u8]) -> std::io::Result<usize> {
        // SAFETY: the buffer is valid; the raw call does not touch errno.
        let n = unsafe {
            crate::sys::syscall3(libc::SYS_write, 2, buf.as_ptr() as u64, buf.len() as u64)
        };
        if n < 0 { Err(std::io::Error::from_raw_os_error(-n as i32)) } else { Ok(n as usize) }
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

unsafe extern "C" fn on_fault(sig: i32, info: *mut libc::siginfo_t, uc: *mut libc::c_void) {
    let table = TABLE.load(Acquire);
    // SAFETY: the kernel filled `info`.
    let code = unsafe { (*info).si_code };
    // By a process, with `kill` and its relatives: nothing has happened at any address.
    let sent = code <= 0;
    if !table.is_null() && !sent {
        // SAFETY: a table is withdrawn from TABLE before it is freed; the kernel filled `info` and
        // `uc`.
        let (table, address, rsp) = unsafe {
            let g = &(*uc.cast::<libc::ucontext_t>()).uc_mcontext.gregs;
            let address = (code != SI_KERNEL).then(|| (*info).si_addr() as usize);
            (&*table, address, g[libc::REG_RSP as usize] as usize)
        };
        // Without an address the kernel could not write a signal frame below rsp.
        let address = address.unwrap_or_else(|| rsp.saturating_sub(stack::min_signal_frame()));
        if let Some(t) = table.guard_owner(address) {
            // SAFETY: the name is not changed while the thread lives.
            let name = unsafe { (*t.name.get()).as_deref() };
            let label = t.label.get();
            let name = label::text(&label).or(name).unwrap_or("<unnamed>");
            // What was asked for: what a stack has beyond that is less than a page.
            let kib = table.stack_size(t) / 4096 * 4;
            let _ = writeln!(
                RawStderr,
                "\nuser thread '{name}' (id {}) has overflowed its stack of {kib} KiB; raise it \
                 with Builder::stack_size or QUAVER_STACK_SIZE\n\
                 fatal runtime error: stack overflow",
                t.id.get(),
            );
            default_action(sig);
            if FAULT.load(Relaxed) {
                if code == SI_KERNEL {
                    // No instruction will fault again: the kernel could not deliver a signal.
                    send_after_return(sig);
                }
            } else {
                // As the standard library does for its threads.
                default_action(libc::SIGABRT);
                send_after_return(libc::SIGABRT);
            }
            return;
        }
    }
    let index = usize::from(sig == libc::SIGBUS);
    // SAFETY: set before this handler was installed.
    let previous = unsafe { (&*PREVIOUS.0.get())[index] };
    match previous {
        Some(p) if p.sa_sigaction != libc::SIG_DFL && p.sa_sigaction != libc::SIG_IGN => {
            // SAFETY: it was installed with these flags for this signal.
            unsafe {
                if p.sa_flags & libc::SA_SIGINFO != 0 {
                    let f: unsafe extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void) =
                        core::mem::transmute(p.sa_sigaction);
                    f(sig, info, uc);
                } else {
                    let f: unsafe extern "C" fn(i32) = core::mem::transmute(p.sa_sigaction);
                    f(sig);
                }
            }
        }
        _ => {
            default_action(sig);
            if sent {
                send_after_return(sig);
            }
        }
    }
}

/// Sends a signal to the calling kernel thread which comes when the handler has returned, so that a
/// core dump shows what was interrupted and not the handler.
fn send_after_return(sig: i32) {
    let set = 1u64 << (sig - 1);
    // SAFETY: a complete set for the calling kernel thread; the handler's return restores the mask.
    unsafe {
        sys::syscall6(
            libc::SYS_rt_sigprocmask,
            [libc::SIG_BLOCK as u64, &raw const set as u64, 0, size_of_val(&set) as u64, 0, 0],
        );
    }
    let _ = sys::tgkill(std::process::id() as i32, sys::gettid(), sig);
}

/// Lets the fault happen again with the default action, so that a core dump shows the faulting
/// thread itself.
fn default_action(sig: i32) {
    // SAFETY: a complete sigaction.
    unsafe {
        let mut dfl: libc::sigaction = core::mem::zeroed();
        dfl.sa_sigaction = libc::SIG_DFL;
        libc::sigaction(sig, &dfl, core::ptr::null_mut());
    }
}

/// The alternate signal stack of a carrier; removed when dropped, on the same kernel thread.
pub(crate) struct AltStack {
    memory: Box<[u8]>,
    old: libc::stack_t,
}

impl AltStack {
    /// Installs an alternate stack for the calling kernel thread.
    pub(crate) fn install() -> AltStack {
        let size = (crate::thread::stack::min_signal_frame() + 32 * 1024).next_multiple_of(4096);
        let mut memory = vec![0u8; size].into_boxed_slice();
        let new =
            libc::stack_t { ss_sp: memory.as_mut_ptr().cast(), ss_flags: 0, ss_size: memory.len() };
        // SAFETY: the memory lives until the drop, which removes it.
        let old = unsafe {
            let mut old: libc::stack_t = core::mem::zeroed();
            libc::sigaltstack(&new, &mut old);
            old
        };
        AltStack { memory, old }
    }

    /// As the kernel wants it described.
    pub(crate) fn as_stack_t(&self) -> libc::stack_t {
        libc::stack_t {
            ss_sp: self.memory.as_ptr().cast_mut().cast(),
            ss_flags: 0,
            ss_size: self.memory.len(),
        }
    }
}

impl Drop for AltStack {
    fn drop(&mut self) {
        // SAFETY: gives the thread back what it had.
        unsafe { libc::sigaltstack(&self.old, core::ptr::null_mut()) };
    }
}
