//! Fig. 9: a program offloads requests to an accelerator, one at a time, and learns that one is
//! done by spinning, by an interval timer, or by xUI's device interrupts.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Result;
use quaver_uarch::core::{Config, Device, Mechanism, Parameters, Port, When};
use quaver_uarch::workload::{self, Points, Size};

use super::jobs;
use super::paper::Paper;
use super::rows::{Report, Row};
use super::runs;
use crate::chart::{Chart, Curve, Line, number};

const MODES: [(&str, Mechanism); 3] = [
    ("spinning", Mechanism::None),
    ("device interrupts", Mechanism::Tracked),
    ("interval timer", Mechanism::Signal),
];

/// Mean time of a request in microseconds, and of looking again after a look that came too early
/// (the artifact's `lat_accel.py`).
const REQUESTS: [(u32, u32); 2] = [(2, 1), (20, 10)];

/// Standard deviation of a request's time, as a share of its mean.
const NOISE: [f64; 6] = [0.0, 0.15, 0.32, 0.5, 0.66, 1.0];
const FEW: [f64; 2] = [0.0, 0.5];

/// A run: kind of request, mode, noise.
type Job = (usize, usize, f64);

/// What came out: microseconds from a request's completion to the next submission, and percent of
/// the cycles that are free.
type Result2 = (f64, f64);

/// Computes the figure.
///
/// # Errors
///
/// A program cannot be built or run.
pub fn compute(quick: bool) -> Result<Report> {
    let paper = Paper::carried().fig9_text;
    let (noises, size) = if quick { (&FEW[..], Size::Quick) } else { (&NOISE[..], Size::Full) };
    let mut wanted: Vec<Job> = Vec::new();
    for request in 0..REQUESTS.len() {
        for mode in 0..MODES.len() {
            wanted.extend(noises.iter().map(|&noise| (request, mode, noise)));
        }
    }
    let name = |&(request, mode, noise): &Job| {
        format!("{} us, {}, noise {noise}", REQUESTS[request].0, MODES[mode].0)
    };
    let results = jobs::all(&wanted, name, |job| run(job, size))?;
    let of = |request: usize, mode: usize, noise: f64| {
        let place = wanted.iter().position(|known| *known == (request, mode, noise));
        results[place.expect("it was run")]
    };

    let free =
        Row::new("2us, device interrupts, free", "%", paper["free-percent-2us"], of(0, 1, 0.0).1);
    let mut rows = vec![free.because(
        "the program writes to a doorbell, and reads a word that the device has written to the \
         third-level cache; the paper's submits through a library like SPDK's, over a simulated \
         PCIe bus (5.4), and does not say what these take",
    )];
    for (request, (us, _)) in REQUESTS.iter().enumerate() {
        let gaps = noises.iter().map(|&noise| of(request, 1, noise).0 - of(request, 0, noise).0);
        let gap = gaps.fold(0.0, f64::max);
        let limit = paper["gap-us"];
        rows.push(Row::new(format!("{us}us, interrupts over spinning, at most"), "us", limit, gap));
    }
    let mut charts = Vec::new();
    for (request, (us, _)) in REQUESTS.iter().enumerate() {
        let curves = |value: &dyn Fn(Result2) -> f64| -> Vec<Curve> {
            let curve = |(mode, (name, _)): (usize, &(&str, Mechanism))| {
                let points = noises.iter().map(|&n| (n, value(of(request, mode, n))));
                let (name, points) = ((*name).to_owned(), points.collect());
                Curve { name, colour: mode, line: Line::Thick, points }
            };
            MODES.iter().enumerate().map(curve).collect()
        };
        let free = format!("requests of {us} µs: free cycles");
        let late = format!("requests of {us} µs: from completion to the next submission");
        let x = "standard deviation of a request's time / mean";
        let chart = |title: &str, y, curves: &[Curve]| {
            Chart { title, x, y, log: false, label: number, limit: None }.draw(curves)
        };
        charts.push(chart(&free, "%", &curves(&|(_, free)| free))?);
        charts.push(chart(&late, "µs", &curves(&|(latency, _)| latency))?);
    }
    let said = |request: usize, mode: usize, noise: f64| {
        let (latency, free) = of(request, mode, noise);
        format!("{} {latency:.2} us, {free:.0} % free", MODES[mode].0)
    };
    let last = noises[noises.len() - 1];
    let mut notes = vec![format!(
        "the paper bounds what interrupts add to spinning by {} us: less is no miss",
        paper["gap-us"]
    )];
    for (request, (us, _)) in REQUESTS.iter().enumerate() {
        for noise in [0.0, last] {
            let each = [0, 1, 2].map(|mode| said(request, mode, noise)).join("; ");
            notes.push(format!("{us} us, noise {noise}: {each}"));
        }
    }
    let p = Parameters::default();
    notes.push(format!(
        "interval timer: setitimer once for each look, a system call of {} cycles and an alarm of \
         {} ([kernel] of the parameters, as in figure 6). A timer interrupt of the model stands \
         for the alarm, since the model's kernel runs without devices; the artifact charges 2000 \
         cycles for it",
        p.served.system_call, p.kernel.alarm
    ));
    Ok(Report {
        version: env!("CARGO_PKG_VERSION"),
        figure: "figure 9".into(),
        title: "how a program learns that an accelerator is done",
        quick,
        rows,
        summary: Vec::new(),
        notes,
        charts,
    })
}

/// A core where a signal takes what an alarm of the model's kernel takes, its entry included.
fn with_alarm(mut parameters: Parameters) -> Parameters {
    let entry = parameters.interrupt.flush_entry;
    parameters.interrupt.signal = parameters.kernel.alarm.saturating_sub(entry);
    parameters
}

fn run(&(request, mode, noise): &Job, size: Size) -> Result<Result2> {
    let parameters = with_alarm(Parameters::default());
    let (mean, again) = REQUESTS[request];
    let [mean, again] = [mean, again].map(|us| parameters.cycles(us.into()));
    let more = [format!("-DMODE={mode}"), format!("-DEXPECTED={mean}"), format!("-DAGAIN={again}")];
    let more: Vec<&str> = more.iter().map(String::as_str).collect();
    let file = runs::program(&workload::ACCELERATOR, size, Points::Nothing, &more)?;
    let mechanism = MODES[mode].1;
    let config = Config { mechanism, when: When::ByProgram, parameters, ..Config::default() };
    let mut core = runs::core(&file, &[], &config)?;
    let log = Arc::new(Mutex::new(Log::default()));
    core.attach(Accelerator {
        door: runs::symbol(&file, "quaver_door")?,
        done: runs::symbol(&file, "quaver_done")?,
        mean: mean as f64,
        deviation: noise * mean as f64,
        interrupts: mode == 1,
        random: 0x9e37_79b9_7f4a_7c15,
        due: u64::MAX,
        completed: None,
        log: Arc::clone(&log),
    });
    let (_, lines) = runs::finish(core)?;
    let log = log.lock().unwrap_or_else(PoisonError::into_inner);
    let latency = log.waited as f64 / log.answered.max(1) as f64 / 2000.0;
    // Of the program's work, an addition takes a cycle.
    let free = runs::said(&lines, "worked")? as f64;
    Ok((latency, 100.0 * free / (log.last - log.first).max(1) as f64))
}

/// What the accelerator saw.
#[derive(Default)]
struct Log {
    first: u64,
    last: u64,
    waited: u64,
    answered: u64,
}

/// Completes a request some time after its submission.
struct Accelerator {
    door: u64,
    done: u64,
    mean: f64,
    deviation: f64,
    interrupts: bool,
    random: u64,
    due: u64,
    completed: Option<u64>,
    log: Arc<Mutex<Log>>,
}

impl Accelerator {
    /// About normal: the sum of twelve numbers.
    fn normal(&mut self) -> f64 {
        let mut sum = -6.0;
        for _ in 0..12 {
            self.random ^= self.random << 13;
            self.random ^= self.random >> 7;
            self.random ^= self.random << 17;
            sum += (self.random >> 11) as f64 / (1u64 << 53) as f64;
        }
        sum
    }
}

impl Device for Accelerator {
    fn next(&self) -> u64 {
        self.due
    }

    fn act(&mut self, cycle: u64, port: &mut Port<'_>) {
        self.due = u64::MAX;
        self.completed = Some(cycle);
        port.write(self.done, &1u64.to_le_bytes());
        if self.interrupts {
            port.interrupt(quaver_uarch::core::VECTOR);
        }
    }

    fn doorbell(&self) -> Range<u64> {
        self.door..self.door + 8
    }

    fn rung(&mut self, cycle: u64, _: u64, _: &mut Port<'_>) {
        // No request takes less than a tenth of the mean.
        let time = (self.mean + self.deviation * self.normal()).max(self.mean / 10.0);
        self.due = cycle + time as u64;
        let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        if log.first == 0 {
            log.first = cycle;
        }
        if let Some(completed) = self.completed.take() {
            log.waited += cycle - completed;
            log.answered += 1;
        }
        log.last = cycle;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A request is known to be done by the timer once its time and the alarm's have passed; the
    /// core is free for the former.
    #[test]
    fn the_interval_timer_costs_what_an_alarm_of_the_kernel_costs() {
        if std::process::Command::new("gcc").arg("--version").output().is_err() {
            println!("skipped: there is no gcc");
            return;
        }
        let p = Parameters::default();
        let alarm = p.kernel.alarm as f64;
        for (request, (us, _)) in REQUESTS.into_iter().enumerate() {
            let (late, free) = run(&(request, 2, 0.0), Size::Quick).unwrap();
            let late = late * 2000.0;
            assert!((alarm..alarm + 800.0).contains(&late), "{us} us: {late} cycles late");
            let time = p.cycles(us.into()) as f64;
            let most = 100.0 * time / (time + late);
            assert!((most - 10.0..most + 1.0).contains(&free), "{us} us: {free} of {most} %");
        }
    }
}
