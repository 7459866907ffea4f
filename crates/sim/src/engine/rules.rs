//! What does not change during a run: how the server works, and what things cost.

use quaver_sched::clock::{Alarm, Pace};
use quaver_sched::{Concerns, Policy, Tax};

use crate::costs::{Mechanism, System, Timer};
use crate::scenario::{Queues, Scenario};

/// How the server works.
pub(super) struct Rules {
    pub(super) mechanism: Mechanism,
    pub(super) system: System,
    /// The policy wants to know how long threads ran.
    pub(super) accounts: bool,
    /// Which workers' threads must be asked about again when work comes.
    pub(super) concerns: Concerns,
    pub(super) dispatcher: bool,
    pub(super) skip: bool,
    pub(super) once_a_quantum: bool,
    pub(super) run_on: bool,
    pub(super) balance: bool,
    pub(super) queues: Queues,
    pub(super) quantum: Option<u64>,
    pub(super) tick: Option<u64>,
    /// The bound on what interruptions may cost.
    pub(super) tax: Option<Tax>,
    /// How much later a clock looks while no thread outlives its quantum.
    pub(super) pace: Option<Pace>,
    /// When workers set their timers, if those are alarms.
    pub(super) alarm: Option<Alarm>,
}

impl Rules {
    pub(super) fn of(scenario: &Scenario, policy: &dyn Policy) -> Self {
        let server = &scenario.server;
        let (mechanism, system) = (scenario.mechanism(), scenario.system());
        let price = mechanism.receive.mean_ns() as u64 + system.preempt_switch;
        let price = mechanism.price.unwrap_or(price);
        let quantum = server.policy.quantum().map(|quantum| quantum.as_nanos() as u64);
        let has = |timers: &[Timer]| quantum.filter(|_| timers.contains(&mechanism.timer));
        let savings = Tax::SAVINGS.as_nanos() as u64;
        let tax = server.tax.filter(|&percent| percent < 100);
        Rules {
            accounts: policy.accounts(),
            concerns: policy.arrival_concerns(),
            dispatcher: server.dispatcher,
            skip: server.skip_unnecessary,
            once_a_quantum: server.once_a_quantum,
            run_on: server.run_on,
            balance: server.balance,
            queues: server.queues,
            quantum,
            tick: server.tick,
            tax: tax.map(|percent| Tax::new(percent as u32, price, savings)),
            pace: has(&[Timer::Thread, Timer::Alarm])
                .map(|quantum| Pace::new(quantum, price, |span| span.as_nanos() as u64)),
            alarm: has(&[Timer::Alarm]).map(|quantum| Alarm::new(quantum, mechanism.arm)),
            mechanism,
            system,
        }
    }

    /// What the mechanism makes of a running time.
    pub(super) fn stretched(&self, service: u64) -> u64 {
        let mut time = service as f64 * (1.0 + self.mechanism.slowdown);
        if let Some(tick) = self.tick {
            // Each tick is received, whatever comes of it.
            time /= 1.0 - (self.mechanism.receive.mean_ns() / tick as f64).min(0.9);
        }
        if time == service as f64 { service } else { (time + 0.5) as u64 }
    }
}
