//! What the runtime would use on this machine when nothing is asked for, and why.
//!
//! The choices are the runtime's own ([`quaver::platform`]); the reasons that it does not give are
//! given here.

use std::time::Duration;

use quaver::platform::{self, Choice};
use quaver::sched::{DEFAULT_QUANTUM, quantum_for};
use quaver::{DEFAULT_STACK_SIZE, PolicySpec};
use serde::Serialize;

use super::detect::Facts;
use crate::parse::duration;

/// One mechanism and why it would be used.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Chosen {
    /// `clock`, `workers` and so on.
    pub name: &'static str,
    /// What would be used.
    pub value: String,
    /// Why, as a sentence without its full stop.
    pub why: String,
}

/// What the runtime would use on a machine with these facts.
pub fn choose(facts: &Facts) -> Vec<Chosen> {
    describe(facts, &platform::choose(&facts.runtime))
}

fn describe(facts: &Facts, choice: &Choice) -> Vec<Chosen> {
    let policy = PolicySpec::default();
    let described = PolicySpec::names().iter().find(|(name, _)| *name == policy.name());
    let shortest = duration::format(choice.clock.min_quantum());
    let chosen = |name, value: String, why: String| Chosen { name, value, why };
    vec![
        chosen("clock", choice.clock.to_string(), choice.clock_reason.clone()),
        chosen("notification", choice.notification.to_string(), notification(facts, choice)),
        resume(),
        workers(facts, choice),
        chosen(
            "policy",
            policy.name().to_owned(),
            described.map_or_else(String::new, |(_, what)| (*what).to_owned()),
        ),
        quantum(facts, &format!("{} keeps quanta down to {shortest}", choice.clock)),
        chosen(
            "stack",
            format!("{} KiB", DEFAULT_STACK_SIZE >> 10),
            format!(
                "only touched pages take memory; at least {} KiB are needed for signal frames",
                facts.runtime.min_stack_size.div_ceil(1024)
            ),
        ),
    ]
}

/// Why the quantum `auto` is what it is where an interruption takes so long.
pub fn why_this_quantum(interruption_us: f64) -> String {
    let least = duration::format(DEFAULT_QUANTUM);
    format!(
        "four times what an interruption takes here ({interruption_us:.1} us), at least {least}"
    )
}

/// The same where threads stop at probes.
pub fn why_this_probe_quantum(interruption_us: f64) -> String {
    format!(
        "three times what an interruption takes here ({interruption_us:.1} us), so that a short \
         request that meets one does not look long"
    )
}

fn quantum(facts: &Facts, shortest: &str) -> Chosen {
    let (value, why) = match facts.interruption_us {
        Some(us) => {
            (duration::format(quantum_for(Duration::from_secs_f64(us / 1e6))), why_this_quantum(us))
        }
        None => (
            duration::format(DEFAULT_QUANTUM),
            "what an interruption takes could not be measured".to_owned(),
        ),
    };
    Chosen { name: "quantum", value, why: format!("{why}; {shortest}") }
}

fn notification(facts: &Facts, choice: &Choice) -> String {
    let why = &choice.notification_reason;
    let interrupts = if facts.user_interrupts.usable {
        "notification=user-interrupt works here, and must be asked for"
    } else {
        "user interrupts are not offered here"
    };
    format!("{why}; those built by `quaver cc` or `cargo quaver` stop at probes; {interrupts}")
}

fn resume() -> Chosen {
    let why = "it saves a system call, about half a microsecond for each preemption";
    Chosen { name: "resume", value: "user-mode".to_owned(), why: why.to_owned() }
}

fn workers(facts: &Facts, choice: &Choice) -> Chosen {
    let cpus = facts.cpus.allowed.len();
    let why = match facts.cgroup.cpu_quota {
        Some(quota) if choice.workers < cpus => format!(
            "the control group pays for {quota} CPUs of {cpus}; more workers would be throttled"
        ),
        _ => format!("one for each usable CPU, of which there are {cpus}"),
    };
    Chosen { name: "workers", value: choice.workers.to_string(), why }
}

#[cfg(test)]
mod tests {
    use super::super::findings::tests::perfect;
    use super::*;

    fn why(facts: &Facts, name: &str) -> String {
        let chosen = choose(facts).into_iter().find(|chosen| chosen.name == name);
        chosen.unwrap_or_else(|| panic!("nothing is said of {name}")).why
    }

    #[test]
    fn every_choice_has_a_reason_and_is_the_runtime_s() {
        let mut facts = perfect();
        for parallelism in [1, 2, 64] {
            facts.runtime.parallelism = parallelism;
            let all = choose(&facts);
            assert!(all.iter().all(|c| !c.value.is_empty() && !c.why.is_empty()), "{all:?}");
            let clock = platform::choose(&facts.runtime).clock.to_string();
            assert!(all.iter().any(|c| c.name == "clock" && c.value == clock));
        }
    }

    #[test]
    fn a_quota_is_the_reason_for_fewer_workers() {
        let mut facts = perfect();
        assert!(why(&facts, "workers").contains("usable CPU"));
        facts.cgroup.cpu_quota = Some(1.5);
        facts.runtime.parallelism = 1;
        assert!(why(&facts, "workers").contains("1.5"));
    }

    #[test]
    fn user_interrupts_are_mentioned_where_they_work() {
        let mut facts = perfect();
        assert!(why(&facts, "notification").contains("notification=user-interrupt"));
        facts.user_interrupts.usable = false;
        assert!(why(&facts, "notification").contains("not offered"));
    }
}
