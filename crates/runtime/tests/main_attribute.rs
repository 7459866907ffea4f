//! What `#[quaver::main]` makes of `main`: called here like any function.

use std::process::ExitCode;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// There is one runtime in a process at a time.
fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

mod nothing {
    #[quaver::main(workers = 1)]
    pub fn main() {
        assert_eq!(quaver::spawn(|| 6 * 7).join().unwrap(), 42);
    }
}

mod result {
    use std::error::Error;

    #[quaver::main]
    pub fn main() -> Result<(), Box<dyn Error>> {
        "no number".parse::<u32>()?;
        Ok(())
    }
}

mod code {
    use std::process::ExitCode;

    #[quaver::main(workers = 2, clock = "posix-timer")]
    pub fn main() -> ExitCode {
        assert!(quaver::is_preemptible());
        ExitCode::from(7)
    }
}

mod bad {
    #[quaver::main(timer_cpu = 8191)]
    pub fn main() {
        unreachable!("the runtime cannot be built");
    }
}

mod panics {
    #[quaver::main]
    pub fn main() {
        panic!("on purpose");
    }
}

fn same(code: ExitCode, expected: ExitCode) {
    assert_eq!(format!("{code:?}"), format!("{expected:?}"));
}

#[test]
fn nothing_is_success() {
    let _turn = alone();
    same(nothing::main(), ExitCode::SUCCESS);
}

#[test]
fn an_error_is_a_failure() {
    let _turn = alone();
    same(result::main(), ExitCode::FAILURE);
}

#[test]
fn a_code_is_kept() {
    let _turn = alone();
    same(code::main(), ExitCode::from(7));
}

#[test]
fn a_runtime_that_cannot_be_built_is_2() {
    let _turn = alone();
    same(bad::main(), ExitCode::from(2));
}

#[test]
fn a_panic_goes_on() {
    let _turn = alone();
    assert!(std::panic::catch_unwind(panics::main).is_err());
}
