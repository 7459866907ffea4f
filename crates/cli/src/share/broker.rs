//! The broker of `quaver share`.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use clap::ValueEnum;
use quaver_sched::Spec;
use quaver_share::broker::{Binding, Broker, BrokerError, Options, Policy};

use super::Place;
use crate::interrupt::Interrupt;
use crate::{output, parse};

#[derive(clap::Args, Debug)]
pub(super) struct BrokerArgs {
    /// The CPUs that are shared, such as `0-3,8`
    #[arg(long, value_name = "LIST", required = true)]
    cpus: Option<String>,
    /// Who comes before whom
    #[arg(long, value_enum, default_value_t = Order::Shenango)]
    policy: Order,
    /// By which classes of the kernel cores are bound [default: as rights and CPUs allow]
    #[arg(long, value_enum)]
    binding: Option<Classes>,
    /// What a latency-critical application may use, in percent of the shared CPUs; then it takes
    /// turns with best-effort ones
    #[arg(long, value_name = "PERCENT", default_value_t = 100,
          value_parser = clap::value_parser!(u32).range(1..=100))]
    budget: u32,
    /// How long an application that asks for a core waits for an answer
    #[arg(long, value_name = "TIME", default_value = "5us",
          value_parser = parse::duration::within(
              Duration::from_micros(1)..=Duration::from_millis(1)))]
    bound: Duration,
    /// What it takes to give a core up and have it back; a core is not given up for less
    /// [default: measured at the start]
    #[arg(long, value_name = "TIME",
          value_parser = parse::duration::within(
              Duration::from_nanos(100)..=Duration::from_millis(1)))]
    cycle: Option<Duration>,
    /// How long a turn of a best-effort application is, where there are several
    #[arg(long, value_name = "TIME", default_value = "10ms",
          value_parser = parse::duration::within(
              Duration::from_millis(1)..=Duration::from_secs(1)))]
    slice: Duration,
    /// A CPU that is not shared, on which the broker watches the bells and does nothing else
    #[arg(long, value_name = "CPU")]
    guard: Option<usize>,
    /// A run queue with this policy for applications of this user that trust each other
    /// (`QUAVER_SHARE=queue`), such as `two-queue` or `cfs:quantum=50us`; without a quantum, it has
    /// the one that this machine can afford
    #[arg(long, value_name = "POLICY")]
    queue: Option<Spec>,
    /// Users that may join, beside root and the broker's own, by number
    #[arg(long, value_name = "UID", value_delimiter = ',')]
    users: Vec<u32>,
    #[command(flatten)]
    place: Place,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum Order {
    /// Latency-critical before best-effort ones, these by weights
    Shenango,
    /// All by weights
    Weights,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum Classes {
    /// SCHED_FIFO for all
    Fifo,
    /// SCHED_FIFO above SCHED_IDLE
    Mixed,
    /// Nice -20 above SCHED_IDLE: where the kernel throttles or forbids SCHED_FIFO
    Nice,
    /// As usual above SCHED_IDLE; needs no rights
    Idle,
}

impl BrokerArgs {
    fn options(&self) -> anyhow::Result<Options> {
        let list = self.cpus.as_deref().unwrap_or_default();
        let cpus = parse::cpulist::parse(list)
            .map_err(anyhow::Error::msg)
            .with_context(|| format!("--cpus {list}"))?;
        let policy = match self.policy {
            Order::Shenango => Policy::Shenango,
            Order::Weights => Policy::Weights,
        };
        let binding = self.binding.map(|binding| match binding {
            Classes::Fifo => Binding::Fifo,
            Classes::Mixed => Binding::Mixed,
            Classes::Nice => Binding::Nice,
            Classes::Idle => Binding::Idle,
        });
        Ok(Options {
            policy,
            binding,
            bound: self.bound,
            cycle: self.cycle,
            slice: self.slice,
            budget: self.budget,
            guard: self.guard,
            queue: self.queue.clone().map(with_quantum),
            users: self.users.clone(),
            ..Options::new(&self.place.socket, cpus)
        })
    }
}

/// The policy as a program by itself would have it here: without a quantum, with the one that it
/// chooses by what a preemption takes.
fn with_quantum(policy: Spec) -> Spec {
    let program = quaver::Builder::new().clock(quaver::Clock::PosixTimer).policy(policy.clone());
    match program.build().map(|program| program.policy()) {
        Ok(quaver::ActivePolicy::BuiltIn(policy)) => policy,
        _ => policy,
    }
}

/// Serves until a signal asks it to stop. Members then have the usual class again, and the socket
/// is removed.
pub(super) fn run(args: &BrokerArgs) -> anyhow::Result<ExitCode> {
    let options = args.options()?;
    let cpus = parse::cpulist::format(&options.cpus);
    let queue = options.queue.as_ref().map_or(String::new(), |policy| format!(", queue {policy}"));
    // Before there is anything to remove.
    let interrupt = Interrupt::install()?;
    let mut broker = Broker::bind(options).map_err(advised)?;
    for note in broker.notes() {
        eprintln!("quaver: {note}");
    }
    let (binding, socket) = (broker.binding().name(), args.place.socket.display());
    output::print(&format!("share: CPUs {cpus}, binding {binding}{queue}, serving at {socket}\n"))?;
    broker.run(|| interrupt.raised().is_some()).context("cannot wait for applications")?;
    Ok(ExitCode::SUCCESS)
}

/// The error, with what to do where that is not plain.
fn advised(error: BrokerError) -> anyhow::Error {
    let hidden = matches!(&error, BrokerError::Socket { error, .. }
        if error.kind() == std::io::ErrorKind::PermissionDenied);
    let error = anyhow::Error::new(error);
    if hidden {
        anyhow::anyhow!("{error:#}; name another place with --socket, or run as root")
    } else {
        error
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantum_is_what_a_program_would_choose() {
        let given: Spec = "rr:quantum=7ms".parse().unwrap();
        assert_eq!(with_quantum(given.clone()), given);
        let program = quaver::Builder::new().clock(quaver::Clock::PosixTimer).build().unwrap();
        let chosen = program.preemption_price().map(quaver_sched::quantum_for);
        drop(program);
        let eevdf: Spec = "eevdf".parse().unwrap();
        assert_eq!(with_quantum(eevdf.clone()), eevdf.rescaled(chosen));
        let none: Spec = "fifo".parse().unwrap();
        assert_eq!(with_quantum(none.clone()), none);
    }
}
