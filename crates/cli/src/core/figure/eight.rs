//! Fig. 8: a router's core with polling and with device interrupts: what goes to packets, and what
//! is free.
//!
//! As the artifact does, time is told apart by the router: looks at the cards' rings that brought
//! packets, with what was done with these; looks that found nothing; and turns of other work. The
//! rest are interrupts.

use std::sync::PoisonError;

use anyhow::Result;
use quaver_uarch::core::{Config, Mechanism, Parameters, When};
use quaver_uarch::workload::{self, Points, Size};

use super::jobs;
use super::nic::{Cards, Spent};
use super::paper::{Fig8, Paper};
use super::rows::{Report, Row};
use super::runs;
use crate::chart::{Chart, Curve, Line, number};

/// Cycles of a point.
const WINDOW: [u64; 2] = [4_000_000, 400_000];

/// What a point should be within of the artifact's, in percentage points.
const AIM: f64 = 5.0;

/// The load that the paper's text has.
const TOLD: u32 = 40;
/// By cards, of the artifact's cycles with interrupts at this load, those of looks that found
/// nothing: `Poll cycles` in its `l3/latencies/latencyl3*GbpsTrack0PCI5Trials*Nics.txt`.
const THEIR_NOTHING: [(u32, f64); 2] = [(1, 14_059_881.0), (8, 31_935_741.0)];
/// What a miss takes in the artifact, in cycles: 7000 for a chain of 50 (6.1). It has no
/// third-level cache, and its cards write to memory.
const THEIR_MISS: u64 = 140;

/// A run: number of cards, mean cycles between packets in thousandths, interrupts, the artifact's
/// memory.
type Job = (u32, u64, bool, bool);

/// What a run says.
#[derive(Clone, Copy, Debug)]
struct Counts {
    spent: Spent,
    worked: u64,
    entries: u64,
    forwarded: u64,
}

/// Percent of a core.
#[derive(Clone, Copy, Debug)]
struct Shares {
    packets: f64,
    free: f64,
    nothing: f64,
    interrupts: f64,
}

impl Counts {
    fn shares(&self) -> Shares {
        let share = |cycles: u64| 100.0 * cycles as f64 / self.spent.all.max(1) as f64;
        let [packets, free, nothing] =
            [self.spent.packets, self.worked, self.spent.nothing].map(share);
        Shares { packets, free, nothing, interrupts: 100.0 - packets - free - nothing }
    }

    fn cycles_each(&self) -> f64 {
        self.spent.packets as f64 / self.forwarded.max(1) as f64
    }
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
        (point.nics, apart, point.mode == "xui", false)
    };
    let told = THEIR_NOTHING.map(|(nics, _)| {
        let told = points.iter().find(|p| (p.nics, p.load, &*p.mode) == (nics, TOLD, "xui"));
        *told.expect("it is in the artifact")
    });
    let theirs = (job(told[0]).0, job(told[0]).1, true, true);
    let mut wanted: Vec<Job> = points.iter().map(|point| job(point)).chain([theirs]).collect();
    wanted.sort_unstable();
    wanted.dedup();
    let name = |&(nics, apart, xui, theirs): &Job| {
        let how = if xui { "interrupts" } else { "polling" };
        let memory = if theirs { ", the artifact's memory" } else { "" };
        format!("{nics} cards, {how}, {} cycles a packet{memory}", apart / 1000)
    };
    let runs = jobs::all(&wanted, name, |job| run(job, window))?;
    let of = |job: Job| runs[wanted.iter().position(|known| *known == job).expect("it was run")];
    let shares = |point: &Fig8| of(job(point)).shares();

    let mut rows = Vec::new();
    let (mut near, mut free, mut packets) = (0, 0, 0);
    for point in &points {
        let ours = shares(point);
        let name = format!("{} cards/{} %/{}", point.nics, point.load, point.mode);
        let other = [100.0 - point.networking - point.free, ours.nothing + ours.interrupts];
        let mut three = [
            Row::new(format!("{name}/networking"), "%", point.networking, ours.packets),
            Row::new(format!("{name}/free"), "%", point.free, ours.free),
            Row::new(format!("{name}/other"), "%", other[0], other[1]),
        ];
        if std::ptr::eq(*point, told[0]) {
            let [row, _, last] = &mut three;
            row.why = why_packets(&of(job(point)), &of(theirs), point, &paper);
            last.why = why_other(&told.map(|point| of(job(point))), &told, &paper);
        }
        rows.extend(three);
        let within = |ours: f64, theirs: f64| (ours - theirs).abs() <= AIM;
        let [p, f] = [within(ours.packets, point.networking), within(ours.free, point.free)];
        packets += usize::from(p);
        free += usize::from(f);
        near += usize::from(p && f);
    }
    let notes = vec![
        format!(
            "{near} of {} configurations have both shares within {AIM} percentage points: that of \
             packets {packets}, the free one {free}",
            points.len(),
        ),
        "packets come as often as in the artifact, at random, and each interrupts, as there; the \
         handler looks at all cards until none has a packet (6.2.2)"
            .into(),
        "other: looks at rings that find nothing, and interrupts".into(),
    ];
    let mut nics: Vec<u32> = points.iter().map(|point| point.nics).collect();
    nics.dedup();
    let chart = |&cards: &u32| {
        let curve = |colour, name: &str, line, value: &dyn Fn(&Fig8) -> f64| {
            let points = points.iter().filter(|p| p.nics == cards && p.mode == "xui");
            let points = points.map(|point| (f64::from(point.load), value(point))).collect();
            Curve { name: name.to_owned(), colour, line, points }
        };
        let curves = [
            curve(0, "free", Line::Thick, &|point| shares(point).free),
            curve(0, "free (paper)", Line::Dashed, &|point| point.free),
            curve(1, "packets", Line::Thick, &|point| shares(point).packets),
            curve(1, "packets (paper)", Line::Dashed, &|point| point.networking),
            curve(2, "looks that find nothing", Line::Thick, &|point| shares(point).nothing),
            curve(3, "interrupts", Line::Thick, &|point| shares(point).interrupts),
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

/// Why packets take another share than in the artifact.
fn why_packets(ours: &Counts, with_theirs: &Counts, point: &Fig8, paper: &Paper) -> String {
    let each = point.networking / 100.0 * paper.fig8_window_cycles / point.packets as f64;
    format!(
        "a packet takes {:.0} cycles here, {:.0} with the artifact's memory (a miss takes \
         {THEIR_MISS} cycles, and cards write past the caches), and {each:.0} there. The rest is \
         not known, the artifact's router is not published; what ours does not have are the \
         layers of DPDK's library, and registers of cards for which a store waits",
        ours.cycles_each(),
        with_theirs.cycles_each(),
    )
}

/// Why less goes to neither packets nor other work; with one card and with more.
fn why_other(ours: &[Counts; 2], theirs: &[&Fig8; 2], paper: &Paper) -> String {
    // Cycles a packet: with one card, and for each further one.
    let parts = |nothing: [f64; 2]| {
        let more = f64::from(THEIR_NOTHING[1].0 - THEIR_NOTHING[0].0);
        (nothing[0], (nothing[1] - nothing[0]) / more)
    };
    let (here, here_more) =
        parts(ours.map(|run| run.spent.nothing as f64 / run.forwarded.max(1) as f64));
    let (there, there_more) = parts([0, 1].map(|i| THEIR_NOTHING[i].1 / theirs[i].packets as f64));
    let share = 100.0 * THEIR_NOTHING[0].1 / paper.fig8_window_cycles;
    let entered = ours[0].entries as f64 / ours[0].forwarded.max(1) as f64;
    let ours = ours[0].shares();
    format!(
        "interrupts are {:.1} % here, {:.2} a packet, and {:.1} % in the artifact; looks that find \
         nothing {:.1} and {share:.1} %: {here:.0} and {there:.0} cycles a packet. Each further \
         card adds {here_more:.0} and {there_more:.0}, which is what a look costs; the other \
         {:.0} there come with each packet, whatever the cards. The artifact's card interrupts \
         when a packet is on its way to memory, and ours when it is there",
        ours.interrupts,
        entered,
        100.0 - theirs[0].networking - theirs[0].free - share,
        ours.nothing,
        there - there_more,
    )
}

fn run(&(nics, apart, xui, theirs): &Job, window: u64) -> Result<Counts> {
    let more = [format!("-DQUEUES={nics}"), format!("-DMODE={}", u8::from(xui))];
    let more: Vec<&str> = more.iter().map(String::as_str).collect();
    let file = runs::program(&workload::ROUTER, Size::Quick, Points::Nothing, &more)?;
    let mechanism = if xui { Mechanism::Tracked } else { Mechanism::None };
    let mut parameters = Parameters::default();
    if theirs {
        (parameters.memory.third.latency, parameters.memory.dram) = (THEIR_MISS, 0);
    }
    let config = Config { mechanism, when: When::ByProgram, parameters, ..Config::default() };
    let mut core = runs::core(&file, &[], &config)?;
    let mut places = [0; 3];
    for (place, name) in places.iter_mut().zip(["quaver_door", "quaver_rings", "quaver_end"]) {
        *place = runs::symbol(&file, name)?;
    }
    let (cards, spent) = Cards::new(nics, places, apart as f64 / 1000.0, window);
    core.attach(cards);
    let (_, lines) = runs::finish(core)?;
    let said = |name| runs::said(&lines, name);
    let spent = *spent.lock().unwrap_or_else(PoisonError::into_inner);
    anyhow::ensure!(spent.all >= window, "the router has ended after {} cycles", spent.all);
    Ok(Counts {
        spent,
        worked: said("worked")?,
        entries: said("entries")?,
        forwarded: said("forwarded")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All cycles are somebody's, and none are two's.
    #[test]
    fn shares_are_a_whole_for_all_numbers_of_cards() {
        if std::process::Command::new("gcc").arg("--version").output().is_err() {
            println!("skipped: there is no gcc");
            return;
        }
        for nics in [1, 4, 8] {
            for apart in [1_800_000, 500_000] {
                let [polls, interrupts] =
                    [false, true].map(|xui| run(&(nics, apart, xui, false), 60_000).unwrap());
                let (polled, shares) = (polls.shares(), interrupts.shares());
                assert!(polled.interrupts.abs() < 0.5 && polled.free == 0.0, "{polls:?}");
                assert!(polled.packets > 1.0 && polled.nothing > 1.0, "{polls:?}");
                let sum = shares.packets + shares.free + shares.nothing;
                assert!(sum < 100.0 && shares.free < 99.0, "{nics} cards: {interrupts:?}");
                // What remains is what the handlers' entries and returns cost.
                let each = shares.interrupts / 100.0 * interrupts.spent.all as f64
                    / interrupts.entries as f64;
                assert!((10.0..400.0).contains(&each), "{nics} cards: {each} of {interrupts:?}");
                assert!(interrupts.entries <= interrupts.forwarded + 1, "{interrupts:?}");
            }
        }
    }
}
