//! The encodings of the five instructions (Intel SDM 2, chapter 4). Pure.

/// One of the five.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Instruction {
    Uiret,
    Testui,
    Clui,
    Stui,
    /// With the number of its operand: 0 rax, 1 rcx, 2 rdx, ... 15 r15.
    Senduipi(u8),
}

/// The longest of them, in bytes.
pub(super) const LONGEST: usize = 5;

/// What `code` begins with, and how many bytes it has.
pub(super) fn decode(code: &[u8]) -> Option<(Instruction, usize)> {
    use Instruction::*;
    let (&0xf3, rest) = code.split_first()? else { return None };
    let (extended, rest) = match *rest.first()? {
        rex @ 0x40..=0x4f => (rex & 1, &rest[1..]),
        _ => (0, rest),
    };
    let length = code.len() - rest.len() + 3;
    let found = match *rest.first_chunk::<3>()? {
        [0x0f, 0x01, 0xec] => Uiret,
        [0x0f, 0x01, 0xed] => Testui,
        [0x0f, 0x01, 0xee] => Clui,
        [0x0f, 0x01, 0xef] => Stui,
        [0x0f, 0xc7, modrm @ 0xf0..=0xf7] => Senduipi(extended << 3 | modrm & 7),
        _ => return None,
    };
    Some((found, length))
}

#[cfg(test)]
mod tests {
    use super::{Instruction::*, *};

    #[test]
    fn the_five_are_told_from_their_neighbours() {
        for (code, found) in [
            (&[0xf3, 0x0f, 0x01, 0xec][..], Some((Uiret, 4))),
            (&[0xf3, 0x0f, 0x01, 0xed, 0x90], Some((Testui, 4))),
            (&[0xf3, 0x0f, 0x01, 0xee], Some((Clui, 4))),
            (&[0xf3, 0x0f, 0x01, 0xef], Some((Stui, 4))),
            (&[0xf3, 0x0f, 0xc7, 0xf7], Some((Senduipi(7), 4))),
            (&[0xf3, 0x41, 0x0f, 0xc7, 0xf0], Some((Senduipi(8), 5))),
            (&[0xf3, 0x48, 0x0f, 0xc7, 0xf1], Some((Senduipi(1), 5))),
            // rdrand, rdpid, serialize, vmxon; and cut off.
            (&[0x0f, 0xc7, 0xf0], None),
            (&[0xf3, 0x0f, 0xc7, 0xf8], None),
            (&[0x0f, 0x01, 0xe8], None),
            (&[0xf3, 0x0f, 0xc7, 0x37], None),
            (&[0xf3, 0x0f, 0x01], None),
            (&[0xf3], None),
            (&[], None),
        ] {
            assert_eq!(decode(code), found, "{code:x?}");
        }
    }
}
