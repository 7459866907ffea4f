//! Peers of `quaver bench`: the same operations in other thread libraries, one process for each
//! measurement.
//!
//! ```text
//! quaver-bench-peers list                 names of the implementations, one a line
//! quaver-bench-peers NAME SPEC            do what SPEC (JSON) asks, print the outcome (JSON)
//! ```
//!
//! Boost.Fiber is among them if its headers were in `/usr/include` when this was built.
//!
//! For example `quaver-bench-peers may
//! '{"benchmark":"ops","op":"yield","warmup_ms":20,"measure_ms":100}'`. What the operations are is
//! said at [`Op`](quaver_bench_common::Op); `quaver bench` pins the process before it starts.

mod answer;
#[cfg(boost_fiber)]
mod boost_fibers;
mod kernel_threads;
mod kv;
mod may_coroutines;
mod memcached;
mod net;
mod tokio_tasks;

use anyhow::{Context, bail};
use quaver_bench_common::{Outcome, Spec};

/// A thread library, with its settings.
struct Peer {
    name: &'static str,
    run: fn(&Spec) -> Outcome,
}

const PEERS: &[Peer] = &[
    Peer { name: "pthread", run: kernel_threads::run },
    Peer {
        name: "tokio-current-thread",
        run: |spec| tokio_tasks::run(tokio_tasks::Flavour::CurrentThread, spec),
    },
    Peer {
        name: "tokio-multi-thread",
        run: |spec| tokio_tasks::run(tokio_tasks::Flavour::MultiThread, spec),
    },
    Peer { name: "may", run: may_coroutines::run },
    #[cfg(boost_fiber)]
    Peer { name: "boost-fiber", run: boost_fibers::run },
];

fn main() -> anyhow::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["list"] => PEERS.iter().for_each(|peer| println!("{}", peer.name)),
        [name, spec] => {
            let peer = PEERS.iter().find(|peer| peer.name == name);
            let peer = peer.with_context(|| {
                format!("no implementation {name:?}; `quaver-bench-peers list` shows them")
            })?;
            let spec = serde_json::from_str(spec).context("the second argument is no spec")?;
            (peer.run)(&spec).print();
        }
        _ => bail!("usage: quaver-bench-peers list | quaver-bench-peers NAME SPEC"),
    }
    Ok(())
}
