//! The preemption signal, in programs that use it themselves.

use crate::Builder;
pub use crate::preempt::own_stack::{action_flag, enter, use_alternate_stacks};
pub use crate::preempt::stranger::{Stranger, set as set_stranger};

/// The signal by which a runtime of this builder's will preempt.
pub fn signal(builder: &Builder) -> i32 {
    builder.preemption_signal()
}
