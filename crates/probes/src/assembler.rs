//! Running the assembler.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{fs, io};

/// What can go wrong around the assembler.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The program could not be started.
    #[error(
        "cannot run the assembler `{program}`: {source}; name another with --assembler or \
         QUAVER_PROBES_ASSEMBLER"
    )]
    Start {
        /// What was to be run.
        program: String,
        /// Why it could not.
        source: io::Error,
    },
    /// It refused its input.
    #[error("the assembler `{program}` failed ({status}):\n{message}")]
    Refused {
        /// What was run.
        program: String,
        /// How it ended.
        status: std::process::ExitStatus,
        /// What it wrote to its standard error.
        message: String,
    },
    /// A file could not be read or written.
    #[error("{path}: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// What the assembler wrote is not an object file.
    #[error("what the assembler wrote cannot be read: {0}")]
    Object(String),
}

impl Error {
    /// Adds the path to an error of the file system.
    pub fn file(path: &Path) -> impl FnOnce(io::Error) -> Error {
        let path = path.to_owned();
        move |source| Error::File { path, source }
    }
}

/// An assembler, with the options that it is called with.
#[derive(Clone, Debug)]
pub struct Assembler {
    /// The program: GNU `as`, or a `clang`.
    pub program: PathBuf,
    /// Options, without inputs and output.
    pub options: Vec<OsString>,
}

impl Default for Assembler {
    fn default() -> Self {
        Assembler { program: "as".into(), options: Vec::new() }
    }
}

impl Assembler {
    /// The assembler `program` without options.
    pub fn new(program: impl Into<PathBuf>) -> Self {
        Assembler { program: program.into(), options: Vec::new() }
    }

    /// Whether it is a compiler that assembles, with other options than GNU as.
    pub fn is_clang(&self) -> bool {
        self.program
            .file_name()
            .and_then(OsStr::to_str)
            .is_some_and(|name| name.starts_with("clang"))
    }

    /// A call that assembles `input` to `output`, with the options that it has.
    pub fn command(&self, input: &Path, output: &Path) -> Command {
        let mut command = Command::new(&self.program);
        if self.is_clang() {
            command.args(["-c", "-x", "assembler", "-Wno-unused-command-line-argument"]);
            command.args(self.options.iter().filter(|option| clang_knows(option)));
        } else {
            command.args(&self.options);
        }
        command.arg("-o").arg(output).arg(input);
        command
    }

    /// Assembles `text` to the object `output`. The text passes through a file in `folder`.
    ///
    /// # Errors
    ///
    /// [`Error::Start`], [`Error::Refused`] or [`Error::File`].
    pub fn assemble(&self, text: &str, folder: &Path, output: &Path) -> Result<(), Error> {
        let input = folder.join("text.s");
        fs::write(&input, text).map_err(Error::file(&input))?;
        let result = self.run(self.command(&input, output));
        // It may be large.
        let _ = fs::remove_file(&input);
        result
    }

    /// The bytes that `text` becomes in section `.text`.
    ///
    /// # Errors
    ///
    /// As [`assemble`](Self::assemble), and [`Error::Object`].
    pub fn bytes(&self, text: &str, folder: &Path) -> Result<Vec<u8>, Error> {
        use object::{Object, ObjectSection};
        let output = folder.join("text.o");
        self.for_bytes().assemble(text, folder, &output)?;
        let object = fs::read(&output).map_err(Error::file(&output))?;
        let bad = |error: object::Error| Error::Object(error.to_string());
        let file = object::File::parse(&*object).map_err(bad)?;
        let section = file
            .section_by_name(".text")
            .ok_or_else(|| Error::Object("it has no section .text".into()))?;
        Ok(section.data().map_err(bad)?.to_vec())
    }

    /// The same without the options that ask for more than code.
    fn for_bytes(&self) -> Assembler {
        let mut options = Vec::new();
        let mut skip = false;
        for option in &self.options {
            let text = option.to_string_lossy();
            if std::mem::take(&mut skip) {
                continue;
            }
            skip = text == "--MD";
            let extra = ["-a", "-g", "--g", "--MD", "-MD", "--statistics", "--listing", "-K", "-Z"];
            if !extra.iter().any(|start| text.starts_with(start)) {
                options.push(option.clone());
            }
        }
        Assembler { program: self.program.clone(), options }
    }

    fn run(&self, mut command: Command) -> Result<(), Error> {
        let program = self.program.display().to_string();
        let output = command
            .stdin(Stdio::null())
            .output()
            .map_err(|source| Error::Start { program: program.clone(), source })?;
        if output.status.success() {
            return Ok(());
        }
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        Err(Error::Refused { program, status: output.status, message })
    }
}

/// Options that mean the same to clang as to GNU as.
fn clang_knows(option: &OsStr) -> bool {
    let text = option.to_string_lossy();
    ["-I", "-g", "-march=", "-W"].iter().any(|start| text.starts_with(start))
}
