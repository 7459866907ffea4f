//! What the members of a common queue share: this head, a word and the attributes of each task, and
//! then the policy with its tables.
//!
//! Everything here is written under the queue's lock, but for [`Member::who`], the marks and the
//! seats. Stores are release, so they are made in the order of the program, and a member that dies
//! between two of them has made the first.

use super::word::Word;
use crate::layout::MOST_PLACES;
use quaver_sched::{Attributes, Class, Pick, Service, Task};
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64};

/// Applications that one queue can have.
pub const MOST_MEMBERS: usize = 16;

pub(super) const MAGIC: u32 = u32::from_ne_bytes(*b"QvCq");
/// The longest text of a policy.
pub(super) const SPEC: usize = 256;

/// At the beginning of the memory.
#[repr(C, align(4096))]
pub(super) struct Head {
    pub(super) magic: AtomicU32,
    pub(super) cores: AtomicU32,
    /// Tasks of each member.
    pub(super) tasks: AtomicU32,
    pub(super) ticks_per_us: AtomicU32,
    /// Where everybody must have the memory, and what the policy there is made by.
    pub(super) address: AtomicU64,
    pub(super) mark: AtomicU64,
    /// How often the queue was made anew because somebody died while holding its lock.
    pub(super) rebuilt: AtomicU64,
    /// See `lock`.
    pub(super) lock: Word,
    pub(super) spec: [AtomicU8; SPEC],
    pub(super) cpus: [AtomicU32; MOST_PLACES],
    pub(super) members: [Member; MOST_MEMBERS],
    pub(super) cores_now: [Core; MOST_PLACES],
    /// Where the worker of a member sleeps on a core.
    pub(super) seats: [[Seat; MOST_PLACES]; MOST_MEMBERS],
}

/// An application.
#[repr(C, align(64))]
pub(super) struct Member {
    /// Its process, see `life`; 0: free.
    pub(super) who: AtomicU64,
    /// 1: it is stopped, and what it has that is ready is set aside.
    pub(super) aside: AtomicU32,
    /// Tasks above this one it has never used.
    pub(super) used: AtomicU32,
    /// See `lock`: at the end of this turn it stops itself.
    pub(super) mark: Word,
}

/// A core.
#[repr(C, align(64))]
pub(super) struct Core {
    /// See [`Now`].
    pub(super) now: AtomicU64,
    /// How often it was given from one application to another.
    pub(super) switches: AtomicU64,
    /// When it was given to a worker that has yet to take it, in ticks.
    pub(super) given_at: AtomicU64,
    /// How often one has taken it, and how long that took in all.
    pub(super) taken: AtomicU64,
    pub(super) waited: AtomicU64,
}

#[repr(C, align(64))]
pub(super) struct Seat {
    /// 1 once it was woken.
    pub(super) word: AtomicU32,
    /// The kernel thread that rests in the module; 0: it sleeps by the word.
    pub(super) tid: AtomicU32,
}

/// A task.
#[repr(C)]
pub(super) struct Entry {
    /// [`LIVE`] once the policy has heard of it; [`READY`] while it waits, in the policy or given;
    /// [`ASIDE`] if it waits nowhere, because its owner is stopped; [`CHOSEN`] from when a policy
    /// that accounts has chosen it until that is told that it stops; the core for which it was
    /// chosen last.
    pub(super) word: AtomicU32,
    pub(super) attributes: AtomicU32,
    /// While tasks are taken out of the policy: the number after that of the next one; 0: the last.
    pub(super) next: AtomicU32,
}

pub(super) const LIVE: u32 = 1 << 31;
pub(super) const READY: u32 = 1 << 30;
pub(super) const ASIDE: u32 = 1 << 29;
pub(super) const CHOSEN: u32 = 1 << 28;
pub(super) const CORE: u32 = 0xff;

/// Who has a core. A task that is [`READY`] and named here is granted: it is in no queue, and its
/// owner's worker has not taken it yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Now {
    /// `None`: nobody, the core is idle.
    pub(super) member: Option<usize>,
    pub(super) pick: Option<Pick>,
}

const PREEMPTED: u64 = 1 << 31;

impl Now {
    pub(super) const NOBODY: Now = Now { member: None, pick: None };

    pub(super) fn from_word(word: u64) -> Now {
        let task = (word as u32 & !(PREEMPTED as u32)).checked_sub(1).map(Task);
        let class = if word & PREEMPTED == 0 { Class::Fresh } else { Class::Preempted };
        let member = ((word >> 32) as usize).checked_sub(1).filter(|&m| m < MOST_MEMBERS);
        Now { member, pick: task.map(|task| Pick { task, class }) }
    }

    pub(super) fn to_word(self) -> u64 {
        let pick = self.pick.map_or(0, |pick| {
            let class = if pick.class == Class::Preempted { PREEMPTED } else { 0 };
            (u64::from(pick.task.0) + 1) | class
        });
        self.member.map_or(0, |member| (member as u64 + 1) << 32 | pick)
    }
}

pub(super) fn attributes_to_word(attributes: &Attributes) -> u32 {
    let service = u32::from(attributes.service == Service::BestEffort);
    attributes.weight.min(0xffff) | u32::from(attributes.priority) << 16 | service << 24
}

pub(super) fn attributes_from_word(word: u32) -> Attributes {
    let service = if word >> 24 == 0 { Service::LatencyCritical } else { Service::BestEffort };
    Attributes { weight: word & 0xffff, priority: (word >> 16) as u8, service }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn words_say_what_was_put_in() {
        for member in [None, Some(0), Some(MOST_MEMBERS - 1)] {
            for class in [Class::Fresh, Class::Preempted] {
                for task in [0, 1, 0x7fff_fffd] {
                    let pick = Some(Pick { task: Task(task), class }).filter(|_| member.is_some());
                    let now = Now { member, pick };
                    assert_eq!(Now::from_word(now.to_word()), now);
                }
            }
        }
        let service = Service::BestEffort;
        for attributes in [Attributes::default(), Attributes { weight: 9999, priority: 7, service }]
        {
            assert_eq!(attributes_from_word(attributes_to_word(&attributes)), attributes);
        }
    }
}
