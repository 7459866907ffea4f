//! The locks that are compared, behind one interface: all are measured through one call path.

mod both;
mod futex;
mod malthusian;
mod mcs;
mod mcs_tp;
mod ours;
mod parking;
mod place;
mod pthread;
mod shuffle;
mod sleep;
mod slice;
mod tatas;
#[cfg(test)]
mod tests;
mod u_scl;

use std::time::Duration;

use quaver_lock::monitor::{self, Counting};
use serde::{Deserialize, Serialize};

pub use both::Both;
pub use futex::Futex;
pub use malthusian::Malthusian;
pub use mcs::Mcs;
pub use mcs_tp::McsTp;
pub use pthread::Pthread;
pub use shuffle::Shuffle;
pub use slice::Slice;
pub use tatas::Tatas;
pub use u_scl::UScl;

pub(crate) use sleep::{cycles, cycles_per_us, wait as sleep_at, wake as wake_at};

/// Looks of the lock that spins, then parks.
pub type SpinPark = Futex<100>;

/// A lock that threads contend for. It may move before its first use only.
pub trait BenchLock: Send + Sync {
    /// What each thread brings: its place in queues. It serves all locks, one at a time.
    type Node: Default;

    /// A free lock.
    fn create() -> Self;

    /// Waits for the lock. Returns how often the thread has looked in vain.
    fn lock(&self, node: &mut Self::Node) -> u64;

    /// Frees the lock.
    ///
    /// # Safety
    ///
    /// The calling thread has taken it, with this `node`.
    unsafe fn unlock(&self, node: &mut Self::Node);
}

/// A lock whose waits can end early.
pub trait Timed: BenchLock {
    /// Waits for the lock, at most `limit`; says whether it was taken.
    fn lock_for(&self, node: &mut Self::Node, limit: Duration) -> bool;
}

/// Which lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// The C library's.
    Pthread,
    /// A word and `futex`, nothing else.
    Futex,
    /// The same after a short spin.
    SpinPark,
    /// A word and spinning.
    Tatas,
    /// A queue whose threads spin on words of their own.
    Mcs,
    /// MCS that passes over those who do not run.
    McsTp,
    /// MCS with few active waiters.
    Malthusian,
    /// A word and a queue that is reordered.
    Shuffle,
    /// Slices of lock ownership.
    UScl,
    /// A spinlock whose holder asks not to be preempted.
    Slice,
    /// Ours without a monitor.
    Unmonitored,
    /// Ours.
    Quaver,
    /// Ours, with a counter for each lock.
    QuaverEach,
    /// Ours, whose holder asks not to be preempted.
    QuaverSlice,
}

/// What is done with a lock whose type is chosen by a [`Kind`].
pub trait Use {
    /// What comes out.
    type Out;

    /// Does it.
    fn with<L: BenchLock + 'static>(self) -> Self::Out;
}

impl Kind {
    /// All of them, the reference first.
    pub const ALL: [Kind; 14] = [
        Kind::Pthread,
        Kind::Futex,
        Kind::SpinPark,
        Kind::Tatas,
        Kind::Mcs,
        Kind::McsTp,
        Kind::Malthusian,
        Kind::Shuffle,
        Kind::UScl,
        Kind::Slice,
        Kind::Unmonitored,
        Kind::Quaver,
        Kind::QuaverEach,
        Kind::QuaverSlice,
    ];

    /// Its name in tables and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Pthread => "pthread",
            Kind::Futex => "futex",
            Kind::SpinPark => "spin-park",
            Kind::Tatas => "tatas",
            Kind::Mcs => "mcs",
            Kind::McsTp => "mcs-tp",
            Kind::Malthusian => "malthusian",
            Kind::Shuffle => "shuffle",
            Kind::UScl => "u-scl",
            Kind::Slice => "slice",
            Kind::Unmonitored => "quaver unmonitored",
            Kind::Quaver => "quaver",
            Kind::QuaverEach => "quaver each",
            Kind::QuaverSlice => "quaver slice",
        }
    }

    /// Does it need the kernel's slice extension?
    pub fn asks_for_slices(self) -> bool {
        matches!(self, Kind::Slice | Kind::QuaverSlice)
    }

    /// Readies this process for it: ours gets its monitor.
    ///
    /// # Errors
    ///
    /// Why this lock cannot be used here, for people.
    pub fn prepare(self) -> Result<(), String> {
        match self {
            Kind::Quaver => watched(Counting::System),
            Kind::QuaverEach => watched(Counting::EachLock),
            Kind::Slice => slice::enable(),
            Kind::QuaverSlice => slice::enable().and_then(|()| watched(Counting::System)),
            _ => Ok(()),
        }
    }

    /// Does something with the lock's type.
    pub fn with<U: Use>(self, job: U) -> U::Out {
        match self {
            Kind::Pthread => job.with::<Pthread>(),
            Kind::Futex => job.with::<Futex<0>>(),
            Kind::SpinPark => job.with::<SpinPark>(),
            Kind::Tatas => job.with::<Tatas>(),
            Kind::Mcs => job.with::<Mcs>(),
            Kind::McsTp => job.with::<McsTp>(),
            Kind::Malthusian => job.with::<Malthusian>(),
            Kind::Shuffle => job.with::<Shuffle>(),
            Kind::UScl => job.with::<UScl>(),
            Kind::Slice => job.with::<Slice>(),
            Kind::QuaverSlice => job.with::<Both>(),
            Kind::Unmonitored | Kind::Quaver | Kind::QuaverEach => job.with::<quaver_lock::Lock>(),
        }
    }
}

fn watched(counting: Counting) -> Result<(), String> {
    monitor::attach().map_err(|absent| absent.to_string())?;
    monitor::count(counting);
    Ok(())
}
