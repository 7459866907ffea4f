//! Preemption by emulated user interrupts: the entry, the frame and the way back are those of
//! hardware. `QUAVER_TEST_NOTIFICATION=user-interrupt`: by real ones, in the virtual machine of
//! `vm/`.

mod support;

use quaver::{Builder, Clock, Notification};
use std::time::Duration;
use support::{child, on_runtime};

fn notification() -> Notification {
    match std::env::var(support::setup::NOTIFICATION) {
        Ok(name) => name.parse().unwrap(),
        Err(_) => Notification::EmulatedUserInterrupt,
    }
}

fn builder(clock: Clock, workers: usize) -> Builder {
    Builder::new()
        .notification(notification())
        .clock(clock)
        .workers(workers)
        .pin(clock == Clock::DelegatedTimer)
        .quantum(Some(Duration::from_micros(200)))
}

/// Vector and general registers at work.
fn compute(seed: u64) -> u64 {
    let mut x = [1.0f64 + seed as f64; 16];
    let mut hash = seed | 1;
    for i in 0..2_000u64 {
        x.iter_mut().enumerate().for_each(|(k, v)| *v = *v * 1.000_1 + k as f64 / 3.0);
        hash = hash.rotate_left(7).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ i;
    }
    x.iter().fold(hash, |a, v| a.rotate_left(9) ^ v.to_bits())
}

#[test]
fn results_are_those_of_an_undisturbed_run() {
    let expected: Vec<u64> = (0..4).map(compute).collect();
    for (clock, workers) in
        [(Clock::TimerThread, 1), (Clock::TimerThread, 2), (Clock::DelegatedTimer, 1)]
    {
        on_runtime(builder(clock, workers), || {
            let stats = || quaver::Handle::current().unwrap().stats();
            // Where an interruption takes a microsecond, at more instructions.
            let count = if notification() == Notification::UserInterrupt { 2_000 } else { 200 };
            compute_until(count, &expected);
            assert!(stats().preempt_by_user_interrupt >= count / 2, "{:?}", stats());
        });
    }
}

/// Ends when `count` preemptions have been useful.
fn compute_until(count: u64, expected: &[u64]) {
    let stats = || quaver::Handle::current().unwrap().stats();
    quaver::scope(|s| {
        for (i, &expected) in expected.iter().enumerate() {
            s.spawn(move || {
                while stats().preempt_useful < count {
                    assert_eq!(compute(i as u64), expected, "{i}");
                }
            });
        }
    });
}

#[test]
fn a_blocked_thread_gives_its_worker_away() {
    for clock in [Clock::TimerThread, Clock::DelegatedTimer] {
        on_runtime(builder(clock, 1), || {
            let (mut reader, mut writer) = std::io::pipe().unwrap();
            let blocked = quaver::spawn(move || {
                let mut byte = 0u8;
                // SAFETY: the kernel writes one byte. By the instruction, as a program without libc
                // does: the runtime does not see it.
                let read = unsafe { raw_read(std::os::fd::AsRawFd::as_raw_fd(&reader), &mut byte) };
                let _ = &mut reader;
                (read, byte)
            });
            let helper = quaver::spawn(move || {
                use std::io::Write;
                writer.write_all(&[7]).unwrap();
            });
            assert_eq!(blocked.join().unwrap(), (1, 7), "{clock}");
            helper.join().unwrap();
        });
    }
}

unsafe fn raw_read(fd: i32, byte: &mut u8) -> i64 {
    let mut result = libc::SYS_read;
    // SAFETY: the caller's contract.
    unsafe {
        core::arch::asm!(
            "syscall",
            inout("rax") result,
            in("rdi") i64::from(fd),
            in("rsi") byte,
            in("rdx") 1,
            out("rcx") _,
            out("r11") _,
            options(nostack)
        );
    }
    result
}

#[test]
fn the_shortest_quantum_leaves_time_to_work() {
    let expected: Vec<u64> = (0..3).map(compute).collect();
    let quantum = Some(Clock::DelegatedTimer.min_quantum());
    on_runtime(builder(Clock::DelegatedTimer, 1).quantum(quantum).stack_size(128 * 1024), || {
        compute_until(50, &expected);
    });
}

#[test]
fn one_runtime_follows_another_also_in_a_child() {
    child::run("fork").expect_success();
}

#[test]
fn the_child() {
    if child::role().is_none() {
        return;
    }
    let expected: Vec<u64> = (0..2).map(compute).collect();
    for clock in [Clock::DelegatedTimer, Clock::TimerThread] {
        on_runtime(builder(clock, 1), || {
            compute_until(20, &expected);
            // SAFETY: no other thread of this process holds anything that the child needs.
            let child = unsafe { libc::fork() };
            if child == 0 {
                let rt = builder(clock, 1).build().unwrap();
                assert_eq!(rt.notification(), notification());
                rt.run(|| compute_until(20, &expected));
                // SAFETY: ends the process.
                unsafe { libc::_exit(7) };
            }
            let mut status = 0;
            // SAFETY: our own child.
            while unsafe { libc::waitpid(child, &raw mut status, 0) } != child {}
            assert_eq!((libc::WIFEXITED(status), libc::WEXITSTATUS(status)), (true, 7));
            compute_until(40, &expected);
        });
    }
}
