//! Whole programs: what they print, and what is said about those that cannot run.

mod build;

use quaver_uarch::kernel::Output;
use quaver_uarch::{Error, Fault, Machine};

fn load(program: &std::path::Path, arguments: &[&str]) -> Machine {
    Machine::with_program(&std::fs::read(program).unwrap(), arguments).unwrap()
}

fn printed(machine: &Machine) -> String {
    match &machine.kernel.output {
        Output::Keep(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Output::Echo => unreachable!("it is kept by default"),
    }
}

#[test]
fn user_interrupts_and_the_timer() {
    let folder = tempfile::tempdir().unwrap();
    let options = [build::ALONE, &["-muintr", "-mgeneral-regs-only"]].concat();
    let Some(program) = build::compile("tests/programs/uipi.c", &options, folder.path()) else {
        return;
    };
    let mut machine = load(&program, &["uipi"]);
    assert_eq!(machine.run(1_000_000), Ok(0), "{}", printed(&machine));
    assert_eq!(printed(&machine), "delivered 124\n");
    assert_eq!(machine.cpu.uintr.delivered, 124);
    // Executed one at a time, it takes the same path.
    let mut single = load(&program, &["uipi"]);
    while single.exit_status().is_none() {
        single.step().unwrap();
    }
    assert_eq!(single.instructions(), machine.instructions());
    assert_eq!(single.cpu.r, machine.cpu.r);
}

#[test]
fn programs_with_a_c_library_run() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = build::compile("tests/programs/libc.c", &[], folder.path()) else { return };
    let mut machine = load(&program, &["libc", "argument"]);
    assert_eq!(machine.run(10_000_000), Ok(33), "{}", printed(&machine));
    let native = std::process::Command::new(&program).arg("argument").output().unwrap();
    assert_eq!(native.status.code(), Some(33));
    assert_eq!(printed(&machine), String::from_utf8_lossy(&native.stdout));
}

#[test]
fn rust_programs_run() {
    let folder = tempfile::tempdir().unwrap();
    let (source, program) = (folder.path().join("program.rs"), folder.path().join("program"));
    let text = r#"
        use std::collections::{BTreeMap, HashMap};
        fn main() {
            let words = "the quick brown fox jumps over the lazy dog and the cat";
            let mut counts: HashMap<&str, usize> = HashMap::new();
            words.split(' ').for_each(|word| *counts.entry(word).or_default() += 1);
            let sorted: BTreeMap<_, _> = counts.iter().collect();
            let mean = sorted.values().map(|n| **n as f64).sum::<f64>() / sorted.len() as f64;
            println!("{sorted:?} {mean:.4} {}", std::env::args().count());
            std::process::exit(if "12x".parse::<u32>().is_err() { 9 } else { 1 });
        }"#;
    std::fs::write(&source, text).unwrap();
    let rustc = std::env::var_os("RUSTC").unwrap_or("rustc".into());
    let mut command = std::process::Command::new(rustc);
    command.args(["-O", "--edition=2024", "-C", "target-feature=+crt-static", "-o"]);
    let output = command.arg(&program).arg(&source).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut machine = load(&program, &["program", "argument"]);
    assert_eq!(machine.run(10_000_000), Ok(9), "{}", printed(&machine));
    let native = std::process::Command::new(&program).arg("argument").output().unwrap();
    assert_eq!(printed(&machine), String::from_utf8_lossy(&native.stdout));
}

/// Runs machine code at 0x400000.
fn fails(code: &[u8]) -> Error {
    Machine::with_code(0x40_0000, code).run(100).unwrap_err()
}

#[test]
fn what_cannot_run_is_named() {
    // mov rax, [0x10]
    let error = fails(&[0x48, 0x8b, 0x04, 0x25, 0x10, 0, 0, 0]);
    let text = "0x400000: mov rax,[10h]: memory fault: it reads 0x10, where nothing can be read";
    assert_eq!(error.to_string(), text);
    // inc eax; jmp back
    let error = fails(&[0xff, 0xc0, 0xeb, 0xfc]);
    assert!(matches!(error, Error::Endless { instructions: 100, .. }), "{error}");
    // fld1
    let error = fails(&[0xd9, 0xe8]).to_string();
    assert!(error.contains("0x400000: fld1") && error.contains("x87"), "{error}");
    // nop; vaddps zmm0, zmm0, zmm0
    let error = fails(&[0x90, 0x62, 0xf1, 0x7c, 0x48, 0x58, 0xc0]).to_string();
    assert!(error.contains("0x400001: vaddps") && error.contains("AVX-512"), "{error}");
    // vfmadd213sd xmm0, xmm1, xmm2
    let error = fails(&[0xc4, 0xe2, 0xf1, 0xa9, 0xc2]).to_string();
    assert!(error.contains("FMA"), "{error}");
    // mov eax, 2; syscall
    let error = fails(&[0xb8, 2, 0, 0, 0, 0x0f, 0x05]);
    assert_eq!(error, Error::Call { address: 0x40_0005, number: 2 });
    // xor ecx, ecx; div ecx
    let error = fails(&[0x31, 0xc9, 0xf7, 0xf1]);
    assert!(
        matches!(error, Error::Fault { address: 0x40_0002, fault: Fault::Divide, .. }),
        "{error}"
    );
    // jmp to the end of the page, and beyond it
    let error = fails(&[0xe9, 0xfb, 0x1f, 0, 0]);
    assert!(
        matches!(error, Error::Fault { fault: Fault::Fetch { address: 0x40_2000 }, .. }),
        "{error}"
    );
    // set_timer without permission; a safepoint prefix is none of its business
    let error = fails(&[0x36, 0x90, 0x66, 0x0f, 0x01, 0xec]);
    assert!(
        error.to_string().contains("0x400002: set_timer") && error.to_string().contains("enable"),
        "{error}"
    );
    // hlt
    assert!(fails(&[0xf4]).to_string().contains("privileged"));
}

#[test]
fn files_that_are_no_programs_are_named() {
    let refuse =
        |file: &[u8]| Machine::with_program(file, &["x"]).err().expect("it is refused").to_string();
    assert!(refuse(b"#!/bin/sh\n").contains("no 64-bit ELF file"));
    let this = std::fs::read(std::env::current_exe().unwrap()).unwrap();
    assert!(refuse(&this).contains("-static"));
    // Any piece of a program is refused or loaded, without a panic.
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = build::compile("workloads/fib.c", build::ALONE, folder.path()) else {
        return;
    };
    let file = std::fs::read(program).unwrap();
    for length in 0..file.len() {
        let _ = Machine::with_program(&file[..length], &["x"]);
    }
    for place in 0..200 {
        for value in [0, 1, 0x7f, 0xff] {
            let mut broken = file.clone();
            broken[place] = value;
            let _ = Machine::with_program(&broken, &["x"]).map(|mut machine| machine.run(1000));
        }
    }
}

#[test]
fn code_that_changes_itself_runs_as_changed() {
    // mov byte [rip+2], 7 (the immediate below); jmp next; mov edi, 0; mov eax, 60; syscall
    let code = [
        0xc6, 0x05, 0x03, 0, 0, 0, 7, // mov byte [rip + 3], 7
        0xeb, 0x00, // jmp +0: a new block
        0xbf, 0, 0, 0, 0, // mov edi, 0
        0xb8, 60, 0, 0, 0, 0x0f, 0x05,
    ];
    let mut machine = Machine::with_code(0x40_0000, &code);
    assert_eq!(machine.run(100), Ok(7));
}
