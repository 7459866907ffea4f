//! Servers of messages and of HTTP, see [`quaver_bench_common::net`]. They end with the process, so
//! what they return is a failure.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::thread;

use quaver_bench_common::Outcome;
use quaver_bench_common::http;
use quaver_bench_common::net::{ADDRESS, Inbox, announce, converse};
use quaver_bench_common::spec::{ServeSpec, Service};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::tokio_tasks::Flavour;

/// A kernel thread for each connection.
pub fn kernel_threads(spec: &ServeSpec) -> Outcome {
    if spec.service == Service::Http {
        return Outcome::unsupported("HTTP is served by tokio only");
    }
    let iterations = spec.iterations;
    let listener = match listen() {
        Ok((listener, address)) => {
            announce(address);
            listener
        }
        Err(error) => return failed(error),
    };
    loop {
        let mut stream = match listener.accept() {
            Ok((stream, _)) => stream,
            Err(error) => return failed(error),
        };
        thread::spawn(move || {
            // A connection that breaks is the client's affair.
            let _ = stream.set_nodelay(true).and_then(|()| converse(&mut stream, iterations));
        });
    }
}

/// A coroutine for each connection.
pub fn may_coroutines(spec: &ServeSpec) -> Outcome {
    if spec.service == Service::Http {
        return Outcome::unsupported("HTTP is served by tokio only");
    }
    let iterations = spec.iterations;
    let listener = match may::net::TcpListener::bind(ADDRESS) {
        Ok(listener) => listener,
        Err(error) => return failed(error),
    };
    let serve = may::go!(move || -> io::Result<()> {
        announce(listener.local_addr()?);
        loop {
            let (mut stream, _) = listener.accept()?;
            may::go!(move || {
                let _ = stream.set_nodelay(true).and_then(|()| converse(&mut stream, iterations));
            });
        }
    });
    match serve.join() {
        Ok(Err(error)) => failed(error),
        Ok(Ok(())) | Err(_) => Outcome::failed("the server has ended"),
    }
}

/// A task for each connection.
pub fn tokio_tasks(flavour: Flavour, spec: &ServeSpec) -> Outcome {
    let runtime = flavour.with_io(spec.threads);
    let served = runtime.block_on(async {
        let (listener, address) = listen()?;
        listener.set_nonblocking(true)?;
        let listener = tokio::net::TcpListener::from_std(listener)?;
        announce(address);
        match spec.service {
            Service::Messages => messages(listener, spec.iterations).await,
            Service::Http => http::serve(listener, spec.iterations).await,
        }
    });
    match served {
        Ok(()) => Outcome::failed("the server has ended"),
        Err(error) => failed(error),
    }
}

async fn messages(listener: tokio::net::TcpListener, iterations: u64) -> io::Result<()> {
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        tokio::spawn(converse_in_task(stream, iterations));
    }
}

/// As [`converse`].
async fn converse_in_task(mut stream: tokio::net::TcpStream, iterations: u64) -> io::Result<()> {
    let mut inbox = Inbox::new();
    loop {
        match stream.read(inbox.room()).await? {
            0 => return Ok(()),
            n => stream.write_all(inbox.answer(n, iterations)).await?,
        }
    }
}

fn listen() -> io::Result<(TcpListener, SocketAddr)> {
    let listener = TcpListener::bind(ADDRESS)?;
    let address = listener.local_addr()?;
    Ok((listener, address))
}

fn failed(error: io::Error) -> Outcome {
    Outcome::failed(format!("cannot serve: {error}"))
}
