//! `quaver cc`: a C or C++ compiler whose assembly goes through `quaver-as`.
//!
//! Compilers look for their assembler in the folders of `-B` first. So the compiler is started with
//! a folder in which `as` is `quaver-as`; everything else is its own affair. The folder is kept, in
//! the user's cache: this process becomes the compiler and could not remove it.

use crate::cache;
use crate::companion::ASSEMBLER;
use crate::run::{exit, program};
use anyhow::{Context, bail};
use std::ffi::OsString;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// What makes clang call an assembler.
pub(crate) const CLANG: [&str; 2] = ["-fno-integrated-as", "-Qunused-arguments"];

/// Compile C or C++ with preemption probes: `quaver cc gcc -O2 -c x.c`
///
/// The compiler runs as it is, and its assembly goes through quaver-as. For make, autotools and
/// Meson: CC="quaver cc gcc".
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Insert xUI's hardware safepoints in place of probes, for `quaver core run --safepoints`
    #[arg(long)]
    safepoints: bool,
    /// The compiler, such as gcc, g++, clang, clang++, and its arguments
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "COMPILER"
    )]
    command: Vec<OsString>,
}

/// Replaces this process by the compiler. Returns only if that fails, which it has said.
pub fn run(args: &Args) -> ExitCode {
    let error = match prepare(&args.command) {
        Ok(mut command) => {
            if args.safepoints {
                command.env("QUAVER_PROBES", "safepoints");
            }
            let error = command.exec();
            let path = Path::new(command.get_program()).display();
            anyhow::Error::new(error).context(format!("cannot run {path}"))
        }
        Err(error) => error,
    };
    eprintln!("quaver: {error:#}");
    exit::SETTINGS.into()
}

/// The command that becomes of this process.
fn prepare(words: &[OsString]) -> anyhow::Result<Command> {
    let (name, rest) = words.split_first().context("no compiler given")?;
    let path = program::find(name)?;
    let folder = folder_with(&ASSEMBLER.find()?)?;
    let mut command = Command::new(&path);
    command.arg0(name).arg("-B").arg(folder);
    if is_clang(&path)? {
        if rest.iter().any(|word| word.as_encoded_bytes().starts_with(b"-flto")) {
            bail!("clang with -flto assembles by itself: leave -flto out, or take gcc");
        }
        command.args(CLANG);
    }
    command.args(rest);
    Ok(command)
}

/// Whether a compiler takes the options of clang. Its file says so mostly, without being started.
pub(crate) fn is_clang(compiler: &Path) -> anyhow::Result<bool> {
    let real = compiler.canonicalize().unwrap_or_else(|_| compiler.to_owned());
    let file = real.file_name().unwrap_or_default().to_string_lossy().into_owned();
    if let Some(known) = named(&file) {
        return Ok(known);
    }
    let cannot = || format!("cannot ask {} for its version", compiler.display());
    let output = Command::new(compiler).arg("--version").output().with_context(cannot)?;
    let text = String::from_utf8_lossy(&output.stdout);
    if text.starts_with("rustc") {
        bail!("quaver cc is for C and C++, not for {}", compiler.display());
    }
    Ok(text.contains("clang"))
}

/// The same from names such as `x86_64-linux-gnu-gcc-12` and `clang++`; none where it is no such
/// name.
fn named(file: &str) -> Option<bool> {
    let number = |c: char| c.is_ascii_digit() || matches!(c, '-' | '.');
    let base = file.trim_end_matches(number).rsplit('-').next()?;
    match base {
        "gcc" | "g++" => Some(false),
        "clang" | "clang++" => Some(true),
        _ => None,
    }
}

/// A folder of the user's cache in which `as` is `assembler`.
fn folder_with(assembler: &Path) -> anyhow::Result<PathBuf> {
    // A folder for each of them: another compilation may be using another one.
    let name: String = assembler.to_string_lossy().replace('/', "%");
    let folder = cache::folder().join("cc").join(name);
    let link = folder.join("as");
    if fs::read_link(&link).is_ok_and(|target| target == assembler) {
        return Ok(folder);
    }
    let cannot = || format!("cannot make {}", link.display());
    fs::create_dir_all(&folder).with_context(cannot)?;
    // In one step: another compilation may be about to use it.
    let fresh = folder.join(format!("as.{}", std::process::id()));
    std::os::unix::fs::symlink(assembler, &fresh).with_context(cannot)?;
    fs::rename(&fresh, &link).with_context(cannot)?;
    Ok(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compilers_are_known_by_their_names() {
        for file in ["gcc", "g++-13", "x86_64-linux-gnu-gcc-12", "gcc-14.2.0"] {
            assert_eq!(named(file), Some(false), "{file}");
        }
        for file in ["clang", "clang++", "clang-19", "x86_64-linux-gnu-clang++-14"] {
            assert_eq!(named(file), Some(true), "{file}");
        }
        for file in ["cc", "ccache", "icx", "rustc", "12"] {
            assert_eq!(named(file), None, "{file}");
        }
    }
}
