//! What `#[quaver::test]` makes of a function.

use std::error::Error;
use std::process::Command;
use std::rc::Rc;

/// On a kernel thread nothing can be preempted.
#[quaver::test(workers = 1)]
fn runs_on_a_user_thread() {
    assert!(quaver::is_preemptible());
}

/// The result need not be `Send`: it does not leave the user thread.
#[quaver::test]
fn returns_any_result() -> Result<(), Box<dyn Error>> {
    let text = Rc::new(String::from("12"));
    assert_eq!(text.parse::<u32>()?, 12);
    Ok(())
}

#[quaver::test]
#[should_panic(expected = "on purpose")]
fn panics_are_carried_on() {
    panic!("on purpose");
}

#[quaver::test(workers = 2, quantum = "off", policy = "fifo", stack_size = 131_072)]
fn takes_arguments() {
    let threads: Vec<_> = (0..4).map(|i| quaver::spawn(move || i)).collect();
    assert!(threads.into_iter().map(|t| t.join().unwrap()).eq(0..4));
}

/// Set for the run that is to fail.
const FAIL: &str = "QUAVER_TEST_RETURNS_AN_ERROR";

#[quaver::test]
fn returns_an_error_if_asked() -> Result<(), String> {
    if std::env::var_os(FAIL).is_some() { Err("on purpose".into()) } else { Ok(()) }
}

#[test]
fn an_error_fails_the_test() {
    let run = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "test_attribute::returns_an_error_if_asked"])
        .env(FAIL, "1")
        .output()
        .unwrap();
    let output = String::from_utf8_lossy(&run.stdout) + String::from_utf8_lossy(&run.stderr);
    assert!(!run.status.success(), "{output}");
    assert!(output.contains("1 failed") && output.contains("on purpose"), "{output}");
}
