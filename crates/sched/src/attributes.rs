//! What a host tells a policy about a task: its weight, priority and kind of service.

use crate::{
    Task,
    sync::{AtomicU32, Ordering::Relaxed},
    table::{self, Table},
};

/// The weight of a task that was given none. A task with twice the weight gets twice the processor
/// time.
pub const DEFAULT_WEIGHT: u32 = 100;
/// The largest weight; the smallest is 1.
pub const MAX_WEIGHT: u32 = 10_000;
/// How many priorities there are: 0, the lowest, to 7.
pub const PRIORITIES: u8 = 8;
/// The priority of a task that was given none.
pub const DEFAULT_PRIORITY: u8 = 3;

/// What kind of application a task belongs to (Shenango's and Skyloft's LC and BE, SOSP '24 section
/// 5.2).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Service {
    /// Latency-critical: somebody waits for the answer.
    #[default]
    LatencyCritical,
    /// Best-effort: it uses what the others leave.
    BestEffort,
}

/// What a policy may take into account beside the order of arrival. Which policy heeds what: `cfs`
/// and `eevdf` the weight, `priority` the priority, `shinjuku-shenango` the service; the others
/// none of it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Attributes {
    /// The share of processor time, relative to others: 1 to [`MAX_WEIGHT`]; values outside are
    /// taken for the nearest.
    pub weight: u32,
    /// 0 to 7, the most urgent; larger values are taken for 7.
    pub priority: u8,
    /// The kind of application.
    pub service: Service,
}

impl Default for Attributes {
    fn default() -> Self {
        Attributes {
            weight: DEFAULT_WEIGHT,
            priority: DEFAULT_PRIORITY,
            service: Service::LatencyCritical,
        }
    }
}

const PRIORITY_AT: u32 = 16;
const SERVICE_AT: u32 = 24;

/// The attributes of all tasks, a word each, for policies that need them. A task of which nobody
/// has said anything has the defaults.
#[derive(Debug)]
pub struct AttributeTable(Table<AtomicU32>);

impl AttributeTable {
    /// For the tasks `0..max_tasks`: 4 bytes each, physically allocated when first used.
    pub fn new(max_tasks: u32) -> Self {
        AttributeTable(table::zeroed_u32(max_tasks))
    }

    /// Record what [`Policy::task_init`](crate::Policy::task_init) was told.
    pub fn set(&self, task: Task, attributes: &Attributes) {
        let weight = attributes.weight.clamp(1, MAX_WEIGHT) ^ DEFAULT_WEIGHT;
        let priority = u32::from(attributes.priority.min(PRIORITIES - 1) ^ DEFAULT_PRIORITY);
        let service = u32::from(attributes.service == Service::BestEffort);
        let word = weight | priority << PRIORITY_AT | service << SERVICE_AT;
        self.0[task.0 as usize].store(word, Relaxed);
    }

    /// Change the priority alone. Of two changes of one task at the same time one may be lost.
    pub fn set_priority(&self, task: Task, priority: u8) {
        let weight = self.weight(task);
        let service = self.service(task);
        self.set(task, &Attributes { weight, priority, service });
    }

    /// The weight, 1 to [`MAX_WEIGHT`].
    pub fn weight(&self, task: Task) -> u32 {
        (self.word(task) & 0xffff) ^ DEFAULT_WEIGHT
    }

    /// The priority, below [`PRIORITIES`].
    pub fn priority(&self, task: Task) -> u8 {
        (self.word(task) >> PRIORITY_AT) as u8 ^ DEFAULT_PRIORITY
    }

    /// The kind of service.
    pub fn service(&self, task: Task) -> Service {
        if self.word(task) >> SERVICE_AT == 0 {
            Service::LatencyCritical
        } else {
            Service::BestEffort
        }
    }

    fn word(&self, task: Task) -> u32 {
        self.0[task.0 as usize].load(Relaxed)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn what_is_set_is_found_and_the_rest_has_defaults() {
        let table = AttributeTable::new(2);
        let of = |task| Attributes {
            weight: table.weight(task),
            priority: table.priority(task),
            service: table.service(task),
        };
        assert_eq!(of(Task(1)), Attributes::default());
        for weight in [1, 100, 356, MAX_WEIGHT] {
            for priority in 0..PRIORITIES {
                for service in [Service::LatencyCritical, Service::BestEffort] {
                    let attributes = Attributes { weight, priority, service };
                    table.set(Task(0), &attributes);
                    assert_eq!(of(Task(0)), attributes);
                }
            }
        }
        let (weight, service) = (MAX_WEIGHT, Service::BestEffort);
        table.set_priority(Task(0), 6);
        assert_eq!(of(Task(0)), Attributes { weight, priority: 6, service });
        table.set(Task(0), &Attributes { weight: 0, priority: 200, ..Attributes::default() });
        assert_eq!((table.weight(Task(0)), table.priority(Task(0))), (1, 7));
        assert_eq!(of(Task(1)), Attributes::default());
    }
}
