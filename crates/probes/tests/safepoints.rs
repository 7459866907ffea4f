//! Safepoints in place of probes: a program is rewritten, and runs on the model of a processor that
//! takes interrupts there.

mod common;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use quaver_uarch::Machine;
use quaver_uarch::core::{Config, Core, Mechanism, Report, When};
use quaver_uarch::kernel::Output;

use common::{Bench, compilers, run};

const PROGRAM: &str = env!("CARGO_BIN_EXE_quaver-as");

/// Loops, recursion and a call; its status depends on all of it.
const SOURCE: &str = r#"
static unsigned fib(unsigned n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
static unsigned numbers[512];
__attribute__((noinline)) static unsigned sum(const unsigned *from, unsigned count) {
    unsigned all = 0;
    for (unsigned i = 0; i < count; i++) all += from[i];
    return all;
}
void _start(void) {
    unsigned seed = 7;
    for (unsigned i = 0; i < 512; i++) numbers[i] = seed = seed * 1664525 + 1013904223;
    unsigned all = fib(14);
    for (unsigned i = 0; i < 40; i++) all = all * 31 + sum(numbers, 512 - i);
    __asm__ volatile("syscall" : : "a"(231), "D"(all >> 24) : "memory");
    __builtin_unreachable();
}
"#;

/// Runs it, interrupted each 1000 cycles, at safepoints only. Says the status, too, that it has on
/// this machine.
fn interrupted(program: &Path) -> (Report, i32) {
    let file = fs::read(program).expect("a program");
    let mut machine = Machine::with_program(&file, &["program"]).expect("a program for the model");
    machine.kernel.output = Output::Echo;
    let config = Config {
        mechanism: Mechanism::Tracked,
        when: When::Every(1000),
        safepoints: true,
        ..Config::default()
    };
    let mut core = Core::new(machine, &config);
    let report = core.run().expect("it ends");
    assert_eq!(core.handled(), report.interrupts);
    let native = Command::new(program).status().expect("started").code();
    (report, native.expect("a status"))
}

#[test]
fn rewritten_programs_are_interrupted_at_their_safepoints() {
    let bench = Bench::new();
    symlink(PROGRAM, bench.path("as")).expect("a link");
    let folder = format!("-B{}", bench.folder.path().display());
    let source = bench.write("program.c", SOURCE);
    for compiler in compilers() {
        let build = |how: &str| {
            let program = bench.path(&format!("{compiler}-{how}"));
            let mut command = Command::new(compiler);
            command.args(["-O2", "-static", "-nostdlib", "-ffreestanding", "-fno-stack-protector"]);
            command.env("QUAVER_PROBES", how).args([&folder, "-o"]).arg(&program).arg(&source);
            if compiler == "clang" {
                command.arg("-fno-integrated-as");
            }
            run(&mut command);
            program
        };
        let (safe, native) = interrupted(&build("safepoints"));
        assert_eq!(i32::from(safe.status), native, "{compiler}");
        assert!(safe.interrupts > 10, "{compiler}: {}", safe.interrupts);
        // Without them there is no place.
        let (plain, same) = interrupted(&build("off"));
        assert_eq!((i32::from(plain.status), same, plain.interrupts), (native, native, 0));
    }
}
