//! The timing model: what small programs take, and that timing and interrupts change no results.

mod build;

use quaver_uarch::Machine;
use quaver_uarch::core::{Config, Core, Mechanism, Parameters, Report, Source, When};

/// `mov ecx, n`, the loop's body, `dec ecx; jnz`, exit with status 0.
fn looped(n: u32, body: &[u8]) -> Vec<u8> {
    let mut code = vec![0xb9];
    code.extend(n.to_le_bytes());
    let start = code.len();
    code.extend(body);
    code.extend([0xff, 0xc9, 0x0f, 0x85]);
    let back = start as i32 - (code.len() as i32 + 4);
    code.extend(back.to_le_bytes());
    code.extend([0x31, 0xff, 0xb8, 60, 0, 0, 0, 0x0f, 0x05]);
    code
}

fn run(code: &[u8], config: &Config) -> (Report, Core) {
    let machine = Machine::with_code(0x40_0000, code);
    let mut core = Core::new(machine, config);
    core.retired = Some(Vec::new());
    let report = core.run().unwrap();
    (report, core)
}

/// Cycles of a loop's body, from two lengths, so that begin and end do not count.
fn cycles_of(body: &[u8]) -> f64 {
    let time = |n| run(&looped(n, body), &Config::default()).0.cycles;
    (time(3000) - time(1000)) as f64 / 2000.0
}

#[test]
fn dependent_and_independent_instructions_take_what_they_should() {
    let p = Parameters::default();
    // add rax, rax: one a cycle
    let chain = cycles_of(&[0x48, 0x01, 0xc0].repeat(24));
    assert!((23.9..25.0).contains(&chain), "{chain}");
    // imul rax, rax
    let chain = cycles_of(&[0x48, 0x0f, 0xaf, 0xc0].repeat(10));
    let expected = 10.0 * p.units.multiply.latency as f64;
    assert!((expected - 0.1..expected + 1.0).contains(&chain), "{chain}");
    // A nop of 8 bytes: as many a cycle as fetch has bytes for.
    let long = cycles_of(&[0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0].repeat(20));
    let fetched = 8.0 * 20.0 / p.front.bytes as f64;
    assert!((fetched - 0.1..fetched + 2.0).contains(&long), "{long}");
    // lea to four registers: as many a cycle as there are ports, with the loop's own two
    let body: Vec<u8> = [0x40u8, 0x50, 0x70, 0x78]
        .iter()
        .flat_map(|r| [0x8d, *r, 1])
        .collect::<Vec<u8>>()
        .repeat(10);
    let wide = cycles_of(&body);
    let ports = p.units.alu.ports.len() as f64;
    assert!((40.0 / ports..42.0 / ports + 2.0).contains(&wide), "{wide}");
}

#[test]
fn a_chain_of_loads_takes_the_caches_latency() {
    let p = Parameters::default();
    // mov [rsp], rsp once; then mov rax, [rax] with rax = rsp
    let mut code = vec![0x48, 0x89, 0x24, 0x24, 0x48, 0x89, 0xe0];
    code.extend(looped(1000, &[0x48, 0x8b, 0x00].repeat(8)));
    let long = {
        let mut code = vec![0x48, 0x89, 0x24, 0x24, 0x48, 0x89, 0xe0];
        code.extend(looped(3000, &[0x48, 0x8b, 0x00].repeat(8)));
        code
    };
    let time = |code: &[u8]| run(code, &Config::default()).0.cycles;
    let each = (time(&long) - time(&code)) as f64 / 2000.0 / 8.0;
    let latency = p.memory.data.latency as f64;
    assert!((latency - 0.1..latency + 0.2).contains(&each), "{each}");
}

#[test]
fn a_wrong_branch_costs_what_the_pipeline_is_long() {
    // A branch on a bit of xorshift: rax ^= rax << 13; rax ^= rax >> 7; rax ^= rax << 17.
    let body = |test: u8| {
        let mut body = vec![0x48, 0x89, 0xc2, 0x48, 0xc1, 0xe2, 13, 0x48, 0x31, 0xd0];
        body.extend([0x48, 0x89, 0xc2, 0x48, 0xc1, 0xea, 7, 0x48, 0x31, 0xd0]);
        body.extend([0x48, 0x89, 0xc2, 0x48, 0xc1, 0xe2, 17, 0x48, 0x31, 0xd0]);
        // test al, bit; jz over a nop
        body.extend([0xa8, test, 0x74, 0x01, 0x90]);
        body
    };
    let program = |test: u8| {
        let mut code = vec![0x48, 0xc7, 0xc0, 0x45, 0x23, 0x01, 0x00];
        code.extend(looped(4000, &body(test)));
        run(&code, &Config::default()).0
    };
    let (random, steady) = (program(16), program(0));
    assert!(random.mispredicts > 1500, "{}", random.mispredicts);
    assert!(steady.mispredicts < 20, "{}", steady.mispredicts);
    let each =
        (random.cycles - steady.cycles) as f64 / (random.mispredicts - steady.mispredicts) as f64;
    assert!((14.0..22.0).contains(&each), "{each}");
}

#[test]
fn a_store_is_forwarded_to_a_load() {
    let p = Parameters::default();
    // mov [rsp], rax; mov rax, [rsp]
    let each = cycles_of(&[0x48, 0x89, 0x04, 0x24, 0x48, 0x8b, 0x04, 0x24].repeat(6)) / 6.0;
    let expected = (p.memory.forward + p.units.store_address.latency) as f64;
    assert!((expected - 0.1..expected + 0.5).contains(&each), "{each}");
}

#[test]
fn a_store_that_has_a_part_of_a_load_makes_it_wait() {
    let p = Parameters::default();
    // mov [rsp + at], eax; mov rax, [rsp]
    let each = |at| cycles_of(&[0x89, 0x44, 0x24, at, 0x48, 0x8b, 0x04, 0x24].repeat(6)) / 6.0;
    let waits = p.memory.forward + p.memory.forward_fails + p.units.store_address.latency;
    for at in [0, 4, 6, 0xfe] {
        let each = each(at);
        assert!((waits as f64 - 0.1..waits as f64 + 0.5).contains(&each), "{at}: {each}");
    }
    // Beside it: the load does not depend on the store.
    assert!(each(8) < 2.0, "{}", each(8));
}

/// Calls, returns, loads, stores and branches that depend on data; the status depends on all.
fn small() -> Vec<u8> {
    let mut code = vec![
        0xb9, 9, 0, 0, 0, // mov ecx, 9
        0xb8, 0x35, 0, 0, 0, // mov eax, 0x35
        // top:
        0xe8, 20, 0, 0, 0, // call f
        0x48, 0x89, 0x44, 0xcc, 0x80, // mov [rsp + 8 rcx - 128], rax
        0xa8, 1, // test al, 1
        0x74, 3, // jz +3
        0x48, 0xff, 0xc0, // inc rax
        0xff, 0xc9, // dec ecx
        0x75, 0xeb, // jnz top
    ];
    code.extend([0xeb, 14]); // jmp end
    let f = code.len();
    // f: push rax; imul rax, rax, 7; add rax, [rsp]; pop rdx; xor rax, rdx; ret
    code.extend([0x50, 0x48, 0x6b, 0xc0, 7, 0x48, 0x03, 0x04, 0x24, 0x5a, 0x48, 0x31, 0xd0, 0xc3]);
    code.extend([0x89, 0xc7, 0xb8, 60, 0, 0, 0, 0x0f, 0x05]); // exit(rax)
    // The call's displacement, now that the place of f is known.
    let call = 10;
    code[call + 1..call + 5].copy_from_slice(&((f - call - 5) as i32).to_le_bytes());
    let back = code.iter().position(|&b| b == 0x75).unwrap();
    code[back + 1] = (call as i64 - (back as i64 + 2)) as u8;
    code
}

const ALL: [(Mechanism, Source); 6] = [
    (Mechanism::Flush, Source::Uipi),
    (Mechanism::Flush, Source::KbTimer),
    (Mechanism::Drain, Source::Device),
    (Mechanism::Tracked, Source::Uipi),
    (Mechanism::Tracked, Source::KbTimer),
    (Mechanism::Signal, Source::Device),
];

fn config(mechanism: Mechanism, source: Source, when: When) -> Config {
    Config { mechanism, source, when, ..Config::default() }
}

#[test]
fn an_interrupt_in_each_cycle_leaves_the_program_as_it_is() {
    let code = small();
    let (plain, base) = run(&code, &Config::default());
    let mut machine = Machine::with_code(0x40_0000, &code);
    assert_eq!(machine.run(10_000), Ok(plain.status));
    assert_eq!(machine.instructions(), plain.instructions);
    let mut delivered = 0;
    let both = |way| [(way, false), (way, true)];
    for ((mechanism, source), predicted) in ALL.into_iter().flat_map(both) {
        for cycle in 0..plain.cycles {
            let mut config = config(mechanism, source, When::At(cycle));
            config.parameters.interrupt.targets_predicted = predicted;
            let (report, core) = run(&code, &config);
            let what =
                format!("{mechanism:?} by {source:?} in cycle {cycle}, predicted: {predicted}");
            assert_eq!(report.status, plain.status, "{what}");
            assert_eq!(core.retired, base.retired, "{what}");
            assert_eq!(core.machine.cpu.r[..16], base.machine.cpu.r[..16], "{what}");
            assert_eq!(core.machine.cpu.flags, base.machine.cpu.flags, "{what}");
            assert_eq!(core.handled(), report.interrupts, "{what}");
            assert_eq!(report.handler_instructions, 3 * report.interrupts, "{what}");
            assert!(report.interrupts <= 1, "{what}");
            delivered += report.interrupts;
        }
    }
    assert!(delivered > 2 * plain.cycles, "{delivered} of {} tries", 12 * plain.cycles);
}

#[test]
fn programs_retire_the_same_instructions_under_every_mechanism() {
    let folder = tempfile::tempdir().unwrap();
    for (name, size) in [("fib", "13"), ("linpack", "12"), ("mix", "1")] {
        let source = format!("workloads/{name}.c");
        let size = format!("-DSIZE={size}");
        let options = [build::ALONE, &[&*size]].concat();
        let Some(program) = build::compile(&source, &options, folder.path()) else { return };
        let file = std::fs::read(program).unwrap();
        let load = || Machine::with_program(&file, &[name]).unwrap();
        // The functional core, instruction by instruction.
        let mut machine = load();
        let mut expected = Vec::new();
        while machine.exit_status().is_none() {
            expected.push(machine.cpu.rip);
            machine.step().unwrap();
        }
        let all = [(Mechanism::None, Source::KbTimer)].into_iter().chain(ALL);
        for (mechanism, source) in all {
            let when =
                if mechanism == Mechanism::None { When::ByProgram } else { When::Every(1777) };
            let mut reports = Vec::new();
            for _ in 0..2 {
                let mut core = Core::new(load(), &config(mechanism, source, when));
                core.retired = Some(Vec::new());
                let report = core.run().unwrap();
                let retired = core.retired.take().unwrap();
                let differ = retired.iter().zip(&expected).position(|(a, b)| a != b);
                assert_eq!(differ, None, "{name}, {mechanism:?}");
                assert_eq!(retired.len(), expected.len(), "{name}, {mechanism:?}");
                assert_eq!(core.handled(), report.interrupts);
                assert_eq!(mechanism == Mechanism::None, report.interrupts == 0);
                reports.push(report);
            }
            assert_eq!(reports[0], reports[1], "{name}, {mechanism:?}: not the same twice");
        }
    }
}

#[test]
fn a_squashed_interrupt_is_injected_again() {
    // The branch on random bits of `a_wrong_branch_costs_...`: many are in flight.
    let mut body = vec![0x48, 0x89, 0xc2, 0x48, 0xc1, 0xe2, 13, 0x48, 0x31, 0xd0];
    body.extend([0x48, 0x89, 0xc2, 0x48, 0xc1, 0xea, 7, 0x48, 0x31, 0xd0]);
    body.extend([0x48, 0x89, 0xc2, 0x48, 0xc1, 0xe2, 17, 0x48, 0x31, 0xd0]);
    body.extend([0xa8, 16, 0x74, 0x01, 0x90]);
    let mut code = vec![0x48, 0xc7, 0xc0, 0x45, 0x23, 0x01, 0x00];
    code.extend(looped(4000, &body));
    let (report, core) = run(&code, &config(Mechanism::Tracked, Source::KbTimer, When::Every(500)));
    assert!(report.reinjected > 10, "{}", report.reinjected);
    assert_eq!(core.handled(), report.interrupts);
    let (report, _) = run(&code, &config(Mechanism::Flush, Source::KbTimer, When::Every(1500)));
    assert_eq!(report.reinjected, 0);
    assert!(report.squashed_by_interrupts > 0);
}

#[test]
fn in_safepoint_mode_interrupts_come_before_the_prefix_only() {
    // nop; ss nop; nop in a loop: the prefix is 36.
    let with = looped(3000, &[0x90, 0x36, 0x90, 0x90]);
    let without = looped(3000, &[0x90, 0x2e, 0x90, 0x90]);
    for mechanism in [Mechanism::Tracked, Mechanism::Flush, Mechanism::Drain] {
        let mut asked = config(mechanism, Source::KbTimer, When::Every(1000));
        asked.safepoints = true;
        assert!(run(&with, &asked).0.interrupts > 1, "{mechanism:?}");
        assert_eq!(run(&without, &asked).0.interrupts, 0, "{mechanism:?}");
    }
}

#[test]
fn a_safepoint_is_known_in_the_uop_cache() {
    // A loop that stays in the uop cache once it has been decoded.
    let code = looped(3000, &[0x90, 0x36, 0x90, 0x90]);
    for mechanism in [Mechanism::Tracked, Mechanism::Flush, Mechanism::Drain] {
        let mut asked = config(mechanism, Source::KbTimer, When::Every(1000));
        asked.safepoints = true;
        assert!(run(&code, &asked).0.interrupts > 1, "{mechanism:?}");
        // Without the bit, the loop is never interrupted again.
        asked.parameters.interrupt.safepoint_cached = false;
        assert_eq!(run(&code, &asked).0.interrupts, 0, "{mechanism:?}");
    }
}

/// Round `body` in a loop: sets the KB timer to a period of 900 cycles, and a handler that keeps
/// where each interrupt returns to. R14 and R15 are the handler's.
fn returns_kept(n: u32, body: &[u8]) -> Vec<u8> {
    let mut code = vec![0x48, 0x8d, 0x3d, 0, 0, 0, 0]; // lea rdi, [rip + handler]
    code.extend([0x31, 0xf6, 0xb8, 0xd7, 1, 0, 0, 0x0f, 0x05]); // register it: call 471
    // enable_kb_timer(1)
    code.extend([0xbf, 1, 0, 0, 0, 0xb8, 1, 0, 0x55, 0x78, 0x0f, 0x05]);
    // lea r15, [rsp - 0x10000]; mov eax, 900; mov edx, 1; stui; set_timer; mov rax, a seed
    code.extend([0x4c, 0x8d, 0xbc, 0x24, 0, 0, 0xff, 0xff]);
    code.extend([0xb8, 0x84, 3, 0, 0, 0xba, 1, 0, 0, 0]);
    code.extend([0xf3, 0x0f, 0x01, 0xef, 0x66, 0x0f, 0x01, 0xec]);
    code.extend([0x48, 0xc7, 0xc0, 0x45, 0x23, 0x01, 0x00]);
    code.extend(looped(n, body));
    let handler = code.len() as i32 - 7;
    code[3..7].copy_from_slice(&handler.to_le_bytes());
    // The frame is the vector, the address, flags, RSP: mov r14, [rsp + 8]; mov [r15], r14;
    // add r15, 8; add rsp, 8; uiret
    code.extend([0x4c, 0x8b, 0x74, 0x24, 8, 0x4d, 0x89, 0x37]);
    code.extend([0x49, 0x83, 0xc7, 8, 0x48, 0x83, 0xc4, 8, 0xf3, 0x0f, 0x01, 0xec]);
    code
}

/// Where the interrupts of [`returns_kept`] have returned to.
fn returns(core: &Core) -> Vec<u64> {
    let begin = Machine::with_code(0x40_0000, &[0x90]).cpu.r[4] - 0x1_0000;
    let mut bytes = vec![0; (core.machine.cpu.r[15] - begin) as usize];
    assert!(core.machine.memory.peek(begin, &mut bytes));
    let (words, rest) = bytes.as_chunks();
    assert_eq!(rest, [0u8; 0]);
    words.iter().map(|&word| u64::from_le_bytes(word)).collect()
}

/// Flushing takes longer than the time between two interrupts: the program never gets on, which is
/// an error and no endless run.
#[test]
fn interrupts_that_come_too_fast_are_an_error() {
    let code = looped(1000, &[0x48, 0x01, 0xc0]);
    let config = config(Mechanism::Flush, Source::KbTimer, When::Every(97));
    let error = Core::new(Machine::with_code(0x40_0000, &code), &config).run().unwrap_err();
    assert!(matches!(error, quaver_uarch::Error::Swamped { interrupts: 10_000, .. }), "{error}");
    assert!(error.to_string().contains("let interrupts come less often"));
}

#[test]
fn a_safepoint_on_a_wrong_path_is_none() {
    // Branches on random bits jump over a safepoint most of the time, but it is often fetched on a
    // wrong path. All interrupts must come before it, on the right path: one that was injected on a
    // wrong path waits for the next time that it is there (xUI 4.4).
    let mut body = vec![0x48, 0x89, 0xc2, 0x48, 0xc1, 0xe2, 13, 0x48, 0x31, 0xd0];
    body.extend([0x48, 0x89, 0xc2, 0x48, 0xc1, 0xea, 7, 0x48, 0x31, 0xd0]);
    body.extend([0x48, 0x89, 0xc2, 0x48, 0xc1, 0xe2, 17, 0x48, 0x31, 0xd0]);
    // test al, 0x78; jnz over ss nop; nop
    body.extend([0xa8, 0x78, 0x75, 0x02, 0x36, 0x90, 0x90]);
    let code = returns_kept(6000, &body);
    let safepoint =
        0x40_0000 + code.windows(2).position(|pair| pair == [0x36, 0x90]).unwrap() as u64;
    for mechanism in [Mechanism::Tracked, Mechanism::Flush, Mechanism::Drain] {
        let mut asked = config(mechanism, Source::KbTimer, When::ByProgram);
        let (report, core) = run(&code, &asked);
        let anywhere = returns(&core);
        assert_eq!(anywhere.len() as u64, report.interrupts, "{mechanism:?}");
        assert!(anywhere.iter().any(|&address| address != safepoint), "{mechanism:?}");
        asked.safepoints = true;
        let (report, core) = run(&code, &asked);
        let there = returns(&core);
        assert_eq!(there.len() as u64, report.interrupts, "{mechanism:?}");
        assert!(report.interrupts > 10, "{mechanism:?}: {report:?}");
        assert_eq!(report.reinjected > 0, mechanism == Mechanism::Tracked, "{report:?}");
        let elsewhere = there.iter().find(|&&address| address != safepoint);
        assert_eq!(elsewhere, None, "{mechanism:?}: the safepoint is at {safepoint:#x}");
    }
}

/// A loop that is interrupted, with changed parameters: its report.
fn interrupted(body: &[u8], change: fn(&mut Parameters)) -> Report {
    let mut config = config(Mechanism::Tracked, Source::KbTimer, When::Every(1000));
    change(&mut config.parameters);
    run(&looped(20_000, body), &config).0
}

#[test]
fn an_interrupt_disturbs_a_branch_that_history_predicts() {
    // inc eax; cmp eax, 7; jne +2; xor eax, eax: one in seven is not taken.
    let pattern = [0xff, 0xc0, 0x83, 0xf8, 7, 0x75, 2, 0x31, 0xc0];
    let run = |loops, in_history| {
        let mut config = config(Mechanism::Tracked, Source::KbTimer, When::Every(1000));
        config.parameters.predictor.loops = loops;
        config.parameters.interrupt.in_history = in_history;
        run(&looped(20_000, &pattern), &config).0
    };
    let (with, without) = (run(0, true), run(0, false));
    assert!(with.interrupts > 30, "{}", with.interrupts);
    let more = with.mispredicts.saturating_sub(without.mispredicts);
    assert!(more > with.interrupts / 4, "{} and {}", with.mispredicts, without.mispredicts);
    // It is one that ends every seventh time, too: who counts these needs no history.
    let counted = run(64, true).mispredicts;
    assert!(counted < without.mispredicts + more / 4, "{counted} and {}", without.mispredicts);
}

#[test]
fn an_interrupt_whose_targets_are_predicted_costs_little() {
    let body = [0x48, 0x01, 0xc0].repeat(8);
    let alone = run(&looped(20_000, &body), &Config::default()).0.cycles;
    let cost = |change| {
        let report = interrupted(&body, change);
        assert!(report.interrupts > 100, "{}", report.interrupts);
        (report.cycles - alone) as f64 / report.interrupts as f64
    };
    let shipped = cost(|_| {});
    let renamed = cost(|p| p.interrupt.flag_renamed = true);
    let predicted = cost(|p| {
        p.interrupt.flag_renamed = true;
        p.interrupt.targets_predicted = true;
    });
    assert!(
        renamed < shipped - 10.0 && predicted < 0.7 * renamed,
        "{shipped} {renamed} {predicted}"
    );
}

#[test]
fn the_clock_runs_at_the_frequency() {
    // lea rsi, [rsp - 64]; mov edi, 1; mov eax, 228 (clock_gettime); syscall; at about cycle 50,000
    let mut code = vec![0xb9, 0x50, 0xc3, 0, 0, 0xff, 0xc9, 0x75, 0xfc];
    code.extend([0x48, 0x8d, 0x74, 0x24, 0xc0, 0xbf, 1, 0, 0, 0, 0xb8, 228, 0, 0, 0, 0x0f, 0x05]);
    code.extend([0x31, 0xff, 0xb8, 60, 0, 0, 0, 0x0f, 0x05]);
    let read = |frequency| {
        let mut asked = Config::default();
        asked.parameters.frequency = frequency;
        let (report, core) = run(&code, &asked);
        let mut word = [0; 16];
        assert!(core.machine.memory.peek(core.machine.cpu.r[6], &mut word));
        let seconds = u64::from_le_bytes(word[..8].try_into().unwrap());
        (report.cycles, seconds, u64::from_le_bytes(word[8..].try_into().unwrap()))
    };
    let (cycles, seconds, at_one) = read(1_000_000_000);
    assert!(cycles > 50_000 && seconds == 0 && (cycles - 500..cycles).contains(&at_one));
    assert_eq!(read(2_000_000_000), (cycles, 0, at_one / 2));
    assert_eq!(read(1000), (cycles, at_one / 1000, at_one % 1000 * 1_000_000));
}

#[test]
fn the_pipeline_can_be_looked_at() {
    let machine = Machine::with_code(0x40_0000, &looped(300, &[0x48, 0x01, 0xc0].repeat(8)));
    let mut core = Core::new(machine, &config(Mechanism::Tracked, Source::KbTimer, When::At(500)));
    core.watch(400..700);
    core.run().unwrap();
    let text = core.pipeline();
    assert!(text.starts_with("Kanata\t0004\nC=\t"), "{}", &text[..40]);
    for part in ["add rax,rax", "interrupt", "\tRn\n", "\tEx\n", "\tCm\n", "R\t"] {
        assert!(text.contains(part), "{part}");
    }
}
