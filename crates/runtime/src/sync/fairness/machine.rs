//! A simulated machine: who runs at each step, and for how long.

use shuttle::current;
use shuttle::scheduler::{Schedule, Scheduler, Task, TaskId};
use shuttle::{Config, FailurePersistence, MaxSteps, Runner, thread};
use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Steps for which threads start turns.
pub(super) const SPAN: usize = 20_000;
/// Each machine runs so often, with different random numbers.
const SEEDS: u64 = 3;

/// When a quantum that is over ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ends {
    /// At once. It is drawn, from 1 to twice the machine's: or it would keep step with the turns.
    Anywhere,
    /// When the thread has what others wait for: the worst for them.
    Holding,
}

/// Workers run user threads by turns; each kernel thread has a CPU of its own. At each step a CPU
/// that is drawn executes up to one atomic operation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Machine {
    pub(super) workers: usize,
    pub(super) users: usize,
    pub(super) kernels: usize,
    /// Steps after which a user thread makes room for the next.
    pub(super) quantum: usize,
    pub(super) ends: Ends,
}

/// What became of a thread.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    pub(super) turns: usize,
    /// The longest wait for one, in steps.
    pub(super) longest: usize,
}

std::thread_local! {
    /// Threads that have what others wait for, a bit each. A simulation has one kernel thread.
    static HOLDING: Cell<u64> = const { Cell::new(0) };
    /// How many user threads there are.
    static USERS: Cell<usize> = const { Cell::new(0) };
}

/// Is the calling thread a user thread?
pub(super) fn is_user() -> bool {
    usize::from(current::me()) <= USERS.get()
}

/// The calling thread's bit.
fn bit(task: TaskId) -> u64 {
    1 << usize::from(task)
}

/// A thread, as its turns see it.
pub(super) struct Seat {
    /// From 0; user threads come first.
    pub(super) number: usize,
    /// How many others there are.
    pub(super) others: usize,
    tally: Mutex<Tally>,
}

impl Seat {
    /// Waits by `f`.
    pub(super) fn take<R>(&self, f: impl FnOnce() -> R) -> R {
        let begun = now();
        let result = f();
        let mut tally = self.tally.lock().unwrap();
        tally.turns += 1;
        tally.longest = tally.longest.max(now() - begun);
        result
    }

    /// Works for so many steps on what it has taken.
    pub(super) fn hold(&self, steps: usize) {
        HOLDING.set(HOLDING.get() | bit(current::me()));
        work(steps);
        HOLDING.set(HOLDING.get() & !bit(current::me()));
    }
}

/// Simulated time.
pub(super) fn now() -> usize {
    current::context_switches()
}

/// Spends steps.
pub(super) fn work(steps: usize) {
    for _ in 0..steps {
        thread::sleep(Duration::ZERO);
    }
}

impl Machine {
    pub(super) fn threads(&self) -> usize {
        self.users + self.kernels
    }

    /// But for what comes until it can end.
    pub(super) fn longest_quantum(&self) -> usize {
        match self.ends {
            Ends::Anywhere => 2 * self.quantum,
            Ends::Holding => self.quantum,
        }
    }

    /// All threads take `turn` after turn, with what `make` makes, for as long as `more` says.
    /// `check` gets their tallies, user threads first, once for each seed.
    pub(super) fn run<T: Send + Sync + 'static>(
        self,
        make: impl Fn() -> T + Send + Sync + 'static,
        turn: impl Fn(&T, &Seat) + Send + Sync + 'static,
        check: impl Fn(&[Tally]) + Send + Sync + 'static,
    ) {
        let mut config = Config::new();
        config.failure_persistence = FailurePersistence::None;
        config.silence_warnings = true;
        config.max_steps = MaxSteps::FailAfter(50 * SPAN);
        let turn = Arc::new(turn);
        let cpus = Cpus::new(self);
        Runner::new(cpus, config).run(move || {
            HOLDING.set(0);
            USERS.set(self.users);
            let shared = Arc::new(make());
            let seats: Vec<_> = (0..self.threads())
                .map(|number| {
                    let others = self.threads() - 1;
                    Arc::new(Seat { number, others, tally: Mutex::default() })
                })
                .collect();
            let threads: Vec<_> = seats
                .iter()
                .map(|seat| {
                    let (shared, seat, turn) = (shared.clone(), seat.clone(), turn.clone());
                    thread::spawn(move || {
                        while now() < SPAN {
                            turn(&shared, &seat);
                        }
                    })
                })
                .collect();
            threads.into_iter().for_each(|t| t.join().unwrap());
            let tallies: Vec<_> = seats.iter().map(|seat| *seat.tally.lock().unwrap()).collect();
            check(&tallies);
        });
    }
}

/// The CPUs of a machine.
struct Cpus {
    machine: Machine,
    seeds: u64,
    random: u64,
    /// Who runs on each worker, and for how many steps still.
    workers: Vec<(Option<TaskId>, usize)>,
    ready: VecDeque<TaskId>,
}

impl Cpus {
    fn new(machine: Machine) -> Cpus {
        let workers = vec![(None, 0); machine.workers];
        Cpus { machine, seeds: 0, random: 0, workers, ready: VecDeque::new() }
    }

    /// Lets workers change threads.
    fn dispatch(&mut self, runnable: &[&Task], yielding: Option<TaskId>) {
        let users = 1..=self.machine.users;
        let can_run = |id: TaskId| runnable.iter().any(|task| task.id() == id);
        self.ready.retain(|&id| can_run(id));
        for task in runnable {
            let id = task.id();
            let known = self.ready.contains(&id) || self.workers.iter().any(|w| w.0 == Some(id));
            if users.contains(&usize::from(id)) && !known {
                self.ready.push_back(id);
            }
        }
        for (running, left) in &mut self.workers {
            let must_stop = |id: TaskId| match self.machine.ends {
                Ends::Anywhere => true,
                Ends::Holding => HOLDING.get() & bit(id) != 0,
            };
            if let Some(id) = *running {
                if !can_run(id) {
                    *running = None;
                } else if yielding == Some(id) || *left == 0 && must_stop(id) {
                    self.ready.push_back(id);
                    *running = None;
                }
            }
            if running.is_none() {
                *running = self.ready.pop_front();
                *left = match self.machine.ends {
                    Ends::Anywhere => 1 + draw(&mut self.random, 2 * self.machine.quantum),
                    Ends::Holding => self.machine.quantum,
                };
            }
        }
    }
}

/// A number below `n`.
fn draw(random: &mut u64, n: usize) -> usize {
    *random = random.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (*random ^ *random >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (mixed >> 32) as usize % n
}

impl Scheduler for Cpus {
    fn new_execution(&mut self) -> Option<Schedule> {
        let seed = self.seeds;
        self.seeds += 1;
        *self = Cpus { seeds: self.seeds, random: seed, ..Cpus::new(self.machine) };
        (seed < SEEDS).then(|| Schedule::new(seed))
    }

    fn next_task(
        &mut self,
        runnable: &[&Task],
        current: Option<TaskId>,
        is_yielding: bool,
    ) -> Option<TaskId> {
        // The thread of the test itself starts all others before any of them runs.
        if let Some(first) = runnable.iter().find(|task| usize::from(task.id()) == 0) {
            return Some(first.id());
        }
        self.dispatch(runnable, current.filter(|_| is_yielding));
        let kernels = || {
            let is_kernel = |task: &&&Task| usize::from(task.id()) > self.machine.users;
            runnable.iter().filter(is_kernel).map(|task| task.id())
        };
        let users = || self.workers.iter().filter_map(|w| w.0);
        let drawn = draw(&mut self.random, users().count() + kernels().count());
        let next = users().chain(kernels()).nth(drawn);
        if let Some(worker) = self.workers.iter_mut().find(|w| w.0 == next) {
            worker.1 = worker.1.saturating_sub(1);
        }
        next
    }

    fn next_u64(&mut self) -> u64 {
        self.random
    }
}
