//! Several cores and the kernel's slow paths: programs that check themselves, and what the system
//! says of them.

mod build;

use quaver_uarch::core::{Config, Mechanism};
use quaver_uarch::system::{System, SystemReport};
use quaver_uarch::{Error, Machine};

/// How interrupts enter, in the tests where that is no matter.
const WAYS: [Mechanism; 3] = [Mechanism::Flush, Mechanism::Drain, Mechanism::Tracked];
/// Cycles until another thread that is ready runs.
const QUANTUM: u64 = 200_000;

/// Builds the program for one test. Nothing if there is no compiler.
fn program(test: &str) -> Option<Vec<u8>> {
    let folder = tempfile::tempdir().unwrap();
    let define = format!("-DTEST={test}");
    let options = [build::ALONE, &["-Wno-main", &define]].concat();
    let path = build::compile("tests/programs/threads.c", &options, folder.path())?;
    Some(std::fs::read(path).unwrap())
}

/// A system that is ready to run a program.
fn system(file: &[u8], mechanism: Mechanism, cores: usize) -> System {
    let machine = Machine::with_program(file, &["threads"]).unwrap();
    let config = Config { mechanism, limit: 10_000_000, ..Config::default() };
    System::new(machine, &config, cores, QUANTUM)
}

/// Runs a test by each mechanism, each twice.
fn run(test: &str, cores: usize, check: impl Fn(&SystemReport, Mechanism)) {
    let Some(file) = program(test) else { return };
    for mechanism in WAYS {
        let [one, two] = [0, 1].map(|_| system(&file, mechanism, cores).run().unwrap());
        assert_eq!(one.status, 0, "{test}, {mechanism:?}: the check in this line: {one:#?}");
        assert_eq!(one, two, "{test}, {mechanism:?}: not the same twice");
        check(&one, mechanism);
    }
}

#[test]
fn what_is_sent_to_a_thread_that_does_not_run_is_reposted() {
    run("suppressed", 1, |report, _| {
        let slow = report.cores[0].slow;
        assert_eq!((slow.notifications, report.interrupts), (0, 10), "{slow:?}");
        assert!(slow.reposted >= 10, "{slow:?}");
    });
}

#[test]
fn cores_interrupt_each_other() {
    run("across", 2, |report, _| {
        let [sender, receiver] = [0, 1].map(|core| &report.cores[core]);
        assert_eq!((sender.slow.notifications, receiver.core.interrupts), (50, 50));
        assert_eq!((receiver.slow.stale, receiver.slow.reposted), (0, 0));
        assert_eq!(receiver.slow.migrations, 1);
    });
}

#[test]
fn a_thread_that_moves_loses_no_interrupt() {
    run("migrates", 3, |report, mechanism| {
        let of = |what: fn(&quaver_uarch::system::Slow) -> u64| -> u64 {
            report.cores.iter().map(|core| what(&core.slow)).sum()
        };
        assert_eq!(report.interrupts, 100, "{mechanism:?}");
        assert!(of(|slow| slow.migrations) > 20, "{report:#?}");
        // Both slow paths were taken: SN was set, and notifications came to the old core.
        assert!(of(|slow| slow.reposted) > 5, "{report:#?}");
        assert!(of(|slow| slow.notifications) > 10, "{report:#?}");
        assert!(of(|slow| slow.stale) > 0, "{report:#?}");
    });
}

#[test]
fn a_timer_belongs_to_its_thread() {
    run("timer", 1, |report, _| {
        let slow = report.cores[0].slow;
        assert!(slow.late_timers >= 2, "{slow:?}");
        assert_eq!((slow.notifications, slow.reposted), (0, 0));
    });
}

#[test]
fn a_timer_moves_with_its_thread() {
    run("timer_moves", 3, |report, mechanism| {
        let late: u64 = report.cores.iter().map(|core| core.slow.late_timers).sum();
        let on: Vec<u64> = report.cores.iter().map(|core| core.core.interrupts).collect();
        assert!(late >= 1, "{mechanism:?}: {report:#?}");
        // Its interrupts come where it is, and nobody else's core has one.
        assert!(on[0] == 0 && on[1] >= 5 && on[2] >= 5, "{mechanism:?}: {on:?}");
    });
}

#[test]
fn forwarded_vectors_move_with_their_thread() {
    let Some(file) = program("device_moves") else { return };
    for mechanism in WAYS {
        let mut system = system(&file, mechanism, 3);
        // To the core that the thread leaves, to the one where it is next, to the third one.
        for (core, cycle) in [(1, 300_000), (1, 500_000), (2, 700_000), (0, 900_000)] {
            system.interrupt(core, cycle, 200);
        }
        let report = system.run().unwrap();
        assert_eq!(report.status, 0, "{mechanism:?}: the check in this line: {report:#?}");
        let slow = |core: usize| report.cores[core].slow;
        let on: Vec<u64> = report.cores.iter().map(|core| core.core.interrupts).collect();
        // Core 1 forwards the first. When the second comes, the thread has left: the kernel keeps
        // it, as it keeps the fourth.
        assert_eq!([slow(0).kept, slow(1).kept, slow(2).kept], [1, 1, 0], "{report:#?}");
        assert_eq!(on, [0, 2, 2], "{report:#?}");
    }
}

#[test]
fn a_device_interrupts_its_thread_or_the_kernel_keeps_it() {
    let Some(file) = program("device") else { return };
    for mechanism in WAYS {
        let mut system = system(&file, mechanism, 1);
        system.interrupt(0, 400_000, 200);
        (0..40).for_each(|i| system.interrupt(0, 600_000 + 7_919 * i, 200));
        // Nobody has asked for this one.
        system.interrupt(0, 900_000, 201);
        let report = system.run().unwrap();
        assert_eq!(report.status, 0, "{mechanism:?}: the check in this line: {report:#?}");
        let slow = report.cores[0].slow;
        // Fast and slow path: both were taken, and the kernel merges what comes twice.
        assert!(slow.kept >= 5 && slow.kept < 40 && slow.traps == slow.kept + 1, "{slow:?}");
        assert!(report.interrupts >= 5 && report.interrupts <= 41, "{slow:?}");
    }
}

#[test]
fn alarms_and_sleep_cost_what_the_kernel_takes() {
    run("alarms", 1, |report, _| {
        let core = &report.cores[0];
        assert!(core.slow.signals >= 8, "{core:?}");
        let p = Config::default().parameters.kernel;
        assert!(core.kernel >= core.slow.signals * p.alarm + 6 * (p.trap + p.switch), "{core:?}");
        assert!(core.idle > 100_000 && core.idle < report.cycles, "{core:?}");
    });
}

#[test]
fn a_sleep_takes_as_long_at_any_frequency() {
    // push 50000; push 0; mov rdi, rsp; xor esi, esi; mov eax, 35 (nanosleep); syscall; exit(0)
    let mut code = vec![0x68, 0x50, 0xc3, 0, 0, 0x6a, 0, 0x48, 0x89, 0xe7, 0x31, 0xf6];
    code.extend([0xb8, 35, 0, 0, 0, 0x0f, 0x05, 0x31, 0xff, 0xb8, 60, 0, 0, 0, 0x0f, 0x05]);
    let cycles = |frequency| {
        let mut config = Config::default();
        config.parameters.frequency = frequency;
        let machine = Machine::with_code(0x40_0000, &code);
        System::new(machine, &config, 1, QUANTUM).run().unwrap().cycles
    };
    let two = cycles(2_000_000_000);
    assert!(two > 100_000, "{two}");
    assert_eq!(cycles(3_000_000_000), two + 50_000);
    assert_eq!(cycles(2_500_000_000), two + 25_000);
}

#[test]
fn locked_instructions_are_one_to_other_cores() {
    run("atomics", 2, |report, _| {
        assert!(report.cores.iter().all(|core| core.core.instructions > 2000), "{report:#?}");
    });
}

#[test]
fn a_program_that_nobody_will_wake_is_named() {
    let Some(file) = program("waits") else { return };
    let error = system(&file, Mechanism::Tracked, 1).run().unwrap_err();
    assert!(matches!(error, Error::Program(_)), "{error}");
    assert!(error.to_string().contains("all threads wait"), "{error}");
}
