//! In place of rustc: compiles a crate so that its objects have probes.
//!
//! A crate is compiled as one unit and not incrementally, so that there is one text and one object.

use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::{env, fs};

use anyhow::{Context, bail};
use quaver_probes::note::{self, Note};
use tempfile::TempDir;

use crate::invocation::{Form, Invocation, without_incremental};
use crate::job::Job;
use crate::linker;
use crate::swap::{self, Workshop};

/// Runs `rustc` and its arguments.
///
/// # Errors
///
/// It cannot be run, or what it made cannot get its probes.
pub fn run(job: &Job, words: &[OsString]) -> anyhow::Result<ExitCode> {
    let Some((program, arguments)) = words.split_first() else {
        bail!("this program is started by cargo; use `cargo quaver build`");
    };
    if arguments.iter().any(|word| word == "-vV") {
        return version(job, program, arguments);
    }
    let call = Invocation::new(arguments);
    if call.leaves_it_to_the_linker() {
        bail!(
            "the linker would optimise {} after its probes are in (-C linker-plugin-lto): leave \
             that flag out; `--lto` lets rustc do it",
            call.name
        );
    }
    match call.form() {
        Form::Object if job.wants(&call.name) => compile(&call, program, arguments),
        // It may contain crates that have probes.
        Form::Object if call.links() => {
            let code = plain(job, program, arguments).status();
            let code = code.with_context(|| format!("cannot run {}", program.display()))?;
            if code.success() {
                let files = call.linked();
                if let Some(file) = files.iter().find(|file| Path::new(file).is_file()) {
                    say_what_is_in(&call, Path::new(file), false)?;
                }
            }
            Ok(exit_code(code))
        }
        _ => {
            let mut command = plain(job, program, arguments);
            let error = command.exec();
            let path = command.get_program().display();
            Err(anyhow::Error::new(error).context(format!("cannot run {path}")))
        }
    }
}

/// The call without us.
fn plain(job: &Job, program: &OsStr, arguments: &[OsString]) -> Command {
    let mut command = match &job.wrapper {
        Some(wrapper) => Command::new(wrapper),
        None => Command::new(program),
    };
    if job.wrapper.is_some() {
        command.arg(program);
    }
    command.args(arguments);
    command
}

/// The version, with a line more: cargo compiles everything again when that changes.
fn version(job: &Job, program: &OsStr, arguments: &[OsString]) -> anyhow::Result<ExitCode> {
    let cannot = || format!("cannot run {}", program.display());
    let output = Command::new(program).args(arguments).output().with_context(cannot)?;
    std::io::stderr().write_all(&output.stderr)?;
    std::io::stdout().write_all(&output.stdout)?;
    println!("quaver: {}", job.stamp);
    Ok(exit_code(output.status))
}

fn compile(call: &Invocation, program: &OsStr, arguments: &[OsString]) -> anyhow::Result<ExitCode> {
    let folder = folder(call)?;
    let workshop = Workshop::new(folder.path(), &call.name);
    let mut command = Command::new(program);
    command.args(without_incremental(arguments));
    command.arg(format!("--emit=asm={}", workshop.text().display()));
    command.args(["-C", "codegen-units=1", "-C", "split-debuginfo=off"]);
    if call.links() {
        let real = OsString::from(call.codegen("linker").unwrap_or("cc"));
        let link = linker::prepare(folder.path(), &real, &call.name)?;
        command.arg("-C").arg(format!("linker={}", link.display()));
        command.env(linker::VARIABLE, folder.path());
        // Of many modules there would be many texts.
        if call.is_whole() {
            command.args(["-C", "lto=fat"]);
        }
    }
    let status = command.status().with_context(|| format!("cannot run {}", program.display()))?;
    if !status.success() {
        return Ok(exit_code(status));
    }
    for archive in call.archives() {
        workshop.replace_in(Path::new(&archive))?;
    }
    let left = workshop.left_alone();
    if let Some(why) = &left {
        let message = format!("crate {} cannot have probes: {why}", call.name);
        if call.is_whole() && call.links() {
            bail!("{message}; `--per-crate` gives them to the others");
        }
        eprintln!("warning: quaver: {message}");
    }
    let primary = env::var_os("CARGO_PRIMARY_PACKAGE").is_some();
    if let Some(file) = linker::linked(folder.path()) {
        say_what_is_in(call, &file, left.is_none() && swap::notes()?)?;
    } else if let Some(archive) = call.archives().first().filter(|_| primary) {
        let file = workshop.object()?;
        say_what_is_in(call, file.as_deref().unwrap_or(Path::new(archive)), false)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// A folder for the files of this call, which are large. One that was left behind when a build was
/// killed goes now.
fn folder(call: &Invocation) -> anyhow::Result<TempDir> {
    let extra = call.codegen("extra-filename").unwrap_or_default();
    let name = format!("quaver-{}{extra}", call.name);
    let _ = fs::remove_dir_all(Path::new(&call.folder).join(&name));
    let folder = tempfile::Builder::new().prefix(&name).rand_bytes(0).tempdir_in(&call.folder);
    folder.with_context(|| format!("cannot write to {}", call.folder))
}

/// One line on what was made. cargo repeats it whenever the crate needs no compilation.
fn say_what_is_in(call: &Invocation, file: &Path, must: bool) -> anyhow::Result<()> {
    let cannot = || format!("cannot read probes of {}", file.display());
    let notes = match note::read(&fs::read(file).with_context(cannot)?) {
        Ok(notes) => notes,
        Err(_) if !must => Vec::new(),
        Err(error) => return Err(error).with_context(cannot),
    };
    if notes.is_empty() && must {
        bail!("{} has no probes: its linker has dropped the notes about them", file.display());
    }
    if notes.is_empty() {
        let why = match swap::notes()? {
            true => "none of the crates with probes is in it",
            false => "QUAVER_PROBES... asks for none",
        };
        eprintln!("quaver: {}: no probes: {why}", call.name);
        return Ok(());
    }
    let mut sum = Note::default();
    for &note in &notes {
        sum += note;
    }
    let crates = match notes.len() {
        _ if call.is_whole() => "in all of it, std included".to_owned(),
        1 => "in 1 crate".to_owned(),
        number => format!("in {number} crates"),
    };
    let Note { probes, loops, .. } = sum;
    eprintln!("quaver: {}: {probes} probes for {loops} loops {crates}", call.name);
    Ok(())
}

fn exit_code(status: std::process::ExitStatus) -> ExitCode {
    status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1).into()
}
