//! Loops with probes, as `quaver-as` writes them.

use std::arch::asm;

/// A loop of `n` turns with a probe, whose stub calls the entry for `class`.
macro_rules! probed_loop {
    () => {
        "2:
        cmp byte ptr fs:[0x80], 0
        jne 4f
        3:
        dec {n}
        jnz 2b
        jmp 5f
        4:
        sub dword ptr fs:[0x84], 1
        jns 3b
        lea rsp, [rsp - 128]
        push -1
        call qword ptr fs:[0x88 + 8 * {class}]
        lea rsp, [rsp + 136]
        jmp 3b
        5:"
    };
}

/// Runs that loop.
pub fn probed<const CLASS: usize>(n: u64) {
    // SAFETY: the stub keeps all registers but flags, which are dead where it is entered.
    unsafe { asm!(probed_loop!(), n = inout(reg) n => _, class = const CLASS) };
}
