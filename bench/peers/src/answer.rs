//! Servers of the requests that `quaver-load` sends, for `quaver bench servers`. They end with the
//! process, so what they return is a failure.
//!
//! Each does it as its library's users would: a task for a datagram, a task for a connection. The
//! work is that of Quaver's servers: the same analyses, or a store whose requests take as long.

use std::hint::black_box;
use std::io;
use std::net::UdpSocket;
use std::sync::Arc;
use std::time::{Duration, Instant};

use quaver_analytics::{Analytics, Rows};
use quaver_bench_common::Outcome;
use quaver_bench_common::net::{ADDRESS, announce};
use quaver_bench_common::spec::{AnswerSpec, Answers};
use quaver_bench_common::store::{Store, Wrong};
use quaver_load::net::aspen::{GET, Message, REFUSED, SCAN};
use rustix::net::sockopt;

use crate::memcached;
use crate::tokio_tasks::Flavour;

/// Bytes of datagrams that may wait to be received, as in Quaver's server; the system gives as many
/// as it allows.
const RECEIVED: usize = 4 << 20;
/// Longer than any request.
const ROOM: usize = 2048;
const SEED: u64 = 1;

/// A task for each datagram, or for each connection.
pub fn tokio_tasks(flavour: Flavour, spec: &AnswerSpec) -> Outcome {
    let runtime = flavour.with_io(spec.threads);
    let served = match spec.answers {
        Answers::Memcached => runtime.block_on(memcached::serve(spec)),
        Answers::KeyValue | Answers::Analytics => match Work::prepare(spec) {
            Ok(work) => runtime.block_on(datagrams(work)),
            Err(why) => return Outcome::failed(why),
        },
    };
    match served {
        Ok(()) => Outcome::failed("the server has ended"),
        Err(error) => Outcome::failed(format!("cannot serve: {error}")),
    }
}

async fn datagrams(work: Work) -> io::Result<()> {
    let socket = UdpSocket::bind(ADDRESS)?;
    // A smaller buffer loses more, which the client counts.
    let _ = sockopt::set_socket_recv_buffer_size(&socket, RECEIVED);
    socket.set_nonblocking(true)?;
    announce(socket.local_addr()?);
    let socket = Arc::new(tokio::net::UdpSocket::from_std(socket)?);
    let work = Arc::new(work);
    let mut bytes = [0; ROOM];
    loop {
        let (n, from) = socket.recv_from(&mut bytes).await?;
        let Some(request) = Message::decode(&bytes[..n]) else { continue };
        let (socket, work) = (Arc::clone(&socket), Arc::clone(&work));
        tokio::spawn(async move {
            let begun = Instant::now();
            let mut reply = work.answer(&request);
            reply.run_ns = u32::try_from(begun.elapsed().as_nanos()).unwrap_or(u32::MAX);
            // A reply that cannot be sent is lost, as one that the network loses.
            let _ = socket.send_to(&reply.encode(), from).await;
        });
    }
}

/// What requests ask for.
enum Work {
    KeyValue { store: Store, get_keys: usize, scan_keys: usize },
    Analytics(Analytics),
}

impl Work {
    fn prepare(spec: &AnswerSpec) -> Result<Work, String> {
        if spec.answers == Answers::Analytics {
            let rows = spec.rows.clone().try_into();
            let rows = Rows(rows.map_err(|rows| format!("{rows:?} are not five numbers"))?);
            return Ok(Work::Analytics(Analytics::new(rows)));
        }
        let store = Store::load(spec.keys, SEED).map_err(|error| format!("{error:#}"))?;
        let fitting = |ns: f64, request: &dyn Fn(u64, usize) -> Result<(), Wrong>| {
            fitting(ns, store.len(), request).map_err(|wrong| wrong.to_string())
        };
        let get_keys = fitting(spec.get_ns, &|random, keys| store.get(random, keys))?;
        let scan_keys = fitting(spec.scan_ns, &|random, keys| store.scan(random, keys))?;
        Ok(Work::KeyValue { store, get_keys, scan_keys })
    }

    fn answer(&self, request: &Message) -> Message {
        let random = u64::from(request.key).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let done = match self {
            Work::KeyValue { store, get_keys, .. } if request.kind == GET => {
                store.get(random, *get_keys).is_ok()
            }
            Work::KeyValue { store, scan_keys, .. } if request.kind == SCAN => {
                store.scan(random, *scan_keys).is_ok()
            }
            Work::KeyValue { .. } => false,
            Work::Analytics(analytics) => {
                // The work must not be left out because nobody looks at the result.
                let kind = (request.kind as usize).wrapping_sub(1);
                black_box(analytics.compute(kind)).is_some()
            }
        };
        if done { *request } else { Message { kind: request.kind | REFUSED, ..*request } }
    }
}

/// Over how many keys a request takes `ns`: as many of them as there are, at most.
fn fitting(
    ns: f64,
    most: usize,
    request: &dyn Fn(u64, usize) -> Result<(), Wrong>,
) -> Result<usize, Wrong> {
    let mut keys = 1;
    for _ in 0..5 {
        let times = (1e6 / ns).clamp(8.0, 1000.0) as u64;
        let mut quickest = Duration::MAX;
        for attempt in 0..20 {
            let begun = Instant::now();
            for i in 0..times {
                request((attempt * times + i).wrapping_mul(0x9e37_79b9_7f4a_7c15), keys)?;
            }
            quickest = quickest.min(begun.elapsed());
        }
        let took = quickest.as_nanos() as f64 / times as f64;
        keys = ((keys as f64 * ns / took.max(1.0)).round() as usize).clamp(1, most);
    }
    Ok(keys)
}
