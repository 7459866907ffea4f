//! `quaver share status`: who has which core. Live on a terminal.

use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use comfy_table::{CellAlignment, Table, presets};
use quaver_share::broker::{Application, QueueMember, Status};

use super::Place;
use crate::interrupt::Interrupt;
use crate::output::{self, Target};
use crate::parse::cpulist;

/// How often a terminal shows it anew.
const PERIOD: Duration = Duration::from_secs(1);
/// How long Ctrl-C waits at most.
const STEP: Duration = Duration::from_millis(50);

/// Show who has which core, what each application uses, and how long it waits for a core
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// Print it as JSON, once
    #[arg(long)]
    json: bool,
    /// Print it once, also on a terminal
    #[arg(long)]
    once: bool,
    #[command(flatten)]
    place: Place,
}

/// Shows it once, or on a terminal until Ctrl-C.
pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let ask = || -> anyhow::Result<Status> {
        let text = quaver_share::status(&args.place.socket)?;
        serde_json::from_str(&text).context("the broker answers as another version would")
    };
    let status = ask()?;
    if args.json {
        Target::Stdout.write_json(&status)?;
    } else if args.once || !std::io::stdout().is_terminal() {
        output::print(&text(&status))?;
    } else {
        let interrupt = Interrupt::install()?;
        let mut status = status;
        loop {
            // From the top of the screen, without flicker.
            let lines = text(&status).replace('\n', "\x1b[K\n");
            output::print(&format!("\x1b[H{lines}\x1b[J"))?;
            for _ in 0..PERIOD.as_millis() / STEP.as_millis() {
                if interrupt.raised().is_some() {
                    return Ok(ExitCode::SUCCESS);
                }
                std::thread::sleep(STEP);
            }
            status = ask()?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The status as people read it.
fn text(status: &Status) -> String {
    let mut text = format!(
        "broker {} at {}, up {:.0} s: policy {}, binding {}\n",
        status.pid, status.socket, status.up_s, status.policy, status.binding
    );
    text += &format!(
        "{} cores changed hands a second; giving one up and having it back takes {:.1} us\n\n",
        status.reallocations_per_s, status.cycle_us
    );
    for core in &status.cores {
        let name = |number: &usize| {
            let found = status.applications.iter().find(|a| a.number == *number);
            found.map_or_else(|| number.to_string(), |a| a.name.clone())
        };
        let names: Vec<_> = core.applications.iter().map(name).collect();
        let names = if names.is_empty() { "-".to_owned() } else { names.join(", ") };
        text += &format!("cpu {:<4} {names}\n", core.cpu);
    }
    if !status.applications.is_empty() {
        text += &format!("\n{}\n", table(&status.applications));
    }
    if let Some(queue) = &status.queue {
        text += &format!(
            "\nqueue {}: {} switches between applications, {} a second, by {}",
            queue.policy, queue.switches, queue.switches_per_s, queue.switches_by
        );
        if let Some(us) = queue.wait_us {
            text += &format!("; a core that was given waits {us:.1} us");
        }
        for QueueMember { pid, cpus, share_percent } in &queue.applications {
            let cpus = if cpus.is_empty() { "-".into() } else { cpulist::format(cpus) };
            text += &format!("\n  process {pid:<8} share {share_percent:5.1} %  cpu {cpus}");
        }
        text += "\n";
    }
    for gone in &status.expelled {
        text += &format!("expelled: {} (process {}): {}\n", gone.name, gone.pid, gone.why);
    }
    for note in &status.notes {
        text += &format!("note: {note}\n");
    }
    text
}

fn table(applications: &[Application]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header([
        "application",
        "process",
        "role",
        "weight",
        "share %",
        "used s",
        "parks/s",
        "rings/s",
        "answered/s",
        "forced/s",
        "wait us",
    ]);
    for a in applications {
        let state = match (a.demoted, a.turn) {
            (true, _) => " (over its budget)",
            (_, true) => " (its turn)",
            _ if a.plain => " (plain)",
            _ => "",
        };
        table.add_row([
            a.name.clone(),
            a.pid.to_string(),
            format!("{}{state}", a.role),
            a.weight.to_string(),
            format!("{:.1}", a.share_percent),
            format!("{:.1}", a.used_s),
            a.parks_per_s.to_string(),
            a.rings_per_s.to_string(),
            a.answered_per_s.to_string(),
            a.forced_per_s.to_string(),
            a.wait_us.map_or_else(|| "-".to_owned(), |us| format!("{us:.1}")),
        ]);
    }
    for column in table.column_iter_mut().skip(3) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}
