//! Puts the jumps into a library's code.

use super::plan::Window;
use super::{entry, trampoline};
use core::ffi::c_int;
use core::ops::Range;
use core::ptr;

const READ_WRITE: c_int = libc::PROT_READ | libc::PROT_WRITE;
const READ_EXECUTE: c_int = libc::PROT_READ | libc::PROT_EXEC;

/// Memory near a library's code, which is given back unless it is kept.
struct Room {
    at: usize,
    size: usize,
}

impl Drop for Room {
    fn drop(&mut self) {
        // SAFETY: nobody knows it.
        unsafe { libc::munmap(self.at as *mut _, self.size) };
    }
}

impl Room {
    /// The next that is free, no farther than a jump. Above libraries there may be the main
    /// thread's stack, which grows: so below, if possible.
    fn near(code: &Range<usize>, size: usize) -> Option<Room> {
        const STEP: usize = 1 << 20;
        const FARTHEST: usize = 1 << 30;
        let distances = || (STEP..FARTHEST).step_by(STEP);
        let below = distances().filter_map(|d| (code.start & !(STEP - 1)).checked_sub(d));
        let above = distances().map(|d| code.end.next_multiple_of(STEP) + d);
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
        below.chain(above).find_map(|at| {
            // SAFETY: new memory, where there is none.
            let found = unsafe { libc::mmap(at as *mut _, size, READ_WRITE, flags, -1, 0) };
            let room = (found != libc::MAP_FAILED).then(|| Room { at: found as usize, size })?;
            // Old kernels take the address as a wish.
            (room.at == at).then_some(room)
        })
    }
}

/// # Safety
///
/// Whole pages of memory that nobody needs to have other rights.
unsafe fn protect(memory: &Range<usize>, rights: c_int) -> bool {
    // SAFETY: the caller's contract.
    unsafe { libc::mprotect(memory.start as *mut _, memory.len(), rights) == 0 }
}

/// The whole pages of a part.
fn pages(part: &Range<usize>) -> Range<usize> {
    const PAGE: usize = 4096;
    part.start & !(PAGE - 1)..part.end.next_multiple_of(PAGE)
}

/// Lets the code at `code` jump from its windows to new trampolines. Where the kernel refuses a
/// step, all stays as it was.
///
/// # Safety
///
/// The windows are this code's, which no thread is in.
pub(super) unsafe fn redirect(code: &Range<usize>, windows: &[Window]) {
    if windows.is_empty() {
        return;
    }
    let size = windows.len() * trampoline::SIZE;
    let Some(room) = Room::near(code, size.next_multiple_of(4096)) else { return };
    let jumps: Vec<(usize, Vec<u8>)> = windows
        .iter()
        .zip((room.at..).step_by(trampoline::SIZE))
        .filter_map(|(window, at)| {
            let bytes = trampoline::code(window, at as u64, entry::entry as *const () as u64)?;
            let jump = trampoline::jump(&window.place, at as u64)?;
            // SAFETY: there is room for all.
            unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), at as *mut u8, bytes.len()) };
            Some((window.place.start as usize, jump))
        })
        .collect();
    let trampolines = room.at..room.at + room.size;
    let code = pages(code);
    // The code is never without its right to run: where it could be lost, as SELinux may have it,
    // it could not be got back.
    // SAFETY: the trampolines are ours; for code this is more than it had.
    unsafe {
        if !protect(&trampolines, READ_EXECUTE) || !protect(&code, READ_WRITE | READ_EXECUTE) {
            return;
        }
    }
    core::mem::forget(room);
    for (at, jump) in jumps {
        // SAFETY: a window, which may be written to and has the size of what is written. Nobody is
        // in it, says the caller.
        unsafe { ptr::copy_nonoverlapping(jump.as_ptr(), at as *mut u8, jump.len()) };
    }
    // SAFETY: the rights that it had. If that fails it keeps one more.
    unsafe { protect(&code, READ_EXECUTE) };
}
