//! Whether a process has done what it should.

use super::Batch;
use super::fate::Fate;
use crate::fuzz::run::{Trace, Trouble};
use crate::fuzz::shrink::compare;

/// What `quaver run` answers where it cannot join.
const NOT_STARTED: &str = "exit status: 125";

/// What is wrong, if anything. `stopped`: it was, so that its records do not count. `no_broker`:
/// it need not have found one.
pub(super) fn wrong(
    batch: &Batch,
    trace: &Trace,
    fate: &Fate,
    stopped: bool,
    no_broker: bool,
) -> Option<String> {
    let hangs = match &trace.trouble {
        Some(Trouble::Ended(_)) if fate.has_killed() => return None,
        Some(Trouble::Ended(how)) if how.starts_with(NOT_STARTED) && no_broker => return None,
        Some(Trouble::Ended(how)) => return Some(format!("it ended: {how}")),
        Some(Trouble::Hangs) => true,
        None if stopped => return None,
        None => false,
    };
    let all = batch.operations.iter().zip(&batch.native.programs).enumerate();
    let mut deviations =
        all.filter_map(|(i, (operations, native))| compare(operations, native, trace, i));
    let first = deviations.next().map(|deviation| deviation.what);
    if hangs { Some(format!("it hangs: {}", first.unwrap_or_default())) } else { first }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fuzz::Program;
    use crate::fuzz::record::Record;
    use std::time::Instant;

    fn trace(trouble: Option<Trouble>, r: i64) -> Trace {
        let operations = Program::generate(1, 0).operations();
        let mut programs =
            vec![vec![Record { begun: true, done: 1, ..Record::default() }; operations.len()]];
        programs[0][7].r = r;
        Trace { programs, trouble }
    }

    fn judged(trouble: Option<Trouble>, r: i64, fate: Fate, stopped: bool) -> Option<String> {
        let operations = vec![Program::generate(1, 0).operations()];
        let batch = Batch { operations, native: trace(None, 0) };
        wrong(&batch, &trace(trouble, r), &fate, stopped, false)
    }

    #[test]
    fn who_is_undisturbed_does_as_natively() {
        assert_eq!(judged(None, 0, Fate::Undisturbed, false), None);
        let what = judged(None, 5, Fate::Undisturbed, false).unwrap();
        assert!(what.starts_with("7: ") && what.contains("5 in place of 0"), "{what}");
    }

    #[test]
    fn who_is_stopped_ends() {
        assert_eq!(judged(None, 5, Fate::Undisturbed, true), None);
        let crash = || Some(Trouble::Ended("signal: 11".into()));
        assert!(judged(crash(), 0, Fate::Undisturbed, true).unwrap().contains("signal: 11"));
        assert!(judged(Some(Trouble::Hangs), 0, Fate::Undisturbed, true).is_some());
    }

    #[test]
    fn who_is_killed_may_die() {
        let killed = |done| Fate::Killed { at: Instant::now(), done };
        let dead = || Some(Trouble::Ended("signal: 9".into()));
        assert_eq!(judged(dead(), 0, killed(true), false), None);
        assert!(judged(dead(), 0, killed(false), false).is_some());
        assert!(judged(None, 5, killed(true), false).is_some());
    }

    #[test]
    fn without_a_broker_nobody_joins() {
        let operations = vec![Program::generate(1, 0).operations()];
        let batch = Batch { operations, native: trace(None, 0) };
        let refused = trace(Some(Trouble::Ended("exit status: 125 no broker".into())), 0);
        assert_eq!(wrong(&batch, &refused, &Fate::Undisturbed, false, true), None);
        assert!(wrong(&batch, &refused, &Fate::Undisturbed, false, false).is_some());
    }
}
