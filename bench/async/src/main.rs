//! axum on user threads, as `quaver bench net` measures it: several of tokio's runtimes, each on a
//! user thread of its own, share the connections.
//!
//! ```text
//! quaver-bench-async QUANTUM CPUS SPEC     e.g. auto 0,1 '{"benchmark":"serve", ...}'
//! ```
//!
//! `threads` of SPEC is the number of these runtimes. How it works is explained by the library's
//! example `tokio_server`; here the protocol and the pages are those of all servers that are
//! measured ([`quaver_bench_common::net`]).

use std::convert::Infallible;
use std::io;
use std::net::{SocketAddr, TcpListener};

use anyhow::{Context, bail};
use axum::serve::Listener;
use quaver_bench_common::net::{ADDRESS, announce};
use quaver_bench_common::spec::{ServeSpec, Service};
use quaver_bench_common::{Spec, http};
use tokio::net::TcpStream;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// A connection that was accepted elsewhere.
type Accepted = (std::net::TcpStream, SocketAddr);

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [quantum, cpus, spec] = &arguments[..] else {
        bail!("usage: quaver-bench-async QUANTUM CPUS SPEC");
    };
    let cpus = cpus.split(',').map(str::parse).collect::<Result<Vec<usize>, _>>();
    let cpus = cpus.context("the second argument is no list of CPUs, such as 0,1")?;
    let spec = serde_json::from_str(spec).context("the third argument is no spec")?;
    let Spec::Serve(spec @ ServeSpec { service: Service::Http, .. }) = spec else {
        bail!("only HTTP is served here");
    };
    let runtime = quaver::Builder::new().workers(cpus.len()).cpus(cpus).quantum_str(quantum);
    let runtime = runtime.build().context("cannot build a runtime")?;
    match runtime.run(|| serve(&spec)).context("cannot serve")? {}
}

/// Accepts connections, and gives them to the runtimes in turn.
fn serve(spec: &ServeSpec) -> io::Result<Infallible> {
    let iterations = spec.iterations;
    let seats =
        (0..spec.threads.max(1)).map(|_| seat(iterations)).collect::<io::Result<Vec<_>>>()?;
    let listener = TcpListener::bind(ADDRESS)?;
    announce(listener.local_addr()?);
    let mut turns = seats.iter().cycle();
    loop {
        let accepted = listener.accept()?;
        accepted.0.set_nonblocking(true)?;
        let seat = turns.next().expect("there is one at least");
        seat.send(accepted).map_err(|_| io::Error::other("a runtime of tokio has ended"))?;
    }
}

/// A runtime of tokio on a user thread.
fn seat(iterations: u64) -> io::Result<UnboundedSender<Accepted>> {
    let (connections, arrivals) = unbounded_channel();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    quaver::spawn_detached(move || {
        if let Err(error) = runtime.block_on(http::serve(Seat { arrivals }, iterations)) {
            eprintln!("a runtime of tokio has ended: {error}");
        }
    });
    Ok(connections)
}

/// The connections of one runtime.
struct Seat {
    arrivals: UnboundedReceiver<Accepted>,
}

impl Listener for Seat {
    type Io = TcpStream;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (TcpStream, SocketAddr) {
        loop {
            match self.arrivals.recv().await {
                // A connection that cannot be used is one less.
                Some((stream, address)) => match TcpStream::from_std(stream) {
                    Ok(stream) => return (stream, address),
                    Err(error) => eprintln!("cannot take a connection: {error}"),
                },
                None => std::future::pending().await,
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(ADDRESS)
    }
}
