//! What a refill brings on this machine: the same system calls with and without, in turn.
//!
//! Two ratios: a message sent and received over TCP by one thread; two threads of one CPU that wake
//! each other by the futex. Below 1: a refill pays.

use std::io::Result;
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU32, Ordering::*};
use std::time::Instant;

/// A system call by a function of its own, as the C library makes it.
#[inline(never)]
fn call<const REFILL: bool>(number: i64, a: usize, b: usize, c: usize) -> isize {
    let result: isize;
    // SAFETY: callers pass their own memory, which outlives the call.
    unsafe {
        core::arch::asm!(
            "syscall",
            inlateout("rax") number as isize => result,
            in("rdi") a, in("rsi") b, in("rdx") c, in("r10") 0, in("r8") 0, in("r9") 0,
            out("rcx") _, out("r11") _,
        );
    }
    if REFILL {
        quaver_rsb::refill();
    }
    result
}

fn pin(cpu: usize) {
    let mask = 1u64 << cpu;
    call::<false>(libc::SYS_sched_setaffinity, 0, 8, &raw const mask as usize);
}

/// Nanoseconds a message.
fn tcp<const REFILL: bool>(sender: &TcpStream, receiver: &TcpStream) -> f64 {
    const MESSAGES: u32 = 5_000;
    let mut message = [0u8; 64];
    let at = message.as_mut_ptr() as usize;
    let begun = Instant::now();
    for _ in 0..MESSAGES {
        call::<REFILL>(libc::SYS_write, sender.as_raw_fd() as usize, at, 64);
        call::<REFILL>(libc::SYS_read, receiver.as_raw_fd() as usize, at, 64);
    }
    begun.elapsed().as_nanos() as f64 / f64::from(MESSAGES)
}

fn give<const REFILL: bool>(word: &AtomicU32) {
    word.store(1, Release);
    call::<REFILL>(libc::SYS_futex, word.as_ptr() as usize, libc::FUTEX_WAKE as usize, 1);
}

fn take<const REFILL: bool>(word: &AtomicU32) {
    while word.swap(0, Acquire) == 0 {
        call::<REFILL>(libc::SYS_futex, word.as_ptr() as usize, libc::FUTEX_WAIT as usize, 0);
    }
}

/// Nanoseconds a turn.
fn futex<const REFILL: bool>() -> f64 {
    const TURNS: u32 = 10_000;
    let words = [AtomicU32::new(0), AtomicU32::new(0)];
    let begun = Instant::now();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..TURNS {
                take::<REFILL>(&words[0]);
                give::<REFILL>(&words[1]);
            }
        });
        for _ in 0..TURNS {
            give::<REFILL>(&words[0]);
            take::<REFILL>(&words[1]);
        }
    });
    begun.elapsed().as_nanos() as f64 / f64::from(2 * TURNS)
}

fn report(what: &str, mut ratios: Vec<(f64, f64)>) {
    ratios.sort_by(|a, b| (a.1 / a.0).total_cmp(&(b.1 / b.0)));
    let (without, with) = ratios[ratios.len() / 2];
    println!("{what}: {without:.0} ns, refilled {with:.0} ns, ratio {:.2}", with / without);
}

fn main() -> Result<()> {
    const ROUNDS: usize = 60;
    if !quaver_rsb::prepare() {
        println!("this kernel leaves predictions as they are, so nothing is refilled");
        return Ok(());
    }
    pin(1 % std::thread::available_parallelism()?.get());
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let sender = TcpStream::connect(listener.local_addr()?)?;
    let (receiver, _) = listener.accept()?;
    sender.set_nodelay(true)?;
    let rounds = |one: &dyn Fn() -> (f64, f64)| (0..ROUNDS).map(|_| one()).collect();
    report(
        "message over TCP",
        rounds(&|| (tcp::<false>(&sender, &receiver), tcp::<true>(&sender, &receiver))),
    );
    report("turn by the futex", rounds(&|| (futex::<false>(), futex::<true>())));
    Ok(())
}
