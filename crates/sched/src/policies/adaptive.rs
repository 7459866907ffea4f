//! The two queues of Aspen with a quantum that follows the service times.
//!
//! * Order and preemption are those of `two-queue`, with a long quantum of five quanta.
//! * The policy observes for how long tasks run from creation or wake-up until they block or end,
//!   in a histogram with four steps to each power of two, and how busy the workers are.
//! * At every `window`, if it has seen at least a hundred, it takes the quantum `q`, between
//!   `quantum` and `max`, for which a task of median length is slowed down least, and halves the
//!   weight of what it has seen so far:
//!
//! ```text
//!   load'(q) = load * (1 + cost * preemptions(q) / mean)        preemptions(q) = E[ceil(S/q)] - 1
//!   wait(q)  = E[min(S,q)^2] / (2 E[min(S,q)])                  the rest of what is running
//!                                                               (Pollaczek-Khinchine); with q
//!                                                               infinite if the median is above q
//!   slowdown = wait(q) / median * load' / (1 - load')
//! ```
//!
//!   so it is short when few long tasks stand before many short ones, and long when preemption
//!   would only cost. Until the first choice it is `max`'s fifth part.
//!
//! The papers do not have it. LibPreemptible adapts every 10 s from load and latency (Aspen section
//! 4.4 shows why that is too slow); here one window of a millisecond is enough, because service
//! times are observed and not their consequence.

use crate::{
    Attributes, Pick, Place, Policy, Running, Task, Time, Why,
    policies::{TwoQueue, TwoQueueTimes},
    steps,
    sync::{AtomicU32, AtomicU64, CachePadded, Ordering::Relaxed},
    table::{self, Table},
};

/// The times of [`Adaptive`], in the host's unit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AdaptiveTimes {
    /// The shortest quantum; `None`: never preempt.
    pub quantum: Option<Time>,
    /// The longest quantum.
    pub max: Time,
    /// How often the quantum is chosen anew.
    pub window: Time,
    /// What one preemption costs a worker.
    pub cost: Time,
    /// After waiting for longer than this, preempted work takes turns with new work. `None`: never.
    pub max_age: Option<Time>,
}

/// So many observations are enough to go by.
const ENOUGH: u64 = 100;
/// A load above this is taken for this: the formula has a pole at 1.
const FULL: f64 = 0.95;

/// Policy `adaptive`: `two-queue` with a quantum that follows the service times.
#[derive(Debug)]
pub struct Adaptive {
    times: AdaptiveTimes,
    inner: TwoQueue,
    /// Service since creation or wake-up.
    attained: Table<AtomicU64>,
    workers: Table<CachePadded<Observed>>,
    next_choice: AtomicU64,
    last_choice: AtomicU64,
}

/// What one worker has seen since the quantum was last chosen, and the fading rest of before.
/// Written by that worker, halved by whoever chooses: an observation may get lost between the two,
/// which does no harm.
#[derive(Debug)]
struct Observed {
    lengths: [AtomicU32; steps::COUNT],
    busy: AtomicU64,
}

impl Adaptive {
    /// For `workers` workers and the tasks `0..max_tasks`.
    ///
    /// # Panics
    ///
    /// As [`TwoQueue::new`].
    pub fn new(workers: usize, max_tasks: u32, times: AdaptiveTimes) -> Self {
        let first = times.quantum.map(|least| (times.max / 5).max(least));
        let inner = TwoQueueTimes {
            quantum: first,
            long_quantum: first.unwrap_or(times.max).saturating_mul(5),
            max_age: times.max_age,
            history: None,
        };
        let observed = || Observed {
            lengths: core::array::from_fn(|_| AtomicU32::new(0)),
            busy: AtomicU64::new(0),
        };
        Adaptive {
            times,
            inner: TwoQueue::new(workers, max_tasks, inner),
            attained: table::zeroed_u64(max_tasks),
            workers: Table::of(workers, |_| CachePadded(observed())),
            next_choice: AtomicU64::new(0),
            last_choice: AtomicU64::new(0),
        }
    }

    /// The quantum at this moment; `None`: nothing is preempted.
    pub fn quantum(&self) -> Option<Time> {
        self.inner.quantum()
    }

    /// A task has run since it was created or woken, and has blocked or ended.
    fn observe(&self, worker: usize, task: Task) {
        let attained = &self.attained[task.0 as usize];
        let length = attained.load(Relaxed);
        if length > 0 {
            attained.store(0, Relaxed);
            let count = &self.workers[worker].lengths[steps::of(length)];
            count.store(count.load(Relaxed).saturating_add(1), Relaxed);
        }
    }

    /// Choose the quantum anew if it is time. One worker does it, the one that sees it first.
    fn choose(&self, now: Time) {
        let next = self.next_choice.load(Relaxed);
        let Some(least) = self.times.quantum.filter(|_| now >= next) else { return };
        let after = now.saturating_add(self.times.window.max(1));
        if self.next_choice.compare_exchange(next, after, Relaxed, Relaxed).is_err() {
            return;
        }
        let mut lengths = [0u64; steps::COUNT];
        for worker in &self.workers {
            for (sum, count) in lengths.iter_mut().zip(&worker.lengths) {
                *sum += u64::from(count.load(Relaxed));
            }
        }
        if lengths.iter().sum::<u64>() < ENOUGH {
            return;
        }
        let span = now - self.last_choice.swap(now, Relaxed).min(now);
        let mut busy = 0;
        for worker in &self.workers {
            worker.lengths.iter().for_each(|count| count.store(count.load(Relaxed) / 2, Relaxed));
            busy += worker.busy.swap(0, Relaxed);
        }
        let all = span.saturating_mul(self.workers.len() as u64).max(1);
        let load = (busy as f64 / all as f64).min(FULL);
        let quantum = best(&lengths, load, self.times.cost as f64, least, self.times.max);
        self.inner.set_quantum(quantum, quantum.saturating_mul(5));
    }
}

/// The quantum among the limits of steps for which the median task is slowed down least.
fn best(lengths: &[u64; steps::COUNT], load: f64, cost: f64, least: Time, most: Time) -> Time {
    let all: u64 = lengths.iter().sum();
    let mut below = 0;
    let is_median = |count: &u64| {
        below += count;
        below * 2 >= all
    };
    let median = steps::middle(lengths.iter().position(is_median).unwrap_or(0));
    let seen = || lengths.iter().enumerate().filter(|(_, count)| **count > 0);
    let mean_of = |f: &dyn Fn(f64) -> f64| {
        seen().map(|(b, &count)| count as f64 * f(steps::middle(b))).sum::<f64>() / all as f64
    };
    let mean = mean_of(&|s| s);
    let slowdown = |quantum: Time| {
        let q = quantum as f64;
        // A length in the step of the quantum itself counts as within it.
        let preemptions = mean_of(&|s| (((s / q * 0.9) as u64) as f64).min(1e6));
        let load = (load * (1.0 + cost * preemptions / mean)).min(0.999);
        // Who is longer than the quantum is preempted too, and waits for all that is left of the
        // others.
        let most = if q < 0.9 * median { f64::INFINITY } else { q };
        let wait = mean_of(&|s| s.min(most) * s.min(most)) / (2.0 * mean_of(&|s| s.min(most)));
        wait / median * load / (1.0 - load)
    };
    let choices = (steps::of(least)..=steps::of(most))
        .map(|step| steps::start(step).clamp(least, most.max(least)));
    // The first of equals: the shorter quantum costs nothing where nothing is long.
    let choice = choices.fold((f64::INFINITY, least), |best, quantum| {
        let here = slowdown(quantum);
        if here < best.0 { (here, quantum) } else { best }
    });
    choice.1
}

impl Policy for Adaptive {
    fn name(&self) -> &'static str {
        "adaptive"
    }

    fn task_init(&self, task: Task, _attributes: &Attributes, _now: Time) {
        self.attained[task.0 as usize].store(0, Relaxed);
    }

    fn task_terminate(&self, task: Task, _now: Time) {
        // Who ran it is not said; which worker counts it does not matter.
        self.observe(task.0 as usize % self.workers.len(), task);
    }

    fn task_enqueue(&self, place: Place, task: Task, why: Why, now: Time) {
        if why == Why::Woken {
            let worker = match place {
                Place::Local(worker) => worker,
                Place::Shared => task.0 as usize % self.workers.len(),
            };
            self.observe(worker, task);
        }
        self.inner.task_enqueue(place, task, why, now);
    }

    fn task_dequeue(&self, worker: usize, now: Time) -> Option<Pick> {
        self.choose(now);
        self.inner.task_dequeue(worker, now)
    }

    fn task_stopped(&self, worker: usize, task: Task, ran: Time) {
        let attained = &self.attained[task.0 as usize];
        attained.store(attained.load(Relaxed).saturating_add(ran), Relaxed);
        let busy = &self.workers[worker].busy;
        busy.store(busy.load(Relaxed).saturating_add(ran), Relaxed);
    }

    fn accounts(&self) -> bool {
        true
    }

    fn balance(&self, worker: usize, now: Time) -> Option<Pick> {
        self.inner.balance(worker, now)
    }

    fn glance(&self, worker: usize, now: Time) -> Option<Pick> {
        self.inner.glance(worker, now)
    }

    fn worker_lost(&self, worker: usize, now: Time) -> usize {
        self.inner.worker_lost(worker, now)
    }

    fn grants_quantum(&self) -> bool {
        self.inner.grants_quantum()
    }

    fn fresh_waits(&self, worker: usize) -> Option<bool> {
        self.inner.fresh_waits(worker)
    }

    fn preempt_at(&self, worker: usize, running: &Running, timer: Option<Time>) -> Option<Time> {
        self.inner.preempt_at(worker, running, timer)
    }

    fn has_work(&self, worker: usize) -> bool {
        self.inner.has_work(worker)
    }

    fn has_work_at_hand(&self, worker: usize) -> bool {
        self.inner.has_work_at_hand(worker)
    }

    fn waiting(&self) -> usize {
        self.inner.waiting()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn seen(of: &[(Time, u64)]) -> [u64; steps::COUNT] {
        let mut lengths = [0; steps::COUNT];
        of.iter().for_each(|&(length, count)| lengths[steps::of(length)] += count);
        lengths
    }

    #[test]
    fn the_quantum_follows_the_shape_of_the_lengths() {
        let best = |lengths, load| best(&seen(lengths), load, 500.0, 2_000, 1_000_000);
        // Few very long tasks among short ones: little more than a short one needs.
        let bimodal = best(&[(1_000, 9_950), (500_000, 50)], 0.7);
        assert!(bimodal < 20_000, "{bimodal}");
        // The dearer the time, the longer.
        let busy = best(&[(1_000, 9_950), (500_000, 50)], 0.93);
        assert!(busy >= bimodal, "{busy}");
        // All alike: nothing is gained by stopping any of them.
        let alike = best(&[(100_000, 1_000)], 0.7);
        assert!(alike >= 80_000, "{alike}");
    }
}
