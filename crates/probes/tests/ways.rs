//! Ways to compile and link that concern the assembler or the thread control block: through the
//! compiler, with quaver-as as its assembler, every probe hit.
//!
//! All of them with `QUAVER_TEST_FULL`; otherwise those that are most unlike each other.

mod common;

use std::path::{Path, PathBuf};
use std::process::Command;

use common::{Bench, PROGRAMS, compilers, input, printed, run, tortured};

const PROGRAM: &str = env!("CARGO_BIN_EXE_quaver-as");

/// Options that each compiler takes; what it does not know it is not asked.
const ALWAYS: [&str; 6] = [
    "-O2 -flto",
    "-O2 -static",
    "-O2 -fPIC -ftls-model=global-dynamic -g",
    "-O2 -mcmodel=large -fno-pie -no-pie",
    "-O3 -march=native -fcf-protection=full",
    "-Os -pipe -fstack-protector-all -pg",
];

/// The others.
const FULL: [&str; 44] = [
    "-O2 -static-pie",
    "-O2 -mcmodel=large -fPIC",
    "-O2 -mcmodel=medium",
    "-O2 -mforce-indirect-call",
    "-O2 -fPIC -ftls-model=local-dynamic",
    "-O2 -fPIC -ftls-model=initial-exec",
    "-O2 -fPIC -fno-plt -mtls-dialect=gnu2",
    "-O2 -fpatchable-function-entry=3,1",
    "-O2 -pg -mfentry",
    "-O2 -finstrument-functions",
    "-O2 -fsanitize=address",
    "-O2 -fsanitize=undefined",
    "-O2 --coverage",
    "-O2 -fstack-clash-protection",
    "-O2 -mindirect-branch=thunk -fcf-protection=none",
    "-O2 -mindirect-branch=thunk-inline -fcf-protection=none",
    "-O2 -mfunction-return=thunk -fcf-protection=none",
    "-O2 -mretpoline",
    "-O2 -fno-jump-tables",
    "-O2 -mno-red-zone",
    "-O2 -fverbose-asm",
    "-O2 -g3 -gdwarf-5",
    "-O2 -gsplit-dwarf",
    "-O2 -gz -g",
    "-O3 -mprefer-vector-width=512 -march=native -funroll-loops",
    "-O2 -mavx2 -mno-vzeroupper",
    "-O2 -fopenmp",
    "-O2 -ftrapv",
    "-O2 -fnon-call-exceptions",
    "-O2 -fcf-protection=full -mmanual-endbr",
    "-Og -g",
    "-O2 -fno-reorder-blocks-and-partition",
    "-O3 -fsel-sched-pipelining -fselective-scheduling2",
    "-O2 -mstackrealign",
    "-O2 -mforce-drap",
    "-O2 -fzero-call-used-regs=all",
    "-O2 -mharden-sls=all",
    "-O2 -ffunction-sections -Wl,--gc-sections",
    "-O2 -falign-loops=64",
    "-O2 -fno-toplevel-reorder",
    "-O2 -mstringop-strategy=rep_8byte",
    "-O2 -fno-ipa-ra",
    "-O2 -Wa,-mbranches-within-32B-boundaries",
    "-O2 -Wa,-msse2avx",
];

/// A compiler that calls quaver-as.
fn hooked(bench: &Bench, compiler: &str) -> Command {
    let folder = bench.path("bin");
    if std::fs::create_dir(&folder).is_ok() {
        std::os::unix::fs::symlink(PROGRAM, folder.join("as")).expect("a link");
    }
    let mut command = Command::new(compiler);
    command.arg(format!("-B{}", folder.display()));
    if compiler.starts_with("clang") {
        command.arg("-fno-integrated-as");
    }
    command.current_dir(bench.folder.path());
    command
}

/// The compiler of the family for the language of `program`.
fn driver(compiler: &str, program: &str) -> String {
    match (compiler, program.ends_with(".cpp")) {
        ("gcc", true) => "g++".into(),
        (name, true) => format!("{name}++"),
        (name, false) => name.into(),
    }
}

fn compare(bench: &Bench, compiler: &str, options: &[&str], program: &str) -> bool {
    let what = format!("{compiler} {options:?} {program}");
    let source = input("programs").join(program);
    let name = driver(compiler, program);
    let plain = bench.path("plain");
    let build = |command: &mut Command, to: &Path, objects: &[PathBuf]| {
        command.args(options).args(["-w", "-o"]).arg(to).arg(&source).args(objects);
        command.args(["-pthread", "-lm"]).output().expect("started")
    };
    let mut command = Command::new(&name);
    if compiler == "clang" {
        command.arg("-fno-integrated-as");
    }
    if !build(&mut command, &plain, &[]).status.success() {
        return false;
    }
    let runtime = if options.iter().any(|option| option.starts_with("-static")) {
        bench.torture_with(&["-DTORTURE_STATIC"])
    } else {
        bench.torture()
    };
    let hit = bench.path("hit");
    let output = build(&mut hooked(bench, &name), &hit, &runtime);
    assert!(output.status.success(), "{what}: {}", String::from_utf8_lossy(&output.stderr));
    let (found, hits) = tortured(&hit, None);
    assert_eq!(found, printed(&plain), "{what}");
    assert!(hits > 100, "{what}: {hits} hits");
    true
}

#[test]
fn options_of_compilers() {
    let bench = Bench::new();
    let full = std::env::var_os("QUAVER_TEST_FULL").is_some();
    let others = FULL.iter().filter(|_| full);
    let mut compared = 0;
    for (at, options) in ALWAYS.iter().chain(others).enumerate() {
        let options: Vec<&str> = options.split(' ').collect();
        for compiler in compilers() {
            // It assembles by itself.
            if compiler == "clang" && options.contains(&"-flto") {
                continue;
            }
            let one = &PROGRAMS[at % PROGRAMS.len()..][..1];
            for program in if full { &PROGRAMS[..] } else { one } {
                compared += usize::from(compare(&bench, compiler, &options, program));
            }
        }
    }
    assert!(compared >= if full { 100 } else { 6 }, "{compared}");
}

/// A library that is opened while the program runs. Its thread-locals are found by a call.
#[test]
fn opened_library() {
    let bench = Bench::new();
    let runtime = bench.torture();
    let main = bench.write(
        "main.c",
        "#include <dlfcn.h>\n#include <stdio.h>\nint main(int n, char **words) {\n\
         void *library = dlopen(words[1], RTLD_NOW);\n\
         if (!library) { puts(dlerror()); return 1; }\n\
         long (*mix)(const long *, int) = dlsym(library, \"mix\");\n\
         int (*depth)(int) = dlsym(library, \"depth\");\n\
         long values[500];\n for (int i = 0; i < 500; i++) values[i] = (long)i * i;\n\
         printf(\"%ld %d\\n\", mix(values, 500), depth(200));\n return dlclose(library);\n}\n",
    );
    for compiler in compilers() {
        let program = bench.path("program");
        let mut command = Command::new(compiler);
        command.args(["-O2", "-o"]).arg(&program).arg(&main).args(&runtime);
        run(command.args(["-ldl", "-lpthread"]));
        let mut results = Vec::new();
        for mut command in [Command::new(compiler), hooked(&bench, compiler)] {
            let library = bench.path("library.so");
            command.args(["-O2", "-w", "-fPIC", "-shared", "-DLIBRARY", "-o"]).arg(&library);
            run(command.arg(input("programs/shared.c")));
            let mut start = Command::new(&program);
            let output = run(start.arg(&library).env("TORTURE_VISIT", "7"));
            let hits = quaver_probes::torture::hits(&String::from_utf8_lossy(&output.stderr));
            results.push((output.stdout, hits.expect("hits")));
        }
        let [(plain, none), (probed, hits)] = &results[..] else { unreachable!() };
        assert_eq!(plain, probed, "{compiler}");
        assert!(*none == 0 && *hits > 100, "{compiler}: {none} {hits}");
    }
}
