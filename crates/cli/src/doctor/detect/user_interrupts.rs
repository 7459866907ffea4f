//! User interrupts: has the processor them, and has the kernel switched them on?
//!
//! `CPUID` answers only the first. For the second a child process executes `testui`, which is an
//! undefined instruction (`SIGILL`) as long as the kernel has not set `CR4.UINTR`.

use raw_cpuid::{CpuIdReader, CpuIdReaderNative};
use serde::Serialize;

/// `CPUID.(EAX=7,ECX=0):EDX[5]`.
const EDX_UINTR: u32 = 1 << 5;

/// User interrupts.
#[derive(Clone, Debug, Serialize)]
pub struct UserInterrupts {
    /// The processor has them.
    pub cpu: bool,
    /// The kernel has switched them on.
    pub kernel: bool,
}

pub(super) fn detect() -> UserInterrupts {
    let cpuid = CpuIdReaderNative;
    let cpu = cpuid.cpuid1(0).eax >= 7 && cpuid.cpuid2(7, 0).edx & EDX_UINTR != 0;
    UserInterrupts { cpu, kernel: cpu && survives_testui() }
}

fn survives_testui() -> bool {
    // SAFETY: the child executes one instruction and system calls only: no allocation, no lock, no
    // return.
    match unsafe { libc::fork() } {
        -1 => false,
        0 => {
            let no_core = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
            // SAFETY: the limit lives on this stack; `testui` changes only flags, or raises SIGILL,
            // whose default action ends the child.
            unsafe {
                libc::setrlimit(libc::RLIMIT_CORE, &raw const no_core);
                libc::signal(libc::SIGILL, libc::SIG_DFL);
                std::arch::asm!(".byte 0xf3, 0x0f, 0x01, 0xed", options(nomem, nostack));
                libc::_exit(0)
            }
        }
        child => {
            let mut status = 0;
            loop {
                // SAFETY: `child` is our own child and `status` a live integer.
                let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
                let interrupted = waited == -1
                    && std::io::Error::last_os_error().kind() == std::io::ErrorKind::Interrupted;
                if !interrupted {
                    return waited == child && status == 0;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_child_survives_only_where_the_processor_could() {
        let found = detect();
        assert!(found.cpu || !found.kernel);
        assert!(found.cpu || !survives_testui(), "testui ran on a processor that has none");
    }
}
