//! Drain: after the youngest instruction that was fetched, once all in flight have retired. No work
//! is lost, and the interrupt waits for the slowest (xUI 3.5).

use super::{Action, Rule, View};
use crate::core::Parameters;

pub(super) struct Drain;

impl Rule for Drain {
    fn at_fetch(&self, view: &View) -> Action {
        match (view.flag_ahead && view.safe_ahead, view.empty) {
            (false, _) => Action::Go,
            (true, true) => Action::Inject,
            (true, false) => Action::Hold,
        }
    }

    fn at_entry(&self, p: &Parameters) -> u64 {
        p.interrupt.drain_entry
    }
}
