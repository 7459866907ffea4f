//! Debuggers and `std::backtrace` unwind through user threads, wherever these are.
//!
//! How to do that by hand: the first word that `gs:[8]` of a carrier points to (`Uthread::rsp`) is
//! the saved stack pointer of a thread that is switched out, whose layout is drawn in
//! `src/arch/switch.rs`: take the callee-saved registers and the return address from there and ask
//! for a backtrace. [`backtrace_of`] writes the commands. A thread that was preempted is switched
//! out in the signal handler, so the frames of its own code come below `<signal handler called>`.

#![allow(clippy::useless_vec, reason = "an allocation is wanted")]
#![allow(
    clippy::erasing_op,
    clippy::map_identity,
    clippy::let_and_return,
    reason = "work whose value does not matter, and results that are named for what they are"
)]

mod support;

use std::arch::asm;
use std::backtrace::Backtrace;
use std::hint::black_box;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;
use support::gdb::{frames, position};
use support::{Setup, child, spin, until_preempted, with_runtime};

/// The calling user thread's control block.
fn control_block() -> usize {
    let at: usize;
    // SAFETY: on a worker, where `gs` points to the carrier, whose second word is the current
    // thread.
    unsafe { asm!("mov {}, gs:[8]", out(reg) at, options(nostack, readonly, preserves_flags)) };
    at
}

#[inline(never)]
fn parked_inner(found: &AtomicUsize) -> u64 {
    found.store(control_block(), SeqCst);
    quaver::sleep(Duration::MAX);
    black_box(1)
}

#[inline(never)]
fn parked_outer(found: &AtomicUsize) -> u64 {
    black_box(parked_inner(found)) + 1
}

#[inline(never)]
fn busy_inner(found: &AtomicUsize) -> u64 {
    found.store(control_block(), SeqCst);
    for _ in 0.. {
        black_box(found);
    }
    black_box(1)
}

#[inline(never)]
fn busy_outer(found: &AtomicUsize) -> u64 {
    black_box(busy_inner(found)) + 1
}

/// In a child: one thread waits, one was preempted and stays so, because the third, which says
/// where the others are, does not give up the only worker.
fn play(setup: Setup) {
    // SAFETY: lets a debugger that is not a parent of this process attach.
    unsafe { libc::prctl(libc::PR_SET_PTRACER, libc::PR_SET_PTRACER_ANY) };
    with_runtime(setup.builder(), |rt| {
        rt.run(|| {
            static PARKED: AtomicUsize = AtomicUsize::new(0);
            static BUSY: AtomicUsize = AtomicUsize::new(0);
            quaver::spawn(|| parked_outer(&PARKED));
            quaver::spawn(|| busy_outer(&BUSY));
            while PARKED.load(SeqCst) == 0 || BUSY.load(SeqCst) == 0 {
                quaver::yield_now();
            }
            quaver::no_preempt(|| {
                println!("parked {:#x} busy {:#x} ready", PARKED.load(SeqCst), BUSY.load(SeqCst));
                loop {
                    spin(1_000);
                }
            });
        });
    });
}

#[test]
fn the_child() {
    let Some(role) = child::role() else { return };
    play(Setup::with_workers(1)[role.parse::<usize>().unwrap()]);
}

/// gdb's commands for a backtrace of the switched-out thread with this control block. It pretends
/// that the selected kernel thread has just come back from `switch` there.
fn backtrace_of(control_block: &str) -> Vec<String> {
    let word = |offset: usize| format!("*(unsigned long *)($saved + {offset})");
    let mut commands = vec![format!("set $saved = *(unsigned long *){control_block}")];
    for (register, offset) in
        [("r15", 8), ("r14", 16), ("r13", 24), ("r12", 32), ("rbx", 40), ("rbp", 48), ("rip", 56)]
    {
        commands.push(format!("set ${register} = {}", word(offset)));
    }
    commands.push("set $rsp = $saved + 64".into());
    commands.push("backtrace".into());
    commands
}

#[test]
fn gdb_unwinds_through_switched_out_and_preempted_threads() {
    let gdb = Command::new("gdb").arg("--version").output();
    if !gdb.is_ok_and(|o| o.status.success()) {
        println!("skipped: gdb is not installed");
        return;
    }
    for (i, setup) in Setup::with_workers(1).iter().enumerate() {
        println!("-- {setup}");
        let mut target = child::command(&i.to_string()).spawn().unwrap();
        let line = child::wait_for_line(&mut target, "ready");
        let address_after = |word: &str| {
            let mut words = line.split_whitespace().skip_while(|w| *w != word);
            words.nth(1).unwrap_or_else(|| panic!("no {word} in {line}")).to_owned()
        };
        let mut commands = vec!["set language c".into(), "set width 0".into()];
        for word in ["parked", "busy"] {
            commands.push(format!("echo thread {word}\\n"));
            commands.extend(backtrace_of(&address_after(word)));
        }
        commands.push("kill".into());
        let mut gdb = Command::new("gdb");
        gdb.args(["-nx", "-q", "-batch", "-iex", "set debuginfod enabled off"]);
        gdb.args(["-p", &target.id().to_string()]);
        commands.iter().for_each(|c| _ = gdb.args(["-ex", c]));
        let output = gdb.stdin(Stdio::null()).output().unwrap();
        let _ = target.kill();
        let killed = child::finish(target);
        assert_eq!(killed.signal(), Some(libc::SIGKILL), "{killed:#?}");

        let text = String::from_utf8_lossy(&output.stdout);
        let context = || format!("{text}\n{}", String::from_utf8_lossy(&output.stderr));
        assert!(!text.contains("Backtrace stopped"), "{}", context());
        let (_, rest) = text.split_once("thread parked").unwrap_or_else(|| panic!("{}", context()));
        let (parked, busy) =
            rest.split_once("thread busy").unwrap_or_else(|| panic!("{}", context()));

        let parked = frames(parked);
        let outer = position(&parked, "parked_outer");
        assert_eq!(position(&parked, "parked_inner"), outer - 1, "{}", context());
        assert!(position(&parked, "quaver::") < outer - 1, "{}", context());
        assert_eq!(position(&parked, "thread_start"), parked.len() - 1, "{}", context());

        let busy = frames(busy);
        let outer = position(&busy, "busy_outer");
        assert_eq!(position(&busy, "busy_inner"), outer - 1, "{}", context());
        assert!(position(&busy, "<signal handler called>") < outer - 1, "{}", context());
        assert_eq!(position(&busy, "thread_start"), busy.len() - 1, "{}", context());
    }
}

#[inline(never)]
fn captured_inner() -> Backtrace {
    black_box(Backtrace::force_capture())
}

#[inline(never)]
fn captured_outer() -> Backtrace {
    black_box(captured_inner())
}

/// The functions of a backtrace, innermost first.
fn functions(backtrace: &Backtrace) -> Vec<String> {
    let text = backtrace.to_string();
    let numbered = text.lines().filter_map(|l| l.trim_start().split_once(": "));
    numbered
        .filter(|(n, _)| n.parse::<usize>().is_ok())
        .map(|(_, name)| name.trim().to_owned())
        .collect()
}

fn check_captured(backtrace: &Backtrace) {
    let functions = functions(backtrace);
    let find = |name: &str| {
        functions.iter().position(|f| f.contains(name)).unwrap_or_else(|| panic!("{functions:#?}"))
    };
    assert_eq!(find("captured_inner") + 1, find("captured_outer"), "{functions:#?}");
    assert_eq!(find("thread_start"), functions.len() - 1, "{functions:#?}");
}

#[test]
fn backtraces_end_where_the_thread_began() {
    for setup in Setup::all() {
        setup.run(|| {
            check_captured(&captured_outer());
            check_captured(&quaver::spawn(captured_outer).join().unwrap());
        });
    }
}

/// Threads that unwind, by backtraces and by panics, while they are preempted.
#[test]
fn unwinding_is_preempted() {
    for setup in Setup::all() {
        setup.run(|| {
            quaver::scope(|s| {
                for i in 0..3u64 {
                    s.spawn(move || {
                        until_preempted(setup.preemptions(60), |step| {
                            if (step + i) % 2 == 0 {
                                let _ = black_box(captured_outer());
                            } else {
                                let panic = std::panic::catch_unwind(|| {
                                    let _on_the_way = vec![1u8; 100];
                                    std::panic::resume_unwind(Box::new(step))
                                });
                                let payload = panic.map(|()| ()).unwrap_err().downcast::<u64>();
                                assert_eq!(*payload.unwrap(), step);
                            }
                            spin(300);
                        });
                    });
                }
            });
        });
    }
}
