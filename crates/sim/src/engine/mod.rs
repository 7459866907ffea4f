//! The simulation of one run.
//!
//! A *source* has at most one next event: each worker, the arrivals, the dispatcher, sleeping
//! threads, the noise, the clock's thread. A worker's next event is the earliest of: its thread
//! ends; the clock must ask the policy again whether to preempt; a notification reaches it; the
//! dispatcher's assignment reaches it.
//!
//! What is done at a switch, and in which order, is what the runtime does: the next thread is taken
//! from the queues, then the account of the last is settled, then it is queued again. The clock
//! asks the policy at a dispatch and when work arrives, as `Policy::preempt_at` promises to be
//! enough.
//!
//! | file | idea |
//! |---|---|
//! | `intake.rs` | requests come, and wait in sockets for a thread |
//! | `queues.rs` | threads become runnable, and idle workers take them |
//! | `dispatcher.rs` | a core of its own hands tasks out |
//! | `worker.rs` | a worker enters, runs and leaves a thread |
//! | `preempt.rs` | a worker is interrupted |
//! | `clock.rs` | a thread keeps time for all workers |
//! | `alarm.rs` | each worker's timer is set while something waits |
//! | `signals.rs` | the kernel's lock of the process's signals |
//! | `messages.rs` | threads that wake one another |
//! | `noise.rs` | the machine stops workers |
//! | `report.rs` | what came of it |
//! | `check.rs` | what holds at every event |

mod alarm;
mod check;
mod clock;
mod dispatcher;
mod intake;
mod messages;
mod noise;
mod preempt;
mod queues;
mod report;
mod rules;
mod signals;
mod worker;

use quaver_sched::{Attributes, Place, Policy, Service, Task, Why};

use self::clock::Clock;
use self::dispatcher::Core;
use self::intake::Intake;
use self::messages::Messages;
use self::noise::Disturbances;
use self::report::Books;
use self::rules::Rules;
use self::signals::SignalLock;
use self::worker::Worker;
use crate::calendar::{Calendar, NEVER};
use crate::job::{Job, Jobs, Kind};
use crate::offer::{self, Offer};
use crate::outcome::Outcome;
use crate::random::Random;
use crate::scenario::{Scenario, ScenarioError};
use crate::timeline::{Timeline, Window};

/// Most tasks at a time: beyond it the server is hopelessly behind.
const MOST_TASKS: u32 = 1 << 20;
/// What a thread that never ends has left.
const ENDLESS: u64 = 1 << 60;

/// How to run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Check at every event that nothing is lost, nothing ends too early, and no worker idles
    /// beside work.
    pub check: bool,
    /// Record what runs where.
    pub window: Option<Window>,
}

/// Simulate a scenario at one rate, in requests a second (ignored for a trace at its own rate and
/// for a message benchmark).
///
/// # Errors
///
/// The trace cannot be used, or the arrival process cannot be run at this rate.
///
/// # Panics
///
/// With [`Options::check`]: an invariant does not hold, which is a mistake of a policy or of the
/// simulator.
pub fn simulate(
    scenario: &Scenario,
    rate: f64,
    options: &Options,
) -> Result<(Outcome, Timeline), ScenarioError> {
    let mut engine = Engine::new(scenario, rate, options)?;
    engine.run();
    Ok(engine.finish())
}

struct Engine<'a> {
    rules: Rules,
    policy: Box<dyn Policy>,
    options: &'a Options,
    now: u64,
    calendar: Calendar,
    random: Random,
    jobs: Jobs,
    /// How many tasks are in the policy's queues.
    queued: usize,
    workers: Vec<Worker>,
    /// Idle workers; the last one that has become idle is the first to get work.
    idle: Vec<u32>,
    intake: Intake,
    core: Core,
    clock: Clock,
    signals: SignalLock,
    messages: Option<Messages>,
    noise: Disturbances,
    books: Books,
}

const ARRIVALS: usize = 0;
const DISPATCHER: usize = 1;
const SLEEPERS: usize = 2;
const NOISE: usize = 3;
const CLOCK: usize = 4;
const SOURCES: usize = 5;

impl<'a> Engine<'a> {
    fn new(scenario: &Scenario, rate: f64, options: &'a Options) -> Result<Self, ScenarioError> {
        let count = scenario.server.workers;
        let policy = scenario.server.policy.build(count, MOST_TASKS, |d| d.as_nanos() as u64);
        let offer = match scenario.schbench {
            Some(_) => None,
            None => Some(Offer::of(scenario, rate)?),
        };
        let requests = offer.as_ref().map_or(offer::requests(scenario), |offer| offer.requests);
        let warm_up = offer::warm_up(scenario, requests);
        let begin = offer.as_ref().map_or(0, |offer| offer.begin);
        let classes = match &offer {
            Some(offer) => offer.classes().to_vec(),
            None => messages::CLASSES.map(str::to_owned).into(),
        };
        let capacity = if offer.is_some() { scenario.capacity()? } else { 1.0 };
        let rules = Rules::of(scenario, &*policy);
        let clock = Clock::new(&rules);
        let mut engine = Engine {
            rules,
            policy,
            options,
            now: 0,
            calendar: Calendar::new(SOURCES + count),
            random: Random::new(scenario.seed),
            jobs: Jobs::default(),
            queued: 0,
            workers: vec![Worker::default(); count],
            idle: Vec::with_capacity(count),
            intake: Intake::new(offer, &scenario.server),
            core: Core::default(),
            clock,
            signals: SignalLock::default(),
            messages: scenario.schbench.map(|bench| Messages::new(bench, requests)),
            noise: Disturbances::new(scenario, begin)?,
            books: Books::new(classes, rate, rate / capacity, warm_up, scenario.load.network),
        };
        (0..count).for_each(|worker| engine.add_idle(worker));
        engine.start_best_effort(scenario.best_effort.threads);
        engine.start_messages();
        engine.fetch_request();
        engine.begin_noise();
        Ok(engine)
    }

    /// Endless threads that are there from the beginning.
    fn start_best_effort(&mut self, threads: u16) {
        let class = self.books.best_effort_class();
        let attributes = Attributes { service: Service::BestEffort, ..Attributes::default() };
        for number in 0..usize::from(threads) {
            let task = self.new_job(Kind::BestEffort, class, ENDLESS);
            self.policy.task_init(Task(task), &attributes, 0);
            let place = Place::Local(number % self.workers.len());
            self.make_runnable(place, task, Why::New);
        }
    }

    fn new_job(&mut self, kind: Kind, class: u32, service: u64) -> u32 {
        let left = self.rules.stretched(service);
        let arrived = self.now;
        self.jobs.add(Job {
            kind,
            class,
            arrived,
            service,
            left,
            started: false,
            counted: true,
            outlived: false,
            worker: 0,
            port: 0,
            queue: None,
        })
    }

    fn run(&mut self) {
        loop {
            let (source, time) = self.calendar.first();
            let idle_for_good = time == NEVER;
            if idle_for_good || self.is_over() || self.books.overrun {
                return;
            }
            debug_assert!(time >= self.now, "time goes on");
            self.now = time;
            self.books.counts.events += 1;
            match source {
                ARRIVALS => self.arrive(),
                DISPATCHER => self.take_in(),
                SLEEPERS => self.wake_sleepers(),
                NOISE => self.disturb(),
                CLOCK => self.look(),
                worker => self.act(worker - SOURCES),
            }
            if self.options.check {
                self.check();
            }
        }
    }

    fn is_over(&self) -> bool {
        match &self.messages {
            Some(messages) => self.books.counts.completed >= messages.limit,
            None => {
                self.intake.is_empty() && self.books.counts.completed == self.books.counts.arrived
            }
        }
    }
}
