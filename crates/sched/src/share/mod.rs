//! How several applications share cores: pure decisions, for the broker of `quaver share`, for its
//! members and for the simulator. (Skyloft 3.3 and 5.2; Shenango's core allocation.)
//!
//! * [`Membership`]: what an application asks for, as text: `lc`, `be:3@/run/q.sock`.
//! * [`take_at`]: when a latency-critical (LC) application takes another core.
//! * [`Keep`]: how long it keeps one for which it has no work.
//! * [`Turns`]: which best-effort (BE) application has the cores that are left, by weights.
//! * [`Budget`]: how much a latency-critical one may use before it loses its rank.
//!
//! Times are in the caller's unit.

mod budget;
mod demand;
mod keep;
mod membership;
mod turns;

pub use budget::{Budget, Standing};
pub use demand::{Cores, take_at};
pub use keep::Keep;
pub use membership::{MAX_SHARE_WEIGHT, Membership};
pub use turns::{Candidate, Turns};
