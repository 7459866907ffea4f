//! Compiling a program: plainly, and through `quaver cc`.

use super::builds::Build;
use super::source::{HEADER, Language};
use std::io::{Error, Result};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// How a program is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variant {
    /// By the compiler and its assembler.
    Plain,
    /// Through the rewriter, which changes nothing: the same file.
    Reassembled,
    /// Loops are replicated, without probes.
    Control,
    /// With probes, and the runtime that makes them all hit.
    Probes,
}

impl Variant {
    /// What its file is called.
    pub fn name(self) -> &'static str {
        match self {
            Variant::Plain => "plain",
            Variant::Reassembled => "reassembled",
            Variant::Control => "control",
            Variant::Probes => "probes",
        }
    }
}

/// Compilers, and a folder of what all programs need.
pub struct Toolchain {
    quaver: PathBuf,
    folder: tempfile::TempDir,
    torture: Vec<PathBuf>,
}

/// The compilers that are looked for when none is named.
pub const COMPILERS: [&str; 2] = ["gcc", "clang"];

/// Is there such a program?
pub fn is_there(program: &str) -> bool {
    says_its_version(&mut Command::new(program))
}

/// Does this program run?
pub fn says_its_version(command: &mut Command) -> bool {
    command.arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// The compiler of a family for C++: of `gcc-13`, `g++-13`.
pub fn for_language(compiler: &str, language: Language) -> String {
    if language == Language::C {
        return compiler.into();
    }
    let (folder, name) = match compiler.rsplit_once('/') {
        Some((folder, name)) => (format!("{folder}/"), name),
        None => (String::new(), compiler),
    };
    folder
        + &match (name.strip_prefix("gcc"), name.strip_prefix("clang"), name) {
            (Some(version), ..) => format!("g++{version}"),
            (_, Some(version), _) => format!("clang++{version}"),
            (.., "cc") => "c++".into(),
            _ => name.into(),
        }
}

impl Toolchain {
    /// Compiles the runtime of torture with the first of `compilers`.
    ///
    /// # Errors
    ///
    /// No compiler, or it fails.
    pub fn new(quaver: &Path, compilers: &[String]) -> Result<Toolchain> {
        let folder = tempfile::Builder::new().prefix("quaver-probes").tempdir()?;
        std::fs::write(folder.path().join(HEADER.0), HEADER.1)?;
        let mut torture = Vec::new();
        let compiler =
            compilers.first().ok_or_else(|| Error::other("there is no C compiler to be tested"))?;
        for (name, text) in quaver_probes::torture::SOURCES {
            let source = folder.path().join(name);
            std::fs::write(&source, text)?;
            let object = folder.path().join(format!("{name}.o"));
            let mut command = Command::new(compiler);
            command.args(["-O2", "-fPIC", "-c", "-o"]).arg(&object).arg(&source);
            complete(&mut command)?;
            torture.push(object);
        }
        Ok(Toolchain { quaver: quaver.into(), folder, torture })
    }

    /// A folder for one build.
    ///
    /// # Errors
    ///
    /// It cannot be made.
    pub fn place(&self) -> Result<tempfile::TempDir> {
        tempfile::Builder::new().prefix("quaver-probes-").tempdir()
    }

    /// Compiles a program whose source is in `place`.
    ///
    /// # Errors
    ///
    /// The compiler fails.
    pub fn compile(&self, build: &Build, variant: Variant, place: &Path) -> Result<PathBuf> {
        let driver = for_language(&build.compiler, build.source.language);
        let mut command = if variant == Variant::Plain {
            let mut command = Command::new(&driver);
            // Text for GNU as, as it is with probes: what is compared must be made by the same.
            if driver.contains("clang") {
                command.arg("-fno-integrated-as");
            }
            command
        } else {
            let mut command = Command::new(&self.quaver);
            command.arg("cc").arg(&driver);
            command
        };
        for (name, _) in std::env::vars_os() {
            if name.as_encoded_bytes().starts_with(b"QUAVER_PROBES") {
                command.env_remove(name);
            }
        }
        match variant {
            Variant::Reassembled => command.env("QUAVER_PROBES_REASSEMBLE", "1"),
            Variant::Control => command.env("QUAVER_PROBES", "off"),
            _ => command.env("QUAVER_PROBES_REPORT", place.join("report")),
        };
        let output = place.join(variant.name());
        command.args(&build.source.flags).args([build.level, "-w", "-I"]).arg(self.folder.path());
        command.arg("-o").arg(&output).arg(source_in(build, place));
        if variant == Variant::Probes {
            command.args(&self.torture).arg("-ldl");
        }
        command.args(["-pthread", "-lm"]);
        complete(&mut command)?;
        Ok(output)
    }
}

/// The file of a build's source.
pub fn source_in(build: &Build, place: &Path) -> PathBuf {
    let extension = if build.source.language == Language::C { "c" } else { "cpp" };
    place.join(&build.source.name).with_extension(extension)
}

/// Runs it to its end.
fn complete(command: &mut Command) -> Result<()> {
    crate::torture::shimmed::launch::end_with_parent(command);
    let result = command.stdin(Stdio::null()).output();
    let named = |what: &str| {
        let words: Vec<_> = command.get_args().map(|word| word.to_string_lossy()).collect();
        format!("{} {}: {what}", command.get_program().display(), words.join(" "))
    };
    let output = result.map_err(|error| Error::new(error.kind(), named(&error.to_string())))?;
    if output.status.success() {
        return Ok(());
    }
    let message = String::from_utf8_lossy(&output.stderr);
    let first: Vec<_> = message.lines().take(5).collect();
    Err(Error::other(named(&format!("{}: {}", output.status, first.join("; ")))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compilers_for_cpp_are_of_the_same_family() {
        let cpp = |name| for_language(name, Language::Cpp);
        assert_eq!(
            (cpp("gcc-13"), cpp("/opt/clang-19")),
            ("g++-13".into(), "/opt/clang++-19".into())
        );
        assert_eq!((cpp("cc"), cpp("clang")), ("c++".into(), "clang++".into()));
        assert_eq!(for_language("gcc-13", Language::C), "gcc-13");
    }
}
