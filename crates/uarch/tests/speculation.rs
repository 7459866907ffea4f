//! A program with wrong paths taken and undone ends as without them.

mod build;

use quaver_uarch::memory::Memory;
use quaver_uarch::speculate::{Speculation, Stop};
use quaver_uarch::{Fault, Machine};

/// Numbers that look random.
fn next(seed: &mut u64) -> u64 {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    *seed
}

/// Runs until the program wants something of the machine, with wrong turns if `wrong`. Says how
/// many instructions have retired, and how many were undone.
fn run(machine: &mut Machine, wrong: bool, seed: &mut u64) -> (Speculation, u64, u64) {
    let mut core = Speculation::new(machine.cpu.clone());
    let (code, mut undone) = (machine.cpu.rip, 0);
    loop {
        let stopped = core.fetch(&mut machine.memory).map(|_| ()).err();
        match stopped {
            Some(Stop::Machine) => break,
            Some(Stop::Fault(fault)) => panic!("{fault}"),
            None => {}
        }
        if wrong && next(seed).is_multiple_of(50) {
            // As if a branch had been predicted wrongly: anywhere near, for a while.
            let (right, back) = (core.in_flight().end, core.cpu.rip);
            core.cpu.rip = code.wrapping_add(next(seed) % 4096).wrapping_sub(2048);
            for _ in 0..next(seed) % 100 {
                if core.fetch(&mut machine.memory).is_err() {
                    break;
                }
            }
            undone += core.in_flight().end - right;
            core.undo(&mut machine.memory, right);
            core.cpu.rip = back;
        }
        let flight = core.in_flight();
        if wrong && next(seed).is_multiple_of(97) {
            // As a flush does: all that has not retired is fetched again.
            core.undo(&mut machine.memory, flight.start);
        } else if flight.end - flight.start > 200 {
            core.retire(flight.start + next(seed) % 200);
        }
    }
    let all = core.in_flight().end;
    core.retire(all);
    (core, all, undone)
}

#[test]
fn undone_instructions_leave_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["mix", "linpack", "fib"] {
        let source = format!("workloads/{name}.c");
        let options = [build::ALONE, &["-DSIZE=18"]].concat();
        let Some(program) = build::compile(&source, &options, folder.path()) else { return };
        let load = || Machine::with_program(&std::fs::read(&program).unwrap(), &[name]).unwrap();
        let (mut plain, mut strange, mut seed) = (load(), load(), 88_172_645_463_325_252);
        let (expected, count, _) = run(&mut plain, false, &mut seed);
        let (core, retired, undone) = run(&mut strange, true, &mut seed);
        assert_eq!(retired, count, "{name}");
        assert!(undone > 100, "{name}: only {undone} were undone");
        assert_eq!(core.cpu.r[..16], expected.cpu.r[..16], "{name}");
        assert_eq!((core.cpu.flags, core.cpu.rip), (expected.cpu.flags, expected.cpu.rip));
        assert_eq!(core.cpu.v[..16], expected.cpu.v[..16], "{name}");
        // The rest of the program sees the same memory.
        (plain.cpu, strange.cpu) = (expected.cpu, core.cpu);
        assert_eq!(strange.run(10_000), Ok(0), "{name}");
        plain.run(10_000).unwrap();
        let both = [plain, strange].map(|machine| format!("{:?}", machine.kernel.output));
        assert_eq!(both[0], both[1]);
    }
}

#[test]
fn a_fault_changes_nothing() {
    // push [0x10] after mov eax, 1: the load faults
    let code = [0xb8, 1, 0, 0, 0, 0xff, 0x34, 0x25, 0x10, 0, 0, 0];
    let mut machine = Machine::with_code(0x40_0000, &code);
    let mut core = Speculation::new(machine.cpu.clone());
    let first = core.fetch(&mut machine.memory).unwrap();
    assert_eq!((first.number, first.address, first.next), (0, 0x40_0000, 0x40_0005));
    let before = core.cpu.r;
    let stop = core.fetch(&mut machine.memory).err();
    assert_eq!(stop, Some(Stop::Fault(Fault::Read { address: 0x10 })));
    assert_eq!((core.cpu.r, core.cpu.rip), (before, 0x40_0005));
    assert_eq!(core.in_flight(), 0..1);
}

#[test]
fn what_is_written_from_beside_survives_a_squash() {
    // mov byte [rsp], 7, twice
    let store = [0xc6, 0x04, 0x24, 7];
    let mut machine = Machine::with_code(0x40_0000, &[store, store].concat());
    let at = machine.cpu.rsp();
    machine.memory.poke(at, &[1, 1]);
    let mut ahead = Speculation::new(machine.cpu.clone());
    let memory = &mut machine.memory;
    let seen = |ahead: &Speculation, memory: &Memory| {
        let (mut inside, mut outside) = ([0; 2], [0; 2]);
        assert!(memory.peek(at, &mut inside) && ahead.read_outside(memory, at, &mut outside));
        (inside, outside)
    };
    ahead.fetch(memory).unwrap();
    ahead.fetch(memory).unwrap();
    assert_eq!(seen(&ahead, memory), ([7, 1], [1, 1]));
    assert!(ahead.write_outside(memory, at, &[3, 4]));
    assert_eq!(seen(&ahead, memory), ([7, 4], [3, 4]));
    ahead.undo(memory, 1);
    assert_eq!(seen(&ahead, memory), ([7, 4], [3, 4]));
    ahead.undo(memory, 0);
    assert_eq!(seen(&ahead, memory), ([3, 4], [3, 4]));
    assert!(!ahead.write_outside(memory, 0, &[1]));
}
