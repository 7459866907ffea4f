//! Building the programs: each with every compiler, as the compiler makes it and by way of
//! `quaver-as`.
//!
//! A compiler is whatever turns a source into an object. Programs in Rust would be another kind of
//! [`Compiler`], with `cargo quaver` in place of `-B`.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use super::programs::{self, HOST, PAIR, Program};
use crate::cc;
use crate::companion::ASSEMBLER;
use crate::run::program;

/// Lines are the same with all compilers under these (bench/programs/README.md).
const FLAGS: [&str; 5] = ["-std=c11", "-O2", "-ffp-contract=off", "-Wall", "-c"];

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
    /// probe should serve.
    Placed { copies: usize, target: usize },
}

/// A compiler that was found.
#[derive(Clone, Debug)]
pub struct Compiler {
    /// As it is called.
    pub name: String,
    path: PathBuf,
    is_clang: bool,
}

/// Where everything is built.
#[derive(Clone, Debug)]
pub struct Workshop {
    folder: PathBuf,
}

/// A program as one compiler makes it.
#[derive(Clone, Debug)]
pub struct Built {
    /// Executables.
    pub plain: PathBuf,
    pub control: PathBuf,
    pub probes: PathBuf,
    /// With probes, as two libraries.
    pub pair: [PathBuf; 2],
}

impl Compiler {
    /// Looks in the search path.
    pub fn find(name: &str) -> anyhow::Result<Compiler> {
        let path = program::find(OsStr::new(name))?;
        let is_clang = cc::is_clang(&path)?;
        Ok(Compiler { name: name.to_owned(), path, is_clang })
    }

    fn run(&self, prepare: impl FnOnce(&mut Command)) -> anyhow::Result<()> {
        let mut command = Command::new(&self.path);
        // Settings of quaver-as come from here only.
        for (name, _) in std::env::vars_os() {
            if name.as_encoded_bytes().starts_with(b"QUAVER_PROBES") {
                command.env_remove(name);
            }
        }
        prepare(&mut command);
        let output = command.stdin(Stdio::null()).output();
        let output = output.with_context(|| format!("cannot start {}", self.path.display()))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            let line = said.lines().find(|line| line.contains("error")).or(said.lines().last());
            bail!("{} fails: {}", self.name, line.unwrap_or_default());
        }
        Ok(())
    }
}

impl Workshop {
    /// Puts the sources and the assembler into `folder`.
    ///
    /// # Errors
    ///
    /// There is no `quaver-as`, or no room.
    pub fn open(folder: &Path) -> anyhow::Result<Workshop> {
        let assembler = ASSEMBLER.find()?;
        programs::write(folder)?;
        let tools = folder.join("tools");
        fs::create_dir(&tools).with_context(|| format!("cannot make {}", tools.display()))?;
        symlink(assembler, tools.join("as")).context("cannot link to quaver-as")?;
        Ok(Workshop { folder: folder.to_owned() })
    }

    /// What all programs of `compiler` are linked with.
    pub fn prepare(&self, compiler: &Compiler) -> anyhow::Result<()> {
        compiler.run(|command| {
            command.args(["-std=gnu11", "-O2", "-c", "-o"]).arg(self.host(compiler));
            command.arg(self.folder.join(HOST));
        })
    }

    /// The program that runs a pair, built by `compiler`.
    pub fn pair(&self, compiler: &Compiler) -> anyhow::Result<PathBuf> {
        let pair = self.folder.join("pair");
        compiler.run(|command| {
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
            pair: self.libraries(compiler, program)?,
        })
    }

    /// Builds an executable, `what` being a part of its name.
    pub fn executable(
        &self,
        compiler: &Compiler,
        program: &Program,
        what: &str,
        assembly: Assembly,
    ) -> anyhow::Result<PathBuf> {
        let object = self.object(compiler, program, what, assembly, &[])?;
        let executable = object.with_extension("");
        compiler.run(|command| {
            command.arg("-o").arg(&executable).arg(&object).arg(self.host(compiler));
            command.args(["-Wl,--wrap=main", "-lm", "-lpthread"]);
        })?;
        Ok(executable)
    }

    fn libraries(&self, compiler: &Compiler, program: &Program) -> anyhow::Result<[PathBuf; 2]> {
        let object = self.object(compiler, program, "shared", Assembly::Probes, &["-fPIC"])?;
        let pair = ["1.so", "2.so"].map(|ending| object.with_extension(ending));
        compiler.run(|command| {
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
        compiler
            .run(|command| {
                if assembly != Assembly::Plain {
                    command.arg("-B").arg(self.folder.join("tools"));
                    if compiler.is_clang {
                        command.args(cc::CLANG);
                    }
                }
                match assembly {
                    Assembly::Plain | Assembly::Probes => {}
                    Assembly::Control => _ = command.env("QUAVER_PROBES", "off"),
                    Assembly::Placed { copies, target } => {
                        command.env("QUAVER_PROBES_REPLICATE", copies.to_string());
                        command.env("QUAVER_PROBES_TARGET", target.to_string());
                    }
                }
                command.args(FLAGS).args(more).arg("-o").arg(&object);
                command.arg(self.folder.join(format!("{}.c", program.name)));
            })
            .with_context(|| format!("{} by {}", program.name, compiler.name))?;
        Ok(object)
    }

    fn host(&self, compiler: &Compiler) -> PathBuf {
        self.folder.join(format!("host-{}.o", compiler.name))
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
