//! PKRU: which protection keys' pages a thread may read and write (`pkeys(7)`).
//!
//! To `pthreads` PKRU is a thread's own, inherited from the thread that made it, and so it is to
//! user threads:
//!
//! * a thread that gives way of its own will keeps it across the switch: `scheduler::switch_fs`
//!   saves it before and loads it after;
//! * a thread that is preempted has it in its signal frame, as all registers. The kernel gives the
//!   handler a PKRU of its own, which a switch in the handler keeps in the same way;
//! * a new thread begins with that of the thread that spawned it (`Uthread::pkru`);
//! * a system call that is repeated for a thread whose worker was given away is made under the
//!   thread's own, out of its frame: the kernel heeds it when it reads and writes the program's
//!   memory.
//!
//! Stacks, TLS and the runtime's memory have key 0, which programs leave accessible.
//!
//! Where the CPU or the kernel has no protection keys, `rdpkru` and `wrpkru` do not exist; [`init`]
//! asks once. On such a machine switches do not even look
//! ([`segment::plain`](super::segment::plain)).

use core::arch::asm;
use core::arch::x86_64::__cpuid_count;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use libc::ucontext_t;

/// PKRU's component in an XSAVE area.
const COMPONENT: u32 = 9;
/// Offset of `XSTATE_BV` in an XSAVE area: which components are not in their initial state, which
/// for PKRU is 0.
const XSTATE_BV: usize = 512;

static PRESENT: AtomicBool = AtomicBool::new(false);
/// Where PKRU lies in an XSAVE area.
static OFFSET: AtomicU32 = AtomicU32::new(0);

/// Has the kernel switched protection keys on (CPUID leaf 7, OSPKE)?
fn detect() -> bool {
    const OSPKE: u32 = 1 << 4;
    __cpuid_count(0, 0).eax >= 0xd && __cpuid_count(7, 0).ecx & OSPKE != 0
}

/// Looks what this machine has, for the life of the process.
pub(crate) fn init() {
    if detect() {
        OFFSET.store(__cpuid_count(0xd, COMPONENT).ebx, Relaxed);
        PRESENT.store(true, Relaxed);
    }
}

/// Is there a PKRU?
#[inline(always)]
pub(crate) fn present() -> bool {
    PRESENT.load(Relaxed)
}

/// The calling context's PKRU; 0, everything is allowed, where there is none.
#[inline]
pub(crate) fn get() -> u32 {
    if !present() {
        return 0;
    }
    let pkru;
    // SAFETY: the kernel has switched protection keys on.
    unsafe {
        asm!(
            "rdpkru",
            in("ecx") 0, out("eax") pkru, out("edx") _,
            options(nomem, nostack, preserves_flags)
        );
    }
    pkru
}

/// Sets it, where there is one. Reading is cheap and writing is not, so an equal one is left alone.
#[inline]
pub(crate) fn set(pkru: u32) {
    if present() && get() != pkru {
        // SAFETY: as above. No `nomem`: accesses on either side stay there.
        unsafe {
            asm!(
                "wrpkru",
                in("eax") pkru, in("ecx") 0, in("edx") 0,
                options(nostack, preserves_flags)
            );
        }
    }
}

/// Runs `f` with access to everything: code that may be executed and not read has a key, too.
#[inline(always)]
pub(crate) fn with_all_rights<T>(f: impl FnOnce() -> T) -> T {
    let rights = get();
    set(0);
    let value = f();
    set(rights);
    value
}

/// That of the interrupted thread.
///
/// # Safety
///
/// `uc` is a signal frame's context.
pub(crate) unsafe fn of_frame(uc: *const ucontext_t) -> u32 {
    if !present() {
        return 0;
    }
    // SAFETY: with PKRU in use the kernel writes a whole XSAVE area, in the standard format.
    unsafe {
        let area = (*uc).uc_mcontext.fpregs as *const u8;
        if area.is_null()
            || area.add(XSTATE_BV).cast::<u64>().read_unaligned() >> COMPONENT & 1 == 0
        {
            return 0;
        }
        area.add(OFFSET.load(Relaxed) as usize).cast::<u32>().read_unaligned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_set_is_read() {
        init();
        // Of a key that nobody has allocated.
        const LAST: u32 = 0b11 << 30;
        let before = get();
        set(before ^ LAST);
        assert_eq!(get(), if present() { before ^ LAST } else { 0 });
        set(before);
        assert_eq!(get(), before);
    }
}
