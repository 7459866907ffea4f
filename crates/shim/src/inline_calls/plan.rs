//! Which instructions give way to a jump.
//!
//! A `syscall` has two bytes and a jump five. So instructions before it are moved too: a *window*
//! is a row of whole instructions that ends with a `syscall`. Nothing in it but that branches, and
//! nobody enters it but at its first byte. Branches are known from the code, and so are the
//! addresses that it takes: of code, and of tables for `switch`. Any other way into a function
//! leads to a place behind a call or to an `endbr64`, which is never moved. libgomp catches no
//! exceptions, whose landing pads would be another way in.
//!
//! This module knows nothing of the shim, and is tested by itself: `tests/plan.rs`.

use core::ops::Range;
use iced_x86::{Code, Decoder, DecoderOptions, EncodingKind, FlowControl, Instruction};

/// Memory of a library, and where it is.
pub(crate) struct Part<'a> {
    pub(crate) at: u64,
    pub(crate) bytes: &'a [u8],
}

impl Part<'_> {
    fn contains(&self, address: u64) -> bool {
        address.checked_sub(self.at).is_some_and(|offset| offset < self.bytes.len() as u64)
    }

    fn from(&self, address: u64) -> &[u8] {
        address.checked_sub(self.at).and_then(|i| self.bytes.get(i as usize..)).unwrap_or_default()
    }
}

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

/// Where jumps can be; `None`: the code uses registers that a call would change.
///
/// To a compiler the `syscall` instruction changes hardly any register. [`super::entry`] saves the
/// vector registers that all processors have. Functions of C may change the rest: code that has no
/// instruction for it keeps nothing there.
pub(crate) fn windows(code: &Part<'_>, constants: &[Part<'_>]) -> Option<Vec<Window>> {
    let instructions = decode(code);
    if instructions.iter().any(|i| i.code().encoding() != EncodingKind::Legacy) {
        return None;
    }
    let targets = targets(&instructions, code, constants);
    let calls = instructions.iter().enumerate().filter(|(_, i)| i.code() == Code::Syscall);
    Some(calls.filter_map(|(n, _)| window(&instructions[..=n], &targets)).collect())
}

/// All instructions in their order. Linkers fill the room between sections with zeros, of which
/// there may be an odd number: no instruction of a compiler's begins with one.
fn decode(code: &Part<'_>) -> Vec<Instruction> {
    let mut decoder = Decoder::with_ip(64, code.bytes, code.at, DecoderOptions::NONE);
    let mut all = Vec::new();
    while decoder.can_decode() {
        let position = decoder.position();
        if code.bytes[position] != 0 {
            all.push(decoder.decode());
        } else if decoder.set_position(position + 1).is_ok() {
            decoder.set_ip(decoder.ip() + 1);
        }
    }
    all
}

/// Where the code may go other than to the next instruction, in order.
fn targets(instructions: &[Instruction], code: &Part<'_>, constants: &[Part<'_>]) -> Vec<u64> {
    let mut all = Vec::new();
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
        // As if it were a table: it ends where an entry is not in the code.
        let table = constants.iter().find(|part| part.contains(address));
        let entries = table.map_or(&[][..], |part| part.from(address)).as_chunks::<4>().0;
        let places = entries
            .iter()
            .map(|&entry| address.wrapping_add_signed(i32::from_le_bytes(entry).into()));
        all.extend(places.take_while(|&place| code.contains(place)));
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
