//! Which instructions give way to a jump.
//!
//! A `syscall` has two bytes and a jump five. So instructions before it are moved too: a *window*
//! is a row of whole instructions that ends with a `syscall`. Nothing in it but that branches, and
//! nobody enters it but at its first byte. Where functions begin is known, and branches are known
//! from the code, and so are the addresses that it takes: of code, and of tables for `switch`. Any
//! other way into a function leads to a place behind a call or to an `endbr64`, which is never
//! moved. libgomp catches no exceptions, whose landing pads would be another way in.
//!
//! This module knows nothing of the shim, and is tested by itself: `tests/plan.rs`.

use super::image::Image;
use core::ops::Range;
use iced_x86::{Code, Decoder, DecoderOptions, EncodingKind, FlowControl, Instruction};

/// See the module documentation.
#[derive(Debug)]
pub(crate) struct Window {
    /// The last two bytes are the `syscall`.
    pub(crate) place: Range<u64>,
    /// The instructions before it.
    pub(crate) moved: Vec<Instruction>,
}

/// The size of a jump.
pub(crate) const JUMP: u64 = 5;

/// Where jumps can be in these functions, which are in order; `None`: the code uses registers that
/// a call would change.
///
/// To a compiler the `syscall` instruction changes hardly any register. [`super::entry`] saves the
/// vector registers that all processors have. Functions of C may change the rest: code that has no
/// instruction for it keeps nothing there.
pub(crate) fn windows(image: &Image<'_>, functions: &[Range<u64>]) -> Option<Vec<Window>> {
    let instructions: Vec<_> = functions.iter().flat_map(|f| decode(image, f)).collect();
    if instructions.iter().any(|i| i.code().encoding() != EncodingKind::Legacy) {
        return None;
    }
    let targets = targets(&instructions, image, functions);
    let calls = instructions.iter().enumerate().filter(|(_, i)| i.code() == Code::Syscall);
    Some(calls.filter_map(|(n, _)| window(&instructions[..=n], &targets)).collect())
}

fn decode(image: &Image<'_>, function: &Range<u64>) -> Vec<Instruction> {
    let bytes = image.from(function.start);
    let bytes = &bytes[..bytes.len().min((function.end - function.start) as usize)];
    Decoder::with_ip(64, bytes, function.start, DecoderOptions::NONE).into_iter().collect()
}

/// Where the code may go other than to the next instruction, in order.
fn targets(instructions: &[Instruction], image: &Image<'_>, functions: &[Range<u64>]) -> Vec<u64> {
    let is_code = |address| {
        let next = functions.partition_point(|f| f.start <= address);
        next > 0 && address < functions[next - 1].end
    };
    let mut all: Vec<u64> = functions.iter().map(|f| f.start).collect();
    for i in instructions {
        let address = match i.flow_control() {
            FlowControl::Next if i.code() == Code::Lea_r64_m && i.is_ip_rel_memory_operand() => {
                i.ip_rel_memory_address()
            }
            // Zero without a target in the instruction.
            FlowControl::Next => continue,
            _ => i.near_branch_target(),
        };
        all.push(address);
        if is_code(address) {
            continue;
        }
        // As if it were a table: it ends where an entry is not in the code.
        let entries = image.from(address).as_chunks::<4>().0.iter();
        let places = entries.map(|&e| address.wrapping_add_signed(i32::from_le_bytes(e).into()));
        all.extend(places.take_while(|&place| is_code(place)));
    }
    all.sort_unstable();
    all.dedup();
    all
}

/// The smallest one that ends with the last of these, which is a `syscall`.
fn window(instructions: &[Instruction], targets: &[u64]) -> Option<Window> {
    let (call, before) = instructions.split_last()?;
    let end = call.next_ip();
    let (mut start, mut first) = (call.ip(), before.len());
    while end - start < JUMP {
        let previous = before[..first].last()?;
        if previous.next_ip() != start
            || previous.flow_control() != FlowControl::Next
            || previous.code() == Code::Endbr64
        {
            return None;
        }
        (start, first) = (previous.ip(), first - 1);
    }
    let next_target = targets.get(targets.partition_point(|&target| target <= start));
    if next_target.is_some_and(|&target| target < end) {
        return None;
    }
    Some(Window { place: start..end, moved: before[first..].to_vec() })
}
