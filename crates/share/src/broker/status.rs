//! What `quaver share status` shows.

use super::member::Member;
use super::server::Broker;
use crate::client::Kind;
use quaver_sched::Service;
use serde::{Deserialize, Serialize};
use std::sync::atomic::Ordering::Relaxed;

/// A broker and its applications, now.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// Version of Quaver.
    pub version: String,
    /// The broker's process.
    pub pid: u32,
    /// Where it listens.
    pub socket: String,
    /// Who comes before whom: `shenango` or `weights`.
    pub policy: String,
    /// By which classes of the kernel: `fifo`, `mixed`, `nice` or `idle`.
    pub binding: String,
    /// How long who rings waits for an answer.
    pub bound_us: f64,
    /// What it takes to give a core up and have it back, measured or as it was set.
    pub cycle_us: f64,
    /// How long a turn of a best-effort application is, where there are several.
    pub slice_ms: f64,
    /// What a latency-critical application may use, in percent of all shared CPUs.
    pub budget_percent: u32,
    /// The CPU from which the broker watches the bells, if it does.
    pub guard_cpu: Option<usize>,
    /// Seconds since it began.
    pub up_s: f64,
    /// The shared CPUs.
    pub cores: Vec<Core>,
    /// The applications.
    pub applications: Vec<Application>,
    /// Cores that were given up or taken back, a second, in the last second.
    pub reallocations_per_s: u64,
    /// The run queue that applications have in common, if there is one.
    pub queue: Option<QueueStatus>,
    /// Who was expelled lately.
    pub expelled: Vec<Expulsion>,
    /// What the broker could not do.
    pub notes: Vec<String>,
}

/// A shared CPU.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Core {
    /// Its number.
    pub cpu: usize,
    /// The applications that run or wait there, by number; the one of highest rank first.
    pub applications: Vec<usize>,
}

/// An application.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Application {
    /// Its number.
    pub number: usize,
    /// Its name.
    pub name: String,
    /// Its process.
    pub pid: i32,
    /// Its user.
    pub uid: u32,
    /// `lc` or `be`.
    pub role: String,
    /// A program that knows nothing of it.
    pub plain: bool,
    /// Its weight.
    pub weight: u32,
    /// It is its turn, where several take turns.
    pub turn: bool,
    /// It has used more than its budget, and has lost its rank for a while.
    pub demoted: bool,
    /// CPU time on shared CPUs since it joined, in seconds.
    pub used_s: f64,
    /// Of all shared CPUs' time in the last second, in percent.
    pub share_percent: f64,
    /// How often it gave a core up, a second.
    pub parks_per_s: u64,
    /// How often it asked for one, a second.
    pub rings_per_s: u64,
    /// How often somebody answered (of `lc`), or it answered (of `be`), a second.
    pub answered_per_s: u64,
    /// How often nobody did in time, a second.
    pub forced_per_s: u64,
    /// From asking for a core to running there, on average in the last second.
    pub wait_us: Option<f64>,
}

/// A run queue that applications have in common.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct QueueStatus {
    /// Its policy.
    pub policy: String,
    /// Who has a part in it.
    pub applications: Vec<QueueMember>,
    /// How often cores were given from one of them to another, since the broker began.
    pub switches: u64,
    /// The same, a second, in the last second.
    pub switches_per_s: u64,
    /// From a core's being given to a worker's running there, on average in the last second.
    pub wait_us: Option<f64>,
    /// By which of the kernel's means: `module` (`/dev/quaver`) or `futex`.
    pub switches_by: String,
    /// How often it was made anew, because somebody was killed in the middle of a change.
    pub rebuilt: u64,
}

/// An application with a part in the common queue.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct QueueMember {
    /// Its process.
    pub pid: u32,
    /// The CPUs that it has at this moment.
    pub cpus: Vec<usize>,
    /// What it has used of all shared CPUs' time in the last second, in percent.
    pub share_percent: f64,
}

/// Somebody who was expelled.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Expulsion {
    /// The process.
    pub pid: i32,
    /// Its name.
    pub name: String,
    /// Why.
    pub why: String,
}

impl Broker {
    /// What is to be shown.
    pub fn status(&self) -> Status {
        let cores = self.options.cpus.iter().map(|&cpu| {
            let mut there: Vec<&Member> =
                self.joined().filter(|m| m.usage.on.contains(&cpu)).collect();
            let turn = |m: &Member| self.turns.holder() == Some(m.number as u32);
            there.sort_by_key(|m| (!m.is_critical() || m.is_demoted(), !turn(m), m.number));
            Core { cpu, applications: there.iter().map(|m| m.number).collect() }
        });
        let cores: Vec<Core> = cores.collect();
        let all = self.options.cpus.len() as f64;
        let application = |m: &Member| {
            let rates = &m.rates;
            let wait = self.table.us(rates.waited) / rates.rings.max(1) as f64;
            Application {
                number: m.number,
                name: m.name.clone(),
                pid: m.peer.pid,
                uid: m.peer.uid,
                role: if m.service == Service::LatencyCritical { "lc" } else { "be" }.into(),
                plain: m.kind == Kind::Plain,
                weight: m.weight,
                turn: self.turns.holder() == Some(m.number as u32),
                demoted: m.is_demoted(),
                used_s: m.usage.used.as_secs_f64(),
                share_percent: 100.0 * rates.used.as_secs_f64() / all,
                parks_per_s: rates.parks,
                rings_per_s: rates.rings,
                answered_per_s: rates.answered,
                forced_per_s: rates.forced,
                wait_us: (m.is_critical() && rates.rings > 0).then_some(wait),
            }
        };
        let reallocations =
            self.joined().map(|m| m.rates.parks.saturating_add(m.rates.rings)).sum();
        Status {
            version: env!("CARGO_PKG_VERSION").into(),
            pid: std::process::id(),
            socket: self.options.socket.display().to_string(),
            policy: self.options.policy.name().into(),
            binding: self.binding.name().into(),
            bound_us: self.options.bound.as_secs_f64() * 1e6,
            cycle_us: self.table.us(self.table.get().cycle.load(Relaxed)),
            slice_ms: self.options.slice.as_secs_f64() * 1e3,
            budget_percent: self.options.budget,
            guard_cpu: self.options.guard,
            up_s: self.begun.elapsed().as_secs_f64(),
            cores,
            applications: self.joined().map(application).collect(),
            reallocations_per_s: reallocations,
            queue: self
                .queue
                .as_ref()
                .map(|queue| queue.status(&self.options.cpus, |ticks| self.table.us(ticks))),
            expelled: self.expelled.iter().cloned().collect(),
            notes: self.notes.clone(),
        }
    }
}
