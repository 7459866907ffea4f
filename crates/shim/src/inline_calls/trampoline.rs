//! The code that a jump leads to: one for each window.
//!
//! ```text
//!   moved instructions
//!   lea  rsp, [rsp - 128]     the red zone stays as it is
//!   push [back]               where the call returns to: behind the window
//!   jmp  [entry]              super::entry, which returns there and takes the red zone's room back
//!   ...
//!   entry: its address
//!   back:  the window's end
//! ```
//!
//! Nothing returns to a trampoline, so no unwinder meets one while a call waits: to it the library
//! has called [`super::entry`]. In a signal that has interrupted these few instructions it finds no
//! information, and stops. A preemption there is as good as anywhere: the stack is the thread's.

use super::plan::{JUMP, Window};
use core::ops::Range;
use iced_x86::{BlockEncoder, BlockEncoderOptions, InstructionBlock};

/// Of a trampoline.
pub(crate) const SIZE: usize = 64;
const ENTRY: usize = SIZE - 16;
const BACK: usize = SIZE - 8;
const INT3: u8 = 0xcc;

/// The bytes of the trampoline at `at`; `None`: there is no such code there.
pub(crate) fn code(window: &Window, at: u64, entry: u64) -> Option<[u8; SIZE]> {
    let block = InstructionBlock::new(&window.moved, at);
    let moved = BlockEncoder::encode(64, block, BlockEncoderOptions::NONE).ok()?.code_buffer;
    let mut bytes = [INT3; SIZE];
    let mut length = 0;
    let mut add = |more: &[u8]| {
        bytes[..ENTRY].get_mut(length..length + more.len())?.copy_from_slice(more);
        length += more.len();
        Some(length)
    };
    add(&moved)?;
    add(&[0x48, 0x8d, 0x64, 0x24, 0x80])?;
    // These name memory by its distance from their own end.
    for (instruction, operand) in [([0xff, 0x35], BACK), ([0xff, 0x25], ENTRY)] {
        let end = add(&instruction)? + 4;
        add(&((operand - end) as u32).to_le_bytes())?;
    }
    bytes[ENTRY..BACK].copy_from_slice(&entry.to_le_bytes());
    bytes[BACK..].copy_from_slice(&window.place.end.to_le_bytes());
    Some(bytes)
}

/// What the window holds from then on: a jump to `at`; `None`: that is too far.
pub(crate) fn jump(place: &Range<u64>, at: u64) -> Option<Vec<u8>> {
    let distance = at.wrapping_sub(place.start + JUMP).cast_signed();
    let mut bytes = vec![0xe9];
    bytes.extend(i32::try_from(distance).ok()?.to_le_bytes());
    bytes.resize((place.end - place.start) as usize, INT3);
    Some(bytes)
}
