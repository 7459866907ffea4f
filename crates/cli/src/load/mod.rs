//! `quaver load`: requests to a server over the network, at given times, and how long the answers
//! took.
//!
//! The work is done by [`quaver_load::net`]; here are its options and the table.

mod table;

use std::net::{SocketAddr, ToSocketAddrs};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::builder::RangedU64ValueParser;
use quaver_bench_common::affinity;
use quaver_load::net::{Offered, Options, Pool, Protocol, fill, operations};
use quaver_load::{ArrivalProcess, Limit, Mix, RealClock, Recorder, Schedule, reduce_timer_slack};
use serde::Serialize;

use crate::output::{self, Target};
use crate::parse::{bytes, duration};

const MS: Duration = Duration::from_millis(1);
const S: Duration = Duration::from_secs(1);
const DAY: Duration = Duration::from_secs(86_400);

/// Send requests to a server at given times, and report how long the answers took
///
/// An open loop: requests are sent when they are due, whatever became of earlier ones, and latency
/// counts from the moment at which one was due. Requests that get no good answer count as slower
/// than all that do.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// What the server speaks: resp, memcached, aspen-udp
    #[arg(long, value_name = "PROTOCOL")]
    protocol: Protocol,

    /// The server
    #[arg(long, value_name = "ADDRESS", value_parser = server)]
    to: SocketAddr,

    /// Requests a second, of all classes together
    #[arg(long, value_name = "N", value_parser = rate)]
    rate: f64,

    /// Classes and their shares: get, set, incr, range; of the analytics server decay, ad, rmv,
    /// ppo, kmeans
    #[arg(long, value_name = "LIST", default_value = "get=100", value_parser = mix)]
    mix: Mix,

    /// When requests are sent: poisson, uniform, batch=MEAN, onoff=ON/OFF
    #[arg(long, value_name = "PROCESS", default_value = "poisson")]
    arrivals: ArrivalProcess,

    /// Connections to the server; over UDP sockets
    #[arg(long, value_name = "N", default_value_t = 64,
          value_parser = RangedU64ValueParser::<usize>::new().range(1..=60_000))]
    connections: usize,

    /// Requests on one connection at a time; more wait in the client, and their time runs
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = RangedU64ValueParser::<usize>::new().range(1..=1_000_000))]
    depth: usize,

    /// For how long requests are sent, after the warm-up
    #[arg(long, value_name = "TIME", default_value = "10s",
          value_parser = duration::within(MS..=DAY))]
    duration: Duration,

    /// For how long requests are sent before, which are not counted
    #[arg(long, value_name = "TIME", default_value = "1s",
          value_parser = duration::within(Duration::ZERO..=DAY))]
    warm_up: Duration,

    /// How long to wait for the last answers
    #[arg(long, value_name = "TIME", default_value = "1s",
          value_parser = duration::within(Duration::ZERO..=DAY))]
    grace: Duration,

    /// Requests on their way, or waiting for a connection, beyond which those that are due are
    /// dropped
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    max_outstanding: u64,

    /// Keys, one of which each request names
    #[arg(long, value_name = "N", default_value_t = 10_000,
          value_parser = RangedU64ValueParser::<u64>::new().range(1..=1 << 32))]
    keys: u64,

    /// Bytes of values that are written
    #[arg(long, value_name = "SIZE", default_value = "64",
          value_parser = bytes::within(0..=1 << 20))]
    value_size: u64,

    /// Rows that a `range` reads
    #[arg(long, value_name = "N", default_value_t = 5_000)]
    rows: u64,

    /// Store all keys before
    #[arg(long)]
    fill: bool,

    /// Seed of keys, arrivals and classes
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,

    /// CPU that the client runs on [default: any]
    #[arg(long, value_name = "N")]
    cpu: Option<usize>,

    /// How long before each send time the client stops sleeping and spins [default: 20us with more
    /// than two CPUs, else 0s]
    #[arg(long, value_name = "TIME", value_parser = duration::within(Duration::ZERO..=S))]
    spin: Option<Duration>,

    /// Write the results to FILE as JSON, or with - to standard output instead of the table
    #[arg(long, value_name = "FILE")]
    json: Option<Target>,
}

fn server(text: &str) -> Result<SocketAddr, String> {
    let found = text.to_socket_addrs().map_err(|error| {
        format!("{error}; expected a host and a port, as 127.0.0.1:6379 or localhost:6379")
    })?;
    found.into_iter().next().ok_or_else(|| "this host has no address".to_owned())
}

fn rate(text: &str) -> Result<f64, String> {
    let rate: f64 = text.parse().map_err(|_| "expected a number above 0".to_owned())?;
    if (0.001..=1e8).contains(&rate) { Ok(rate) } else { Err("expected 0.001 to 1e8".into()) }
}

/// `get=99.5,range=0.5`, or as [`Mix`] writes it.
fn mix(text: &str) -> Result<Mix, String> {
    let text = if text.contains(':') { text.to_owned() } else { text.replace('=', ":") };
    let mix: Mix = text.parse().map_err(|error: quaver_load::SpecError| error.to_string())?;
    operations(&mix).map_err(|error| error.to_string())?;
    Ok(mix)
}

/// The results, with what was asked for.
#[derive(Serialize, Debug)]
struct Report {
    protocol: &'static str,
    to: SocketAddr,
    rate: f64,
    mix: String,
    arrivals: String,
    connections: usize,
    depth: usize,
    duration_s: f64,
    seed: u64,
    /// CPU time of the client, in seconds.
    client_cpu_s: f64,
    #[serde(flatten)]
    offered: Offered,
}

/// Runs the load.
///
/// # Errors
///
/// The server cannot be reached, does not speak the protocol, or results cannot be written. That it
/// is slow, or answers with errors, is a result and no error.
pub fn run(args: &Args) -> Result<ExitCode> {
    if let Some(target) = &args.json {
        target.check()?;
    }
    let report = match args.cpu {
        Some(cpu) => affinity::on_cpu("load", cpu, || measure(args)),
        None => measure(args),
    }?;
    if let Some(target) = &args.json {
        target.write_json(&report)?;
    }
    if args.json != Some(Target::Stdout) {
        output::print(&table::text(&report.offered))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn measure(args: &Args) -> Result<Report> {
    reduce_timer_slack().context("cannot make the client's sleeps exact")?;
    let limit = Limit::Duration(args.duration);
    let schedule =
        Schedule::new(args.arrivals, args.rate, &args.mix, limit, args.seed)?.warm_up(args.warm_up);
    let operations = operations(&args.mix)?;
    args.protocol.check(schedule.classes(), &operations)?;
    let recorder = Recorder::for_schedule(&schedule)?;
    if schedule.count() == 0 {
        bail!("no request is due in {}", duration::format(args.duration));
    }
    let value_bytes = args.value_size as usize;
    if args.fill {
        fill(args.protocol, args.to, args.keys, value_bytes)?;
    }
    let mut pool = Pool::connect(Options {
        protocol: args.protocol,
        to: args.to,
        connections: args.connections,
        depth: args.depth,
        keys: args.keys,
        value_bytes,
        rows: args.rows,
    })?;
    let clock = match args.spin {
        Some(spin) => RealClock::with_spin_ns(spin.as_nanos() as u64),
        None => RealClock::start(),
    };
    let planned = args.warm_up + args.duration;
    let before = cpu_seconds();
    let offered = pool.offer(&schedule, &operations, &recorder, clock, |open| {
        open.max_outstanding(args.max_outstanding)
            .time_limit(planned + args.grace)
            .grace(args.grace)
    })?;
    Ok(Report {
        protocol: args.protocol.name(),
        to: args.to,
        rate: args.rate,
        mix: args.mix.to_string(),
        arrivals: args.arrivals.to_string(),
        connections: args.connections,
        depth: args.depth,
        duration_s: args.duration.as_secs_f64(),
        seed: args.seed,
        client_cpu_s: cpu_seconds() - before,
        offered,
    })
}

/// CPU time of the calling thread so far.
fn cpu_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mix_is_written_with_either_sign() {
        let one = mix("get=99.5,range=0.5").unwrap();
        assert_eq!(one, mix("get:99.5,range:0.5").unwrap());
        assert!((one.share(1) - 0.005).abs() < 1e-9);
        assert!(mix("fetch=1").unwrap_err().contains("get, set, incr, range"));
        assert!(mix("get=x").unwrap_err().contains("weight"));
    }

    #[test]
    fn rates_are_above_nothing() {
        assert_eq!(rate("1e5"), Ok(1e5));
        for text in ["0", "-1", "nan", "inf", "many"] {
            assert!(rate(text).unwrap_err().contains("expected"), "{text}");
        }
    }
}
