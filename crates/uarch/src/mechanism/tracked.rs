//! Tracked: after the youngest instruction that was fetched, at once. What is in flight stays, and
//! may squash the interrupt, which is then injected again (xUI 4.2).

use super::{Action, Rule, View};

pub(super) struct Tracked;

impl Rule for Tracked {
    fn at_fetch(&self, view: &View) -> Action {
        if view.flag_ahead && view.safe_ahead { Action::Inject } else { Action::Go }
    }
}
