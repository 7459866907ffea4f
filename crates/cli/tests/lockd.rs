//! `quaver lockd` as users and scripts call it. Skipped where the kernel program cannot be loaded.

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use quaver_lock::monitor::{self, Host, Source};
use rustix::process::{Pid, Signal, kill_process};

fn lockd(socket: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quaver"));
    command.arg("lockd").arg("--socket").arg(socket);
    command
}

/// Waits until it serves.
fn start(socket: &Path) -> Child {
    let mut child = lockd(socket).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, format!("lockd: serving at {}\n", socket.display()));
    child
}

fn place() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("lockd.sock");
    (dir, socket)
}

#[test]
fn it_serves_until_a_signal_and_leaves_no_socket() {
    if let Err(e) = Host::load() {
        return eprintln!("skipped: {e}");
    }
    let (dir, socket) = place();
    let mut killed = start(&socket);
    killed.kill().unwrap();
    killed.wait().unwrap();
    assert!(socket.exists());
    let mut next = start(&socket);
    let second = lockd(&socket).output().unwrap();
    assert_eq!(second.status.code(), Some(1));
    let said = String::from_utf8(second.stderr).unwrap();
    assert!(said.contains("another lockd serves"), "{said}");
    // SAFETY: the only test of this program that reads or writes the environment meanwhile.
    unsafe { std::env::set_var("QUAVER_LOCKD", &socket) };
    assert_eq!(monitor::attach().unwrap(), Source::Lockd);
    kill_process(Pid::from_child(&next), Signal::TERM).unwrap();
    assert_eq!(next.wait().unwrap().code(), Some(0));
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "something is left");
}

#[test]
fn without_rights_it_says_which_it_needs() {
    if !rustix::process::geteuid().is_root() {
        return eprintln!("skipped: only root can give up rights");
    }
    if !monitor::built() {
        return eprintln!("skipped: built without clang");
    }
    let (dir, socket) = place();
    // Everyone may write there, and may not load programs.
    let everyone = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(dir.path(), everyone).unwrap();
    let mut command = lockd(&socket);
    // SAFETY: one system call between fork and exec.
    unsafe {
        command.pre_exec(|| match libc::setresuid(65534, 65534, 65534) {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        });
    }
    let output = command.output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("CAP_BPF") || said.contains("no BTF"), "{said}");
    assert!(!socket.exists());
}
