#![doc = include_str!("README.md")]

pub mod alone;
mod device;
mod emulator;
mod intel;

use crate::config::Notification;
use crate::preempt::own_stack;
use std::io;
use std::time::Duration;

pub(crate) use emulator::in_child;
#[cfg(feature = "inspect")]
pub use emulator::inspect;

/// The user vector of a request: the slot's words say what dispatch it is meant for.
pub(crate) const REQUEST: u32 = 0;
/// That of a delegated timer.
pub(crate) const TICK: u32 = 1;

/// That of a preemption by [`inspect`], whatever the policy says.
#[cfg(feature = "inspect")]
pub(crate) const FORCED: u32 = 2;

/// Routes: one for each worker's requests, one for each worker's own ticks.
pub(crate) const ROUTES: usize = 2 * crate::config::MAX_WORKERS;

/// Who sets user interrupts up, and executes them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Provider {
    /// The processor, with this project's module in the kernel (`/dev/quaver`).
    Module,
    /// The processor, with Intel's patched Linux 6.0. Untested.
    IntelKernel,
    /// Signals and traps of this process: for tests, never for figures.
    Emulator,
}

impl core::fmt::Display for Provider {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.pad(match self {
            Provider::Module => "module",
            Provider::IntelKernel => "intel-kernel",
            Provider::Emulator => "emulator",
        })
    }
}

/// A kernel thread that can be interrupted, as the interface names it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Receiver(i32);

impl Receiver {
    /// None: what is meant for it must be told otherwise.
    pub(crate) const NONE: Receiver = Receiver(-1);

    pub(crate) fn exists(self) -> bool {
        self.0 >= 0
    }
}

/// What a kernel offers for user interrupts, or something that stands for it. There is one file for
/// each.
///
/// `register`, `unregister`, `attach` and the timer's calls are about the calling kernel thread.
/// All may be called on a carrier's native stack: they neither wait for user threads nor allocate.
pub(crate) trait KernelInterface: Sync {
    /// Which one.
    fn provider(&self) -> Provider;

    /// The calling thread can be interrupted, at `handler`, and can send. UIF is 0 at first.
    ///
    /// # Errors
    ///
    /// The kernel's: signals do it for this thread.
    fn register(&self, handler: usize) -> io::Result<Receiver>;

    /// The calling thread, `receiver`, is interrupted no more. UIF is 0.
    fn unregister(&self, receiver: Receiver);

    /// The calling thread can send.
    ///
    /// # Errors
    ///
    /// As for [`register`](KernelInterface::register).
    fn attach(&self) -> io::Result<()>;

    /// From now on route `number` leads to `receiver`, with the vector [`REQUEST`]. Who sends
    /// meanwhile reaches the old or the new one.
    ///
    /// # Errors
    ///
    /// The kernel's: it leads where it led before.
    fn route(&self, number: usize, receiver: Receiver) -> io::Result<()>;

    /// The operand of `senduipi` that leads the calling thread's interrupts along route `number`;
    /// `None`: this thread cannot send there.
    fn operand(&self, number: usize) -> Option<u64>;

    /// The timer of the calling thread's CPU raises [`TICK`] each `period` from now on, if route
    /// `number`, which leads to that vector of the thread itself, has been used since the last time
    /// (Skyloft, section 3.2). Others' interrupts wait for the next tick. The thread, which can be
    /// interrupted, is confined to one CPU. Returns the true period.
    ///
    /// # Errors
    ///
    /// `Unsupported`, or the kernel's.
    fn start_timer(&self, number: usize, period: Duration) -> io::Result<Duration>;

    /// The CPU's timer is the kernel's again.
    fn stop_timer(&self);
}

/// What carries them for a runtime that was asked for `notification`. Where nothing does, standard
/// error says why, and workers get signals.
pub(crate) fn chosen(notification: Notification) -> Option<&'static dyn KernelInterface> {
    let found = match notification {
        _ if own_stack::is_wanted() => {
            Err("the program wants alternate stacks, which the CPU does not know".to_owned())
        }
        Notification::EmulatedUserInterrupt => emulated().map_err(|error| error.to_string()),
        _ => find(),
    };
    found.inspect_err(|why| eprintln!("quaver: no user interrupts, signals instead: {why}")).ok()
}

/// How user interrupts can be had in this process.
///
/// # Errors
///
/// Why they cannot, as a sentence without its full stop.
pub(crate) fn find() -> Result<&'static dyn KernelInterface, String> {
    if !crate::arch::user_interrupt::can_save() {
        return Err("the processor or the kernel has no xsave".into());
    }
    if !processor_has_them() {
        return Err("the processor has none (Intel has them since Sapphire Rapids)".into());
    }
    match device::open() {
        Ok(device) => Ok(device),
        Err(module) => match intel::open() {
            Some(intel) => Ok(intel),
            None => Err(format!("the kernel does not offer them: {module}")),
        },
    }
}

/// The emulator.
///
/// # Errors
///
/// The kernel's, and `Unsupported` where the processor would execute the instructions itself.
pub(crate) fn emulated() -> io::Result<&'static dyn KernelInterface> {
    if !crate::arch::user_interrupt::can_save() {
        return Err(io::Error::new(io::ErrorKind::Unsupported, "there is no xsave"));
    }
    emulator::install().map(|e| e as _)
}

/// Has the processor user interrupts (`CPUID.(EAX=7,ECX=0):EDX[5]`)? The kernel may have to switch
/// them on.
pub fn processor_has_them() -> bool {
    const UINTR: u32 = 1 << 5;
    core::arch::x86_64::__cpuid_count(0, 0).eax >= 7
        && core::arch::x86_64::__cpuid_count(7, 0).edx & UINTR != 0
}

/// What `quaver doctor` tells of user interrupts.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Found {
    /// The processor has them.
    pub cpu: bool,
    /// Whose interface the kernel has.
    pub kernel_abi: Option<Provider>,
    /// `/dev/quaver` is there.
    pub module: bool,
    /// A runtime of this process can use them.
    pub usable: bool,
    /// Why, or why not, as a sentence without its full stop.
    pub why: String,
}

/// Looks what this machine offers. Opens `/dev/quaver` and makes a few system calls.
pub fn look() -> Found {
    let (cpu, module) = (processor_has_them(), device::is_there());
    match find() {
        Ok(found) => Found {
            cpu,
            kernel_abi: Some(found.provider()),
            module,
            usable: true,
            why: format!("choose notification=user-interrupt; by {}", found.provider()),
        },
        Err(why) => Found { cpu, kernel_abi: None, module, usable: false, why },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_usable_has_an_interface_and_what_is_not_a_reason() {
        let found = look();
        assert_eq!(found.usable, found.kernel_abi.is_some(), "{found:?}");
        assert!(found.cpu || !found.usable, "{found:?}");
        assert!(!found.why.is_empty() && !found.why.ends_with('.'), "{found:?}");
        assert_ne!(found.kernel_abi, Some(Provider::Emulator), "nobody asked for that");
    }
}
