//! What a thread is to do, and later what came of it: on the thread's own stack, so that starting one allocates nothing.

use super::control::Uthread;
use core::alloc::Layout;
use core::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// First the closure, then the result.
union Packet<F, T> {
    f: ManuallyDrop<F>,
    result: ManuallyDrop<std::thread::Result<T>>,
}

/// Puts a packet for `f` at the top of the stack of `t`, or in the heap if it would take more than a quarter of the
/// stack. Returns the address below which the stack is free.
///
/// # Safety
///
/// `t` is free and the caller has it.
pub(super) unsafe fn place<F: FnOnce() -> T, T>(t: &Uthread, f: F) -> usize {
    let layout = Layout::new::<Packet<F, T>>();
    let top = t.stack_top.get();
    let limit = (top - t.region.get() - super::stack::GUARD) / 4;
    let (packet, below) = if layout.size() + layout.align() <= limit {
        let at = (top - layout.size()) & !(layout.align() - 1);
        (at as *mut u8, at)
    } else {
        // SAFETY: the size is not 0.
        let p = unsafe { std::alloc::alloc(layout) };
        if p.is_null() {
            std::alloc::handle_alloc_error(layout);
        }
        t.free_packet.set(Some(free_packet::<F, T>));
        (p, top)
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
    // SAFETY: called once, with the closure in place; the result takes its place.
    unsafe {
        let f = ManuallyDrop::take(&mut (*packet).f);
        let result = catch_unwind(AssertUnwindSafe(f));
        packet.write(Packet { result: ManuallyDrop::new(result) });
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

/// Takes the result out.
///
/// # Safety
///
/// The thread has ended, was started for a `T`, and its result has not been taken or dropped.
pub(super) unsafe fn take_result<T>(t: &Uthread) -> std::thread::Result<T> {
    // SAFETY: a union starts with each of its fields.
    unsafe { t.packet.get().cast::<std::thread::Result<T>>().read() }
}

/// Drops the result, which nobody will take. Runs code of the user.
pub(super) fn drop_result(t: &Uthread) {
    if let Some(f) = t.drop_result.get() {
        // SAFETY: READY and DETACHED are both set, and the one who set the second is here, once.
        unsafe { f(t.packet.get()) };
    }
}

/// Frees a packet in the heap.
pub(super) fn free(t: &Uthread) {
    if let Some(f) = t.free_packet.take() {
        // SAFETY: the packet is dead and `f` was set for it.
        unsafe { f(t.packet.get()) };
    }
}
