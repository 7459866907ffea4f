//! Sharing cores with other applications.

use super::{BuildError, Builder, Clock, Membership, Quantum};
use crate::policy::PolicyChoice;
use crate::share::Share;

impl Builder {
    /// Shares cores with other applications, by a broker (`quaver share`), as long as the runtime
    /// runs. Default: not. (Skyloft 3.3.)
    ///
    /// The workers are then pinned to CPUs that the broker shares out: to all of them, unless
    /// [`cpus`](Builder::cpus) names some. A latency-critical runtime gives idle cores up and has
    /// them back before any best-effort application; its workers have the broker's rank
    /// (`SCHED_FIFO`, where the broker may give that), so a thread that never blocks keeps other
    /// programs from its CPU. A best-effort one runs in what is left. A worker looks for work
    /// before it sleeps for no longer than a core takes to change hands. [`Clock::Auto`] is
    /// [`PosixTimer`](Clock::PosixTimer): a clock's own thread would have no rank.
    ///
    /// With [`Membership::common`] the threads are in a run queue that applications of one
    /// user have in common: the broker's policy for it schedules instead of this builder's, with a
    /// worker on each of its CPUs.
    ///
    /// ```no_run
    /// let rt = quaver::Builder::new()
    ///     .share(quaver::sched::share::Membership::best_effort(3))
    ///     .build()?;
    /// # Ok::<(), quaver::BuildError>(())
    /// ```
    pub fn share(mut self, membership: Membership) -> Builder {
        self.share = Some(membership);
        self
    }

    /// [`share`](Builder::share) as text: `lc`, `be`, `be:3`, `queue`, each with `@SOCKET` if need
    /// be; or `off`.
    pub fn share_str(self, membership: &str) -> Builder {
        self.set("share", membership)
    }

    /// Joins, and adapts what was not chosen.
    pub(super) fn join(&mut self) -> Result<Option<Share>, BuildError> {
        let Some(membership) = self.share.take().filter(|_| self.error.is_none()) else {
            return Ok(None);
        };
        let share = Share::join(&membership)?;
        self.cpus.get_or_insert_with(|| share.cpus());
        if self.clock == Clock::Auto {
            self.clock = Clock::PosixTimer;
        }
        self.idle_spin = share.cycle().map_or(self.idle_spin, |cycle| self.idle_spin.min(cycle));
        if let Some((_, spec, threads)) = share.policy() {
            self.quantum = Quantum::Given(spec.quantum());
            self.policy = PolicyChoice::BuiltIn(spec);
            self.max_threads = self.max_threads.min(threads);
        }
        Ok(Some(share))
    }
}
