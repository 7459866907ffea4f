//! Compiling, rewriting, linking and running test programs.
#![allow(dead_code, reason = "each test uses a part of it")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use quaver_probes::{Assembler, Options, Rewritten, rewrite, torture};
use tempfile::TempDir;

pub const LEVELS: [&str; 5] = ["-O0", "-O1", "-O2", "-O3", "-Os"];
pub const PROGRAMS: [&str; 4] = ["loops.c", "control.c", "numbers.c", "throws.cpp"];

/// A folder for the files of one test.
pub struct Bench {
    pub folder: TempDir,
}

/// The compilers that are there. Without gcc there is nothing to test.
pub fn compilers() -> Vec<&'static str> {
    let there = |name: &&str| Command::new(name).arg("--version").output().is_ok();
    let found: Vec<_> = ["gcc", "clang"].into_iter().filter(there).collect();
    if !found.contains(&"clang") {
        eprintln!("clang is not there: its output is not tested");
    }
    found
}

pub fn input(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(name)
}

pub fn run(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(
        output.status.success(),
        "{command:?}: {}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    output
}

impl Bench {
    pub fn new() -> Self {
        Bench { folder: tempfile::tempdir().expect("a folder") }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, text).expect("a file");
        path
    }

    /// The text that `compiler` makes of a test program.
    pub fn compile(&self, compiler: &str, options: &[&str], program: &str) -> String {
        let output = self.path("compiled.s");
        let mut command = Command::new(compiler);
        command.args(options).args(["-w", "-S", "-o"]).arg(&output);
        if compiler == "clang" {
            // Text for GNU as.
            command.arg("-fno-integrated-as");
        }
        run(command.arg(input("programs").join(program)));
        // Comments of clang may hold bytes of any kind.
        String::from_utf8_lossy(&fs::read(&output).expect("text")).into_owned()
    }

    pub fn rewrite(&self, text: &str, options: &Options) -> Rewritten {
        let folder = tempfile::tempdir_in(self.folder.path()).expect("a folder");
        rewrite(text, options, &Assembler::default(), folder.path()).expect("rewritten")
    }

    /// The rewritten text, which must differ.
    pub fn probed(&self, text: &str) -> String {
        let rewritten = self.rewrite(text, &Options::default());
        assert_eq!(rewritten.report.left_file, None);
        rewritten.text.expect("probes")
    }

    pub fn object(&self, name: &str, text: &str) -> PathBuf {
        let object = self.path(name);
        let folder = tempfile::tempdir_in(self.folder.path()).expect("a folder");
        Assembler::default().assemble(text, folder.path(), &object).expect("assembled");
        object
    }

    /// The objects of the runtime that scrambles what is dead.
    pub fn torture(&self) -> Vec<PathBuf> {
        self.torture_with(&[])
    }

    pub fn torture_with(&self, options: &[&str]) -> Vec<PathBuf> {
        let compile = |(name, text): (&str, &str)| {
            let source = self.write(name, text);
            let object = self.path(&format!("{name}.o"));
            let mut command = Command::new("gcc");
            command.args(["-O2", "-fPIC"]).args(options);
            run(command.args(["-c", "-o"]).arg(&object).arg(source));
            object
        };
        torture::SOURCES.map(compile).to_vec()
    }

    pub fn link(&self, name: &str, options: &[&str], objects: &[PathBuf]) -> PathBuf {
        let program = self.path(name);
        let mut command = Command::new("g++");
        command.args(options).arg("-o").arg(&program).args(objects);
        run(command.args(["-lpthread", "-lm"]));
        program
    }
}

/// A program, whose profile (`-pg`) is written beside it.
fn program_of(path: &Path) -> Command {
    let mut command = Command::new(path);
    command.env("GMON_OUT_PREFIX", path);
    command
}

/// What a program prints; it must succeed. With the runtime, its probes are not hit.
pub fn printed(program: &Path) -> String {
    let output = run(program_of(program).env("TORTURE_OFF", "1"));
    String::from_utf8(output.stdout).expect("text")
}

/// What a program prints under torture, and how many probes were hit.
pub fn tortured(program: &Path, visit: Option<&str>) -> (String, u64) {
    let mut command = program_of(program);
    if let Some(every) = visit {
        command.env("TORTURE_VISIT", every);
    }
    let output = run(&mut command);
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    let hits = torture::hits(&errors).unwrap_or_else(|| panic!("{errors}"));
    (String::from_utf8(output.stdout).expect("text"), hits)
}
