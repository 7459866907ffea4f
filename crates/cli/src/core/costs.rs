//! `quaver core costs`: what an interrupt costs on the model, as shipped, by xUI, and if the core
//! were built otherwise; as entries of the simulator's `costs.toml`.

use std::fmt::Write as _;
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use comfy_table::{CellAlignment, Table, presets};
use quaver_uarch::core::{Parameters, SHIPPED};
use serde::Serialize;

use super::figure::four::{self, Mean};
use super::figure::table2;
use crate::output::{self, Target};

/// Say what an interrupt costs on the model, also if the core were built otherwise
///
/// The means are over fib, linpack and memops, interrupted every 5 us. The entries for costs.toml
/// are those that come with the simulator: `quaver plan` says how many cores each of them needs.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Write the costs as JSON to FILE (`-`: standard output)
    #[arg(long, value_name = "FILE")]
    json: Option<Target>,
    /// Print entries for costs.toml
    #[arg(long)]
    toml: bool,
    /// Compare with a core of which a parameter is changed, such as interrupt.remote_line=40; may
    /// be repeated
    #[arg(long, value_name = "NAME=VALUE", conflicts_with = "toml")]
    set: Vec<String>,
    /// Short programs: a look, no result
    #[arg(long)]
    quick: bool,
}

/// Microseconds between interrupts.
const INTERVAL: u32 = 5;

/// A core that is built otherwise.
struct Variant {
    name: &'static str,
    /// What is different, and where that is from.
    about: &'static str,
    change: fn(&mut Parameters),
}

const VARIANTS: [Variant; 6] = [
    Variant { name: "shipped", about: "parameters.toml as it is", change: |_| {} },
    Variant {
        name: "uif-renamed",
        about: "UIF is renamed: nothing that changes it serialises",
        change: |p| p.interrupt.flag_renamed = true,
    },
    Variant {
        name: "predicted",
        about: "the same, and fetch goes on at once: at the handler, whose address is in a \
                register, and by the return stack behind UIRET",
        change: |p| {
            p.interrupt.flag_renamed = true;
            p.interrupt.targets_predicted = true;
        },
    },
    Variant {
        name: "upid-near",
        about: "SENDUIPI leaves the UPID in the receiver's second-level cache",
        change: |p| p.interrupt.remote_line = p.memory.second.latency,
    },
    Variant {
        name: "upid-far",
        about: "the UPID comes from another socket: 222 cycles more (Skyloft, Table 6)",
        change: |p| p.interrupt.remote_line += 222,
    },
    Variant {
        name: "wider",
        about: "8 uops renamed, 12 retired and squashed in a cycle; reorder buffer of 576 (Lion \
                Cove)",
        change: |p| {
            (p.front.width, p.front.bytes, p.window.rename) = (8, 32, 8);
            (p.window.retire, p.window.squash, p.window.issue) = (12, 12, 12);
            p.window.reorder_buffer = 576;
            (p.window.registers, p.window.vectors, p.window.scheduler) = (420, 480, 250);
        },
    },
];

/// What `costs.toml` calls them: the variant, the strategy, and the clock.
const ENTRIES: [(&str, usize, usize); 4] = [
    ("core-uipi", 0, 0),
    ("core-tracked", 0, 1),
    ("core-kb-timer", 0, 2),
    ("core-kb-timer-renamed", 1, 2),
];
/// The strategies of figure 4.
const STRATEGIES: [&str; 3] = ["uipi", "tracked", "kb-timer"];

/// The cost of an interrupt on one variant by one strategy.
#[derive(Clone, Serialize)]
struct Cost {
    variant: &'static str,
    strategy: &'static str,
    /// What it adds to the program.
    cycles_per_interrupt: f64,
    /// From its arrival at the core to its handler.
    handler_cycles: f64,
    /// SENDUIPI on the sender's core; nothing with a timer of the core's own.
    send_cycles: Option<f64>,
}

/// What `--json` writes.
#[derive(Serialize)]
struct Report {
    version: &'static str,
    interval_us: u32,
    quick: bool,
    costs: Vec<Cost>,
}

/// Computes them.
///
/// # Errors
///
/// A program cannot be built or run, or a file not be written.
pub fn run(args: &Args) -> Result<ExitCode> {
    args.json.as_ref().map_or(Ok(()), Target::check)?;
    let cores = if args.set.is_empty() { built(&VARIANTS) } else { changed(&args.set)? };
    let costs = compute(&cores, args.quick)?;
    if args.toml {
        output::print(&entries(&costs, args.quick))?;
    } else if args.json != Some(Target::Stdout) {
        output::print(&table(&costs, &args.set))?;
    }
    if let Some(target) = &args.json {
        let version = env!("CARGO_PKG_VERSION");
        target.write_json(&Report { version, interval_us: INTERVAL, quick: args.quick, costs })?;
    }
    Ok(ExitCode::SUCCESS)
}

/// A core's name and parameters.
type Built = (&'static str, Parameters);

fn built(variants: &[Variant]) -> Vec<Built> {
    let build = |variant: &Variant| {
        let mut parameters = Parameters::default();
        (variant.change)(&mut parameters);
        (variant.name, parameters)
    };
    variants.iter().map(build).collect()
}

/// The core as it is, and with these changes.
fn changed(changes: &[String]) -> Result<Vec<Built>> {
    let mut cores = built(&VARIANTS[..1]);
    cores.push(("set", Parameters::load_with(SHIPPED, changes).context("--set")?));
    Ok(cores)
}

fn compute(cores: &[Built], quick: bool) -> Result<Vec<Cost>> {
    let mut costs = Vec::new();
    for (name, parameters) in cores {
        let senduipi = table2::instructions(parameters, quick)?[0];
        let means = four::means(parameters, INTERVAL, quick)?;
        for (strategy, Mean { cycles, handler }) in STRATEGIES.into_iter().zip(means) {
            costs.push(Cost {
                variant: name,
                strategy,
                cycles_per_interrupt: cycles,
                handler_cycles: handler,
                send_cycles: (strategy != "kb-timer").then_some(senduipi),
            });
        }
    }
    Ok(costs)
}

fn table(costs: &[Cost], changes: &[String]) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["core", "uipi", "tracked", "kb-timer", "SENDUIPI"]);
    for of in costs.chunks(STRATEGIES.len()) {
        let mut row = vec![of[0].variant.to_owned()];
        row.extend(of.iter().map(|cost| format!("{:.0}", cost.cycles_per_interrupt)));
        row.push(format!("{:.0}", of[0].send_cycles.unwrap_or_default()));
        table.add_row(row);
    }
    for column in 1..5 {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let mut text = format!("cycles of an interrupt, each {INTERVAL} us\n\n{table}\n\n");
    let shown = |variant: &&Variant| costs.iter().any(|cost| cost.variant == variant.name);
    for variant in VARIANTS.iter().filter(shown) {
        let _ = writeln!(text, "{}: {}", variant.name, variant.about);
    }
    if !changes.is_empty() {
        let _ = writeln!(text, "set: {}", changes.join(", "));
    }
    text
}

/// Nanoseconds of cycles at the model's clock.
fn ns(cycles: f64) -> u64 {
    (cycles * 1e9 / Parameters::default().frequency as f64).round().max(0.0) as u64
}

/// The entries for `costs.toml`.
fn entries(costs: &[Cost], quick: bool) -> String {
    let how = if quick { " --quick" } else { "" };
    let delay = Parameters::default().interrupt.notification_delay as f64;
    let mut text = String::new();
    for (name, variant, strategy) in ENTRIES {
        let cost = &costs[variant * STRATEGIES.len() + strategy];
        let _ = writeln!(text, "[mechanism.{name}]");
        if let Some(send) = cost.send_cycles {
            // The notification goes off while SENDUIPI is executed.
            let deliver = delay + cost.handler_cycles - send;
            let _ = writeln!(text, "timer = \"core\"\nsend = {}\nscan = 25", ns(send));
            let _ = writeln!(text, "deliver = {}", ns(deliver));
        } else {
            let _ = writeln!(text, "timer = \"worker\"");
        }
        let _ = writeln!(text, "receive = {}", ns(cost.cycles_per_interrupt));
        let _ = writeln!(
            text,
            "provenance = \"quaver core costs{how}: {}, {} on the core model: {:.0} cycles\"\n",
            cost.variant, cost.strategy, cost.cycles_per_interrupt
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The entries that the simulator comes with are the model's.
    #[test]
    fn the_simulator_has_what_the_model_says() {
        if std::process::Command::new("gcc").arg("--version").output().is_err() {
            println!("skipped: there is no gcc");
            return;
        }
        let costs = compute(&built(&VARIANTS[..3]), true).unwrap();
        let shipped = quaver_sim::Costs::built_in();
        for (name, variant, strategy) in ENTRIES {
            let cost = &costs[variant * STRATEGIES.len() + strategy];
            let known = &shipped.mechanism[name];
            let quaver_sim::Delay::Fixed(theirs) = known.receive else { panic!("{name}") };
            let (ours, theirs) = (ns(cost.cycles_per_interrupt) as f64, theirs as f64);
            // Theirs are of whole programs; short ones pay up to 9 ns more for cold caches.
            assert!(
                (ours - theirs).abs() <= 9.0 + 0.03 * theirs,
                "{name}: {ours}, not {theirs} ns"
            );
            assert!(known.provenance.contains("quaver core costs"), "{name}");
        }
        // Renaming UIF helps.
        assert!(costs[5].cycles_per_interrupt < 0.85 * costs[2].cycles_per_interrupt);
        assert!(costs[8].cycles_per_interrupt < 0.75 * costs[5].cycles_per_interrupt);
    }
}
