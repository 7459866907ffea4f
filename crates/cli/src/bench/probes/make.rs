//! Building the programs: each with every compiler, as the compiler makes it and by way of
//! `quaver-as`.
//!
//! A compiler is whatever turns a source into an object. rustc writes its text, which is assembled
//! as `cargo quaver` does it; the standard library stays plain.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use quaver_probes::abi::{COUNTDOWN, ENTRIES, WORD};
use quaver_probes::rustc::for_gnu;

use super::programs::{self, EMPTY, HOST, PAIR, Program, REAL, RUST};
use super::real::{self, Real};
use crate::cc;
use crate::companion::ASSEMBLER;
use crate::run::program;

/// Lines are the same with all compilers under these (bench/programs/README.md).
const FLAGS: [&str; 5] = ["-std=c11", "-O2", "-ffp-contract=off", "-Wall", "-c"];
const FLAGS_OF_RUST: [&str; 5] =
    ["--edition=2024", "-Copt-level=3", "-Ccodegen-units=1", "-Crelocation-model=pic", "-o"];

/// What is done to the compiler's assembly.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Assembly {
    /// Nothing.
    Plain,
    /// Loops are replicated as for probes, and have none.
    Control,
    /// Probes are inserted, as by `quaver cc`.
    Probes,
    /// Probes, with other settings: how many copies of a loop at most, how many instructions a
    /// probe should serve, whether functions have one at their entries.
    Placed { copies: usize, target: usize, entries: bool },
}

impl Assembly {
    /// Tells `quaver-as`.
    fn set(self, command: &mut Command) {
        match self {
            Assembly::Plain | Assembly::Probes => {}
            Assembly::Control => _ = command.env("QUAVER_PROBES", "off"),
            Assembly::Placed { copies, target, entries } => {
                command.env("QUAVER_PROBES_REPLICATE", copies.to_string());
                command.env("QUAVER_PROBES_TARGET", target.to_string());
                command.env("QUAVER_PROBES_ENTRIES", if entries { "1" } else { "0" });
            }
        }
    }
}

/// A compiler that was found.
#[derive(Clone, Debug)]
pub struct Compiler {
    /// As it is called.
    pub name: String,
    path: PathBuf,
    kind: Kind,
    /// Compiles what is linked around the program, and links.
    cc: PathBuf,
}

/// How a compiler is asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Gcc,
    Clang,
    Rustc,
}

/// Where everything is built.
#[derive(Clone, Debug)]
pub struct Workshop {
    folder: PathBuf,
    /// By how many bytes code is moved in each executable of a build.
    shifts: Vec<usize>,
}

/// One build, linked once for each placement of its code.
///
/// The same loop takes up to 1.5 times as long when it lies 16 bytes further on, and whatever makes
/// a function longer moves all that follow. So a build is the sum of four, whose code lies at all
/// distances from a cache line that compilers' alignment allows.
pub type Placements = Vec<PathBuf>;

/// Compilers align functions and loops to 16 bytes, a line of the cache has 64.
const SHIFTS: [usize; 4] = [0, 16, 32, 48];

/// A program as one compiler makes it.
#[derive(Clone, Debug)]
pub struct Built {
    /// Executables.
    pub plain: Placements,
    pub control: Placements,
    pub probes: Placements,
    /// With probes, as two libraries: in C.
    pub pair: Option<[PathBuf; 2]>,
}

impl Compiler {
    /// Looks in the search path.
    pub fn find(name: &str) -> anyhow::Result<Compiler> {
        let path = program::find(OsStr::new(name))?;
        let (kind, cc) = if name.starts_with("rustc") {
            (Kind::Rustc, program::find(OsStr::new("cc"))?)
        } else {
            let kind = if cc::is_clang(&path)? { Kind::Clang } else { Kind::Gcc };
            (kind, path.clone())
        };
        Ok(Compiler { name: name.to_owned(), path, kind, cc })
    }

    /// Whether it compiles `program`.
    pub fn takes(&self, program: &Program) -> bool {
        if self.kind == Kind::Rustc { program.rust.is_some() } else { program.c.is_some() }
    }

    fn run(&self, prepare: impl FnOnce(&mut Command)) -> anyhow::Result<()> {
        self.start(&self.path, prepare)
    }

    fn cc(&self, prepare: impl FnOnce(&mut Command)) -> anyhow::Result<()> {
        self.start(&self.cc, prepare)
    }

    fn start(&self, path: &Path, prepare: impl FnOnce(&mut Command)) -> anyhow::Result<()> {
        let mut command = Command::new(path);
        // Settings of quaver-as come from here only.
        for (name, _) in std::env::vars_os() {
            if name.as_encoded_bytes().starts_with(b"QUAVER_PROBES") {
                command.env_remove(name);
            }
        }
        prepare(&mut command);
        let output = command.stdin(Stdio::null()).output();
        let output = output.with_context(|| format!("cannot start {}", path.display()))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            let line = said.lines().find(|line| line.contains("error")).or(said.lines().last());
            bail!("{} fails: {}", self.name, line.unwrap_or_default());
        }
        Ok(())
    }
}

impl Workshop {
    /// Puts the sources and the assembler into `folder`. `placements`: whether to link each build
    /// several times.
    ///
    /// # Errors
    ///
    /// There is no `quaver-as`, or no room.
    pub fn open(folder: &Path, placements: bool) -> anyhow::Result<Workshop> {
        let assembler = ASSEMBLER.find()?;
        programs::write(folder)?;
        let shifts = SHIFTS[..if placements { SHIFTS.len() } else { 1 }].to_owned();
        let workshop = Workshop { folder: folder.to_owned(), shifts };
        let tools = workshop.tools();
        fs::create_dir(&tools).with_context(|| format!("cannot make {}", tools.display()))?;
        symlink(assembler, tools.join("as")).context("cannot link to quaver-as")?;
        Ok(workshop)
    }

    /// How many executables a build has.
    pub fn placements(&self) -> usize {
        self.shifts.len()
    }

    /// What all programs of `compiler` are linked with.
    pub fn prepare(&self, compiler: &Compiler) -> anyhow::Result<()> {
        for &shift in &self.shifts {
            // Linkers put this section before the others that have code of programs.
            let text = format!(
                "\t.section .text.startup,\"ax\",@progbits\n\t.balign 16\n\
                 \t.rept {shift}\n\tnop\n\t.endr\n\
                 \t.section .note.GNU-stack,\"\",@progbits\n"
            );
            let source = self.folder.join(format!("shift-{}-{shift}.s", compiler.name));
            fs::write(&source, text)
                .with_context(|| format!("cannot write {}", source.display()))?;
            compiler.cc(|command| {
                command.args(["-c", "-o"]).arg(self.shift(compiler, shift)).arg(&source);
            })?;
        }
        if compiler.kind == Kind::Rustc {
            compiler.run(|command| {
                command.arg("--crate-type=staticlib").args(FLAGS_OF_RUST);
                command.arg(self.standard(compiler)).arg(self.folder.join(RUST).join(EMPTY));
            })?;
        }
        compiler.cc(|command| {
            for (name, at) in [("WORD", WORD), ("COUNTDOWN", COUNTDOWN), ("ENTRIES", ENTRIES)] {
                command.arg(format!("-D{name}={at}"));
            }
            command.args(["-std=gnu11", "-O2", "-c", "-o"]).arg(self.host(compiler));
            command.arg(self.folder.join(HOST));
        })
    }

    /// The program that runs a pair, built by `compiler`.
    pub fn pair(&self, compiler: &Compiler) -> anyhow::Result<PathBuf> {
        let pair = self.folder.join("pair");
        compiler.cc(|command| {
            command.args(["-std=gnu11", "-O2", "-o"]).arg(&pair).arg(self.folder.join(PAIR));
            command.args(["-ldl", "-lpthread"]);
        })?;
        Ok(pair)
    }

    /// Builds a program in all ways.
    pub fn build(&self, compiler: &Compiler, program: &Program) -> anyhow::Result<Built> {
        let build = |what, assembly| self.executable(compiler, program, what, assembly);
        Ok(Built {
            plain: build("plain", Assembly::Plain)?,
            control: build("control", Assembly::Control)?,
            probes: build("probes", Assembly::Probes)?,
            // Two standard libraries of Rust in a process would be something else.
            pair: if compiler.kind == Kind::Rustc || program.real.is_some() {
                None
            } else {
                Some(self.libraries(compiler, program)?)
            },
        })
    }

    /// Builds executables, `what` being a part of their names.
    pub fn executable(
        &self,
        compiler: &Compiler,
        program: &Program,
        what: &str,
        assembly: Assembly,
    ) -> anyhow::Result<Placements> {
        let object = self.object(compiler, program, what, assembly, &[])?;
        let link = |&shift: &usize| {
            let executable = object.with_extension(shift.to_string());
            compiler.cc(|command| {
                command.arg("-o").arg(&executable).arg(self.shift(compiler, shift));
                command.arg(&object).arg(self.host(compiler));
                if compiler.kind == Kind::Rustc {
                    command.arg(self.standard(compiler));
                }
                command.args(["-Wl,--wrap=main", "-lm", "-lpthread"]);
            })?;
            Ok(executable)
        };
        self.shifts.iter().map(link).collect()
    }

    fn libraries(&self, compiler: &Compiler, program: &Program) -> anyhow::Result<[PathBuf; 2]> {
        let object = self.object(compiler, program, "shared", Assembly::Probes, &["-fPIC"])?;
        let pair = ["1.so", "2.so"].map(|ending| object.with_extension(ending));
        compiler.cc(|command| {
            command.args(["-shared", "-o"]).arg(&pair[0]).arg(&object).arg("-lm");
        })?;
        fs::copy(&pair[0], &pair[1]).context("cannot copy a library")?;
        Ok(pair)
    }

    fn object(
        &self,
        compiler: &Compiler,
        program: &Program,
        what: &str,
        assembly: Assembly,
        more: &[&str],
    ) -> anyhow::Result<PathBuf> {
        let object = self.folder.join(format!("{}-{}-{what}.o", program.name, compiler.name));
        let done = match compiler.kind {
            Kind::Rustc => self.object_of_rust(compiler, program, assembly, &object),
            Kind::Gcc | Kind::Clang => self.object_of_c(compiler, program, assembly, &object, more),
        };
        done.with_context(|| format!("{} by {}", program.name, compiler.name))?;
        Ok(object)
    }

    fn object_of_c(
        &self,
        compiler: &Compiler,
        program: &Program,
        assembly: Assembly,
        object: &Path,
        more: &[&str],
    ) -> anyhow::Result<()> {
        let own = self.folder.join(format!("{}.c", program.name));
        let compile = |source: &Path, object: &Path, options: &dyn Fn(&mut Command)| {
            compiler.run(|command| {
                if assembly != Assembly::Plain {
                    command.arg("-B").arg(self.tools());
                }
                if assembly != Assembly::Plain && compiler.kind == Kind::Clang {
                    command.args(cc::CLANG);
                }
                assembly.set(command);
                command.args(FLAGS).args(more);
                options(command);
                command.arg("-o").arg(object).arg(source);
            })
        };
        let Some(Real::Sources(real)) = program.real else {
            return compile(&own, object, &|_| {});
        };
        let root = real.root()?;
        let mut sources = real.files()?;
        sources.push(own);
        let mut parts = Vec::new();
        for (number, source) in sources.iter().enumerate() {
            let part = object.with_extension(format!("{number}.o"));
            compile(source, &part, &|command| {
                command.args(["-std=gnu11", "-w", "-I"]).arg(&root).args(real.options());
            })?;
            parts.push(part);
        }
        compiler.run(|command| {
            command.args(["-r", "-nostdlib", "-o"]).arg(object).args(&parts);
        })
    }

    /// Both the plain object and the others from one text and by one assembler.
    fn object_of_rust(
        &self,
        compiler: &Compiler,
        program: &Program,
        assembly: Assembly,
        object: &Path,
    ) -> anyhow::Result<()> {
        let text = self.folder.join(format!("{}-{}.s", program.name, compiler.name));
        if !text.exists() {
            match program.real {
                Some(_) => self.text_by_cargo(compiler, program, &text)?,
                None => compiler.run(|command| {
                    command.args(["--crate-type=bin", "--emit=asm"]).args(FLAGS_OF_RUST).arg(&text);
                    command.arg(self.folder.join(program.path_in_rust()));
                })?,
            }
        }
        compiler.start(&self.tools().join("as"), |command| {
            assembly.set(command);
            if assembly == Assembly::Plain {
                command.arg("--reassemble");
            }
            command.arg("-o").arg(object).arg(&text);
        })
    }

    /// The text of a program with the crates that it uses and the standard library, as one.
    fn text_by_cargo(
        &self,
        compiler: &Compiler,
        program: &Program,
        text: &Path,
    ) -> anyhow::Result<()> {
        let cargo = program::find(OsStr::new("cargo"))?;
        let folder = self.folder.join(RUST).join(REAL);
        let made = text.with_extension("whole.s");
        compiler.start(&cargo, |command| {
            command.current_dir(&folder).env("RUSTC", &compiler.path);
            command.args(["rustc", "--quiet", "--offline", "--release", "--target-dir"]);
            command.arg(self.folder.join("cargo")).arg("--bin").arg(real::binary(program.name));
            command.arg("--").arg(format!("--emit=asm={}", made.display()));
        })?;
        let whole =
            fs::read_to_string(&made).with_context(|| format!("cannot read {}", made.display()))?;
        fs::write(text, for_gnu(&whole).as_bytes())
            .with_context(|| format!("cannot write {}", text.display()))
    }

    fn host(&self, compiler: &Compiler) -> PathBuf {
        self.folder.join(format!("host-{}.o", compiler.name))
    }

    fn tools(&self) -> PathBuf {
        self.folder.join("tools")
    }

    /// Rust's standard library, as it is.
    fn standard(&self, compiler: &Compiler) -> PathBuf {
        self.folder.join(format!("standard-{}.a", compiler.name))
    }

    fn shift(&self, compiler: &Compiler, shift: usize) -> PathBuf {
        self.folder.join(format!("shift-{}-{shift}.o", compiler.name))
    }

    /// Runs a program once: its line, and how long it takes.
    pub fn line(&self, executable: &Path, scale: f64) -> anyhow::Result<(String, Duration)> {
        let start = Instant::now();
        let mut command = Command::new(executable);
        command.arg(scale.to_string()).arg(executable.with_extension("report"));
        let output = command.stdin(Stdio::null()).output();
        let output = output.with_context(|| format!("cannot start {}", executable.display()))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            bail!("{}: {}; {}", executable.display(), output.status, said.trim());
        }
        Ok((String::from_utf8_lossy(&output.stdout).into_owned(), start.elapsed()))
    }
}
