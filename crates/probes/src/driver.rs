//! `quaver-as`: in place of an assembler.
//!
//! It takes the arguments of `as`, rewrites the inputs, and calls the assembler with the result in
//! their place. Several inputs are one text, as they are to `as`. If anything about the text is
//! not understood, or the assembler refuses the rewritten text, the assembler gets the original.
//! Otherwise the object says in a [note] what was done.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::Instant;

use clap::Parser;

use crate::assembler::{Assembler, Error};
use crate::note::{self, Note};
use crate::parse::Unknown;
use crate::report::{LeftAlone, Report};
use crate::rewrite::{Rewritten, reassemble, rewrite};
use crate::settings::{Settings, Switch};

/// What can go wrong in the program.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// Around the assembler.
    #[error(transparent)]
    Assembler(#[from] Error),
    /// An option.
    #[error("{0}")]
    Options(clap::Error),
}

/// Runs the program; the result is its exit code.
///
/// # Errors
///
/// Where files or the assembler fail; what the assembler itself reports is an exit code.
pub fn run(arguments: &[OsString]) -> Result<u8, Failure> {
    let called = arguments.first().map(Path::new).and_then(Path::file_name);
    let called = called.and_then(OsStr::to_str).unwrap_or("quaver-as");
    let (ours, others) = Settings::separate(arguments.get(1..).unwrap_or_default());
    let help = |option: &OsString| option == "--help" || option == "--version" || option == "-h";
    let own_help = called == "quaver-as" && others.iter().any(help);
    let asked = others.iter().filter(|option| own_help && help(option));
    let words = ["quaver-as".into()].into_iter().chain(ours).chain(asked.cloned());
    let settings = match Settings::try_parse_from(words) {
        Ok(settings) => settings,
        Err(error) if !error.use_stderr() => {
            let _ = error.print();
            return Ok(0);
        }
        Err(error) => return Err(Failure::Options(error)),
    };
    if let Some(input) = &settings.rewrite {
        return only_rewrite(&settings, input, others);
    }
    let name = if called == "quaver-as" { "as" } else { called };
    Ok(assemble(&settings, name, others)?.0)
}

/// `--rewrite`: text to text. `options` are those of the assembler that translates instructions.
fn only_rewrite(settings: &Settings, input: &Path, options: Vec<OsString>) -> Result<u8, Failure> {
    let bytes = fs::read(input).map_err(Error::file(input))?;
    let folder = scratch()?;
    let assembler = assembler_for(settings, "as", &bytes, options);
    let (text, _) = transform(settings, &bytes, &[input.to_owned()], &assembler, folder.path())?;
    let text = text.as_deref().unwrap_or(&bytes);
    match settings.output.as_deref().filter(|path| *path != Path::new("-")) {
        Some(path) => fs::write(path, text).map_err(Error::file(path))?,
        None => io::stdout().write_all(text).map_err(Error::file(Path::new("standard output")))?,
    }
    Ok(0)
}

/// What `name`, an assembler, would do with `arguments`, with probes; its exit code, and what was
/// done. The settings say which assembler it is.
///
/// # Errors
///
/// As [`run`].
pub fn assemble(
    settings: &Settings,
    name: &str,
    arguments: Vec<OsString>,
) -> Result<(u8, Report), Failure> {
    let arguments = expand(arguments, 0)?;
    let call = Call::new(arguments);
    if call.informs() {
        let program = settings.program(name);
        let status = start(Command::new(&program).args(&call.options), &program)?;
        return Ok((code(status), Report::default()));
    }
    let bytes = call.read()?;
    let folder = scratch()?;
    let assembler = assembler_for(settings, name, &bytes, call.options.clone());
    let (text, mut report) = transform(settings, &bytes, &call.inputs, &assembler, folder.path())?;

    if let Some(text) = text {
        let input = folder.path().join("probes.s");
        fs::write(&input, &text).map_err(Error::file(&input))?;
        let mut command = assembler.command(&input, &call.output);
        let result = command
            .stdin(Stdio::null())
            .output()
            .map_err(|source| start_error(&assembler.program, source))?;
        if result.status.success() {
            let _ = io::stdout().write_all(&result.stdout);
            let _ = io::stderr().write_all(&result.stderr);
            publish(settings, &report)?;
            measure(&call.output)?;
            return Ok((0, report));
        }
        let message = String::from_utf8_lossy(&result.stderr);
        let first = message.lines().find(|line| line.contains(".s:")).unwrap_or_default();
        let why = format!("the assembler refuses the rewritten text: {first}");
        report = Report { file: report.file, ..Report::default() };
        report.left_file = Some(LeftAlone { function: String::new(), line: 1, why });
    }
    publish(settings, &report)?;
    // The original, from where it was or, read from standard input, from a file.
    let input = match &call.inputs[..] {
        [input] if input != Path::new("-") => input.clone(),
        _ => {
            let input = folder.path().join("text.s");
            fs::write(&input, &bytes).map_err(Error::file(&input))?;
            input
        }
    };
    let status = start(&mut assembler.command(&input, &call.output), &assembler.program)?;
    Ok((code(status), report))
}

/// Completes the note of an object. What cannot hold one, such as /dev/null, stays as it is.
fn measure(path: &Path) -> Result<(), Failure> {
    let Ok(object) = fs::read(path) else { return Ok(()) };
    if let Some((at, size)) = note::measure(&object) {
        let file = OpenOptions::new().write(true).open(path);
        file.and_then(|file| file.write_all_at(&size, at)).map_err(Error::file(path))?;
    }
    Ok(())
}

/// The new text, if there is one, and what was done.
fn transform(
    settings: &Settings,
    bytes: &[u8],
    inputs: &[PathBuf],
    assembler: &Assembler,
    folder: &Path,
) -> Result<(Option<Vec<u8>>, Report), Failure> {
    let other = ["--32", "--x32", "-m32", "-mx32"];
    let other = assembler.options.iter().find(|option| other.iter().any(|name| option == name));
    // Comments of clang may hold bytes of any kind.
    let utf8 = std::str::from_utf8(bytes).ok();
    let decoded = utf8.map_or_else(|| from_latin1(bytes), str::to_owned);
    let leave = |Unknown { line, why }| {
        let left = LeftAlone { function: String::new(), line, why };
        Rewritten { text: None, report: Report { left_file: Some(left), ..Report::default() } }
    };
    let start = Instant::now();
    let mut result = if let Some(other) = other {
        let why = format!("not for x86-64: {}", other.display());
        leave(Unknown { line: 1, why })
    } else if settings.reassemble {
        let same = |text| Rewritten { text: Some(text), report: Report::default() };
        reassemble(&decoded).map_or_else(leave, same)
    } else {
        rewrite(&decoded, &settings.options(), assembler, folder)?
    };
    let names: Vec<String> = inputs.iter().map(|input| input.display().to_string()).collect();
    result.report.file = names.join(" ");
    result.report.rewriting_us = start.elapsed().as_micros() as u64;
    if settings.rewrite.is_some() {
        publish(settings, &result.report)?;
    }
    if settings.probes == Switch::On && !settings.reassemble && result.report.left_file.is_none() {
        let mut text = result.text.take().unwrap_or(decoded);
        if !text.ends_with('\n') {
            text.push('\n');
        }
        text.push_str(&Note::new(&result.report).text());
        result.text = Some(text);
    }
    let encode = |text: String| if utf8.is_some() { text.into_bytes() } else { to_latin1(&text) };
    Ok((result.text.map(encode), result.report))
}

/// A text in which each byte is a letter, and back.
fn from_latin1(bytes: &[u8]) -> String {
    bytes.iter().map(|&byte| char::from(byte)).collect()
}

fn to_latin1(text: &str) -> Vec<u8> {
    text.chars().map(|letter| u8::try_from(letter).unwrap_or(b'?')).collect()
}

/// Writes the report, and says what was left alone.
fn publish(settings: &Settings, report: &Report) -> Result<(), Failure> {
    if settings.verbose {
        let all = report.left_file.iter().chain(&report.left).chain(&report.unprobed);
        for left in all {
            let of = if left.function.is_empty() { "all of it" } else { &left.function };
            eprintln!("{}:{}: quaver-as leaves {of} alone: {}", report.file, left.line, left.why);
        }
    }
    let Some(path) = &settings.report else { return Ok(()) };
    let mut line = serde_json::to_string(report).unwrap_or_default();
    line.push('\n');
    let file = OpenOptions::new().create(true).append(true).open(path);
    // One write: several assemblers may run at once.
    file.and_then(|mut file| file.write_all(line.as_bytes())).map_err(Error::file(path))?;
    Ok(())
}

/// The assembler for a text: the one that was named, else GNU as; clang where only LLVM's knows a
/// directive.
fn assembler_for(
    settings: &Settings,
    name: &str,
    bytes: &[u8],
    options: Vec<OsString>,
) -> Assembler {
    let llvm = bytes.windows(9).any(|window| window == b"\t.addrsig");
    let name = if llvm { "clang" } else { name };
    Assembler { program: settings.program(name), options }
}

/// A call of an assembler, taken apart.
struct Call {
    options: Vec<OsString>,
    inputs: Vec<PathBuf>,
    output: PathBuf,
}

/// Options of GNU as whose value is the next argument.
const SEPARATE: [&str; 9] = [
    "-I",
    "--defsym",
    "--MD",
    "--debug-prefix-map",
    "--listing-lhs-width",
    "--listing-lhs-width2",
    "--listing-rhs-width",
    "--listing-cont-lines",
    "--hash-size",
];

impl Call {
    fn new(arguments: Vec<OsString>) -> Self {
        let mut call = Call { options: Vec::new(), inputs: Vec::new(), output: "a.out".into() };
        let mut rest = arguments.into_iter();
        while let Some(argument) = rest.next() {
            let text = argument.to_string_lossy().into_owned();
            if text == "-o" {
                call.output = rest.next().unwrap_or_default().into();
            } else if let Some(output) = text.strip_prefix("-o") {
                call.output = output.into();
            } else if text == "--" || text == "-" {
                call.inputs.push("-".into());
            } else if SEPARATE.contains(&&*text) {
                call.options.push(argument);
                call.options.extend(rest.next());
            } else if text.starts_with('-') {
                call.options.push(argument);
            } else {
                call.inputs.push(argument.into());
            }
        }
        if call.inputs.is_empty() {
            call.inputs.push("-".into());
        }
        call
    }

    /// Whether it only asks the assembler about itself.
    fn informs(&self) -> bool {
        let about = ["--version", "-version", "--help", "--target-help", "--dump-config"];
        self.inputs == [PathBuf::from("-")]
            && self.options.iter().any(|option| about.iter().any(|name| option == name))
    }

    /// All inputs, one after the other.
    fn read(&self) -> Result<Vec<u8>, Failure> {
        let mut bytes = Vec::new();
        for input in &self.inputs {
            if !bytes.is_empty() && !bytes.ends_with(b"\n") {
                bytes.push(b'\n');
            }
            let result = match input.to_str() {
                Some("-") => io::stdin().read_to_end(&mut bytes),
                _ => File::open(input).and_then(|mut file| file.read_to_end(&mut bytes)),
            };
            result.map_err(Error::file(input))?;
        }
        Ok(bytes)
    }
}

/// Replaces `@file` by the arguments in the file, as GNU tools do.
fn expand(arguments: Vec<OsString>, depth: usize) -> Result<Vec<OsString>, Failure> {
    let mut expanded = Vec::new();
    for argument in arguments {
        let text = argument.to_string_lossy().into_owned();
        match text.strip_prefix('@').map(Path::new) {
            Some(path) if path.is_file() && depth < 8 => {
                let content = fs::read_to_string(path).map_err(Error::file(path))?;
                expanded.extend(expand(words(&content), depth + 1)?);
            }
            _ => expanded.push(argument),
        }
    }
    Ok(expanded)
}

/// Words between white space, with quotes and backslashes.
fn words(text: &str) -> Vec<OsString> {
    let mut found = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match (quote, letter) {
            (_, '\\') => word.get_or_insert_default().extend(letters.next()),
            (Some(open), _) if letter == open => quote = None,
            (None, '"' | '\'') => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (None, _) if letter.is_whitespace() => found.extend(word.take().map(OsString::from)),
            _ => word.get_or_insert_default().push(letter),
        }
    }
    found.extend(word.map(OsString::from));
    found
}

fn scratch() -> Result<tempfile::TempDir, Failure> {
    let folder = tempfile::Builder::new().prefix("quaver-as").tempdir();
    Ok(folder.map_err(Error::file(&std::env::temp_dir()))?)
}

fn start_error(program: &Path, source: io::Error) -> Error {
    Error::Start { program: program.display().to_string(), source }
}

fn start(command: &mut Command, program: &Path) -> Result<ExitStatus, Failure> {
    Ok(command.status().map_err(|source| start_error(program, source))?)
}

fn code(status: ExitStatus) -> u8 {
    status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_taken_apart() {
        let given = ["--64", "-I", "dir", "-o", "x.o", "a.s", "--defsym", "a=1", "b.s"];
        let call = Call::new(given.iter().map(OsString::from).collect());
        assert_eq!(call.options, ["--64", "-I", "dir", "--defsym", "a=1"]);
        assert_eq!(call.inputs, [Path::new("a.s"), Path::new("b.s")]);
        assert_eq!(call.output, Path::new("x.o"));
        let call = Call::new(vec!["--64".into()]);
        assert_eq!((call.inputs, call.output), (vec!["-".into()], "a.out".into()));
    }

    #[test]
    fn response_files_have_quotes() {
        assert_eq!(words(" a 'b c'\n\"d\"e \\f '' "), ["a", "b c", "de", "f", ""]);
    }
}
