//! The interface for C: a C program with the header, linked with either library.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where cargo has put the libraries: beside the tests.
fn libraries() -> PathBuf {
    let me = std::env::current_exe().expect("this program");
    me.parent().expect("in a directory").to_path_buf()
}

fn build_and_run(name: &str, link: &[String]) {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let compiled = Command::new("cc")
        .args(["-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", "-I"])
        .arg(here.join("include"))
        .arg(here.join("tests/use.c"))
        .arg("-o")
        .arg(&program)
        .args(link)
        .output();
    let compiled = match compiled {
        Ok(compiled) => compiled,
        Err(e) => return eprintln!("skipped: no C compiler: {e}"),
    };
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    // With whatever rights we have, and with none.
    // SAFETY: no arguments.
    let root = unsafe { libc::geteuid() } == 0;
    for user in [None, root.then_some(65534)] {
        let mut command = Command::new(&program);
        command.env("QUAVER_LOCKD", "/nonexistent");
        if let Some(user) = user {
            std::os::unix::process::CommandExt::uid(&mut command, user);
        }
        let output = match command.output() {
            Err(e) if user.is_some() && e.kind() == ErrorKind::PermissionDenied => {
                return eprintln!("half skipped: only its owner reaches {}", program.display());
            }
            output => output.expect("runs"),
        };
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{:?} {said}", output.status);
        assert!(said.starts_with("120000 "), "{said}");
    }
}

#[test]
fn with_the_static_library() {
    let library = libraries().join("libquaver_lock.a");
    let system = ["-lpthread", "-ldl", "-lm", "-lgcc_s"].map(String::from);
    build_and_run("use-static", &[&[library.display().to_string()][..], &system].concat());
}

#[test]
fn with_the_shared_library() {
    let path = libraries().display().to_string();
    let link = [format!("-L{path}"), format!("-Wl,-rpath,{path}"), "-lquaver_lock".into()];
    build_and_run("use-shared", &[&link[..], &["-lpthread".into()]].concat());
}
