//! User interrupts of kernel threads that are no workers: to measure what they cost.

use super::{KernelInterface, Provider, Receiver, find};
use crate::arch::user_interrupt as arch;
use core::marker::PhantomData;
use std::io;
use std::time::Duration;

/// User interrupts without a runtime. A process that measures by them has no runtime with them.
///
/// Nothing here waits, and no user thread may call it: it is about the calling kernel thread.
#[derive(Clone, Copy)]
pub struct Alone(&'static dyn KernelInterface);

impl core::fmt::Debug for Alone {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_tuple("Alone").field(&self.provider()).finish()
    }
}

/// The calling kernel thread's registration, which it keeps to itself.
#[derive(Debug)]
pub struct Registration(Receiver, PhantomData<*const ()>);

impl Alone {
    /// # Errors
    ///
    /// Why there are none, as a sentence without its full stop.
    pub fn find() -> Result<Alone, String> {
        find().map(Alone)
    }

    /// What carries them.
    pub fn provider(self) -> Provider {
        self.0.provider()
    }

    /// From now on the calling thread is interrupted at `handler` by whoever sends along route
    /// `number`.
    ///
    /// # Errors
    ///
    /// The kernel's.
    ///
    /// # Safety
    ///
    /// `handler` is the address of code that takes a user interrupt at any instruction of this
    /// thread: it keeps all registers and ends with `uiret`.
    pub unsafe fn receive(self, handler: usize, number: usize) -> io::Result<Registration> {
        let receiver = self.0.register(handler)?;
        if let Err(error) = self.0.route(number, receiver) {
            self.0.unregister(receiver);
            return Err(error);
        }
        // SAFETY: registered; the handler is not the runtime's and wants no carrier.
        unsafe { arch::stui() };
        Ok(Registration(receiver, PhantomData))
    }

    /// The timer of the calling thread's CPU interrupts it, if its handler sends along route
    /// `number`, by [`operand`](Alone::operand), each time. Returns the true period.
    ///
    /// # Errors
    ///
    /// `Unsupported`, or the kernel's: the thread must be confined to one CPU.
    pub fn start_timer(
        self,
        _receiver: &Registration,
        number: usize,
        period: Duration,
    ) -> io::Result<Duration> {
        self.0.start_timer(number, period)
    }

    /// The calling thread is interrupted no more.
    pub fn end(self, registration: Registration) {
        // SAFETY: registered.
        unsafe { arch::clui() };
        self.0.stop_timer();
        self.0.unregister(registration.0);
    }

    /// The calling thread can send.
    ///
    /// # Errors
    ///
    /// The kernel's.
    pub fn attach(self) -> io::Result<()> {
        self.0.attach()
    }

    /// What `senduipi` takes for route `number`, which leads somewhere; `None`: there is none.
    pub fn operand(self, number: usize) -> Option<u64> {
        self.0.operand(number)
    }
}
