//! gdb's commands for user threads: on a process, on a core file of it, with and without symbols.
//!
//! One program with a thread in every state holds still; gdb looks at it in batch mode. Skipped
//! where gdb is not installed.

mod programs;
#[path = "../support/mod.rs"]
mod support;

use programs::{play, play_fault, play_stand_still, play_two};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use support::gdb::{self, Session, Target, frames, is_missing, position};
use support::{Setup, child};

/// What a thread waits for, and who holds it.
#[test]
fn a_deadlock_is_explained() {
    if is_missing() {
        return;
    }
    let target = Target::start(child::command("stand still"));
    // The threads are on their way to where they wait: look until they are there.
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(120);
    let table = loop {
        let table = Session::attached(&target).run(&["info uthreads"])[0].clone();
        let waits = |name: &str| row(&table, name).state == "parked";
        let all = ["first", "second", "notified", "receiving", "sleeping", "joining", "main"];
        if all.into_iter().all(waits) || std::time::Instant::now() > deadline {
            break table;
        }
    };
    let expect = |name: &str, what: &str| {
        assert!(row(&table, name).text.contains(what), "{name} should wait for {what}:\n{table}");
    };
    for (name, other) in [("first", "second"), ("second", "first")] {
        let number = row(&table, other).number;
        expect(name, "mutex 0x");
        expect(name, &format!(" held by {number} "));
    }
    expect("notified", "condvar 0x");
    expect("receiving", "channel 0x");
    expect("sleeping", " time ");
    expect("joining", &format!("end of {}", row(&table, "sleeping").number));
    expect("main", "scope 0x");
}

#[test]
fn the_child() {
    let Some(role) = child::role() else { return };
    // SAFETY: lets a debugger that is not a parent of this process attach.
    unsafe { libc::prctl(libc::PR_SET_PTRACER, libc::PR_SET_PTRACER_ANY) };
    match role.parse::<usize>() {
        Ok(setup) => play(Setup::with_workers(1)[setup]),
        Err(_) if role == "fault" => play_fault(Setup::with_workers(1)[0]),
        Err(_) if role == "stand still" => play_stand_still(Setup::with_workers(1)[0]),
        Err(_) if role == "two" => play_two(Setup::with_workers(1)[0]),
        Err(_) => {
            println!("ready");
            std::thread::sleep(std::time::Duration::from_secs(600));
        }
    }
}

/// The setups to try: two that resume in different ways, or all.
fn setups() -> Vec<usize> {
    let all = Setup::with_workers(1).len();
    (0..if support::full() { all } else { 2 }).collect()
}

/// A row of `info uthreads`, found by the thread's name.
struct Row {
    text: String,
    number: u64,
    state: String,
}

fn row(table: &str, name: &str) -> Row {
    let text = table
        .lines()
        .find(|l| l.contains(name) && !l.contains("Where"))
        .unwrap_or_else(|| panic!("no {name:?} in:\n{table}"))
        .to_owned();
    let mut words = text.trim_start_matches('*').split_whitespace();
    let number = words.next().unwrap().parse().unwrap_or_else(|e| panic!("{e} in {text}"));
    Row { number, state: words.next().unwrap().to_owned(), text }
}

/// A thread's name, its state, and two functions that it is in, the inner one first.
type Expected = (&'static str, &'static str, Option<(&'static str, &'static str)>);

/// The threads of [`play`].
const THREADS: [Expected; 6] = [
    ("main", "running", Some(("holding_outer", "programs::play"))),
    ("parked one", "parked", Some(("parked_inner", "parked_outer"))),
    ("busy one", "preempted", Some(("busy_inner", "busy_outer"))),
    ("reading one", "away", Some(("reading_outer", "run_packet"))),
    ("new one", "new", None),
    // A thread that has ended has no name.
    ("ended", "ended", None),
];

/// What the commands must say about [`play`], whatever it is that gdb looks at.
fn check(session: &Session) {
    let table = &session.run(&["info uthreads"])[0];
    for (name, state, _) in THREADS {
        assert_eq!(row(table, name).state, state, "{name} in:\n{table}");
    }
    assert!(row(table, "busy one").text.contains("busy_inner at programs.rs:"), "{table}");
    assert!(row(table, "parked one").text.contains("parked_inner at programs.rs:"), "{table}");
    assert!(row(table, "new one").text.contains("will start in"), "{table}");
    assert!(row(table, "new one").text.contains("programs::play"), "{table}");
    check_backtraces(session, table);
    check_commands(session, table);
    check_messages(session, table);
}

fn check_backtraces(session: &Session, table: &str) {
    let commands = THREADS.map(|(name, ..)| format!("uthread {} bt", row(table, name).number));
    let texts = session.run(&commands.each_ref().map(String::as_str));
    for ((_, state, functions), text) in THREADS.into_iter().zip(&texts) {
        let Some((inner, outer)) = functions else { continue };
        let frames = frames(text);
        assert!(position(&frames, inner) < position(&frames, outer), "{text}");
        assert_eq!(position(&frames, "thread_start"), frames.len() - 1, "{text}");
        assert!(!text.contains("Backtrace stopped"), "{text}");
        let switched_out = state == "parked" || state == "preempted";
        assert_eq!(frames[0].contains("is switched out>"), switched_out, "{text}");
        if state == "preempted" {
            let interrupted = position(&frames, "<signal handler called>");
            assert!(interrupted < position(&frames, inner), "{text}");
        }
    }
}

/// Any command; and what gdb had selected is selected afterwards.
fn check_commands(session: &Session, table: &str) {
    let number = |name| row(table, name).number;
    let parked = number("parked one");
    let main = row(table, "main").text;
    let lwp = main.trim_start_matches('*').split_whitespace().nth(3).unwrap();
    let texts = session.run(&[
        "thread 1",
        "up",
        "frame",
        &format!("uthread {parked} info registers rip rsp rbx"),
        &format!("uthread {parked} up 2"),
        "frame",
        "thread",
        "uthread apply all bt -3",
        &format!("uthread apply {parked} {}-999 frame", number("new one")),
        &format!(
            "python gdb.execute('thread %d' % [t.num for t in gdb.selected_inferior().threads() if \
             t.ptid[1] == {lwp}][0])"
        ),
        "uthread",
    ]);
    let [_, _, before, registers, _, after, thread, all, some, _, main] = texts.as_slice() else {
        panic!("{texts:#?}");
    };
    // Without the source's line: gdb says only once that there is none.
    assert_eq!(before.lines().next(), after.lines().next());
    assert!(thread.contains("Current thread is 1 "), "{thread}");
    assert!(registers.contains("<quaver::"), "{registers}");
    for (name, ..) in THREADS {
        let title = match name {
            "ended" => format!("\nUser thread {}:\n", number(name)),
            name => format!("\nUser thread {} \"{name}\":\n", number(name)),
        };
        assert!(all.contains(&title), "no {title} in:\n{all}");
    }
    assert!(all.contains("has ended and waits to be joined"), "{all}");
    assert_eq!(some.matches("User thread").count(), 2, "{some}");
    assert!(row(main, "main").text.starts_with('*'), "{main}");
}

fn check_messages(session: &Session, table: &str) {
    let parked = row(table, "parked one").number;
    let expected = [
        ("uthread 99999 bt", "there is no user thread 99999"),
        ("uthread x bt", "'x' is not the number of a user thread"),
        ("info uthreads 1-x", "'1-x' is not the number of a user thread"),
        ("uthread apply all", "usage: uthread apply"),
        ("uthread apply bt", "usage: uthread apply"),
        (&format!("uthread {parked} step"), "cannot be resumed by 'step'"),
        (&format!("uthread {} bt", row(table, "ended").number), "has ended"),
        (&format!("uthread {parked} nonsense"), "Undefined command"),
        ("info uthreads 99990-99999", "No user threads."),
    ];
    let texts = session.run(&expected.map(|(command, _)| command));
    for ((command, message), text) in expected.into_iter().zip(&texts) {
        assert!(text.contains(message), "{command}: {text}");
    }
}

#[test]
fn a_process_and_its_core_are_shown() {
    if is_missing() {
        return;
    }
    for i in setups() {
        println!("-- {}", Setup::with_workers(1)[i]);
        let target = Target::start(child::command(&i.to_string()));
        check(&Session::attached(&target));
        let core = Scratch::new("core");
        let texts =
            Session::attached(&target).run(&[&format!("uthread gcore {}", core.0.display())]);
        assert!(texts[0].contains("of user threads' memory"), "{texts:?}");
        check(&Session::with_core(&std::env::current_exe().unwrap(), &core.0));
    }
}

/// A thread can be found in the instructions that resume it from its signal frame.
#[test]
fn a_thread_that_is_being_resumed_is_unwound() {
    if is_missing() {
        return;
    }
    let target = Target::start(child::command("two"));
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/support");
    let script = format!("source {}", folder.join("step_through_resume.py").display());
    let texts = Session::attached(&target).run(&[&script]);
    assert!(texts[0].contains("all steps unwound"), "{}", texts[0]);
}

/// As [`a_process_and_its_core_are_shown`], of a core file that the kernel has written.
#[test]
fn a_core_of_the_kernels_is_shown() {
    if is_missing() {
        return;
    }
    let folder = Scratch::new("cores");
    fs::create_dir(&folder.0).unwrap();
    let mut command = child::command("0");
    command.current_dir(&folder.0);
    gdb::allow_cores(&mut command);
    match Target::start(command).kill_with_core(&folder.0) {
        Some(core) => check(&Session::with_core(&std::env::current_exe().unwrap(), &core.0)),
        None => println!("skipped: the kernel writes no core files here, or elsewhere"),
    }
}

/// A thread that crashes is the one that gdb selects, where it crashed: at once, and again where
/// the process dies of it, which is what a core file of the kernel's has.
#[test]
fn a_fault_is_shown_where_it_happened() {
    if is_missing() {
        return;
    }
    let texts = Session::of_program(&std::env::current_exe().unwrap()).run(&[
        "set args --exact the_child --nocapture",
        "set environment QUAVER_TEST_ROLE fault",
        "run",
        "bt",
        "uthread",
        "continue",
        "bt",
        "uthread",
        "continue",
    ]);
    let [.., stopped, bt, thread, again, last_bt, last_thread, end] = texts.as_slice() else {
        panic!("{texts:#?}");
    };
    assert!(stopped.contains("SIGSEGV") && again.contains("SIGSEGV"), "{texts:#?}");
    for bt in [bt, last_bt] {
        let frames = frames(bt);
        assert_eq!(position(&frames, "fault_outer"), position(&frames, "fault_inner") + 1, "{bt}");
        assert_eq!(position(&frames, "thread_start"), frames.len() - 1, "{bt}");
        assert!(!bt.contains("<signal handler called>"), "{bt}");
    }
    for thread in [thread, last_thread] {
        assert!(thread.contains("crashing one"), "{texts:#?}");
    }
    assert!(end.contains("terminated with signal SIGSEGV"), "{texts:#?}");
}

/// A file to write, gone at the end.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let file = format!("quaver-gdb-test-{}-{name}", std::process::id());
        Scratch(std::env::temp_dir().join(file))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ =
            if self.0.is_dir() { fs::remove_dir_all(&self.0) } else { fs::remove_file(&self.0) };
    }
}

#[test]
fn a_stripped_program_is_shown_without_names() {
    if is_missing() {
        return;
    }
    let program = Scratch::new("stripped");
    let mut strip = Command::new("strip");
    strip.arg("-o").arg(&program.0).arg(std::env::current_exe().unwrap());
    if !strip.status().is_ok_and(|s| s.success()) {
        println!("skipped: strip is not installed");
        return;
    }
    let target = Target::start(child::command_of(&program.0, "0"));
    let session = Session::attached(&target);
    let table = &session.run(&["info uthreads"])[0];
    for (name, state, _) in THREADS {
        assert_eq!(row(table, name).state, state, "{name} in:\n{table}");
    }
    let text = &session.run(&[&format!("uthread {} bt", row(table, "busy one").number)])[0];
    assert!(text.contains("<signal handler called>"), "{text}");
    assert!(frames(text).len() > 5, "{text}");
}

#[test]
fn what_is_not_there_is_said() {
    if is_missing() {
        return;
    }
    let exe = std::env::current_exe().unwrap();
    let expect = |session: &Session, before: &[&str], message: &str| {
        let commands = ["info uthreads", "uthread 1 bt", "uthread apply all bt", "uthread"];
        let texts = session.run(&[before, &commands].concat());
        for text in &texts[before.len()..] {
            assert!(text.contains(message), "{texts:#?}");
            assert!(!text.contains("Traceback"), "{texts:#?}");
        }
    };
    expect(&Session::of_program(&exe), &[], "there is no process");

    let mut other = Command::new("sleep");
    other.arg("600");
    let other = Target::start_silent(other);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("gdb/quaver-gdb.py");
    let by_hand = format!("source {}", script.display());
    expect(&Session::attached(&other), &[&by_hand], "there is no Quaver runtime in this process");

    let idle = Target::start(child::command("nothing"));
    expect(&Session::attached(&idle), &[], "none has been started");

    let target = Target::start(child::command("0"));
    let session = Session::attached(&target);
    // Each of these is noticed before the one above. The first field of the table is the offset of
    // the control blocks.
    //
    // C's `char` would be Rust's, of four bytes, where gdb finds that first.
    let offset = "set *(long *)((unsigned long)&QUAVER_GDB + 56) = -1";
    expect(&session, &["set language c", offset], "the runtime's thread table is corrupted");
    let name = "set *(short *)((unsigned long)&QUAVER_GDB + 32) = 0x5858";
    expect(&session, &["set language c", name], "it has no 'Inner.table.blocks'");
    let version = "set *((int *)&QUAVER_GDB + 2) = 7";
    expect(&session, &["set language c", version], "has version 7");
    let magic = "set *(int *)&QUAVER_GDB = 7";
    expect(&session, &["set language c", magic], "is corrupted");
}
