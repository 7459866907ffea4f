//! Which programs can be run: dynamically linked ones for x86-64 and glibc, without raised
//! privileges.

use anyhow::{Context, bail};
use object::LittleEndian;
use object::elf::{EM_X86_64, FileHeader64, PT_INTERP};
use object::read::elf::{FileHeader, ProgramHeader};
use std::ffi::OsStr;
use std::fs;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// There is nothing to run.
#[derive(Debug, thiserror::Error)]
pub enum NotFound {
    /// There is no such file.
    #[error("there is no program {0}")]
    Nowhere(String),
    /// It is a directory, or may not be executed.
    #[error("{0} is not a program")]
    NoProgram(String),
}

/// The file that the shell would run for `name`.
///
/// # Errors
///
/// There is none.
pub fn find(name: &OsStr) -> Result<PathBuf, NotFound> {
    let runnable =
        |p: &Path| p.metadata().is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0);
    if name.as_bytes().contains(&b'/') {
        let path = PathBuf::from(name);
        let shown = || path.display().to_string();
        return match (runnable(&path), path.exists()) {
            (true, _) => Ok(path),
            (false, true) => Err(NotFound::NoProgram(shown())),
            (false, false) => Err(NotFound::Nowhere(shown())),
        };
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|d| d.join(name)).find(|p| runnable(p));
    found.ok_or_else(|| NotFound::Nowhere(format!("{} in PATH", name.display())))
}

/// Says why the program cannot be run with its threads as user threads, if so.
///
/// # Errors
///
/// That.
pub fn check(path: &Path) -> anyhow::Result<()> {
    check_for(path, "cannot run on user threads")
}

/// [`check`], for another use of `LD_PRELOAD`; `cannot` says which is not possible.
pub(crate) fn check_for(path: &Path, cannot: &str) -> anyhow::Result<()> {
    check_file(path, cannot, 0)
}

fn check_file(path: &Path, cannot: &str, depth: u32) -> anyhow::Result<()> {
    let name = path.display();
    let file = fs::File::open(path).with_context(|| format!("cannot read {name}"))?;
    let mode = file.metadata()?.permissions().mode();
    if mode & 0o6000 != 0 {
        bail!(
            "{name} runs with its owner's rights (setuid or setgid), so the system ignores \
             LD_PRELOAD"
        );
    }
    let mut head = Vec::new();
    file.take(64 * 1024).read_to_end(&mut head).with_context(|| format!("cannot read {name}"))?;
    if let Some(line) = head.strip_prefix(b"#!") {
        let end = line.iter().position(|&c| c == b'\n').unwrap_or(line.len());
        let line = String::from_utf8_lossy(&line[..end]);
        let interpreter = line.split_whitespace().next().unwrap_or_default();
        if depth >= 4 {
            bail!("{name} is a script of a script of a script");
        }
        return check_file(Path::new(interpreter), cannot, depth + 1)
            .with_context(|| format!("{name} is a script for {interpreter}"));
    }
    check_elf(&head).with_context(|| format!("{name} {cannot}"))
}

/// Looks at the first bytes of an ELF file.
fn check_elf(head: &[u8]) -> anyhow::Result<()> {
    let Ok(elf) = FileHeader64::<LittleEndian>::parse(head) else {
        bail!("it is not a 64-bit ELF program");
    };
    if elf.e_machine(LittleEndian) != EM_X86_64 {
        bail!("it is not for x86-64");
    }
    let segments =
        elf.program_headers(LittleEndian, head).ok().context("its headers are damaged")?;
    let interpreter = segments
        .iter()
        .find(|s| s.p_type(LittleEndian) == PT_INTERP)
        .and_then(|s| s.data(LittleEndian, head).ok());
    let Some(interpreter) = interpreter else {
        bail!(
            "it is linked statically, so its pthread functions cannot be replaced; link it \
             dynamically"
        );
    };
    let interpreter = String::from_utf8_lossy(interpreter);
    let interpreter = interpreter.trim_end_matches('\0');
    if !interpreter.ends_with("ld-linux-x86-64.so.2") {
        bail!("it is not for glibc: its dynamic loader is {interpreter}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_and_judged() {
        let sh = find(OsStr::new("sh")).unwrap();
        check(&sh).unwrap();
        let e = find(OsStr::new("no-such-program")).unwrap_err().to_string();
        assert!(e.contains("no-such-program") && e.contains("PATH"), "{e}");
        assert!(
            find(OsStr::new("./Cargo.toml")).unwrap_err().to_string().contains("not a program")
        );
    }

    fn judge(content: &[u8]) -> String {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("program");
        fs::write(&path, content).unwrap();
        format!("{:#}", check(&path).unwrap_err())
    }

    #[test]
    fn what_cannot_run_is_named() {
        assert!(judge(b"hello").contains("not a 64-bit ELF program"));
        let script = judge(b"#!/no/such/interpreter -x\n");
        assert!(script.contains("script for /no/such/interpreter"), "{script}");
        let mut elf = vec![0u8; 64];
        elf[..6].copy_from_slice(b"\x7fELF\x02\x01");
        elf[6] = 1;
        elf[18] = 183; // AArch64
        elf[20] = 1;
        elf[52] = 64;
        assert!(judge(&elf).contains("not for x86-64"));
        elf[18] = 62;
        assert!(judge(&elf).contains("linked statically"));
    }
}
