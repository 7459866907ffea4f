//! What the receive path knows of an interrupted thread, whatever has interrupted it.
//!
//! A notification that stops a thread at any instruction leaves its registers somewhere: a signal
//! in a `ucontext_t`, a user interrupt where its entry code puts them. [`Frame`] is all that the
//! rest of the receive path sees of that. One file implements it for each notification
//! ([`signal`](super::signal)).

use crate::thread::control::Uthread;

/// A system call as its registers say it: the number, and the arguments.
#[derive(Clone, Copy, Debug)]
pub(super) struct SystemCall {
    pub(super) number: i64,
    pub(super) args: [u64; 6],
}

/// The interrupted code of the calling thread, to which it returns by [`leave`](Frame::leave).
///
/// # Safety
///
/// The registers are those that the code had at an instruction boundary, and `leave` puts them
/// back.
pub(super) unsafe trait Frame {
    /// The instruction that comes next.
    fn address(&self) -> usize;

    /// The stack pointer.
    fn stack_pointer(&self) -> usize;

    /// All general registers that the compiler may keep an address in.
    fn general(&self) -> &[i64];

    /// The call that is made where [`address`](Frame::address) is a `syscall` instruction. The
    /// number's register holds a call's result behind one.
    fn call(&self) -> SystemCall;

    /// The call has been made for the thread: it goes on behind the instruction, with this result.
    fn finish_call(&mut self, result: i64);

    /// The rights of protection keys that the code had.
    fn rights(&self) -> u32;

    /// Puts the gate of `t` back to `gate` and returns to the interrupted code.
    ///
    /// # Safety
    ///
    /// `t` is the calling thread, with its gate closed; the frame is on its stack.
    unsafe fn leave(&mut self, t: &Uthread, gate: u32) -> !;
}
