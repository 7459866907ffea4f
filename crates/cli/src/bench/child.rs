//! What this executable does as a child of itself: one measurement, in a process of its own.

use anyhow::Context;
use quaver_bench_common::spec::KvSpec;
use quaver_bench_common::{Outcome, Spec};
use serde::{Deserialize, Serialize};

use super::settings::Settings;
#[cfg(feature = "selftest")]
use super::shim;
use super::{
    chase, defer, kv, l3fwd, lock, mixes, net, notify, ours, preempt, probes, regions, schbench,
    servers, share, short, stall,
};
use crate::process::Crash;

/// One measurement.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "task", rename_all = "kebab-case")]
pub enum Work {
    /// Quaver does what every implementation does.
    Ours {
        /// How the runtime is built.
        settings: Settings,
        /// What it does.
        spec: Spec,
    },
    /// The cost of preemption.
    Preempt(preempt::PreemptSpec),
    /// The cost of a switch by what is saved.
    Chase(chase::ChaseSpec),
    /// Clocks beside short threads.
    Short(short::ShortSpec),
    /// Preemptions that are put off.
    Defer(defer::DeferSpec),
    /// An unmodified program.
    #[cfg(feature = "selftest")]
    Shim(shim::ShimSpec),
    /// Waits for locks that keep a worker.
    Stall(stall::StallSpec),
    /// Threads that contend for a lock.
    Lock(lock::Work),
    /// Threads that wake one another.
    Schbench(schbench::SchbenchSpec),
    /// A paper's mix of requests.
    Mixes(mixes::MixSpec),
    /// A notification of another core, or a timer.
    Notify(notify::NotifySpec),
    /// A server that shares its CPU.
    Share(share::ShareSpec),
    /// What it shares it with.
    ShareBestEffort(share::BestEffortSpec),
    /// Two applications in one run queue.
    ShareSwitch(share::SwitchSpec),
    /// How often a program calls what must not be left in the middle.
    Regions(regions::RegionsSpec),
    /// A plain program that is frozen.
    ShareFrozen(share::FrozenSpec),
    /// Threads that give a core to each other by the kernel alone.
    ShareFloor(share::FloorSpec),
    /// A program with probes, or without.
    Probes(probes::ProbesSpec),
    /// A server over sockets, and its client.
    Net(net::NetSpec),
    /// A key-value server by a stack in user space, and its client.
    NetBypass(net::BypassSpec),
    /// Packets by AF_XDP.
    L3fwd(l3fwd::L3fwdSpec),
    /// Quaver's server over sockets.
    NetServe(net::OursSpec),
    /// A round of a server that bears a load.
    ServersRound(servers::RoundSpec),
    /// How long its requests take.
    ServersServices(servers::ServicesSpec),
    /// A server of Debian's.
    ServersNative(servers::NativeSpec),
    /// The service times of the key-value store.
    KvCalibrate(kv::CalibrateSpec),
    /// The client of the key-value service in Go.
    KvRing {
        /// The Go program.
        program: String,
        /// The service and its load.
        spec: KvSpec,
    },
}

/// Does `work`, which is JSON, and prints the outcome.
///
/// # Errors
///
/// When it is no work, or a process crashed that it had started. A measurement that fails is an
/// outcome.
pub fn run(work: &str) -> anyhow::Result<()> {
    let work = serde_json::from_str(work).context("the argument of --child is no work")?;
    let outcome = match &work {
        Work::Ours { settings, spec } => ours::run(settings, spec),
        Work::Preempt(spec) => preempt::run(spec),
        Work::Chase(spec) => chase::run(spec),
        Work::Short(spec) => short::run(spec),
        Work::Defer(spec) => defer::run(spec),
        #[cfg(feature = "selftest")]
        Work::Shim(spec) => shim::run(spec),
        Work::Stall(spec) => stall::run(spec),
        Work::Lock(spec) => lock::run(spec),
        Work::Schbench(spec) => schbench::run(spec),
        Work::Mixes(spec) => mixes::run(spec),
        Work::Notify(spec) => notify::run(spec),
        Work::Share(spec) => share::run(spec),
        Work::ShareBestEffort(spec) => share::run_best_effort(spec),
        Work::ShareSwitch(spec) => share::run_switch(spec),
        Work::Regions(spec) => regions::run(spec),
        Work::ShareFrozen(spec) => share::run_frozen(spec),
        Work::ShareFloor(spec) => share::run_floor(spec),
        Work::Probes(spec) => probes::run(spec),
        Work::Net(spec) => net::run(spec),
        Work::NetBypass(spec) => net::bypass::run(spec),
        Work::L3fwd(spec) => l3fwd::run(spec),
        Work::NetServe(spec) => net::serve(spec),
        Work::ServersRound(spec) => servers::round::run(spec),
        Work::ServersServices(spec) => servers::services::measure(spec),
        Work::ServersNative(spec) => servers::natives::run(spec),
        Work::KvCalibrate(spec) => kv::calibrate(spec),
        Work::KvRing { program, spec } => kv::ring::run(program, spec),
    };
    match outcome {
        Err(error) if error.is::<Crash>() => return Err(error),
        Err(error) => Outcome::failed(format!("{error:#}")).print(),
        Ok(outcome) => outcome.print(),
    }
    Ok(())
}
