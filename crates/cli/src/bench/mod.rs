//! `quaver bench`: what operations, preemption and scheduling cost, beside other thread libraries.
//!
//! Each benchmark makes a [`Plan`] of [jobs](plan::Job): programs that measure one thing and answer
//! with one line of JSON. The [harness] runs them in turn, the [report] is a table and a JSON
//! document. Benchmarks report; they decide nothing.
//!
//! ```text
//! Name ──> Plan ──> harness ──> process            ──> quaver bench --child WORK   ours, run
//!  plan()            rounds     (pinned, limited)      quaver-bench-peers NAME SPEC
//!                      │                               go-peer SPEC
//!                      └──> rows ──> Report ──> table, JSON
//! ```
//!
//! Every measurement is a process of its own: settings that hold for a process can vary, nothing is
//! left over from the one before, and one that hangs is killed. What all implementations must do
//! alike is in the crate `quaver-bench-common`; `bench/README.md` explains the numbers.

mod chase;
pub mod child;
mod context;
mod defer;
mod folder;
pub mod harness;
mod kv;
mod l3fwd;
pub mod lock;
mod mixes;
mod net;
mod notify;
mod ops;
mod ours;
mod peers;
mod place;
pub mod plan;
mod preempt;
mod probes;
mod regions;
pub mod report;
mod scale;
mod schbench;
mod servers;
mod settings;
mod share;
#[cfg(feature = "selftest")]
mod shim;
mod short;
mod stall;
pub mod stats;
mod told;
mod wake;

use std::fs;
use std::num::NonZeroUsize;
use std::process::ExitCode;

use anyhow::{Context as _, bail, ensure};
use clap::ValueEnum;
use indicatif::{ProgressBar, ProgressStyle};

use self::context::Context;
use self::harness::Results;
use self::peers::Peers;
use self::place::Place;
use self::plan::{Effort, Plan};
use self::report::Report;
use crate::doctor::detect;
use crate::interrupt::Interrupt;
use crate::output::{self, Target};
use quaver_bench_common::noise::busy;

/// The command line of `quaver bench`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// What to measure
    #[arg(value_enum, default_value = "list")]
    names: Vec<Name>,
    /// Take a look instead of a measurement: fewer rounds, shorter ones, fewer settings
    #[arg(long)]
    quick: bool,
    /// Write the rows and the machine's description as JSON to FILE (`-`: standard output instead
    /// of the table)
    #[arg(long, value_name = "FILE")]
    json: Option<Target>,
    /// How often each implementation is measured
    #[arg(long, value_name = "N")]
    rounds: Option<NonZeroUsize>,
    /// Only implementations whose name contains one of these, e.g. `--only quaver,go`
    #[arg(long, value_name = "TEXT", value_delimiter = ',')]
    only: Vec<String>,
    /// Options of schbench, for `schbench`: e.g. "-m 1 -t 8 -n 10 -F 128 -r 10"
    #[arg(long, value_name = "FLAGS", allow_hyphen_values = true)]
    schbench: Option<schbench::Flags>,
    /// The threads of `preempt`: so many of `scalar`, `avx`, `get`, `scan`
    #[arg(long, value_name = "KIND*N+...")]
    tasks: Option<preempt::Mix>,
    /// Of `probes`: only these programs
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    programs: Vec<String>,
    /// Of `probes`: by these compilers [default: gcc,clang,rustc]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    compilers: Vec<String>,
    /// Of `probes`: only these parts
    #[arg(long, value_enum, value_name = "NAME", value_delimiter = ',')]
    sections: Vec<probes::Section>,
    /// Of `probes`: how much the programs do, from 0.001 to 100; at 1 they take a second or two
    /// [default: 1, with --quick 0.02, among `all` 0.1]
    #[arg(long, value_name = "N", value_parser = probes::parse_scale)]
    scale: Option<f64>,
    #[command(flatten)]
    lock: lock::Choice,
    /// Do the work (JSON) of one measurement and print its outcome
    #[arg(long, value_name = "WORK", hide = true)]
    child: Option<String>,
}

impl Args {
    fn rounds(&self, name: Name) -> usize {
        self.rounds.map_or_else(|| name.rounds(self.quick), NonZeroUsize::get)
    }
}

/// What can be measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Name {
    /// One yield, spawn, lock, hand-off on one core, in CPU time
    Ops,
    /// One preemption with a switch, at quanta from 5 to 200 µs
    Preempt,
    /// What a preemption costs by how registers are saved, beside caches of all sizes
    Chase,
    /// The load that a key-value service bears while GETs stay fast
    Kv,
    /// What a clock costs where no thread outlives its quantum
    Short,
    /// How late sleepers wake beside threads that compute
    Wake,
    /// Memory and time of very many threads; several workers
    Scale,
    /// How often a preemption is put off, and how late it then is
    Defer,
    /// How much longer unmodified programs take under `quaver run`
    #[cfg(feature = "selftest")]
    Shim,
    /// Threads that contend for one lock, by lock
    Lock,
    /// For how long a lock that waits in the kernel keeps a worker from its other threads
    Stall,
    /// How late threads run that others wake, beside threads that compute, by policy
    Schbench,
    /// The papers' mixes of requests, offered to one worker
    Mixes,
    /// Servers over TCP: what a message costs, short requests beside long ones, axum
    Net,
    /// The papers' loads over the network: how much servers bear; Debian's under `quaver run`
    Servers,
    /// Packets by AF_XDP: a router and an endpoint of UDP, beside the kernel's (root)
    L3fwd,
    /// What signals, interrupts of other cores and timers cost who sends and who receives them
    Notify,
    /// A latency-critical server beside a best-effort program on its CPU, by `quaver share` and the
    /// kernel's classes
    Share,
    /// How often programs call what must not be left in the middle
    Regions,
    /// What probes in 24 programs cost while nobody waits, and when they are taken
    Probes,
    /// All of these
    All,
    /// Say what can be measured, and with what
    List,
}

impl Name {
    const BENCHMARKS: &[Name] = &[
        Name::Ops,
        Name::Preempt,
        Name::Chase,
        Name::Short,
        Name::Kv,
        Name::Wake,
        Name::Scale,
        Name::Defer,
        Name::Stall,
        Name::Lock,
        #[cfg(feature = "selftest")]
        Name::Shim,
        Name::Schbench,
        Name::Mixes,
        Name::Net,
        Name::Servers,
        Name::L3fwd,
        Name::Notify,
        Name::Share,
        Name::Regions,
        Name::Probes,
    ];

    fn text(self) -> &'static str {
        match self {
            Name::Ops => "ops",
            Name::Preempt => "preempt",
            Name::Chase => "chase",
            Name::Short => "short",
            Name::Kv => "kv",
            Name::Wake => "wake",
            Name::Scale => "scale",
            Name::Defer => "defer",
            #[cfg(feature = "selftest")]
            Name::Shim => "shim",
            Name::Stall => "stall",
            Name::Lock => "lock",
            Name::Schbench => "schbench",
            Name::Mixes => "mixes",
            Name::Net => "net",
            Name::Servers => "servers",
            Name::L3fwd => "l3fwd",
            Name::Notify => "notify",
            Name::Share => "share",
            Name::Regions => "regions",
            Name::Probes => "probes",
            Name::All => "all",
            Name::List => "list",
        }
    }

    /// What to do, and of how many rounds one is enough for that.
    fn stages(self, context: &Context, args: &Args) -> anyhow::Result<Vec<(Plan, usize)>> {
        // Everything together should not take all day.
        let in_passing = (args.names.contains(&Name::All) && !args.quick).then_some(0.1);
        match self {
            Name::Probes => probes::stages(
                context,
                &probes::Choice {
                    programs: &args.programs,
                    compilers: &args.compilers,
                    sections: &args.sections,
                    scale: args.scale.or(in_passing),
                    rounds: args.rounds(self),
                },
            ),
            _ => Ok(vec![(self.plan(context, args)?, 1)]),
        }
    }

    fn plan(self, context: &Context, args: &Args) -> anyhow::Result<Plan> {
        match self {
            Name::Ops => Ok(ops::plan(context)),
            Name::Preempt => Ok(preempt::plan(context, args.tasks.as_ref())),
            Name::Chase => Ok(chase::plan(context)),
            Name::Short => Ok(short::plan(context)),
            Name::Kv => kv::plan(context),
            Name::Wake => Ok(wake::plan(context)),
            Name::Scale => Ok(scale::plan(context)),
            Name::Defer => Ok(defer::plan(context)),
            #[cfg(feature = "selftest")]
            Name::Shim => Ok(shim::plan(context)),
            Name::Stall => Ok(stall::plan(context)),
            Name::Lock if args.names.contains(&Name::All) => {
                lock::plan(context, &lock::Choice::in_passing())
            }
            Name::Lock => lock::plan(context, &args.lock),
            Name::Schbench => Ok(schbench::plan(context, args.schbench)),
            Name::Mixes => Ok(mixes::plan(context)),
            Name::Net => Ok(net::plan(context)),
            Name::Servers => servers::plan(context),
            Name::L3fwd => Ok(l3fwd::plan(context)),
            Name::Notify => Ok(notify::plan(context)),
            Name::Share => share::plan(context),
            Name::Regions => regions::plan(context),
            Name::Probes | Name::All | Name::List => Ok(Plan::default()),
        }
    }

    /// Rounds of a quick look and of a measurement. A round of `kv` is a search with many runs, one
    /// of the others is one run.
    fn rounds(self, effort: bool) -> usize {
        match (self, effort) {
            (
                Name::Kv | Name::Schbench | Name::Mixes | Name::Net | Name::Servers | Name::Share,
                true,
            ) => 1,
            #[cfg(feature = "selftest")]
            (Name::Shim, quick) => {
                if quick {
                    1
                } else {
                    5
                }
            }
            (Name::Kv | Name::Scale | Name::Share, false) => 5,
            (Name::Schbench | Name::Mixes | Name::Servers, false) => 3,
            (Name::Lock, false) => 15,
            (Name::Lock, true) => 1,
            (Name::Probes, false) => 21,
            (_, true) => 3,
            (_, false) => 9,
        }
    }
}

/// Runs the chosen benchmarks and prints the results.
///
/// # Errors
///
/// When the JSON file cannot be written, this machine cannot be examined, or nothing is left to
/// measure. Implementations that are missing or fail are no error: the report has a note instead of
/// their rows. After SIGINT or SIGTERM it has what was measured before.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    if let Some(work) = &args.child {
        return child::run(work).map(|()| ExitCode::SUCCESS);
    }
    let interrupt = Interrupt::install().context("cannot take over SIGINT and SIGTERM")?;
    if let Some(target) = &args.json {
        target.check()?;
    }
    let bar = progress_bar();
    let peers = Peers::find(|what| bar.set_message(what.to_owned()));
    if args.names.contains(&Name::List) {
        bar.finish_and_clear();
        return output::print(&listing(&peers)).map(|()| ExitCode::SUCCESS);
    }
    let report = measure(&args, peers, &bar, &interrupt)?;
    bar.finish_and_clear();
    // The table first: should the disk be full, the numbers are not lost.
    if args.json != Some(Target::Stdout) {
        output::print(&report.to_text())?;
    }
    args.json.as_ref().map_or(Ok(()), |target| target.write_json(&report))?;
    ensure!(report.crashes.is_empty(), "Quaver has crashed:\n{}", report.crashes.join("\n"));
    Ok(interrupt.raised().map_or(ExitCode::SUCCESS, |signal| signal.exit_code().into()))
}

fn measure(
    args: &Args,
    peers: Peers,
    bar: &ProgressBar,
    interrupt: &Interrupt,
) -> anyhow::Result<Report> {
    let names = chosen(&args.names);
    let machine = detect::detect();
    let mut notes = peers.notes.clone();
    notes.extend(fs::read_to_string("/proc/loadavg").ok().and_then(|text| busy(&text)));
    if quaver::platform::facts().instrumented {
        notes.push("built with probes: quaver's own threads stop at these".into());
    }
    let effort = Effort { quick: args.quick };
    let context = Context::new(effort, Place::choose()?, peers)?;
    let mut plans = Vec::new();
    for &name in &names {
        bar.set_message(format!("preparing {}", name.text()));
        for (mut plan, of) in name.stages(&context, args)? {
            plan.keep_only(&args.only);
            plans.push((name, plan, args.rounds(name).div_ceil(of)));
        }
    }
    let children = plans.iter().map(|(_, plan, rounds)| harness::children(plan, *rounds)).sum();
    if children == 0 {
        notes.extend(plans.iter().flat_map(|(_, plan, _)| plan.notes.clone()));
        bail!("nothing is left to measure\n{}", notes.join("\n"));
    }
    bar.set_length(children);
    let mut report = Report {
        version: env!("CARGO_PKG_VERSION"),
        benchmarks: names.iter().map(|name| name.text()).collect(),
        quick: args.quick,
        machine,
        rows: Vec::new(),
        summary: None,
        notes,
        crashes: Vec::new(),
    };
    for (name, plan, rounds) in &plans {
        let Results { rows, notes, crashes } =
            harness::run(name.text(), plan, *rounds, bar, interrupt);
        report.rows.extend(rows);
        report.notes.extend(notes);
        report.crashes.extend(crashes);
    }
    if let Some(signal) = interrupt.raised() {
        let (done, name) = (bar.position(), signal.name());
        report.notes.push(format!("stopped by {name} after {done} of {children} runs"));
    }
    report.summary = probes::Summary::of(&report.rows);
    Ok(report)
}

/// The benchmarks in the order in which they were named, each once.
fn chosen(names: &[Name]) -> Vec<Name> {
    let mut chosen = Vec::new();
    for &name in names {
        let these = if name == Name::All { Name::BENCHMARKS } else { &[name] };
        for name in these {
            if !chosen.contains(name) {
                chosen.push(*name);
            }
        }
    }
    chosen
}

/// A bar on standard error, or nothing where that is no terminal.
fn progress_bar() -> ProgressBar {
    let style = "{bar:30} {pos}/{len} {elapsed} (about {eta} left) {msg}";
    let style = ProgressStyle::with_template(style).expect("the template is well-formed");
    ProgressBar::new(0).with_style(style)
}

fn listing(peers: &Peers) -> String {
    let mut text = String::new();
    for &name in Name::BENCHMARKS {
        let value = name.to_possible_value().expect("no name is hidden");
        let help = value.get_help().map(ToString::to_string).unwrap_or_default();
        text += &format!("{:8}  {help}\n", value.get_name());
    }
    let names: Vec<_> = peers.found.iter().map(|peer| peer.name.as_str()).collect();
    text += &format!("\nimplementations: quaver, {}\n", names.join(", "));
    peers.notes.iter().fold(text, |text, note| text + "* " + note + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_command_line() {
        for &name in Name::BENCHMARKS {
            assert_eq!(name.to_possible_value().unwrap().get_name(), name.text());
        }
    }

    #[test]
    fn benchmarks_run_once_in_the_order_given() {
        assert_eq!(chosen(&[Name::Kv, Name::Ops, Name::Kv]), [Name::Kv, Name::Ops]);
        assert_eq!(chosen(&[Name::All, Name::Ops]), Name::BENCHMARKS);
        let scale_first = chosen(&[Name::Scale, Name::All]);
        assert_eq!(scale_first[..2], [Name::Scale, Name::Ops]);
        assert_eq!(scale_first.len(), Name::BENCHMARKS.len());
    }

    #[test]
    fn the_list_names_benchmarks_and_implementations() {
        let peer = peers::Peer { name: "may".into(), command: vec![] };
        let text = listing(&Peers { found: vec![peer], notes: vec!["no go".into()] });
        for part in ["ops ", "preempt ", "defer ", "schbench ", "mixes ", "quaver, may", "* no go"]
        {
            assert!(text.contains(part), "{part} in\n{text}");
        }
        assert!(!text.contains("list"));
    }
}
