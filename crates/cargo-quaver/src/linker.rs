//! In place of the linker: it gets the object with probes instead of the compiler's.
//!
//! rustc chooses options by the name of the linker. So this program is called by that name, through
//! a link in the folder of the call, where also the real one is written down.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::Context;

use crate::swap::Workshop;

/// Says which folder it is; without it this program is no linker.
pub const VARIABLE: &str = "CARGO_QUAVER_LINK";

/// The folder of a call, if this program was called as a linker.
pub fn folder(arguments: &[OsString]) -> Option<PathBuf> {
    let folder = PathBuf::from(env::var_os(VARIABLE)?);
    let called = Path::new(arguments.first()?);
    (called.parent()? == folder.join("bin")).then_some(folder)
}

/// Makes this program callable as `linker`; the path of that.
///
/// # Errors
///
/// The folder cannot be written.
pub fn prepare(folder: &Path, linker: &OsStr, name: &str) -> anyhow::Result<PathBuf> {
    let file = Path::new(linker).file_name().unwrap_or(OsStr::new("cc"));
    let link = folder.join("bin").join(file);
    fs::create_dir_all(folder.join("bin"))?;
    symlink(env::current_exe()?, &link).context("cannot make a link")?;
    fs::write(folder.join("linker"), linker.as_encoded_bytes())?;
    fs::write(folder.join("name"), name)?;
    Ok(link)
}

/// What was linked in this folder.
pub fn linked(folder: &Path) -> Option<PathBuf> {
    Some(OsString::from_vec(fs::read(folder.join("linked")).ok()?).into())
}

/// Links.
///
/// # Errors
///
/// There is no object to take out, none to put there, or no linker.
pub fn run(folder: &Path, arguments: &[OsString]) -> anyhow::Result<ExitCode> {
    let linker = OsString::from_vec(fs::read(folder.join("linker"))?);
    let name = fs::read_to_string(folder.join("name"))?;
    let workshop = Workshop::new(folder, &name);
    let mut words = expanded(arguments)?;
    if let Some(object) = workshop.object()? {
        let files: Vec<PathBuf> = words.iter().map(PathBuf::from).collect();
        let at = workshop.find(&object, &files)?;
        words[at] = object.into();
    }
    let mut outputs = words.iter().skip_while(|word| *word != "-o");
    if let Some(output) = outputs.nth(1) {
        fs::write(folder.join("linked"), output.as_encoded_bytes())?;
    }
    let mut command = Command::new(&linker);
    if arguments.len() == words.len() {
        command.args(&words);
    } else {
        let file = folder.join("arguments");
        fs::write(&file, quoted(&words))?;
        command.arg(format!("@{}", file.display()));
    }
    let cannot = || format!("cannot run the linker {}", linker.display());
    let status = command.env_remove(VARIABLE).status().with_context(cannot)?;
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1).into())
}

/// The arguments with those in `@file`, as rustc writes such a file: one on a line, with
/// backslashes.
fn expanded(arguments: &[OsString]) -> anyhow::Result<Vec<OsString>> {
    let mut words = Vec::new();
    for argument in arguments {
        match argument.to_str().and_then(|text| text.strip_prefix('@')) {
            Some(file) => {
                let text =
                    fs::read_to_string(file).with_context(|| format!("cannot read {file}"))?;
                words.extend(text.lines().map(unquoted));
            }
            None => words.push(argument.clone()),
        }
    }
    Ok(words)
}

fn unquoted(line: &str) -> OsString {
    let mut word = String::with_capacity(line.len());
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => word.extend(letters.next()),
            '"' => {}
            _ => word.push(letter),
        }
    }
    word.into()
}

fn quoted(words: &[OsString]) -> String {
    let mut text = String::new();
    for word in words {
        for letter in word.to_string_lossy().chars() {
            if matches!(letter, '\\' | ' ' | '"' | '\'') {
                text.push('\\');
            }
            text.push(letter);
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_survive_response_files() {
        let words: Vec<OsString> =
            ["-o", "/a b/c", r"C:\x", r#"say "it""#, "don't"].map(OsString::from).into();
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("arguments");
        fs::write(&file, quoted(&words)).unwrap();
        let given = ["-v".into(), format!("@{}", file.display()).into()];
        assert_eq!(expanded(&given).unwrap()[1..], words);
    }
}
