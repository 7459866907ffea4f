//! Fig. 6: what a timer costs that a core keeps for the others: it spins on the time-stamp counter,
//! or the kernel wakes it, and it sends a user interrupt to each.

use anyhow::{Context, Result};
use quaver_uarch::core::{Config, Device as _, Mechanism, Parameters};
use quaver_uarch::workload::{self, Points, Size};
use quaver_uarch::{Machine, System};

use super::jobs;
use super::paper::Paper;
use super::rows::{Report, Row};
use super::runs::{self, Ticker};
use crate::chart::{Chart, Curve, Line, number};

/// Receivers of the curves.
const RECEIVERS: [u32; 7] = [1, 4, 8, 12, 16, 20, 24];
/// Microseconds between interrupts.
const INTERVALS: [u32; 3] = [5, 10, 25];
/// How the kernel wakes a timer core, in the order of the program's modes.
const TIMERS: [&str; 2] = ["nanosleep", "setitimer"];

/// Computes the figure.
///
/// # Errors
///
/// A program cannot be built or run.
pub fn compute(quick: bool) -> Result<Report> {
    let paper = Paper::carried().fig6_text;
    let size = if quick { Size::Quick } else { Size::Full };
    let parameters = Parameters::default();
    let period = parameters.cycles(5.0);
    let name = |n: &u32| format!("{n} receivers");
    let busy = jobs::all(&RECEIVERS, name, |&n| Ok(turn(n, 4 * period, size)?.0))?;

    // The most that are sent to in time: each turn ends before the next deadline.
    let (mut low, mut high) = (1, 64);
    while high - low > 1 {
        let middle = u32::midpoint(low, high);
        let late = turn(middle, period, size)?.1;
        (low, high) = if late { (low, middle) } else { (middle, high) };
    }
    let workers = f64::from(low);
    let (most, more) = (turn(low, period, size)?.0, turn(low + 1, period, size)?.0);
    let theirs = |workers: f64| period as f64 / workers;
    let most_of_theirs = paper["workers-5us"];
    let why = format!(
        "a turn for {low} takes {most:.0} of {period} cycles, {:.0} for each, and one for {} \
         {more:.0}, too often more than {period}. The paper's {most_of_theirs} mean {:.0} to {:.0} \
         for each: {:.0} or more beyond the 383 of its SENDUIPI go to the rest of its loop and to \
         UPIDs that lie elsewhere, which it does not tell apart",
        most / workers,
        low + 1,
        theirs(most_of_theirs + 1.0),
        theirs(most_of_theirs),
        theirs(most_of_theirs + 1.0) - 383.0,
    );
    let woken = jobs::all(&[0, 1], |mode| TIMERS[*mode].to_owned(), |&mode| woken(mode, size))?;
    let (first, last) = (busy[0], busy[busy.len() - 1]);
    let span = f64::from(RECEIVERS[RECEIVERS.len() - 1] - RECEIVERS[0]);
    let each = (last - first) / span;
    let rows = vec![
        Row::new("workers at 5us", "workers", most_of_theirs, workers).because(why),
        Row::new("gain without the timer core", "%", paper["gain-percent-22"], 100.0 / workers),
    ];
    let notes = vec![
        format!(
            "a receiver costs the timer core {each:.0} cycles each time: SENDUIPI, and {} of them \
             because its UPID is in the receiver's cache",
            parameters.interrupt.remote_line
        ),
        format!(
            "to be woken costs {:.0} cycles each time by nanosleep and {:.0} by setitimer, on the \
             model's kernel",
            woken[0], woken[1]
        ),
        "with the KB timer the core is free: each core has its own (xUI 4.3)".into(),
    ];
    let mut curves = Vec::new();
    for (colour, &us) in INTERVALS.iter().enumerate() {
        let interval = f64::from(us) * 1e-6 * parameters.frequency as f64;
        for (line, what, more) in [
            (Line::Thick, TIMERS[1], woken[1]),
            (Line::Thin, TIMERS[0], woken[0]),
            (Line::Dashed, "sending alone", 0.0),
        ] {
            let use_of = |busy: f64| (100.0 * (busy + more) / interval).min(100.0);
            let points = RECEIVERS.iter().zip(&busy);
            let points = points.map(|(&n, &busy)| (f64::from(n), use_of(busy))).collect();
            curves.push(Curve { name: format!("{us} µs, {what}"), colour, line, points });
        }
    }
    let chart = Chart {
        title: "the timer core's use",
        x: "cores that are interrupted",
        y: "%",
        log: false,
        label: number,
        limit: None,
    };
    Ok(Report {
        version: env!("CARGO_PKG_VERSION"),
        figure: "figure 6".into(),
        title: "a core that keeps time for others",
        quick,
        rows,
        summary: Vec::new(),
        notes,
        charts: vec![chart.draw(&curves)?],
    })
}

/// Cycles that a core is busy each time that the kernel wakes its thread.
fn woken(mode: usize, size: Size) -> Result<f64> {
    let mode = format!("-DMODE={mode}");
    let file = runs::program(&workload::TICKS, size, Points::Nothing, &[&mode])?;
    let config = Config { mechanism: Mechanism::Flush, ..Config::default() };
    let machine = Machine::with_program(&file, &["ticks"])?;
    let run = System::new(machine, &config, 1, u64::MAX / 2).run()?;
    anyhow::ensure!(run.status == 0, "the program has ended with status {}", run.status);
    let core = &run.cores[0];
    // The first switch is the program's begin.
    let times = core.switches.saturating_sub(1).max(1);
    Ok((run.cycles - core.idle) as f64 / times as f64)
}

/// Cycles that a turn of `receivers` takes, and whether turns were late.
fn turn(receivers: u32, period: u64, size: Size) -> Result<(f64, bool)> {
    let more = [format!("-DRECEIVERS={receivers}"), format!("-DPERIOD={period}")];
    let more: Vec<&str> = more.iter().map(String::as_str).collect();
    let file = runs::program(&workload::TIMER_CORE, size, Points::Nothing, &more)?;
    let config = Config { mechanism: Mechanism::Flush, ..Config::default() };
    let mut core = runs::core(&file, &[], &config)?;
    let upids = runs::symbol(&file, "quaver_upids")?;
    let door = runs::symbol(&file, "quaver_door")?;
    // The receivers take what was sent: often enough, and no more often than they would.
    let taker = Ticker::new(door, period / 16, move |port| {
        for upid in (0..receivers).map(|i| upids + 64 * u64::from(i)) {
            let header = port.read(upid);
            if header & quaver_uarch::uintr::ON != 0 {
                port.write_elsewhere(upid, header & !quaver_uarch::uintr::ON);
            }
        }
    });
    debug_assert_eq!(taker.next(), u64::MAX);
    core.attach(taker);
    let (_, lines) = runs::finish(core).with_context(|| format!("{receivers} receivers"))?;
    let busy = runs::said(&lines, "busy")? as f64;
    // The first turns are slow: nothing is in the caches.
    Ok((busy, runs::said(&lines, "late")? > 3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_costs_more_than_a_sleep() {
        if std::process::Command::new("gcc").arg("--version").output().is_err() {
            println!("skipped: there is no gcc");
            return;
        }
        let p = Parameters::default().kernel;
        let [sleep, signal] = [0, 1].map(|mode| woken(mode, Size::Quick).unwrap());
        assert!(sleep > (p.trap + 2 * p.switch) as f64, "{sleep}");
        assert!(signal > sleep + 0.8 * p.alarm as f64, "{signal} and {sleep}");
    }

    #[test]
    fn a_turn_takes_longer_for_more_receivers_and_is_late_for_too_many() {
        if std::process::Command::new("gcc").arg("--version").output().is_err() {
            println!("skipped: there is no gcc");
            return;
        }
        let turns = [2, 8].map(|n| turn(n, 10_000, Size::Quick).unwrap());
        assert!(turns[1].0 > 3.0 * turns[0].0, "{turns:?}");
        assert!(!turns[0].1 && turn(60, 10_000, Size::Quick).unwrap().1);
    }
}
