//! `quaver core run`: one program, on one core.
//!
//! The status is the program's own. What the model cannot run is named with its address.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::Context as _;
use quaver_uarch::Machine;
use quaver_uarch::core::{
    Config, Core, Measured, Mechanism, Parameters, Report as Timed, SHIPPED, Source, When,
};
use quaver_uarch::kernel::Output;
use serde::Serialize;

use super::{pipeline, system};
use crate::output::Target;

/// Run a static program on the model; it says how many instructions that took
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Instructions after which a program counts as an endless loop
    #[arg(long, value_name = "N", default_value_t = 10_000_000_000)]
    limit: u64,
    /// Write the counts as JSON to FILE (`-`: standard output)
    #[arg(long, value_name = "FILE")]
    pub(super) json: Option<Target>,
    /// Run on the timing model, interrupted in this way
    #[arg(long, value_name = "MECHANISM")]
    mechanism: Option<How>,
    /// Interrupt each TIME (5us, 800ns), and compare with a run without interrupts
    #[arg(long, value_name = "TIME", value_parser = microseconds, requires = "mechanism")]
    timer: Option<f64>,
    /// Who interrupts [default: uipi with flush, otherwise kb-timer]
    #[arg(long, value_name = "SOURCE", requires = "timer")]
    source: Option<Who>,
    /// Interrupts come before instructions with the safepoint prefix (36) only
    #[arg(long, requires = "mechanism")]
    safepoints: bool,
    /// Read the core's parameters from FILE; crates/uarch/parameters.toml is built in
    #[arg(long, value_name = "FILE", requires = "mechanism")]
    parameters: Option<PathBuf>,
    /// Change a parameter of the core, such as interrupt.remote_line=40; may be repeated
    #[arg(long, value_name = "NAME=VALUE", requires = "mechanism")]
    set: Vec<String>,
    /// Write what the pipeline did for the viewer Konata
    #[arg(long, value_name = "FILE", requires = "mechanism")]
    kanata: Option<PathBuf>,
    /// Write what the pipeline did, and why it stood still, as a page
    #[arg(long, value_name = "FILE", requires = "mechanism")]
    view: Option<Target>,
    /// The cycles of --kanata and --view (1000..2000) [default: around the third interrupt]
    #[arg(long, value_name = "CYCLES", value_parser = range, requires = "mechanism")]
    cycles: Option<Cycles>,
    /// Run on so many cores, with threads and the kernel's slow paths: the program interrupts
    /// itself
    #[arg(
        long,
        value_name = "N",
        requires = "mechanism",
        value_parser = clap::value_parser!(u8).range(1..=64),
        conflicts_with_all = ["timer", "kanata", "view", "cycles"]
    )]
    cores: Option<u8>,
    /// With --cores: a thread makes way for another one after TIME
    #[arg(
        long,
        value_name = "TIME",
        value_parser = microseconds,
        requires = "cores",
        default_value = "100us"
    )]
    pub(super) quantum: f64,
    /// An x86-64 program, linked with -static
    pub(super) program: PathBuf,
    /// Its arguments, after `--`
    #[arg(last = true, value_name = "ARGUMENTS")]
    arguments: Vec<String>,
}

/// Ways of interrupting.
#[derive(clap::ValueEnum, Clone, Copy, Debug)]
enum How {
    /// Not at all
    None,
    /// All work in flight is squashed: user interrupts as shipped
    Flush,
    /// All work in flight retires first
    Drain,
    /// The interrupt joins the stream of instructions (xUI)
    Tracked,
    /// By a signal of the kernel
    Signal,
}

/// Sources of interrupts.
#[derive(clap::ValueEnum, Clone, Copy, Debug)]
enum Who {
    /// The core's own timer (xUI)
    KbTimer,
    /// SENDUIPI on a timer core
    Uipi,
    /// A device, forwarded to the program (xUI)
    Device,
}

/// A range of cycles.
#[derive(Clone, Copy, Debug)]
struct Cycles {
    from: u64,
    to: u64,
}

fn microseconds(text: &str) -> Result<f64, String> {
    let wrong = || format!("{text:?} is no time: 5us, 800ns and 1ms are");
    let (number, factor) = [("ns", 1e-3), ("us", 1.0), ("ms", 1e3)]
        .iter()
        .find_map(|(unit, factor)| text.strip_suffix(unit).map(|number| (number, *factor)))
        .ok_or_else(wrong)?;
    let time = number.parse::<f64>().map_err(|_| wrong())? * factor;
    if time.is_finite() && time > 0.0 { Ok(time) } else { Err(wrong()) }
}

fn range(text: &str) -> Result<Cycles, String> {
    let wrong = || format!("{text:?} is no range of cycles: 1000..2000 is");
    let (from, to) = text.split_once("..").ok_or_else(wrong)?;
    let number = |part: &str| part.parse().map_err(|_| wrong());
    Ok(Cycles { from: number(from)?, to: number(to)? })
}

/// What is known after a run on the timing model.
#[derive(Serialize)]
struct TimedReport<'a> {
    model: &'static str,
    program: &'a PathBuf,
    /// Of this machine, for all runs.
    seconds: f64,
    /// Nothing if there were no interrupts to compare with.
    cycles_per_interrupt: Option<f64>,
    slowdown: Option<f64>,
    #[serde(flatten)]
    run: &'a Timed,
    baseline: Option<&'a Timed>,
}

/// What is known after a run.
#[derive(Serialize)]
struct Report {
    /// Which model ran: `functional` knows no time.
    model: &'static str,
    program: PathBuf,
    status: u8,
    instructions: u64,
    /// Of this machine, for the run.
    seconds: f64,
}

/// Runs it.
///
/// # Errors
///
/// The program cannot be read, or does something that the model does not know.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    args.json.iter().chain(&args.view).try_for_each(Target::check)?;
    let path = &args.program;
    let file = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    let name = || path.display().to_string();
    let own = path.to_string_lossy();
    let words = std::iter::once(&*own).chain(args.arguments.iter().map(String::as_str));
    let words: Vec<&str> = words.collect();
    if let Some(mechanism) = args.mechanism {
        let load = |echo: bool| {
            let mut machine = Machine::with_program(&file, &words).with_context(name)?;
            if echo {
                machine.kernel.output = Output::Echo;
            }
            Ok(machine)
        };
        return timed(args, mechanism, &load);
    }
    let mut machine = Machine::with_program(&file, &words).with_context(name)?;
    machine.kernel.output = Output::Echo;
    let begin = Instant::now();
    let status = machine.run(args.limit).with_context(name)?;
    let seconds = begin.elapsed().as_secs_f64();
    let instructions = machine.instructions();
    if let Some(target) = &args.json {
        let program = path.clone();
        target.write_json(&Report {
            model: "functional",
            program,
            status,
            instructions,
            seconds,
        })?;
    }
    eprintln!(
        "{}: status {status}, {instructions} instructions, {:.0} million a second",
        name(),
        instructions as f64 / seconds.max(1e-9) / 1e6
    );
    Ok(ExitCode::from(status))
}

/// The cycles to be looked at.
fn watched(args: &Args, config: &Config) -> anyhow::Result<std::ops::Range<u64>> {
    /// Before an interrupt arrives, and after.
    const AROUND: [u64; 2] = [100, 900];
    match (args.cycles, config.when) {
        (Some(Cycles { from, to }), _) => Ok(from..to),
        (None, When::Every(period)) => {
            Ok((3 * period).saturating_sub(AROUND[0])..3 * period + AROUND[1])
        }
        _ => anyhow::bail!("say --cycles, such as 1000..2000: without --timer there is no default"),
    }
}

/// Runs it on the timing model; with a timer once more, first, without.
fn timed(
    args: &Args,
    mechanism: How,
    load: &dyn Fn(bool) -> anyhow::Result<Machine>,
) -> anyhow::Result<ExitCode> {
    let name = || args.program.display().to_string();
    let mut config = Config { limit: args.limit, ..Config::default() };
    let file = args.parameters.as_deref();
    let text = file.map_or(Ok(SHIPPED.to_owned()), |path| {
        std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
    })?;
    let named = file.map_or_else(|| "--set".to_owned(), |path| path.display().to_string());
    config.parameters = Parameters::load_with(&text, &args.set).context(named)?;
    config.safepoints = args.safepoints;
    let baseline = config.clone();
    config.mechanism = match mechanism {
        How::None => Mechanism::None,
        How::Flush => Mechanism::Flush,
        How::Drain => Mechanism::Drain,
        How::Tracked => Mechanism::Tracked,
        How::Signal => Mechanism::Signal,
    };
    config.source = match (args.source, mechanism) {
        (Some(Who::Uipi), _) | (None, How::Flush) => Source::Uipi,
        (Some(Who::Device), _) => Source::Device,
        (Some(Who::KbTimer), _) | (None, _) => Source::KbTimer,
    };
    if let Some(time) = args.timer {
        config.when = When::Every(config.parameters.cycles(time).max(1));
    }
    if let Some(cores) = args.cores {
        return system::run(args, &config, cores.into(), load(true)?);
    }
    let begin = Instant::now();
    let compared = args.timer.is_some() && config.mechanism != Mechanism::None;
    let without = if compared {
        Some(Core::new(load(false)?, &baseline).run().with_context(name)?)
    } else {
        None
    };
    let mut core = Core::new(load(true)?, &config);
    if args.kanata.is_some() || args.view.is_some() {
        core.watch(watched(args, &config)?);
    }
    let run = core.run().with_context(name)?;
    let seconds = begin.elapsed().as_secs_f64();
    if let Some(path) = &args.kanata {
        std::fs::write(path, core.pipeline())
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    if let Some(target) = &args.view {
        target.write(&pipeline::page(&name(), &core.traced(), &run))?;
    }
    let status = run.status;
    let measured = without.map(|baseline| Measured { baseline, run: run.clone() });
    let each = measured.as_ref().and_then(Measured::cycles_per_interrupt);
    if let Some(target) = &args.json {
        target.write_json(&TimedReport {
            model: "timing",
            program: &args.program,
            seconds,
            cycles_per_interrupt: each,
            slowdown: measured.as_ref().map(Measured::slowdown),
            run: &run,
            baseline: measured.as_ref().map(|measured| &measured.baseline),
        })?;
    }
    let more = match (&measured, each) {
        (Some(measured), Some(each)) => format!(
            ", {} interrupts of {each:.1} cycles each: {:.3} % slower",
            run.interrupts,
            100.0 * measured.slowdown()
        ),
        _ => format!(", {} interrupts", run.interrupts),
    };
    eprintln!(
        "{}: status {status}, {} instructions in {} cycles{more}",
        name(),
        run.instructions,
        run.cycles
    );
    Ok(ExitCode::from(status))
}
