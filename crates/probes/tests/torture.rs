//! Programs in which every probe hits, and the runtime overwrites all that the stub says is dead:
//! they must print what the plain programs print. Their text that has only passed through the
//! parser assembles to the same object.

mod common;

use std::path::PathBuf;
use std::process::Command;

use common::{Bench, LEVELS, PROGRAMS, compilers, input, printed, run, tortured};
use quaver_probes::check::open_cycles;
use quaver_probes::plan::Rules;
use quaver_probes::{Assembler, Options, reassemble};

/// Compiles `program` in all ways, and compares.
fn torture(program: &str) {
    let bench = Bench::new();
    let runtime = bench.torture();
    for compiler in compilers() {
        for level in LEVELS {
            let debug = if level == "-O2" { "-g" } else { "-g0" };
            let text = bench.compile(compiler, &[level, debug], program);
            let what = format!("{compiler} {level} {program}");
            one(&bench, &runtime, &text, &what);
        }
    }
}

fn one(bench: &Bench, runtime: &[PathBuf], text: &str, what: &str) {
    let rewritten = bench.rewrite(text, &Options::default());
    let report = &rewritten.report;
    assert_eq!(report.left_file, None, "{what}");
    // clang does not mark what the program itself wrote.
    let outside = ["outside", "toplevel"];
    let left = report.left.iter().filter(|left| !outside.contains(&&*left.function));
    let left: Vec<_> = left.collect();
    assert!(left.is_empty(), "{what}: {left:?}");
    let probed = rewritten.text.expect("probes");
    let open = open_cycles(&probed, &Assembler::default(), bench.folder.path()).expect("checked");
    assert_eq!(open, [], "{what}");

    let object = bench.object("plain.o", text);
    let again = bench.object("again.o", &reassemble(text).expect("understood"));
    let read = |path| std::fs::read(path).expect("an object");
    assert!(read(&object) == read(&again), "{what}: the same text, another object");
    let plain = bench.link("plain", &[], &[object]);
    let mut objects = vec![bench.object("probed.o", &probed)];
    objects.extend_from_slice(runtime);
    let hit = bench.link("hit", &[], &objects);
    let expected = printed(&plain);
    assert_eq!(printed(&hit), expected, "{what}: probes that are not hit");
    let (found, hits) = tortured(&hit, None);
    assert_eq!(found, expected, "{what}: probes that are hit");
    assert!(hits > 100, "{what}: {hits} hits");
    // Unwinds from some of the stubs.
    let (found, _) = tortured(&hit, Some("7"));
    assert_eq!(found, expected, "{what}: probes that unwind");
}

#[test]
fn loops() {
    torture("loops.c");
}

#[test]
fn control() {
    torture("control.c");
}

#[test]
fn numbers() {
    torture("numbers.c");
}

#[test]
fn inline_assembly() {
    torture("inline.c");
}

#[test]
fn conventions() {
    torture("conventions.c");
}

#[test]
fn throws() {
    torture("throws.cpp");
}

/// Other ways to compile: position-independent or not, tracked branches, no unwinding
/// information, frame pointers, wide vectors, sections of their own.
#[test]
fn ways_to_compile() {
    let bench = Bench::new();
    let runtime = bench.torture();
    let ways: [(&str, &[&str]); 8] = [
        ("loops.c", &["-O2", "-mcmodel=large"]),
        ("control.c", &["-O2", "-mcmodel=large", "-fPIC"]),
        ("control.c", &["-O2", "-fPIC"]),
        ("loops.c", &["-O2", "-fcf-protection=full", "-fno-plt"]),
        ("loops.c", &["-O2", "-fno-asynchronous-unwind-tables", "-fno-exceptions"]),
        ("control.c", &["-O2", "-fno-omit-frame-pointer", "-ffunction-sections"]),
        ("numbers.c", &["-O3", "-march=native", "-funroll-loops"]),
        ("control.c", &["-O2", "-g", "-fno-pie"]),
    ];
    for (program, way) in ways {
        for compiler in compilers() {
            let text = bench.compile(compiler, way, program);
            let what = format!("{compiler} {way:?} {program}");
            if way.contains(&"-fno-exceptions") {
                without_unwinding(&bench, &runtime, &text, &what);
            } else {
                one_linked(&bench, &runtime, &text, &what, way.contains(&"-fno-pie"));
            }
        }
    }
}

fn one_linked(bench: &Bench, runtime: &[PathBuf], text: &str, what: &str, fixed: bool) {
    let options: &[&str] = if fixed { &["-no-pie"] } else { &[] };
    let plain = bench.link("plain", options, &[bench.object("plain.o", text)]);
    let mut objects = vec![bench.object("probed.o", &bench.probed(text))];
    objects.extend_from_slice(runtime);
    let hit = bench.link("hit", options, &objects);
    let (found, hits) = tortured(&hit, Some("5"));
    assert_eq!(found, printed(&plain), "{what}");
    assert!(hits > 100, "{what}: {hits} hits");
}

fn without_unwinding(bench: &Bench, runtime: &[PathBuf], text: &str, what: &str) {
    assert!(!text.contains(".cfi_startproc"), "{what}");
    let probed = bench.probed(text);
    assert!(!probed.contains(".cfi_"), "{what}");
    let mut objects = vec![bench.object("probed.o", &probed)];
    objects.extend_from_slice(runtime);
    let plain = bench.link("plain", &[], &[bench.object("plain.o", text)]);
    let (found, _) = tortured(&bench.link("hit", &[], &objects), None);
    assert_eq!(found, printed(&plain), "{what}");
}

/// Replication alone, and probes alone.
#[test]
fn controls() {
    let bench = Bench::new();
    let runtime = bench.torture();
    for compiler in compilers() {
        for program in PROGRAMS {
            let text = bench.compile(compiler, &["-O2"], program);
            let expected = printed(&bench.link("plain", &[], &[bench.object("plain.o", &text)]));
            let rules = Rules { probes: false, ..Rules::default() };
            let copied = bench.rewrite(&text, &Options { rules, ..Options::default() });
            assert_eq!(copied.report.probes, 0);
            assert!(copied.report.replicated > 0);
            let copied = bench.object("copied.o", &copied.text.expect("copies"));
            assert_eq!(printed(&bench.link("copied", &[], &[copied])), expected);

            let rules = Rules { copies: 0, ..Rules::default() };
            let single = bench.rewrite(&text, &Options { rules, ..Options::default() });
            assert_eq!(single.report.replicated, 0);
            let mut objects = vec![bench.object("single.o", &single.text.expect("probes"))];
            objects.extend_from_slice(&runtime);
            assert_eq!(tortured(&bench.link("hit", &[], &objects), None).0, expected);
        }
    }
}

/// The torture notices masks and classes that say too little.
#[test]
fn torture_notices_wrong_stubs() {
    let bench = Bench::new();
    let runtime = bench.torture();
    let fails = |text: String| {
        let mut objects = vec![bench.object("wrong.o", &text)];
        objects.extend_from_slice(&runtime);
        let program = bench.link("wrong", &[], &objects);
        let output = Command::new(program).output().expect("started");
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    for (program, from, to) in
        [("loops.c", "\tpushq\t$", "61496 #"), ("numbers.c", "%fs:1", "36 #")]
    {
        let text = bench.compile("gcc", &["-O2"], program);
        let plain = printed(&bench.link("plain", &[], &[bench.object("plain.o", &text)]));
        let probed = bench.probed(&text);
        let at_calls = |line: &str| match (line.split_once(from), line.contains("call\t*%fs:")) {
            (Some((before, _)), call) if call == (program == "numbers.c") => {
                format!("{before}{from}{to}")
            }
            _ => line.to_owned(),
        };
        let wrong: Vec<String> = probed.lines().map(at_calls).collect();
        assert_ne!(fails(wrong.join("\n") + "\n"), (Some(0), plain), "{program}");
    }
}

/// A shared library with probes, under a plain program.
#[test]
fn shared_library() {
    let bench = Bench::new();
    let runtime = bench.torture();
    for compiler in compilers() {
        let text = bench.compile(compiler, &["-O2", "-fPIC", "-DLIBRARY"], "shared.c");
        let main = bench.compile(compiler, &["-O2"], "shared.c");
        let main = bench.object("main.o", &main);
        let mut results = Vec::new();
        for text in [&text, &bench.probed(&text)] {
            let library = bench.object("library.o", text);
            let library = bench.link("libshared.so", &["-shared"], &[library]);
            let mut objects = vec![main.clone(), library];
            objects.extend_from_slice(&runtime);
            let folder = format!("-Wl,-rpath,{}", bench.folder.path().display());
            results.push(tortured(&bench.link("program", &[&folder], &objects), Some("3")));
        }
        let [(plain, none), (probed, hits)] = &results[..] else { unreachable!() };
        assert_eq!(plain, probed);
        assert!(*none == 0 && *hits > 100, "{none} {hits}");
    }
}

/// Rust's core, as it comes with rustc.
fn core_library() -> PathBuf {
    let folder = run(Command::new("rustc").args(["--print", "target-libdir"])).stdout;
    let folder = PathBuf::from(String::from_utf8(folder).expect("a path").trim());
    let mut files = std::fs::read_dir(folder).expect("a folder").flatten().map(|file| file.path());
    let is_core = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.starts_with("libcore-") && name.ends_with(".rlib")
    };
    files.find(is_core).expect("libcore")
}

/// What rustc makes. `main` and the text of the program are in C.
#[test]
fn rust() {
    let bench = Bench::new();
    let runtime = bench.torture();
    let main = bench.object("main.o", &bench.compile("gcc", &["-O2"], "kernels.c"));
    let core = core_library();
    let text = bench.path("kernels.s");
    for level in ["0", "1", "2", "3", "s"] {
        let mut command = Command::new("rustc");
        command.args(["--edition=2024", "--emit=asm", "-Cpanic=abort", "-Ccodegen-units=1"]);
        command.args([&format!("-Copt-level={level}"), "-Coverflow-checks=off", "-o"]).arg(&text);
        run(command.arg(input("programs/kernels.rs")));
        let text = std::fs::read_to_string(&text).expect("text");
        let probed = bench.probed(&text);
        let checked = open_cycles(&probed, &Assembler::default(), bench.folder.path());
        assert_eq!(checked.expect("checked"), [], "rustc {level}");
        let collect = ["-Wl,--gc-sections"];
        let plain = [main.clone(), bench.object("plain.o", &text), core.clone()];
        let plain = bench.link("plain", &collect, &plain);
        let mut objects = vec![main.clone(), bench.object("probed.o", &probed)];
        objects.extend_from_slice(&runtime);
        objects.push(core.clone());
        let (found, hits) = tortured(&bench.link("hit", &collect, &objects), Some("11"));
        assert_eq!(found, printed(&plain), "rustc {level}");
        assert!(hits > 100, "rustc {level}: {hits} hits");
    }
}
