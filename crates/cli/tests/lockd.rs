//! `quaver lockd` as users and scripts call it. Skipped where the kernel program cannot be loaded.

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

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

/// Four threads that compute for a second.
const BUSY: &str = r#"
#include <pthread.h>
#include <time.h>
static long now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000L + t.tv_nsec;
}
static void *compute(void *until)
{
    while (now() < *(long *)until)
        ;
    return 0;
}
int main(void)
{
    long until = now() + 1000000000;
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], 0, compute, &until);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], 0);
}
"#;

/// Runs it on the first two CPUs, and takes the first one away from it for half a second. What it
/// said, and how many waiting threads were given to the other worker.
fn lose_a_cpu(program: &Path, socket: &Path, setting: &str) -> (String, u64) {
    let stats = program.with_extension("json");
    let mut command = Command::new(env!("CARGO_BIN_EXE_quaver"));
    command.args(["run", "--set", setting, "--cpus", "0,1", "--policy", "ws"]);
    // Within the half second workers do not even out what they have.
    command.args(["--quantum", "20ms", "--stats-json"]).arg(&stats).arg("--").arg(program);
    let running = command.env("QUAVER_LOCKD", socket).stderr(Stdio::piped()).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(300));
    let mut hog = Command::new("sh");
    hog.args(["-c", "while :; do :; done"]);
    // SAFETY: system calls between fork and exec.
    unsafe {
        hog.pre_exec(|| {
            let mut first: libc::cpu_set_t = std::mem::zeroed();
            libc::CPU_SET(0, &mut first);
            libc::sched_setaffinity(0, size_of_val(&first), &first);
            let parameter = libc::sched_param { sched_priority: 1 };
            libc::sched_setscheduler(0, libc::SCHED_FIFO, &parameter);
            Ok(())
        });
    }
    let mut hog = hog.spawn().unwrap();
    std::thread::sleep(Duration::from_millis(500));
    hog.kill().unwrap();
    hog.wait().unwrap();
    let output = running.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let stats: serde_json::Value =
        serde_json::from_slice(&std::fs::read(stats).unwrap()).expect("one line");
    let count = stats["taken_over"].as_u64().expect("a counter");
    (String::from_utf8(output.stderr).unwrap(), count)
}

#[test]
fn it_tells_unmodified_programs_of_workers_that_lose_their_cpus() {
    if let Err(e) = Host::load() {
        return eprintln!("skipped: {e}");
    }
    if std::thread::available_parallelism().unwrap().get() < 2 {
        return eprintln!("skipped: only one CPU");
    }
    let (dir, socket) = place();
    let program = dir.path().join("busy");
    let source = program.with_extension("c");
    std::fs::write(&source, BUSY).unwrap();
    let built = Command::new("cc").arg("-O1").arg("-o").arg(&program).arg(&source).status();
    assert!(built.unwrap().success());
    let (said, count) = lose_a_cpu(&program, &socket, "monitor=yes");
    assert!(said.contains("no lockd at") && count == 0, "{count}: {said}");
    let mut lockd = start(&socket);
    let (said, count) = lose_a_cpu(&program, &socket, "monitor=no");
    assert_eq!((said.as_str(), count), ("", 0));
    let (said, count) = lose_a_cpu(&program, &socket, "monitor=yes");
    assert!(said.is_empty() && count > 0, "{count}: {said}");
    kill_process(Pid::from_child(&lockd), Signal::TERM).unwrap();
    lockd.wait().unwrap();
}
