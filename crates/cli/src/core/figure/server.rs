//! A key-value server on the core model: the program that `quaver-uarch` has for it, with the
//! policies of `quaver-sched` compiled in, and what is beside its core: clients, and a timer core.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result, ensure};
use quaver_load::{Request, Schedule};
use quaver_sched::Spec;
use quaver_uarch::core::{Config, Device, Mechanism, Parameters, Port, Source};
use quaver_uarch::workload::{BuildError, RustProgram};

use super::super::programs::workload_cache;
use super::runs;

/// What interrupts the server at the end of a quantum.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum By {
    /// Nothing.
    Nobody,
    /// A timer core, by UIPI as shipped.
    Sender,
    /// The core's KB timer, tracked.
    Timer,
}

/// What a GET looks up, and a SCAN sums up: 1.2 and 580 us on the core as it is.
const WORK: [&str; 2] = ["7", "377000"];
/// How often the timer core looks at the server's deadline, in cycles: it has others to look after.
const LOOK: u64 = 100;
/// From the moment when the server is ready to the first request.
const PAUSE: u64 = 1_000;
/// Cycles of a nanosecond.
const CYCLES_PER_NS: u64 = 2;

/// What has come of a run.
#[derive(Clone, Debug)]
pub struct Served {
    /// From the arrival of each request to its end, in nanoseconds; in the schedule's order.
    pub latencies_ns: Vec<u64>,
    /// How long the core had something to do.
    pub busy_ns: u64,
    /// Preemptions, and interrupts of threads.
    pub preemptions: u64,
    /// See above.
    pub interrupts: u64,
}

/// Builds the program.
///
/// # Errors
///
/// There is no compiler, or no room.
pub fn program() -> Result<Vec<u8>, BuildError> {
    let path = RustProgram::server(quaver_sched::SOURCES).build(&workload_cache())?;
    std::fs::read(&path).map_err(|source| BuildError::File { path, source })
}

/// Serves the requests of a schedule, whose classes are GETs and SCANs, one core by this policy.
///
/// # Errors
///
/// The program cannot run.
pub fn serve(program: &[u8], schedule: &Schedule, policy: &str, by: By) -> Result<Served> {
    let quantum = policy.parse::<Spec>()?.quantum().map_or(0, |quantum| quantum.as_nanos() as u64);
    let word = |r: &Request| (1 + u64::from(r.class)) | (r.key_random << 8);
    let arrivals: Vec<_> =
        schedule.into_iter().map(|r| (r.intended_ns * CYCLES_PER_NS, word(&r))).collect();
    let (by_name, mechanism, source) = match by {
        By::Nobody => ("none", Mechanism::None, Source::KbTimer),
        By::Sender => ("sender", Mechanism::Flush, Source::Uipi),
        By::Timer => ("timer", Mechanism::Tracked, Source::KbTimer),
    };
    let parameters = Parameters::default();
    let config = Config { parameters, mechanism, source, limit: u64::MAX, ..Config::default() };
    let (count, quantum) = (arrivals.len().to_string(), (quantum * CYCLES_PER_NS).to_string());
    let arguments = [policy, &quantum, by_name, &count, WORK[0], WORK[1]];
    let mut core = runs::core(program, &arguments, &config)?;
    let done = Arc::new(Mutex::new(vec![None; arrivals.len()]));
    core.attach(Clients {
        ring: runs::symbol(program, "quaver_ring")?,
        done: runs::symbol(program, "quaver_done")?,
        deadline: runs::symbol(program, "quaver_deadline")?,
        begin: None,
        arrivals: arrivals.clone(),
        sent: 0,
        look: (by == By::Sender).then_some(0),
        posted: 0,
        ends: Arc::clone(&done),
    });
    let (_, lines) = runs::finish(core)?;
    let done = done.lock().unwrap_or_else(PoisonError::into_inner);
    let ends: Option<Vec<u64>> = done.iter().copied().collect();
    let ends = ends.context("the server has ended before all requests were done")?;
    let last = ends.iter().max().context("the schedule is empty")?;
    let latency = |(end, (at, _)): (&u64, &(u64, u64))| (end - at) / CYCLES_PER_NS;
    Ok(Served {
        latencies_ns: ends.iter().zip(&arrivals).map(latency).collect(),
        busy_ns: (last + PAUSE - runs::said(&lines, "idle")?) / CYCLES_PER_NS,
        preemptions: runs::said(&lines, "preemptions")?,
        interrupts: runs::said(&lines, "interrupts")?,
    })
}

/// A latency of a class, in microseconds: that of so many percent of its requests.
///
/// # Errors
///
/// There is no such request.
pub fn percentile(schedule: &Schedule, served: &Served, class: u32, percent: usize) -> Result<f64> {
    let of_class = schedule.into_iter().zip(&served.latencies_ns);
    let mut all: Vec<u64> =
        of_class.filter(|(r, _)| r.class == class).map(|(_, &latency)| latency).collect();
    ensure!(!all.is_empty(), "the schedule has no request of class {class}");
    all.sort_unstable();
    Ok(all[(all.len() * percent / 100).min(all.len() - 1)] as f64 / 1e3)
}

/// Who sends requests, and the timer core.
struct Clients {
    /// Where the program has its words.
    ring: u64,
    done: u64,
    deadline: u64,
    /// When the first request may come: the server is ready.
    begin: Option<u64>,
    /// When each comes, from then on, and its word.
    arrivals: Vec<(u64, u64)>,
    sent: usize,
    /// When the timer core looks next; nothing if there is none.
    look: Option<u64>,
    /// The last deadline for which it has sent an interrupt.
    posted: u64,
    /// When each was done, as `arrivals`.
    ends: Arc<Mutex<Vec<Option<u64>>>>,
}

impl Device for Clients {
    fn next(&self) -> u64 {
        let Some(begin) = self.begin else { return u64::MAX };
        let arrival = self.arrivals.get(self.sent).map_or(u64::MAX, |(at, _)| begin + at);
        arrival.min(self.look.unwrap_or(u64::MAX))
    }

    fn act(&mut self, cycle: u64, port: &mut Port<'_>) {
        let Some(begin) = self.begin else { return };
        while let Some((at, word)) = self.arrivals.get(self.sent)
            && begin + at <= cycle
        {
            port.write(self.ring + 8 * self.sent as u64, &word.to_le_bytes());
            self.sent += 1;
        }
        if self.look.is_some_and(|look| look <= cycle) {
            self.look = Some(cycle + LOOK);
            let deadline = port.read(self.deadline);
            if deadline != 0 && deadline <= cycle && deadline != self.posted {
                self.posted = deadline;
                port.post();
            }
        }
    }

    fn doorbell(&self) -> Range<u64> {
        self.done..self.done + 8 * (1 + self.arrivals.len() as u64)
    }

    fn rung(&mut self, cycle: u64, address: u64, _: &mut Port<'_>) {
        let number = (address - self.done) / 8;
        match (number.checked_sub(1), self.begin) {
            (None, _) => {
                self.begin = Some(cycle + PAUSE);
                self.look = self.look.map(|_| cycle);
            }
            (Some(request), Some(begin)) => {
                let mut ends = self.ends.lock().unwrap_or_else(PoisonError::into_inner);
                ends[request as usize] = Some(cycle - begin);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quaver_load::{ArrivalProcess, Limit, Mix};

    /// GETs wait for a SCAN, unless it is preempted; and nothing is lost.
    #[test]
    fn a_policy_of_ours_preempts_on_the_model() {
        let mix: Mix = "get:97%:fixed=1.2us,scan:3%:fixed=580us".parse().unwrap();
        let schedule = |seed| {
            let some = Limit::Requests(30);
            Schedule::new(ArrivalProcess::Poisson, 60_000.0, &mix, some, seed).unwrap()
        };
        // One in whose first half there is a SCAN, and no other.
        let scans = |schedule: &Schedule| {
            schedule.into_iter().filter(|r| r.class == 1).map(|r| r.id).collect::<Vec<_>>()
        };
        let fits = |schedule: &Schedule| matches!(scans(schedule)[..], [id] if id < 10);
        let schedule = (1..).map(schedule).find(fits).unwrap();
        let program = program().unwrap();
        let run = |policy, by| serve(&program, &schedule, policy, by).unwrap();
        let alone = run("ws:quantum=none", By::Nobody);
        assert_eq!((alone.preemptions, alone.interrupts), (0, 0));
        let worst = |served: &Served| percentile(&schedule, served, 0, 99).unwrap();
        assert!(worst(&alone) > 100.0, "{alone:?}");
        for by in [By::Sender, By::Timer] {
            let served = run("two-queue:quantum=5us", by);
            assert!(served.preemptions >= 5 && served.interrupts >= served.preemptions);
            assert!(worst(&served) < 15.0, "{by:?}: {served:?}");
            let scan = percentile(&schedule, &served, 1, 50).unwrap();
            assert!((550.0..750.0).contains(&scan), "{scan}");
        }
    }
}
