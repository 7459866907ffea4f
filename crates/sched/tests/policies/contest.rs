//! A host for tasks that never end, in simulated time, which calls as the runtime does.
//!
//! * A worker takes the next task before it settles the account of the last, and only then queues
//!   that again.
//! * Each worker has an alarm. It is set by what `preempt_at` says at a dispatch, after a local
//!   arrival, and, where it is off, when somebody tells all workers: after an arrival from
//!   elsewhere, and now and then after local ones (`TELL_EVERY`). It is not asked at other times.

use std::collections::BTreeSet;

use super::*;

/// After how many quanta a worker that makes tasks runnable tells the others again.
const TELL_EVERY: Time = 16;

/// What a task does for ever.
#[derive(Clone, Copy)]
pub struct Program {
    /// How long it runs before it sleeps; `Time::MAX`: it never does.
    pub work: Time,
    pub sleep: Time,
    /// Who wakes it, and who has made it.
    pub place: Place,
    pub attributes: Attributes,
}

impl Program {
    pub fn hog(place: Place) -> Program {
        Program { work: Time::MAX, sleep: 0, place, attributes: Attributes::default() }
    }
}

#[derive(Clone, Copy, Default)]
pub struct Got {
    pub ran: Time,
    pub runs: u32,
    /// Runs of at most so little that nothing can have been done.
    pub useless: u32,
    /// The longest time between two runs.
    pub longest_wait: Time,
    stopped_at: Time,
    /// Until it sleeps.
    left: Time,
}

#[derive(Clone, Default)]
struct Worker {
    running: Option<Running>,
    alarm: Option<Time>,
    tells_at: Time,
}

pub struct Contest<'a> {
    policy: &'a dyn Policy,
    programs: &'a [Program],
    quantum: Time,
    now: Time,
    workers: Vec<Worker>,
    tasks: Vec<Got>,
    wakes: BTreeSet<(Time, u32)>,
}

/// Let `programs` run for `span`; what each has got.
pub fn contest(
    policy: &dyn Policy,
    workers: usize,
    quantum: Time,
    programs: &[Program],
    span: Time,
) -> Vec<Got> {
    let mut contest = Contest {
        policy,
        programs,
        quantum,
        now: 0,
        workers: vec![Worker::default(); workers],
        tasks: vec![Got::default(); programs.len()],
        wakes: BTreeSet::new(),
    };
    for (task, program) in programs.iter().enumerate() {
        policy.task_init(Task(task as u32), &program.attributes, 0);
        contest.tasks[task].left = program.work;
        contest.arrive(task as u32, Why::New);
    }
    contest.run(span);
    contest.tasks
}

impl Contest<'_> {
    fn run(&mut self, span: Time) {
        while let Some(next) = self.next_event().filter(|&next| next < span) {
            self.now = self.now.max(next);
            while let Some(&(at, task)) = self.wakes.first()
                && at <= self.now
            {
                self.wakes.pop_first();
                self.tasks[task as usize].left = self.programs[task as usize].work;
                self.arrive(task, Why::Woken);
            }
            for worker in 0..self.workers.len() {
                self.look_at(worker);
            }
        }
        self.now = span;
        for worker in 0..self.workers.len() {
            if let Some(running) = self.workers[worker].running.take() {
                self.account(worker, running);
            }
        }
    }

    fn next_event(&self) -> Option<Time> {
        let worker = |worker: &Worker| {
            let running = worker.running?;
            let sleeps = running.since.saturating_add(self.tasks[running.task.0 as usize].left);
            Some(worker.alarm.map_or(sleeps, |alarm| alarm.min(sleeps)))
        };
        let wake = self.wakes.first().map(|first| first.0);
        self.workers.iter().filter_map(worker).chain(wake).min()
    }

    fn arrive(&mut self, task: u32, why: Why) {
        let place = self.programs[task as usize].place;
        self.policy.task_enqueue(place, Task(task), why, self.now);
        if self.wake_idle() {
            return;
        }
        match place {
            Place::Local(worker) => {
                self.set_alarm(worker);
                self.tell(worker);
            }
            Place::Shared => self.set_one_alarm(),
        }
    }

    fn wake_idle(&mut self) -> bool {
        let idle = (0..self.workers.len()).find(|&w| self.workers[w].running.is_none());
        idle.is_some_and(|worker| self.start_next(worker))
    }

    fn start_next(&mut self, worker: usize) -> bool {
        let Some(pick) = next(self.policy, worker, self.now) else { return false };
        self.start(worker, pick);
        self.set_alarm(worker);
        true
    }

    fn start(&mut self, worker: usize, pick: Pick) {
        let Pick { task, class } = pick;
        let elsewhere = |w: &Worker| w.running.is_some_and(|running| running.task == task);
        assert!(!self.workers.iter().any(elsewhere), "{task:?} is running already");
        let state = &mut self.tasks[task.0 as usize];
        state.longest_wait = state.longest_wait.max(self.now - state.stopped_at);
        self.workers[worker].running = Some(Running { task, since: self.now, class });
    }

    fn account(&mut self, worker: usize, was: Running) {
        let ran = self.now - was.since;
        let state = &mut self.tasks[was.task.0 as usize];
        state.ran += ran;
        state.runs += 1;
        state.useless += u32::from(ran <= 2);
        state.stopped_at = self.now;
        if state.left != Time::MAX {
            state.left -= ran;
        }
        if self.policy.accounts() {
            self.policy.task_stopped(worker, was.task, ran);
        }
    }

    /// It may be time for what the worker runs to sleep, or to be stopped.
    fn look_at(&mut self, worker: usize) {
        let Some(was) = self.workers[worker].running else { return };
        let task = was.task;
        if self.tasks[task.0 as usize].left <= self.now - was.since {
            let pick = self.policy.task_dequeue(worker, self.now);
            self.account(worker, was);
            self.workers[worker].running = None;
            self.wakes.insert((self.now + self.programs[task.0 as usize].sleep, task.0));
            match pick {
                Some(pick) => {
                    self.start(worker, pick);
                    self.set_alarm(worker);
                }
                None => {
                    self.workers[worker].alarm = None;
                    self.start_next(worker);
                }
            }
        } else if self.workers[worker].alarm.is_some_and(|alarm| alarm <= self.now) {
            self.set_alarm(worker);
            if self.workers[worker].alarm.is_none_or(|alarm| alarm > self.now) {
                return;
            }
            let Some(pick) = next(self.policy, worker, self.now) else {
                self.workers[worker].alarm = None;
                return;
            };
            self.account(worker, was);
            self.start(worker, pick);
            self.policy.task_enqueue(Place::Local(worker), task, Why::Preempted, self.now);
            self.set_alarm(worker);
            self.tell(worker);
        }
    }

    fn set_alarm(&mut self, worker: usize) {
        let me = &mut self.workers[worker];
        let at = me.running.and_then(|running| self.policy.preempt_at(worker, &running, None));
        me.alarm = at.map(|at| at.max(self.now));
    }

    /// What a worker's clock does when told of work: one that is off is set.
    fn set_one_alarm(&mut self) {
        for worker in 0..self.workers.len() {
            if self.workers[worker].alarm.is_none() {
                self.set_alarm(worker);
                if self.workers[worker].alarm.is_some() {
                    return;
                }
            }
        }
    }

    fn tell(&mut self, worker: usize) {
        if self.now >= self.workers[worker].tells_at {
            self.workers[worker].tells_at = self.now + TELL_EVERY * self.quantum;
            self.set_one_alarm();
        }
    }
}
