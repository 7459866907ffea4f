//! `fork` and `exec` on user threads.

use crate::setups;
use crate::support::{Setup, full, spin, until};
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst};

/// `fork` and `exec` by way of the standard library, with and without code that runs between them.
#[test]
fn commands_work_on_user_threads() {
    for setup in setups() {
        setup.run(|| {
            let finished = AtomicUsize::new(0);
            quaver::scope(|s| {
                for i in 0..3 {
                    let finished = &finished;
                    s.spawn(move || {
                        for k in 0..if full() { 20 } else { 4 } {
                            let mut command = Command::new("cat");
                            command.stdin(Stdio::piped()).stdout(Stdio::piped());
                            if k % 2 == 0 {
                                // SAFETY: allowed between fork and exec.
                                unsafe {
                                    command.pre_exec(|| {
                                        libc::umask(0o77);
                                        Ok(())
                                    })
                                };
                            }
                            let mut child = command.spawn().unwrap();
                            let message = format!("{i} {k}").repeat(1_000);
                            let mut stdin = child.stdin.take().unwrap();
                            let sent = message.clone();
                            let writer =
                                quaver::spawn(move || stdin.write_all(sent.as_bytes()).unwrap());
                            let output = child.wait_with_output().unwrap();
                            writer.join().unwrap();
                            assert!(
                                output.status.success() && output.stdout == message.into_bytes()
                            );
                        }
                        finished.fetch_add(1, SeqCst);
                    });
                }
                until(|| finished.load(SeqCst) == 3, |_| _ = spin(500));
            });
        });
    }
    let e =
        Setup::clocks(1)[0].run(|| Command::new("/does/not/exist").spawn().map(drop).unwrap_err());
    assert_eq!(e.kind(), std::io::ErrorKind::NotFound);
}

/// A plain `fork` on a user thread: the child has that thread alone.
#[test]
fn fork_works_on_user_threads() {
    static IN_PARENT: AtomicU64 = AtomicU64::new(0);
    for setup in setups() {
        setup.run(|| {
            let finished = AtomicUsize::new(0);
            quaver::scope(|s| {
                for i in 0..2 {
                    let finished = &finished;
                    s.spawn(move || {
                        for k in 0..10 {
                            let code = i * 10 + k;
                            // SAFETY: the child computes and exits.
                            let pid = unsafe { libc::fork() };
                            assert!(pid >= 0);
                            if pid == 0 {
                                let sum = spin(20_000) & 0 | code;
                                // SAFETY: ends the child at once.
                                unsafe { libc::_exit(sum as i32) };
                            }
                            IN_PARENT.fetch_add(1, SeqCst);
                            let mut status = 0;
                            // SAFETY: our own child.
                            assert_eq!(unsafe { libc::waitpid(pid, &mut status, 0) }, pid);
                            assert!(libc::WIFEXITED(status), "{status:#x}");
                            assert_eq!(libc::WEXITSTATUS(status) as u64, code);
                        }
                        finished.fetch_add(1, SeqCst);
                    });
                }
                until(|| finished.load(SeqCst) == 2, |_| _ = spin(500));
            });
        });
    }
}
