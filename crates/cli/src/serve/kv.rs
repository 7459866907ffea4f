//! `quaver serve kv`: a key-value store for clients of Redis, memcached or Aspen.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use quaver::Runtime;
use quaver::sync::CancelToken;
use quaver_serve::store::memory::Memory;
use quaver_serve::store::redb::Redb;
use quaver_serve::store::rocksdb::Rocks;
use quaver_serve::store::{self, Store};
use quaver_serve::{Limits, Service, TcpServer, UdpServer, aspen, memcached, resp};

use super::limits::LimitArgs;
use super::{Listen, Network, Server, Stack, introduce, raise_descriptor_limit, until_signal};
use crate::interrupt::Interrupt;
use crate::parse::bytes;
use crate::runtime_args::RuntimeArgs;

/// Serve a key-value store to clients of Redis, of memcached, or of Aspen's benchmarks
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// What clients speak
    #[arg(long, value_enum, default_value = "resp")]
    protocol: Protocol,

    /// Where entries are kept
    #[arg(long, value_enum, default_value = "memory")]
    store: Kind,

    /// File of redb, or directory of RocksDB [default: redb in memory, RocksDB in a temporary
    /// directory]
    #[arg(long, value_name = "PATH")]
    path: Option<PathBuf>,

    /// Memory that the entries of the memory store may take [default: 1g]
    #[arg(long, value_name = "SIZE", value_parser = bytes::within(1 << 20..=1 << 44))]
    max_memory: Option<u64>,

    /// Store so many keys at the start, named as `quaver load` names them
    #[arg(long, value_name = "N", default_value_t = 0)]
    fill: u64,

    /// Bytes of their values
    #[arg(long, value_name = "SIZE", default_value = "64",
          value_parser = bytes::within(0..=1 << 20))]
    value_size: u64,

    /// Rows that a SCAN of aspen-udp reads
    #[arg(long, value_name = "N", default_value_t = 5_000)]
    scan_rows: usize,

    #[command(flatten)]
    listen: Listen,

    #[command(flatten)]
    network: Network,

    #[command(flatten)]
    limits: LimitArgs,

    #[command(flatten)]
    runtime: RuntimeArgs,
}

/// What clients speak.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Protocol {
    /// That of Redis
    Resp,
    /// Those of memcached, text and binary
    Memcached,
    /// GET and SCAN in datagrams of 16 bytes, as in Aspen's benchmarks
    AspenUdp,
}

/// Where entries are kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Kind {
    /// A hash map with an ordered index
    Memory,
    /// A B-tree
    Redb,
    /// A log-structured tree, from the system's library
    Rocksdb,
}

/// Memory of the memory store, unless chosen otherwise.
const MEMORY: u64 = 1 << 30;

pub(super) fn run(args: &Args, interrupt: &Interrupt) -> Result<ExitCode> {
    let limits = args.limits.limits();
    let usual_port = match args.protocol {
        Protocol::Resp => 6379,
        Protocol::Memcached => 11211,
        Protocol::AspenUdp => 5000,
    };
    let address = args.listen.address(args.network.usual_ip(), usual_port)?;
    let runtime = args.runtime.build()?;
    let stack = args.network.start(&runtime)?;
    let store = open(args)?;
    raise_descriptor_limit();
    let server = KeyValue::bind(args, address, &limits, Arc::clone(&store))
        .with_context(|| format!("cannot listen at {address}"))?;
    let goes_on = || interrupt.raised().is_none();
    let filled = store::fill(store.as_ref(), args.fill, args.value_size as usize, &goes_on)
        .with_context(|| format!("cannot fill the store with --fill {}", args.fill))?;
    if let Some(signal) = interrupt.raised().filter(|_| !filled) {
        eprintln!("quaver serve: {}, stopping: the store has {} keys", signal.name(), store.len());
        return stop(store.as_ref(), stack, runtime).map(|()| ExitCode::SUCCESS);
    }
    introduce(&runtime, &format!("{} keys in {}", store.len(), store.name()));

    let done = CancelToken::new();
    let (tidied, token) = (Arc::clone(&store), done.clone());
    let tidying = runtime.spawn(move || store::keep_tidy(tidied.as_ref(), &token));
    let served = until_signal(&runtime, server, interrupt);
    done.cancel();
    // A panic there has been printed, and the entries are still to be written.
    let _ = tidying.join();
    served.and(stop(store.as_ref(), stack, runtime))?;
    Ok(ExitCode::SUCCESS)
}

/// Writes what has not been written, and ends what serves.
fn stop(store: &dyn Store, stack: Option<Stack>, runtime: Runtime) -> Result<()> {
    let written = store.sync().context("cannot write the last changes");
    if let Some(stack) = stack {
        stack.stop();
    }
    runtime.shutdown();
    written
}

fn open(args: &Args) -> Result<Arc<dyn Store>> {
    let path = args.path.as_deref();
    if args.store == Kind::Memory && path.is_some() {
        bail!("the memory store has no --path: choose --store redb or rocksdb");
    }
    if args.store != Kind::Memory && args.max_memory.is_some() {
        bail!("--max-memory is for --store memory");
    }
    Ok(match args.store {
        Kind::Memory => Arc::new(Memory::new(args.max_memory.unwrap_or(MEMORY))),
        Kind::Redb => Arc::new(Redb::open(path)?),
        Kind::Rocksdb => Arc::new(Rocks::open(path)?),
    })
}

/// The server of one of the protocols.
enum KeyValue {
    Resp(Arc<TcpServer>, Arc<Service>),
    Memcached(Arc<TcpServer>, Arc<Service>),
    Aspen(Arc<UdpServer>),
}

impl KeyValue {
    fn bind(
        args: &Args,
        address: SocketAddr,
        limits: &Limits,
        store: Arc<dyn Store>,
    ) -> io::Result<KeyValue> {
        let tcp = || TcpServer::bind(address, limits.clone()).map(Arc::new);
        let service = |store| Arc::new(Service::new(store, limits.clone()));
        Ok(match args.protocol {
            Protocol::Resp => KeyValue::Resp(tcp()?, service(store)),
            Protocol::Memcached => KeyValue::Memcached(tcp()?, service(store)),
            Protocol::AspenUdp => {
                let answers = aspen::KeyValue::new(store, args.scan_rows, args.value_size as usize);
                let server = UdpServer::bind(address, limits.clone(), Arc::new(answers))?;
                KeyValue::Aspen(Arc::new(server))
            }
        })
    }
}

impl Server for KeyValue {
    fn local_addr(&self) -> io::Result<SocketAddr> {
        match self {
            KeyValue::Resp(server, _) | KeyValue::Memcached(server, _) => server.local_addr(),
            KeyValue::Aspen(server) => server.local_addr(),
        }
    }

    fn run(&self) {
        match self {
            KeyValue::Resp(server, service) => {
                server.run(|| resp::Connection::new(Arc::clone(service)));
            }
            KeyValue::Memcached(server, service) => {
                server.run(|| memcached::Connection::new(Arc::clone(service)));
            }
            KeyValue::Aspen(server) => server.run(),
        }
    }

    fn stop(&self) -> usize {
        match self {
            KeyValue::Resp(server, _) | KeyValue::Memcached(server, _) => server.stop(),
            KeyValue::Aspen(server) => server.stop(),
        }
    }
}
