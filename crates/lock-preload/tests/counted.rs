//! Who holds nothing does not count. A test program of its own: nobody else uses its lockd.

mod support;
#[path = "support/lockd.rs"]
mod watched;

use quaver_lock::monitor;
use support::{preloaded, program, said};
use watched::lockd;

/// Handlers of `fork` lock before it and unlock in the child, where the owners are threads that do
/// not exist.
#[test]
fn a_child_of_fork_that_has_freed_all_locks() {
    let (Some(children), Some(socket)) = (program("children"), lockd()) else { return };
    for _ in 0..3 {
        let before = monitor::counts().expect("lockd lives").preempted;
        assert_eq!(said(preloaded(&children, Some(socket)).arg("300")), "0\n");
        let counted = monitor::counts().expect("lockd lives").preempted - before;
        // The parent may be preempted between its handlers; the child is, a hundred times.
        assert!(counted < 10, "counted {counted} times");
    }
}
