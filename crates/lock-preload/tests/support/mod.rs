//! C programs, run natively and with the library.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The library that is tested: cargo puts it beside the tests.
pub fn library() -> PathBuf {
    let me = std::env::current_exe().expect("this program");
    let folder = me.parent().expect("in a folder");
    let path = folder.join("libquaver_lock_preload.so");
    assert!(path.is_file(), "{} is not built", path.display());
    path
}

/// Compiles `tests/programs/NAME.c` as NAME, a program, or as NAME.so, or as NAME.unwound, whose
/// cleanup handlers are run by the unwinder; `None`, which it has said: there is no C compiler.
pub fn program(name: &str) -> Option<PathBuf> {
    let to = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let (name, more) = match name.split_once('.') {
        Some((name, "so")) => (name, &["-shared", "-fPIC"][..]),
        Some((name, _)) => (name, &["-fexceptions"][..]),
        None => (name, &[][..]),
    };
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/programs/{name}.c"));
    let compiled = Command::new("cc")
        .args(more)
        .args(["-std=gnu11", "-O2", "-g", "-Wall", "-Wextra", "-Werror"])
        .arg(&source)
        .arg("-o")
        .arg(&to)
        .arg("-lpthread")
        .output();
    match compiled {
        Err(e) => {
            eprintln!("skipped: no C compiler: {e}");
            None
        }
        Ok(compiled) => {
            let said = String::from_utf8_lossy(&compiled.stderr);
            assert!(compiled.status.success(), "{name}: {said}");
            Some(to)
        }
    }
}

/// The command that runs a program with the library; it looks for lockd at `lockd`.
pub fn preloaded(program: &Path, lockd: Option<&Path>) -> Command {
    let mut command = Command::new(program);
    command.env("LD_PRELOAD", library());
    match lockd {
        Some(socket) => command.env("QUAVER_LOCKD", socket),
        None => command.env("QUAVER_LOCK_MONITOR", "none"),
    };
    command
}

/// What it wrote; it must end well.
pub fn said(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().expect("it starts");
    let (out, err) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(status.success(), "{command:?}: {status}\n{out}{err}");
    assert_eq!(err, "", "{command:?}");
    out.into_owned()
}
