//! `quaver serve`: servers on user threads.
//!
//! 1. Everything that can be wrong is found out before the server listens: options, the runtime,
//!    the store, the address.
//! 2. `listening ADDRESS` on standard output says that clients may come.
//! 3. SIGINT or SIGTERM stops it: nobody is accepted any more, what has arrived is answered, what
//!    the store has not written is, and the exit status is 0. A second signal ends it at once.

mod analytics;
mod kv;
mod limits;

use std::net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use quaver::Runtime;
use quaver::net::stack::{self, Installed};
use quaver_net::Running;
use quaver_net::spec::Spec;

use crate::interrupt::Interrupt;
use crate::output;

/// A stack in user space, instead of the kernel's.
#[derive(clap::Args, Debug)]
struct Network {
    /// Serve by a stack in user space, on this network: tap:NAME,address=A/P or
    /// afxdp:IFACE,address=A/P, with ,queues=N and ,gateway=G if need be
    #[arg(long, value_name = "NETWORK", env = "QUAVER_NET")]
    net: Option<Spec>,
}

/// A stack that serves the sockets of this process.
struct Stack(Running, Installed);

impl Network {
    /// Starts it, before the server is bound.
    fn start(&self, runtime: &Runtime) -> Result<Option<Stack>> {
        let Some(spec) = &self.net else { return Ok(None) };
        let running = spec.builder().and_then(|builder| builder.start(&runtime.handle()));
        let running = running.with_context(|| format!("cannot use --net {spec}"))?;
        let installed = stack::install(running.stack())?;
        Ok(Some(Stack(running, installed)))
    }

    /// Where to listen if nothing is said.
    fn usual_ip(&self) -> IpAddr {
        self.net.as_ref().map_or(Ipv4Addr::LOCALHOST, |spec| spec.address.0).into()
    }
}

impl Stack {
    /// Ends it, after the server has ended.
    fn stop(self) {
        let Stack(running, installed) = self;
        drop(installed);
        running.stop();
    }
}

/// Serve a key-value store, or analyses, to clients on the network
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand, Debug)]
enum Command {
    Kv(Box<kv::Args>),
    Analytics(Box<analytics::Args>),
}

/// Where a server listens.
#[derive(clap::Args, Debug)]
struct Listen {
    /// Address to listen at [default: 127.0.0.1, or the stack's, and the protocol's usual port]
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    listen: Option<IpOrSocket>,

    /// Port to listen at; 0 means any that is free
    #[arg(long, value_name = "N")]
    port: Option<u16>,
}

/// An address, with a port or without.
#[derive(Clone, Copy, Debug)]
struct IpOrSocket {
    ip: IpAddr,
    port: Option<u16>,
}

fn address(text: &str) -> Result<IpOrSocket, String> {
    if let Ok(ip) = text.parse() {
        return Ok(IpOrSocket { ip, port: None });
    }
    if let Ok(mut found) = text.to_socket_addrs()
        && let Some(socket) = found.next()
    {
        return Ok(IpOrSocket { ip: socket.ip(), port: Some(socket.port()) });
    }
    Err("expected an address such as 0.0.0.0, 127.0.0.1:6379, [::1]:6379 or localhost:6379".into())
}

impl Listen {
    fn address(&self, usual_ip: IpAddr, usual_port: u16) -> Result<SocketAddr> {
        let given = self.listen;
        let ip = given.map_or(usual_ip, |given| given.ip);
        let port = match (given.and_then(|given| given.port), self.port) {
            (Some(port), Some(other)) if port != other => {
                bail!("--listen says port {port} and --port {other}: leave one of them out");
            }
            (port, other) => other.or(port).unwrap_or(usual_port),
        };
        Ok(SocketAddr::new(ip, port))
    }
}

/// Runs a server until it is told to stop.
///
/// # Errors
///
/// An option, the runtime, the store or the address cannot be used.
pub fn run(args: Args) -> Result<ExitCode> {
    let interrupt = Interrupt::install().context("cannot take over SIGINT and SIGTERM")?;
    match args.command {
        Command::Kv(args) => kv::run(&args, &interrupt),
        Command::Analytics(args) => analytics::run(&args, &interrupt),
    }
}

/// A server that has been bound.
trait Server: Send + Sync + 'static {
    fn local_addr(&self) -> std::io::Result<SocketAddr>;
    /// Serves until `stop`; on a user thread.
    fn run(&self);
    /// How many clients or requests had to be given up.
    fn stop(&self) -> usize;
}

/// Serves until a signal comes, then stops.
fn until_signal(runtime: &Runtime, server: impl Server, interrupt: &Interrupt) -> Result<()> {
    let server = std::sync::Arc::new(server);
    let address = server.local_addr().context("cannot find out where the server listens")?;
    let running = std::sync::Arc::clone(&server);
    let accepting = runtime.spawn(move || running.run());
    output::print(&format!("listening {address}\n"))?;
    let signal = interrupt.wait().context("cannot wait for signals")?;
    eprintln!("quaver serve: {}, stopping", signal.name());
    let left = server.stop();
    if left > 0 {
        eprintln!("quaver serve: {left} clients or requests were given up");
    }
    if accepting.join().is_err() {
        bail!("the server's own thread has panicked");
    }
    Ok(())
}

/// Lets the process have as many connections as its hard limit says.
fn raise_descriptor_limit() {
    use rustix::process::{Resource, getrlimit, setrlimit};

    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // With fewer, `accept` waits until connections end.
    let _ = setrlimit(Resource::Nofile, limit);
}

/// Says on standard error what the server runs on.
fn introduce(runtime: &Runtime, what: &str) {
    let (clock, notification) = (runtime.clock(), runtime.notification());
    let workers = runtime.workers();
    eprintln!(
        "quaver serve: {what}; {workers} workers, clock {clock}, notification {notification}"
    );
}
