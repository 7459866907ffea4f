//! Where the shim's jumps go in a library's code, and what they lead to. A test with the shim
//! itself would have its functions in place of the C library's.

#[path = "../src/inline_calls/image.rs"]
mod image;
#[path = "../src/inline_calls/plan.rs"]
mod plan;
#[path = "../src/inline_calls/trampoline.rs"]
mod trampoline;

use iced_x86::{Code, Decoder, DecoderOptions, Instruction, Mnemonic, Register};
use image::{Image, Part};
use plan::{Window, windows};
use std::ops::Range;
use trampoline::{SIZE, code, jump};

const AT: u64 = 0x7f00_0000_0000;
const CONSTANTS: u64 = AT + 0x10_0000;
const SYSCALL: &[u8] = &[0x0f, 0x05];
/// `mov eax, ebp`: too short by one.
const TWO: &[u8] = &[0x89, 0xe8];
/// `mov eax, r8d`: just enough.
const THREE: &[u8] = &[0x44, 0x89, 0xc0];
/// `mov esi, [rip + 0x100]`
const RELATIVE: &[u8] = &[0x8b, 0x35, 0, 1, 0, 0];
const RET: &[u8] = &[0xc3];

fn planned(code: &[&[u8]], constants: &[i32]) -> Option<Vec<Window>> {
    let code = code.concat();
    let all = AT..AT + code.len() as u64;
    planned_in(&code, constants, std::slice::from_ref(&all))
}

fn planned_in(code: &[u8], constants: &[i32], functions: &[Range<u64>]) -> Option<Vec<Window>> {
    let constants: Vec<u8> = constants.iter().flat_map(|entry| entry.to_le_bytes()).collect();
    let constants = Part { at: CONSTANTS, bytes: &constants };
    windows(&Image { parts: vec![Part { at: AT, bytes: code }, constants] }, functions)
}

/// The places of the windows, as distances from the beginning.
fn places(code: &[&[u8]]) -> Vec<(u64, u64)> {
    let windows = planned(code, &[]).expect("nothing that is not saved");
    windows.iter().map(|w| (w.place.start - AT, w.place.end - AT)).collect()
}

#[test]
fn whole_instructions_that_end_with_the_call() {
    assert_eq!(places(&[THREE, SYSCALL, RET]), [(0, 5)]);
    assert_eq!(places(&[TWO, THREE, SYSCALL, RET]), [(2, 7)]);
    assert_eq!(places(&[THREE, TWO, SYSCALL, RET]), [(0, 7)]);
    assert_eq!(places(&[RELATIVE, SYSCALL, THREE, SYSCALL, RET]), [(0, 8), (8, 13)]);
    let windows = planned(&[THREE, TWO, SYSCALL], &[]).expect("nothing that is not saved");
    let moved: Vec<_> = windows[0].moved.iter().map(Instruction::ip).collect();
    assert_eq!(moved, [AT, AT + 3]);
}

#[test]
fn no_room() {
    assert_eq!(places(&[SYSCALL, RET]), []);
    assert_eq!(places(&[TWO, SYSCALL, RET]), []);
    assert_eq!(places(&[THREE, SYSCALL, TWO, SYSCALL, RET]), [(0, 5)]);
    // A call, a jump, a condition, a place where a function begins, a byte that is no
    // instruction.
    let call: &[u8] = &[0xe8, 0, 0, 0, 0];
    let endbr64: &[u8] = &[0xf3, 0x0f, 0x1e, 0xfa];
    for before in [call, &[0xeb, 0x10], &[0x75, 0x10], endbr64, &[0x06]] {
        assert_eq!(places(&[THREE, before, TWO, SYSCALL, RET]), [], "{before:x?}");
    }
}

#[test]
fn nobody_jumps_into_it() {
    // Forwards and backwards, to each byte of what follows or precedes.
    for to in 0..=7 {
        let expected: &[_] = if matches!(to, 1..=4) { &[] } else { &[(2, 7)] };
        assert_eq!(places(&[&[0xeb, to as u8], THREE, SYSCALL, RET, RET, RET]), expected, "{to}");
        let jump: &[u8] = &[0x74, (to - 7i8) as u8];
        let expected: &[_] = if matches!(to, 1..=4) { &[] } else { &[(0, 5)] };
        assert_eq!(places(&[THREE, SYSCALL, jump, RET]), expected, "{to}");
    }
    // A call, and an address that is taken.
    assert_eq!(places(&[&[0xe8, 3, 0, 0, 0], THREE, SYSCALL]), []);
    assert_eq!(places(&[&[0x48, 0x8d, 0x05, 3, 0, 0, 0], THREE, SYSCALL]), []);
}

#[test]
fn nor_comes_by_a_table() {
    let mut address = vec![0x48, 0x8d, 0x05];
    address.extend(((CONSTANTS - AT) as u32 - 7).to_le_bytes());
    let places = |table: &[i32]| {
        let windows = planned(&[&address, THREE, SYSCALL, RET], table);
        windows.expect("nothing that is not saved").len()
    };
    let to = |offset: i32| offset - (CONSTANTS - AT) as i32;
    assert_eq!(places(&[]), 1);
    assert_eq!(places(&[to(0), to(7), to(12)]), 1);
    assert_eq!(places(&[to(0), to(10)]), 0);
    // This is behind the end of the table.
    assert_eq!(places(&[to(0), 0, to(10)]), 1);
}

#[test]
fn only_in_functions() {
    // What is between them would be a system call, and a vector instruction.
    let code = [THREE, SYSCALL, RET, &[0xc5, 0xf8, 0x77], THREE, SYSCALL, RET].concat();
    let (first, second) = (AT..AT + 6, AT + 9..AT + 15);
    let starts = |functions: &[Range<u64>]| {
        let windows = planned_in(&code, &[], functions).expect("nothing that is not saved");
        windows.iter().map(|w| w.place.start - AT).collect::<Vec<_>>()
    };
    assert_eq!(starts(&[first.clone(), second.clone()]), [0, 9]);
    assert_eq!(starts(std::slice::from_ref(&second)), [9]);
    // The second one begins in the window.
    assert_eq!(starts(&[first, AT + 9..AT + 12, AT + 12..AT + 15]), [0]);
}

/// A table for unwinders at `AT`, of functions with these distances and sizes from `CONSTANTS`.
fn unwinding(functions: &[(u32, u32)]) -> Vec<u8> {
    let mut words = vec![0x3b03_1b01, 0, functions.len() as u32];
    let entries = 12 + 8 * functions.len() as u32;
    let far = (CONSTANTS - AT) as u32;
    for (n, (start, _)) in functions.iter().enumerate() {
        words.extend([far + start, entries + 16 * n as u32]);
    }
    for (n, (start, size)) in functions.iter().enumerate() {
        words.extend([12, 0, far + start - (entries + 16 * n as u32 + 8), *size]);
    }
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

#[test]
fn functions_are_those_of_the_table() {
    let code = [0; 100];
    let read = |table: &[u8]| {
        let parts = vec![Part { at: AT, bytes: table }, Part { at: CONSTANTS, bytes: &code }];
        Image { parts }.functions(AT)
    };
    let table = unwinding(&[(0, 10), (16, 84)]);
    let expected = vec![CONSTANTS..CONSTANTS + 10, CONSTANTS + 16..CONSTANTS + 100];
    assert_eq!(read(&table), Some(expected));
    // One that is larger than the code, a table that ends, other forms of addresses, no table.
    assert_eq!(read(&unwinding(&[(16, 85)])), None);
    assert_eq!(read(&table[..table.len() - 1]), None);
    for byte in 0..4 {
        let mut other = table.clone();
        other[byte] ^= 1;
        assert_eq!(read(&other), None);
    }
    let mut other = table;
    other[12 + 16 + 8] ^= 1;
    assert_eq!(read(&other), None);
    assert_eq!(read(&[]), None);
}

#[test]
fn vector_registers_that_are_not_saved() {
    // vzeroupper; vpxord zmm0, zmm0, zmm0
    for vector in [&[0xc5, 0xf8, 0x77][..], &[0x62, 0xf1, 0x7d, 0x48, 0xef, 0xc0]] {
        assert!(planned(&[THREE, SYSCALL, RET, vector, RET], &[]).is_none());
    }
    // movaps xmm0, xmm1
    assert!(planned(&[THREE, SYSCALL, RET, &[0x0f, 0x28, 0xc1], RET], &[]).is_some());
}

#[test]
fn a_trampoline() {
    const FAR: u64 = AT - (1 << 30);
    const ENTRY: u64 = 0x7fff_1234_5678;
    let windows = planned(&[RELATIVE, SYSCALL], &[]).expect("nothing that is not saved");
    let bytes = code(&windows[0], FAR, ENTRY).expect("near enough");
    let mut decoder = Decoder::with_ip(64, &bytes, FAR, DecoderOptions::NONE);
    let [moved, room, push, jump] = std::array::from_fn(|_| decoder.decode());
    assert_eq!((moved.mnemonic(), moved.op0_register()), (Mnemonic::Mov, Register::ESI));
    assert_eq!(moved.ip_rel_memory_address(), AT + 6 + 0x100);
    assert_eq!((room.code(), room.memory_displacement64() as i64), (Code::Lea_r64_m, -128));
    assert_eq!((room.op0_register(), room.memory_base()), (Register::RSP, Register::RSP));
    let word = |i: &Instruction| {
        let at = (i.ip_rel_memory_address() - FAR) as usize;
        u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight"))
    };
    assert_eq!((push.code(), word(&push)), (Code::Push_rm64, AT + 8));
    assert_eq!((jump.code(), word(&jump)), (Code::Jmp_rm64, ENTRY));
    // From there the operand cannot be named.
    assert!(code(&windows[0], AT + (1 << 40), ENTRY).is_none());
}

#[test]
fn a_trampoline_has_an_end() {
    let long: &[u8] = &[0x48, 0xb8, 1, 2, 3, 4, 5, 6, 7, 8];
    let mut windows = planned(&[long, SYSCALL], &[]).expect("nothing that is not saved");
    assert!(code(&windows[0], AT, 0).is_some());
    let one = windows[0].moved[0];
    windows[0].moved.extend([one; 3]);
    assert!(windows[0].moved.len() * long.len() < SIZE && code(&windows[0], AT, 0).is_none());
}

#[test]
fn the_jump_fills_the_window() {
    assert_eq!(jump(&(AT..AT + 7), AT + 0x105), Some(vec![0xe9, 0, 1, 0, 0, 0xcc, 0xcc]));
    assert_eq!(jump(&(AT..AT + 5), AT), Some(vec![0xe9, 0xfb, 0xff, 0xff, 0xff]));
    assert_eq!(jump(&(AT..AT + 5), AT + (1 << 32)), None);
}
