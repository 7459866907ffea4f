//! A signal of the kernel: it enters as a flush does, and the kernel's work follows (xUI 2). The
//! baseline of what there is without user interrupts.

use super::flush::Flush;
use super::{Action, Rule, View};
use crate::core::Parameters;

pub(super) struct Signal;

impl Rule for Signal {
    fn at_retirement(&self, view: &View) -> Action {
        Flush.at_retirement(view)
    }

    fn after_squash(&self, p: &Parameters) -> u64 {
        Flush.after_squash(p) + p.interrupt.signal
    }
}
