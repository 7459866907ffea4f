//! The papers' loads.

use quaver_bench_common::spec::Answers;
use quaver_load::net::Protocol;
use serde::{Deserialize, Serialize};

/// A load.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Which {
    /// RocksDB, half GETs, half SCANs (Skyloft, Fig. 8b).
    RocksHalf,
    /// RocksDB, one SCAN in 200 (Aspen, 4.1.1).
    RocksRare,
    /// memcached under the mix USR (Skyloft, Fig. 8a).
    Usr,
    /// DataFrame (Aspen, Fig. 6).
    Analytics,
}

/// What a load is, and what is asked of the servers that bear it.
#[derive(Debug)]
pub struct Workload {
    /// Its name in specs.
    pub which: Which,
    /// Its name in rows.
    pub name: &'static str,
    /// What servers answer.
    pub answers: Answers,
    /// The classes of requests, and how many of 100 are of each.
    pub mix: &'static [(&'static str, f64)],
    /// Those that are to be fast.
    pub short: &'static [&'static str],
    /// The longest, where there are long ones.
    pub long: Option<&'static str>,
    /// Is the slowdown of all requests bounded, too?
    pub slowdown: bool,
    /// How long a load is offered in a measurement, in ms: the fewer requests a second, the longer.
    pub probe_ms: u64,
}

/// The loads, in the order of the table.
pub static WORKLOADS: [Workload; 4] = [
    Workload {
        which: Which::RocksHalf,
        name: "rocksdb 50/50",
        answers: Answers::KeyValue,
        mix: &[("get", 50.0), ("range", 50.0)],
        short: &["get"],
        long: Some("range"),
        slowdown: true,
        probe_ms: 900,
    },
    Workload {
        which: Which::RocksRare,
        name: "rocksdb 99.5/0.5",
        answers: Answers::KeyValue,
        mix: &[("get", 99.5), ("range", 0.5)],
        short: &["get"],
        long: Some("range"),
        slowdown: false,
        probe_ms: 700,
    },
    Workload {
        which: Which::Usr,
        name: "memcached USR",
        answers: Answers::Memcached,
        mix: &[("get", 99.8), ("set", 0.2)],
        short: &["get"],
        long: None,
        slowdown: false,
        probe_ms: 700,
    },
    Workload {
        which: Which::Analytics,
        name: "analytics",
        answers: Answers::Analytics,
        mix: &[("decay", 20.0), ("ad", 20.0), ("rmv", 20.0), ("ppo", 20.0), ("kmeans", 20.0)],
        short: &["decay", "ad"],
        long: Some("kmeans"),
        slowdown: false,
        probe_ms: 800,
    },
];

/// Keys that there are.
pub const KEYS: u64 = 20_000;
/// Bytes of their values.
pub const VALUE_BYTES: usize = 64;

impl Which {
    /// What it is.
    pub fn workload(self) -> &'static Workload {
        WORKLOADS.iter().find(|workload| workload.which == self).expect("all are listed")
    }
}

impl Workload {
    /// What its client speaks.
    pub fn protocol(&self) -> Protocol {
        match self.answers {
            Answers::KeyValue | Answers::Analytics => Protocol::AspenUdp,
            Answers::Memcached => Protocol::Memcached,
        }
    }

    /// How many of all requests are of a class, from 0 to 1.
    pub fn share(&self, class: &str) -> f64 {
        let of = self.mix.iter().find(|(name, _)| *name == class);
        of.map_or(0.0, |(_, percent)| percent / 100.0)
    }

    /// Classes whose latency is shown at some loads: a short one, and the longest.
    pub fn shown_classes(&self) -> impl Iterator<Item = &'static str> {
        self.short[..1].iter().copied().chain(self.long)
    }
}

#[cfg(test)]
mod tests {
    use quaver_load::Mix;
    use quaver_load::net::operations;

    use super::*;

    #[test]
    fn loads_can_be_offered() {
        for workload in &WORKLOADS {
            let total: f64 = workload.mix.iter().map(|(_, percent)| percent).sum();
            assert_eq!(total, 100.0, "{}", workload.name);
            let mix = workload.mix.iter().map(|(name, percent)| format!("{name}:{percent}"));
            let mix: Mix = mix.collect::<Vec<_>>().join(",").parse().unwrap();
            for operation in operations(&mix).unwrap() {
                assert!(workload.protocol().has(operation), "{}", workload.name);
            }
            for class in workload.short.iter().copied().chain(workload.long) {
                assert!(workload.share(class) > 0.0, "{}: {class}", workload.name);
            }
            assert_eq!(workload.which.workload().name, workload.name);
        }
    }
}
