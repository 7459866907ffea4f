//! The requests of a run: arrivals and mix (or a trace), merged and limited.
//!
//! A schedule is a value that can be iterated any number of times with the same result, so what a
//! run will send is known before it starts: the [`Recorder`](crate::Recorder) is sized by it.

use std::sync::Arc;
use std::time::Duration;

use crate::arrivals::{ArrivalError, ArrivalProcess, ArrivalTimes};
use crate::mix::Mix;
use crate::random::{Random, Stream};
use crate::trace::{Trace, TraceRecord};

/// A request, as the generator hands it to the function that sends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Its number in the run, from 0. [`Recorder::complete`](crate::Recorder::complete) wants it
    /// back.
    pub id: u64,
    /// When it should be sent, in nanoseconds: from a [`Schedule`] counted from the start of the
    /// run, at the sending function counted from the zero of the clock. Latency counts from here.
    pub intended_ns: u64,
    /// The index of its class.
    pub class: u32,
    /// How long it takes to serve, in nanoseconds; 0 when unknown.
    pub service_ns: u64,
    /// Uniformly random, for whatever the request needs: a key, say.
    pub key_random: u64,
    /// Belongs to the warm-up: it is sent, but is in no statistics.
    pub warm_up: bool,
}

/// When a schedule ends, counted after the warm-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Requests whose intended time lies in a span of this length.
    Duration(Duration),
    /// This many requests.
    Requests(u64),
}

/// The requests of a run. Iterate over a reference to it.
///
/// ```
/// use quaver_load::{ArrivalProcess, Limit, Mix, Schedule};
///
/// let mix: Mix = "get:95,scan:5".parse().unwrap();
/// let limit = Limit::Requests(3);
/// let schedule = Schedule::new(ArrivalProcess::Uniform, 1e3, &mix, limit, 42).unwrap();
/// let times: Vec<u64> = schedule.iter().map(|request| request.intended_ns).collect();
/// assert_eq!(times, [0, 1_000_000, 2_000_000]);
/// ```
#[derive(Clone, Debug)]
pub struct Schedule {
    source: Source,
    classes: Arc<[String]>,
    limit: Limit,
    warm_up_ns: u64,
    seed: u64,
}

#[derive(Clone, Debug)]
enum Source {
    Synthetic { times: Box<ArrivalTimes>, mix: Arc<Mix> },
    Trace(Arc<Trace>),
}

impl Schedule {
    /// Synthetic requests: `rate` a second in total, from `mix`.
    ///
    /// The seed decides everything; arrival times, classes, service times of each class and keys
    /// come from separate random streams, so changing one leaves the others as they were.
    ///
    /// # Errors
    ///
    /// When the process cannot be run at this rate.
    pub fn new(
        process: ArrivalProcess,
        rate: f64,
        mix: &Mix,
        limit: Limit,
        seed: u64,
    ) -> Result<Self, ArrivalError> {
        let times = process.times(rate, seed)?;
        Ok(Self {
            source: Source::Synthetic { times: Box::new(times), mix: Arc::new(mix.clone()) },
            classes: mix.classes().iter().map(|class| class.name.clone()).collect(),
            limit,
            warm_up_ns: 0,
            seed,
        })
    }

    /// The requests of a trace; only `key_random` depends on the seed.
    pub fn from_trace(trace: Trace, limit: Limit, seed: u64) -> Self {
        let classes = trace.classes().into();
        Self { source: Source::Trace(Arc::new(trace)), classes, limit, warm_up_ns: 0, seed }
    }

    /// Puts a warm-up in front: requests whose intended time lies in the first `span` of the run
    /// are sent and not recorded. The limit counts from its end.
    #[must_use]
    pub fn warm_up(mut self, span: Duration) -> Self {
        self.warm_up_ns = saturating_ns(span);
        self
    }

    /// The names of the classes, in the order of their indices.
    pub fn classes(&self) -> &[String] {
        &self.classes
    }

    /// How many requests there are, with those of the warm-up. Goes through all arrival times: some
    /// tens of nanoseconds for each.
    pub fn count(&self) -> u64 {
        let mut requests = self.iter();
        let mut count = 0;
        while requests.next_arrival().is_some() {
            count += 1;
        }
        count
    }

    /// The requests in the order of their intended times.
    pub fn iter(&self) -> Requests {
        let source = match &self.source {
            Source::Synthetic { times, mix } => {
                let service = |class| Random::new(self.seed, Stream::Service(class));
                RequestSource::Synthetic(Box::new(Synthetic {
                    times: (**times).clone(),
                    class: Random::new(self.seed, Stream::Class),
                    service: (0..mix.classes().len() as u32).map(service).collect(),
                    mix: Arc::clone(mix),
                }))
            }
            Source::Trace(trace) => RequestSource::Trace { trace: Arc::clone(trace), position: 0 },
        };
        let (end_ns, left) = match self.limit {
            Limit::Duration(span) => {
                (self.warm_up_ns.saturating_add(saturating_ns(span)), u64::MAX)
            }
            Limit::Requests(count) => (u64::MAX, count),
        };
        Requests {
            source,
            key: Random::new(self.seed, Stream::Key),
            warm_up_ns: self.warm_up_ns,
            end_ns,
            left,
            id: 0,
        }
    }
}

impl IntoIterator for &Schedule {
    type Item = Request;
    type IntoIter = Requests;

    fn into_iter(self) -> Requests {
        self.iter()
    }
}

/// The requests of a [`Schedule`], in the order of their intended times. Independent of the
/// schedule; a clone continues with the same requests.
#[derive(Clone, Debug)]
pub struct Requests {
    source: RequestSource,
    key: Random,
    warm_up_ns: u64,
    end_ns: u64,
    /// How many more may follow the warm-up.
    left: u64,
    id: u64,
}

#[derive(Clone, Debug)]
enum RequestSource {
    Synthetic(Box<Synthetic>),
    Trace { trace: Arc<Trace>, position: usize },
}

#[derive(Clone, Debug)]
struct Synthetic {
    times: ArrivalTimes,
    mix: Arc<Mix>,
    class: Random,
    /// A stream for each class.
    service: Vec<Random>,
}

impl Synthetic {
    /// The class of the next request and its service time.
    fn draw(&mut self) -> (u32, u64) {
        let class = self.mix.pick(&mut self.class);
        let distribution = self.mix.classes()[class].service;
        (class as u32, distribution.map_or(0, |d| d.sample(&mut self.service[class])))
    }
}

/// When a request is due, and what it is if that is already known.
struct Arrival {
    intended_ns: u64,
    warm_up: bool,
    record: Option<TraceRecord>,
}

impl Requests {
    fn next_arrival(&mut self) -> Option<Arrival> {
        let (intended_ns, record) = match &mut self.source {
            RequestSource::Synthetic(synthetic) => (synthetic.times.next()?, None),
            RequestSource::Trace { trace, position } => {
                let record = *trace.records().get(*position)?;
                *position += 1;
                (record.time_ns, Some(record))
            }
        };
        let warm_up = intended_ns < self.warm_up_ns;
        if intended_ns >= self.end_ns || (!warm_up && self.left == 0) {
            // Nothing may follow, should the iterator be asked again.
            (self.end_ns, self.left) = (0, 0);
            return None;
        }
        if !warm_up {
            self.left -= 1;
        }
        Some(Arrival { intended_ns, warm_up, record })
    }
}

impl Iterator for Requests {
    type Item = Request;

    fn next(&mut self) -> Option<Request> {
        let Arrival { intended_ns, warm_up, record } = self.next_arrival()?;
        let (class, service_ns) = match (&mut self.source, record) {
            (RequestSource::Synthetic(synthetic), _) => synthetic.draw(),
            (RequestSource::Trace { .. }, record) => {
                let record = record?;
                (record.class, record.service_ns.unwrap_or(0))
            }
        };
        let id = self.id;
        self.id += 1;
        let key_random = self.key.bits();
        Some(Request { id, intended_ns, class, service_ns, key_random, warm_up })
    }
}

/// Nanoseconds, at most `u64::MAX`.
pub(crate) fn saturating_ns(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn schedule(limit: Limit) -> Schedule {
        let mix: Mix = "a:3:exp=5us,b:1:fixed=7us".parse().unwrap();
        Schedule::new(ArrivalProcess::Uniform, 1e6, &mix, limit, 9).unwrap()
    }

    #[test]
    fn limits_count_after_the_warm_up() {
        for limit in [Limit::Duration(MS), Limit::Requests(1_000)] {
            let schedule = schedule(limit).warm_up(2 * MS);
            let requests: Vec<_> = schedule.iter().collect();
            assert_eq!(requests.len(), 3_000);
            assert_eq!(schedule.count(), 3_000);
            assert_eq!(requests.iter().filter(|r| r.warm_up).count(), 2_000);
            assert!(!requests[2_000].warm_up && requests[2_000].intended_ns == 2_000_000);
            assert!(requests.iter().enumerate().all(|(i, r)| r.id == i as u64));
        }
        assert_eq!(schedule(Limit::Duration(Duration::ZERO)).count(), 0);
        let mut none = schedule(Limit::Requests(0)).warm_up(MS).iter();
        assert_eq!(none.by_ref().count(), 1_000);
        assert_eq!(none.next(), None);
    }

    #[test]
    fn a_schedule_repeats_itself() {
        let schedule = schedule(Limit::Requests(100));
        assert!(schedule.iter().eq(schedule.iter()));
    }

    #[test]
    fn another_mix_leaves_arrivals_and_keys_alone() {
        let mixes: [Mix; 2] = ["a".parse().unwrap(), "b:1:exp=1ms,c:2".parse().unwrap()];
        let [one, two] = mixes.map(|mix| {
            Schedule::new(ArrivalProcess::Poisson, 1e5, &mix, Limit::Requests(100), 3).unwrap()
        });
        let of = |s: &Schedule| s.iter().map(|r| (r.intended_ns, r.key_random)).collect::<Vec<_>>();
        assert_eq!(of(&one), of(&two));
    }

    #[test]
    fn a_trace_is_replayed() {
        let trace = Trace::read("t", &b"0,a,1\n1,b\n2,a\n3,a\n"[..]).unwrap();
        let schedule = Schedule::from_trace(trace.clone(), Limit::Requests(2), 1)
            .warm_up(Duration::from_micros(1));
        let got: Vec<_> =
            schedule.iter().map(|r| (r.intended_ns, r.class, r.service_ns, r.warm_up)).collect();
        assert_eq!(got, [(0, 0, 1_000, true), (1_000, 1, 0, false), (2_000, 0, 0, false)]);
        assert_eq!(schedule.classes(), ["a", "b"]);
        assert_eq!(Schedule::from_trace(trace, Limit::Requests(u64::MAX), 1).count(), 4);
    }
}
