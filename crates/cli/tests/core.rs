//! `quaver core` as users and scripts call it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn run(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_quaver")).args(["core", "run"]).args(args).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A static program that executes `code`.
fn program(folder: &Path, code: &str) -> PathBuf {
    let (source, program) = (folder.join("program.s"), folder.join("program"));
    fs::write(&source, format!(".globl _start\n_start:\n{code}\n")).unwrap();
    let mut command = Command::new("cc");
    command.args(["-static", "-no-pie", "-nostdlib", "-o"]).arg(&program).arg(&source);
    assert!(command.status().unwrap().success());
    program
}

#[test]
fn a_program_runs_and_is_counted() {
    let folder = tempfile::tempdir().unwrap();
    let code = "mov $60, %eax\nmov $7, %edi\nsyscall";
    let (program, json) = (program(folder.path(), code), folder.path().join("run.json"));
    let output = run(&[program.to_str().unwrap(), "--json", json.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(7), "{}", text(&output.stderr));
    let report: serde_json::Value = serde_json::from_slice(&fs::read(json).unwrap()).unwrap();
    assert_eq!(report["instructions"], 3);
    assert_eq!(report["status"], 7);
    assert_eq!(report["model"], "functional");
}

/// What is said about a program that cannot run to its end.
fn refused(args: &[&str]) -> String {
    let output = run(args);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(output.stdout.is_empty(), "{}", text(&output.stdout));
    assert_eq!(said.lines().count(), 1, "one line, not {said}");
    said
}

/// The same of a program that executes `code`.
fn fails(code: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    refused(&["--limit", "1000", program(folder.path(), code).to_str().unwrap()])
}

#[test]
fn what_stops_a_program_is_named_with_address_and_instruction() {
    let cases = [
        ("nop\nfldpi", "fldpi: the model does not have this instruction"),
        ("vaddps %zmm0, %zmm0, %zmm1", "AVX-512"),
        ("nop\nud2", "ud2: invalid instruction"),
        ("nop\nint3", "int3: breakpoint"),
        ("hlt", "hlt: the model does not have this instruction: a privileged"),
        ("mov $57, %eax\nsyscall", "syscall: system call 57 is not served"),
        ("mov 16, %rax", "mov rax,[10h]: memory fault: it reads 0x10"),
        ("mov %rax, _start(%rip)", "memory fault: it writes 0x401"),
        ("xor %esp, %esp\npush %rax", "push rax: memory fault: it writes 0xffff"),
        ("xor %ecx, %ecx\ndiv %ecx", "div ecx: division by zero"),
        ("sub $8, %rsp\nmovaps 1(%rsp), %xmm0", "general protection"),
        ("mov $0x1234000, %eax\njmp *%rax", "there is no code at 0x1234000"),
        ("senduipi %rax", "senduipi rax: invalid instruction"),
        ("jmp _start", "the program has not ended after 1000 instructions"),
    ];
    for (code, expected) in cases {
        let said = fails(code);
        assert!(said.contains(expected), "{code}: {said}");
        let place = said.split("/program: ").nth(1).expect("the program is named");
        assert!(place.starts_with("0x40") || place.starts_with("0x1234000"), "{said}");
    }
}

#[test]
fn files_that_are_no_programs_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    fs::write(path("script"), "#!/bin/sh\n").unwrap();
    fs::write(path("empty"), "").unwrap();
    let whole = fs::read(program(folder.path(), "nop")).unwrap();
    fs::write(path("half"), &whole[..whole.len() / 3]).unwrap();
    // e_machine: AArch64; e_type: an object file.
    for (name, place, value) in [("arm", 18, 0xb7), ("object", 16, 1)] {
        let mut bytes = whole.clone();
        bytes[place] = value;
        fs::write(path(name), bytes).unwrap();
    }
    let cases = [
        (path("script"), "no 64-bit ELF file"),
        (path("empty"), "no 64-bit ELF file"),
        (path("half"), "not a program for the model"),
        (path("arm"), "x86-64 is needed"),
        (path("object"), "link it, with -static"),
        ("/bin/sh".to_owned(), "link it with -static"),
        (path("missing"), "cannot read"),
        (folder.path().to_str().unwrap().to_owned(), "cannot read"),
    ];
    // The models read a file each in their own way: alone, without and with a run to compare with,
    // and on several cores.
    let ways: [&[&str]; 4] = [
        &[],
        &["--mechanism", "tracked"],
        &["--mechanism", "flush", "--timer", "5us"],
        &["--mechanism", "tracked", "--cores", "2"],
    ];
    for (file, expected) in cases {
        for way in ways {
            let said = refused(&[way, &[&file]].concat());
            assert!(said.contains(expected) && said.contains(&file), "{way:?}: {said}");
        }
    }
}

#[test]
fn what_cannot_be_done_is_said_before_the_program_runs() {
    let folder = tempfile::tempdir().unwrap();
    let endless = program(folder.path(), "jmp _start");
    let endless = endless.to_str().unwrap();
    let said = refused(&[endless, "--json", "/nowhere/at/all.json"]);
    assert!(said.contains("/nowhere/at/all.json"), "{said}");
    let output = run(&[endless, "--mechanism", "tracked", "--timer", "soon"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("5us"), "{}", text(&output.stderr));
    let wrong = folder.path().join("wrong.toml");
    fs::write(&wrong, "frequency = 1").unwrap();
    let wrong = wrong.to_str().unwrap();
    let output = run(&[endless, "--mechanism", "none", "--parameters", wrong]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("missing field"), "{}", text(&output.stderr));
    let said = refused(&["--limit", "1000", "--mechanism", "none", endless]);
    assert!(said.contains("1000 instructions"), "{said}");
}

#[test]
fn interrupts_cost_cycles_on_the_timing_model() {
    let folder = tempfile::tempdir().unwrap();
    let code = "mov $200000, %ecx\n1: imul %eax, %eax\ndec %ecx\njnz 1b\n\
        mov $60, %eax\nmov $7, %edi\nsyscall";
    let program = program(folder.path(), code);
    let (json, view) = (folder.path().join("run.json"), folder.path().join("pipeline.log"));
    let each = |mechanism: &str, source: &str| {
        let output = run(&[
            program.to_str().unwrap(),
            "--mechanism",
            mechanism,
            "--source",
            source,
            "--timer",
            "5us",
            "--json",
            json.to_str().unwrap(),
            "--kanata",
            view.to_str().unwrap(),
            "--cycles",
            "9000..11000",
        ]);
        assert_eq!(output.status.code(), Some(7), "{}", text(&output.stderr));
        let report: serde_json::Value = serde_json::from_slice(&fs::read(&json).unwrap()).unwrap();
        assert_eq!(report["model"], "timing");
        assert_eq!(report["instructions"], 600_004);
        assert!(report["interrupts"].as_u64().unwrap() > 50, "{report}");
        assert!(fs::read_to_string(&view).unwrap().contains("imul"));
        report["cycles_per_interrupt"].as_f64().unwrap()
    };
    let [flush, tracked, timer] =
        [("flush", "uipi"), ("tracked", "uipi"), ("tracked", "kb-timer")].map(|(m, s)| each(m, s));
    // The chain of products hides most of the remote line that UIPI fetches.
    assert!(flush > 1.5 * tracked && tracked > timer, "{flush} {tracked} {timer}");
}

#[test]
fn a_page_shows_the_pipeline_around_an_interrupt() {
    let folder = tempfile::tempdir().unwrap();
    let code = "mov $200000, %ecx\n1: imul %eax, %eax\ndec %ecx\njnz 1b\n\
        mov $60, %eax\nmov $7, %edi\nsyscall";
    let program = program(folder.path(), code);
    let program = program.to_str().unwrap();
    let view = folder.path().join("view.html");
    let words = [program, "--mechanism", "tracked", "--view", view.to_str().unwrap()];
    let said = refused(&words);
    assert!(said.contains("--cycles"), "{said}");
    let output = run(&[&words[..], &["--timer", "5us"]].concat());
    assert_eq!(output.status.code(), Some(7), "{}", text(&output.stderr));
    let page = fs::read_to_string(view).unwrap();
    for part in ["class=\"interrupt\"", "class=\"handler\"", "imul eax,eax", "serialising"] {
        assert!(page.contains(part), "{part}");
    }
    assert!(!page.contains("http"), "it needs nothing else");
}

#[test]
fn threads_run_on_several_cores() {
    let folder = tempfile::tempdir().unwrap();
    // clone; the child moves to core 1 and adds to a word; the parent waits for it.
    let code = "mov $56, %eax\nmov $0x10100, %edi\nlea stack(%rip), %rsi\nsyscall\n\
        test %eax, %eax\njz 2f\n1: cmpl $0, word(%rip)\nje 1b\nmov $231, %eax\nmov $7, %edi\n\
        syscall\n2: mov $203, %eax\nxor %edi, %edi\nmov $8, %esi\nlea mask(%rip), %rdx\nsyscall\n\
        lock incl word(%rip)\nmov $60, %eax\nxor %edi, %edi\nsyscall\n\
        .data\nmask: .quad 2\nword: .quad 0\n.zero 4096\nstack: .quad 0";
    let (program, json) = (program(folder.path(), code), folder.path().join("run.json"));
    let words = [program.to_str().unwrap(), "--mechanism", "tracked", "--cores", "2"];
    let output =
        run(&[&words[..], &["--quantum", "5us", "--json", json.to_str().unwrap()]].concat());
    assert_eq!(output.status.code(), Some(7), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("core 1:"), "{}", text(&output.stderr));
    let report: serde_json::Value = serde_json::from_slice(&fs::read(json).unwrap()).unwrap();
    assert_eq!(
        (&report["model"], &report["cores"][1]["migrations"]),
        (&"system".into(), &1.into())
    );
    let output = run(&[&words[..], &["--timer", "5us"]].concat());
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
}

/// `quaver core` with these words; what it builds is kept in `folder`.
fn core(folder: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quaver"));
    command.arg("core").args(words).env("XDG_CACHE_HOME", folder);
    command
}

#[test]
fn programs_of_the_figures_are_built_as_files() {
    let folder = tempfile::tempdir().unwrap();
    let programs = folder.path().join("programs");
    let words = ["programs", "--quick", programs.to_str().unwrap()];
    let output = core(folder.path(), &words).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let said = text(&output.stdout);
    let names: Vec<&str> = said.lines().filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(names, ["fib", "linpack", "memops", "chase", "base64", "matmul"]);
    assert_eq!(fs::read_dir(&programs).unwrap().count(), 3 * names.len());
    for ending in ["", "-poll", "-safepoint"] {
        let fib = programs.join(format!("fib{ending}"));
        let native = Command::new(&fib).output().unwrap();
        assert_eq!(text(&native.stdout), "fib 17711\n");
        let model = run(&[fib.to_str().unwrap(), "--", "10000"]);
        let said = text(&model.stdout);
        assert!(said.starts_with("fib 17711\nstops "), "{said} {}", text(&model.stderr));
    }
}

#[test]
fn programs_that_cannot_be_built_are_explained() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    let file = file.to_str().unwrap();
    let output = core(folder.path(), &["programs", file]).output().unwrap();
    let said = text(&output.stderr);
    assert!(output.status.code() == Some(1) && said.contains(file), "{said}");
    let programs = folder.path().join("programs");
    let mut command = core(folder.path(), &["programs", programs.to_str().unwrap()]);
    let said = text(&command.env("PATH", "/nowhere").output().unwrap().stderr);
    assert!(said.contains("install gcc 11 or newer"), "{said}");
}

/// The plan of docs/core.md has the answer that stands there: xUI saves the timer core.
#[test]
fn a_plan_says_how_many_cores_xui_saves() {
    let page = fs::read_to_string("../../docs/core.md").unwrap();
    let plan = page.split_once("```toml").and_then(|(_, behind)| behind.split_once("```"));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("xui.toml");
    fs::write(&file, plan.unwrap().0).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_quaver"));
    let output = command.arg("plan").arg(&file).args(["--json", "-"]).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let found: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let each = found["each"].as_array().unwrap();
    let all: Vec<_> = each
        .iter()
        .map(|tried| (tried["mechanism"].as_str().unwrap(), tried["cores"].as_u64().unwrap()))
        .collect();
    let expected =
        [("core-uipi", 8), ("core-tracked", 8), ("core-kb-timer", 7), ("core-kb-timer-renamed", 7)];
    assert_eq!(all, expected);
    assert!(page.contains("8 cores by UIPI and 7 by the KB timer"));
}

#[test]
fn figures_that_do_not_exist_are_explained() {
    let folder = tempfile::tempdir().unwrap();
    for which in ["3", "table1", "x"] {
        let output = core(folder.path(), &["figure", which]).output().unwrap();
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        let expected = format!("no results in a figure {which}; N is 2, 4 to 9, or table2");
        assert!(said.contains(&expected), "{said}");
        assert!(output.stdout.is_empty());
    }
}

/// The rows of a figure, as `--json` has them, by a look.
fn rows(which: &str) -> Vec<serde_json::Value> {
    let folder = tempfile::tempdir().unwrap();
    let output =
        core(folder.path(), &["figure", which, "--quick", "--json", "-"]).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    report["rows"].as_array().unwrap().clone()
}

/// What we have for a point.
fn ours(rows: &[serde_json::Value], point: &str) -> f64 {
    let row = rows.iter().find(|row| row["point"] == *point).expect("it is there");
    row["ours"].as_f64().unwrap()
}

#[test]
fn table_2_and_figure_2_are_near_the_paper() {
    let table = rows("table2");
    for (point, from, to) in [
        ("end-to-end", 900.0, 1500.0),
        ("receiver", 600.0, 760.0),
        ("senduipi", 340.0, 400.0),
        ("clui", 1.8, 2.1),
        ("stui", 31.0, 35.0),
    ] {
        let ours = ours(&table, point);
        assert!((from..to).contains(&ours), "{point}: {ours}");
    }
    let figure = rows("2");
    for (point, from, to) in [
        ("flush", 400.0, 600.0),
        ("delivery-min", 60.0, 300.0),
        ("uiret", 5.0, 40.0),
        ("senduipi-stalled", 279.0, 340.0),
        ("worst case, tracked", 6000.0, 20_000.0),
        ("flushed uops over interrupts, r2", 0.98, 1.000_1),
    ] {
        let ours = ours(&figure, point);
        assert!((from..to).contains(&ours), "{point}: {ours}");
    }
}

#[test]
fn figures_5_and_6_and_8_and_9_say_what_the_paper_says() {
    let five = rows("5");
    let [poll, none, safe] = ["poll/5us", "poll/none", "safepoint/20us"]
        .map(|point| ours(&five, &format!("base64/{point}")));
    assert!(poll > none && none > 5.0 && (0.0..2.0).contains(&safe), "{poll} {none} {safe}");
    let workers = ours(&rows("6"), "workers at 5us");
    assert!((18.0..28.0).contains(&workers), "{workers}");
    let eight = rows("8");
    let share = |point: &str| ours(&eight, &format!("1 cards/{point}"));
    assert!(share("0 %/xui/free") > 99.0 && share("40 %/poll/free") == 0.0);
    for cards in [1, 4, 8] {
        let [packets, free, other] = ["networking", "free", "other"]
            .map(|part| ours(&eight, &format!("{cards} cards/40 %/xui/{part}")));
        assert!((packets + free + other - 100.0).abs() < 1e-6, "{packets} {free} {other}");
        assert!(packets > 5.0 && free > 40.0 && other > 2.0, "{packets} {free} {other}");
    }
    let nine = rows("9");
    let gap = ours(&nine, "20us, interrupts over spinning, at most");
    assert!(gap > 0.05 && gap < 0.2, "{gap}");
    assert!(ours(&nine, "2us, device interrupts, free") > 75.0);
}

#[test]
fn figure_4_has_its_points() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("4.html");
    let words = ["figure", "4", "--quick", "--json", "-", "--html", page.to_str().unwrap()];
    let output = core(folder.path(), &words).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let rows = report["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 27);
    assert_eq!(rows.iter().filter(|row| row["fitted"] == true).count(), 6);
    assert_eq!(fs::read_to_string(page).unwrap().matches("<svg").count(), 3);
    let ours = |program: &str, strategy: &str, interval: u32| {
        let point = format!("{program}/{strategy}/{interval}us");
        let row = rows.iter().find(|row| row["point"] == *point).expect("it is there");
        row["ours"].as_f64().unwrap()
    };
    for program in ["fib", "linpack", "memops"] {
        for interval in [1, 5] {
            let [uipi, tracked, timer] =
                ["uipi", "tracked", "kb-timer"].map(|name| ours(program, name, interval));
            assert!(uipi > 2.0 * tracked, "{program} {interval} us: {uipi} {tracked}");
            assert!(tracked > 1.2 * timer && timer > 0.0, "{program}: {tracked} {timer}");
        }
        assert!(ours(program, "uipi", 1) > 4.0 * ours(program, "uipi", 5));
    }
}
