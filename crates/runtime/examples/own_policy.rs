//! A policy of one's own: whoever was woken runs first, the latest of them before all others,
//! because its data is warm. The rest is first in, first out. One queue each for all workers, and a
//! quantum.

use std::time::Duration;

use quaver::Policy;
use quaver::sched::queue::{Heap, Links, List, Nodes};
use quaver::sched::{Class, Pick, Place, Running, Task, Time, Why};

struct LatestWoken {
    quantum: Option<Time>,
    nodes: Nodes,
    woken: Heap, // by the time until the end of time: the latest is the smallest
    links: Links,
    rest: List,
}

impl Policy for LatestWoken {
    fn name(&self) -> &'static str {
        "latest-woken"
    }

    fn task_enqueue(&self, _place: Place, task: Task, why: Why, now: Time) {
        match why {
            Why::Woken => self.woken.push(&self.nodes, task, Time::MAX - now),
            _ => self.rest.push(&self.links, task),
        }
    }

    fn task_dequeue(&self, _worker: usize, _now: Time) -> Option<Pick> {
        let woken = self.woken.pop(&self.nodes).map(|(task, _)| task);
        let task = woken.or_else(|| self.rest.pop(&self.links))?;
        Some(Pick { task, class: Class::Fresh })
    }

    fn central(&self) -> bool {
        true // there is nothing to steal
    }

    fn balance(&self, _worker: usize, _now: Time) -> Option<Pick> {
        None
    }

    fn preempt_at(&self, worker: usize, running: &Running, timer: Option<Time>) -> Option<Time> {
        let end = running.since + self.quantum?;
        let for_waiting = self.has_work(worker).then_some(end);
        for_waiting.or(timer.map(|timer| timer.max(end)))
    }

    fn has_work(&self, _worker: usize) -> bool {
        self.waiting() > 0
    }

    fn waiting(&self) -> usize {
        self.woken.len() + self.rest.len()
    }
}

fn main() -> Result<(), quaver::BuildError> {
    let rt = quaver::Builder::new()
        .workers(2)
        .custom_policy(Some(Duration::from_micros(100)), |room| {
            Box::new(LatestWoken {
                quantum: room.quantum,
                nodes: Nodes::new(room.max_threads),
                woken: Heap::new(),
                links: Links::new(room.max_threads),
                rest: List::new(),
            })
        })
        .build()?;
    assert_eq!(rt.policy().to_string(), "latest-woken");
    let sum: u64 = rt.run(|| {
        let threads: Vec<_> =
            (0..8u64).map(|n| quaver::spawn(move || (0..=n).sum::<u64>())).collect();
        quaver::sleep(Duration::from_millis(1)); // and be woken
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    println!("eight threads under {}: {sum}", rt.policy());
    assert_eq!(sum, 84);
    Ok(())
}
