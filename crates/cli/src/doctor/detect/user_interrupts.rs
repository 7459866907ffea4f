//! User interrupts, as the runtime finds them.

use quaver::platform;
use serde::Serialize;

/// User interrupts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UserInterrupts {
    /// The processor has them.
    pub cpu: bool,
    /// Whose interface the kernel has: `module`, `intel-kernel`.
    pub kernel_abi: Option<String>,
    /// `/dev/quaver` is there.
    pub module: bool,
    /// A runtime can be told by them.
    pub usable: bool,
    /// Why, or why not, as a sentence without its full stop.
    pub why: String,
}

pub(super) fn detect() -> UserInterrupts {
    let platform::UserInterrupts { cpu, kernel_abi, module, usable, why, .. } =
        platform::user_interrupts();
    UserInterrupts { cpu, kernel_abi: kernel_abi.map(|abi| abi.to_string()), module, usable, why }
}
