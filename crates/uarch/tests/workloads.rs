//! The programs of the figures: their results here, on this machine's CPU, and as Rust computes
//! them; with and without interrupts.

mod build;

use std::path::Path;
use std::process::Command;

use quaver_uarch::Machine;
use quaver_uarch::kernel::Output;
use quaver_uarch::workload::{self, Points, Size};

const POINTS: [Points; 3] = [Points::Nothing, Points::Poll, Points::Safepoint];

/// A folder for programs; nothing if there is no compiler.
fn folder() -> Option<tempfile::TempDir> {
    if Command::new("gcc").arg("--version").output().is_err() {
        build::skipped("there is no gcc");
        return None;
    }
    Some(tempfile::tempdir().unwrap())
}

/// What a program prints, and how many interrupts and instructions it had.
fn model(program: &Path, arguments: &[&str]) -> (String, u64, u64) {
    let words = [&["program"], arguments].concat();
    let mut machine = Machine::with_program(&std::fs::read(program).unwrap(), &words).unwrap();
    assert_eq!(machine.run(1_000_000_000), Ok(0), "{}", program.display());
    let Output::Keep(bytes) = &machine.kernel.output else { unreachable!("it is kept") };
    let text = String::from_utf8(bytes.clone()).unwrap();
    (text, machine.cpu.uintr.delivered, machine.instructions())
}

fn fib(n: u64) -> u64 {
    (0..n).fold((0, 1), |(a, b), _| (b, a + b)).0
}

fn memops(rounds: u64) -> u64 {
    const WORDS: usize = 16384;
    let mut from: Vec<u64> = (0..WORDS as u64).map(|i| i.wrapping_mul(2_654_435_761)).collect();
    let mut sum = 0u64;
    for round in 0..rounds {
        let to: Vec<u64> = from.iter().map(|word| word ^ sum).collect();
        for i in (0..WORDS).step_by(4) {
            sum = sum.wrapping_add(to[i]).wrapping_add(to[i * 7 % WORDS]);
        }
        from = to.iter().rev().map(|word| word.wrapping_add(round)).collect();
    }
    sum
}

fn base64(rounds: usize) -> u64 {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut from: Vec<u8> = (0..12288).map(|i| (i * 31 + (i >> 5)) as u8).collect();
    let mut sum = 0u64;
    for round in 0..rounds {
        let to: Vec<u8> = from
            .chunks(3)
            .flat_map(|c| {
                let v = usize::from(c[0]) << 16 | usize::from(c[1]) << 8 | usize::from(c[2]);
                [18, 12, 6, 0].map(|shift| DIGITS[v >> shift & 63])
            })
            .collect();
        for digit in to.iter().step_by(64) {
            sum = sum.wrapping_mul(31).wrapping_add(u64::from(*digit));
        }
        from[round] ^= sum as u8;
    }
    sum
}

fn matmul(rounds: usize) -> u64 {
    const N: usize = 64;
    let mut a: Vec<Vec<u64>> =
        (0..N).map(|i| (0..N).map(|j| ((i * 3 + j) % 17) as u64).collect()).collect();
    let b = |i: usize, j: usize| ((i + j * 5) % 13) as u64;
    let mut sum = 0u64;
    for round in 0..rounds {
        for (i, row) in a.iter().enumerate() {
            let j = (i + round) % N;
            let product: u64 = (0..N).map(|k| row[k] * b(k, j)).sum();
            sum = sum.wrapping_mul(31).wrapping_add(product);
        }
        a[round % N][round / N % N] += 1;
    }
    sum
}

fn chase(steps: u64) -> u64 {
    // The node that is reached after i steps holds i, whatever the order.
    (0..steps).fold(0, |sum: u64, i| sum.wrapping_mul(3).wrapping_add(i % 8192))
}

#[test]
fn results_are_those_of_rust_and_of_the_cpu() {
    let Some(folder) = folder() else { return };
    let expected = |name| match name {
        "fib" => Some(format!("fib {}\n", fib(22))),
        "memops" => Some(format!("memops {}\n", memops(6))),
        "chase" => Some(format!("chase {}\n", chase(20_000))),
        "base64" => Some(format!("base64 {}\n", base64(12))),
        "matmul" => Some(format!("matmul {}\n", matmul(1))),
        _ => None, // it checks itself, and says so by its status
    };
    for workload in &workload::ALL {
        for points in POINTS {
            let program = workload.build(Size::Quick, points, folder.path()).unwrap();
            let (text, interrupts, instructions) = model(&program, &[]);
            let native = Command::new(&program).output().unwrap();
            assert!(native.status.success(), "{} {points:?}", workload.name);
            assert_eq!(text, String::from_utf8_lossy(&native.stdout));
            if let Some(expected) = expected(workload.name) {
                assert_eq!(text, expected);
            }
            assert_eq!(interrupts, 0);
            println!("{} {points:?}: {instructions} instructions", workload.name);
        }
    }
}

#[test]
fn interrupts_by_the_timer_change_no_result() {
    let Some(folder) = folder() else { return };
    for workload in &workload::ALL {
        for points in POINTS {
            let program = workload.build(Size::Quick, points, folder.path()).unwrap();
            let (plain, _, alone) = model(&program, &[]);
            for period in [997, 10_000] {
                let (text, interrupts, instructions) = model(&program, &[&period.to_string()]);
                let (result, counted) = text.split_once("stops ").unwrap();
                assert_eq!(result, plain, "{} every {period}", workload.name);
                let counted: u64 = counted.trim().parse().unwrap();
                // What does not look at the flag does not stop for it.
                let all = points == Points::Poll && counted <= interrupts || counted == interrupts;
                assert!(all, "{} {points:?}: {counted} of {interrupts}", workload.name);
                // One instruction takes one cycle. The first ones set the timer, the last ones
                // have interrupts off.
                let due = instructions / period;
                assert!(
                    interrupts <= due && interrupts + 2 >= due,
                    "{}: {interrupts} of {due}",
                    workload.name
                );
                // A handler has at least a store or a call, and UIRET.
                assert!(
                    instructions >= alone + 2 * interrupts,
                    "{} {points:?}: {instructions} and {alone}",
                    workload.name
                );
            }
            // A CPU has no such timer, and the kernel no such call.
            let native = Command::new(&program).arg("10000").output().unwrap();
            assert_eq!(native.status.code(), Some(2));
        }
    }
}

#[test]
fn instructions_of_user_interrupts_are_timed() {
    let Some(folder) = folder() else { return };
    let program = workload::UINTR.build(Size::Quick, Points::Nothing, folder.path()).unwrap();
    let (text, interrupts, _) = model(&program, &[]);
    // Without the timing model each takes one cycle; a round of SENDUIPI has more instructions.
    let words: Vec<&str> = text.split_whitespace().collect();
    let [clui, stui, senduipi] = [1, 3, 5].map(|i| words[i].parse::<u64>().unwrap());
    assert_eq!([words[0], words[2], words[4]], ["clui", "stui", "senduipi"]);
    assert!((95..=105).contains(&clui) && (95..=105).contains(&stui), "{text}");
    assert!((500..=1200).contains(&senduipi), "{text}");
    assert_eq!(interrupts, 0);
}

#[test]
fn a_program_is_built_once_for_each_of_its_forms() {
    let Some(folder) = folder() else { return };
    let fib = workload::find("fib").unwrap();
    let program = fib.build(Size::Quick, Points::Nothing, folder.path()).unwrap();
    let made = std::fs::metadata(&program).unwrap().modified().unwrap();
    assert_eq!(fib.build(Size::Quick, Points::Nothing, folder.path()).unwrap(), program);
    assert_eq!(std::fs::metadata(&program).unwrap().modified().unwrap(), made);
    let full = fib.build(Size::Full, Points::Nothing, folder.path()).unwrap();
    assert_ne!(full, program);
    // Nothing else is left there.
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
    assert!(workload::find("fib2").is_none());
}

#[test]
fn a_folder_that_cannot_be_written_is_named() {
    let Some(folder) = folder() else { return };
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    let fib = workload::find("fib").unwrap();
    let error = fib.build(Size::Quick, Points::Nothing, &file).unwrap_err().to_string();
    assert!(error.starts_with("cannot write") && error.contains("/file/"), "{error}");
}
