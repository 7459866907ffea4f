//! What is offered in a run: the requests of the mix or of the trace, at the wanted rate.

use quaver_load::{ArrivalProcess, Limit, Request, Schedule};

use crate::outcome::{Latency, Recorder};
use crate::scenario::{Scenario, ScenarioError};

/// Requests when a scenario does not say how many.
const REQUESTS: u64 = 100_000;
/// The share of them that warms up when a scenario does not say.
const WARM_UP: f64 = 0.1;

/// The requests of a run.
#[derive(Clone, Debug)]
pub(crate) struct Offer {
    schedule: Schedule,
    /// What intended times are multiplied with.
    stretch: f64,
    /// The time of a trace's first record, which is 0 here.
    pub(crate) begin: u64,
    /// How many there are.
    pub(crate) requests: u64,
    /// How many of them are not counted.
    pub(crate) warm_up: u64,
}

impl Offer {
    /// What the scenario offers at this rate.
    ///
    /// # Errors
    ///
    /// The trace cannot be used, or the arrival process cannot be run at this rate.
    pub(crate) fn of(scenario: &Scenario, rate: f64) -> Result<Self, ScenarioError> {
        let mut requests = requests(scenario);
        let (mut stretch, mut begin) = (1.0, 0);
        let schedule = match (&scenario.load.mix, scenario.trace()?) {
            (Some(mix), _) => {
                let process = scenario.load.arrivals.unwrap_or(ArrivalProcess::Poisson);
                Schedule::new(process, rate, mix, Limit::Requests(requests), scenario.seed)
                    .map_err(|e| ScenarioError::new(format!("load.rate: {e}")))?
            }
            (None, Some(trace)) => {
                // At another rate the trace is stretched, not thinned.
                stretch = trace.rate().map_or(1.0, |own| own / rate);
                begin = trace.records()[0].time_ns;
                requests = requests.min(trace.records().len() as u64);
                Schedule::from_trace(trace.from_zero(), Limit::Requests(requests), scenario.seed)
            }
            (None, None) => return Err(ScenarioError::new("load: no mix and no trace")),
        };
        let warm_up = warm_up(scenario, requests);
        Ok(Offer { schedule, stretch, begin, requests, warm_up })
    }

    /// The names of the classes.
    pub(crate) fn classes(&self) -> &[String] {
        self.schedule.classes()
    }

    /// In the order of their intended times.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Request> + use<> {
        let stretch = self.stretch;
        self.schedule.iter().map(move |mut request| {
            if stretch != 1.0 {
                request.intended_ns = (request.intended_ns as f64 * stretch) as u64;
            }
            request
        })
    }

    /// The service times of the requests that are counted, in microseconds: of one class, or of
    /// all. `None`: there are none.
    pub(crate) fn service_us(&self, class: Option<&str>) -> Option<Latency> {
        let index = class.and_then(|name| self.classes().iter().position(|known| known == name));
        let mut times = Recorder::new(1e3);
        self.iter()
            .skip(self.warm_up as usize)
            .filter(|request| class.is_none() || index == Some(request.class as usize))
            .for_each(|request| times.record(request.service_ns));
        times.latency()
    }
}

/// How many requests a run has at the most, or messages of a message benchmark.
pub(crate) fn requests(scenario: &Scenario) -> u64 {
    scenario.load.requests.unwrap_or(REQUESTS)
}

/// How many of so many are not counted.
pub(crate) fn warm_up(scenario: &Scenario, requests: u64) -> u64 {
    (requests as f64 * scenario.load.warm_up.unwrap_or(WARM_UP)) as u64
}
