//! What things cost: the entries of `costs.toml`, each with the place its numbers come from.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use serde::{Deserialize, Serialize};

use crate::delay::Delay;

/// Who interrupts a worker.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Timer {
    /// Nobody.
    None,
    /// A core that keeps time for all workers and sends notifications one after the other.
    Core,
    /// A thread that sleeps until the next moment that it knows of, and shares its core with
    /// others.
    Thread,
    /// Each worker's own timer, which is always set for the thread that runs, at no cost.
    Worker,
    /// Each worker's own timer, which is set only while something waits, and not anew at each
    /// dispatch: it may expire for a thread that has given way since.
    Alarm,
}

/// A way to tell a worker that it must preempt. Times in nanoseconds.
#[derive(Clone, PartialEq, Debug, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Mechanism {
    /// Who interrupts.
    pub timer: Timer,
    /// On the core that keeps time, for each notification.
    #[serde(default)]
    pub send: u64,
    /// On that core, for looking at a worker.
    #[serde(default)]
    pub scan: u64,
    /// From the end of sending until the worker notices; of an ideal timer, how late that is.
    #[serde(default)]
    pub deliver: Delay,
    /// How late a thread that keeps time wakes up, or a timer that is an alarm.
    #[serde(default)]
    pub late: Delay,
    /// On the worker, for an interruption.
    #[serde(default)]
    pub receive: Delay,
    /// The same for one in vain, if it differs; with setting an alarm anew.
    #[serde(default)]
    pub look: Option<Delay>,
    /// On the worker, for setting an alarm at a dispatch.
    #[serde(default)]
    pub arm: u64,
    /// What the server takes an interruption to cost: what it may spend on them, and how often it
    /// looks in vain, goes by that. Otherwise what one costs.
    #[serde(default)]
    pub price: Option<u64>,
    /// On the worker, at every entry of a thread, whether one was interrupted or not.
    #[serde(default)]
    pub switch: u64,
    /// For how long the kernel's lock of the process's signals keeps others away each time that it
    /// is taken, its way from core to core included: once to send a signal, three times to receive
    /// one, and once at a switch that changes the mask (`switch`).
    #[serde(default)]
    pub lock: u64,
    /// The share of running time that the mechanism costs even when it does nothing.
    #[serde(default)]
    pub slowdown: f64,
    /// Where the numbers come from.
    pub provenance: String,
}

impl Mechanism {
    /// What an interruption in vain costs the worker.
    pub fn in_vain(&self) -> &Delay {
        self.look.as_ref().unwrap_or(&self.receive)
    }
}

/// What a runtime itself costs, in nanoseconds.
#[derive(Clone, PartialEq, Debug, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct System {
    /// Choosing and entering a thread.
    #[serde(default)]
    pub dispatch: u64,
    /// Leaving a thread that was preempted, on top of `dispatch`.
    #[serde(default)]
    pub preempt_switch: u64,
    /// Taking work from another worker, idle or not: from when it is queued until it begins there.
    #[serde(default)]
    pub steal: u64,
    /// Looking for packets, at every entry of a thread.
    #[serde(default)]
    pub poll: u64,
    /// Taking a request from the network and sending its response.
    #[serde(default)]
    pub request: u64,
    /// Entering a thread of another application.
    #[serde(default)]
    pub app_switch: u64,
    /// Until an idle worker, which has gone to sleep, begins with what has come for it; nothing
    /// with a dispatcher.
    #[serde(default)]
    pub wake: Delay,
    /// How long an idle worker looks for work before it goes to sleep.
    #[serde(default)]
    pub spin: u64,
    /// A dispatcher taking a request in.
    #[serde(default)]
    pub ingest: u64,
    /// A dispatcher giving a task to a worker.
    #[serde(default)]
    pub assign: u64,
    /// Until the worker has it.
    #[serde(default)]
    pub handoff: u64,
    /// Where the numbers come from.
    pub provenance: String,
}

/// All entries.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Costs {
    /// Mechanisms by name.
    pub mechanism: BTreeMap<String, Mechanism>,
    /// Systems by name.
    pub system: BTreeMap<String, System>,
}

impl Costs {
    /// The entries that come with the simulator.
    pub fn built_in() -> &'static Costs {
        static COSTS: OnceLock<Costs> = OnceLock::new();
        COSTS.get_or_init(|| {
            toml::from_str(include_str!("../costs.toml")).expect("costs.toml is well-formed")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_entry_says_where_it_comes_from() {
        let costs = Costs::built_in();
        let texts = costs.mechanism.values().map(|m| &m.provenance);
        assert!(texts.chain(costs.system.values().map(|s| &s.provenance)).all(|t| t.len() > 10));
        assert_eq!(costs.mechanism["uintr"].receive, Delay::Fixed(400));
    }
}
