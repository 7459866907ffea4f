//! A kernel that does not describe its types, and one that does not take the program: locks work,
//! and say why they block early.
#![cfg(feature = "host")]

#[allow(dead_code, unused_imports, reason = "these tests need few of them")]
mod common;

use common::{is_actor, role};
use quaver_lock::{Mutex, monitor};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

#[test]
#[ignore = "a role"]
fn role_says_why() {
    if is_actor() {
        println!("\nsaid {}", monitor::attach().expect_err("something is missing"));
        let total = Mutex::new(0);
        std::thread::scope(|s| {
            for _ in 0..4 {
                s.spawn(|| (0..1000).for_each(|_| *total.lock() += 1));
            }
        });
        println!("\ncounted {}", *total.lock());
    }
}

/// Root, and a program to load?
fn may_load() -> bool {
    // SAFETY: no arguments.
    let root = unsafe { libc::geteuid() } == 0;
    if !root || !monitor::built() {
        eprintln!("skipped: not root, or no clang");
        return false;
    }
    true
}

/// Runs it; what it says has `why`.
fn says(mut command: Command, why: &str) {
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let told = String::from_utf8_lossy(&output.stderr);
    if told.contains("unshare") || told.contains("mount") {
        return eprintln!("skipped: {told}");
    }
    assert!(said.contains("no lockd at"), "{said}\n{told}");
    assert!(said.contains(why), "{said}\n{told}");
    assert!(said.contains("counted 4000"), "{said}\n{told}");
}

#[test]
fn a_kernel_without_btf() {
    if !may_load() || !Path::new("/sys/kernel/btf/vmlinux").exists() {
        return;
    }
    let inner = role("role_says_why", Path::new("/nowhere/lockd.sock"));
    let mut command = Command::new("unshare");
    let hide = "mount -t tmpfs none /sys/kernel/btf && exec \"$0\" \"$@\"";
    command.args(["--mount", "sh", "-c", hide]).arg(inner.get_program()).args(inner.get_args());
    command.envs(inner.get_envs().filter_map(|(k, v)| Some((k, v?))));
    says(command, "the kernel has no BTF in /sys/kernel/btf/vmlinux (CONFIG_DEBUG_INFO_BTF)");
}

/// As a kernel does whose verifier does not like the program: each load fails.
fn refuse_programs() -> std::io::Result<()> {
    const BPF_PROG_LOAD: u32 = 5;
    let load =
        |at: u32| (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16 as u64 | u64::from(at) << 32;
    let equal = |value: u32, otherwise: u64| {
        (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u64
            | otherwise << 24
            | u64::from(value) << 32
    };
    let give = |value: u32| (libc::BPF_RET | libc::BPF_K) as u64 | u64::from(value) << 32;
    // The number is at 0 of what the filter sees, the first argument at 16.
    let filter = [
        load(0),
        equal(libc::SYS_bpf as u32, 3),
        load(16),
        equal(BPF_PROG_LOAD, 1),
        give(libc::SECCOMP_RET_ERRNO | libc::EINVAL as u32),
        give(libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_ptr() as *mut _ };
    // SAFETY: instructions as the kernel has them, 8 bytes each; both live during the call.
    let result = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program)
    };
    if result == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}

#[test]
fn a_kernel_that_refuses_the_program() {
    if !may_load() || !Path::new("/sys/kernel/btf/vmlinux").exists() {
        return;
    }
    let mut command = role("role_says_why", Path::new("/nowhere/lockd.sock"));
    // SAFETY: two system calls between fork and exec.
    unsafe { command.pre_exec(refuse_programs) };
    says(command, "the kernel refuses the program");
}
