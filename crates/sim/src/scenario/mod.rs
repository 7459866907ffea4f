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

mod check;
mod overrides;
mod read;

use std::path::{Path, PathBuf};
use std::str::FromStr;

use quaver_load::{ArrivalProcess, LoadFractions, Mix, Slo, Trace, TraceRecord};
use quaver_sched::Spec;
use serde::{Deserialize, Serialize};

use crate::costs::{Costs, Mechanism, System};
use crate::delay::Delay;

pub use self::overrides::Overrides;

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
    #[serde(deserialize_with = "read::one_or_several", default)]
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
    #[serde(deserialize_with = "read::objectives")]
    pub slo: Vec<Slo>,
    /// Policies to choose from, without a quantum; none: that of the server.
    #[serde(deserialize_with = "read::texts", default)]
    pub policies: Vec<Spec>,
    /// Quanta to choose from; none: that of each policy.
    #[serde(deserialize_with = "read::durations", default)]
    pub quanta: Vec<u64>,
    /// Mechanisms to choose from; none: that of the server.
    #[serde(deserialize_with = "read::mechanisms", default)]
    pub mechanisms: Vec<Named<Mechanism>>,
    /// The most cores to consider. Default 256.
    #[serde(deserialize_with = "read::workers", default = "most_cores")]
    pub max_cores: usize,
    /// Go on until each mechanism has its smallest server, to compare them.
    #[serde(default)]
    pub each_mechanism: bool,
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
    #[serde(deserialize_with = "read::maybe_text")]
    pub mix: Option<Mix>,
    /// When requests come.
    #[serde(deserialize_with = "read::maybe_text")]
    pub arrivals: Option<ArrivalProcess>,
    /// Recorded requests instead of a mix: lines `time_us,class,service_us`.
    pub trace: Option<PathBuf>,
    /// Requests a second.
    #[serde(deserialize_with = "read::positive")]
    pub rate: Option<f64>,
    /// The rate as a share of what keeps all workers busy, above 0.
    #[serde(deserialize_with = "read::positive")]
    pub load: Option<f64>,
    /// Several such shares, in percent: `10..90:10`.
    #[serde(deserialize_with = "read::maybe_text")]
    pub loads: Option<LoadFractions>,
    /// How many requests are simulated. Default 100000.
    #[serde(deserialize_with = "read::count")]
    pub requests: Option<u64>,
    /// The share of them at the beginning that is not counted, 0 to 0.9. Default 0.1.
    #[serde(deserialize_with = "read::share")]
    pub warm_up: Option<f64>,
    /// Nanoseconds of network and client that are added to every latency.
    #[serde(deserialize_with = "read::maybe_duration")]
    pub network: Option<u64>,
}

/// Who serves.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Server {
    /// How many cores serve.
    #[serde(deserialize_with = "read::workers")]
    pub workers: usize,
    /// The scheduling policy.
    #[serde(deserialize_with = "read::text", default)]
    pub policy: Spec,
    /// An entry of the file of costs.
    #[serde(deserialize_with = "read::mechanism", default = "no_mechanism")]
    pub mechanism: Named<Mechanism>,
    /// An entry of the file of costs.
    #[serde(deserialize_with = "read::system", default = "ideal_system")]
    pub system: Named<System>,
    /// How requests reach the workers.
    #[serde(default)]
    pub queues: Queues,
    /// A dispatcher on a core of its own takes requests in and hands tasks out. The policy must be
    /// a central one.
    #[serde(default)]
    pub dispatcher: bool,
    /// Interrupt only when something waits. Without it every thread is stopped at the end of its
    /// quantum.
    #[serde(default = "yes")]
    pub skip_unnecessary: bool,
    /// Whether a worker must stop is looked at once in a quantum, counted from its dispatch, and
    /// not at once when work comes (Aspen's timer core).
    #[serde(default)]
    pub once_a_quantum: bool,
    /// A thread that has served a request goes on with the next that was taken from the network
    /// with it, and its quantum goes on too: a server whose threads loop over reads.
    #[serde(default)]
    pub run_on: bool,
    /// How many threads of each worker's port wait for requests: more than that are not served at a
    /// time, and wait in the socket. None: a thread for each request.
    #[serde(deserialize_with = "read::count", default)]
    pub threads: Option<u64>,
    /// A worker without work takes that of others. Without it every worker keeps to its own queue.
    #[serde(default = "yes")]
    pub balance: bool,
    /// A worker's own timer that ticks all the time with this period, instead of being armed for
    /// the moment.
    #[serde(deserialize_with = "read::maybe_duration", default)]
    pub tick: Option<u64>,
    /// How much of a worker's time interruptions may take, in percent, as the runtime's
    /// `Builder::tax`; 100: as much as they do.
    #[serde(deserialize_with = "read::percent", default)]
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
    #[serde(deserialize_with = "read::duration")]
    pub every: u64,
    /// How long one lasts.
    pub lasts: Delay,
}

/// What disturbed a machine, to be repeated: each stop comes at its time, to a worker that is
/// drawn. Beside a trace of requests the times of both are of one clock, and what was before the
/// first request is left out.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Stops {
    /// Lines `time_us,cause,lasts_us`, in the form of a trace of requests.
    pub trace: PathBuf,
}

/// Message threads wake worker threads, which work for a while and sleep until the next message
/// (Skyloft section 5.1).
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Schbench {
    /// Message threads.
    #[serde(default = "one_thread")]
    pub messages: u16,
    /// Worker threads of each message thread.
    pub workers: u16,
    /// How long a worker thread works for each message.
    #[serde(deserialize_with = "read::duration")]
    pub request: u64,
    /// How long it sleeps before the work, as for the network.
    #[serde(deserialize_with = "read::duration", default)]
    pub sleep: u64,
    /// How long a message thread runs for each worker thread that it wakes.
    #[serde(deserialize_with = "read::duration", default = "one_microsecond")]
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
        let mut mechanism = self.server.mechanism.value.clone();
        self.server.costs.change_mechanism(&mut mechanism);
        mechanism
    }

    /// The system with the scenario's own costs.
    pub fn system(&self) -> System {
        let mut system = self.server.system.value.clone();
        self.server.costs.change_system(&mut system);
        system
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

    /// The recorded stops, if there are any: when they begin and how long they last, in
    /// nanoseconds.
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
            "{key}: {}: record {} has no {what}; the simulator needs a third column with \
             microseconds",
            path.display(),
            at + 1
        ))),
        None => Ok(trace),
    }
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
