//! `quaver share` as users and scripts call it.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use quaver_share::broker::Status;
use rustix::process::{Pid, Signal, kill_process};

/// The user who has no rights.
const NOBODY: u32 = 65534;

/// A directory with the broker's socket.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Place {
        let folder = tempfile::tempdir().unwrap();
        // Everyone may come in.
        std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o777)).unwrap();
        Place(folder)
    }

    fn socket(&self) -> PathBuf {
        self.0.path().join("share.sock")
    }

    fn share(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_quaver"));
        command.arg("share").args(words).env("QUAVER_SHARE_SOCKET", self.socket());
        command
    }

    fn broker(&self, words: &[&str]) -> Running {
        self.begin(self.share(&[&["--cpus", &cpu().to_string()], words].concat()))
    }

    /// Waits until the broker serves.
    fn begin(&self, mut command: Command) -> Running {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let expected = format!("serving at {}\n", self.socket().display());
        let running = Running(child);
        assert!(line.starts_with("share: CPUs ") && line.ends_with(&expected), "{line}");
        running
    }

    fn status(&self) -> Status {
        let output = self.share(&["status", "--json"]).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        serde_json::from_slice(&output.stdout).unwrap()
    }

    fn files(&self) -> usize {
        std::fs::read_dir(self.0.path()).unwrap().count()
    }
}

/// A process that is killed when the test is over.
struct Running(Child);

impl Running {
    /// Asks it to end; its exit code.
    fn end(mut self, signal: Signal) -> Option<i32> {
        kill_process(Pid::from_child(&self.0), signal).unwrap();
        self.0.wait().unwrap().code()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The first CPU that this process may use.
fn cpu() -> usize {
    let set = rustix::thread::sched_getaffinity(None).unwrap();
    (0..).find(|&cpu| set.is_set(cpu)).unwrap()
}

fn soon(what: &str, mut happens: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !happens() {
        assert!(begun.elapsed() < Duration::from_secs(60), "not so: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The command, run without rights.
fn as_nobody(mut command: Command) -> Command {
    // SAFETY: one system call between fork and exec.
    unsafe {
        command.pre_exec(|| match libc::setresuid(NOBODY, NOBODY, NOBODY) {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        });
    }
    command
}

#[track_caller]
fn refused(output: &Output, code: i32, said: &str) {
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(code) && text.contains(said), "{output:?}");
}

#[test]
fn it_serves_until_a_signal_and_leaves_nothing() {
    let place = Place::new();
    let mut killed = place.broker(&[]);
    killed.0.kill().unwrap();
    killed.0.wait().unwrap();
    assert!(place.socket().exists());
    let next = place.broker(&["--policy", "weights", "--bound", "20us", "--cycle", "9us"]);
    let second = place.share(&["--cpus", &cpu().to_string()]).output().unwrap();
    refused(&second, 1, "another broker serves");
    let status = place.status();
    assert_eq!((status.pid, status.policy.as_str()), (next.0.id(), "weights"));
    assert!((status.cycle_us - 9.0).abs() < 0.1, "{}", status.cycle_us);
    assert_eq!((status.bound_us, status.cores.len(), status.cores[0].cpu), (20.0, 1, cpu()));
    assert_eq!(next.end(Signal::INT), Some(0));
    assert_eq!(place.files(), 0, "something is left");
}

#[test]
fn a_program_is_bound_and_shown_until_it_ends() {
    let place = Place::new();
    let broker = place.broker(&[]);
    let words = ["run", "--weight", "7", "--", "sh", "-c", "sleep 1000; true"];
    let program = Running(place.share(&words).process_group(0).spawn().unwrap());
    soon("it has joined", || place.status().applications.len() == 1);
    let app = &place.status().applications[0];
    assert_eq!((app.name.as_str(), app.role.as_str()), ("sh", "be"));
    assert_eq!((app.pid as u32, app.weight, app.plain), (program.0.id(), 7, true));
    let shown = place.share(&["status"]).output().unwrap();
    let text = String::from_utf8(shown.stdout).unwrap();
    assert!(text.contains(&format!("cpu {}", cpu())) && text.contains("sh "), "{text}");
    let tid = Pid::from_child(&program.0);
    let allowed = rustix::thread::sched_getaffinity(Some(tid)).unwrap();
    assert!(allowed.count() == 1 && allowed.is_set(cpu()));
    // What it starts belongs to it.
    rustix::process::kill_process_group(tid, Signal::KILL).unwrap();
    soon("it has gone", || place.status().applications.is_empty());
    assert_eq!(broker.end(Signal::TERM), Some(0));
}

#[test]
fn a_program_keeps_its_exit_code_and_what_cannot_run_is_named() {
    let place = Place::new();
    let _broker = place.broker(&[]);
    let run = |words: &[&str]| place.share(words).output().unwrap();
    assert_eq!(run(&["run", "--", "sh", "-c", "exit 42"]).status.code(), Some(42));
    refused(&run(&["run", "--", "no-such-program"]), 127, "no-such-program");
    refused(&run(&["run", "--", "/etc/passwd"]), 126, "not a program");
    refused(&run(&["run"]), 125, "PROGRAM");
    for weight in ["0", "1001", "x", "-1"] {
        refused(&run(&["run", "--weight", weight, "--", "true"]), 125, "weight");
    }
}

#[test]
fn bad_options_are_named_and_nothing_is_made() {
    let place = Place::new();
    let cpu = cpu().to_string();
    let share = |words: &[&str]| place.share(words).output().unwrap();
    refused(&share(&[]), 2, "--cpus");
    refused(&share(&["--cpus", "0-"]), 1, "--cpus 0-: `0-`");
    refused(&share(&["--cpus", &format!("{cpu},{cpu}")]), 1, "twice");
    refused(&share(&["--cpus", ""]), 1, "0 CPUs");
    refused(&share(&["--cpus", "5000"]), 1, "CPU 5000");
    refused(&share(&["--cpus", &cpu, "--guard", &cpu]), 1, "the guard spins there");
    refused(&share(&["--cpus", &cpu, "--policy", "lottery"]), 2, "shenango");
    refused(&share(&["--cpus", &cpu, "--budget", "0"]), 2, "budget");
    refused(&share(&["--cpus", &cpu, "--bound", "5"]), 2, "unit");
    let folder = place.0.path().to_str().unwrap();
    refused(&share(&["--cpus", &cpu, "--socket", &format!("{folder}/no/x")]), 1, "cannot listen");
    assert_eq!(place.files(), 0, "something is left");
}

#[test]
fn without_a_broker_it_says_how_to_start_one() {
    let place = Place::new();
    refused(&place.share(&["status"]).output().unwrap(), 1, "quaver share --cpus");
    refused(&place.share(&["run", "--", "true"]).output().unwrap(), 125, "quaver share --cpus");
    // A path that is something else stays what it is.
    std::fs::write(place.socket(), "precious").unwrap();
    let output = place.share(&["--cpus", &cpu().to_string()]).output().unwrap();
    refused(&output, 1, "cannot listen at");
    assert_eq!(std::fs::read(place.socket()).unwrap(), b"precious");
}

#[test]
fn strangers_may_look_and_not_join_unless_they_are_listed() {
    if !rustix::process::geteuid().is_root() {
        return eprintln!("skipped: only root can be somebody else");
    }
    let place = Place::new();
    let run = || as_nobody(place.share(&["run", "--", "true"])).output().unwrap();
    let broker = place.broker(&[]);
    refused(&run(), 125, "user 65534 may not join (--users)");
    assert!(as_nobody(place.share(&["status"])).status().unwrap().success());
    broker.end(Signal::TERM);
    let _broker = place.broker(&["--users", "1,65534"]);
    assert!(run().status.success());
}

#[test]
fn without_rights_it_binds_as_it_can_and_says_so() {
    if !rustix::process::geteuid().is_root() {
        return eprintln!("skipped: only root can give up rights");
    }
    let place = Place::new();
    let cpu = cpu().to_string();
    let wanted = place.share(&["--cpus", &cpu, "--binding", "fifo"]);
    refused(&as_nobody(wanted).output().unwrap(), 1, "CAP_SYS_NICE");
    let _broker = place.begin(as_nobody(place.share(&["--cpus", &cpu])));
    let status = place.status();
    assert_eq!(status.binding, "idle");
    assert!(status.notes.iter().any(|note| note.contains("CAP_SYS_NICE")), "{status:?}");
    let run = as_nobody(place.share(&["run", "--", "true"])).output().unwrap();
    assert!(run.status.success(), "{run:?}");
    // Nobody's broker cannot move root's programs.
    refused(&place.share(&["run", "--", "true"]).output().unwrap(), 125, "cannot bind it");
}

#[test]
fn run_takes_a_role_and_names_a_bad_one() {
    let place = Place::new();
    let run = |role: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_quaver"));
        command.args(["run", "--share", role, "--", "true"]);
        command.env("QUAVER_SHARE_SOCKET", place.socket()).output().unwrap()
    };
    refused(&run("vip"), 125, "expected lc or be");
    refused(&run("be:0"), 125, "weight from 1 to 1000");
}

#[test]
fn a_run_queue_is_made_on_demand_for_the_own_user() {
    let place = Place::new();
    let broker = place.broker(&[]);
    assert_eq!(place.status().queue, None);
    let at = place.socket().to_str().unwrap().to_owned();
    let membership = || quaver_sched::share::Membership::common().at(at.clone());
    let error = quaver_share::common_queue(&membership()).unwrap_err().to_string();
    assert!(error.contains("--queue POLICY"), "{error}");
    broker.end(Signal::TERM);
    let wrong = place.share(&["--cpus", &cpu().to_string(), "--queue", "lottery"]);
    refused(&{ wrong }.output().unwrap(), 2, "lottery");
    let broker = place.broker(&["--queue", "rr:quantum=100us"]);
    let file = quaver_share::common_queue(&membership()).unwrap();
    let part = quaver_share::common::Common::join(file).unwrap();
    let queue = place.status().queue.expect("there is one");
    assert_eq!(queue.policy, "rr:quantum=100us");
    let pids: Vec<u32> = queue.applications.iter().map(|member| member.pid).collect();
    assert_eq!(pids, [std::process::id()]);
    let text = place.share(&["status", "--once"]).output().unwrap().stdout;
    assert!(String::from_utf8(text).unwrap().contains("queue rr:quantum=100us"));
    drop(part);
    assert!(place.status().queue.unwrap().applications.is_empty());
    if rustix::process::geteuid().is_root() {
        broker.end(Signal::TERM);
        let _broker =
            place.begin(as_nobody(place.share(&["--cpus", &cpu().to_string(), "--queue", "rr"])));
        let error = quaver_share::common_queue(&membership()).unwrap_err().to_string();
        assert!(error.contains("not the owner"), "{error}");
    }
}

/// Everything above is done at a path of its own.
#[test]
fn the_usual_path_is_documented() {
    let help = Command::new(env!("CARGO_BIN_EXE_quaver"))
        .args(["share", "--help"])
        .env_remove("QUAVER_SHARE_SOCKET")
        .output()
        .unwrap();
    assert!(Path::new(quaver_share::SOCKET).is_absolute());
    assert!(String::from_utf8(help.stdout).unwrap().contains(quaver_share::SOCKET));
}
