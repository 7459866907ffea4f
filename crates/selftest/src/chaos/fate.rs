//! What becomes of a process, apart from what it does.

use crate::fuzz::run::Running;
use crate::torture::Rng;
use std::time::{Duration, Instant};

/// A fate, and how far it has come.
#[derive(Debug)]
pub(super) enum Fate {
    /// Nothing.
    Undisturbed,
    /// It is killed at this time.
    Killed {
        /// Or later.
        at: Instant,
        /// It is dead.
        done: bool,
    },
    /// It is stopped at this time, or goes on then; and so on.
    Stopped {
        /// Or later.
        next: Instant,
        /// It goes on next.
        stands: bool,
        /// Chooses times.
        rng: Rng,
    },
}

/// A process takes a few hundred milliseconds; half of the kills meet one that begins.
const BEGINNING: Duration = Duration::from_millis(60);
const LIFE: Duration = Duration::from_millis(600);
/// Between two stops, and of one, at most.
const GOES: Duration = Duration::from_millis(80);
const STANDS: Duration = Duration::from_millis(30);

fn up_to(time: Duration, rng: &mut Rng) -> Duration {
    Duration::from_micros(rng.below(time.as_micros() as u64))
}

impl Fate {
    /// One, for a process that begins now.
    pub(super) fn choose(rng: &mut Rng) -> Fate {
        match rng.below(4) {
            0 | 1 => Fate::Undisturbed,
            2 => {
                let span = if rng.below(2) == 0 { BEGINNING } else { LIFE };
                Fate::Killed { at: Instant::now() + up_to(span, rng), done: false }
            }
            _ => {
                let next = Instant::now() + up_to(GOES, rng);
                Fate::Stopped { next, stands: false, rng: Rng(rng.next()) }
            }
        }
    }

    /// Does what is due. Whether the process has been stopped.
    pub(super) fn come(&mut self, process: &Running) -> bool {
        let now = Instant::now();
        let sent = |signal| process.signal(signal).is_ok();
        match self {
            Fate::Killed { at, done } if !*done && *at <= now => {
                *done = sent(libc::SIGKILL);
                false
            }
            Fate::Stopped { next, stands, rng } if *next <= now => {
                let (signal, span) =
                    if *stands { (libc::SIGCONT, GOES) } else { (libc::SIGSTOP, STANDS) };
                *next = now + up_to(span, rng);
                // One that has ended is about to be seen.
                *stands = sent(signal) && !*stands;
                *stands
            }
            _ => false,
        }
    }

    /// It was killed.
    pub(super) fn has_killed(&self) -> bool {
        matches!(self, Fate::Killed { done: true, .. })
    }

    /// In words.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Fate::Undisturbed => "undisturbed",
            Fate::Killed { .. } => "to be killed",
            Fate::Stopped { .. } => "stopped now and then",
        }
    }
}
