//! Flush: after the youngest instruction that has retired; all work in flight is lost. What the
//! paper found UIPI to do (xUI 3.5).

use super::{Action, Rule, View};
use crate::core::Parameters;

pub(super) struct Flush;

impl Rule for Flush {
    fn at_retirement(&self, view: &View) -> Action {
        if view.flag_retired && view.safe_retired && view.boundary {
            Action::Squash
        } else {
            Action::Go
        }
    }

    fn after_squash(&self, p: &Parameters) -> u64 {
        p.interrupt.flush_entry
    }
}
