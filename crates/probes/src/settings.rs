//! Settings of `quaver-as`: options of its own, or environment variables where the caller is a
//! compiler.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::builder::FalseyValueParser;
use clap::{Parser, ValueEnum};

use crate::abi::VectorClass;
use crate::plan::Rules;
use crate::rewrite::Options;

/// Whether to insert probes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Switch {
    /// Insert them.
    On,
    /// Insert safepoints of xUI in their place: the prefix 36 before a nop.
    Safepoints,
    /// Only replicate loops.
    Off,
}

/// Vector registers that functions may pass to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Width {
    /// As wide as the widest that the text uses.
    Auto,
    /// 256 bits at least.
    Ymm,
    /// 512 bits.
    Zmm,
}

/// Inserts preemption probes into the assembly text of gcc, clang or rustc, and assembles it.
///
/// In place of `as`: all other options are passed on, and the program is meant to be found by a
/// compiler (`gcc -B DIR` with a link DIR/as to it). With --rewrite the new text is written
/// instead.
#[derive(Clone, Debug, Parser)]
#[command(name = "quaver-as", version)]
pub struct Settings {
    /// Only rewrite this text; to -o FILE, or to standard output
    #[arg(long, value_name = "FILE")]
    pub rewrite: Option<PathBuf>,

    /// Where the rewritten text goes
    #[arg(short, value_name = "FILE", requires = "rewrite")]
    pub output: Option<PathBuf>,

    /// Insert probes, or xUI's safepoints, or (as a control) only replicate loops
    #[arg(
        long,
        value_name = "on|safepoints|off",
        env = "QUAVER_PROBES",
        default_value = "on",
        hide_possible_values = true
    )]
    pub probes: Switch,

    /// Copies of a small loop, at most; 0: none
    #[arg(long, value_name = "N", env = "QUAVER_PROBES_REPLICATE", default_value_t = 16)]
    pub replicate: usize,

    /// Instructions that one probe should serve
    #[arg(long, value_name = "N", env = "QUAVER_PROBES_TARGET", default_value_t = 64)]
    pub target: usize,

    /// A probe at the entry of each function as well
    #[arg(long, env = "QUAVER_PROBES_ENTRIES", value_parser = FalseyValueParser::new())]
    pub entries: bool,

    /// Change nothing: the text only passes through the parser
    #[arg(long, env = "QUAVER_PROBES_REASSEMBLE", value_parser = FalseyValueParser::new())]
    pub reassemble: bool,

    /// GNU as, or a clang [default: the next `as` in PATH; clang for text with .addrsig]
    #[arg(long, value_name = "PROGRAM", env = "QUAVER_PROBES_ASSEMBLER")]
    pub assembler: Option<PathBuf>,

    /// Append what was done to this file, one line of JSON for each text
    #[arg(long, value_name = "FILE", env = "QUAVER_PROBES_REPORT")]
    pub report: Option<PathBuf>,

    /// Vector registers that functions pass to each other: name the width if the text does not
    #[arg(
        long,
        value_name = "auto|ymm|zmm",
        env = "QUAVER_PROBES_VECTORS",
        default_value = "auto",
        hide_possible_values = true
    )]
    pub vectors: Width,

    /// Rewrite text that does not name its compiler (`gcc -fno-ident`)
    #[arg(long, env = "QUAVER_PROBES_TRUST", value_parser = FalseyValueParser::new())]
    pub trust: bool,

    /// Say what is left alone, and why
    #[arg(long, env = "QUAVER_PROBES_VERBOSE", value_parser = FalseyValueParser::new())]
    pub verbose: bool,
}

/// Options with a value, and those without, that an assembler does not know.
const VALUED: [&str; 8] = [
    "--rewrite",
    "--probes",
    "--replicate",
    "--target",
    "--assembler",
    "--report",
    "--vectors",
    "-o",
];
const PLAIN: [&str; 4] = ["--entries", "--reassemble", "--trust", "--verbose"];

impl Settings {
    /// Separates options of ours from those for the assembler.
    pub fn separate(arguments: &[OsString]) -> (Vec<OsString>, Vec<OsString>) {
        let rewrite = arguments.iter().any(|argument| is(argument, "--rewrite"));
        let (mut ours, mut others) = (Vec::new(), Vec::new());
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            // `-o` and `-v` mean something to assemblers.
            let valued =
                VALUED[..if rewrite { 8 } else { 7 }].iter().any(|name| is(argument, name));
            if valued {
                ours.push(argument.clone());
                if !argument.to_string_lossy().contains('=') {
                    ours.extend(rest.next().cloned());
                }
            } else if PLAIN.iter().any(|name| argument == name) {
                ours.push(argument.clone());
            } else {
                others.push(argument.clone());
            }
        }
        (ours, others)
    }

    /// How to rewrite.
    pub fn options(&self) -> Options {
        let rules = Rules {
            probes: self.probes != Switch::Off,
            safepoints: self.probes == Switch::Safepoints,
            copies: self.replicate,
            target: self.target,
            entries: self.entries,
        };
        let vectors = match self.vectors {
            Width::Auto => VectorClass::Xmm,
            Width::Ymm => VectorClass::Ymm,
            Width::Zmm => VectorClass::Zmm,
        };
        Options { rules, vectors, trust: self.trust }
    }

    /// The assembler that was named, or the next of this name in the search path.
    pub fn program(&self, name: &str) -> PathBuf {
        self.assembler.clone().unwrap_or_else(|| next_in_path(name))
    }
}

/// Whether `argument` is `name` or `name=value`.
fn is(argument: &OsString, name: &str) -> bool {
    let text = argument.to_string_lossy();
    text.strip_prefix(name)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('=') && name.starts_with("--"))
}

/// The first program `name` in the search path that is not this one.
fn next_in_path(name: &str) -> PathBuf {
    let ourselves = std::env::current_exe().and_then(std::fs::canonicalize).ok();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|folder| folder.join(name)).find(|candidate| {
        let real = std::fs::canonicalize(candidate).ok();
        real.is_some() && real != ourselves && candidate.is_file()
    });
    found.unwrap_or_else(|| Path::new("/usr/bin").join(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_assemblers_pass() {
        let given = ["--64", "--probes", "off", "-o", "a.o", "--target=32", "--target-help", "a.s"];
        let given: Vec<OsString> = given.iter().map(OsString::from).collect();
        let (ours, others) = Settings::separate(&given);
        assert_eq!(ours, ["--probes", "off", "--target=32"]);
        assert_eq!(others, ["--64", "-o", "a.o", "--target-help", "a.s"]);
    }
}
