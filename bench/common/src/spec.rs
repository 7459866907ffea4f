//! The work that a child is asked to do.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// An operation on threads. Each implementation does it in its own idiom, on the terms that are
/// said here.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Op {
    /// Two threads yield in turn; counted: yields, so one switch each.
    Yield,
    /// One thread spawns an empty thread and joins it; counted: pairs.
    SpawnJoin,
    /// One thread spawns [`DETACHED_BATCH`] empty threads without handles and yields until all have
    /// run; counted: threads.
    SpawnDetached,
    /// One thread locks and unlocks a mutex that nobody else wants; counted: pairs.
    Mutex,
    /// Two threads hand a turn to each other under a mutex with condition variables (where there
    /// are none, with the nearest thing: tokio's `Notify`); counted: hand-offs, two for each round
    /// trip.
    Condvar,
    /// Two threads send one value to and fro through two channels of capacity one (or unbounded,
    /// where those are the only kind); counted: messages, two for each round trip.
    Channel,
}

/// How many detached threads are spawned before their maker yields.
pub const DETACHED_BATCH: u64 = 64;

impl Op {
    /// All of them, in the order of the table.
    pub const ALL: [Op; 6] =
        [Op::Yield, Op::SpawnJoin, Op::SpawnDetached, Op::Mutex, Op::Condvar, Op::Channel];

    /// The name in rows and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Op::Yield => "yield",
            Op::SpawnJoin => "spawn-join",
            Op::SpawnDetached => "spawn-detached",
            Op::Mutex => "mutex",
            Op::Condvar => "condvar",
            Op::Channel => "channel",
        }
    }

    /// How many operations one iteration of its loop counts for.
    pub fn per_iteration(self) -> u64 {
        match self {
            Op::Yield | Op::Condvar | Op::Channel => 2,
            Op::SpawnJoin | Op::Mutex => 1,
            Op::SpawnDetached => DETACHED_BATCH,
        }
    }
}

/// How long a child measures.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Budget {
    /// Warm-up, in ms: pools fill, caches and branch predictors settle, the number of operations is
    /// chosen.
    pub warmup_ms: u64,
    /// Measurement, in ms.
    pub measure_ms: u64,
}

impl Budget {
    /// All of it.
    pub fn duration(self) -> Duration {
        Duration::from_millis(self.warmup_ms + self.measure_ms)
    }
}

/// A key-value service, its load and its objective.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct KvSpec {
    /// Keys in the store.
    pub keys: u64,
    /// Keys that a GET looks up.
    pub get_keys: usize,
    /// Rows that a SCAN reads.
    pub scan_keys: usize,
    /// Mean service time of a GET in ns, measured once for all implementations. Implementations
    /// that cannot use the store imitate it.
    pub get_ns: f64,
    /// Mean service time of a SCAN in ns, likewise.
    pub scan_ns: f64,
    /// SCANs in 100 requests; the others are GETs.
    pub scan_percent: f64,
    /// Objective: the 99th percentile of the latency of GETs, in µs, from the intended send time.
    pub slo_us: u64,
    /// Loads to choose from, ascending, in percent of the capacity of one worker.
    pub loads: Vec<f64>,
    /// How long each load is offered, in ms; longer where that would be less than a thousand
    /// requests.
    pub duration_ms: u64,
    /// Seed of arrivals and keys.
    pub seed: u64,
    /// The core of the worker.
    pub worker_cpu: usize,
    /// The core of the client.
    pub client_cpu: usize,
}

/// A server under test.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ServeSpec {
    /// What it serves.
    pub service: Service,
    /// Its worker threads.
    pub threads: u32,
    /// How many rounds of [`scalar`](crate::compute::scalar) a request computes that computes.
    pub iterations: u64,
    /// How long that takes, in ns, for implementations that cannot use that loop.
    pub compute_ns: u64,
}

/// What a server serves.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Service {
    /// The messages of [`net`](crate::net).
    Messages,
    /// The pages of `http`.
    Http,
}

/// A server of requests that `quaver-load` sends, of one kind. What takes time takes as long as in
/// Quaver's server of that kind.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct AnswerSpec {
    /// What it answers.
    pub answers: Answers,
    /// Its worker threads.
    pub threads: u32,
    /// Keys in the store.
    pub keys: u64,
    /// Bytes of a value.
    pub value_bytes: usize,
    /// How long a GET takes in ns, without network.
    pub get_ns: f64,
    /// How long a SCAN takes in ns, likewise.
    pub scan_ns: f64,
    /// Over how many rows the analyses compute, in the order of their numbers.
    pub rows: Vec<usize>,
    /// How long they take in ns, for implementations that cannot call them.
    pub kernel_ns: Vec<f64>,
}

/// What a server answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answers {
    /// GET and SCAN, in the datagrams of `quaver_load::net::aspen`: a thread or task for each.
    KeyValue,
    /// Analyses, in the same datagrams.
    Analytics,
    /// `get` and `set` of memcached's text protocol: a thread or task for each connection.
    Memcached,
}

/// What a child is asked to do.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "benchmark", rename_all = "kebab-case")]
pub enum Spec {
    /// Time of one operation on one core.
    Ops {
        /// Which.
        op: Op,
        /// How long.
        #[serde(flatten)]
        budget: Budget,
    },
    /// How late a thread wakes from a sleep while others compute on the only core.
    Wake {
        /// Threads that compute without ever yielding, until the end.
        hogs: u32,
        /// Length of a sleep, in µs.
        sleep_us: u64,
        /// How long to go on, in ms.
        duration_ms: u64,
    },
    /// Time and memory of threads that wait.
    Parked {
        /// How many.
        threads: u64,
    },
    /// Operations a second with several workers: `workers` loops of [`Op::Yield`] or
    /// [`Op::SpawnJoin`] at once.
    Throughput {
        /// Which.
        op: Op,
        /// How many workers.
        workers: u32,
        /// How long.
        #[serde(flatten)]
        budget: Budget,
    },
    /// A key-value service under open load.
    Kv(KvSpec),
    /// A server, until its standard input ends.
    Serve(ServeSpec),
    /// A server of another kind, until its standard input ends.
    Answer(AnswerSpec),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_protocol() {
        for op in Op::ALL {
            assert_eq!(serde_json::to_value(op).unwrap(), op.name());
        }
    }

    /// The Go program parses this without help from the compiler.
    #[test]
    fn spec_is_flat_json() {
        let spec =
            Spec::Ops { op: Op::SpawnJoin, budget: Budget { warmup_ms: 20, measure_ms: 100 } };
        assert_eq!(
            serde_json::to_value(&spec).unwrap(),
            serde_json::json!({
                "benchmark": "ops", "op": "spawn-join", "warmup_ms": 20, "measure_ms": 100,
            })
        );
        let text = serde_json::to_string(&spec).unwrap();
        assert_eq!(serde_json::from_str::<Spec>(&text).unwrap(), spec);
    }
}
