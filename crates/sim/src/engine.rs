//! The simulation of one run.
//!
//! A *source* has at most one next event: each worker, the arrivals, the dispatcher, sleeping threads, the noise. A worker's
//! next event is the earliest of: its thread ends; the clock must ask the policy again whether to preempt; a notification
//! reaches it; the dispatcher's assignment reaches it.
//!
//! What is done at a switch, and in which order, is what the runtime does: the next thread is taken from the queues, then the
//! account of the last is settled, then it is queued again. The clock asks the policy at a dispatch and when work
//! arrives, as `Policy::preempt_at` promises to be enough.
//!
//! Costs: entering a thread takes time before it runs (`System`), an interruption takes time from the running thread
//! (`Mechanism`), notifications and a dispatcher's acts follow one another on the one core that does them.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::Duration;

use quaver_load::Request;
use quaver_sched::{Attributes, Pick, Place, Policy, Running, Service, Task, Tax, Why};

use crate::calendar::{Calendar, NEVER};
use crate::costs::{Mechanism, System, Timer};
use crate::job::{Job, Kind};
use crate::offer::{self, Offer};
use crate::outcome::{ClassOutcome, Counts, Outcome, Recorder, WorkerUse};
use crate::random::Random;
use crate::scenario::{Noise, Queues, Scenario, ScenarioError, Schbench};
use crate::timeline::{Span, Timeline, Window};

/// Most tasks at a time: beyond it the server is hopelessly behind.
const MOST_TASKS: u32 = 1 << 20;
/// What a thread that never ends has left.
const ENDLESS: u64 = 1 << 60;

/// How to run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Check at every event that nothing is lost, nothing ends too early, and no worker idles beside work.
    pub check: bool,
    /// Record what runs where.
    pub window: Option<Window>,
}

/// Simulate a scenario at one rate, in requests a second (ignored for a trace at its own rate and for a message
/// benchmark).
///
/// # Errors
///
/// The trace cannot be used, or the arrival process cannot be run at this rate.
///
/// # Panics
///
/// With [`Options::check`]: an invariant does not hold, which is a mistake of a policy or of the simulator.
pub fn simulate(
    scenario: &Scenario,
    rate: f64,
    options: &Options,
) -> Result<(Outcome, Timeline), ScenarioError> {
    let mut engine = Engine::new(scenario, rate, options)?;
    engine.run();
    Ok(engine.finish())
}

#[derive(Clone, Debug)]
struct Worker {
    running: Option<Running>,
    /// Since when its thread has been running: before the request it serves if it has served others since.
    turn: u64,
    /// Which dispatch this is; a notification is meant for one.
    run: u64,
    /// From when the worker was busy with it.
    entered: u64,
    /// What interruptions have taken since the dispatch.
    lost: u64,
    end: u64,
    due: u64,
    notified: u64,
    notified_run: u64,
    assigned: u64,
    /// Until then its CPU is taken away.
    stopped: u64,
    /// Before that it begins nothing.
    stalled: u64,
    best_effort_last: bool,
    idle_since: u64,
    busy: u64,
    best_effort: u64,
    overhead: u64,
    /// What interruptions have cost, as `Tax` writes it down.
    account: u64,
    /// Its place in the list of idle workers, if it is in it.
    idle: Option<usize>,
}

impl Worker {
    fn next(&self) -> u64 {
        self.end.min(self.due).min(self.notified).min(self.assigned)
    }

    /// How long the running thread has run.
    fn ran(&self, now: u64) -> u64 {
        let since = self.running.map_or(now, |running| running.since);
        now.saturating_sub(since).saturating_sub(self.lost)
    }
}

/// The threads of one worker's port, of which there is a limited number.
#[derive(Clone, Debug, Default)]
struct Port {
    serving: u64,
    socket: VecDeque<u32>,
}

/// What a thread that keeps time knows of itself.
#[derive(Clone, Copy, Debug)]
struct Clock {
    /// It is woken when something waits.
    sleeps_long: bool,
    /// How often it has found nothing that waits, one time after another.
    quiet: u32,
}

impl Default for Clock {
    fn default() -> Self {
        Clock { sleeps_long: true, quiet: 0 }
    }
}

/// As in the runtime: after so many looks at nothing its thread sleeps until it is woken.
const LINGER: u32 = 8;
/// Looks in a quantum, at the most, for the sake of threads beside which nothing waits.
const RESTLESS: u64 = 4;

/// How often who receives a signal takes the lock of the process's signals: to fetch it, for the handler's mask, and for the mask when
/// the handler returns.
const RECEIVES: u64 = 3;

/// Whether the answer to "when to preempt" can change with any arrival, or only when the first task waits.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Asks {
    /// Queues of workers: who has a new task is asked; for a shared one all are.
    Place,
    /// A central queue in the order of arrival: all are asked when it is no longer empty.
    First,
    /// A central queue in another order: all are asked at every arrival.
    Every,
}

struct Engine<'a> {
    policy: Box<dyn Policy>,
    accounts: bool,
    asks: Asks,
    mechanism: Mechanism,
    system: System,
    dispatcher: bool,
    skip: bool,
    once_a_quantum: bool,
    run_on: bool,
    balance: bool,
    quantum: Option<u64>,
    tick: Option<u64>,
    tax: Option<Tax>,
    queues: Queues,
    noise: Vec<Noise>,
    /// When each of them comes next.
    noise_at: Vec<u64>,
    /// Recorded stops that are still to come: when, and how long.
    stops: VecDeque<(u64, u64)>,
    clock: Clock,
    bench: Option<Schbench>,
    options: &'a Options,

    now: u64,
    calendar: Calendar,
    workers: Vec<Worker>,
    idle: Vec<u32>,
    jobs: Vec<Job>,
    free: Vec<u32>,
    queued: usize,
    /// Workers to which the dispatcher is handing a task, which is still queued.
    pending: usize,
    /// The core that keeps time or dispatches is busy until then.
    core_free: u64,
    core_busy: u64,
    /// The kernel's lock of the process's signals is taken until then.
    lock_free: u64,
    ingested: VecDeque<(u64, u32)>,
    /// With a limited number of threads: how many serve, and what waits in the socket, by port.
    ports: Vec<Port>,
    threads: Option<u64>,
    requests: Option<Box<dyn Iterator<Item = Request>>>,
    next_request: Option<Request>,
    rate: f64,
    capacity: f64,
    warm_up: u64,
    limit: u64,
    sleeping: BinaryHeap<Reverse<(u64, u32)>>,
    /// Message threads' waiting worker threads.
    mail: Vec<Vec<u32>>,
    random: Random,
    network: u64,

    classes: Vec<String>,
    latency: Vec<Recorder>,
    slowdown: Vec<Recorder>,
    total: Recorder,
    total_slowdown: Recorder,
    counts: Counts,
    last_arrival: u64,
    completed_by_last: u64,
    backlog: u64,
    overrun: bool,
    best_effort_time: u64,
    timeline: Timeline,
}

const ARRIVALS: usize = 0;
const DISPATCHER: usize = 1;
const SLEEPERS: usize = 2;
const NOISE: usize = 3;
const CLOCK: usize = 4;
const SOURCES: usize = 5;

impl<'a> Engine<'a> {
    fn new(scenario: &Scenario, rate: f64, options: &'a Options) -> Result<Self, ScenarioError> {
        let server = &scenario.server;
        let count = server.workers;
        let policy = server.policy.build(count, MOST_TASKS, |d: Duration| d.as_nanos() as u64);
        let offer = match scenario.schbench {
            Some(_) => None,
            None => Some(Offer::of(scenario, rate)?),
        };
        let classes = match &offer {
            Some(offer) => offer.classes().to_vec(),
            None => vec!["wakeup".to_owned(), "request".to_owned()],
        };
        let limit = offer.as_ref().map_or(offer::requests(scenario), |offer| offer.requests);
        let begin = offer.as_ref().map_or(0, |offer| offer.begin);
        let asks = match (policy.central(), policy.name()) {
            (false, _) => Asks::Place,
            (true, "rr" | "fifo" | "shinjuku") => Asks::First,
            (true, _) => Asks::Every,
        };
        let worker = |_| Worker {
            running: None,
            turn: 0,
            run: 0,
            entered: 0,
            lost: 0,
            end: NEVER,
            due: NEVER,
            notified: NEVER,
            notified_run: 0,
            assigned: NEVER,
            stopped: 0,
            stalled: 0,
            best_effort_last: false,
            idle_since: 0,
            busy: 0,
            best_effort: 0,
            overhead: 0,
            account: 0,
            idle: None,
        };
        let (mechanism, system) = (scenario.mechanism(), scenario.system());
        let price = mechanism.receive + system.preempt_switch;
        let savings = Tax::SAVINGS.as_nanos() as u64;
        let tax = server.tax.filter(|&percent| percent < 100);
        let tax = tax.map(|percent| Tax::new(percent as u32, price, savings));
        let capacity = if scenario.schbench.is_some() { 1.0 } else { scenario.capacity()? };
        let recorders = |scale: f64| classes.iter().map(|_| Recorder::new(scale)).collect();
        let mut engine = Engine {
            accounts: policy.accounts(),
            asks,
            mechanism,
            system,
            dispatcher: server.dispatcher,
            skip: server.skip_unnecessary,
            once_a_quantum: server.once_a_quantum,
            run_on: server.run_on,
            balance: server.balance,
            quantum: server.policy.quantum().map(|q| q.as_nanos() as u64),
            tick: server.tick,
            tax,
            queues: server.queues,
            noise: scenario.noise.clone(),
            noise_at: Vec::new(),
            stops: scenario
                .recorded_stops()?
                .into_iter()
                .filter_map(|(at, lasts)| Some((at.checked_sub(begin)?, lasts)))
                .collect(),
            clock: Clock::default(),
            bench: scenario.schbench,
            options,
            now: 0,
            calendar: Calendar::new(SOURCES + count),
            workers: (0..count).map(worker).collect(),
            idle: Vec::with_capacity(count),
            jobs: Vec::new(),
            free: Vec::new(),
            queued: 0,
            pending: 0,
            core_free: 0,
            core_busy: 0,
            lock_free: 0,
            ingested: VecDeque::new(),
            ports: vec![Port::default(); if server.threads.is_some() { count } else { 0 }],
            threads: server.threads,
            requests: offer
                .map(|offer| Box::new(offer.iter()) as Box<dyn Iterator<Item = Request>>),
            next_request: None,
            rate,
            capacity,
            warm_up: offer::warm_up(scenario, limit),
            limit,
            sleeping: BinaryHeap::new(),
            mail: Vec::new(),
            random: Random::new(scenario.seed),
            network: scenario.load.network.unwrap_or(0),
            latency: recorders(1e3),
            slowdown: recorders(1e3),
            total: Recorder::new(1e3),
            total_slowdown: Recorder::new(1e3),
            timeline: Timeline { classes: classes.clone(), spans: Vec::new() },
            classes,
            counts: Counts::default(),
            last_arrival: 0,
            completed_by_last: 0,
            backlog: 0,
            overrun: false,
            best_effort_time: 0,
            policy,
        };
        engine.timeline.classes.push("best-effort".into());
        (0..count).for_each(|worker| engine.add_idle(worker));
        engine.start_threads(scenario.best_effort.threads);
        engine.fetch_request();
        for kind in 0..engine.noise.len() {
            let first = engine.next_noise(kind);
            engine.noise_at.push(first);
        }
        engine.set_noise();
        Ok(engine)
    }

    /// The threads that are there from the beginning.
    fn start_threads(&mut self, best_effort: u16) {
        let class = self.classes.len() as u32;
        let attributes = Attributes { service: Service::BestEffort, ..Attributes::default() };
        for number in 0..usize::from(best_effort) {
            let task = self.new_job(Kind::BestEffort, class, ENDLESS);
            self.policy.task_init(Task(task), &attributes, 0);
            let place = Place::Local(number % self.workers.len());
            self.make_runnable(place, task, Why::New);
        }
        if let Some(bench) = self.bench {
            for message in 0..bench.messages {
                let task = self.new_job(Kind::Message(message), 0, 0);
                self.policy.task_init(Task(task), &Attributes::default(), 0);
                self.mail.push(Vec::new());
            }
            for message in 0..bench.messages {
                for _ in 0..bench.workers {
                    let task = self.new_job(Kind::Bench(message), 0, bench.request);
                    self.jobs[task as usize].worker = (task as usize % self.workers.len()) as u32;
                    self.policy.task_init(Task(task), &Attributes::default(), 0);
                    self.post(message, task);
                }
            }
        }
    }

    fn new_job(&mut self, kind: Kind, class: u32, service: u64) -> u32 {
        let left = self.taxed(service);
        let job = Job {
            kind,
            class,
            arrived: self.now,
            service,
            left,
            started: false,
            counted: true,
            worker: 0,
            port: 0,
        };
        match self.free.pop() {
            Some(task) => {
                self.jobs[task as usize] = job;
                task
            }
            None => {
                self.jobs.push(job);
                self.jobs.len() as u32 - 1
            }
        }
    }

    /// What the mechanism makes of a running time.
    fn taxed(&self, service: u64) -> u64 {
        let mut time = service as f64 * (1.0 + self.mechanism.tax);
        if let Some(tick) = self.tick {
            // Each tick is received, whatever comes of it.
            time /= 1.0 - (self.mechanism.receive as f64 / tick as f64).min(0.9);
        }
        if time == service as f64 { service } else { (time + 0.5) as u64 }
    }

    fn run(&mut self) {
        loop {
            let (source, time) = self.calendar.first();
            let idle_for_good = time == NEVER;
            if idle_for_good || self.is_over() || self.overrun {
                return;
            }
            debug_assert!(time >= self.now, "time goes on");
            self.now = time;
            self.counts.events += 1;
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
        match self.bench {
            Some(_) => self.counts.completed >= self.limit,
            None => self.next_request.is_none() && self.counts.completed == self.counts.arrived,
        }
    }

    // Requests.

    fn fetch_request(&mut self) {
        self.next_request = self.requests.as_mut().and_then(Iterator::next);
        let time = match &self.next_request {
            Some(request) => request.intended_ns,
            None => {
                self.last_arrival = self.now;
                self.completed_by_last = self.counts.completed;
                self.backlog = self.counts.arrived - self.counts.completed;
                self.best_effort_time = self.workers.iter().map(|w| w.best_effort).sum();
                let running = self.workers.iter().filter(|w| {
                    w.running.is_some_and(|r| self.jobs[r.task.0 as usize].is_best_effort())
                });
                self.best_effort_time += running.map(|w| w.ran(self.now)).sum::<u64>();
                NEVER
            }
        };
        self.calendar.set(ARRIVALS, time);
    }

    fn arrive(&mut self) {
        let request = self.next_request.take().expect("a request is due");
        let task = self.new_job(Kind::Request, request.class, request.service_ns);
        self.jobs[task as usize].counted = self.counts.arrived >= self.warm_up;
        self.counts.arrived += 1;
        self.overrun = self.jobs.len() as u32 >= MOST_TASKS - 1;
        let at = self.now;
        if self.dispatcher {
            let done = self.occupy_core(self.system.ingest);
            self.ingested.push_back((done, task));
            self.calendar.set(DISPATCHER, self.ingested[0].0);
        } else {
            let count = self.workers.len() as u128;
            let port = ((u128::from(request.key_random) * count) >> 64) as usize;
            self.jobs[task as usize].port = port as u32;
            match (self.threads, self.ports.get_mut(port)) {
                (Some(threads), Some(full)) if full.serving >= threads => {
                    full.socket.push_back(task);
                }
                (_, here) => {
                    if let Some(here) = here {
                        here.serving += 1;
                    }
                    self.policy.task_init(Task(task), &Attributes::default(), at);
                    let place = match self.queues {
                        Queues::Single => Place::Shared,
                        Queues::Rss => Place::Local(port),
                    };
                    self.make_runnable(place, task, Why::New);
                }
            }
        }
        self.fetch_request();
    }

    /// A thread of this port has served a request on `worker`: it takes another from the socket, or waits.
    fn thread_is_free(&mut self, port: u32, worker: usize) {
        let Some(here) = self.ports.get_mut(port as usize) else { return };
        match here.socket.pop_front() {
            Some(task) => {
                self.policy.task_init(Task(task), &Attributes::default(), self.now);
                self.make_runnable(Place::Local(worker), task, Why::New);
            }
            None => here.serving -= 1,
        }
    }

    /// The one core that keeps time or dispatches does something; returns when it is done.
    fn occupy_core(&mut self, cost: u64) -> u64 {
        self.core_free = self.core_free.max(self.now) + cost;
        self.core_busy += cost;
        self.core_free
    }

    /// The dispatcher has taken a request in.
    fn take_in(&mut self) {
        let (_, task) = self.ingested.pop_front().expect("a request was ingested");
        let next = self.ingested.front().map_or(NEVER, |next| next.0);
        self.calendar.set(DISPATCHER, next);
        self.policy.task_init(Task(task), &Attributes::default(), self.now);
        self.make_runnable(Place::Shared, task, Why::New);
    }

    // Queues.

    fn make_runnable(&mut self, place: Place, task: u32, why: Why) {
        self.policy.task_enqueue(place, Task(task), why, self.now);
        self.queued += 1;
        if let Some(worker) = self.choose_idle(place) {
            if self.dispatcher {
                self.assign(worker);
            } else {
                self.start_idle(worker);
            }
            return;
        }
        let first = self.queued == 1;
        if self.mechanism.timer == Timer::Thread {
            self.tell_clock();
            return;
        }
        match (self.asks, place) {
            (Asks::Place, Place::Local(worker)) => self.ask(worker),
            (Asks::First, _) if !first => {}
            _ => (0..self.workers.len()).for_each(|worker| self.ask(worker)),
        }
    }

    fn choose_idle(&self, place: Place) -> Option<usize> {
        if let Place::Local(worker) = place {
            let idle = self.workers[worker].idle.is_some();
            if idle || !self.balance {
                return idle.then_some(worker);
            }
        }
        self.idle.last().map(|&worker| worker as usize)
    }

    fn add_idle(&mut self, worker: usize) {
        self.workers[worker].idle = Some(self.idle.len());
        self.workers[worker].idle_since = self.now;
        self.idle.push(worker as u32);
    }

    fn remove_idle(&mut self, worker: usize) {
        let me = &mut self.workers[worker];
        let Some(at) = me.idle.take() else { return };
        if let Some(tax) = self.tax {
            me.account = tax.rest(me.account, self.now - me.idle_since);
        }
        self.idle.swap_remove(at);
        if let Some(&moved) = self.idle.get(at) {
            self.workers[moved as usize].idle = Some(at);
        }
    }

    /// The next task for `worker`, and whether it was another's.
    fn pick(&mut self, worker: usize) -> Option<(Pick, bool)> {
        if self.queued == 0 {
            return None;
        }
        let own = self.policy.task_dequeue(worker, self.now).map(|pick| (pick, false));
        let others = || match self.balance {
            true => self.policy.balance(worker, self.now).map(|pick| (pick, true)),
            false => None,
        };
        let pick = own.or_else(others)?;
        self.queued -= 1;
        Some(pick)
    }

    /// The dispatcher hands a task to an idle worker.
    fn assign(&mut self, worker: usize) {
        self.remove_idle(worker);
        self.hand_over(worker);
    }

    fn hand_over(&mut self, worker: usize) {
        let done = self.occupy_core(self.system.assign);
        self.workers[worker].assigned = done + self.system.handoff;
        self.pending += 1;
        self.schedule(worker);
    }

    fn start_idle(&mut self, worker: usize) {
        if let Some((pick, stolen)) = self.pick(worker) {
            self.remove_idle(worker);
            let parked = self.now - self.workers[worker].idle_since >= self.system.spin;
            let wake = if parked { self.system.wake.sample(&mut self.random) } else { 0 };
            self.enter(worker, pick, stolen, wake);
        }
    }

    // Workers.

    fn schedule(&mut self, worker: usize) {
        let next = self.workers[worker].next();
        self.calendar.set(SOURCES + worker, next);
    }

    fn act(&mut self, worker: usize) {
        let me = &mut self.workers[worker];
        if me.end == self.now {
            self.end(worker);
        } else if me.notified == self.now {
            self.interrupt(worker);
        } else if me.due == self.now {
            me.due = NEVER;
            if !self.skip && me.notified == NEVER {
                self.send(worker);
            } else {
                self.ask(worker);
            }
            self.schedule(worker);
        } else {
            me.assigned = NEVER;
            self.pending -= 1;
            self.become_free(worker);
        }
    }

    /// A worker takes its next task or idles; with a dispatcher, only what it was assigned.
    fn become_free(&mut self, worker: usize) {
        match self.pick(worker) {
            Some((pick, stolen)) => self.enter(worker, pick, stolen, 0),
            None => {
                self.add_idle(worker);
                self.schedule(worker);
            }
        }
    }

    /// `before`: what must be done on the worker before the switch.
    fn enter(&mut self, worker: usize, pick: Pick, stolen: bool, before: u64) {
        // A mechanism that takes time at every switch changes the signal mask there. Who has received a signal has just taken the lock.
        let masks = self.mechanism.switch > 0 && before == 0;
        let mask = if masks { self.wait_for_lock(1) } else { 0 };
        let cost = before + self.system.dispatch + self.system.poll + self.mechanism.switch + mask;
        let me = &mut self.workers[worker];
        me.run += 1;
        me.due = NEVER;
        self.counts.dispatches += 1;
        self.run_task(worker, pick, stolen, cost);
        self.workers[worker].turn = self.workers[worker].running.map_or(self.now, |r| r.since);
        self.ask(worker);
        self.schedule(worker);
    }

    /// The thread that has just served a request serves this one too.
    fn go_on_with(&mut self, worker: usize, pick: Pick) {
        self.run_task(worker, pick, false, 0);
        self.ask(worker);
        self.schedule(worker);
    }

    /// Was this request taken from the network when the thread that runs was entered, which has just served another?
    fn came_with(&self, worker: usize, ended: u32, pick: Pick, stolen: bool) -> bool {
        let next = &self.jobs[pick.task.0 as usize];
        let requests =
            next.kind == Kind::Request && self.jobs[ended as usize].kind == Kind::Request;
        self.run_on
            && !stolen
            && requests
            && !next.started
            && next.arrived <= self.workers[worker].turn
    }

    fn run_task(&mut self, worker: usize, pick: Pick, stolen: bool, mut cost: u64) {
        let Pick { task, class } = pick;
        let (system, job) = (&self.system, &mut self.jobs[task.0 as usize]);
        let me = &mut self.workers[worker];
        if stolen {
            cost += system.steal;
            self.counts.steals += 1;
        }
        let first = !job.started;
        if first && job.kind == Kind::Request {
            cost += system.request;
        }
        if job.is_best_effort() != me.best_effort_last {
            me.best_effort_last = job.is_best_effort();
            cost += system.app_switch;
        }
        if first && matches!(job.kind, Kind::Bench(_)) && job.counted {
            self.latency[0].record(self.now + cost - job.arrived);
        }
        job.started = true;
        job.worker = worker as u32;
        let start = self.now.max(me.stalled);
        let since = start + cost;
        me.running = Some(Running { task, since, class });
        me.entered = start;
        me.lost = 0;
        me.end = since + job.left;
        me.overhead += cost;
    }

    /// Take the running task off the worker's books.
    fn leave(&mut self, worker: usize, preempted: bool) -> u32 {
        let me = &mut self.workers[worker];
        let running = me.running.take().expect("a task is running");
        let task = running.task.0;
        let ran = self.now.saturating_sub(running.since).saturating_sub(me.lost);
        let job = &mut self.jobs[task as usize];
        job.left -= ran.min(job.left);
        if job.is_best_effort() {
            me.best_effort += ran;
        } else {
            me.busy += ran;
        }
        if let Some(window) = self.options.window
            && self.now > window.from
            && me.entered < window.to
        {
            self.timeline.spans.push(Span {
                worker: worker as u32,
                task,
                class: job.class,
                from: me.entered,
                runs: running.since,
                to: self.now,
                preempted,
            });
        }
        me.end = NEVER;
        me.due = NEVER;
        if self.accounts {
            self.policy.task_stopped(worker, running.task, ran);
        }
        task
    }

    /// The running task has run for its time.
    fn end(&mut self, worker: usize) {
        // In the runtime's order: first what is next, then what becomes of the last.
        let next = if self.dispatcher { None } else { self.pick(worker) };
        let task = self.leave(worker, false);
        match next {
            Some((pick, stolen)) if self.came_with(worker, task, pick, stolen) => {
                self.go_on_with(worker, pick);
            }
            Some((pick, stolen)) => self.enter(worker, pick, stolen, 0),
            None => {
                self.add_idle(worker);
                self.schedule(worker);
            }
        }
        self.complete(worker, task);
        if self.dispatcher && self.queued > self.pending && self.workers[worker].idle.is_some() {
            self.assign(worker);
        }
    }

    fn complete(&mut self, worker: usize, task: u32) {
        let job = &self.jobs[task as usize];
        let (class, service) = (job.class as usize, job.service);
        let latency = self.now - job.arrived + self.network;
        match job.kind {
            Kind::Request => {
                assert!(latency >= service, "a request ended before its service time was over");
                self.counts.completed += 1;
                if job.counted {
                    let slowdown = (latency as f64 * 1e3 / service as f64) as u64;
                    self.latency[class].record(latency);
                    self.slowdown[class].record(slowdown);
                    self.total.record(latency);
                    self.total_slowdown.record(slowdown);
                }
                let port = job.port;
                self.policy.task_terminate(Task(task), self.now);
                self.free.push(task);
                self.thread_is_free(port, worker);
            }
            Kind::BestEffort => unreachable!("best-effort threads do not end"),
            Kind::Message(number) => {
                // Everybody whose message it has sent by now; who wrote meanwhile waits for the next round.
                let sent = std::mem::take(&mut self.mail[usize::from(number)]);
                let keep = sent.len().min(self.jobs[task as usize].class as usize);
                let (woken, later) = sent.split_at(keep);
                self.mail[usize::from(number)] = later.to_vec();
                for &thread in woken {
                    self.wake_bench(thread);
                }
                if !self.mail[usize::from(number)].is_empty() {
                    self.wake_message(number);
                }
            }
            Kind::Bench(message) => {
                self.counts.completed += 1;
                if job.counted {
                    self.latency[1].record(latency);
                    self.slowdown[1].record((latency as f64 * 1e3 / service as f64) as u64);
                    self.total.record(latency);
                }
                let sleep = self.bench.map_or(0, |bench| bench.sleep);
                if sleep == 0 {
                    self.post(message, task);
                } else {
                    self.sleeping.push(Reverse((self.now + sleep, task)));
                    self.calendar.set(SLEEPERS, self.sleeping.peek().map_or(NEVER, |s| s.0.0));
                }
            }
        }
    }

    // The message benchmark.

    fn wake_sleepers(&mut self) {
        if let Some(Reverse((_, task))) = self.sleeping.pop()
            && let Kind::Bench(message) = self.jobs[task as usize].kind
        {
            self.post(message, task);
        }
        self.calendar.set(SLEEPERS, self.sleeping.peek().map_or(NEVER, |s| s.0.0));
    }

    /// A worker thread waits for its message.
    fn post(&mut self, message: u16, task: u32) {
        let mail = &mut self.mail[usize::from(message)];
        mail.push(task);
        if mail.len() == 1 {
            self.wake_message(message);
        }
    }

    /// The message thread of this number sleeps: it is woken for what is there.
    fn wake_message(&mut self, message: u16) {
        let count = self.mail[usize::from(message)].len() as u64;
        let wake = self.bench.map_or(0, |bench| bench.wake);
        let task = self
            .jobs
            .iter()
            .position(|job| job.kind == Kind::Message(message))
            .expect("there is such a thread");
        let left = self.taxed((wake * count).max(1));
        let job = &mut self.jobs[task];
        (job.left, job.service, job.class) = (left, left, count as u32);
        (job.arrived, job.started) = (self.now, false);
        let place = Place::Local(job.worker as usize);
        self.make_runnable(place, task as u32, Why::Woken);
    }

    fn wake_bench(&mut self, task: u32) {
        let left = self.taxed(self.jobs[task as usize].service);
        let job = &mut self.jobs[task as usize];
        job.arrived = self.now;
        job.left = left;
        job.started = false;
        job.counted = self.counts.completed >= self.warm_up;
        let place = Place::Local(job.worker as usize);
        self.make_runnable(place, task, Why::Woken);
    }

    // A thread that keeps time, as the runtime's clock `timer-thread` does.

    /// Something waits that no idle worker takes. Who brought it interrupts a worker whose thread has had its quantum already,
    /// or wakes the thread from its long sleep; a short one goes on.
    fn tell_clock(&mut self) {
        let overdue = |engine: &Self, worker: usize| {
            let due = engine.due(worker);
            engine.workers[worker].notified == NEVER && due.is_some_and(|at| at <= engine.now)
        };
        if let Some(worker) = (0..self.workers.len()).find(|&worker| overdue(self, worker)) {
            self.send(worker);
            self.schedule(worker);
        } else {
            self.wake_clock();
        }
    }

    /// A worker has begun to run a thread.
    fn tell_clock_of(&mut self, worker: usize) {
        if self.clock.sleeps_long && self.due(worker).is_some() {
            self.wake_clock();
        }
    }

    fn wake_clock(&mut self) {
        if self.clock.sleeps_long && self.quantum.is_some() {
            self.clock.sleeps_long = false;
            let at = self.now + self.mechanism.late.sample(&mut self.random);
            self.calendar.set(CLOCK, at);
        }
    }

    /// When the policy wants the worker's thread to stop, as things are.
    fn due(&self, worker: usize) -> Option<u64> {
        let me = &self.workers[worker];
        let running = Running { since: me.turn, ..me.running? };
        let at = self.policy.preempt_at(worker, &running, None)?;
        // Not before it has run at all, so that there is always progress.
        Some(at.max(running.since + 1).max(self.affordable_at(worker)))
    }

    /// When the next interruption of the worker can be paid for.
    fn affordable_at(&self, worker: usize) -> u64 {
        self.tax.map_or(0, |tax| tax.earliest(self.workers[worker].account))
    }

    /// The thread is awake: it sends what is due and sleeps until something will be.
    fn look(&mut self) {
        let Some(quantum) = self.quantum else { return };
        let soon = self.now + quantum;
        let (mut next, mut used_up) = (NEVER, NEVER);
        for worker in 0..self.workers.len() {
            let Some(due) = self.due(worker) else {
                let me = &self.workers[worker];
                let end = me.turn + quantum;
                if me.running.is_some() && end > self.now {
                    used_up = used_up.min(end);
                }
                continue;
            };
            if due > self.now {
                next = next.min(due);
                continue;
            }
            if self.workers[worker].notified == NEVER {
                self.send(worker);
                self.schedule(worker);
            }
            next = next.min(soon);
        }
        self.clock.quiet = if next == NEVER { self.clock.quiet + 1 } else { 0 };
        self.clock.sleeps_long = match next {
            NEVER => self.clock.quiet >= LINGER,
            next => next > soon,
        };
        if !self.clock.sleeps_long {
            next = next.min(used_up.clamp(self.now + quantum / RESTLESS, soon));
        }
        if next != NEVER {
            next += self.mechanism.late.sample(&mut self.random);
        }
        self.calendar.set(CLOCK, next);
    }

    // Preemption.

    /// The clock asks when the worker must stop what it runs.
    fn ask(&mut self, worker: usize) {
        match self.mechanism.timer {
            Timer::None => return,
            Timer::Thread => return self.tell_clock_of(worker),
            Timer::Core | Timer::Worker => {}
        }
        let me = &self.workers[worker];
        let turn = me.turn;
        let Some(mut running) = me.running else { return };
        running.since = turn;
        if me.notified != NEVER {
            if me.notified_run != me.run && me.due > me.notified {
                // Another notification is under way; ask again when it has come.
                self.workers[worker].due = me.notified;
            }
            return;
        }
        let at = if self.skip {
            self.policy.preempt_at(worker, &running, None)
        } else {
            // On a grid, whatever runs: as by a periodic timer.
            self.quantum.map(|quantum| (self.now / quantum + 1) * quantum)
        };
        // Not before it has run at all, so that there is always progress.
        let least = self.now.max(running.since + 1).max(self.affordable_at(worker));
        let at = match (at, self.quantum) {
            (Some(at), Some(quantum)) if self.once_a_quantum => {
                Some(turn + (at.max(least) - turn).div_ceil(quantum) * quantum)
            }
            (at, _) => at,
        };
        let due = at.map_or(NEVER, |at| self.tick_after(worker, at.max(least)));
        if due <= self.now {
            self.send(worker);
        } else {
            self.workers[worker].due = due;
        }
        self.schedule(worker);
    }

    /// With a ticking timer, the next tick; workers' ticks are spread evenly.
    fn tick_after(&self, worker: usize, at: u64) -> u64 {
        let Some(tick) = self.tick else { return at };
        let phase = worker as u64 * tick / self.workers.len() as u64;
        (at - phase.min(at)).div_ceil(tick) * tick + phase
    }

    fn send(&mut self, worker: usize) {
        self.counts.sent += 1;
        let sent = match self.mechanism.timer {
            Timer::Core => {
                let send = self.mechanism.send + self.wait_for_lock(1);
                self.occupy_core(send + self.mechanism.scan)
            }
            Timer::Thread => self.now + self.mechanism.send,
            Timer::Worker | Timer::None => self.now,
        };
        let notified = sent + self.mechanism.deliver.sample(&mut self.random);
        let me = &mut self.workers[worker];
        me.notified = notified;
        me.notified_run = me.run;
        me.due = NEVER;
        if notified <= self.now {
            // It is handled as an event of its own, after what happens now.
            me.notified = self.now;
        }
    }

    /// What an interruption costs the running thread. A tick's cost is in the running times already.
    fn received(&mut self) -> u64 {
        if self.tick.is_some() { 0 } else { self.mechanism.receive + self.wait_for_lock(RECEIVES) }
    }

    /// How long whoever takes the lock of the process's signals so many times, one right after the other, has to wait for it.
    fn wait_for_lock(&mut self, times: u64) -> u64 {
        let begin = self.lock_free.max(self.now);
        self.lock_free = begin + times * self.mechanism.lock;
        begin - self.now
    }

    fn interrupt(&mut self, worker: usize) {
        let me = &mut self.workers[worker];
        if me.stopped > self.now {
            // Nobody receives anything while the CPU is taken away.
            me.notified = me.stopped;
            self.schedule(worker);
            return;
        }
        let receive = self.received();
        let me = &mut self.workers[worker];
        me.notified = NEVER;
        if let Some(tax) = self.tax {
            me.account = tax.charge(me.account, self.now);
        }
        let Some(running) = me.running else {
            self.counts.stale += 1;
            self.schedule(worker);
            return;
        };
        if me.notified_run != me.run || self.now < running.since {
            self.counts.stale += 1;
            self.lose(worker, receive);
            self.ask(worker);
            self.schedule(worker);
            return;
        }
        if self.dispatcher {
            if self.queued == 0 {
                self.go_on(worker, receive);
                return;
            }
            let task = self.leave(worker, true);
            self.counts.preemptions += 1;
            self.workers[worker].stalled = self.now + receive + self.system.preempt_switch;
            self.workers[worker].overhead += receive + self.system.preempt_switch;
            // The worker gets the oldest; the stopped one goes behind.
            self.hand_over(worker);
            self.policy.task_enqueue(Place::Local(worker), Task(task), Why::Preempted, self.now);
            self.queued += 1;
            return;
        }
        let Some((pick, stolen)) = self.pick(worker) else {
            self.go_on(worker, receive);
            return;
        };
        let task = self.leave(worker, true);
        self.counts.preemptions += 1;
        self.enter(worker, pick, stolen, receive + self.system.preempt_switch);
        self.make_runnable(Place::Local(worker), task, Why::Preempted);
    }

    /// There is nothing else to run.
    fn go_on(&mut self, worker: usize, receive: u64) {
        self.counts.useless += 1;
        self.lose(worker, receive);
        self.ask(worker);
        self.schedule(worker);
    }

    /// The running thread loses time.
    fn lose(&mut self, worker: usize, time: u64) {
        let me = &mut self.workers[worker];
        me.lost += time;
        me.end = me.end.saturating_add(time);
        me.overhead += time;
    }

    /// When a disturbance of this kind comes to some worker.
    fn next_noise(&mut self, kind: usize) -> u64 {
        let every = self.noise[kind].every as f64 / self.workers.len() as f64;
        self.now + self.random.gap(every)
    }

    fn set_noise(&mut self) {
        let recorded = self.stops.front().map(|&(at, _)| at.max(self.now));
        let first = self.noise_at.iter().copied().chain(recorded).min().unwrap_or(NEVER);
        self.calendar.set(NOISE, first);
    }

    fn disturb(&mut self) {
        let worker = self.random.below(self.workers.len());
        let recorded = self.stops.pop_front_if(|&mut (at, _)| at <= self.now);
        let lasts = if let Some((_, lasts)) = recorded {
            lasts
        } else if let Some(kind) = self.noise_at.iter().position(|&at| at == self.now) {
            let lasts = self.noise[kind].lasts.sample(&mut self.random);
            self.noise_at[kind] = self.next_noise(kind);
            lasts
        } else {
            return;
        };
        let me = &mut self.workers[worker];
        me.stopped = me.stopped.max(self.now) + lasts;
        if me.running.is_some() {
            self.lose(worker, lasts);
        } else {
            me.stalled = me.stalled.max(self.now) + lasts;
        }
        self.schedule(worker);
        self.set_noise();
    }

    // The end.

    fn check(&self) {
        assert_eq!(self.policy.waiting(), self.queued, "a task is lost or doubled");
        assert!(
            self.queued <= self.pending || self.idle.is_empty() || !self.balance,
            "a worker idles while {} tasks wait under {}",
            self.queued,
            self.policy.name()
        );
        let running = self.workers.iter().filter(|worker| worker.running.is_some()).count();
        let live = self.jobs.len() - self.free.len();
        let sockets: usize = self.ports.iter().map(|port| port.socket.len()).sum();
        let elsewhere = self.ingested.len() + self.sleeping.len() + sockets;
        let mail: usize = self.mail.iter().map(Vec::len).sum();
        let messages = self.mail.len();
        let accounted = running + self.queued + elsewhere + mail;
        assert!(
            accounted <= live && live <= accounted + messages,
            "{live} threads, {running} running, {} queued, {elsewhere} elsewhere",
            self.queued
        );
        for worker in &self.workers {
            let spent = worker.busy + worker.best_effort;
            assert!(spent <= self.now, "a worker was busy for longer than there was time");
        }
    }

    fn finish(self) -> (Outcome, Timeline) {
        let end = self.now.max(1) as f64;
        let span = if self.last_arrival > 0 { self.last_arrival as f64 } else { end };
        let used = |worker: &Worker| WorkerUse {
            busy: worker.busy as f64 / end,
            best_effort: worker.best_effort as f64 / end,
            overhead: worker.overhead as f64 / end,
        };
        let class = |(index, name): (usize, &String)| ClassOutcome {
            name: name.clone(),
            completed: self.latency[index].count(),
            latency_us: self.latency[index].latency(),
            slowdown: self.slowdown[index].latency(),
        };
        let completed =
            if self.bench.is_some() { self.counts.completed } else { self.completed_by_last };
        // What grows without bound shows by a backlog that is a good part of all requests.
        let limit = (self.counts.arrived / 20).max(1_000.max(20 * self.workers.len() as u64));
        let load = self.rate / self.capacity;
        let outcome = Outcome {
            rate: self.rate,
            load,
            throughput: completed as f64 / span * 1e9,
            unstable: self.overrun || load >= 1.0 || self.backlog > limit,
            seconds: end / 1e9,
            classes: self.classes.iter().enumerate().map(class).collect(),
            total: ClassOutcome {
                name: "all".into(),
                completed: self.total.count(),
                latency_us: self.total.latency(),
                slowdown: self.total_slowdown.latency(),
            },
            best_effort_share: self.best_effort_time as f64 / span / self.workers.len() as f64,
            workers: self.workers.iter().map(used).collect(),
            timer_core: self.core_busy as f64 / end,
            counts: self.counts,
        };
        (outcome, self.timeline)
    }
}
