//! An application, as the broker knows it.

use super::freezer::Freezer;
use super::peer::Peer;
use super::ranks::{self, Binding, Rank, Ranked, USUAL};
use super::usage::{self, Usage};
use crate::class::Class;
use crate::client::Kind;
use crate::layout::Page;
use crate::map::Mapping;
use crate::threads::{put_all, threads};
use crate::wire::{self, Message, Subject};
use quaver_sched::Service;
use quaver_sched::share::{Budget, Candidate, Standing};
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_setaffinity};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

/// The time over which a budget is averaged.
const WINDOW: Duration = Duration::from_secs(1);

/// Who has not mapped its page by then has hung.
const PATIENCE: Duration = Duration::from_secs(2);

/// What counts up in a member's page, at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Counts {
    pub(super) parks: u64,
    pub(super) rings: u64,
    pub(super) answered: u64,
    pub(super) forced: u64,
    pub(super) waited: u64,
    pub(super) used: Duration,
}

/// An application.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) number: usize,
    pub(super) peer: Peer,
    /// Of one that has a page: until it leaves.
    pub(super) socket: Option<OwnedFd>,
    pub(super) service: Service,
    pub(super) weight: u32,
    pub(super) kind: Kind,
    pub(super) name: String,
    pub(super) page: Option<(OwnedFd, Mapping)>,
    /// It has mapped its page, which is sealed.
    pub(super) joined: bool,
    since: Instant,
    pub(super) usage: Usage,
    pub(super) budget: Budget,
    /// Threads that had the rank of latency-critical ones when the application lost it.
    lowered: Option<Vec<i32>>,
    threads: Vec<i32>,
    ranked: Ranked,
    /// How often it has raised itself.
    offences: u32,
    /// Of a plain program that has done so.
    pub(super) freezer: Option<Freezer>,
    /// It has not been told everything: its socket was full.
    pub(super) behind: bool,
    /// The counts about a second ago, and the seconds since.
    pub(super) before: (Counts, f64),
    /// Counts per second.
    pub(super) rates: Counts,
}

impl Member {
    pub(super) fn new(
        number: usize,
        peer: Peer,
        join: &Message,
        page: Option<(OwnedFd, Mapping)>,
        budget: u32,
    ) -> Member {
        let [critical, weight, plain, _] = join.words;
        let service = if critical == 1 { Service::LatencyCritical } else { Service::BestEffort };
        Member {
            number,
            peer,
            socket: None,
            service,
            weight,
            kind: if plain == 1 { Kind::Plain } else { Kind::Library },
            name: join.text.chars().filter(|c| !c.is_control()).take(64).collect(),
            page,
            joined: false,
            since: Instant::now(),
            usage: Usage::default(),
            budget: Budget::new(budget, WINDOW.as_nanos() as u64),
            lowered: None,
            threads: Vec::new(),
            ranked: Ranked::default(),
            offences: 0,
            freezer: None,
            behind: false,
            before: Default::default(),
            rates: Counts::default(),
        }
    }

    pub(super) fn is_critical(&self) -> bool {
        self.service == Service::LatencyCritical
    }

    /// It was admitted, and does not go on with that.
    pub(super) fn hesitates(&self) -> bool {
        !self.joined && self.since.elapsed() > PATIENCE
    }

    /// It has lost its rank for a while.
    pub(super) fn is_demoted(&self) -> bool {
        self.lowered.is_some()
    }

    pub(super) fn page(&self) -> Option<&Page> {
        // SAFETY: a page consists of atomics.
        self.page.as_ref().map(|(_, mapping)| unsafe { mapping.cast() })
    }

    /// Tells it something. `false`: it does not listen.
    pub(super) fn tell(&mut self, message: &Message, page: Option<&OwnedFd>) -> bool {
        let Some(socket) = &self.socket else { return true };
        let files: Vec<_> = page.iter().map(|file| file.as_fd()).collect();
        let sent = wire::send(socket, message, &files).is_ok();
        self.behind |= !sent;
        sent
    }

    /// What its page says of itself; its CPU time.
    pub(super) fn counts(&self) -> Counts {
        use std::sync::atomic::Ordering::Relaxed;
        let mut counts = Counts { used: self.usage.used, ..Counts::default() };
        for place in self.page().iter().flat_map(|page| &page.places) {
            counts.parks = counts.parks.wrapping_add(place.parks.load(Relaxed));
            counts.rings = counts.rings.wrapping_add(place.rings.load(Relaxed).into());
            counts.answered = counts.answered.wrapping_add(place.answered.load(Relaxed));
            counts.forced = counts.forced.wrapping_add(place.forced.load(Relaxed));
            counts.waited = counts.waited.wrapping_add(place.waited.load(Relaxed));
        }
        counts
    }

    /// Looks at what it uses; `span` has passed since the last look.
    pub(super) fn look(&mut self, cpus: &[usize], span: Duration) {
        let processes = match self.kind {
            Kind::Plain => usage::family(self.peer.pid),
            Kind::Library => vec![self.peer.pid],
        };
        let before = self.usage.used;
        self.threads = self.usage.look(&processes, cpus);
        let used = (self.usage.used - before).as_nanos() as u64;
        self.budget.spend(used, span.as_nanos() as u64, cpus.len());
        self.before.1 += span.as_secs_f64();
        let (earlier, seconds) = self.before;
        if seconds >= 1.0 {
            let now = self.counts();
            let rate = |now: u64, then: u64| (now.wrapping_sub(then) as f64 / seconds) as u64;
            self.rates = Counts {
                parks: rate(now.parks, earlier.parks),
                rings: rate(now.rings, earlier.rings),
                answered: rate(now.answered, earlier.answered),
                forced: rate(now.forced, earlier.forced),
                waited: rate(now.waited, earlier.waited),
                used: now.used.saturating_sub(earlier.used).div_f64(seconds),
            };
            self.before = (now, 0.0);
        }
    }

    /// As the account of what it uses says, a latency-critical application loses its rank or has
    /// it back. Its threads rank themselves, as far as they may.
    pub(super) fn judge(&mut self, binding: Binding) {
        let standing = self.budget.standing();
        let critical = binding.class(Rank::Critical);
        match (standing, &self.lowered) {
            (Standing::Lost, None) => {
                let _ = ranks::allow(self.peer.pid, None);
                let is_ranked = |tid: &i32| Class::of(*tid).is_ok_and(|class| class == critical);
                self.lowered = Some(self.threads.iter().copied().filter(is_ranked).collect());
            }
            (Standing::Kept, Some(lowered)) => {
                let _ = ranks::allow(self.peer.pid, Some(critical));
                for tid in lowered.iter().filter(|tid| self.threads.contains(tid)) {
                    let _ = critical.set(*tid);
                }
                let others = self.threads.iter().filter(|tid| !lowered.contains(tid));
                others.for_each(|tid| drop(USUAL.set(*tid)));
                self.lowered = None;
                self.ranked.forget();
            }
            _ => {}
        }
    }

    /// For the turns of those that have no rank of their own.
    pub(super) fn candidate(&self) -> Candidate {
        Candidate {
            app: self.number as u32,
            weight: self.weight,
            used: self.usage.used.as_nanos() as u64,
            wants: self.usage.wants,
        }
    }

    /// Puts all its threads into the class of a rank.
    pub(super) fn rank(&mut self, binding: Binding, rank: Rank) -> io::Result<()> {
        if self.is_demoted() {
            // They may do what they can to come back.
            self.ranked.forget();
        }
        let threads = std::mem::take(&mut self.threads);
        let result = self.ranked.put(&threads, binding.class(rank));
        self.threads = threads;
        result
    }

    /// Whether one of its threads is in a higher class than it was put into.
    pub(super) fn has_risen(&self) -> bool {
        self.ranked.any_has_risen()
    }

    /// It has raised itself, and is ranked anew from the lowest class on. How often it did.
    pub(super) fn lowered_anew(&mut self) -> u32 {
        self.ranked.forget();
        self.offences += 1;
        self.offences
    }

    /// A plain program, which cannot do that itself, runs on these CPUs and below everything.
    pub(super) fn bind(&mut self, cpus: &[usize]) -> io::Result<()> {
        let mut set = CpuSet::new();
        cpus.iter().for_each(|&cpu| set.set(cpu));
        for process in usage::family(self.peer.pid) {
            for tid in threads(process) {
                sched_setaffinity(Pid::from_raw(tid), &set)?;
                Class::Idle.set(tid)?;
            }
        }
        Ok(())
    }

    /// The process is no member any more, and may go on: it gets the class that everyone has.
    pub(super) fn release(&mut self, class: Class) {
        if self.peer.has_ended() {
            return;
        }
        if self.is_critical() {
            let _ = ranks::allow(self.peer.pid, None);
        }
        let processes = match self.kind {
            Kind::Plain => usage::family(self.peer.pid),
            Kind::Library => vec![self.peer.pid],
        };
        put_all(&processes, class);
    }

    /// Says that the broker ends, and has given everyone their class back.
    pub(super) fn tell_ended(&mut self) {
        self.tell(&Message::new(Subject::Ended, [0; 4]), None);
    }

    /// Says why it is no member any more.
    pub(super) fn tell_expelled(&mut self, why: &str) {
        self.tell(&Message::with_text(Subject::Expelled, why), None);
    }
}
