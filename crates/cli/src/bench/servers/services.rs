//! How long requests take without network and threads, and what a CPU bears of them.
//!
//! Measured once, before all rounds, so that all servers do the same work and loads mean the same
//! for all.

use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use quaver_bench_common::spec::Answers;
use quaver_bench_common::{Outcome, Sample, affinity};
use quaver_load::net::aspen::{GET, Message, REFUSED, SCAN};
use quaver_serve::analytics::{KINDS, MICROSECONDS, Rows, calibrate};
use quaver_serve::store::redb::Redb;
use quaver_serve::store::rocksdb::Rocks;
use quaver_serve::store::{self, Store};
use quaver_serve::{Answer, aspen};
use serde::{Deserialize, Serialize};

use super::offer::Offer;
use super::programs;
use super::workload::{KEYS, VALUE_BYTES, Which, Workload};
use crate::bench::child::Work;
use crate::bench::context::{Context, OVERHEAD};
use crate::bench::net::server::Server;
use crate::bench::told::Told;
use crate::process;

/// How long a SCAN takes: between Aspen's 260 us and Skyloft's 591, and long beside the network's
/// own time.
const SCAN_TIME: Duration = Duration::from_micros(600);
/// Corrections of the number of rows.
const STEPS: usize = 4;
/// Of which the quickest counts: what else runs on the machine only makes them longer.
const BATCHES: usize = 20;
/// GETs of a batch.
const GETS: u32 = 2_000;
/// SCANs of a batch.
const SCANS: u32 = 5;

/// More requests a second than anybody serves.
const FLOOD: f64 = 500_000.0;

/// The work of the child that measures.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ServicesSpec {
    server_cpu: usize,
    client_cpu: usize,
    /// For how long a server is flooded.
    flood_ms: u64,
}

/// What all servers do.
#[derive(Clone, PartialEq, Debug)]
pub struct Services {
    /// The store of Quaver's server.
    pub store: &'static str,
    /// Rows of a SCAN in that store.
    pub scan_rows: usize,
    /// How long a GET takes, in ns.
    pub get_ns: f64,
    /// How long a SCAN takes, in ns.
    pub scan_ns: f64,
    /// Rows of the analyses.
    pub rows: Rows,
    /// What the network and a thread add to a datagram, in ns of the worker.
    datagram_ns: f64,
    /// How long a request of memcached's takes with them, in ns of the worker.
    memcached_ns: f64,
}

impl Services {
    /// Requests a second at 100 % of one worker.
    pub fn capacity(&self, workload: &Workload) -> f64 {
        let mean = |ns: fn(&Services, &str) -> f64| -> f64 {
            workload.mix.iter().map(|(class, percent)| ns(self, class) * percent / 100.0).sum()
        };
        1e9 / match workload.answers {
            Answers::Memcached => self.memcached_ns,
            Answers::KeyValue => self.datagram_ns + mean(Services::key_value_ns),
            Answers::Analytics => self.datagram_ns + mean(|_, class| kernel_ns(class)),
        }
    }

    fn key_value_ns(&self, class: &str) -> f64 {
        if class == "range" { self.scan_ns } else { self.get_ns }
    }
}

fn kernel_ns(class: &str) -> f64 {
    let kind = quaver_load::net::KERNELS.iter().position(|kernel| *kernel == class);
    kind.map_or(0.0, |kind| MICROSECONDS[kind] as f64 * 1e3)
}

/// Asks a child, and says what came out.
///
/// # Errors
///
/// It fails.
pub fn find(context: &Context) -> anyhow::Result<(Services, Vec<String>)> {
    let place = &context.place;
    let spec = ServicesSpec {
        server_cpu: place.worker,
        client_cpu: place.helper.context("server and client take two CPUs")?,
        flood_ms: context.effort.pick(150, 1000),
    };
    let mut words = context.child(&Work::ServersServices(spec)).into_iter();
    let mut command = Command::new(words.next().context("no program")?);
    command.args(words);
    let outcome = process::run(command, &place.both(), 6 * OVERHEAD);
    let outcome = outcome.context("measuring how long requests take")?;
    let Outcome::Sample(Sample { metrics, notes, .. }) = outcome else {
        bail!("measuring how long requests take: {outcome:?}");
    };
    let metric = |name: &str| metrics.get(name).copied().with_context(|| format!("no {name}"));
    let mut rows = Rows([0; KINDS]);
    for (kind, rows) in rows.0.iter_mut().enumerate() {
        *rows = metric(&format!("rows_{kind}"))? as usize;
    }
    let services = Services {
        store: if metrics.contains_key("rocksdb") { "rocksdb" } else { "redb" },
        scan_rows: metric("scan_rows")? as usize,
        get_ns: metric("get_ns")?,
        scan_ns: metric("scan_ns")?,
        rows,
        datagram_ns: metric("datagram_ns")?,
        memcached_ns: metric("memcached_ns")?,
    };
    let mut notes: Vec<String> = notes.into_iter().map(|note| format!("servers: {note}")).collect();
    notes.push(format!(
        "servers: a GET takes {:.2} us and a SCAN {:.0} us in {}; the network adds {:.1} us to a \
         datagram, and a request of memcached's takes {:.1} us; loads are percents of one worker",
        services.get_ns / 1e3,
        services.scan_ns / 1e3,
        services.store,
        services.datagram_ns / 1e3,
        services.memcached_ns / 1e3,
    ));
    Ok((services, notes))
}

/// Measures.
///
/// # Errors
///
/// There is no store, or a server does not answer.
pub fn measure(spec: &ServicesSpec) -> anyhow::Result<Outcome> {
    let (found, notes) = affinity::on_cpu("services", spec.server_cpu, || alone(spec.server_cpu))?;
    let mut services = found;
    let flood = |which, services: &Services| flood(spec, which, services);
    // GETs alone, and all of the time is theirs.
    let served_ns = flood(Which::RocksRare, &services)?;
    services.datagram_ns = (served_ns - services.get_ns).max(0.0);
    services.memcached_ns = flood(Which::Usr, &services)?;
    let mut sample = Sample::default()
        .with("scan_rows", services.scan_rows as f64)
        .with("get_ns", services.get_ns)
        .with("scan_ns", services.scan_ns)
        .with("datagram_ns", services.datagram_ns)
        .with("memcached_ns", services.memcached_ns);
    if services.store == "rocksdb" {
        sample = sample.with("rocksdb", 1.0);
    }
    for (kind, rows) in services.rows.0.iter().enumerate() {
        sample = sample.with(&format!("rows_{kind}"), *rows as f64);
    }
    Ok(notes.into_iter().fold(sample, Sample::note).into())
}

/// Times requests on the calling CPU, without network.
fn alone(cpu: usize) -> anyhow::Result<(Services, Vec<String>)> {
    let builder = quaver::Builder::new().workers(1).cpus(vec![cpu]).quantum_str("off");
    let runtime = builder.build().context("cannot build a runtime")?;
    let measured = runtime.run(|| -> anyhow::Result<_> {
        let mut notes = Vec::new();
        let (store, name): (Arc<dyn Store>, _) = match Rocks::open(None) {
            Ok(rocks) => (Arc::new(rocks), "rocksdb"),
            Err(why) => {
                notes.push(format!("redb in the place of RocksDB: {why}"));
                (Arc::new(Redb::open(None)?), "redb")
            }
        };
        store::fill(store.as_ref(), KEYS, VALUE_BYTES, &|| true)?;
        let serve = |rows| aspen::KeyValue::new(Arc::clone(&store), rows, VALUE_BYTES);
        let mut scan_rows = KEYS as usize / 10;
        for _ in 0..STEPS {
            let took = request_ns(&serve(scan_rows), SCAN, SCANS)?;
            let rows = scan_rows as f64 * SCAN_TIME.as_nanos() as f64 / took;
            scan_rows = (rows.round() as usize).clamp(10, KEYS as usize);
        }
        let services = Services {
            store: name,
            scan_rows,
            get_ns: request_ns(&serve(scan_rows), GET, GETS)?,
            scan_ns: request_ns(&serve(scan_rows), SCAN, SCANS)?,
            rows: calibrate(),
            datagram_ns: 0.0,
            memcached_ns: 0.0,
        };
        Ok((services, notes))
    });
    runtime.shutdown();
    measured
}

/// How long a request takes, in ns.
fn request_ns(server: &aspen::KeyValue, kind: u32, count: u32) -> anyhow::Result<f64> {
    let mut key = 0u64;
    let mut batch = || {
        let begun = Instant::now();
        for _ in 0..count {
            // Steps of about the golden ratio go everywhere.
            key = (key + KEYS * 618 / 1000) % KEYS;
            let reply = server.answer(&Message { id: 0, kind, key: key as u32, run_ns: 0 });
            ensure!(reply.kind & REFUSED == 0, "the store does not answer");
        }
        Ok(begun.elapsed().as_nanos() as f64 / f64::from(count))
    };
    (0..BATCHES).try_fold(f64::INFINITY, |quickest, _| Ok(batch()?.min(quickest)))
}

/// How long a short request takes a server that never waits, in ns: of one that runs to completion,
/// and gets more of them than it can serve.
fn flood(spec: &ServicesSpec, which: Which, services: &Services) -> anyhow::Result<f64> {
    let workload = which.workload();
    let me = std::env::current_exe()?.to_string_lossy().into_owned();
    let program = programs::ours(&me, spec.server_cpu, services, workload, "off", Told::BySignals);
    let server = match Server::start(&program.command, &[spec.server_cpu], program.manner)? {
        Ok(server) => server,
        Err(outcome) => bail!("{outcome:?}"),
    };
    let flooded = affinity::on_cpu("flood", spec.client_cpu, || {
        let before = server.cpu_ns()?;
        let summary = Offer {
            workload,
            classes: vec![("get", 1.0, None)],
            per_s: FLOOD,
            span: Duration::from_millis(spec.flood_ms),
            warm_up: Duration::ZERO,
            grace: Duration::from_secs(2),
            seed: 0,
        }
        .make(server.address)?;
        ensure!(summary.total.completed > 0, "no request was served");
        Ok((server.cpu_ns()? - before) as f64 / summary.total.completed as f64)
    });
    match flooded {
        Ok(ns) => {
            server.stop()?;
            Ok(ns)
        }
        Err(error) => Err(server.blamed(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::workload::WORKLOADS;
    use super::*;

    impl Services {
        /// Times that are easy to calculate with.
        pub fn example() -> Services {
            Services {
                store: "redb",
                scan_rows: 5_000,
                get_ns: 1e3,
                scan_ns: 599e3,
                rows: Rows([100; KINDS]),
                datagram_ns: 10e3,
                memcached_ns: 8e3,
            }
        }
    }

    #[test]
    fn all_of_a_worker_is_one_request_in_every_mean_time() {
        let capacity = |which: Which| Services::example().capacity(which.workload());
        for (which, mean_ns) in [
            (Which::RocksHalf, 10e3 + 300e3),
            (Which::RocksRare, 10e3 + 0.995e3 + 2.995e3),
            (Which::Usr, 8e3),
            (Which::Analytics, 10e3 + (5e3 + 7e3 + 28e3 + 75e3 + 250e3) / 5.0),
        ] {
            let found = capacity(which);
            assert!((found * mean_ns / 1e9 - 1.0).abs() < 1e-9, "{which:?}: {found}");
        }
        assert_eq!(WORKLOADS.len(), 4);
    }
}
