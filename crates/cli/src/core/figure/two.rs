//! Fig. 2 and what belongs to it: the steps of a user interrupt, whether the processor flushes or
//! drains (3.5: by two experiments), and how long tracked interrupts may take at worst (6.1).

use std::collections::BTreeMap;

use anyhow::Result;
use quaver_uarch::Machine;
use quaver_uarch::core::{Config, Core, Mechanism, Parameters, Report as Run, Source, Steps, When};
use quaver_uarch::memory::Rights;
use quaver_uarch::workload::{self, Points, Size};

use super::jobs;
use super::paper::Paper;
use super::rows::{Report, Row};
use super::runs::{self, Ticker};
use crate::chart::{self, Bar, Chart, Curve, Line, number};

/// Lines of the pointer chase: from the first-level cache to the third.
const NODES: [u32; 6] = [64, 256, 1024, 8192, 32768, 65536];
const FEW: [u32; 3] = [64, 1024, 8192];

const WAYS: [(&str, Mechanism); 3] =
    [("flush", Mechanism::Flush), ("drain", Mechanism::Drain), ("tracked", Mechanism::Tracked)];

/// Cycles between interrupts while pointers are chased.
const PERIOD: u64 = 6007;

/// Cycles between interrupts while squashed uops are counted; 0: none.
const PERIODS: [u64; 6] = [0, 40_000, 20_000, 10_000, 5000, 2500];

/// Cycles from step to step on hardware, in the artifact's `profile/README.md`: ON is cleared, then
/// the requests, the first push, the last one, the handler.
const THEIR_STEPS: [f64; 5] = [31.7, 29.7, 141.6, 29.3, 30.4];

/// Computes the figure.
///
/// # Errors
///
/// A program cannot be built or run.
pub fn compute(quick: bool) -> Result<Report> {
    let paper = Paper::carried();
    let given = &paper.fig2_cycles;
    let size = if quick { Size::Quick } else { Size::Full };
    let p = Parameters::default();
    let steps = timeline(size, &p)?.steps;
    let mut predicted = p.clone();
    predicted.interrupt.targets_predicted = true;
    let predicted = timeline(size, &predicted)?.steps;
    let [stalled, cycles] = senduipi()?;
    let serialise = p.microcode.senduipi.iter().map(|step| step.latency).sum::<u64>();
    let (worst, worst_flushed) = (worst_case(Mechanism::Tracked)?, worst_case(Mechanism::Flush)?);
    let row = |name: &str, ours: f64| Row::new(name, "cycles", given[name], ours);
    let arrival = p.interrupt.notification_delay as f64;
    let fitted = |row: Row| Row { fitted: true, ..row };
    let (squashes, counts) = squashes(size)?;
    let rows = vec![
        fitted(row("arrival", arrival)).because("a parameter of the model, from this figure"),
        row("flush", steps.cleared).because(format!(
            "it has the UPID's way from the sender's core ({} cycles) in it: the paper's observer \
             sits on the receiver's core",
            p.interrupt.remote_line
        )),
        row("delivery-min", steps.delivery()).because(why_delivery(&steps, &paper)),
        row("uiret", steps.uiret).because(format!(
            "fetch waits until UIRET's jump has executed, and the front end fills again: with its \
             target predicted it takes {:.0}",
            predicted.uiret
        )),
        fitted(row("senduipi-stalled", stalled)).because(format!(
            "measured in a loop: cycles without renaming because a uop serialises, of {cycles:.0} \
             for each SENDUIPI. How long that uop itself takes, {serialise}, is a parameter, from \
             this figure; the others it waits for what is before it"
        )),
        Row::new("worst case, tracked", "cycles", paper.worst_case_cycles, worst).because(format!(
            "50 dependent loads from memory, of {} cycles each; the paper's would be of 140. \
             Flushed: {worst_flushed:.0}",
            p.memory.third.latency + p.memory.dram
        )),
        Row::new("flushed uops over interrupts, r2", "r2", 1.0, squashes[0][0].r2),
    ];

    let (chased, latencies) = chase(quick)?;
    let said = |way: usize| {
        let of = &latencies[way];
        let (low, high) = of.iter().fold((f64::MAX, 0f64), |(l, h), &c| (l.min(c), h.max(c)));
        format!("{}: {low:.0} to {high:.0}", WAYS[way].0)
    };
    let each = |which: usize| {
        let each = [0, 1, 2].map(|way| squashes[way][which].each);
        format!(
            "{:.0} with flushing, {:.0} with draining, {:.0} tracked",
            each[0], each[1], each[2]
        )
    };
    let notes = vec![
        format!(
            "flush or drain (3.5): mean cycles from an interrupt's arrival to its handler while a \
             program chases pointers, by how far they lie: {}, {}, {}. Only with flushing it does \
             not depend on the program, as the paper saw",
            said(0),
            said(1),
            said(2)
        ),
        format!(
            "flush or drain (3.5): each interrupt squashes so many uops of fib: {}. The paper saw \
             them grow exactly with the number of interrupts: r2 is 1 then. Its counters have all \
             that is squashed, also behind the branches that are predicted wrongly after an \
             interrupt: {}. In such a program they do not tell flushing from draining",
            each(0),
            each(1)
        ),
    ];
    let charts = vec![timeline_chart(given, &steps, arrival)?, chased, counts];
    Ok(Report {
        version: env!("CARGO_PKG_VERSION"),
        figure: "figure 2".into(),
        title: "the steps of a user interrupt",
        quick,
        rows,
        summary: Vec::new(),
        notes,
        charts,
    })
}

/// Why notification and delivery are shorter than on hardware.
fn why_delivery(ours: &Steps, paper: &Paper) -> String {
    let steps = [ours.taken, ours.first_push, ours.last_push, ours.handler];
    let said = |steps: &[f64]| {
        steps.iter().map(|step| format!("{step:.0}")).collect::<Vec<_>>().join(" + ")
    };
    format!(
        "from the first change of the UPID to the next, the first push, the last, and the handler \
         {} here, {} on hardware, where the first change itself took {:.0} (the artifact's \
         profile/README.md). Delivery is fitted to the paper's simulator, which takes less than \
         its hardware: {:.0} cycles for a whole interrupt by the KB timer, and from the first push \
         on there are {:.0} of these steps",
        said(&steps),
        said(&THEIR_STEPS[1..]),
        THEIR_STEPS[0],
        paper.fig4_mean_cycles["kb-timer"],
        THEIR_STEPS[2..].iter().sum::<f64>(),
    )
}

/// When what has happened, from the begin of SENDUIPI: ours, and the paper's.
fn timeline_chart(given: &BTreeMap<String, f64>, ours: &Steps, arrival: f64) -> Result<String> {
    let names = ["it has arrived", "ON is cleared", "the handler begins", "UIRET is done"];
    let theirs = ["arrival", "flush", "delivery-min", "uiret"].map(|step| given[step]);
    let ours = [arrival, ours.cleared, ours.delivery(), ours.uiret];
    let mut times = [0.0; 2];
    let mut bars = Vec::new();
    for (step, name) in names.iter().enumerate() {
        for (who, (of, main)) in [(ours, true), (theirs, false)].iter().enumerate() {
            times[who] += of[step];
            let whose = if *main { "" } else { " (paper)" };
            let (name, values) = (format!("{name}{whose}"), [times[who]; 3]);
            bars.push(Bar { name, text: number(times[who]), values, main: *main });
        }
    }
    chart::headed_bars("cycles from the begin of SENDUIPI, without the handler's own", &bars)
}

/// A program that is interrupted by UIPI.
fn timeline(size: Size, parameters: &Parameters) -> Result<Run> {
    let parameters = parameters.clone();
    fib(size, &Config { mechanism: Mechanism::Flush, parameters, ..Config::default() }, PERIOD)
}

/// The same each `period` cycles; 0: never.
fn fib(size: Size, config: &Config, period: u64) -> Result<Run> {
    let fib = workload::find("fib").expect("it is there");
    let file = runs::program(fib, size, Points::Nothing, &[])?;
    let when = if period == 0 { When::ByProgram } else { When::Every(period) };
    let config = Config { source: Source::Uipi, when, ..config.clone() };
    Ok(runs::finish(runs::core(&file, &[], &config)?)?.0)
}

/// How long a SENDUIPI has renaming stand still because a uop serialises, and how long it takes:
/// what as many again in a loop take more.
fn senduipi() -> Result<[f64; 2]> {
    const SENDS: u32 = 1000;
    let run = |sends: u32| {
        let sends = format!("-DSENDS={sends}");
        let file = runs::program(&workload::UINTR, Size::Quick, Points::Nothing, &[&sends])?;
        let config = Config { mechanism: Mechanism::Flush, ..Config::default() };
        let run = runs::finish(runs::core(&file, &[], &config)?)?.0;
        Ok::<_, anyhow::Error>([run.stalls.serialize, run.cycles])
    };
    let (once, twice) = (run(SENDS)?, run(2 * SENDS)?);
    Ok([0, 1].map(|i| (twice[i] - once[i]) as f64 / f64::from(SENDS)))
}

/// How something depends on the number of interrupts: a line's slope, and how well it describes
/// that.
#[derive(Clone, Copy, Debug)]
struct Fit {
    each: f64,
    r2: f64,
}

/// The paper's second experiment (3.5): uops that interrupts squash by how many these are, for each
/// way; the same of all squashed uops; and a chart of the former.
fn squashes(size: Size) -> Result<([[Fit; 2]; 3], String)> {
    let wanted: Vec<(usize, u64)> =
        (0..WAYS.len()).flat_map(|way| PERIODS.map(|period| (way, period))).collect();
    let name = |&(way, period): &(usize, u64)| format!("{}, each {period} cycles", WAYS[way].0);
    let runs = jobs::all(&wanted, name, |&(way, period)| {
        fib(size, &Config { mechanism: WAYS[way].1, ..Config::default() }, period)
    })?;
    let points = |way: usize, of: fn(&Run) -> u64| -> Vec<(f64, f64)> {
        let runs = &runs[way * PERIODS.len()..][..PERIODS.len()];
        runs.iter().map(|run| (run.interrupts as f64, of(run) as f64)).collect()
    };
    let by_interrupts = |run: &Run| run.squashed_by_interrupts;
    let curve = |way: usize| {
        let (name, points) = (WAYS[way].0.to_owned(), points(way, by_interrupts));
        Curve { name, colour: way, line: Line::Thick, points }
    };
    let chart = Chart {
        title: "uops that interrupts squash",
        x: "interrupts",
        y: "uops",
        log: false,
        label: number,
        limit: None,
    };
    let fits = [0, 1, 2]
        .map(|way| [line(&points(way, by_interrupts)), line(&points(way, |run| run.squashed))]);
    Ok((fits, chart.draw(&[0, 1, 2].map(curve))?))
}

/// The line that describes points best.
fn line(points: &[(f64, f64)]) -> Fit {
    let count = points.len() as f64;
    let mean = |of: &dyn Fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
    let (x, y) = (mean(&|p| p.0), mean(&|p| p.1));
    let (both, xs) = (mean(&|p| (p.0 - x) * (p.1 - y)), mean(&|p| (p.0 - x).powi(2)));
    let ys = mean(&|p| (p.1 - y).powi(2));
    Fit { each: both / xs, r2: both.powi(2) / (xs * ys) }
}

/// The paper's first experiment (3.5): how long interrupts take while pointers are chased: a chart,
/// and by way and distance.
fn chase(quick: bool) -> Result<(String, Vec<Vec<f64>>)> {
    let nodes = if quick { &FEW[..] } else { &NODES[..] };
    let name = |&(way, nodes): &(usize, u32)| format!("{}, {nodes} lines", WAYS[way].0);
    let wanted: Vec<(usize, u32)> =
        (0..WAYS.len()).flat_map(|way| nodes.iter().map(move |&n| (way, n))).collect();
    let runs =
        jobs::all(&wanted, name, |&(way, nodes)| Ok(chased(WAYS[way].1, nodes)?.latency.handler))?;
    let latencies: Vec<Vec<f64>> = runs.chunks(nodes.len()).map(<[f64]>::to_vec).collect();
    let curves: Vec<Curve> = WAYS
        .iter()
        .zip(&latencies)
        .enumerate()
        .map(|(colour, ((name, _), of))| {
            let points = nodes.iter().map(|&n| (f64::from(n) / 16.0).log2()).zip(of.clone());
            let points = points.collect();
            Curve { name: (*name).to_owned(), colour, line: Line::Thick, points }
        })
        .collect();
    let chart = Chart {
        title: "from an interrupt's arrival to its handler",
        x: "chased memory, log2 of KiB",
        y: "cycles",
        log: false,
        label: number,
        limit: None,
    };
    Ok((chart.draw(&curves)?, latencies))
}

fn chased(mechanism: Mechanism, nodes: u32) -> Result<Run> {
    let chase = workload::find("chase").expect("it is there");
    let nodes = format!("-DNODES={nodes}");
    let file = runs::program(chase, Size::Quick, Points::Nothing, &[&nodes])?;
    let config = Config { mechanism, when: When::ByDevice, ..Config::default() };
    let mut core = runs::core(&file, &[], &config)?;
    let door = runs::symbol(&file, "quaver_door")?;
    core.attach(Ticker::new(door, PERIOD, |port| port.interrupt(quaver_uarch::core::VECTOR)));
    let run = runs::finish(core)?.0;
    anyhow::ensure!(run.interrupts > 10, "only {} interrupts", run.interrupts);
    Ok(run)
}

/// Cycles until the handler of an interrupt that arrives when 50 dependent loads have just been
/// fetched, and the stack pointer depends on the last.
fn worst_case(mechanism: Mechanism) -> Result<f64> {
    const LOADS: u64 = 50;
    const CODE: u64 = 0x40_0000;
    const DATA: u64 = 0x1000_0000;
    const APART: u64 = 3 * 4096 + 64;
    // mov rax, DATA; mov rax, [rax] ...; and rax, 0; add rsp, rax; xor edi, edi; mov eax, 60;
    // syscall
    let mut code = vec![0x48, 0xb8];
    code.extend(DATA.to_le_bytes());
    for _ in 0..LOADS {
        code.extend([0x48, 0x8b, 0x00]);
    }
    code.extend([0x48, 0x83, 0xe0, 0x00, 0x48, 0x01, 0xc4]);
    code.extend([0x90].repeat(64));
    code.extend([0x31, 0xff, 0xb8, 60, 0, 0, 0, 0x0f, 0x05]);
    let run = |when| {
        let mut machine = Machine::with_code(CODE, &code);
        machine.memory.map(DATA, (LOADS + 1) * APART, Rights::RW);
        for i in 0..LOADS {
            let at = DATA + i * APART;
            machine.memory.poke(at, &(at + APART).to_le_bytes());
        }
        let config = Config { mechanism, when, ..Config::default() };
        Ok::<Run, anyhow::Error>(Core::new(machine, &config).run()?)
    };
    let mut worst = 0;
    // When the loads are fetched depends on when the code has come from memory.
    for cycle in (0..2000).step_by(20) {
        let run = run(When::At(cycle))?;
        worst = worst.max(run.latency.handler_max);
    }
    Ok(worst as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_how_well_it_fits() {
        let of = |ys: [f64; 4]| line(&[0.0, 1.0, 2.0, 3.0].into_iter().zip(ys).collect::<Vec<_>>());
        let exact = of([5.0, 7.0, 9.0, 11.0]);
        assert!((exact.each - 2.0).abs() < 1e-9 && (exact.r2 - 1.0).abs() < 1e-9, "{exact:?}");
        assert!(of([0.0, 9.0, 9.0, 0.0]).r2 < 0.01);
    }

    #[test]
    fn the_worst_case_is_that_of_tracking_only() {
        let [flush, tracked] =
            [Mechanism::Flush, Mechanism::Tracked].map(|way| worst_case(way).unwrap());
        let p = Parameters::default().memory;
        let chain = 50 * (p.third.latency + p.dram);
        assert!(tracked > 0.9 * chain as f64, "{tracked}");
        assert!(flush < 0.15 * tracked, "{flush} and {tracked}");
    }
}
