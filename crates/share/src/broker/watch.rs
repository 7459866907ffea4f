//! Looking at the members: what they have written and used, and whose turn it is.

use super::Policy;
use super::freezer::Freezer;
use super::member::Member;
use super::ranks::{Binding, Rank};
use super::server::{Broker, REMEMBERED};
use super::usage;
use crate::class::Class;
use crate::client::Kind;
use crate::layout::MOST_APPS;
use crate::threads::put_all;
use std::time::{Duration, Instant};

/// Between two looks at the members, where nobody takes turns.
pub(super) const TICK: Duration = Duration::from_millis(100);
/// The same where nothing is decided by what they use: a look takes its CPU from others.
const REST: Duration = Duration::from_secs(1);

/// How often a plain program may raise itself before it stays frozen.
const MOST_OFFENCES: u32 = 3;

impl Broker {
    /// Whether this member has no rank of its own.
    fn takes_turns_with_others(&self, m: &Member) -> bool {
        m.joined && (self.options.policy == Policy::Weights || !m.is_critical() || m.is_demoted())
    }

    /// How long it is from one look to the next.
    pub(super) fn tick(&self) -> Duration {
        match () {
            () if self.take_turns() => self.options.slice.min(TICK),
            () if self.decides_by_use() => TICK,
            () => REST,
        }
    }

    /// Looks at the members, unless that was less than `tick` ago.
    pub(super) fn look_after(&mut self, tick: Duration) {
        let span = self.looked.elapsed();
        if span >= tick {
            self.looked = Instant::now();
            self.look(span);
        }
    }

    /// Whether several do.
    fn take_turns(&self) -> bool {
        let takers = self.joined().filter(|m| self.takes_turns_with_others(m)).count();
        takers > 1 && self.binding.has_turns()
    }

    /// Whether what a member uses can cost it its rank, or its threads must be looked for.
    fn decides_by_use(&self) -> bool {
        let budgets = self.options.policy == Policy::Shenango && self.options.budget < 100;
        self.joined().any(|m| m.kind == Kind::Plain || (budgets && m.is_critical()))
    }

    /// Looks at everyone: values, use, ranks; `span` has passed since the last look.
    pub(super) fn look(&mut self, span: Duration) {
        let places = self.options.cpus.len();
        if let Some(queue) = &mut self.queue {
            queue.look(&self.options.cpus, span);
        }
        for number in 0..MOST_APPS {
            let Some(member) = &mut self.members[number] else { continue };
            if member.hesitates() {
                self.leave(number, true);
                continue;
            }
            let checked = member.page().map_or(Ok(()), |page| page.check(places));
            match checked {
                Err(why) => self.expel(number, why),
                Ok(()) => {
                    member.look(&self.options.cpus, span);
                    if member.is_critical() && self.options.policy == Policy::Shenango {
                        member.judge(self.binding);
                    }
                    if member.kind == Kind::Plain && member.has_risen() {
                        self.hold_down(number);
                        continue;
                    }
                    if member.behind {
                        self.tell_all(number);
                    }
                }
            }
        }
        self.rank();
    }

    /// A plain program has raised itself: it is lowered, and again while it is frozen, in case that
    /// it goes on raising itself. It stays frozen if it does so again and again.
    fn hold_down(&mut self, number: usize) {
        let Some(member) = &mut self.members[number] else { return };
        let (name, offences) = (member.name.clone(), member.lowered_anew());
        let pid = member.peer.pid;
        let family = usage::family(pid);
        put_all(&family, Class::Idle);
        let frozen = match member.freezer.take() {
            Some(freezer) => Ok(freezer),
            None => Freezer::new(pid),
        };
        let frozen = frozen.and_then(|mut freezer| freezer.freeze(&family).map(|()| freezer));
        let mut freezer = match frozen {
            Ok(freezer) => freezer,
            Err(error) => return self.note(format!("cannot freeze {name}: {error}")),
        };
        put_all(&freezer.processes(), Class::Idle);
        if offences >= MOST_OFFENCES {
            self.frozen.push(freezer);
            self.expel(number, "it raises its own rank, and is frozen");
        } else {
            freezer.thaw();
            member.freezer = Some(freezer);
        }
    }

    fn note(&mut self, note: String) {
        if !self.notes.contains(&note) && self.notes.len() < REMEMBERED {
            self.notes.push(note);
        }
    }

    /// Gives turns, and puts threads into the classes of their ranks.
    fn rank(&mut self) {
        let takers: Vec<usize> =
            self.joined().filter(|m| self.takes_turns_with_others(m)).map(|m| m.number).collect();
        let candidates: Vec<_> = takers
            .iter()
            .filter_map(|&n| self.members[n].as_ref())
            .map(Member::candidate)
            .collect();
        let holder = self.turns.next(&candidates);
        let alone = takers.len() == 1;
        for &number in &takers {
            let Some(member) = &mut self.members[number] else { continue };
            let has_turn = holder == Some(number as u32);
            let rank = match (alone, has_turn, member.kind) {
                (false, false, _) => Rank::Last,
                (false, true, Kind::Plain) => Rank::PlainTurn,
                (false, true, Kind::Library) => Rank::Turn,
                // Nobody to take turns with.
                _ if self.options.policy == Policy::Weights => Rank::PlainTurn,
                (true, _, Kind::Library) if self.binding == Binding::Fifo => Rank::Turn,
                (true, ..) => Rank::Last,
            };
            if let Err(error) = member.rank(self.binding, rank) {
                let note = format!("cannot rank {}: {error}", member.name);
                self.note(note);
            }
        }
    }
}
