//! Ways of interrupting a core, one file each: where an interrupt enters the stream of
//! instructions, and what becomes of the work in flight.
//!
//! A rule is asked twice a cycle: [`Rule::at_retirement`] and, before each instruction,
//! [`Rule::at_fetch`]. It sees a [`View`] and nothing else of the core; the core knows nothing of
//! which rule it has. An injected interrupt that a wrong branch before it squashes is wanted again,
//! so the rule is asked again, on the right path.
//!
//! [`safepoint`] says before which instructions a rule may interrupt. Sources that a core has
//! beside SENDUIPI are here too: [`kb_timer`] and [`forwarding`].

mod drain;
mod flush;
pub mod forwarding;
pub mod kb_timer;
pub mod safepoint;
mod signal;
mod tracked;

use crate::core::{Mechanism, Parameters};

/// What a rule sees. It is asked only if an interrupt is wanted and none is on its way.
#[derive(Clone, Copy, Debug)]
pub struct View {
    /// UIF behind the youngest instruction that was fetched.
    pub flag_ahead: bool,
    /// UIF behind the youngest instruction that has retired.
    pub flag_retired: bool,
    /// Safepoint mode is off, or the next instruction to be fetched has the prefix.
    pub safe_ahead: bool,
    /// The same for the oldest instruction that has not retired.
    pub safe_retired: bool,
    /// Nothing is in flight.
    pub empty: bool,
    /// The oldest uop is the first of its instruction, and all in flight can be squashed.
    pub boundary: bool,
}

/// What a core does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// It goes on.
    Go,
    /// It fetches no more instructions.
    Hold,
    /// It fetches the interrupt's microcode.
    Inject,
    /// It squashes all that has not retired, then fetches the interrupt's microcode.
    Squash,
}

/// A way of interrupting.
pub trait Rule {
    /// Before each instruction is fetched.
    fn at_fetch(&self, view: &View) -> Action {
        let _ = view;
        Action::Go
    }

    /// In each cycle, after retirement.
    fn at_retirement(&self, view: &View) -> Action {
        let _ = view;
        Action::Go
    }

    /// Cycles from the end of a squash until the interrupt's microcode is fetched.
    fn after_squash(&self, p: &Parameters) -> u64 {
        let _ = p;
        0
    }

    /// Cycles that the microcode's first uop takes longer, once it is fetched.
    fn at_entry(&self, p: &Parameters) -> u64 {
        let _ = p;
        0
    }
}

/// The rule of a mechanism; none if nothing is to be delivered.
pub fn rule(mechanism: Mechanism) -> Option<&'static dyn Rule> {
    match mechanism {
        Mechanism::None => None,
        Mechanism::Flush => Some(&flush::Flush),
        Mechanism::Signal => Some(&signal::Signal),
        Mechanism::Drain => Some(&drain::Drain),
        Mechanism::Tracked => Some(&tracked::Tracked),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VIEW: View = View {
        flag_ahead: true,
        flag_retired: true,
        safe_ahead: true,
        safe_retired: true,
        empty: false,
        boundary: true,
    };

    fn all(view: View) -> [(Action, Action); 3] {
        [Mechanism::Flush, Mechanism::Drain, Mechanism::Tracked].map(|mechanism| {
            let rule = rule(mechanism).unwrap();
            (rule.at_fetch(&view), rule.at_retirement(&view))
        })
    }

    #[test]
    fn each_enters_where_the_readme_says() {
        use Action::{Go, Hold, Inject, Squash};
        assert_eq!(all(VIEW), [(Go, Squash), (Hold, Go), (Inject, Go)]);
        let empty = View { empty: true, ..VIEW };
        assert_eq!(all(empty), [(Go, Squash), (Inject, Go), (Inject, Go)]);
        let nowhere = View { safe_ahead: false, safe_retired: false, ..VIEW };
        assert_eq!(all(nowhere), [(Go, Go); 3]);
        let masked = View { flag_ahead: false, flag_retired: false, ..VIEW };
        assert_eq!(all(masked), [(Go, Go); 3]);
        let within = View { boundary: false, ..VIEW };
        assert_eq!(all(within)[0], (Go, Go));
    }

    #[test]
    fn a_signal_enters_as_a_flush_and_costs_more() {
        let [signal, flush] =
            [Mechanism::Signal, Mechanism::Flush].map(|mechanism| rule(mechanism).unwrap());
        assert_eq!(signal.at_retirement(&VIEW), flush.at_retirement(&VIEW));
        let p = Parameters::default();
        assert_eq!(signal.after_squash(&p), flush.after_squash(&p) + p.interrupt.signal);
        assert_eq!((signal.at_entry(&p), flush.at_entry(&p)), (0, 0));
        let [drain, tracked] =
            [Mechanism::Drain, Mechanism::Tracked].map(|mechanism| rule(mechanism).unwrap());
        assert_eq!((drain.after_squash(&p), drain.at_entry(&p)), (0, p.interrupt.drain_entry));
        assert_eq!((tracked.after_squash(&p), tracked.at_entry(&p)), (0, 0));
    }
}
