//! Servers on user threads: blocking code, one thread a connection or a request, and short requests
//! that do not wait behind long ones.
//!
//! * [`TcpServer`] with [`resp`] or [`memcached`]: a key-value store for existing clients.
//! * [`UdpServer`] with [`aspen::KeyValue`] or [`analytics::Analytics`]: the servers of Aspen's
//!   benchmarks, spoken to in datagrams.
//! * [`store`]: where entries are kept.
//! * [`limits`]: what clients may ask for.
//!
//! A server listens when it is bound, serves while somebody runs it, and stops in order:
//!
//! ```
//! use std::sync::Arc;
//! use quaver_serve::{Limits, Service, TcpServer, resp, store::memory::Memory};
//!
//! let runtime = quaver::Builder::new().workers(1).build()?;
//! let service = Arc::new(Service::new(Arc::new(Memory::new(1 << 30)), Limits::default()));
//! let server = Arc::new(TcpServer::bind(([127, 0, 0, 1], 0).into(), Limits::default())?);
//! let running = Arc::clone(&server);
//! let accepting = runtime.spawn(move || {
//!     running.run(|| resp::Connection::new(Arc::clone(&service)));
//! });
//! // Clients connect to `server.local_addr()`.
//! server.stop();
//! accepting.join().unwrap();
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod analytics;
pub mod aspen;
mod connection;
mod cursors;
mod digest;
pub mod limits;
pub mod memcached;
mod net;
pub mod resp;
mod service;
pub mod store;
mod tcp;
mod udp;

pub use connection::{Protocol, Refusal, Served};
pub use limits::Limits;
pub use service::{Counts, Service};
pub use tcp::TcpServer;
pub use udp::{Answer, UdpServer};

/// The version that clients are told.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");
