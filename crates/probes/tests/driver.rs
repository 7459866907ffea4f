//! `quaver-as` in place of `as`: how compilers call it, and what it does with bad input.

mod common;

use std::fs;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use quaver_probes::note::read;

use common::{Bench, compilers, input, printed, run};

const PROGRAM: &str = env!("CARGO_BIN_EXE_quaver-as");

/// A small function with a loop.
const TEXT: &str = "\t.text\n\t.globl f\n\t.type f, @function\nf:\n\t.cfi_startproc\n\
    \txorl %eax, %eax\n.L2:\n\taddl %edi, %eax\n\tdecl %edi\n\tjne .L2\n\tret\n\
    \t.cfi_endproc\n\t.size f, .-f\n\t.ident \"GCC: (test)\"\n\
    \t.section .note.GNU-stack,\"\",@progbits\n";

fn quaver_as(arguments: &[&str], standard_input: &str) -> Output {
    let mut command = Command::new(PROGRAM);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("started");
    let mut pipe = child.stdin.take().expect("a pipe");
    let _ = pipe.write_all(standard_input.as_bytes());
    drop(pipe);
    child.wait_with_output().expect("ended")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Whether the object holds a probe: `cmpb $0, %fs:0x80`.
fn has_probe(object: &Path) -> bool {
    let bytes = fs::read(object).expect("an object");
    bytes.windows(9).any(|window| window == [0x64, 0x80, 0x3c, 0x25, 0x80, 0, 0, 0, 0])
}

/// A line of the report.
fn report(path: &Path) -> serde_json::Value {
    let text = fs::read_to_string(path).expect("a report");
    serde_json::from_str(text.lines().last().expect("a line")).expect("JSON")
}

#[test]
fn compilers_call_it() {
    let bench = Bench::new();
    symlink(PROGRAM, bench.path("as")).expect("a link");
    let folder = format!("-B{}", bench.folder.path().display());
    let source = input("programs/loops.c");
    let plain = bench.path("plain");
    run(Command::new("gcc").args(["-w", "-O2", "-o"]).arg(&plain).arg(&source));
    let expected = printed(&plain);
    for compiler in compilers() {
        for extra in ["-O2", "-pipe", "-g", "-flto"] {
            let program = bench.path("program");
            let mut command = Command::new(compiler);
            command.args(["-w", "-O2", extra, &folder, "-o"]).arg(&program).arg(&source);
            if compiler == "clang" {
                if extra == "-flto" {
                    continue; // It assembles by itself.
                }
                command.arg("-fno-integrated-as");
            }
            run(&mut command);
            assert!(has_probe(&program), "{compiler} {extra}");
            assert_eq!(printed(&program), expected, "{compiler} {extra}");
        }
    }
}

#[test]
fn inputs_of_all_kinds() {
    let bench = Bench::new();
    let object = bench.path("out.o");
    let out = object.to_str().expect("a path");
    // Standard input.
    assert!(quaver_as(&["--64", "-o", out], TEXT).status.success());
    assert!(has_probe(&object));
    // A response file, in which another option stands.
    let file = bench.write("in.s", TEXT);
    let options = format!("--64 -o '{out}' \"{}\"", file.display());
    let response = format!("@{}", bench.write("options", &options).display());
    fs::remove_file(&object).expect("removed");
    assert!(quaver_as(&[&response], "").status.success());
    assert!(has_probe(&object));
    // Several inputs are one text.
    let (first, second) = TEXT.split_at(TEXT.find("\tdecl").expect("an instruction"));
    let parts = [bench.write("1.s", first), bench.write("2.s", second)];
    let parts = parts.each_ref().map(|path| path.to_str().expect("a path"));
    assert!(quaver_as(&["-o", out, parts[0], parts[1]], "").status.success());
    assert!(has_probe(&object));
    // What it is asked about the assembler, the assembler answers.
    let assembler = bench.path("as");
    symlink(PROGRAM, &assembler).expect("a link");
    let version = run(Command::new(&assembler).arg("--version").stdin(Stdio::null()));
    assert!(text(&version.stdout).contains("GNU assembler"), "{}", text(&version.stdout));
}

#[test]
fn settings() {
    let bench = Bench::new();
    let file = bench.write("in.s", TEXT);
    let file = file.to_str().expect("a path");
    let rewritten = |options: &[&str]| {
        let output = quaver_as(&[&["--rewrite", file], options].concat(), "");
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    let probes = |text: &str| text.matches("cmpb").count();
    let rounds = |text: &str| text.matches("decl").count();
    let standard = rewritten(&[]);
    assert_eq!((probes(&standard), rounds(&standard)), (1, 16));
    let control = rewritten(&["--probes", "off"]);
    assert_eq!((probes(&control), rounds(&control)), (0, 16));
    let safe = rewritten(&["--probes", "safepoints"]);
    assert_eq!((probes(&safe), rounds(&safe)), (0, 16));
    assert_eq!(safe.matches("\t.byte\t0x36\n\tnop\n").count(), 1);
    assert!(!safe.contains("_stub") && !safe.contains("note.quaver"), "{safe}");
    let single = rewritten(&["--replicate=0"]);
    assert_eq!((probes(&single), rounds(&single)), (1, 1));
    let few = rewritten(&["--target", "10"]);
    assert_eq!((probes(&few), rounds(&few)), (1, 4));
    assert_eq!(rewritten(&["--reassemble"]), TEXT);
    let report_path = bench.path("report");
    rewritten(&["--report", report_path.to_str().expect("a path")]);
    let line = report(&report_path);
    assert_eq!((line["loops"].as_u64(), line["probes"].as_u64()), (Some(1), Some(1)));
    assert!(line["rewriting_us"].as_u64().is_some_and(|us| us > 0), "{line}");
    let output = quaver_as(&["--rewrite", file, "--probes", "perhaps"], "");
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("--probes"), "{}", text(&output.stderr));
}

/// Each of these leaves all of the text as it was, and says so.
#[test]
fn texts_that_are_left_alone() {
    let bench = Bench::new();
    let function = "\t.ident \"GCC: (test)\"\n";
    let cases = [
        ("intel", "\t.intel_syntax noprefix\n\tmov eax, 3\n", 2, ".intel_syntax"),
        ("macro", "\t.macro twice\n\tnop\n\t.endm\n\ttwice\n", 2, ".macro"),
        ("preprocessed", "# 1 \"a.S\"\n\tnop\n", 2, "preprocessor"),
        ("again", ".Lqv1_stub:\n\tnop\n", 2, "already"),
    ];
    for (name, body, line, why) in cases {
        let whole = format!("{function}{body}");
        let file = bench.write(&format!("{name}.s"), &whole);
        let file = file.to_str().expect("a path");
        let report_path = bench.path(name);
        let options = ["--rewrite", file, "--verbose", "--report"];
        let output =
            quaver_as(&[&options[..], &[report_path.to_str().expect("a path")]].concat(), "");
        assert!(output.status.success(), "{name}");
        assert_eq!(text(&output.stdout), whole, "{name}");
        let left = &report(&report_path)["left_file"];
        assert_eq!(left["line"].as_u64(), Some(line), "{name}: {left}");
        assert!(left["why"].as_str().is_some_and(|found| found.contains(why)), "{name}: {left}");
        let message = format!("{file}:{line}: ");
        assert!(text(&output.stderr).contains(&message), "{name}: {}", text(&output.stderr));
    }
    // For another machine.
    let narrow = bench.write("narrow.s", &TEXT.replace("%edi", "%ebx"));
    let object = bench.path("narrow.o");
    let object = object.to_str().expect("a path");
    let output = Command::new(PROGRAM)
        .args(["--32", "-o", object, narrow.to_str().expect("a path")])
        .env("QUAVER_PROBES_VERBOSE", "1")
        .output()
        .expect("started");
    assert!(output.status.success() && text(&output.stderr).contains("x86-64: --32"));
    // Written by hand: no compiler is named.
    let hand = bench.write("hand.s", &TEXT.replace("GCC: (test)", "me"));
    let output = quaver_as(&["--rewrite", hand.to_str().expect("a path")], "");
    assert!(!text(&output.stdout).contains("cmpb"));
    let output = quaver_as(&["--rewrite", hand.to_str().expect("a path"), "--trust"], "");
    assert!(text(&output.stdout).contains("cmpb"));
}

/// Each of these leaves one function as it was, and the other gets its probe.
#[test]
fn functions_that_are_left_alone() {
    let bench = Bench::new();
    let cases = [
        ("unknown directive", ".L9:\n\t.surprise 3\n\tdecl %edi\n\tjne .L9\n\tret\n"),
        ("short jump", ".L9:\n\tdecl %ecx\n\tjrcxz .L8\n\tjmp .L9\n.L8:\n\tret\n"),
        ("jump to an address", ".L9:\n\tdecl %edi\n\tjne .L9+0\n\tret\n"),
        ("call of a label", ".L9:\n\tcall .L8\n.L8:\n\tdecl %edi\n\tjne .L9\n\tret\n"),
        (
            "resolver",
            "\t.type h, @gnu_indirect_function\n\t.set h, g\n.L9:\n\tdecl %edi\n\tjne .L9\n\tret\n",
        ),
        ("unknown unwinding", ".L9:\n\t.cfi_window_save\n\tdecl %edi\n\tjne .L9\n\tret\n"),
    ];
    for (name, body) in cases {
        let whole = format!(
            "{TEXT}\t.text\n\t.type g, @function\ng:\n\t.cfi_startproc\n{body}\t.cfi_endproc\n\
             \t.size g, .-g\n"
        );
        let file = bench.write("in.s", &whole);
        let report_path = bench.path(&name.replace(' ', "-"));
        let options = [
            "--rewrite",
            file.to_str().expect("a path"),
            "--report",
            report_path.to_str().expect("a path"),
        ];
        let output = quaver_as(&options, "");
        assert_eq!(text(&output.stdout).matches("cmpb").count(), 1, "{name}");
        let line = report(&report_path);
        assert_eq!(line["left"][0]["function"], "g", "{name}: {line}");
        assert_eq!(line["left"].as_array().map(Vec::len), Some(1), "{name}: {line}");
    }
}

/// An instruction that nobody knows costs no more than a probe beside it.
#[test]
fn unknown_instructions() {
    let bench = Bench::new();
    let whole = TEXT.replace("\tdecl %edi\n", "\t.byte 0x0f, 0x1f, 0x00\n\tdecl %edi\n");
    let file = bench.write("in.s", &whole);
    let output = quaver_as(&["--rewrite", file.to_str().expect("a path")], "");
    let result = text(&output.stdout);
    assert_eq!(result.matches("cmpb").count(), 1);
    assert!(!result.contains("0x00\n\tcmpb"), "{result}");
    // The assembler refuses it: it says so itself.
    let whole = TEXT.replace("\tdecl %edi\n", "\tdecl %edi\n\tfrobnicate %eax\n");
    let object = bench.path("out.o");
    let output = quaver_as(&["-o", object.to_str().expect("a path")], &whole);
    assert!(!output.status.success());
    assert!(text(&output.stderr).contains("frobnicate"), "{}", text(&output.stderr));
}

#[test]
fn a_missing_assembler_is_an_error() {
    let bench = Bench::new();
    let object = bench.path("out.o");
    let out = object.to_str().expect("a path");
    let output = quaver_as(&["--assembler", "/nowhere/as", "-o", out], TEXT);
    assert_eq!(output.status.code(), Some(2));
    let message = text(&output.stderr);
    assert!(message.contains("/nowhere/as") && message.contains("--assembler"), "{message}");
    let output = quaver_as(&["-o", out, "/nowhere/in.s"], "");
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("/nowhere/in.s"), "{}", text(&output.stderr));
}

/// Text with directives of LLVM's goes to clang.
#[test]
fn text_for_llvm() {
    if !compilers().contains(&"clang") {
        return;
    }
    let bench = Bench::new();
    let file = bench.path("loops.s");
    let mut command = Command::new("clang");
    run(command.args(["-w", "-O2", "-S", "-o"]).arg(&file).arg(input("programs/loops.c")));
    assert!(fs::read_to_string(&file).expect("text").contains(".addrsig"));
    let object = bench.path("loops.o");
    let output =
        quaver_as(&["-o", object.to_str().expect("a path"), file.to_str().expect("a path")], "");
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(has_probe(&object));
    assert!(!printed(&bench.link("loops", &[], &[object])).is_empty());
}

#[test]
fn objects_say_what_was_done() {
    let bench = Bench::new();
    let object = bench.path("out.o");
    let out = object.to_str().expect("a path");
    let notes = || read(&fs::read(&object).expect("an object")).expect("ELF");
    assert!(quaver_as(&["-o", out], TEXT).status.success());
    let [note] = notes()[..] else { panic!("{:?}", notes()) };
    assert_eq!((note.functions, note.loops, note.probes), (1, 1, 1));
    assert_eq!((note.instructions, note.replicated, note.copies), (5, 1, 15));
    // Copies of three instructions, and nine of the probe and its stub.
    assert_eq!(note.added_instructions, 15 * 3 + 9);
    assert!((60..300).contains(&note.code_bytes), "{}", note.code_bytes);
    // Nothing to do is something to say; nothing done is not.
    let empty = "\t.text\nf:\tret\n\t.ident \"GCC: (test)\"";
    assert!(quaver_as(&["-o", out], empty).status.success());
    let [note] = notes()[..] else { panic!("{:?}", notes()) };
    assert_eq!((note.probes, note.code_bytes), (0, 1));
    for (options, text) in [("--probes=off", TEXT), ("--reassemble", TEXT), ("--64", "f:\tret\n")] {
        assert!(quaver_as(&[options, "-o", out], text).status.success());
        assert_eq!(notes(), [], "{options}");
    }
}

#[test]
fn linkers_keep_notes() {
    let bench = Bench::new();
    symlink(PROGRAM, bench.path("as")).expect("a link");
    let folder = format!("-B{}", bench.folder.path().display());
    let source = bench.write("a.c", "int f(int n) { while (n % 7) n += 3; return n; }");
    let main = bench.write("b.c", "int f(int); int main(int n, char **v) { return f(n) == 99; }");
    let there = |linker: &&str| Command::new(format!("ld.{linker}")).arg("-v").output().is_ok();
    let linkers: Vec<_> = ["bfd", "gold", "lld", "mold"].into_iter().filter(there).collect();
    assert!(!linkers.is_empty(), "no linker");
    for linker in linkers {
        for extra in [&["-O2"][..], &["-flto"], &["-Wl,--gc-sections", "-s"], &["-shared", "-fPIC"]]
        {
            // gold has no plugin everywhere, and gcc 12 does not know mold.
            let lto = extra == ["-flto"];
            if lto && linker != "bfd" {
                continue;
            }
            let program = bench.path("program");
            let mut command = Command::new("gcc");
            command.args(["-w", "-O2", "-ffunction-sections", &folder]).args(extra);
            command.arg(format!("-fuse-ld={linker}")).arg("-o").arg(&program);
            run(command.args([&source, &main]));
            let notes = read(&fs::read(&program).expect("a program")).expect("ELF");
            assert_eq!(notes.len(), if lto { 1 } else { 2 }, "{linker} {extra:?}: {notes:?}");
            assert!(notes.iter().any(|note| note.probes > 0), "{linker} {extra:?}: {notes:?}");
        }
    }
}
