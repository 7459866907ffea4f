//! Can applications share cores here (`quaver share`)?

use quaver_sched::share::Membership;
use quaver_share::class::Class;
use serde::Serialize;

/// What a broker of shared cores has, or would have.
#[derive(Clone, Debug, Serialize)]
pub struct Sharing {
    /// A broker answers at the usual path, or where `QUAVER_SHARE_SOCKET` says.
    pub broker: bool,
    /// This process may put threads into `SCHED_FIFO`.
    pub realtime: bool,
    /// It may give threads higher priorities.
    pub nice: bool,
}

pub(super) fn detect() -> Sharing {
    let socket = quaver_share::socket_path(&Membership::critical());
    Sharing {
        broker: quaver_share::status(&socket).is_ok(),
        realtime: Class::Fifo(1).is_allowed(),
        nice: Class::Other(-20).is_allowed(),
    }
}
