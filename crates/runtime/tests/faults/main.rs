//! Bad input, crashes and sudden ends: each has a defined outcome and a clear message.
//!
//! What ends a process is played by a child; see `support::child`.

#![allow(
    clippy::erasing_op,
    clippy::map_identity,
    clippy::let_and_return,
    clippy::identity_op,
    clippy::useless_vec,
    reason = "work whose value does not matter, and results that are named for what they are"
)]

mod crashes;
mod ends;
mod processes;
mod resources;
mod signals;
#[path = "../support/mod.rs"]
mod support;
mod values;

use crashes::{crash, overflow, overflow_by_a_frame, panics};
use ends::busy;
use quaver::{Builder, Clock};
use resources::too_many_stacks;
use std::hint::black_box;
use support::child::Outcome;
use support::{Setup, child, spin, with_runtime};

/// The setups that a role is played on, by number: its name ends with one.
fn setups() -> Vec<Setup> {
    Setup::clocks(1).into_iter().chain(Setup::clocks(2)).collect()
}

/// Plays a role on every setup.
fn on_all(role: &str, check: impl Fn(Outcome)) {
    for (i, setup) in setups().iter().enumerate() {
        println!("-- {setup}");
        check(child::run(&format!("{role} {i}")));
    }
}

#[test]
fn the_child() {
    let Some(role) = child::role() else { return };
    let (role, setup) = match role.rsplit_once(' ').map(|(role, i)| (role, i.parse::<usize>())) {
        Some((role, Ok(i))) => (role, setups()[i]),
        _ => (&*role, setups()[0]),
    };
    no_core_dump();
    match role {
        "overflow" => overflow(setup),
        "overflow by a frame" => overflow_by_a_frame(setup),
        "null" => crash(setup, || {
            // SAFETY: none; this is the fault that is tested.
            unsafe { black_box(std::ptr::without_provenance_mut::<u64>(8)).write_volatile(1) }
        }),
        "illegal instruction" => crash(setup, || {
            // SAFETY: none; this is the fault that is tested.
            unsafe { std::arch::asm!("ud2") }
        }),
        "panics of all kinds" => panics(setup),
        "panics with a hook" => {
            std::panic::set_hook(Box::new(|_| eprintln!("my hook")));
            panics(setup);
        }
        "abort" => crash(setup, || std::process::abort()),
        "panic that cannot unwind" => crash(setup, || {
            extern "C" fn no_unwind() {
                panic!("this one aborts");
            }
            no_unwind();
        }),
        "panic while panicking" => crash(setup, || {
            struct Again;
            impl Drop for Again {
                fn drop(&mut self) {
                    panic!("second");
                }
            }
            let _again = Again;
            panic!("first");
        }),
        "busy" => busy(setup),
        "exit" => crash(setup, || {
            print!("not flushed yet");
            std::process::exit(7)
        }),
        "exit of a kernel thread" => {
            let rt = setup.builder().build().unwrap();
            rt.spawn(|| busy_threads(3));
            while rt.stats().preempt_useful < 3 {
                std::thread::yield_now();
            }
            std::process::exit(8);
        }
        "end of main" => {
            let rt = setup.builder().build().unwrap();
            rt.spawn(|| busy_threads(3));
            while rt.stats().preempt_useful < 3 {
                std::thread::yield_now();
            }
            std::mem::forget(rt);
        }
        "no timers" => {
            limit(libc::RLIMIT_SIGPENDING, 0);
            println!("{}", Builder::new().clock(Clock::PosixTimer).build().unwrap_err());
            drop(Builder::new().clock(Clock::TimerThread).build().unwrap());
        }
        "no address space" => {
            limit(libc::RLIMIT_AS, 300 << 20);
            println!("{}", Builder::new().max_threads(1 << 24).build().unwrap_err());
            drop(Builder::new().max_threads(1_000).build().unwrap());
        }
        "little address space" => {
            limit(libc::RLIMIT_AS, 1 << 30);
            with_runtime(
                Builder::new().workers(1).max_threads(100_000).stack_size(1 << 20),
                |rt| {
                    rt.run(too_many_stacks);
                },
            );
        }
        "environment" => match Builder::from_env().build() {
            Ok(rt) => println!("{:?} {} {}", rt.clock(), rt.workers(), rt.policy()),
            Err(e) => println!("{e}"),
        },
        other => panic!("unknown role {other}"),
    }
}

/// Faults on purpose leave no core files behind.
fn no_core_dump() {
    limit(libc::RLIMIT_CORE, 0);
}

fn limit(what: libc::__rlimit_resource_t, value: libc::rlim_t) {
    let limit = libc::rlimit { rlim_cur: value, rlim_max: value };
    // SAFETY: a valid limit.
    assert_eq!(unsafe { libc::setrlimit(what, &limit) }, 0);
}

/// Threads that never end.
fn busy_threads(n: usize) {
    for _ in 0..n {
        quaver::spawn_detached(|| {
            loop {
                spin(1_000);
                drop(black_box(vec![1; 10]));
            }
        });
    }
}
