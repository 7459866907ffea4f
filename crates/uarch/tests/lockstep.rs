//! Whole programs here and on this machine's CPU, compared after each instruction; memory at the
//! end.
//!
//! `QUAVER_TEST_FULL=1` runs them at a larger size.

#![cfg(target_arch = "x86_64")]

mod build;
mod native;

use iced_x86::{Decoder, DecoderOptions};
use native::{Native, State, Step};
use quaver_uarch::cpu::flag;
use quaver_uarch::memory::Rights;
use quaver_uarch::{Machine, decode};

fn state(machine: &Machine) -> State {
    let mut state = State { r: [0; 16], rip: machine.cpu.rip, flags: 0, v: [[0; 32]; 16] };
    state.r.copy_from_slice(&machine.cpu.r[..16]);
    state.v.copy_from_slice(&machine.cpu.v[..16]);
    state.flags = machine.cpu.flags & flag::STATUS;
    state
}

/// Says whether an instruction may leave flags as they differ here.
fn undefined(machine: &Machine, address: u64) -> bool {
    let mut bytes = [0; 15];
    let length =
        (0..15).take_while(|&i| machine.memory.peek(address + i as u64, &mut bytes[i..=i])).count();
    let i = Decoder::with_ip(64, &bytes[..length], address, DecoderOptions::NONE).decode();
    i.rflags_undefined() != 0
}

/// Runs a program on both; says how many instructions it had.
fn compare(source: &str, options: &[&str]) -> Option<u64> {
    let folder = tempfile::tempdir().unwrap();
    let program = build::compile(source, &[build::ALONE, options].concat(), folder.path())?;
    let mut cpu = match Native::program(&program) {
        Ok(cpu) => cpu,
        Err(error) => {
            build::skipped(error);
            return None;
        }
    };
    let mut machine =
        Machine::with_program(&std::fs::read(&program).unwrap(), &["program"]).unwrap();
    // The stack is where Linux has put it.
    for (from, to) in cpu.writable().unwrap() {
        let mut bytes = vec![0; (to - from) as usize];
        cpu.peek(from, &mut bytes).unwrap();
        if !machine.memory.is_mapped(from, 1) {
            machine.memory.map(from, to - from, Rights::RW);
        }
        assert!(machine.memory.poke(from, &bytes));
    }
    let begin = cpu.state();
    machine.cpu.r[..16].copy_from_slice(&begin.r);
    let mut steps = 0u64;
    loop {
        let address = machine.cpu.rip;
        let text = || decode::disassemble(&machine.memory, address);
        let is_call = text() == "syscall";
        if is_call && machine.cpu.r[0] == 231 {
            break;
        }
        let text = text();
        let mut step = cpu.step().unwrap();
        while step == Step::Done && text.starts_with("rep") && cpu.state().rip == address {
            step = cpu.step().unwrap();
        }
        assert_eq!(step, Step::Done, "{address:#x}: {text}");
        machine.step().unwrap_or_else(|error| panic!("{error}"));
        steps += 1;
        let mut theirs = cpu.state();
        theirs.flags &= flag::STATUS;
        let mut ours = state(&machine);
        if is_call {
            // The CPU's R11 has the trap flag, with which it is stepped.
            machine.cpu.r[11] = theirs.r[11];
            ours.r[11] = theirs.r[11];
        }
        if ours.flags != theirs.flags && undefined(&machine, address) {
            machine.cpu.flags = machine.cpu.flags & !flag::STATUS | theirs.flags;
            ours.flags = theirs.flags;
        }
        assert!(
            ours == theirs,
            "after {steps} instructions, {address:#x}: {text}\n{ours:x?}\n{theirs:x?}"
        );
    }
    for (from, to) in cpu.writable().unwrap() {
        let (mut theirs, mut ours) = (vec![0; (to - from) as usize], vec![0; (to - from) as usize]);
        cpu.peek(from, &mut theirs).unwrap();
        assert!(machine.memory.peek(from, &mut ours));
        let place = (0..ours.len()).find(|&i| ours[i] != theirs[i]);
        assert_eq!(place, None, "memory differs from {from:#x} on");
    }
    Some(steps)
}

#[test]
fn workloads_are_equal_after_each_instruction() {
    let full = std::env::var_os("QUAVER_TEST_FULL").is_some();
    let avx: &[&str] = &["-DSIZE=9", "-mavx2", "-mbmi2", "-mpopcnt"];
    let programs: [(&str, &[&str], &[&str]); 6] = [
        ("fib", &["-DSIZE=12"], &["-DSIZE=20"]),
        ("linpack", &["-DSIZE=14"], &["-DSIZE=40"]),
        ("memops", &["-DSIZE=2", "-DWORDS=512"], &["-DSIZE=4", "-DWORDS=4096"]),
        ("chase", &["-DSIZE=500", "-DNODES=128"], &["-DSIZE=9000", "-DNODES=2048"]),
        ("mix", &["-DSIZE=1"], &["-DSIZE=9"]),
        ("mix", &["-DSIZE=1", "-mavx2", "-mbmi2", "-mpopcnt"], avx),
    ];
    for (name, quick, long) in programs {
        if quick.contains(&"-mavx2") && !std::is_x86_feature_detected!("avx2") {
            build::skipped("this CPU has no AVX2");
            continue;
        }
        let source = format!("workloads/{name}.c");
        let Some(steps) = compare(&source, if full { long } else { quick }) else { return };
        println!("{name}: {steps} instructions");
        assert!(steps > 1000);
    }
}
