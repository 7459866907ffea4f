//! Fig. 5: preemption at precise places, by looking at a flag and by hardware safepoints, and at
//! any place by UIPI.
//!
//! The program stops and is resumed at once: its handler, or who has seen the flag, switches to the
//! same thread again.

use anyhow::Result;
use quaver_uarch::core::{Config, Mechanism, Parameters, When};
use quaver_uarch::workload::{self, Points, Size};

use super::jobs;
use super::paper::Paper;
use super::rows::{Report, Row};
use super::runs::{self, Ticker};
use crate::chart::{Chart, Curve, Line, number};

const PROGRAMS: [&str; 2] = ["base64", "matmul"];
const QUANTA: [u32; 8] = [2, 5, 10, 20, 30, 50, 100, 200];
const FEW: [u32; 2] = [5, 20];
/// Cycles that a program takes at most before its first safepoint.
const SET_UP: u64 = 50_000;

/// What stops the program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
    /// Nothing, and it has nothing in its loops.
    Plain,
    /// Another core sets a flag, at which its loops look.
    Poll,
    /// The core's timer, before instructions with the prefix.
    Safepoint,
    /// A timer core's user interrupts, as shipped.
    Uipi,
}

impl Way {
    fn name(self) -> &'static str {
        match self {
            Way::Plain => "plain",
            Way::Poll => "poll",
            Way::Safepoint => "safepoint",
            Way::Uipi => "uipi",
        }
    }

    /// What its slowdown is measured against, as the artifact's `plot_safepoint.py` does.
    fn baseline(self) -> Way {
        if self == Way::Safepoint { Way::Safepoint } else { Way::Plain }
    }
}

/// A run: a program, what stops it, and microseconds between stops.
type Job = (usize, Way, Option<u32>);

/// Computes the figure.
///
/// # Errors
///
/// A program cannot be built or run.
pub fn compute(quick: bool) -> Result<Report> {
    let paper = Paper::carried();
    let (quanta, size) = if quick { (&FEW[..], Size::Quick) } else { (&QUANTA[..], Size::Full) };
    let mut wanted: Vec<Job> = Vec::new();
    for program in 0..PROGRAMS.len() {
        wanted.extend([Way::Plain, Way::Poll, Way::Safepoint].map(|way| (program, way, None)));
        for way in [Way::Poll, Way::Safepoint, Way::Uipi] {
            wanted.extend(quanta.iter().map(|&us| (program, way, Some(us))));
        }
    }
    let name = |&(program, way, us): &Job| point(program, way, us);
    let runs = jobs::all(&wanted, name, |job| run(job, size))?;
    let cycles = |job: Job| {
        let place = wanted.iter().position(|known| *known == job);
        runs[place.expect("it was run")] as f64
    };
    let percent = |program, way: Way, us| {
        100.0 * (cycles((program, way, us)) / cycles((program, way.baseline(), None)) - 1.0)
    };

    let times = &paper.fig5_base64_time;
    let mut rows = Vec::new();
    for way in [Way::Poll, Way::Safepoint] {
        let baseline = times[way.baseline().name()]["none"];
        for us in quanta.iter().copied().map(Some).chain([None]) {
            let key = us.map_or_else(|| "none".to_owned(), |us| us.to_string());
            let Some(time) = times[way.name()].get(&key) else { continue };
            if us.is_none() && way.baseline() == way {
                continue;
            }
            let theirs = 100.0 * (time / baseline - 1.0);
            rows.push(Row::new(point(0, way, us), "%", theirs, percent(0, way, us)));
        }
    }
    let mut summary = Vec::new();
    for (way, key) in [(Way::Poll, "poll"), (Way::Safepoint, "safepoint")] {
        let [low, high] = paper.fig5_text_slowdown_percent_5us[key];
        for (program, name) in PROGRAMS.iter().enumerate() {
            let ours = percent(program, way, Some(5));
            let named = format!("{name}/{key}/5us, the text's {low} to {high}");
            summary.push(Row::new(named, "%", ours.clamp(low, high), ours));
        }
    }
    let prefix = |program| {
        100.0
            * (cycles((program, Way::Safepoint, None)) / cycles((program, Way::Plain, None)) - 1.0)
    };
    let mut notes = vec![
        "the paper's points are the artifact's; it has none for matmul, uipi, and safepoints at 2, \
         5 and 10 us. Where the text has a range, its nearest end is given"
            .into(),
        format!(
            "without an interrupt, the prefixed nops in the loops cost {:.2} % of base64 and \
             {:.2} % of matmul",
            prefix(0),
            prefix(1)
        ),
        "gcc places one look at the flag or one safepoint in each turn of the loops that take the \
         time; Concord's passes place fewer where they can"
            .into(),
    ];
    if quick {
        notes.push("a look: short programs, so a point has few interrupts".into());
    }
    let charts = (0..PROGRAMS.len()).map(|program| {
        let curves = [Way::Poll, Way::Safepoint, Way::Uipi].into_iter().enumerate();
        let curves: Vec<Curve> = curves
            .map(|(colour, way)| {
                let points = quanta
                    .iter()
                    .map(|&us| (f64::from(us), percent(program, way, Some(us)).max(0.0)));
                let (name, points) = (way.name().to_owned(), points.collect());
                Curve { name, colour, line: Line::Thick, points }
            })
            .collect();
        let (title, x) = (PROGRAMS[program], "µs between stops");
        Chart { title, x, y: "slowdown, %", log: true, label: number, limit: None }.draw(&curves)
    });
    let charts = charts.collect::<Result<_>>()?;
    Ok(Report {
        version: env!("CARGO_PKG_VERSION"),
        figure: "figure 5".into(),
        title: "preemption at safepoints, by a flag, and by UIPI",
        quick,
        rows,
        summary,
        notes,
        charts,
    })
}

fn point(program: usize, way: Way, us: Option<u32>) -> String {
    let every = us.map_or_else(|| "none".to_owned(), |us| format!("{us}us"));
    format!("{}/{}/{every}", PROGRAMS[program], way.name())
}

/// How many cycles it takes.
fn run(&(program, way, us): &Job, size: Size) -> Result<u64> {
    let points = match way {
        Way::Plain | Way::Uipi => Points::Nothing,
        Way::Poll => Points::Poll,
        Way::Safepoint => Points::Safepoint,
    };
    let of = workload::find(PROGRAMS[program]).expect("it is there");
    let file = runs::program(of, size, points, &[])?;
    let parameters = Parameters::default();
    let period = us.map(|us| parameters.cycles(us.into()));
    let mut config = Config { parameters, when: When::ByProgram, ..Config::default() };
    let mut argument = None;
    match (way, period) {
        (Way::Safepoint, Some(period)) => {
            (config.mechanism, config.safepoints) = (Mechanism::Tracked, true);
            argument = Some(period.to_string());
        }
        (Way::Uipi, _) => {
            config.mechanism = Mechanism::Flush;
            // The handler is wanted, not the timer.
            argument = Some((1u64 << 60).to_string());
        }
        _ => {}
    }
    let arguments: Vec<&str> = argument.iter().map(String::as_str).collect();
    let mut core = runs::core(&file, &arguments, &config)?;
    match (way, period) {
        (Way::Poll, Some(period)) => {
            let flag = runs::symbol(&file, "quaver_flag")?;
            core.attach(Ticker::new(0, period, move |port| {
                port.write_elsewhere(flag, 1);
            }));
        }
        (Way::Uipi, Some(period)) => core.attach(Ticker::new(0, period, |port| port.post())),
        _ => {}
    }
    let (run, _) = runs::finish(core)?;
    let wanted = period.filter(|_| way != Way::Poll).map_or(0, |period| run.cycles / period);
    // Ticks merge where the program has no safepoint.
    let merged = period.filter(|_| way == Way::Safepoint).map_or(0, |period| SET_UP / period);
    anyhow::ensure!(
        run.interrupts + merged + 2 >= wanted,
        "{} interrupts, and {wanted} were wanted",
        run.interrupts
    );
    Ok(run.cycles)
}
