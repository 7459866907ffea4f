//! Random instructions on random values, here and on this machine's CPU: registers, flags and
//! memory must be equal afterwards, and faults must be of the same kind.
//!
//! `QUAVER_TEST_FULL=1` tests more; `SEED` chooses others.

#![cfg(target_arch = "x86_64")]

mod build;
mod generate;
mod native;

use std::collections::BTreeMap;

use generate::{CODE, DATA, DATA_SIZE, Random, Sample, same_kind, undefined};
use iced_x86::{FastFormatter, Mnemonic};
use native::{Native, State, Step};
use quaver_uarch::cpu::flag;
use quaver_uarch::memory::Rights;
use quaver_uarch::{Error, Fault, Machine};

/// What the model says to an instruction.
fn ours(machine: &mut Machine, state: &State) -> (State, Option<Fault>) {
    machine.cpu.r[..16].copy_from_slice(&state.r);
    machine.cpu.v[..16].copy_from_slice(&state.v);
    (machine.cpu.rip, machine.cpu.flags) = (state.rip, state.flags);
    let fault = match machine.step() {
        Ok(()) => None,
        Err(Error::Fault { fault, .. }) => Some(fault),
        Err(other) => panic!("{other}"),
    };
    let mut after = state.clone();
    after.r.copy_from_slice(&machine.cpu.r[..16]);
    after.v.copy_from_slice(&machine.cpu.v[..16]);
    (after.rip, after.flags) = (machine.cpu.rip, machine.cpu.flags);
    (after, fault)
}

fn describe(sample: &Sample, before: &State, native: &State, ours: &State) -> String {
    let mut text = String::new();
    FastFormatter::new().format(&sample.instruction, &mut text);
    let mut lines = vec![format!("{text}   {:02x?}", sample.bytes())];
    for i in 0..16 {
        let (b, n, o) = (before.r[i], native.r[i], ours.r[i]);
        lines.push(format!(
            "r{i}: {b:#x} -> {n:#x}{}",
            if n == o { "".into() } else { format!(", here {o:#x}") }
        ));
    }
    for i in 0..16 {
        if native.v[i] != ours.v[i] {
            lines.push(format!(
                "v{i}: {:02x?}\n  -> {:02x?}\nhere {:02x?}",
                before.v[i], native.v[i], ours.v[i]
            ));
        }
    }
    lines
        .push(format!("flags: {:#x} -> {:#x}, here {:#x}", before.flags, native.flags, ours.flags));
    lines.push(format!("rip: {:#x} -> {:#x}, here {:#x}", before.rip, native.rip, ours.rip));
    lines.join("\n")
}

#[test]
fn random_instructions_do_what_the_cpu_does() {
    let full = std::env::var_os("QUAVER_TEST_FULL").is_some();
    let count = if full { 10_000_000 } else { 150_000 };
    let seed = std::env::var("SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(1);
    if !is_x86_feature_detected!("avx2") || !is_x86_feature_detected!("bmi2") {
        return build::skipped("this CPU has no AVX2 or BMI2");
    }
    let code = native::share(CODE, 4096).expect("an address of our choice");
    let data = native::share(DATA, DATA_SIZE).expect("an address of our choice");
    let mut cpu = match Native::new() {
        Ok(cpu) => cpu,
        Err(error) => return build::skipped(&error),
    };
    let mut machine = Machine::with_code(CODE, &[0; 4096]);
    machine.memory.map(DATA, DATA_SIZE as u64, Rights::RW);

    let mut random = Random(seed);
    random.fill(data);
    machine.memory.poke(DATA, data);
    let mut state = random.state();
    let (mut seen, mut foreign) =
        (BTreeMap::<Mnemonic, u64>::new(), BTreeMap::<Mnemonic, u64>::new());
    let (mut executed, mut faults) = (0u64, 0u64);
    let mut wrong = BTreeMap::<Mnemonic, String>::new();
    let mut copy = vec![0; DATA_SIZE];
    while executed < count {
        if executed % 64 == 0 {
            state = random.state();
        }
        let Some(sample) = generate::sample(&mut random, &mut state, data) else { continue };
        machine.memory.poke(CODE, sample.bytes());
        if !generate::is_for_this_test(&mut machine) {
            continue;
        }
        code[..sample.bytes().len()].copy_from_slice(sample.bytes());
        machine.memory.poke(DATA, data);
        state.rip = CODE;
        cpu.set(&state).unwrap();
        let mut step = cpu.step().unwrap();
        let repeats = sample.instruction.has_rep_prefix() || sample.instruction.has_repne_prefix();
        while step == Step::Done
            && repeats
            && sample.instruction.is_string_instruction()
            && cpu.state().rip == CODE
        {
            step = cpu.step().unwrap();
        }
        let native = cpu.state();
        let (mut ours, fault) = ours(&mut machine, &state);
        executed += 1;
        let mnemonic = sample.instruction.mnemonic();
        match (step, fault) {
            (Step::Signal(libc::SIGILL), None) => {
                // This CPU lacks it; how many there are is checked below.
                *foreign.entry(mnemonic).or_default() += 1;
                state = random.state();
                continue;
            }
            (Step::Signal(signal), Some(fault)) if same_kind(signal, fault) => {
                faults += 1;
                state = random.state();
                continue;
            }
            (Step::Done, None) => {}
            other => {
                let text = describe(&sample, &state, &native, &ours);
                wrong.entry(mnemonic).or_insert_with(|| format!("{other:?}: {text}"));
                state = random.state();
                continue;
            }
        }
        let mask = (flag::STATUS | flag::DF) & !undefined(&sample.instruction);
        let flags = native.flags & mask == ours.flags & mask;
        ours.flags = native.flags;
        assert!(machine.memory.peek(DATA, &mut copy));
        if ours != native || !flags || copy != *data {
            let place = (0..DATA_SIZE).find(|&i| copy[i] != data[i]);
            let text = describe(&sample, &state, &native, &ours);
            let text = format!("flags equal: {flags}, memory differs at {place:x?}: {text}");
            wrong.entry(mnemonic).or_insert(text);
        }
        *seen.entry(mnemonic).or_default() += 1;
        state = native;
        state.flags = state.flags & (flag::STATUS | flag::DF) | flag::FIXED;
    }
    println!(
        "{executed} instructions, {} mnemonics, {faults} faults of the same kind; \
         this CPU lacks {foreign:?}",
        seen.len()
    );
    for (_, text) in wrong.iter().take(8) {
        println!("\n{text}");
    }
    assert!(
        wrong.is_empty(),
        "seed {seed}: {} of {} mnemonics differ: {:?}",
        wrong.len(),
        seen.len(),
        wrong.keys()
    );
    assert!(foreign.len() < 12, "so many that something else is wrong: {foreign:?}");
    let rare = [
        Mnemonic::Add,
        Mnemonic::Jne,
        Mnemonic::Imul,
        Mnemonic::Paddb,
        Mnemonic::Movsb,
        Mnemonic::Cmpxchg,
    ];
    for mnemonic in rare {
        assert!(seen.contains_key(&mnemonic), "{mnemonic:?} was never tested");
    }
    assert!(seen.len() > 300, "only {} mnemonics", seen.len());
}
