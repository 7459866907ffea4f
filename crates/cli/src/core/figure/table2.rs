//! Table 2: what user interrupts cost as shipped, and their instructions.

use anyhow::Result;
use quaver_uarch::core::{Config, Mechanism, Parameters, Source, When};
use quaver_uarch::workload::{self, Points, Size};

use super::four;
use super::paper::Paper;
use super::rows::{Report, Row};
use super::runs;

/// Computes the table.
///
/// # Errors
///
/// A program cannot be built or run.
pub fn compute(quick: bool) -> Result<Report> {
    let paper = Paper::carried().table2_cycles;
    let size = if quick { Size::Quick } else { Size::Full };
    let [senduipi, clui, stui] = instructions(&Parameters::default(), quick)?;

    let receiver = four::costs(5, quick)?[0];
    let flush = flushed(size)?;
    let begin = Parameters::default().interrupt.notification_delay as f64;
    let row = |name: &str, ours| Row::new(name, "cycles", paper[name], ours);
    let given = |name: &str, ours| Row { fitted: true, ..row(name, ours) };
    let rows = vec![
        row("end-to-end", begin + flush),
        row("receiver", receiver),
        row("senduipi", senduipi),
        given("clui", clui),
        given("stui", stui),
    ];
    let mut notes = vec![
        "clui and stui are parameters of the model; of senduipi, its 57 uops and 279 cycles of \
         serialising"
            .into(),
        format!(
            "end to end: {begin:.0} cycles to the receiver's APIC, a parameter, and {flush:.0} \
             from there to the handler's first instruction, in fib. The steps of the paper's \
             figure 2 add up to 1066: {:.0} of its 1360 cycles are in none of them",
            1360.0 - 1066.0
        ),
        "the receiver's cost is the mean of figure 4 at 5 us; the paper's means there are 645 \
         cycles in its text and 610 in its data, against 720 in this table"
            .into(),
    ];
    if quick {
        notes.push("a look: short programs".into());
    }
    Ok(Report {
        version: env!("CARGO_PKG_VERSION"),
        figure: "table 2".into(),
        title: "user interrupts as shipped",
        quick,
        rows,
        summary: Vec::new(),
        notes,
        charts: Vec::new(),
    })
}

/// What SENDUIPI, CLUI and STUI take, in cycles.
///
/// # Errors
///
/// As [`compute`].
pub fn instructions(parameters: &Parameters, quick: bool) -> Result<[f64; 3]> {
    let size = if quick { Size::Quick } else { Size::Full };
    let timing = runs::program(&workload::UINTR, size, Points::Nothing, &[])?;
    let parameters = parameters.clone();
    // Something must listen, or the timing model leaves interrupts out.
    let config = Config { mechanism: Mechanism::Flush, parameters, ..Config::default() };
    let (_, lines) = runs::finish(runs::core(&timing, &[], &config)?)?;
    let mut cycles = [0.0; 3];
    for (cycles, name) in cycles.iter_mut().zip(["senduipi", "clui", "stui"]) {
        *cycles = runs::said(&lines, name)? as f64 / 100.0;
    }
    Ok(cycles)
}

/// Cycles from an interrupt's arrival at the core to its handler.
fn flushed(size: Size) -> Result<f64> {
    let fib = workload::find("fib").expect("it is there");
    let file = runs::program(fib, size, Points::Nothing, &[])?;
    let parameters = Parameters::default();
    let config = Config {
        mechanism: Mechanism::Flush,
        source: Source::Uipi,
        when: When::Every(parameters.cycles(5.0)),
        parameters,
        ..Config::default()
    };
    Ok(runs::finish(runs::core(&file, &[], &config)?)?.0.latency.handler)
}
