//! The choice of a policy as text: `two-queue`, `ws:quantum=50us`, `two-queue:quantum=20us,long=100us,max-age=1ms`.
//!
//! ```text
//! SPEC  = NAME [ ":" KEY "=" VALUE { "," KEY "=" VALUE } ]
//! VALUE = a duration, or "none"; a quantum of zero means none
//! ```
//!
//! Keys that are left out take defaults that follow the quantum: `long` is five quanta (Aspen section 3.2 uses 100 us),
//! `max-age` fifty. The default quantum is 20 us.

use alloc::{boxed::Box, string::String, vec::Vec};
use core::{error::Error, fmt, str::FromStr, time::Duration};

use crate::{
    DurationError, Policy, Time, format_duration, parse_duration,
    policies::{Fifo, RoundRobin, TwoQueue, TwoQueueTimes, WorkStealing},
};

/// The quantum of a specification that names none.
pub const DEFAULT_QUANTUM: Duration = Duration::from_micros(20);

/// A policy and its parameters. The default is `two-queue`.
///
/// ```
/// use quaver_sched::{Place, Policy, Spec, Task, Why};
///
/// let spec: Spec = "ws:quantum=50us".parse()?;
/// let policy = spec.build(2, 1000, |duration| duration.as_nanos() as u64);
/// policy.task_enqueue(Place::Local(0), Task(7), Why::New, 0);
/// assert_eq!(policy.task_dequeue(0, 0).unwrap().task, Task(7));
/// # Ok::<(), quaver_sched::SpecError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Spec(Kind);

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Kind {
    Fifo,
    RoundRobin { quantum: Option<Duration> },
    WorkStealing { quantum: Option<Duration> },
    TwoQueue(TwoQueueDurations),
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct TwoQueueDurations {
    quantum: Option<Duration>,
    /// At least the quantum.
    long: Duration,
    /// Above zero.
    max_age: Option<Duration>,
}

/// The longest duration that can be written and read back.
const LONGEST: Duration = Duration::from_nanos(u64::MAX);

/// No quantum and a quantum of zero are the same.
fn sound(quantum: Option<Duration>) -> Option<Duration> {
    quantum.filter(|quantum| !quantum.is_zero()).map(|quantum| quantum.min(LONGEST))
}

impl TwoQueueDurations {
    /// With the defaults that follow the quantum.
    fn from_quantum(quantum: Option<Duration>) -> Self {
        let unit = quantum.unwrap_or(DEFAULT_QUANTUM);
        TwoQueueDurations {
            quantum,
            long: unit.saturating_mul(5).min(LONGEST),
            max_age: Some(unit.saturating_mul(50).min(LONGEST)),
        }
    }

    fn set_long(&mut self, long: Duration) {
        let least = self.quantum.unwrap_or(Duration::from_nanos(1));
        self.long = long.clamp(least, LONGEST);
    }
}

const QUANTUM: &str = "quantum";
const LONG: &str = "long";
const MAX_AGE: &str = "max-age";

const NAMES: [(&str, &str); 4] = [
    (
        "two-queue",
        "new threads before preempted ones, a queue of each per worker, stealing; the default (keys: quantum, long, max-age)",
    ),
    ("ws", "a queue per worker, work stealing, preempted threads to the tail (key: quantum)"),
    ("rr", "one queue for all workers, preempted threads to the tail (key: quantum)"),
    ("fifo", "one queue for all workers, run to completion, no preemption (no keys)"),
];

impl Spec {
    /// `two-queue` with its defaults.
    pub fn two_queue() -> Self {
        Spec(Kind::TwoQueue(TwoQueueDurations::from_quantum(Some(DEFAULT_QUANTUM))))
    }

    /// `ws` with its defaults.
    pub fn work_stealing() -> Self {
        Spec(Kind::WorkStealing { quantum: Some(DEFAULT_QUANTUM) })
    }

    /// `rr` with its defaults.
    pub fn round_robin() -> Self {
        Spec(Kind::RoundRobin { quantum: Some(DEFAULT_QUANTUM) })
    }

    /// `fifo`.
    pub fn fifo() -> Self {
        Spec(Kind::Fifo)
    }

    /// The names that can be parsed, the default first, each with a line that describes it.
    pub fn names() -> &'static [(&'static str, &'static str)] {
        &NAMES
    }

    /// The name of the policy.
    pub fn name(&self) -> &'static str {
        match self.0 {
            Kind::Fifo => "fifo",
            Kind::RoundRobin { .. } => "rr",
            Kind::WorkStealing { .. } => "ws",
            Kind::TwoQueue(_) => "two-queue",
        }
    }

    /// How long a thread may run while others wait; `None`: it is never preempted.
    pub fn quantum(&self) -> Option<Duration> {
        match &self.0 {
            Kind::Fifo => None,
            Kind::RoundRobin { quantum } | Kind::WorkStealing { quantum } => *quantum,
            Kind::TwoQueue(two) => two.quantum,
        }
    }

    /// The same with another quantum; `None` or zero: never preempt. Of the other times only a long quantum that would
    /// be shorter than the quantum changes: it becomes equal to it. No effect on `fifo`, which never preempts.
    #[must_use]
    pub fn with_quantum(mut self, new: Option<Duration>) -> Self {
        match &mut self.0 {
            Kind::Fifo => {}
            Kind::RoundRobin { quantum } | Kind::WorkStealing { quantum } => *quantum = sound(new),
            Kind::TwoQueue(two) => {
                two.quantum = sound(new);
                two.set_long(two.long);
            }
        }
        self
    }

    /// How long a preempted thread may run while only preempted ones wait (`two-queue`); `None` for other policies.
    pub fn long_quantum(&self) -> Option<Duration> {
        match &self.0 {
            Kind::TwoQueue(two) => Some(two.long),
            _ => None,
        }
    }

    /// The same with another long quantum, at least the quantum. No effect on other policies than `two-queue`.
    #[must_use]
    pub fn with_long_quantum(mut self, long: Duration) -> Self {
        if let Kind::TwoQueue(two) = &mut self.0 {
            two.set_long(long);
        }
        self
    }

    /// How long a preempted thread may wait before it takes turns with new ones (`two-queue`); `None`: for ever, or
    /// another policy.
    pub fn max_age(&self) -> Option<Duration> {
        match &self.0 {
            Kind::TwoQueue(two) => two.max_age,
            _ => None,
        }
    }

    /// The same with another maximal age, at least 1 ns; `None`: preempted threads wait until there are no new ones. No
    /// effect on other policies than `two-queue`.
    #[must_use]
    pub fn with_max_age(mut self, max_age: Option<Duration>) -> Self {
        if let Kind::TwoQueue(two) = &mut self.0 {
            two.max_age = max_age.map(|age| age.clamp(Duration::from_nanos(1), LONGEST));
        }
        self
    }

    /// Make the policy for `workers` workers and the tasks `0..max_tasks`. `to_time` converts a duration to the host's
    /// unit; a quantum that it makes 0 becomes 1. Tables for tasks are reserved, not touched.
    ///
    /// # Panics
    ///
    /// If `workers` is 0, if `max_tasks` is `u32::MAX`, or if memory cannot be reserved.
    pub fn build(
        &self,
        workers: usize,
        max_tasks: u32,
        to_time: impl Fn(Duration) -> Time,
    ) -> Box<dyn Policy> {
        assert!(workers > 0, "there must be at least one worker");
        let time = |duration| to_time(duration).max(1);
        let quantum = self.quantum().map(time);
        match &self.0 {
            Kind::Fifo => Box::new(Fifo::new(max_tasks)),
            Kind::RoundRobin { .. } => Box::new(RoundRobin::new(max_tasks, quantum)),
            Kind::WorkStealing { .. } => Box::new(WorkStealing::new(workers, max_tasks, quantum)),
            Kind::TwoQueue(two) => {
                let times = TwoQueueTimes {
                    quantum,
                    long_quantum: time(two.long),
                    max_age: two.max_age.map(time),
                };
                Box::new(TwoQueue::new(workers, max_tasks, times))
            }
        }
    }

    /// The keys that this policy has, in the order of display.
    fn keys(&self) -> &'static [&'static str] {
        match self.0 {
            Kind::Fifo => &[],
            Kind::RoundRobin { .. } | Kind::WorkStealing { .. } => &[QUANTUM],
            Kind::TwoQueue(_) => &[QUANTUM, LONG, MAX_AGE],
        }
    }
}

impl Default for Spec {
    fn default() -> Self {
        Self::two_queue()
    }
}

/// In full, as [`FromStr`] reads it back: `two-queue:quantum=20us,long=100us,max-age=1ms`.
impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        for (i, &key) in self.keys().iter().enumerate() {
            let value = match key {
                QUANTUM => self.quantum(),
                LONG => self.long_quantum(),
                _ => self.max_age(),
            };
            let value = value.map_or("none".into(), format_duration);
            write!(f, "{}{key}={value}", if i == 0 { ':' } else { ',' })?;
        }
        Ok(())
    }
}

impl FromStr for Spec {
    type Err = SpecError;

    /// # Errors
    ///
    /// [`SpecError`], which names what is wrong and what is allowed.
    fn from_str(text: &str) -> Result<Self, SpecError> {
        let (name, settings) = match text.split_once(':') {
            Some((name, settings)) => (name.trim(), Some(settings)),
            None => (text.trim(), None),
        };
        let mut spec = match name {
            "two-queue" => Spec::two_queue(),
            "ws" => Spec::work_stealing(),
            "rr" => Spec::round_robin(),
            "fifo" => Spec::fifo(),
            _ => return Err(SpecError::UnknownPolicy(name.into())),
        };
        let settings = Settings::parse(&spec, settings)?;
        match &mut spec.0 {
            Kind::Fifo => {}
            Kind::RoundRobin { quantum } | Kind::WorkStealing { quantum } => {
                *quantum = settings.quantum.unwrap_or(*quantum);
            }
            Kind::TwoQueue(two) => *two = settings.two_queue()?,
        }
        Ok(spec)
    }
}

/// What a text sets; the inner `None` is the word "none".
#[derive(Default)]
struct Settings {
    quantum: Option<Option<Duration>>,
    long: Option<Duration>,
    max_age: Option<Option<Duration>>,
}

impl Settings {
    fn parse(spec: &Spec, text: Option<&str>) -> Result<Self, SpecError> {
        let mut settings = Settings::default();
        let mut seen = Vec::new();
        let keys = spec.keys();
        for setting in text.into_iter().flat_map(|text| text.split(',')) {
            let Some((key, value)) = setting.split_once('=') else {
                let setting = setting.trim().into();
                return Err(SpecError::NotASetting { setting, keys });
            };
            let (key, value) = (key.trim(), value.trim());
            let Some(&key) = keys.iter().find(|&&known| known == key) else {
                let (policy, key) = (spec.name(), key.into());
                return Err(SpecError::UnknownKey { policy, key, keys });
            };
            if seen.contains(&key) {
                return Err(SpecError::RepeatedKey(key));
            }
            seen.push(key);
            match key {
                QUANTUM => settings.quantum = Some(sound(or_none(key, value)?)),
                LONG => settings.long = Some(positive(key, duration(key, value)?)?),
                _ => {
                    let age = or_none(key, value)?;
                    settings.max_age = Some(age.map(|age| positive(key, age)).transpose()?);
                }
            }
        }
        Ok(settings)
    }

    fn two_queue(self) -> Result<TwoQueueDurations, SpecError> {
        let quantum = self.quantum.unwrap_or(Some(DEFAULT_QUANTUM));
        let mut two = TwoQueueDurations::from_quantum(quantum);
        if let Some(long) = self.long {
            if let Some(quantum) = quantum.filter(|&quantum| long < quantum) {
                return Err(SpecError::LongBelowQuantum { long, quantum });
            }
            two.long = long;
        }
        two.max_age = self.max_age.unwrap_or(two.max_age);
        Ok(two)
    }
}

fn duration(key: &'static str, value: &str) -> Result<Duration, SpecError> {
    parse_duration(value).map_err(|error| SpecError::BadValue { key, error })
}

/// A duration or "none". For a maximal age a bare 0 is a duration without a unit, for a quantum it means none.
fn or_none(key: &'static str, value: &str) -> Result<Option<Duration>, SpecError> {
    if value == "none" || (key == QUANTUM && value == "0") {
        return Ok(None);
    }
    duration(key, value).map(Some)
}

fn positive(key: &'static str, value: Duration) -> Result<Duration, SpecError> {
    if value.is_zero() {
        return Err(SpecError::Zero { key });
    }
    Ok(value)
}

/// Why a text specifies no policy. Its display names the wrong part and what is allowed.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum SpecError {
    /// No policy has this name.
    UnknownPolicy(String),
    /// The policy has no such parameter.
    UnknownKey {
        /// The policy.
        policy: &'static str,
        /// The key that it does not have.
        key: String,
        /// The keys that it has.
        keys: &'static [&'static str],
    },
    /// A part after the colon is not of the form `key=value`.
    NotASetting {
        /// That part.
        setting: String,
        /// The keys that the policy has.
        keys: &'static [&'static str],
    },
    /// A key occurs twice.
    RepeatedKey(&'static str),
    /// A value is no duration.
    BadValue {
        /// The key.
        key: &'static str,
        /// What is wrong with its value.
        error: DurationError,
    },
    /// A value that must be above zero is zero.
    Zero {
        /// The key.
        key: &'static str,
    },
    /// The long quantum is shorter than the quantum.
    LongBelowQuantum {
        /// The long quantum.
        long: Duration,
        /// The quantum.
        quantum: Duration,
    },
}

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SpecError::UnknownPolicy(name) => {
                let names: Vec<_> = NAMES.iter().map(|&(name, _)| name).collect();
                write!(f, "unknown policy `{name}`; known are {}", names.join(", "))
            }
            SpecError::UnknownKey { policy, key, keys } => {
                write!(f, "policy `{policy}` has no key `{key}`; ")?;
                allowed(f, keys)
            }
            SpecError::NotASetting { setting, keys } => {
                write!(f, "`{setting}` is not of the form key=value; ")?;
                allowed(f, keys)
            }
            SpecError::RepeatedKey(key) => write!(f, "key `{key}` is given twice"),
            SpecError::BadValue { key, error } => write!(f, "key `{key}`: {error}"),
            SpecError::Zero { key } => write!(f, "key `{key}` must be above zero"),
            SpecError::LongBelowQuantum { long, quantum } => write!(
                f,
                "key `{LONG}`: {} is shorter than the quantum, {}",
                format_duration(*long),
                format_duration(*quantum),
            ),
        }
    }
}

fn allowed(f: &mut fmt::Formatter<'_>, keys: &[&str]) -> fmt::Result {
    match keys {
        [] => f.write_str("this policy has no keys"),
        keys => write!(f, "allowed keys are {}", keys.join(", ")),
    }
}

impl Error for SpecError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            SpecError::BadValue { error, .. } => Some(error),
            _ => None,
        }
    }
}
