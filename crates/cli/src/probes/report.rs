//! `quaver probes report`: what the [notes](quaver_probes::note) in programs, libraries and objects
//! say, added up.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use object::read::archive::ArchiveFile;
use quaver_probes::note::{self, Note};
use serde::Serialize;

use crate::output::{self, Target};

/// Count probes, loops and the code that they added, in programs, libraries and object files
#[derive(clap::Args, Debug)]
pub struct Args {
    /// What was built with probes
    #[arg(required = true, value_name = "BINARY")]
    binaries: Vec<PathBuf>,
    /// Write the counts as JSON; - is standard output
    #[arg(long, value_name = "FILE")]
    json: Option<Target>,
}

/// One file.
#[derive(Clone, Debug, Serialize)]
pub struct Binary {
    /// Its path, as it was given.
    pub binary: PathBuf,
    /// Objects with probes that it was linked from.
    pub objects: usize,
    /// What these objects say together.
    #[serde(flatten)]
    pub note: Note,
    /// Bytes of code in the whole file: also of objects without probes, and without functions that
    /// the linker has dropped.
    pub file_code_bytes: u64,
}

/// Runs the command. It fails if one of the files cannot be read or has no probes; the others are
/// reported.
///
/// # Errors
///
/// The result cannot be written.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if let Some(target) = &args.json {
        target.check()?;
    }
    let mut binaries = Vec::new();
    for path in &args.binaries {
        match read(path) {
            Ok(binary) => binaries.push(binary),
            Err(error) => eprintln!("quaver: {error:#}"),
        }
    }
    if let Some(target) = &args.json {
        target.write_json(&serde_json::json!({ "binaries": binaries }))?;
    }
    if args.json != Some(Target::Stdout) {
        let texts: Vec<String> = binaries.iter().map(text).collect();
        output::print(&texts.join("\n"))?;
    }
    let complete = binaries.len() == args.binaries.len();
    Ok(if complete { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// What is known about one file.
///
/// # Errors
///
/// It cannot be read, or has no probes.
pub fn read(path: &Path) -> anyhow::Result<Binary> {
    let name = path.display();
    let file = fs::read(path).with_context(|| format!("cannot read {name}"))?;
    let (mut objects, mut sum, mut code) = (0, Note::default(), 0);
    for part in parts(&file).with_context(|| format!("cannot read {name}"))? {
        let notes = note::read(part).with_context(|| format!("cannot read probes of {name}"))?;
        objects += notes.len();
        notes.into_iter().for_each(|note| sum += note);
        let object = object::File::parse(part).with_context(|| format!("cannot read {name}"))?;
        code += note::code_bytes(&object);
    }
    if objects == 0 {
        bail!(
            "{name} was built without probes; build it with `quaver cc` or `cargo quaver` \
             (docs/probes.md)"
        );
    }
    Ok(Binary { binary: path.to_owned(), objects, note: sum, file_code_bytes: code })
}

/// The file itself, or the objects in an archive.
fn parts(file: &[u8]) -> anyhow::Result<Vec<&[u8]>> {
    if !matches!(object::FileKind::parse(file), Ok(object::FileKind::Archive)) {
        return Ok(vec![file]);
    }
    let mut parts = Vec::new();
    for member in ArchiveFile::parse(file)?.members() {
        let data = member?.data(file)?;
        if data.starts_with(b"\x7fELF") {
            parts.push(data);
        }
    }
    Ok(parts)
}

fn text(binary: &Binary) -> String {
    let Note {
        functions,
        instructions,
        loops,
        probes,
        entry_probes,
        replicated,
        copies,
        bounded,
        left_alone,
        unprobed,
        added_instructions,
        code_bytes,
    } = binary.note;
    let growth = 100.0 * added_instructions as f64 / instructions.max(1) as f64;
    let mut text = format!("{}\n", binary.binary.display());
    let mut row = |what: &str, count: u64, more: String| {
        let more = if more.is_empty() { more } else { format!("   {more}") };
        let _ = writeln!(text, "  {what:<22}{:>12}{more}", thousands(count));
    };
    row("objects with probes", binary.objects as u64, String::new());
    row("functions", functions, format!("{} more left alone", thousands(left_alone)));
    let few = format!("{} of few iterations, without a probe", thousands(bounded));
    row("loops", loops, few);
    row("loops replicated", replicated, format!("{} copies", thousands(copies)));
    row("probes", probes, format!("{} for recursion", thousands(entry_probes)));
    row("cycles without probe", unprobed, "inline assembly".into());
    row("instructions", instructions, String::new());
    row("instructions added", added_instructions, format!("{growth:+.1} %"));
    row("bytes of their code", code_bytes, "as assembled".into());
    row("bytes of all code", binary.file_code_bytes, "in the file".into());
    text
}

/// The number in groups of three digits.
fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_come_in_groups() {
        for (number, text) in [(0, "0"), (999, "999"), (1000, "1,000"), (1234567, "1,234,567")] {
            assert_eq!(thousands(number), text);
        }
    }
}
