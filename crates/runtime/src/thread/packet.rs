//! What a thread is to do, and later what came of it: on the thread's own stack, so that starting
//! one allocates nothing.

use super::control::Uthread;
use crate::preempt;
use core::alloc::Layout;
use core::mem::ManuallyDrop;
use core::sync::atomic::Ordering::Relaxed;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// First the closure, then the result.
union Packet<F, T> {
    f: ManuallyDrop<F>,
    result: ManuallyDrop<std::thread::Result<T>>,
}

/// Room in the heap for a packet that would take more than a sixteenth of a stack. To be had before
/// the thread, in the caller's preemptible context: allocators have locks.
pub(super) struct PacketRoom(*mut u8, Layout);

impl PacketRoom {
    /// Allocates, if a packet for `F` and `T` is too large for stacks of `stack` bytes.
    pub(super) fn new<F, T>(stack: usize) -> Option<PacketRoom> {
        let layout = Layout::new::<Packet<F, T>>();
        (layout.size() + layout.align() > stack / 16).then(|| {
            preempt::assert_enabled();
            // SAFETY: the size is not 0.
            let p = unsafe { std::alloc::alloc(layout) };
            if p.is_null() {
                std::alloc::handle_alloc_error(layout);
            }
            PacketRoom(p, layout)
        })
    }
}

impl Drop for PacketRoom {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout and not placed.
        unsafe { std::alloc::dealloc(self.0, self.1) };
    }
}

/// Puts a packet for `f` at the top of the stack of `t`, or in `room`. Returns the address below
/// which the stack is free.
///
/// # Safety
///
/// `t` is free and the caller has it; `room` was made for these types and this runtime's stacks.
pub(super) unsafe fn place<F: FnOnce() -> T, T>(
    t: &Uthread,
    f: F,
    room: Option<PacketRoom>,
) -> usize {
    let layout = Layout::new::<Packet<F, T>>();
    let top = t.stack_top.load(Relaxed);
    let (packet, below) = match room {
        None => {
            let at = (top - layout.size()) & !(layout.align() - 1);
            (at as *mut u8, at)
        }
        Some(room) => {
            t.free_packet.set(Some(free_packet::<F, T>));
            (ManuallyDrop::new(room).0, top)
        }
    };
    // SAFETY: room for a packet, ours.
    unsafe { packet.cast::<Packet<F, T>>().write(Packet { f: ManuallyDrop::new(f) }) };
    t.packet.set(packet);
    t.run.set(Some(run_packet::<F, T>));
    t.drop_result.set(Some(drop_packet_result::<F, T>));
    below
}

unsafe fn run_packet<F: FnOnce() -> T, T>(packet: *mut u8) {
    let packet = packet.cast::<Packet<F, T>>();
    let store = |result| {
        // SAFETY: the closure has been taken out.
        unsafe { packet.write(Packet { result: ManuallyDrop::new(result) }) };
    };
    // Closure and result are moved as little as possible: both may be large.
    let call = || {
        // SAFETY: called once, with the closure in place.
        let f = unsafe { ManuallyDrop::take(&mut (*packet).f) };
        store(Ok(f()));
    };
    if let Err(panic) = catch_unwind(AssertUnwindSafe(call)) {
        store(Err(panic));
    }
}

unsafe fn drop_packet_result<F, T>(packet: *mut u8) {
    // SAFETY: called once, with the result in place and taken by nobody.
    unsafe { ManuallyDrop::drop(&mut (*packet.cast::<Packet<F, T>>()).result) };
}

unsafe fn free_packet<F, T>(packet: *mut u8) {
    // SAFETY: allocated with this layout in `place`.
    unsafe { std::alloc::dealloc(packet, Layout::new::<Packet<F, T>>()) };
}

/// Takes the result out and frees the packet.
///
/// # Safety
///
/// The thread has ended, was started for a `T`, and its result has not been taken or dropped.
pub(super) unsafe fn take_result<T>(t: &Uthread) -> std::thread::Result<T> {
    // SAFETY: a union starts with each of its fields.
    let result = unsafe { t.packet.get().cast::<std::thread::Result<T>>().read() };
    free(t);
    result
}

/// Drops the result, which nobody will take, and frees the packet. Runs code of the user.
pub(super) fn drop_result(t: &Uthread) {
    preempt::assert_enabled();
    /// Frees also if the destructor panics.
    struct Free<'a>(&'a Uthread);
    impl Drop for Free<'_> {
        fn drop(&mut self) {
            free(self.0);
        }
    }
    let _free = Free(t);
    if let Some(f) = t.drop_result.get() {
        // SAFETY: READY and DETACHED are both set, and the one who set the second is here, once.
        unsafe { f(t.packet.get()) };
    }
}

/// Frees a packet in the heap.
fn free(t: &Uthread) {
    if let Some(f) = t.free_packet.take() {
        // SAFETY: the packet is dead and `f` was set for it.
        unsafe { f(t.packet.get()) };
    }
}
