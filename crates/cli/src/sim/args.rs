//! The options: a scenario file, or the most important keys of one.

use std::path::PathBuf;
use std::str::FromStr;

use anyhow::{Result, bail};
use quaver::Clock;
use quaver_sim::Scenario;

use crate::output::Target;

/// Simulate a server: latencies, utilisation and counts, under the runtime's own policies
#[derive(clap::Args, Clone, Debug)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// A scenario in TOML; docs/simulator.md explains its keys
    #[arg(conflicts_with = "mix")]
    pub scenario: Option<PathBuf>,
    /// Without a scenario: classes with service times, such as
    /// get:95%:fixed=1us,scan:5%:fixed=260us
    #[arg(long)]
    pub mix: Option<String>,
    /// Cores that serve
    #[arg(long)]
    pub workers: Option<u32>,
    /// The policy, such as two-queue:quantum=5us
    #[arg(long)]
    pub policy: Option<String>,
    /// How workers are told to preempt: none, signal, uintr, probe, xui-timer...
    #[arg(long)]
    pub mechanism: Option<String>,
    /// What the runtime itself costs: ideal, quaver, aspen-kb, skyloft...
    #[arg(long)]
    pub system: Option<String>,
    /// Loads in percent of the workers' capacity, such as 70 or 10..90:10
    #[arg(long)]
    pub load: Option<String>,
    /// Requests for each load
    #[arg(long)]
    pub requests: Option<u64>,
    /// What decides all random numbers
    #[arg(long)]
    pub seed: Option<u64>,
    /// Check invariants at every event
    #[arg(long)]
    pub check: bool,
    /// Write the outcomes as JSON; - is standard output
    #[arg(long, value_name = "FILE")]
    pub json: Option<Target>,
    /// Write a page with curves
    #[arg(long, value_name = "FILE")]
    pub html: Option<Target>,
    /// Write what ran where, for ui.perfetto.dev
    #[arg(long, value_name = "FILE")]
    pub perfetto: Option<Target>,
    /// The part of the run that --perfetto shows
    #[arg(long, value_name = "FROM..TO", default_value = "0ms..2ms")]
    pub window: Span,
    /// Predict the real runtime with one worker, and fail where the prediction is more than 15 %
    /// off
    #[arg(long)]
    pub validate: bool,
    /// With --validate: seconds instead of minutes
    #[arg(long, requires = "validate")]
    pub quick: bool,
    /// With --validate: who keeps time: auto, posix-timer, timer-thread or timer-core
    #[arg(long, requires = "validate", default_value_t = Clock::Auto)]
    pub clock: Clock,
}

/// `FROM..TO`, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct Span(pub [u64; 2]);

impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (from, to) = text.split_once("..").ok_or("expected FROM..TO such as 1ms..3ms")?;
        let ns = |text| quaver_load::parse_duration_ns(text).map_err(|e| e.to_string());
        let span = [ns(from)?, ns(to)?];
        if span[0] >= span[1] {
            return Err("the end must be after the beginning".into());
        }
        Ok(Span(span))
    }
}

impl Args {
    /// The scenario of the file or of the options; options change single keys of a file.
    ///
    /// # Errors
    ///
    /// Names line and key of a file, or the option.
    pub fn scenario(&self) -> Result<Scenario> {
        if self.workers == Some(0) {
            bail!("--workers: at least one is needed");
        }
        let mut scenario = match &self.scenario {
            Some(path) => Scenario::open(path)?,
            None => self.of_options()?,
        };
        let bad =
            |option: &str, error: &dyn std::fmt::Display| anyhow::anyhow!("--{option}: {error}");
        if let Some(workers) = self.workers {
            scenario.server.workers = workers as usize;
        }
        if let Some(text) = &self.policy {
            scenario.server.policy = text.parse().map_err(|e| bad("policy", &e))?;
        }
        if let Some(name) = &self.mechanism {
            scenario.server.mechanism =
                quaver_sim::mechanism_named(name).map_err(|e| bad("mechanism", &e))?;
        }
        if let Some(name) = &self.system {
            scenario.server.system =
                quaver_sim::system_named(name).map_err(|e| bad("system", &e))?;
        }
        if let Some(text) = &self.load {
            let load = &mut scenario.load;
            (load.rate, load.load) = (None, None);
            load.loads = Some(text.parse().map_err(|e| bad("load", &e))?);
        }
        scenario.load.requests = self.requests.or(scenario.load.requests);
        if self.requests == Some(0) {
            bail!("--requests: 0 requests cannot be simulated");
        }
        scenario.seed = self.seed.unwrap_or(scenario.seed);
        scenario.validate()?;
        Ok(scenario)
    }

    fn of_options(&self) -> Result<Scenario> {
        let (Some(mix), Some(workers)) = (&self.mix, self.workers) else {
            bail!("give a scenario file, or --mix and --workers");
        };
        let mix: quaver_load::Mix = mix.parse().map_err(|e| anyhow::anyhow!("--mix: {e}"))?;
        let text = format!("[load]\nmix = \"{mix}\"\nload = 0.7\n[server]\nworkers = {workers}\n");
        Ok(text.parse()?)
    }
}
