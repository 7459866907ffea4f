//! A `quaver lockd` for one program, where nobody has started one for all.
//!
//! It watches the process that is to become the program, and ends soon after it. It is nobody's
//! child, so the program does not find a child that it has not started; and it lives in a session
//! of its own, so signals for the program's group do not end it.

use anyhow::{Context, bail};
use quaver_lock::monitor;
use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Where sockets are: any user's program may look there, and only root, who may load the kernel
/// program, may write there.
const FOLDER: &str = "/run";
const PREFIX: &str = "quaver-lock-";

/// Starts it; returns its socket, at which it answers.
///
/// # Errors
///
/// It may not, cannot, or does not answer in time.
pub(super) fn start() -> anyhow::Result<PathBuf> {
    if !monitor::built() {
        bail!("built without the kernel program (install clang and build again)");
    }
    let me = std::process::id();
    let folder = if rights(Path::new(FOLDER)) { FOLDER.into() } else { std::env::temp_dir() };
    sweep(&folder);
    let socket = folder.join(format!("{PREFIX}{me}.sock"));
    // Its messages, if it cannot start; nobody reads them later.
    let mut said = tempfile::tempfile().context("no place for a temporary file")?;
    let mut command = Command::new(std::env::current_exe().context("cannot find this program")?);
    command
        .args(["lockd", "--socket"])
        .arg(&socket)
        .args(["--for-process", &me.to_string()])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(said.try_clone()?);
    // SAFETY: system calls only, between fork and exec.
    unsafe {
        command.pre_exec(|| {
            libc::setsid();
            match libc::fork() {
                -1 => Err(std::io::Error::last_os_error()),
                0 => Ok(()),
                // The child is nobody's when its parent ends.
                _ => libc::_exit(0),
            }
        });
    }
    command.spawn().and_then(|mut first| first.wait()).context("cannot start lockd")?;
    wait(&socket, &mut said)?;
    Ok(socket)
}

fn rights(folder: &Path) -> bool {
    rustix::fs::access(folder, rustix::fs::Access::WRITE_OK).is_ok()
}

/// Waits until lockd answers, or has said why it does not.
fn wait(socket: &Path, said: &mut File) -> anyhow::Result<()> {
    let begun = Instant::now();
    loop {
        if monitor::answers(socket) {
            return Ok(());
        }
        let message = read(said);
        // A line is written at once.
        if message.ends_with('\n') {
            bail!("no monitor: {}", message.trim().trim_start_matches("quaver: "));
        }
        if begun.elapsed() > Duration::from_secs(5) {
            bail!("no monitor: lockd does not answer at {}", socket.display());
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn read(file: &File) -> String {
    use std::os::unix::fs::FileExt;
    let mut buffer = [0; 1024];
    let length = file.read_at(&mut buffer, 0).unwrap_or(0);
    String::from_utf8_lossy(&buffer[..length]).into_owned()
}

/// Removes what killed ones have left.
fn sweep(folder: &Path) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let Some(rest) = name.to_str().and_then(|n| n.strip_prefix(PREFIX)) else { continue };
        let pid: String = rest.chars().take_while(char::is_ascii_digit).collect();
        let dead = !pid.is_empty() && !Path::new("/proc").join(pid).exists();
        if dead && (rest.ends_with(".sock") || rest.ends_with(".sock.lock")) {
            let _ = fs::remove_file(entry.path());
        }
    }
}
