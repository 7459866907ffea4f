//! What holds between values.

use super::{Load, Queues, Scenario, ScenarioError};
use crate::costs::Timer;

impl Scenario {
    /// Check again what holds between values, after some were changed.
    ///
    /// # Errors
    ///
    /// Names the key.
    pub fn validate(&self) -> Result<(), ScenarioError> {
        let error = |(key, what): (&str, String)| {
            ScenarioError(format!("key `{}`: {what}", key.trim_matches(['[', ']'])))
        };
        self.check().map_err(error)
    }

    /// What holds between values; else the key and what is wrong with it.
    pub(super) fn check(&self) -> Result<(), (&'static str, String)> {
        let Load { mix, trace, rate, load, loads, .. } = &self.load;
        let server = &self.server;
        if self.schbench.is_none() {
            match (mix, trace) {
                (None, None) => return Err(("[load]", "`mix` or `trace` is missing".into())),
                (Some(_), Some(_)) => {
                    return Err((
                        "trace",
                        "there is a `mix` already; leave one of them out".into(),
                    ));
                }
                _ => {}
            }
            let given = [rate.is_some(), load.is_some(), loads.is_some()];
            let given = given.iter().filter(|given| **given).count();
            if given == 0 && trace.is_none() {
                return Err(("[load]", "one of `rate`, `load` and `loads` is missing".into()));
            }
            if given > 1 {
                return Err((
                    "[load]",
                    "of `rate`, `load` and `loads` only one can be given".into(),
                ));
            }
            if let Some(mix) = mix
                && mix.mean_service_ns().is_none()
            {
                let text = "every class needs a service time, as in get:95%:fixed=1us";
                return Err(("mix", text.into()));
            }
        }
        let central = server.policy.build(1, 1, |d| d.as_nanos() as u64).central();
        if server.dispatcher && !central {
            let text = format!(
                "a dispatcher needs a policy with one queue for all, which `{}` has not",
                server.policy.name()
            );
            return Err(("dispatcher", text));
        }
        if server.tick.is_some() && server.mechanism.value.timer != Timer::Worker {
            let text = format!("mechanism `{}` has no timer of each worker", server.mechanism.name);
            return Err(("tick", text));
        }
        if server.tick.is_some() && server.tax.is_some() {
            return Err(("tax", "a timer that ticks all the time costs what it costs".into()));
        }
        let lost: f64 = self.noise.iter().map(|n| n.lasts.mean_ns() / n.every as f64).sum();
        if lost >= 1.0 {
            return Err(("every", "this noise takes all time of the workers".into()));
        }
        let mechanism = &server.mechanism;
        let own_way = [
            ("dispatcher", server.dispatcher),
            ("skip-unnecessary", !server.skip_unnecessary),
            ("once-a-quantum", server.once_a_quantum),
        ];
        if matches!(mechanism.value.timer, Timer::Thread | Timer::Alarm)
            && let Some((key, _)) = own_way.into_iter().find(|&(_, given)| given)
        {
            let text = format!("mechanism `{}` keeps time in its own way", mechanism.name);
            return Err((key, text));
        }
        let needs_quantum = [
            ("skip-unnecessary", !server.skip_unnecessary),
            ("once-a-quantum", server.once_a_quantum),
        ];
        for (key, given) in needs_quantum {
            if given && server.policy.quantum().is_none() {
                return Err((key, "the policy has no quantum".into()));
            }
        }
        if server.threads.is_some() && (server.queues != Queues::Rss || server.dispatcher) {
            return Err(("threads", "only with `queues = \"rss\"` and no dispatcher".into()));
        }
        if !server.balance && central {
            let text = format!("`{}` has one queue for all workers", server.policy.name());
            return Err(("balance", text));
        }
        Ok(())
    }
}
