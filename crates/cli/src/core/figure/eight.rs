//! Fig. 8: a router's core with polling and with device interrupts: what goes to packets, and what
//! is free.
//!
//! As the artifact does, time is told apart by counting: turns of the loop that finds nothing,
//! whose cost is known from a run without packets; and turns of other work. The rest are packets,
//! or interrupts.

use anyhow::Result;
use quaver_uarch::core::{Config, Mechanism, When};
use quaver_uarch::workload::{self, Points, Size};

use super::jobs;
use super::nic::Cards;
use super::paper::{Fig8, Paper};
use super::rows::{Report, Row};
use super::runs;
use crate::chart::{Chart, Curve, Line, number};

/// Cycles of a point.
const WINDOW: [u64; 2] = [4_000_000, 400_000];

/// What a point should be within of the artifact's, in percentage points.
const AIM: f64 = 5.0;

/// A run: number of cards, mean cycles between packets in thousandths, interrupts.
type Job = (u32, u64, bool);

/// What a run says.
#[derive(Clone, Copy)]
struct Counts {
    worked: f64,
    polls: f64,
    forwarded: f64,
}

/// Computes the figure.
///
/// # Errors
///
/// A program cannot be built or run.
pub fn compute(quick: bool) -> Result<Report> {
    let paper = Paper::carried();
    let window = WINDOW[usize::from(quick)];
    let chosen = |point: &&Fig8| !quick || [0, 40].contains(&point.load);
    let points: Vec<&Fig8> = paper.fig8.iter().filter(chosen).collect();
    let job = |point: &Fig8| {
        let apart = paper.fig8_window_cycles / point.packets.max(1) as f64;
        let apart = if point.packets == 0 { 0 } else { (apart * 1000.0) as u64 };
        (point.nics, apart, point.mode == "xui")
    };
    let mut wanted: Vec<Job> = points.iter().map(|point| job(point)).collect();
    let mut nics: Vec<u32> = points.iter().map(|point| point.nics).collect();
    nics.dedup();
    // What a turn without packets costs, and what a packet costs if nothing else is done.
    wanted.extend(nics.iter().map(|&nics| (nics, 0, false)));
    wanted.extend(points.iter().filter(|point| point.packets > 0).map(|point| {
        let (nics, apart, _) = job(point);
        (nics, apart, false)
    }));
    wanted.sort_unstable();
    wanted.dedup();
    let name = |&(nics, apart, xui): &Job| {
        let how = if xui { "interrupts" } else { "polling" };
        format!("{nics} cards, {how}, {} cycles a packet", apart / 1000)
    };
    let runs = jobs::all(&wanted, name, |job| run(job, window))?;
    let of = |job: Job| runs[wanted.iter().position(|known| *known == job).expect("it was run")];

    let total = window as f64;
    let turn = |nics| total / of((nics, 0, false)).polls;
    // Percent that packets take, and that is free.
    let shares = |point: &Fig8| {
        let (nics, apart, xui) = job(point);
        let polled = of((nics, apart, false));
        let packets = 100.0 * (1.0 - polled.polls * turn(nics) / total).max(0.0);
        if !xui {
            return (packets, 0.0);
        }
        let with = of((nics, apart, true));
        let each = packets / polled.forwarded.max(1.0);
        (each * with.forwarded, 100.0 * with.worked / total)
    };
    let mut rows = Vec::new();
    let mut near = 0;
    for point in &points {
        let (networking, free) = shares(point);
        let name = format!("{} cards/{} %/{}", point.nics, point.load, point.mode);
        rows.push(Row::new(format!("{name}/networking"), "%", point.networking, networking));
        rows.push(Row::new(format!("{name}/free"), "%", point.free, free));
        let within = |ours: f64, theirs: f64| (ours - theirs).abs() <= AIM;
        near += usize::from(within(networking, point.networking) && within(free, point.free));
    }
    let busy = points.iter().filter(|point| point.mode == "poll" && point.packets > 0);
    let cycles =
        |share: f64, point: &Fig8| share / 100.0 * paper.fig8_window_cycles / point.packets as f64;
    let each: Vec<(f64, f64)> = busy
        .map(|point| (cycles(point.networking, point), cycles(shares(point).0, point)))
        .collect();
    let mean = |of: &dyn Fn(&(f64, f64)) -> f64| {
        each.iter().map(of).sum::<f64>() / each.len().max(1) as f64
    };
    let notes = vec![
        format!(
            "{near} of {} configurations have both shares within {AIM} percentage points",
            points.len()
        ),
        format!(
            "packets come as often as in the artifact, at random; one takes {:.0} cycles here and \
             {:.0} there: our router has the table, rings and buffers of DPDK's, and none of its \
             other layers, and the cards write to the third-level cache",
            mean(&|(_, ours)| *ours),
            mean(&|(theirs, _)| *theirs)
        ),
        "with interrupts, a packet is taken to cost what it costs with polling; what is then \
         neither free nor packets are interrupts"
            .into(),
    ];
    let chart = |&cards: &u32| {
        let curve = |colour, name: &str, line, value: &dyn Fn(&Fig8) -> f64| {
            let points = points.iter().filter(|p| p.nics == cards && p.mode == "xui");
            let points = points.map(|point| (f64::from(point.load), value(point))).collect();
            Curve { name: name.to_owned(), colour, line, points }
        };
        let curves = [
            curve(0, "free", Line::Thick, &|point| shares(point).1),
            curve(0, "free (paper)", Line::Dashed, &|point| point.free),
            curve(1, "packets", Line::Thick, &|point| shares(point).0),
            curve(1, "packets (paper)", Line::Dashed, &|point| point.networking),
        ];
        let title = format!("{cards} network cards, interrupts");
        let (x, y) = ("load, %", "% of the core");
        Chart { title: &title, x, y, log: false, label: number, limit: None }.draw(&curves)
    };
    let charts = nics.iter().map(chart).collect::<Result<_>>()?;
    Ok(Report {
        version: env!("CARGO_PKG_VERSION"),
        figure: "figure 8".into(),
        title: "a router with polling and with device interrupts",
        quick,
        rows,
        summary: Vec::new(),
        notes,
        charts,
    })
}

fn run(&(nics, apart, xui): &Job, window: u64) -> Result<Counts> {
    let more = [format!("-DQUEUES={nics}"), format!("-DMODE={}", u8::from(xui))];
    let more: Vec<&str> = more.iter().map(String::as_str).collect();
    let file = runs::program(&workload::ROUTER, Size::Quick, Points::Nothing, &more)?;
    let mechanism = if xui { Mechanism::Tracked } else { Mechanism::None };
    let config = Config { mechanism, when: When::ByProgram, ..Config::default() };
    let mut core = runs::core(&file, &[], &config)?;
    let mut places = [0; 3];
    for (place, name) in places.iter_mut().zip(["quaver_door", "quaver_rings", "quaver_end"]) {
        *place = runs::symbol(&file, name)?;
    }
    core.attach(Cards::new(nics, places, apart as f64 / 1000.0, window));
    let (_, lines) = runs::finish(core)?;
    let said = |name| Ok::<f64, anyhow::Error>(runs::said(&lines, name)? as f64);
    Ok(Counts { worked: said("worked")?, polls: said("polls")?, forwarded: said("forwarded")? })
}
