//! The command line of `quaver demo`.

use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;
use clap::builder::RangedU64ValueParser;
use quaver::{Clock, Notification, PolicySpec};
use quaver_load::{ArrivalProcess, LoadFractions, SpecError};
use serde::Serialize;

use crate::output::Target;
use crate::parse::{duration, mix::Mix};
use quaver_bench_common::store;

const US: Duration = Duration::from_micros(1);
const MS: Duration = Duration::from_millis(1);
const S: Duration = Duration::from_secs(1);

/// The loads of a full sweep and of a quick one, in percent.
const LOADS: &str = "5,10..90:10";
const QUICK_LOADS: &str = "2,5,10,30,50,70,85";

/// Serve GETs and SCANs from a key-value store, without and with preemption.
///
/// A client on a CPU of its own sends requests at random times (open loop) to an embedded key-value
/// store; each request is a user thread. Over a sweep of loads, the same schedule is served
/// run-to-completion, preempted by signals, and, if this program was built with probes, at these.
/// Prints a table and what preemption bought; writes the latency-load curves as HTML, and all
/// figures as JSON.
#[derive(clap::Args, Clone, Debug)]
#[command(args_override_self = true)]
pub struct Args {
    /// Percentages of GETs and SCANs
    #[arg(long, value_name = "GET/SCAN", default_value = "95/5", help_heading = LOAD)]
    pub mix: Mix,

    /// When requests are sent: poisson, uniform, batch=MEAN (batches of that mean size),
    /// onoff=ON/OFF (mean periods), or bursty, which is batch=8
    #[arg(long, value_name = "PROCESS", default_value = "poisson", help_heading = LOAD,
          value_parser = arrivals)]
    pub arrivals: ArrivalProcess,

    /// Loads in percent of the workers' capacity [default: 5,10..90:10; with --quick
    /// 2,5,10,30,50,70,85]
    #[arg(long, value_name = "LIST", help_heading = LOAD)]
    pub loads: Option<LoadFractions>,

    /// How long each load is offered in each mode, in all rounds together, 100ms to 10m [default:
    /// 3150ms; with --quick 1500ms]
    #[arg(long, value_name = "TIME", help_heading = LOAD,
          value_parser = duration::within(100 * MS..=600 * S))]
    pub duration: Option<Duration>,

    /// Rounds over all modes and loads, 1 to 99: a row of the table is the round with the median
    /// GET p99 [default: 7; with --quick 3]. Loads with less than 3 that the machine did not
    /// disturb get more, all together a quarter at most
    #[arg(long, value_name = "N", help_heading = LOAD,
          value_parser = RangedU64ValueParser::<usize>::new().range(1..=99))]
    pub rounds: Option<usize>,

    /// How long before each send time the client stops sleeping and spins, 0s to 1s [default:
    /// always, on a CPU of its own]
    #[arg(long, value_name = "TIME", help_heading = LOAD,
          value_parser = duration::within(Duration::ZERO..=S))]
    pub client_spin: Option<Duration>,

    /// Seed of keys, arrivals and classes: the same seed gives the same requests
    #[arg(long, value_name = "NUMBER", default_value_t = 1, help_heading = LOAD)]
    pub seed: u64,

    /// What GET p99 must stay below, 1us to 10s
    #[arg(long, value_name = "TIME", default_value = "50us", help_heading = LOAD,
          value_parser = duration::within(US..=10 * S))]
    pub slo: Duration,

    /// Rows in the store, 100 to 5000000
    #[arg(long, value_name = "N", default_value_t = 200_000, help_heading = SERVICE,
          value_parser = RangedU64ValueParser::<u64>::new().range(store::KEYS))]
    pub keys: u64,

    /// Keys that a GET looks up, 1 to 10000
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = SERVICE,
          value_parser = RangedU64ValueParser::<usize>::new().range(1..=10_000))]
    pub get_keys: usize,

    /// How long a SCAN takes by itself, 1us to 1s; the number of rows is calibrated
    #[arg(long, value_name = "TIME", default_value = "260us", help_heading = SERVICE,
          value_parser = duration::within(US..=S))]
    pub scan_time: Duration,

    /// Rows that a SCAN reads, instead of --scan-time
    #[arg(long, value_name = "N", conflicts_with = "scan_time", help_heading = SERVICE,
          value_parser = RangedU64ValueParser::<usize>::new().range(1..))]
    pub scan_keys: Option<usize>,

    /// What is compared [default: all, probe only if this program was built with probes]
    #[arg(long, value_name = "MODES", value_enum, value_delimiter = ',', help_heading = RUNTIME)]
    pub modes: Vec<Mode>,

    /// How long a thread may run while others wait, 1us to 1s [default: that of --policy, or what
    /// suits the machine]
    #[arg(long, value_name = "TIME", help_heading = RUNTIME,
          value_parser = duration::within(US..=S))]
    pub quantum: Option<Duration>,

    /// Scheduling policy of the preemptive modes, such as two-queue, rr, ws or
    /// two-queue:quantum=50us,long=1ms
    #[arg(long, value_name = "POLICY", default_value = "two-queue", help_heading = RUNTIME)]
    pub policy: PolicySpec,

    /// Who keeps time: auto, timer-core, timer-thread, posix-timer or delegated-timer
    #[arg(long, value_name = "CLOCK", default_value = "auto", help_heading = RUNTIME)]
    pub clock: Clock,

    /// How a worker is told to preempt: signal, probe, user-interrupt, emulated-user-interrupt, or
    /// auto, which compares signal and probe
    #[arg(long, value_name = "HOW", default_value = "auto", conflicts_with = "modes",
          help_heading = RUNTIME)]
    pub notification: Notification,

    /// How long an idle worker looks for work before it sleeps in the kernel, 0s to 1s
    #[arg(long, value_name = "TIME", default_value = "1ms", help_heading = RUNTIME,
          value_parser = duration::within(Duration::ZERO..=S))]
    pub idle_spin: Duration,

    /// Workers, 1 to the number of usable CPUs [default: all CPUs but one for the client, and
    /// one for a timer core, or for a timer thread where there are four or more; 8 at most, which
    /// is what the client can keep busy]
    #[arg(long, value_name = "N", help_heading = RUNTIME)]
    pub workers: Option<usize>,

    /// Fewer loads and shorter runs: ends within a minute
    #[arg(long, help_heading = RESULT)]
    pub quick: bool,

    /// Directory for report.html, report.json and the curves (get.svg, scan.svg)
    #[arg(long, value_name = "DIR", default_value = "quaver-report", help_heading = RESULT)]
    pub out: PathBuf,

    /// Write the JSON to FILE as well, or with - to standard output instead of the table
    #[arg(long, value_name = "FILE", help_heading = RESULT)]
    pub json: Option<Target>,
}

const LOAD: &str = "Load";
const SERVICE: &str = "Service";
const RUNTIME: &str = "Runtime";
const RESULT: &str = "Result";

fn arrivals(text: &str) -> Result<ArrivalProcess, SpecError> {
    match text {
        "bursty" => "batch=8",
        text => text,
    }
    .parse()
}

/// How requests are served.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, ValueEnum, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Each request runs to its end; one queue for all workers
    RunToCompletion,
    /// A signal preempts a request when its quantum is used and others wait
    Preemptive,
    /// It notices that itself, at its next probe
    Probe,
}

impl Mode {
    /// The name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Mode::RunToCompletion => "run to completion",
            Mode::Preemptive => "signals",
            Mode::Probe => "probes",
        }
    }

    /// What the mode does, to begin a sentence with.
    pub fn what(self) -> &'static str {
        match self {
            Mode::RunToCompletion => "Run to completion",
            Mode::Preemptive => "Preemption by signals",
            Mode::Probe => "Preemption at probes",
        }
    }

    /// Does it preempt?
    pub fn preempts(self) -> bool {
        self != Mode::RunToCompletion
    }
}

impl Args {
    /// The loads as fractions of the capacity, ascending, without duplicates.
    pub fn load_fractions(&self) -> Vec<f64> {
        let default = if self.quick { QUICK_LOADS } else { LOADS };
        let mut loads = match &self.loads {
            Some(loads) => loads.0.clone(),
            None => default.parse::<LoadFractions>().expect("the default loads are well-formed").0,
        };
        loads.sort_by(f64::total_cmp);
        loads.dedup();
        loads
    }

    /// How long each load is offered in each mode and round.
    pub fn round_duration(&self) -> Duration {
        let default = if self.quick { 1500 * MS } else { 3150 * MS };
        self.duration.unwrap_or(default) / self.rounds() as u32
    }

    /// How many rounds there are, if none is repeated.
    pub fn rounds(&self) -> usize {
        self.rounds.unwrap_or(if self.quick { 3 } else { 7 })
    }

    /// The modes, each once, run-to-completion first. Unless they were named, there is no mode
    /// `probe` in a program that is not `instrumented`.
    pub fn distinct_modes(&self, instrumented: bool) -> Vec<Mode> {
        let mut modes = self.modes.clone();
        if modes.is_empty() {
            modes = Mode::value_variants().to_vec();
            modes.retain(|mode| match (mode, self.notification) {
                (Mode::RunToCompletion, _) => true,
                (Mode::Preemptive, how) => how != Notification::Probe,
                (Mode::Probe, Notification::Auto) => instrumented,
                (Mode::Probe, how) => how == Notification::Probe,
            });
        }
        modes.sort_unstable();
        modes.dedup();
        modes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser, Debug)]
    struct Cli {
        #[command(flatten)]
        args: Args,
    }

    fn parse(words: &[&str]) -> Result<Args, String> {
        let words = std::iter::once("demo").chain(words.iter().copied());
        Cli::try_parse_from(words).map(|cli| cli.args).map_err(|error| error.to_string())
    }

    #[test]
    fn defaults_are_the_documented_ones() {
        let args = parse(&[]).unwrap();
        assert_eq!(args.mix.to_string(), "95/5");
        assert_eq!(args.slo, 50 * US);
        assert_eq!(args.load_fractions().len(), 10);
        assert_eq!(args.distinct_modes(false), [Mode::RunToCompletion, Mode::Preemptive]);
        assert_eq!(args.distinct_modes(true), Mode::value_variants());
    }

    #[test]
    fn what_is_named_is_compared() {
        let modes = |words: &[&str]| parse(words).unwrap().distinct_modes(false);
        assert_eq!(modes(&["--modes", "probe,preemptive,probe"]), [Mode::Preemptive, Mode::Probe]);
        let probe = modes(&["--notification", "probe"]);
        assert_eq!(probe, [Mode::RunToCompletion, Mode::Probe]);
        let signal = parse(&["--notification", "signal"]).unwrap().distinct_modes(true);
        assert_eq!(signal, [Mode::RunToCompletion, Mode::Preemptive]);
        assert!(parse(&["--modes", "probe", "--notification", "signal"]).is_err());
    }

    #[test]
    fn a_quick_run_leaves_room_for_calibration_within_a_minute() {
        let args = parse(&["--quick"]).unwrap();
        let runs = args.load_fractions().len() * args.distinct_modes(true).len() * args.rounds();
        assert!(runs as u32 * args.round_duration() <= 40 * S);
    }

    #[test]
    fn quick_changes_only_what_was_not_asked_for() {
        let args = parse(&["--quick", "--loads", "50,10", "--duration", "3s"]).unwrap();
        assert_eq!(args.load_fractions(), [0.1, 0.5]);
        assert_eq!(args.round_duration(), S);
    }

    #[test]
    fn bursty_arrivals_have_a_short_name() {
        let process = |text| parse(&["--arrivals", text]).unwrap().arrivals;
        assert_eq!(process("bursty"), process("batch=8"));
        assert_eq!(process("poisson"), ArrivalProcess::Poisson);
    }

    #[test]
    fn errors_name_the_option_and_what_is_accepted() {
        for (words, option, part) in [
            (["--quantum", "0s"], "--quantum", "1us to 1s"),
            (["--quantum", "20"], "--quantum", "unit"),
            (["--slo", "1h"], "--slo", "unit"),
            (["--duration", "1ms"], "--duration", "100ms to 600s"),
            (["--mix", "95/10"], "--mix", "together 100"),
            (["--loads", "0"], "--loads", "above 0"),
            (["--rounds", "0"], "--rounds", "1..=99"),
            (["--keys", "5"], "--keys", "100..=5000000"),
            (["--workers", "many"], "--workers", "invalid digit"),
            (["--clock", "sundial"], "--clock", "timer-core, timer-thread, posix-timer"),
            (["--notification", "pigeon"], "--notification", "signal"),
            (["--policy", "lottery"], "--policy", "two-queue"),
            (["--arrivals", "late"], "--arrivals", "poisson"),
            (["--modes", "cooperative"], "--modes", "run-to-completion, preemptive, probe"),
        ] {
            let error = parse(&words).unwrap_err();
            assert!(error.contains(option) && error.contains(part), "{words:?}: {error}");
        }
    }
}
