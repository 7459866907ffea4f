//! Quaver's server of messages: a user thread for each connection.

use std::convert::Infallible;
use std::io::{self, Read, Write};
use std::net::SocketAddr;

use anyhow::Context;
use quaver_bench_common::Outcome;
use quaver_bench_common::net::{ADDRESS, announce, converse};
use quaver_bench_common::spec::{ServeSpec, Service};
use serde::{Deserialize, Serialize};

use crate::bench::told::Told;

/// The work of a child that serves.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct OursSpec {
    /// By which sockets.
    pub sockets: Sockets,
    /// As text; `off`: no preemption.
    pub quantum: String,
    /// As text.
    pub policy: String,
    /// How its threads are told that they are to stop.
    pub told: Told,
    /// A worker on each.
    pub cpus: Vec<usize>,
    /// What is served.
    pub serve: ServeSpec,
}

/// Whose sockets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sockets {
    /// Those of `quaver::net`.
    Net,
    /// Those of `std::net`.
    Std,
}

impl Sockets {
    /// The name in rows.
    pub fn name(self) -> &'static str {
        match self {
            Sockets::Net => "net",
            Sockets::Std => "std",
        }
    }
}

/// Serves until the standard input ends; returns when it cannot.
///
/// # Errors
///
/// The runtime cannot be built, or no connection accepted.
pub fn serve(spec: &OursSpec) -> anyhow::Result<Outcome> {
    let ServeSpec { service, iterations, .. } = spec.serve;
    if service == Service::Http {
        return Ok(Outcome::unsupported("HTTP is served by tokio only"));
    }
    let workers = quaver::Builder::new().workers(spec.cpus.len()).cpus(spec.cpus.clone());
    let builder = workers.policy_str(&spec.policy).quantum_str(&spec.quantum);
    let builder = builder.notification(spec.told.notification());
    let runtime = builder.build().context("cannot build a runtime")?;
    let served = runtime.run(|| match spec.sockets {
        Sockets::Net => {
            let listener = quaver::net::TcpListener::bind(ADDRESS)?;
            accept(listener.local_addr()?, iterations, || {
                let (stream, _) = listener.accept()?;
                stream.set_nodelay(true)?;
                Ok(stream)
            })
        }
        Sockets::Std => {
            let listener = std::net::TcpListener::bind(ADDRESS)?;
            accept(listener.local_addr()?, iterations, || {
                let (stream, _) = listener.accept()?;
                stream.set_nodelay(true)?;
                Ok(stream)
            })
        }
    });
    match served.context("cannot serve")? {}
}

/// Serves what `next` accepts, until that fails.
fn accept<S: Read + Write + Send + 'static>(
    address: SocketAddr,
    iterations: u64,
    next: impl Fn() -> io::Result<S>,
) -> io::Result<Infallible> {
    announce(address);
    loop {
        let mut stream = next()?;
        quaver::spawn_detached(move || {
            // A connection that breaks is the client's affair.
            let _ = converse(&mut stream, iterations);
        });
    }
}
