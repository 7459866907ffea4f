//! Random programs here and on this machine's CPU: registers, flags and all memory that they may
//! write must be equal after each instruction. And on the timing model, by each mechanism: they
//! must end as without interrupts.
//!
//! `QUAVER_TEST_FULL=1` tests more; `SEED` chooses others, and `PROGRAMS` how many.

#![cfg(target_arch = "x86_64")]

mod build;
mod generate;
mod native;

use generate::program::{PROGRAM, PROGRAM_SIZE, STACK, program};
use generate::{CODE, DATA, DATA_SIZE, Random, Sample, same_kind, undefined};
use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction};
use native::{Native, State, Step};
use quaver_uarch::core::{Config, Core, Mechanism, When};
use quaver_uarch::cpu::flag;
use quaver_uarch::memory::Rights;
use quaver_uarch::{Error, Machine, decode};

/// The most instructions that a program executes.
const MOST: u64 = 20_000;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

/// The machines that are compared.
struct Pair {
    cpu: Native,
    machine: Machine,
    code: &'static mut [u8],
    data: &'static mut [u8],
}

/// What the programs had.
#[derive(Default, Debug)]
struct Seen {
    instructions: u64,
    taken: u64,
    calls: u64,
    returns: u64,
    stores: u64,
    faults: u64,
}

/// One instruction of this machine's CPU; a repeated one with all its repetitions.
fn step(cpu: &mut Native, i: &Instruction) -> Step {
    let repeats = i.has_rep_prefix() || i.has_repne_prefix();
    loop {
        let step = cpu.step().unwrap();
        let again = step == Step::Done && repeats && i.is_string_instruction();
        if !again || cpu.state().rip != i.ip() {
            return step;
        }
    }
}

impl Pair {
    /// Whether both have an instruction, and the CPU executes it without a fault.
    fn works(&mut self, sample: &Sample, state: &State) -> bool {
        self.machine.memory.poke(CODE, sample.bytes());
        if !generate::is_for_this_test(&mut self.machine) {
            return false;
        }
        self.code[..sample.bytes().len()].copy_from_slice(sample.bytes());
        self.cpu.set(state).unwrap();
        step(&mut self.cpu, &sample.instruction) == Step::Done
    }

    /// Runs the program of a seed on both.
    fn compare(&mut self, seed: u64, seen: &mut Seen) {
        let mut random = Random(seed);
        random.fill(self.data);
        let (code, end) = program(&mut random, &mut |sample, state| self.works(sample, state));
        random.fill(self.data);
        let mut state = random.state();
        (state.rip, state.r[4]) = (PROGRAM, STACK);
        let at = (PROGRAM - CODE) as usize;
        self.code[at..at + code.len()].copy_from_slice(&code);
        let machine = &mut self.machine;
        assert!(machine.memory.poke(PROGRAM, &code) && machine.memory.poke(DATA, self.data));
        machine.cpu.r[..16].copy_from_slice(&state.r);
        machine.cpu.v[..16].copy_from_slice(&state.v);
        (machine.cpu.rip, machine.cpu.flags) = (state.rip, state.flags);
        self.cpu.set(&state).unwrap();
        let (mut before, mut copy) = (self.data.to_vec(), vec![0; DATA_SIZE]);
        for number in 1.. {
            let address = machine.cpu.rip;
            if address == end {
                break;
            }
            let what = || {
                let text = decode::disassemble(&machine.memory, address);
                format!("SEED={seed}, instruction {number}, {address:#x}: {text}")
            };
            assert!(number < MOST, "SEED={seed}: the program does not end");
            let rest = (address - PROGRAM) as usize;
            assert!(rest < code.len(), "{}", what());
            let i = Decoder::with_ip(64, &code[rest..], address, DecoderOptions::NONE).decode();
            let what = what();
            let native = step(&mut self.cpu, &i);
            match (native, machine.step()) {
                (Step::Done, Ok(())) => {}
                (Step::Signal(signal), Err(Error::Fault { fault, .. }))
                    if same_kind(signal, fault) =>
                {
                    // With other operands than it was tried with. The program ends here.
                    seen.faults += 1;
                    break;
                }
                other => panic!("{what}: {other:?}"),
            }
            let theirs = self.cpu.state();
            let mask = (flag::STATUS | flag::DF) & !undefined(&i);
            let mut ours = State { rip: machine.cpu.rip, flags: theirs.flags, ..theirs.clone() };
            ours.r.copy_from_slice(&machine.cpu.r[..16]);
            ours.v.copy_from_slice(&machine.cpu.v[..16]);
            assert!(ours == theirs, "{what}: here\n{ours:x?}, there\n{theirs:x?}");
            let flags = (machine.cpu.flags, theirs.flags);
            assert_eq!(flags.0 & mask, flags.1 & mask, "{what}: flags {flags:#x?}");
            machine.cpu.flags = flags.0 & mask
                | flags.1 & (flag::STATUS | flag::DF) & !mask
                | flags.0 & !(flag::STATUS | flag::DF);
            assert!(machine.memory.peek(DATA, &mut copy));
            if copy != *self.data {
                let place = (0..DATA_SIZE).find(|&i| copy[i] != self.data[i]).unwrap();
                let (here, there) = (copy[place], self.data[place]);
                panic!("{what}: at {place:#x} of the data {here:#x} here, {there:#x} there");
            }
            seen.instructions += 1;
            seen.stores += u64::from(before != copy);
            before.copy_from_slice(&copy);
            let taken = machine.cpu.rip != i.next_ip();
            match i.flow_control() {
                FlowControl::ConditionalBranch => seen.taken += u64::from(taken),
                FlowControl::Call | FlowControl::IndirectCall => seen.calls += 1,
                FlowControl::Return => seen.returns += 1,
                _ => {}
            }
        }
    }
}

#[test]
fn random_programs_do_what_they_do_on_the_cpu() {
    let full = std::env::var_os("QUAVER_TEST_FULL").is_some();
    let programs = number("PROGRAMS").unwrap_or(if full { 20_000 } else { 100 });
    let first = number("SEED").unwrap_or(1);
    if !is_x86_feature_detected!("avx2") || !is_x86_feature_detected!("bmi2") {
        return build::skipped("this CPU has no AVX2 or BMI2");
    }
    let length = (PROGRAM - CODE) as usize + PROGRAM_SIZE;
    let code = native::share(CODE, length).expect("an address of our choice");
    let data = native::share(DATA, DATA_SIZE).expect("an address of our choice");
    let cpu = match Native::new() {
        Ok(cpu) => cpu,
        Err(error) => return build::skipped(error),
    };
    let mut machine = Machine::with_code(CODE, &vec![0; length]);
    machine.memory.map(DATA, DATA_SIZE as u64, Rights::RW);
    let mut pair = Pair { cpu, machine, code, data };
    let mut seen = Seen::default();
    for seed in first..first + programs {
        pair.compare(seed, &mut seen);
    }
    println!("{programs} programs from SEED={first} on: {seen:?}");
    if programs < 20 {
        return;
    }
    assert!(seen.instructions > 100 * programs, "{seen:?}");
    assert!(seen.faults < programs / 5, "{seen:?}");
    for often in [seen.taken, seen.calls, seen.returns] {
        assert!(often > programs, "{seen:?}");
    }
    assert!(seen.stores > seen.instructions / 20, "{seen:?}");
}

/// Whether the model executes an instruction without a fault.
fn works(machine: &mut Machine, sample: &Sample, state: &State) -> bool {
    machine.memory.poke(CODE, sample.bytes());
    if !generate::is_for_this_test(machine) {
        return false;
    }
    machine.cpu.r[..16].copy_from_slice(&state.r);
    machine.cpu.v[..16].copy_from_slice(&state.v);
    (machine.cpu.rip, machine.cpu.flags) = (state.rip, state.flags);
    machine.step().is_ok()
}

#[test]
fn random_programs_end_as_without_interrupts() {
    let full = std::env::var_os("QUAVER_TEST_FULL").is_some();
    let programs = number("PROGRAMS").unwrap_or(if full { 4000 } else { 30 });
    let first = number("SEED").unwrap_or(1);
    let length = (PROGRAM - CODE) as usize + PROGRAM_SIZE;
    // The stack below a program's is the interrupts'.
    let mut data = vec![0; DATA_SIZE];
    let own = DATA_SIZE - 4096;
    let mut tried = Machine::with_code(CODE, &vec![0; length]);
    tried.memory.map(DATA, DATA_SIZE as u64, Rights::RW);
    let (mut interrupts, mut injected_again) = (0, 0);
    for seed in first..first + programs {
        let mut random = Random(seed);
        let (mut code, _) = program(&mut random, &mut |sample, state| {
            tried.memory.poke(DATA, &data);
            works(&mut tried, sample, state)
        });
        // exit(0)
        code.extend([0x31, 0xff, 0xb8, 60, 0, 0, 0, 0x0f, 0x05]);
        random.fill(&mut data);
        let state = random.state();
        let load = || {
            let mut machine = Machine::with_code(PROGRAM, &code);
            machine.memory.map(DATA, DATA_SIZE as u64, Rights::RW);
            assert!(machine.memory.poke(DATA, &data));
            machine.cpu.r[..16].copy_from_slice(&state.r);
            machine.cpu.v[..16].copy_from_slice(&state.v);
            machine.cpu.flags = state.flags;
            machine.cpu.r[4] = STACK;
            machine
        };
        let end = |machine: &Machine| {
            let mut bytes = vec![0; own];
            assert!(machine.memory.peek(DATA, &mut bytes));
            (machine.cpu.r[..16].to_vec(), machine.cpu.v[..16].to_vec(), machine.cpu.flags, bytes)
        };
        let mut plain = load();
        let status = plain.run(MOST);
        for mechanism in [Mechanism::Flush, Mechanism::Drain, Mechanism::Tracked] {
            let when = When::Every(1100 + seed % 64);
            let mut core = Core::new(load(), &Config { mechanism, when, ..Config::default() });
            let report = core.run();
            let what = format!("SEED={seed}, {mechanism:?}");
            assert_eq!(
                report.as_ref().map(|report| report.status).ok(),
                status.clone().ok(),
                "{what}"
            );
            let Ok(report) = report else { continue };
            assert!(end(&core.machine) == end(&plain), "{what}: it ends in another way");
            assert_eq!(core.handled(), report.interrupts, "{what}");
            interrupts += report.interrupts;
            injected_again += report.reinjected;
        }
    }
    println!("{interrupts} interrupts, {injected_again} of them injected again");
    assert!(interrupts > 3 * programs && (programs < 20 || injected_again > 0), "{interrupts}");
}
