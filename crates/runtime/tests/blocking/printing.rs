//! Output by several threads to one stream.

use crate::support::{Setup, child, spin, with_runtime};
use std::collections::HashSet;

/// Lines of `println!`, and of C's `puts`, are whole, though those who write them are preempted
/// with the lock held.
#[test]
fn printing() {
    let outcome = child::run("print");
    outcome.expect_success();
    let mut lines = HashSet::new();
    for line in outcome.stdout.lines().filter(|l| l.contains("thread says")) {
        let (start, end) = line.split_once(" thread says ").unwrap();
        assert_eq!(start, end, "{line}");
        assert!(lines.insert(line), "{line} twice");
    }
    assert_eq!(lines.len(), 2 * 6 * 4 * 150);
}

unsafe extern "C" {
    /// C's standard output.
    static stdout: *mut libc::FILE;
}

pub(crate) fn print() {
    // Each line by a write of its own, as `println!` does.
    // SAFETY: before the first output.
    assert_eq!(unsafe { libc::setvbuf(stdout, std::ptr::null_mut(), libc::_IOLBF, 4096) }, 0);
    for (k, setup) in Setup::all().into_iter().enumerate() {
        on_runtime_quietly(setup, move || {
            quaver::scope(|s| {
                for i in 0..4 {
                    s.spawn(move || {
                        for n in 0..150 {
                            let id = format!("{k}-{i}-{n}-{}", "x".repeat(n % 60));
                            if i % 2 == 0 {
                                println!("{id} thread says {id}");
                            } else {
                                let line = std::ffi::CString::new(format!("{id} thread says {id}"))
                                    .unwrap();
                                // SAFETY: a C string.
                                assert!(unsafe { libc::puts(line.as_ptr()) } > 0);
                            }
                            spin(100);
                        }
                    });
                }
            });
        });
    }
}

fn on_runtime_quietly(setup: Setup, body: impl FnOnce() + Send) {
    with_runtime(setup.builder(), |rt| rt.run(body));
}
