//! Preempts a scenario at every instruction boundary. What that means is in the crate's README.

mod companions;
pub mod frame;
pub mod scenarios;
pub mod stepper;

use crate::libraries::Libraries;
use crate::outcome::{Counts, Outcome};
use crate::symbols;
use core::arch::asm;
use quaver::inspect::{self, ThreadState};
use quaver::{Builder, Clock, Notification, Runtime};
use scenarios::Scenario;
use serde::{Deserialize, Serialize};
use stepper::{NEVER, Plan};

/// Which scenario to preempt, and how thoroughly.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// The scenario's name.
    pub scenario: String,
    /// 1, or 2: then preempted threads go on on the other worker.
    pub workers: usize,
    /// How many instructions may be stepped, roughly.
    pub steps: u64,
    /// A scenario with more boundaries than this is cut off there.
    pub most: u64,
    /// Which boundaries are chosen where not all can be tried.
    pub seed: u64,
    /// Only these preemptions: the first boundary, and the distance to the next (0: there is no
    /// next).
    pub only: Option<(u64, u64)>,
    /// What is done in the C library.
    pub libraries: Libraries,
    /// Preempt by emulated user interrupts, not in the trap's signal handler.
    pub by_user_interrupt: bool,
}

impl Job {
    /// What the command line calls it.
    pub fn kind(&self) -> &'static str {
        if self.by_user_interrupt { "uintr" } else { "boundaries" }
    }
}

/// A request that was put off is lost if the thread has not been switched out after this time: far
/// longer than any machine is busy with something else.
const LOST_AFTER_SECONDS: f64 = 20.0;
/// Enough differences to look at.
const MOST_DIFFERENCES: usize = 8;
/// Runs of one pass that end before their boundary is reached, before there are taken to be no
/// more.
const MISSES: u32 = 3;
/// Does the job in this process, which must not have had a runtime before.
pub fn run(job: &Job) -> Outcome {
    let mut outcome = Outcome::new(&job.scenario, job.workers);
    outcome.libraries = Some(job.libraries);
    let Some(scenario) = scenarios::find(&job.scenario) else {
        outcome.differ(format!("there is no scenario {}", job.scenario), String::new());
        return outcome;
    };
    if !(scenario.available)() {
        outcome.skipped = Some("this CPU has no such registers".into());
        return outcome;
    }
    quiet_expected_panics();
    if job.workers > 1 {
        stepper::migrate();
    }
    // So long a quantum that nothing is preempted but what is asked for.
    let builder = Builder::new()
        .workers(job.workers)
        .policy_str("ws:quantum=100s")
        .max_deferral(job.libraries.max_deferral());
    let (builder, install): (_, fn() -> _) = if job.by_user_interrupt {
        let told = Notification::EmulatedUserInterrupt;
        (builder.clock(Clock::TimerThread).notification(told), stepper::by_user_interrupt::install)
    } else {
        (builder.clock(Clock::PosixTimer), stepper::install)
    };
    let built = builder.build().map_err(|e| e.to_string()).and_then(|rt| {
        if job.by_user_interrupt && rt.notification() != Notification::EmulatedUserInterrupt {
            return Err("user interrupts cannot be emulated here".into());
        }
        install().map(|()| rt).map_err(|e| format!("cannot handle SIGTRAP: {e}"))
    });
    match built {
        Ok(rt) => on_runtime(&rt, scenario, job, &mut outcome),
        Err(e) => outcome.differ(e, String::new()),
    }
    outcome
}

fn on_runtime(rt: &Runtime, scenario: Scenario, job: &Job, outcome: &mut Outcome) {
    rt.run(|| companions::beside(job.workers, || Driver::new(scenario, job, outcome).drive()));
    while rt.stats().completed < rt.stats().spawned {
        std::thread::yield_now();
    }
    let stats = rt.stats();
    let tally = stepper::tally();
    outcome.counts = Counts {
        boundaries_tried: tally.tried,
        preemptions: stats.preempt_useful,
        migrations: stats.preempt_migrated,
        deferred: tally.deferred,
        handed_over: tally.handed_over,
        idle: tally.idle,
        states_compared: tally.compared,
        runs: outcome.counts.runs,
        boundaries: outcome.counts.boundaries,
        longest_deferral_us: outcome.counts.longest_deferral_us,
        steps: 0,
    };
    let (findings, found) = stepper::findings();
    for finding in findings {
        let text = format!(
            "not restored: {}, before boundary {} at {}",
            describe(finding.mismatch),
            finding.boundary,
            symbols::name(finding.address)
        );
        outcome.differ(text, reproducer(job, (finding.boundary, 0)));
    }
    outcome.differences += u64::from(found).saturating_sub(outcome.details.len() as u64);
    let taken = tally.preempted + tally.handed_over;
    if taken > stats.preempt_useful
        || tally.tried > taken + tally.deferred + tally.idle + tally.alone
    {
        outcome.differ(format!("counters do not add up: {tally:?}, {stats:?}"), String::new());
    }
    if inspect::waiting() != 0 {
        outcome.differ(format!("{} threads are left in queues", inspect::waiting()), String::new());
    }
}

fn reproducer(job: &Job, at: (u64, u64)) -> String {
    format!(
        "quaver selftest {} --only {} --workers {} --libraries {} --at {}{}",
        job.kind(),
        job.scenario,
        job.workers,
        job.libraries,
        at.0,
        if at.1 == 0 { String::new() } else { format!("/{}", at.1) }
    )
}

fn describe(m: frame::Mismatch) -> String {
    let what = match m.part {
        frame::Part::General => frame::register_name(m.at).to_owned(),
        frame::Part::Flags => "flags".to_owned(),
        frame::Part::Legacy => format!("byte {} of the FXSAVE area", m.at),
        frame::Part::Extended => format!("byte {} of the XSAVE area", m.at),
        frame::Part::RedZone => format!("byte {} of the red zone", m.at),
    };
    format!("{what} ({:#x} has become {:#x})", m.before, m.after)
}

/// Which runs to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Schedule {
    /// A run for each boundary, or for one of `spacing`; stepping ends there.
    Each { spacing: u64 },
    /// `count` runs, in which boundaries are `stride` apart, each run one further on.
    Passes { stride: u64, count: u64 },
}

impl Schedule {
    /// What a budget of `steps` allows for a scenario of `boundaries`.
    ///
    /// Several preemptions in one run are for `plain` scenarios only. In the runtime a thread that
    /// is preempted is resumed through code that is stepped as well, so it would be preempted on
    /// its way back again and again.
    fn choose(plain: bool, boundaries: u64, steps: u64) -> Schedule {
        let boundaries = boundaries.max(1);
        let each = boundaries.saturating_mul(boundaries) / 2;
        if each <= steps {
            Schedule::Each { spacing: 1 }
        } else if !plain {
            Schedule::Each { spacing: each.div_ceil(steps) }
        } else if boundaries <= steps {
            let stride = steps / boundaries;
            Schedule::Passes { stride, count: stride }
        } else {
            Schedule::Passes { stride: (4 * boundaries).div_ceil(steps), count: 1 }
        }
    }
}

/// Makes the runs, on a user thread.
struct Driver<'a> {
    scenario: Scenario,
    job: &'a Job,
    outcome: &'a mut Outcome,
    expected: u64,
    state: Option<ThreadState>,
    limit: u64,
    ticks_per_us: f64,
}

impl<'a> Driver<'a> {
    fn new(scenario: Scenario, job: &'a Job, outcome: &'a mut Outcome) -> Driver<'a> {
        // The first calls resolve symbols, make variables, warm pools up.
        let expected = (scenario.run)();
        (scenario.run)();
        let (state, limit) = (settled_state(), job.most);
        Driver { scenario, job, outcome, expected, state, limit, ticks_per_us: ticks_per_us() }
    }

    fn drive(mut self) {
        if let Some((first, stride)) = self.job.only {
            self.once(first, if stride == 0 { NEVER } else { stride });
            return;
        }
        let boundaries = self.once(NEVER, NEVER);
        self.outcome.counts.boundaries = boundaries;
        if boundaries >= self.job.most {
            self.outcome.note = Some("cut off: the first part only".into());
        }
        self.limit = (2 * boundaries).saturating_add(10_000);
        match Schedule::choose(self.scenario.plain, boundaries, self.job.steps.max(1)) {
            Schedule::Each { spacing } => {
                self.outcome.spacing = Some(spacing).filter(|&s| s > 1);
                let (mut boundary, mut misses) = (1 + self.job.seed % spacing, 0);
                while misses < MISSES && self.goes_on() {
                    if self.once(boundary, NEVER) < boundary {
                        misses += 1
                    } else {
                        misses = 0
                    }
                    boundary += spacing;
                }
            }
            Schedule::Passes { stride, count } => {
                self.outcome.stride = Some(stride);
                for first in 1..=count {
                    if self.goes_on() {
                        self.once(first, stride);
                    }
                }
            }
        }
    }

    fn goes_on(&self) -> bool {
        self.outcome.details.len() < MOST_DIFFERENCES
    }

    /// One run, and everything that must be true after it. Returns how many boundaries it had.
    fn once(&mut self, first: u64, stride: u64) -> u64 {
        let plan = Plan { first, stride, limit: self.limit };
        let (result, boundaries) = stepper::run(plan, self.scenario.run);
        let lost = !self.settle(stride == NEVER);
        self.outcome.counts.runs += 1;
        let problem = if lost {
            Some(format!("a preemption that was put off is lost ({})", inspect::describe()))
        } else if result != self.expected {
            Some(format!("the result is {result:#x}, undisturbed it is {:#x}", self.expected))
        } else if settled_state() != self.state {
            Some(format!("the thread's state is {:?}, was {:?}", settled_state(), self.state))
        } else {
            abi_state()
        };
        if let Some(problem) = problem {
            let (_, address) = stepper::position();
            let problem = format!(
                "{problem}, after a preemption at boundary {first}{} of {boundaries}; the last one \
                 at {}",
                if stride == NEVER { String::new() } else { format!(" and every {stride} on") },
                symbols::name(address)
            );
            let at = (first, if stride == NEVER { 0 } else { stride });
            self.outcome.differ(problem, reproducer(self.job, at));
        }
        boundaries
    }

    /// Waits until a request that was put off has been taken. `false`: it has not. `measure`:
    /// nothing was stepped after it.
    fn settle(&mut self, measure: bool) -> bool {
        let (since, start) = (stepper::put_off_at(), stepper::ticks());
        while inspect::outstanding() {
            let waited = stepper::ticks().saturating_sub(since.unwrap_or(start)) as f64;
            if waited / self.ticks_per_us > LOST_AFTER_SECONDS * 1e6 {
                return false;
            }
            (0..200).for_each(|_| core::hint::spin_loop());
        }
        if let Some(since) = since
            && measure
        {
            let late = stepper::ticks().saturating_sub(since) as f64 / self.ticks_per_us;
            let longest = &mut self.outcome.counts.longest_deferral_us;
            *longest = longest.max(late);
        }
        true
    }
}

/// The thread's state. Whether its token is there does not matter: as in `std`, it may be left by
/// somebody for whom the thread did not have to wait in the end.
fn settled_state() -> Option<ThreadState> {
    inspect::state().map(|s| ThreadState { park: s.park & 1, ..s })
}

/// What the C ABI says of control words and the direction flag at a function's start.
fn abi_state() -> Option<String> {
    let (mut mxcsr, mut cw) = (0u32, 0u16);
    let direction: u64;
    // SAFETY: stores three registers.
    unsafe {
        asm!("stmxcsr [{}]", in(reg) &raw mut mxcsr, options(nostack));
        asm!("fnstcw [{}]", in(reg) &raw mut cw, options(nostack));
        asm!("pushfq", "pop {}", out(reg) direction);
    }
    let ok = mxcsr & 0xffc0 == 0x1f80 && cw == 0x037f && direction & 0x400 == 0;
    (!ok).then(|| format!("control words {mxcsr:#x}, {cw:#x}, flags {direction:#x}"))
}

fn ticks_per_us() -> f64 {
    let (start, from) = (std::time::Instant::now(), stepper::ticks());
    while start.elapsed().as_micros() < 2_000 {
        core::hint::spin_loop();
    }
    (stepper::ticks() - from) as f64 / start.elapsed().as_secs_f64() / 1e6
}

/// Panics that are part of a scenario are not printed.
fn quiet_expected_panics() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if !info.payload_as_str().unwrap_or_default().contains("(expected)") {
            report(info);
        }
    }));
}
