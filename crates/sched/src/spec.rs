//! The choice of a policy as text: `two-queue`, `ws:quantum=50us`,
//! `two-queue:quantum=20us,long=400us,max-age=10ms`.
//!
//! ```text
//! SPEC  = NAME [ ":" KEY "=" VALUE { "," KEY "=" VALUE } ]
//! VALUE = a duration, or "none"; a quantum of zero means none
//! ```
//!
//! Keys that are left out take defaults that follow the quantum: for `two-queue` `long` is twenty
//! quanta, `max-age` five hundred, and there is no `history`; for `aspen` five (section 3.2 uses
//! 100 us) and fifty. The default quantum is 20 us. What each policy has is in one table (`table`).

mod error;
#[cfg(any(test, feature = "std"))]
mod seat;
#[cfg(not(any(test, feature = "std")))]
#[path = "spec/heap.rs"]
mod seat;
mod table;

use alloc::{boxed::Box, vec::Vec};
use core::{fmt, hash, str::FromStr, time::Duration};

use crate::{Policy, Time, format_duration, parse_duration};
pub use error::SpecError;
#[cfg(any(test, feature = "std"))]
pub use seat::Footprint;
use seat::{Seat, Site};
use table::{Form, Key, Known, LONG, MAX_AGE, MOST_KEYS, NAMES, POLICIES, QUANTUM, Room};

/// The quantum of a specification that names none.
pub const DEFAULT_QUANTUM: Duration = Duration::from_micros(20);

/// The longest duration that can be written and read back.
const LONGEST: Duration = Duration::from_nanos(u64::MAX);

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
#[derive(Clone)]
pub struct Spec {
    known: &'static Known,
    /// The values of its keys, in their order; the rest is `None`.
    values: [Option<Duration>; MOST_KEYS],
    /// Which of them were given; the others are defaults.
    given: [bool; MOST_KEYS],
}

impl PartialEq for Spec {
    fn eq(&self, other: &Self) -> bool {
        (self.known.name, self.values) == (other.known.name, other.values)
    }
}

impl Eq for Spec {}

impl hash::Hash for Spec {
    fn hash<H: hash::Hasher>(&self, state: &mut H) {
        (self.known.name, self.values).hash(state);
    }
}

impl fmt::Debug for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Spec({self})")
    }
}

/// No quantum and a quantum of zero are the same.
fn sound(quantum: Option<Duration>) -> Option<Duration> {
    quantum.filter(|quantum| !quantum.is_zero()).map(|quantum| quantum.min(LONGEST))
}

impl Spec {
    /// A policy with its defaults for this quantum.
    fn with_defaults(known: &'static Known, quantum: Option<Duration>) -> Self {
        let unit = quantum.unwrap_or(DEFAULT_QUANTUM);
        let mut values = [None; MOST_KEYS];
        for (value, key) in values.iter_mut().zip(known.keys) {
            *value = match key.form {
                Form::Quantum => quantum,
                Form::Option => None,
                _ => {
                    let hundredth = |d: Duration| (d / 100).max(Duration::from_nanos(1));
                    let default = match key.default {
                        whole if whole % 100 == 0 => unit.saturating_mul(whole / 100),
                        part => hundredth(unit.saturating_mul(part)),
                    };
                    Some(default.min(LONGEST))
                }
            };
        }
        Spec { known, values, given: [false; MOST_KEYS] }
    }

    fn named(name: &str) -> Option<Self> {
        let known = POLICIES.iter().find(|known| known.name == name)?;
        let quantum = known.keys.first().map(|_| DEFAULT_QUANTUM);
        Some(Self::with_defaults(known, quantum))
    }

    /// `two-queue` with its defaults.
    pub fn two_queue() -> Self {
        Self::with_defaults(&POLICIES[0], Some(DEFAULT_QUANTUM))
    }

    /// `ws` with its defaults.
    pub fn work_stealing() -> Self {
        Self::with_defaults(&POLICIES[1], Some(DEFAULT_QUANTUM))
    }

    /// `rr` with its defaults.
    pub fn round_robin() -> Self {
        Self::with_defaults(&POLICIES[2], Some(DEFAULT_QUANTUM))
    }

    /// `fifo`.
    pub fn fifo() -> Self {
        Self::with_defaults(&POLICIES[3], None)
    }

    /// The names that can be parsed, the default first, each with a line that describes it.
    pub fn names() -> &'static [(&'static str, &'static str)] {
        &NAMES
    }

    /// The name of the policy.
    pub fn name(&self) -> &'static str {
        self.known.name
    }

    /// The keys that the policy has, in the order of display.
    pub fn keys(&self) -> impl Iterator<Item = &'static str> + use<> {
        self.known.keys.iter().map(|key| key.name)
    }

    /// The value of a key: `None`: the policy has no such key; `Some(None)`: the word "none".
    ///
    /// ```
    /// # use std::time::Duration;
    /// let spec: quaver_sched::Spec = "cfs:quantum=10us".parse()?;
    /// assert_eq!(spec.get("latency"), Some(Some(Duration::from_micros(40))));
    /// assert_eq!(spec.get("long"), None);
    /// # Ok::<(), quaver_sched::SpecError>(())
    /// ```
    pub fn get(&self, key: &str) -> Option<Option<Duration>> {
        let at = self.known.keys.iter().position(|known| known.name == key)?;
        Some(self.values[at])
    }

    /// Set a key, if the policy has it, to the nearest value that it can have.
    fn set(&mut self, key: &str, value: Option<Duration>) {
        let least = self.quantum().unwrap_or(Duration::from_nanos(1));
        let Some(at) = self.known.keys.iter().position(|known| known.name == key) else { return };
        let above = |least| value.map(|value: Duration| value.clamp(least, LONGEST));
        self.values[at] = match self.known.keys[at].form {
            Form::Quantum => sound(value),
            Form::OrNone | Form::Option | Form::Positive => above(Duration::from_nanos(1)),
            Form::AtLeastQuantum => above(least),
        };
        self.given[at] = true;
    }

    /// How long a thread may run while others wait; `None`: it is never preempted. For `cfs` it is
    /// the shortest slice, for `eevdf` the slice, for `adaptive` the shortest quantum.
    pub fn quantum(&self) -> Option<Duration> {
        self.get(QUANTUM).flatten()
    }

    /// The same with another quantum; `None` or zero: never preempt. Of the other times only those
    /// change that must not be below the quantum, such as a long quantum: they become equal to it.
    /// No effect on `fifo`, which never preempts.
    #[must_use]
    pub fn with_quantum(mut self, new: Option<Duration>) -> Self {
        self.set(QUANTUM, new);
        for key in self.known.keys.iter().filter(|key| key.form == Form::AtLeastQuantum) {
            self.set(key.name, self.get(key.name).flatten());
        }
        self
    }

    /// The same policy for another quantum: times that were given stay, but for those that must not
    /// be below the quantum, and times that were not given follow the quantum.
    /// [`with_quantum`](Self::with_quantum) leaves both alone.
    ///
    /// ```
    /// # use std::time::Duration;
    /// let spec: quaver_sched::Spec = "two-queue:max-age=3ms".parse()?;
    /// let spec = spec.rescaled(Some(Duration::from_micros(5)));
    /// assert_eq!(spec.to_string(), "two-queue:quantum=5us,long=100us,max-age=3ms");
    /// # Ok::<(), quaver_sched::SpecError>(())
    /// ```
    #[must_use]
    pub fn rescaled(self, quantum: Option<Duration>) -> Self {
        let mut new = Self::with_defaults(self.known, sound(quantum));
        for (at, key) in self.known.keys.iter().enumerate() {
            if self.given[at] && key.form != Form::Quantum {
                new.set(key.name, self.values[at]);
            }
        }
        new
    }

    /// Was the quantum given, in text or by [`with_quantum`](Self::with_quantum)? Otherwise a host
    /// may choose another one ([`rescaled`](Self::rescaled)). `fifo` has none to choose.
    pub fn has_own_quantum(&self) -> bool {
        self.known
            .keys
            .iter()
            .position(|key| key.form == Form::Quantum)
            .is_none_or(|i| self.given[i])
    }

    /// How long a preempted thread may run while only preempted ones wait (`two-queue`); `None` for
    /// other policies.
    pub fn long_quantum(&self) -> Option<Duration> {
        self.get(LONG).flatten()
    }

    /// The same with another long quantum, at least the quantum. No effect on other policies than
    /// `two-queue`.
    #[must_use]
    pub fn with_long_quantum(mut self, long: Duration) -> Self {
        self.set(LONG, Some(long));
        self
    }

    /// How long a thread may wait before it is preferred to others (`two-queue`, `adaptive`,
    /// `priority`); `None`: for ever, or another policy.
    pub fn max_age(&self) -> Option<Duration> {
        self.get(MAX_AGE).flatten()
    }

    /// The same with another maximal age, at least 1 ns; `None`: no limit. No effect on policies
    /// without one.
    #[must_use]
    pub fn with_max_age(mut self, max_age: Option<Duration>) -> Self {
        self.set(MAX_AGE, max_age);
        self
    }

    /// Make the policy for `workers` workers and the tasks `0..max_tasks`. `to_time` converts a
    /// duration to the host's unit; a quantum that it makes 0 becomes 1. Tables for tasks are
    /// reserved, not touched.
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
        self.seated(workers, max_tasks, &to_time, Site::Heap).boxed()
    }

    fn seated(
        &self,
        workers: usize,
        max_tasks: u32,
        to_time: &dyn Fn(Duration) -> Time,
        site: Site,
    ) -> Seat {
        assert!(workers > 0, "there must be at least one worker");
        (self.known.build)(&Room { workers, max_tasks, spec: self, to_time, site })
    }
}

impl Default for Spec {
    fn default() -> Self {
        Self::two_queue()
    }
}

/// In full, as [`FromStr`] reads it back: `two-queue:quantum=20us,long=400us,max-age=10ms`.
impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        let values = self.known.keys.iter().zip(self.values);
        let shown = values.filter(|(key, value)| key.form != Form::Option || value.is_some());
        for (i, (key, value)) in shown.enumerate() {
            let value = value.map_or("none".into(), format_duration);
            write!(f, "{}{}={value}", if i == 0 { ':' } else { ',' }, key.name)?;
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
        let spec = Spec::named(name).ok_or_else(|| SpecError::UnknownPolicy(name.into()))?;
        let settings = parse_settings(spec.known, settings)?;
        let given = |key: &str| settings.iter().find(|(known, _)| known.name == key);
        // The defaults follow the quantum, so that comes first.
        let quantum = given(QUANTUM).map_or(spec.quantum(), |&(_, quantum)| quantum);
        let mut spec = Spec::with_defaults(spec.known, quantum);
        for (at, key) in spec.known.keys.iter().enumerate() {
            let Some(&(_, new)) = given(key.name) else { continue };
            if let (Form::AtLeastQuantum, Some(value), Some(quantum)) = (key.form, new, quantum)
                && value < quantum
            {
                return Err(SpecError::BelowQuantum { key: key.name, value, quantum });
            }
            (spec.values[at], spec.given[at]) = (new, true);
        }
        Ok(spec)
    }
}

/// What a text sets.
fn parse_settings(
    known: &'static Known,
    text: Option<&str>,
) -> Result<Vec<(&'static Key, Option<Duration>)>, SpecError> {
    let keys = || known.keys.iter().map(|key| key.name).collect();
    let mut settings: Vec<(&'static Key, Option<Duration>)> = Vec::new();
    for setting in text.into_iter().flat_map(|text| text.split(',')) {
        let Some((name, value)) = setting.split_once('=') else {
            let setting = setting.trim().into();
            return Err(SpecError::NotASetting { setting, keys: keys() });
        };
        let (name, value) = (name.trim(), value.trim());
        let Some(key) = known.keys.iter().find(|key| key.name == name) else {
            let (policy, key) = (known.name, name.into());
            return Err(SpecError::UnknownKey { policy, key, keys: keys() });
        };
        if settings.iter().any(|(seen, _)| seen.name == name) {
            return Err(SpecError::RepeatedKey(key.name));
        }
        let value = match key.form {
            Form::Quantum => sound(or_none(key.name, value)?),
            Form::OrNone | Form::Option => {
                or_none(key.name, value)?.map(|age| positive(key.name, age)).transpose()?
            }
            Form::Positive | Form::AtLeastQuantum => {
                Some(positive(key.name, duration(key.name, value)?)?)
            }
        };
        settings.push((key, value));
    }
    Ok(settings)
}

fn duration(key: &'static str, value: &str) -> Result<Duration, SpecError> {
    parse_duration(value).map_err(|error| SpecError::BadValue { key, error })
}

/// A duration or "none". For a maximal age a bare 0 is a duration without a unit, for a quantum it
/// means none.
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
