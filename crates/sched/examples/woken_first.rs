//! A policy outside this crate: woken tasks, and those from outside, run before all others.

use quaver_sched::{
    Class, Pick, Place, Policy, Running, Task, Time, Why,
    queue::{Links, List, WorkerQueues},
};

struct WokenFirst {
    quantum: Time,
    links: Links,       // one table for all lists: a task is in one queue at most
    woken: List,        // anyone may add to a list
    rest: WorkerQueues, // a worker adds to its own queue only, and steals
}

impl Policy for WokenFirst {
    fn name(&self) -> &'static str {
        "woken-first"
    }

    fn task_enqueue(&self, place: Place, task: Task, why: Why, _now: Time) {
        match (place, why) {
            (Place::Shared, _) | (_, Why::Woken) => self.woken.push(&self.links, task),
            (Place::Local(worker), _) => self.rest.push(worker, &self.links, task),
        }
    }

    fn task_dequeue(&self, worker: usize, _now: Time) -> Option<Pick> {
        let task = self.woken.pop(&self.links).or_else(|| self.rest.pop(worker, &self.links))?;
        Some(Pick { task, class: Class::Fresh })
    }

    fn balance(&self, worker: usize, _now: Time) -> Option<Pick> {
        let task = self.rest.steal(worker, &self.links)?;
        Some(Pick { task, class: Class::Fresh })
    }

    fn preempt_at(&self, worker: usize, running: &Running, timer: Option<Time>) -> Option<Time> {
        let end = running.since + self.quantum;
        let waits = !self.woken.is_empty() || !self.rest.is_empty(worker);
        // A timer wakes a task.
        if waits { Some(end) } else { timer.map(|timer| timer.max(end)) }
    }

    fn has_work(&self, _worker: usize) -> bool {
        !self.woken.is_empty() || self.rest.any_waiting()
    }

    fn waiting(&self) -> usize {
        self.woken.len() + self.rest.total()
    }
}

fn main() {
    let policy = WokenFirst {
        quantum: 20,
        links: Links::new(1000),
        woken: List::new(),
        rest: WorkerQueues::new(2),
    };
    policy.task_enqueue(Place::Local(0), Task(1), Why::New, 0);
    policy.task_enqueue(Place::Local(1), Task(2), Why::Woken, 7);
    let Pick { task, class } = policy.task_dequeue(0, 10).unwrap();
    assert_eq!(task, Task(2));
    assert_eq!(policy.preempt_at(0, &Running { task, since: 10, class }, None), Some(30));
    assert_eq!(policy.balance(1, 10).unwrap().task, Task(1));
}
