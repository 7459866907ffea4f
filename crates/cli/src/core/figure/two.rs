//! Fig. 2 and what belongs to it: the steps of a user interrupt, whether the processor flushes or
//! drains (3.5), and how long tracked interrupts may take at worst (6.1).

use anyhow::Result;
use quaver_uarch::Machine;
use quaver_uarch::core::{Config, Core, Mechanism, Parameters, Report as Run, Source, When};
use quaver_uarch::memory::Rights;
use quaver_uarch::workload::{self, Points, Size};

use super::jobs;
use super::paper::Paper;
use super::rows::{Report, Row};
use super::runs::{self, Ticker};
use crate::chart::{Chart, Curve, Line, number};

/// Lines of the pointer chase: from the first-level cache to the third.
const NODES: [u32; 6] = [64, 256, 1024, 8192, 32768, 65536];
const FEW: [u32; 3] = [64, 1024, 8192];

const WAYS: [(&str, Mechanism); 3] =
    [("flush", Mechanism::Flush), ("drain", Mechanism::Drain), ("tracked", Mechanism::Tracked)];

/// Cycles between interrupts while pointers are chased.
const PERIOD: u64 = 6007;

/// Computes the figure.
///
/// # Errors
///
/// A program cannot be built or run.
pub fn compute(quick: bool) -> Result<Report> {
    let paper = Paper::carried();
    let given = &paper.fig2_cycles;
    let size = if quick { Size::Quick } else { Size::Full };
    let steps = timeline(size)?.steps;
    let p = Parameters::default();
    let serialise = p.microcode.senduipi.iter().map(|step| step.latency).sum::<u64>();
    let row = |name: &str, ours: f64| Row::new(name, "cycles", given[name], ours);
    let input = |name: &str, ours: u64| Row { fitted: true, ..row(name, ours as f64) };
    let mut rows = vec![
        input("arrival", p.interrupt.notification_delay),
        row("flush", steps.cleared),
        row("delivery-min", steps.delivery()),
        row("uiret", steps.uiret),
        input("senduipi-stalled", serialise),
    ];

    let (charts, latencies) = chase(quick)?;
    let worst = |mechanism| worst_case(mechanism);
    let (tracked, flush) = (worst(Mechanism::Tracked)?, worst(Mechanism::Flush)?);
    rows.push(Row::new("worst case, tracked", "cycles", paper.worst_case_cycles, tracked));
    let said = |way: usize| {
        let of = &latencies[way];
        let (low, high) = of.iter().fold((f64::MAX, 0f64), |(l, h), &c| (l.min(c), h.max(c)));
        format!("{}: {low:.0} to {high:.0}", WAYS[way].0)
    };
    let notes = vec![
        "arrival and the serialising of senduipi are parameters, from this figure".into(),
        format!(
            "in ours, between the program's last instruction and the first change of the UPID \
             ({:.0} cycles) is also the UPID's way from the sender's core ({}); the paper's \
             observer sits on the same core",
            steps.cleared, p.interrupt.remote_line
        ),
        format!(
            "flush or drain (3.5): mean cycles from an interrupt's arrival to its handler while a \
             program chases pointers, by how far they lie: {}, {}, {}. Only with flushing it does \
             not depend on the program, as the paper saw",
            said(0),
            said(1),
            said(2)
        ),
        format!(
            "worst case: 50 dependent loads from memory, and the stack pointer depends on them; \
             {tracked:.0} cycles tracked, {flush:.0} flushed. A load takes {} cycles here; the \
             paper's 7000 are 140 each",
            p.memory.third.latency + p.memory.dram
        ),
    ];
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

/// A program that is interrupted by UIPI.
fn timeline(size: Size) -> Result<Run> {
    let fib = workload::find("fib").expect("it is there");
    let file = runs::program(fib, size, Points::Nothing, &[])?;
    let config = Config {
        mechanism: Mechanism::Flush,
        source: Source::Uipi,
        when: When::Every(PERIOD),
        ..Config::default()
    };
    Ok(runs::finish(runs::core(&file, &[], &config)?)?.0)
}

/// How long interrupts take while pointers are chased: a chart, and by way and distance.
fn chase(quick: bool) -> Result<(Vec<String>, Vec<Vec<f64>>)> {
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
    Ok((vec![chart.draw(&curves)?], latencies))
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
    fn the_worst_case_is_that_of_tracking_only() {
        let [flush, tracked] =
            [Mechanism::Flush, Mechanism::Tracked].map(|way| worst_case(way).unwrap());
        let p = Parameters::default().memory;
        let chain = 50 * (p.third.latency + p.dram);
        assert!(tracked > 0.9 * chain as f64, "{tracked}");
        assert!(flush < 0.15 * tracked, "{flush} and {tracked}");
    }
}
