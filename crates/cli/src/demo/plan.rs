//! From the command line to what is measured: settings are checked against each other and the
//! machine.

use std::sync::Arc;

use anyhow::{Result, anyhow, bail};
use quaver::{ActivePolicy, Builder, Clock, Notification, PolicySpec, Runtime, platform};
use quaver_load::{Class, Mix, ServiceTime};

use super::args::{Args, Mode};
use super::calibrate::Services;
use super::placement::{Placement, needs_cpu, place};
use super::results::{Chosen, Machine, Report, Row, Settings, SloLoads, Summary};
use super::serve::Client;
use super::summary::summarise;
use super::sweep::{self, CLASSES, Sweep};
use super::table;
use crate::doctor::{choose, detect};
use quaver_bench_common::affinity;
use quaver_bench_common::noise::Noise;
use quaver_bench_common::store::Store;

/// What is measured where.
pub(super) struct Plan {
    pub(super) placement: Placement,
    modes: Vec<(Mode, Builder)>,
    policy: PolicySpec,
    chosen: Option<Chosen>,
    probe_chosen: Option<Chosen>,
    clock: Clock,
    machine: Machine,
}

impl Plan {
    /// Makes the plan, and each runtime once, so that what cannot work is found out at once.
    pub(super) fn make(args: &Args) -> Result<Plan> {
        let usable = affinity::allowed()?;
        let quota = detect::cgroup::detect().cpu_quota;
        let clock = match args.clock {
            Clock::Auto => platform::recommend().clock,
            clock => clock,
        };
        let clock = needs_cpu(clock, usable.len());
        let placement = place(&usable, args.workers, clock, quota)
            .map_err(|error| anyhow!("--workers: {error}"))?;

        let policy = match args.quantum {
            Some(quantum) => args.policy.clone().with_quantum(Some(quantum)),
            None => args.policy.clone(),
        };
        let instrumented = platform::facts().instrumented;
        let modes = args.distinct_modes(instrumented);
        if modes.contains(&Mode::Probe) && !instrumented {
            bail!(
                "this quaver was built without probes: `make demo` builds one that has them, or \
                 choose --modes run-to-completion,preemptive"
            );
        }
        if modes.iter().any(|mode| mode.preempts()) && policy.quantum().is_none() {
            bail!(
                "--policy {policy}: it never preempts; choose one with a quantum, or --modes \
                 run-to-completion"
            );
        }
        let base = Builder::new()
            .workers(placement.workers.len())
            .cpus(placement.workers.clone())
            .clock(args.clock)
            .idle_spin(args.idle_spin)
            .timer_cpu(placement.timer);
        let told = match args.notification {
            Notification::Auto | Notification::Probe => Notification::Signal,
            chosen => chosen,
        };
        let asked_for = policy;
        let mut policy = asked_for.clone();
        let builder = |mode| match mode {
            Mode::RunToCompletion => base.clone().policy(PolicySpec::fifo()).notification(told),
            Mode::Preemptive => base.clone().policy(asked_for.clone()).notification(told),
            Mode::Probe => base.clone().policy(asked_for.clone()).notification(Notification::Probe),
        };
        let modes: Vec<_> = modes.into_iter().map(|mode| (mode, builder(mode))).collect();
        let (mut clock, mut chosen, mut probe_chosen) = (args.clock, None, None);
        // The last one's policy is shown: that of signals, if there are any.
        for (mode, builder) in modes.iter().rev() {
            let runtime = sweep::build(*mode, builder)?;
            clock = runtime.clock();
            if mode.preempts() {
                let chosen = if *mode == Mode::Probe { &mut probe_chosen } else { &mut chosen };
                *chosen = Chosen::of(&runtime, asked_for.has_own_quantum());
                if let ActivePolicy::BuiltIn(spec) = runtime.policy() {
                    policy = spec;
                }
            }
            runtime.shutdown();
        }

        let kernel = detect::kernel::detect();
        let machine = Machine {
            processor: kernel.processor,
            hypervisor: kernel.hypervisor,
            kernel: kernel.release,
            usable_cpus: usable,
            worker_cpus: placement.workers.clone(),
            client_cpu: placement.client,
            crowded: placement.crowded,
            noise: Noise::default(),
        };
        Ok(Plan { placement, modes, policy, chosen, probe_chosen, clock, machine })
    }

    /// The sweep, now that the requests are calibrated.
    pub(super) fn sweep(&self, args: &Args, store: Arc<Store>, services: Services) -> Sweep {
        let workers = self.placement.workers.len();
        let class = |name: &str, share: f64, ns: f64| Class {
            name: name.to_owned(),
            weight: share,
            service: Some(ServiceTime::Fixed { ns: (ns.round() as u64).max(1) }),
        };
        let mix = Mix::new(vec![
            class(CLASSES[0], args.mix.get_share(), services.get_ns),
            class(CLASSES[1], args.mix.scan_share(), services.scan_ns),
        ])
        .expect("shares are not negative and not both 0, and service times above 0");
        Sweep {
            store,
            capacity_rps: mix.capacity(workers).expect("both classes have a service time"),
            services,
            mix,
            arrivals: args.arrivals,
            loads: args.load_fractions(),
            modes: self.modes.clone(),
            rounds: args.rounds(),
            // A client that sleeps is always late.
            repeats: if self.spin_ns(args) == u64::MAX { args.rounds() } else { 0 },
            duration: args.round_duration(),
            seed: args.seed,
            client: Client { cpu: self.placement.client, spin_ns: self.spin_ns(args) },
        }
    }

    /// How workers are told, in the modes that preempt.
    fn notifications(&self) -> String {
        let chosen = [&self.chosen, &self.probe_chosen].into_iter().flatten();
        let names: Vec<&str> = chosen.map(|chosen| chosen.notification.as_str()).collect();
        names.join(", ")
    }

    /// A client with a CPU to itself spins, so that it sends in time; otherwise it would take the
    /// CPU from those that it shares it with.
    fn spin_ns(&self, args: &Args) -> u64 {
        if let Some(span) = args.client_spin {
            return span.as_nanos() as u64;
        }
        if self.placement.crowded.is_some() { 0 } else { u64::MAX }
    }

    /// The report, now that everything is measured.
    pub(super) fn report(
        &self,
        args: &Args,
        sweep: &Sweep,
        noise: Noise,
        rows: Vec<Row>,
        loads: SloLoads,
    ) -> Report {
        let us = |span: std::time::Duration| span.as_secs_f64() * 1e6;
        Report {
            version: env!("CARGO_PKG_VERSION"),
            machine: Machine { noise, ..self.machine.clone() },
            settings: Settings {
                mix: args.mix.to_string(),
                arrivals: args.arrivals.to_string(),
                policy: self.policy.to_string(),
                quantum_us: self.policy.quantum().map_or(0.0, us),
                clock: self.clock.to_string(),
                notification: self.notifications(),
                idle_spin_us: us(args.idle_spin),
                workers: self.placement.workers.len(),
                keys: args.keys,
                seed: args.seed,
                slo_us: us(args.slo),
                round_s: sweep.duration.as_secs_f64(),
                rounds: args.rounds(),
            },
            services: sweep.services.clone(),
            capacity_rps: sweep.capacity_rps,
            summary: Summary {
                chosen: self.chosen.clone(),
                probe_chosen: self.probe_chosen.clone(),
                ..summarise(&rows, loads, &table::time(us(args.slo)))
            },
            rows,
        }
    }
}

impl Chosen {
    /// What this runtime preempts with. `None`: it does not.
    fn of(runtime: &Runtime, quantum_was_given: bool) -> Option<Chosen> {
        let us = |span: std::time::Duration| span.as_secs_f64() * 1e6;
        let price_us = us(runtime.preemption_price()?);
        let ActivePolicy::BuiltIn(policy) = runtime.policy() else { return None };
        let why = if quantum_was_given {
            "it was asked for".to_owned()
        } else if runtime.notification() == Notification::Probe {
            choose::why_this_probe_quantum(price_us)
        } else {
            choose::why_this_quantum(price_us)
        };
        Some(Chosen {
            quantum_us: us(policy.quantum()?),
            price_us,
            clock: runtime.clock().to_string(),
            notification: runtime.notification().to_string(),
            why,
        })
    }
}
