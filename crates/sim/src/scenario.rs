//! What is simulated: a TOML file, checked value by value.
//!
//! ```toml
//! [load]
//! mix = "get:95%:fixed=1us,scan:5%:fixed=260us"    # or: trace = "requests.csv"
//! arrivals = "poisson"
//! load = 0.7                                       # or: rate = 500000.0, or: loads = "10..90:10"
//! requests = 200000
//!
//! [server]
//! workers = 24
//! policy = "two-queue:quantum=5us"
//! mechanism = "uintr"
//! system = "aspen-kb"
//! ```
//!
//! Every value is parsed while the file is read, so that an error names its line and key.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use quaver_load::{ArrivalProcess, LoadFractions, Mix, Slo, Trace, TraceRecord};
use quaver_sched::Spec;
use serde::de::{self, Deserializer};
use serde::{Deserialize, Serialize};

use crate::costs::{Costs, Mechanism, System, Timer};
use crate::delay::Delay;

/// Why there is no scenario. The display names file, line and key where there is one.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct ScenarioError(String);

impl ScenarioError {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        ScenarioError(text.into())
    }
}

/// A scenario. See the module documentation for the form; `docs/simulator.md` explains every key.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Scenario {
    /// What is offered.
    pub load: Load,
    /// Who serves.
    pub server: Server,
    /// Best-effort threads that would run for ever.
    #[serde(default)]
    pub best_effort: BestEffort,
    /// What disturbs the workers: one table `[noise]`, or several `[[noise]]`.
    #[serde(deserialize_with = "one_or_several", default)]
    pub noise: Vec<Noise>,
    /// Stops of workers that were recorded, beside the noise.
    pub stops: Option<Stops>,
    /// Message and worker threads instead of requests.
    pub schbench: Option<Schbench>,
    /// What `quaver plan` looks for.
    pub plan: Option<Plan>,
    /// Decides all random numbers.
    #[serde(default = "one")]
    pub seed: u64,
}

/// What a plan must meet and may choose from.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Plan {
    /// The objective, such as `get:p99.9<=50us`. Several must all be met.
    #[serde(deserialize_with = "objectives")]
    pub slo: Vec<Slo>,
    /// Policies to choose from, without a quantum; none: that of the server.
    #[serde(deserialize_with = "texts", default)]
    pub policies: Vec<Spec>,
    /// Quanta to choose from; none: that of each policy.
    #[serde(deserialize_with = "durations", default)]
    pub quanta: Vec<u64>,
    /// Mechanisms to choose from; none: that of the server.
    #[serde(deserialize_with = "mechanisms", default)]
    pub mechanisms: Vec<Named<Mechanism>>,
    /// The most cores to consider. Default 256.
    #[serde(deserialize_with = "workers", default = "most_cores")]
    pub max_cores: usize,
}

fn most_cores() -> usize {
    256
}

fn one() -> u64 {
    1
}

/// What is offered.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Load {
    /// Classes with their service times.
    #[serde(deserialize_with = "maybe_text")]
    pub mix: Option<Mix>,
    /// When requests come.
    #[serde(deserialize_with = "maybe_text")]
    pub arrivals: Option<ArrivalProcess>,
    /// Recorded requests instead of a mix: lines `time_us,class,service_us`.
    pub trace: Option<PathBuf>,
    /// Requests a second.
    #[serde(deserialize_with = "positive")]
    pub rate: Option<f64>,
    /// The rate as a share of what keeps all workers busy, above 0.
    #[serde(deserialize_with = "positive")]
    pub load: Option<f64>,
    /// Several such shares, in percent: `10..90:10`.
    #[serde(deserialize_with = "maybe_text")]
    pub loads: Option<LoadFractions>,
    /// How many requests are simulated. Default 100000.
    #[serde(deserialize_with = "count")]
    pub requests: Option<u64>,
    /// The share of them at the beginning that is not counted, 0 to 0.9. Default 0.1.
    #[serde(deserialize_with = "share")]
    pub warm_up: Option<f64>,
    /// Nanoseconds of network and client that are added to every latency.
    #[serde(deserialize_with = "maybe_duration")]
    pub network: Option<u64>,
}

/// Who serves.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Server {
    /// How many cores serve.
    #[serde(deserialize_with = "workers")]
    pub workers: usize,
    /// The scheduling policy.
    #[serde(deserialize_with = "text", default)]
    pub policy: Spec,
    /// An entry of the file of costs.
    #[serde(deserialize_with = "mechanism", default = "no_mechanism")]
    pub mechanism: Named<Mechanism>,
    /// An entry of the file of costs.
    #[serde(deserialize_with = "system", default = "ideal_system")]
    pub system: Named<System>,
    /// How requests reach the workers.
    #[serde(default)]
    pub queues: Queues,
    /// A dispatcher on a core of its own takes requests in and hands tasks out. The policy must be a central one.
    #[serde(default)]
    pub dispatcher: bool,
    /// Interrupt only when something waits. Without it every thread is stopped at the end of its quantum.
    #[serde(default = "yes")]
    pub skip_unnecessary: bool,
    /// Whether a worker must stop is looked at once in a quantum, counted from its dispatch, and not at once when work comes
    /// (Aspen's timer core).
    #[serde(default)]
    pub once_a_quantum: bool,
    /// A thread that has served a request goes on with the next that was taken from the network with it, and its quantum
    /// goes on too: a server whose threads loop over reads.
    #[serde(default)]
    pub run_on: bool,
    /// How many threads of each worker's port wait for requests: more than that are not served at a time, and wait in the
    /// socket. None: a thread for each request.
    #[serde(deserialize_with = "count", default)]
    pub threads: Option<u64>,
    /// A worker without work takes that of others. Without it every worker keeps to its own queue.
    #[serde(default = "yes")]
    pub balance: bool,
    /// A worker's own timer that ticks all the time with this period, instead of being armed for the moment.
    #[serde(deserialize_with = "maybe_duration", default)]
    pub tick: Option<u64>,
    /// How much of a worker's time interruptions may take, in percent, as the runtime's `Builder::tax`; 100: as much as they do.
    #[serde(deserialize_with = "percent", default)]
    pub tax: Option<u64>,
    /// Other costs than those of the entries.
    #[serde(default)]
    pub costs: Overrides,
}

fn yes() -> bool {
    true
}

fn no_mechanism() -> Named<Mechanism> {
    entry(&Costs::built_in().mechanism, "none").expect("there is such an entry")
}

fn ideal_system() -> Named<System> {
    entry(&Costs::built_in().system, "ideal").expect("there is such an entry")
}

/// An entry of the file of costs with its name.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Named<T> {
    /// The name.
    pub name: String,
    /// The entry.
    #[serde(flatten)]
    pub value: T,
}

/// How requests reach the workers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Queues {
    /// Each request goes to the queue of a random worker, as by receive-side scaling.
    Rss,
    /// One queue for all.
    #[default]
    Single,
}

/// Costs that differ from the entries.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
#[allow(missing_docs, reason = "as in Mechanism and System")]
pub struct Overrides {
    #[serde(deserialize_with = "maybe_duration")]
    pub send: Option<u64>,
    #[serde(deserialize_with = "maybe_duration")]
    pub scan: Option<u64>,
    pub deliver: Option<Delay>,
    pub late: Option<Delay>,
    #[serde(deserialize_with = "maybe_duration")]
    pub receive: Option<u64>,
    #[serde(deserialize_with = "maybe_duration")]
    pub switch: Option<u64>,
    #[serde(deserialize_with = "maybe_duration")]
    pub lock: Option<u64>,
    #[serde(deserialize_with = "maybe_duration")]
    pub dispatch: Option<u64>,
    #[serde(deserialize_with = "maybe_duration")]
    pub preempt_switch: Option<u64>,
    #[serde(deserialize_with = "maybe_duration")]
    pub steal: Option<u64>,
    #[serde(deserialize_with = "maybe_duration")]
    pub poll: Option<u64>,
    #[serde(deserialize_with = "maybe_duration")]
    pub request: Option<u64>,
    pub wake: Option<Delay>,
    #[serde(deserialize_with = "maybe_duration")]
    pub spin: Option<u64>,
    #[serde(deserialize_with = "maybe_duration")]
    pub app_switch: Option<u64>,
    #[serde(deserialize_with = "maybe_duration")]
    pub ingest: Option<u64>,
    #[serde(deserialize_with = "maybe_duration")]
    pub assign: Option<u64>,
    #[serde(deserialize_with = "maybe_duration")]
    pub handoff: Option<u64>,
}

/// Best-effort threads.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct BestEffort {
    /// How many.
    pub threads: u16,
}

/// What disturbs the workers: the kernel, other programs, a machine below.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Noise {
    /// The mean time between two disturbances of one worker.
    #[serde(deserialize_with = "duration")]
    pub every: u64,
    /// How long one lasts.
    pub lasts: Delay,
}

/// What disturbed a machine, to be repeated: each stop comes at its time, to a worker that is drawn. Beside a trace of requests the
/// times of both are of one clock, and what was before the first request is left out.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Stops {
    /// Lines `time_us,cause,lasts_us`, in the form of a trace of requests.
    pub trace: PathBuf,
}

/// Message threads wake worker threads, which work for a while and sleep until the next message (Skyloft section 5.1).
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Schbench {
    /// Message threads.
    #[serde(default = "one_thread")]
    pub messages: u16,
    /// Worker threads of each message thread.
    pub workers: u16,
    /// How long a worker thread works for each message.
    #[serde(deserialize_with = "duration")]
    pub request: u64,
    /// How long it sleeps before the work, as for the network.
    #[serde(deserialize_with = "duration", default)]
    pub sleep: u64,
    /// How long a message thread runs for each worker thread that it wakes.
    #[serde(deserialize_with = "duration", default = "one_microsecond")]
    pub wake: u64,
}

fn one_thread() -> u16 {
    1
}

fn one_microsecond() -> u64 {
    1_000
}

impl Scenario {
    /// Read a file. A relative path of a trace in it is taken from the file's folder.
    ///
    /// # Errors
    ///
    /// Names the file, and line and key where there is one.
    pub fn open(path: &Path) -> Result<Self, ScenarioError> {
        let text = std::fs::read_to_string(path)
            .map_err(|e| ScenarioError::new(format!("cannot read {}: {e}", path.display())))?;
        let mut scenario = text
            .parse::<Scenario>()
            .map_err(|e| ScenarioError(format!("{}: {e}", path.display())))?;
        if let Some(folder) = path.parent() {
            let stops = scenario.stops.as_mut().map(|stops| &mut stops.trace);
            for trace in [scenario.load.trace.as_mut(), stops].into_iter().flatten() {
                *trace = folder.join(&trace);
            }
        }
        Ok(scenario)
    }

    /// The mechanism with the scenario's own costs.
    pub fn mechanism(&self) -> Mechanism {
        let (given, costs) = (&self.server.mechanism.value, &self.server.costs);
        Mechanism {
            send: costs.send.unwrap_or(given.send),
            scan: costs.scan.unwrap_or(given.scan),
            deliver: costs.deliver.as_ref().unwrap_or(&given.deliver).clone(),
            late: costs.late.as_ref().unwrap_or(&given.late).clone(),
            receive: costs.receive.unwrap_or(given.receive),
            switch: costs.switch.unwrap_or(given.switch),
            lock: costs.lock.unwrap_or(given.lock),
            ..given.clone()
        }
    }

    /// The system with the scenario's own costs.
    pub fn system(&self) -> System {
        let (given, costs) = (&self.server.system.value, &self.server.costs);
        System {
            dispatch: costs.dispatch.unwrap_or(given.dispatch),
            preempt_switch: costs.preempt_switch.unwrap_or(given.preempt_switch),
            steal: costs.steal.unwrap_or(given.steal),
            poll: costs.poll.unwrap_or(given.poll),
            request: costs.request.unwrap_or(given.request),
            wake: costs.wake.as_ref().unwrap_or(&given.wake).clone(),
            spin: costs.spin.unwrap_or(given.spin),
            app_switch: costs.app_switch.unwrap_or(given.app_switch),
            ingest: costs.ingest.unwrap_or(given.ingest),
            assign: costs.assign.unwrap_or(given.assign),
            handoff: costs.handoff.unwrap_or(given.handoff),
            provenance: given.provenance.clone(),
        }
    }

    /// The mean service time of a request in nanoseconds, of the mix or the trace.
    ///
    /// # Errors
    ///
    /// The trace cannot be read, is empty or truncated, or says nothing of service times.
    pub fn mean_service_ns(&self) -> Result<f64, ScenarioError> {
        if let Some(mix) = &self.load.mix {
            return mix.mean_service_ns().ok_or_else(|| {
                ScenarioError::new(
                    "load.mix: every class needs a service time, as get:95:fixed=1us",
                )
            });
        }
        let trace = self.trace()?.expect("a scenario has a mix or a trace");
        let total: f64 =
            trace.records().iter().map(|record| record.service_ns.unwrap_or(0) as f64).sum();
        Ok(total / trace.records().len() as f64)
    }

    /// The trace, if there is one.
    ///
    /// # Errors
    ///
    /// It cannot be read, is empty or truncated, or says nothing of service times.
    pub fn trace(&self) -> Result<Option<Trace>, ScenarioError> {
        let Some(path) = &self.load.trace else { return Ok(None) };
        read_trace("load.trace", path, "service time").map(Some)
    }

    /// The recorded stops, if there are any: when they begin and how long they last, in nanoseconds.
    ///
    /// # Errors
    ///
    /// The trace cannot be read, is empty or truncated, or does not say how long they last.
    pub fn recorded_stops(&self) -> Result<Vec<(u64, u64)>, ScenarioError> {
        let Some(stops) = &self.stops else { return Ok(Vec::new()) };
        let trace = read_trace("stops.trace", &stops.trace, "length")?;
        let stop = |record: &TraceRecord| (record.time_ns, record.service_ns.unwrap_or(0));
        Ok(trace.records().iter().map(stop).collect())
    }

    /// The requests a second at load 1: what keeps all workers busy.
    ///
    /// # Errors
    ///
    /// As [`mean_service_ns`](Self::mean_service_ns).
    pub fn capacity(&self) -> Result<f64, ScenarioError> {
        Ok(self.server.workers as f64 * 1e9 / self.mean_service_ns()?)
    }

    /// The rates to simulate, in requests a second: one, or several of a sweep.
    ///
    /// # Errors
    ///
    /// As [`mean_service_ns`](Self::mean_service_ns).
    pub fn rates(&self) -> Result<Vec<f64>, ScenarioError> {
        if self.schbench.is_some() {
            return Ok(vec![0.0]);
        }
        let load = &self.load;
        if let Some(rate) = load.rate {
            return Ok(vec![rate]);
        }
        let capacity = self.capacity()?;
        if let Some(load) = load.load {
            return Ok(vec![load * capacity]);
        }
        if let Some(LoadFractions(loads)) = &load.loads {
            return Ok(loads.iter().map(|load| load * capacity).collect());
        }
        let trace = self.trace()?;
        let rate = trace.and_then(|trace| trace.rate()).ok_or_else(|| {
            ScenarioError::new("load.trace: it has no rate: its records are all at one time")
        })?;
        Ok(vec![rate])
    }

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

    /// What holds between values.
    fn check(&self) -> Result<(), (&'static str, String)> {
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
        if mechanism.value.timer == Timer::Thread
            && let Some((key, _)) = own_way.into_iter().find(|&(_, given)| given)
        {
            let text = format!(
                "mechanism `{}` has a thread that keeps time in its own way",
                mechanism.name
            );
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

impl FromStr for Scenario {
    type Err = ScenarioError;

    /// # Errors
    ///
    /// Names line and key.
    fn from_str(text: &str) -> Result<Self, ScenarioError> {
        let scenario: Scenario =
            toml::from_str(text).map_err(|error| ScenarioError(error.to_string().trim().into()))?;
        scenario.check().map_err(|(key, what)| {
            let line = text.lines().position(|line| line.trim_start().starts_with(key));
            let line = line.map_or(String::new(), |line| format!("line {}, ", line + 1));
            ScenarioError(format!("{line}key `{}`: {what}", key.trim_matches(['[', ']'])))
        })?;
        Ok(scenario)
    }
}

/// A trace whose third column says something of each record: its `what`.
fn read_trace(key: &str, path: &Path, what: &str) -> Result<Trace, ScenarioError> {
    let trace = Trace::open(path).map_err(|e| ScenarioError::new(format!("{key}: {e}")))?;
    let without = |record: &TraceRecord| record.service_ns.is_none_or(|ns| ns == 0);
    match trace.records().iter().position(without) {
        Some(at) => Err(ScenarioError(format!(
            "{key}: {}: record {} has no {what}; the simulator needs a third column with microseconds",
            path.display(),
            at + 1
        ))),
        None => Ok(trace),
    }
}

fn text<'de, D: Deserializer<'de>, T: FromStr<Err: std::fmt::Display>>(
    deserializer: D,
) -> Result<T, D::Error> {
    String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
}

fn maybe_text<'de, D: Deserializer<'de>, T: FromStr<Err: std::fmt::Display>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    text(deserializer).map(Some)
}

fn duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    let text = String::deserialize(deserializer)?;
    let duration = quaver_sched::parse_duration(&text).map_err(de::Error::custom)?;
    u64::try_from(duration.as_nanos()).map_err(de::Error::custom)
}

fn maybe_duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    duration(deserializer).map(Some)
}

/// One table, or an array of them.
fn one_or_several<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Noise>, D::Error> {
    struct Tables;
    impl<'de> de::Visitor<'de> for Tables {
        type Value = Vec<Noise>;

        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("a table with `every` and `lasts`, or several")
        }

        fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<Vec<Noise>, A::Error> {
            Noise::deserialize(de::value::MapAccessDeserializer::new(map)).map(|noise| vec![noise])
        }

        fn visit_seq<A: de::SeqAccess<'de>>(self, seq: A) -> Result<Vec<Noise>, A::Error> {
            Vec::deserialize(de::value::SeqAccessDeserializer::new(seq))
        }
    }
    deserializer.deserialize_any(Tables)
}

fn number<'de, D: Deserializer<'de>>(
    deserializer: D,
    allowed: impl Fn(f64) -> bool,
    what: &str,
) -> Result<f64, D::Error> {
    let value = f64::deserialize(deserializer)?;
    if !value.is_finite() || !allowed(value) {
        return Err(de::Error::custom(format!("{value} is not {what}")));
    }
    Ok(value)
}

fn positive<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
    number(deserializer, |value| value > 0.0, "a number above 0").map(Some)
}

fn share<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
    number(deserializer, |value| (0.0..=0.9).contains(&value), "a share from 0 to 0.9").map(Some)
}

fn whole<'de, D: Deserializer<'de>>(deserializer: D, most: i64) -> Result<u64, D::Error> {
    let value = i64::deserialize(deserializer)?;
    if !(1..=most).contains(&value) {
        return Err(de::Error::custom(format!("{value} is not a whole number from 1 to {most}")));
    }
    Ok(value as u64)
}

fn count<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    whole(deserializer, 10_000_000_000).map(Some)
}

fn percent<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    whole(deserializer, 100).map(Some)
}

fn workers<'de, D: Deserializer<'de>>(deserializer: D) -> Result<usize, D::Error> {
    whole(deserializer, 100_000).map(|workers| workers as usize)
}

fn objectives<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Slo>, D::Error> {
    let slo: Vec<Slo> = texts(deserializer)?;
    if slo.is_empty() {
        return Err(de::Error::custom("at least one objective is needed, such as p99<=200us"));
    }
    Ok(slo)
}

/// One text, or a list of them.
fn texts<'de, D: Deserializer<'de>, T: FromStr<Err: std::fmt::Display>>(
    deserializer: D,
) -> Result<Vec<T>, D::Error> {
    let texts = match OneOrMany::deserialize(deserializer)? {
        OneOrMany::One(text) => vec![text],
        OneOrMany::Many(texts) => texts,
    };
    texts.iter().map(|text| text.parse().map_err(de::Error::custom)).collect()
}

#[derive(Deserialize)]
#[serde(untagged)]
enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

fn durations<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u64>, D::Error> {
    let texts = Vec::<String>::deserialize(deserializer)?;
    let parse = |text: &String| match quaver_sched::parse_duration(text) {
        Ok(duration) if duration.is_zero() => Err(de::Error::custom("a quantum of 0")),
        Ok(duration) => u64::try_from(duration.as_nanos()).map_err(de::Error::custom),
        Err(error) => Err(de::Error::custom(error)),
    };
    texts.iter().map(parse).collect()
}

fn mechanisms<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<Named<Mechanism>>, D::Error> {
    let names = Vec::<String>::deserialize(deserializer)?;
    names
        .iter()
        .map(|name| entry(&Costs::built_in().mechanism, name).map_err(de::Error::custom))
        .collect()
}

fn entry<T: Clone>(
    entries: &std::collections::BTreeMap<String, T>,
    name: &str,
) -> Result<Named<T>, String> {
    match entries.get(name) {
        Some(value) => Ok(Named { name: name.into(), value: value.clone() }),
        None => {
            let known: Vec<_> = entries.keys().map(String::as_str).collect();
            Err(format!("unknown name `{name}`; known are {}", known.join(", ")))
        }
    }
}

fn mechanism<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Named<Mechanism>, D::Error> {
    let name = String::deserialize(deserializer)?;
    entry(&Costs::built_in().mechanism, &name).map_err(de::Error::custom)
}

fn system<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Named<System>, D::Error> {
    let name = String::deserialize(deserializer)?;
    entry(&Costs::built_in().system, &name).map_err(de::Error::custom)
}

/// The system of this name, of those that come with the simulator.
///
/// # Errors
///
/// There is none; the error lists those that there are.
pub fn system_named(name: &str) -> Result<Named<System>, ScenarioError> {
    entry(&Costs::built_in().system, name).map_err(ScenarioError)
}

/// The mechanism of this name, of those that come with the simulator.
///
/// # Errors
///
/// There is none; the error lists those that there are.
pub fn mechanism_named(name: &str) -> Result<Named<Mechanism>, ScenarioError> {
    entry(&Costs::built_in().mechanism, name).map_err(ScenarioError)
}
