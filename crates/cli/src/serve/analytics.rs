//! `quaver serve analytics`: the analyses of Aspen's second benchmark.

use std::io;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result};
use quaver_serve::UdpServer;
use quaver_serve::analytics::{Analytics, NAMES, Rows};

use super::limits::LimitArgs;
use super::{Listen, Network, Server, introduce, until_signal};
use crate::interrupt::Interrupt;
use crate::runtime_args::RuntimeArgs;

/// Serve five analyses of prices in datagrams: decay, ad, rmv, ppo, kmeans
///
/// They take 5, 7, 28, 75 and 250 us, as in Aspen's benchmark: at the start it is measured over how
/// many rows they do here. Clients: `quaver load --protocol aspen-udp --mix
/// decay:20,ad:20,rmv:20,ppo:20,kmeans:20`.
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// Rows of decay, ad, rmv, ppo and kmeans, instead of measuring [as the server prints them]
    #[arg(long, value_name = "LIST")]
    rows: Option<Rows>,

    #[command(flatten)]
    listen: Listen,

    #[command(flatten)]
    network: Network,

    #[command(flatten)]
    limits: LimitArgs,

    #[command(flatten)]
    runtime: RuntimeArgs,
}

/// Beside that of the key-value server.
const PORT: u16 = 5001;

pub(super) fn run(args: &Args, interrupt: &Interrupt) -> Result<ExitCode> {
    let address = args.listen.address(args.network.usual_ip(), PORT)?;
    let analytics = args.rows.map_or_else(Analytics::calibrated, Analytics::new);
    let rows = analytics.rows();
    let runtime = args.runtime.build()?;
    let stack = args.network.start(&runtime)?;
    let server = UdpServer::bind(address, args.limits.limits(), Arc::new(analytics))
        .with_context(|| format!("cannot listen at {address}"))?;
    introduce(&runtime, &format!("rows of {}: {rows}", NAMES.join(", ")));
    let served = until_signal(&runtime, Arc::new(server), interrupt);
    if let Some(stack) = stack {
        stack.stop();
    }
    runtime.shutdown();
    served?;
    Ok(ExitCode::SUCCESS)
}

impl Server for Arc<UdpServer> {
    fn local_addr(&self) -> io::Result<SocketAddr> {
        UdpServer::local_addr(self)
    }

    fn run(&self) {
        UdpServer::run(self);
    }

    fn stop(&self) -> usize {
        UdpServer::stop(self)
    }
}
