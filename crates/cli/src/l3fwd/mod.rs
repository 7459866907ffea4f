//! `quaver l3fwd`: a router of IPv4 on AF_XDP ([`quaver_net::l3fwd`]).
//!
//! 1. Everything that can be wrong is found out before the first packet: ports, the routes' file.
//! 2. `forwarding between ...` on standard output says that packets may come.
//! 3. SIGINT or SIGTERM stops it: what has become of packets is printed, and the exit status is 0.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use quaver_net::l3fwd::{self, Counts, Forwarder, PortSettings, Route};
use quaver_net::xdp;

use crate::interrupt::Interrupt;
use crate::output;

/// Forward IPv4 packets between interfaces, past the kernel
///
/// All frames that come to the interfaces are the forwarder's; the kernel sees none. Needs root, or
/// CAP_NET_ADMIN, CAP_NET_RAW and CAP_BPF.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// An interface, as `afxdp:NAME[,address=10.0.1.1/24]`; may be repeated. With an address it
    /// answers ARP for it, asks for next hops from it, and has a route to its network
    #[arg(long = "port", value_name = "PORT", required = true)]
    ports: Vec<PortSettings>,

    /// A file of routes, each line `NETWORK INTERFACE [NEXT-HOP]`; or a number: so many random
    /// ones, whose next hops are 02:00:00:00:00:00 behind the first port, ...:01 behind the second
    #[arg(long, value_name = "FILE|N")]
    routes: Option<String>,

    /// Which random routes
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    /// How frames come and go
    #[arg(long, value_enum, default_value = "auto")]
    mode: Mode,

    /// Look for packets all the time, instead of sleeping while there are none
    #[arg(long)]
    spin: bool,

    /// Say every second what has become of packets
    #[arg(long)]
    stats: bool,
}

/// How frames come and go.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Mode {
    /// The best that works
    Auto,
    /// The hardware uses the forwarder's frames
    ZeroCopy,
    /// The XDP program runs in the driver; frames are copied
    Native,
    /// It runs behind any driver; frames are copied
    Skb,
}

impl Mode {
    fn only(self) -> Option<xdp::Mode> {
        match self {
            Mode::Auto => None,
            Mode::ZeroCopy => Some(xdp::Mode::ZeroCopy),
            Mode::Native => Some(xdp::Mode::Native),
            Mode::Skb => Some(xdp::Mode::Skb),
        }
    }
}

/// For how long it sleeps while there are no packets: a signal may come just before.
const NAP: Duration = Duration::from_millis(200);
const SECOND: Duration = Duration::from_secs(1);

/// Forwards until it is told to stop.
///
/// # Errors
///
/// A port or a route cannot be used, or an interface has gone.
pub fn run(args: &Args) -> Result<ExitCode> {
    let interrupt = Interrupt::install().context("cannot take over SIGINT and SIGTERM")?;
    let routes = routes(args)?;
    let mut forwarder = Forwarder::open(&args.ports, args.mode.only())?;
    for (origin, route) in routes {
        forwarder
            .add(&route)
            .with_context(|| format!("{origin}: the route to {}", route.prefix))?;
    }
    let ports: Vec<_> = forwarder.ports().map(|(name, mode)| format!("{name} ({mode})")).collect();
    let count = forwarder.routes();
    output::print(&format!("forwarding between {}: {count} routes\n", ports.join(", ")))?;
    forward(&mut forwarder, args, &interrupt)?;
    output::print(&format!("{}\n", forwarder.counts()))?;
    for (port, lost) in args.ports.iter().zip(forwarder.lost()) {
        let xdp::Counts { too_long, ring_full, no_frames } = lost;
        if lost != xdp::Counts::default() {
            eprintln!(
                "quaver l3fwd: the kernel has dropped frames of {}: {} while the forwarder was too \
                 slow, {too_long} longer than a frame (`ethtool -K PEER tx off` on its peer)",
                port.interface,
                ring_full + no_frames
            );
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn forward(forwarder: &mut Forwarder, args: &Args, interrupt: &Interrupt) -> Result<()> {
    let (mut before, mut next) = (Counts::default(), Instant::now() + SECOND);
    let mut rounds = 0u32;
    loop {
        let idle = forwarder.poll()? == 0;
        rounds = rounds.wrapping_add(1);
        if idle && !args.spin {
            match forwarder.wait(if args.stats { NAP.min(SECOND / 10) } else { NAP }) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                waited => waited?,
            }
        } else if !rounds.is_multiple_of(64) {
            // Neither clock nor signals change as quickly.
            continue;
        }
        if interrupt.raised().is_some() {
            return Ok(());
        }
        if args.stats && Instant::now() >= next {
            let counts = forwarder.counts();
            output::print(&format!("{}\n", counts.since(&before)))?;
            (before, next) = (counts, Instant::now() + SECOND);
        }
    }
}

/// The routes, and where each is from.
fn routes(args: &Args) -> Result<Vec<(String, Route)>> {
    let Some(given) = &args.routes else { return Ok(Vec::new()) };
    if let Ok(count) = given.parse::<usize>() {
        // A quarter of the addresses that there are would take forever to find.
        if count > 1_000_000 {
            bail!("--routes {count}: there can be 1000000 random routes at most");
        }
        let routes = l3fwd::random(count, args.ports.len(), args.seed);
        return Ok(routes.into_iter().map(|route| ("random routes".into(), route)).collect());
    }
    let path = PathBuf::from(given);
    let text = fs::read_to_string(&path)
        .with_context(|| format!("--routes {given}: it is no number, and cannot be read"))?;
    let names: Vec<&str> = args.ports.iter().map(|port| port.interface.as_str()).collect();
    let routes = l3fwd::parse(&text, &names).with_context(|| given.clone())?;
    Ok(routes.into_iter().map(|route| (given.clone(), route)).collect())
}
