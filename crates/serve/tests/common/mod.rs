//! A server for a test, on a runtime of its own.

#![allow(dead_code)] // not every test uses everything

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use quaver_serve::store::{Store, memory::Memory};
use quaver_serve::{Limits, Protocol, Service, TcpServer, memcached, resp};

/// There is one runtime in a process, so tests take turns.
static TURN: Mutex<()> = Mutex::new(());

/// Nothing here takes so long but a failure.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A server and what it needs.
pub struct Running {
    pub server: Arc<TcpServer>,
    pub service: Arc<Service>,
    accepting: Option<quaver::JoinHandle<()>>,
    runtime: Option<quaver::Runtime>,
    _turn: MutexGuard<'static, ()>,
}

/// Starts a runtime, when nobody else has one.
pub fn runtime() -> (quaver::Runtime, MutexGuard<'static, ()>) {
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let quantum = Some(Duration::from_micros(200));
    (quaver::Builder::new().workers(2).quantum(quantum).build().unwrap(), turn)
}

/// A server that speaks RESP.
pub fn resp(limits: Limits) -> Running {
    start(limits, resp::Connection::new)
}

/// A server that speaks memcached's protocols.
pub fn memcached(limits: Limits) -> Running {
    start(limits, memcached::Connection::new)
}

fn start<P: Protocol + 'static>(
    limits: Limits,
    protocol: impl Fn(Arc<Service>) -> P + Send + 'static,
) -> Running {
    let (runtime, turn) = runtime();
    let store: Arc<dyn Store> = Arc::new(Memory::new(1 << 28));
    let service = Arc::new(Service::new(store, limits.clone()));
    let server = Arc::new(TcpServer::bind(([127, 0, 0, 1], 0).into(), limits).unwrap());
    let (running, shared) = (Arc::clone(&server), Arc::clone(&service));
    let accepting = runtime.spawn(move || running.run(|| protocol(Arc::clone(&shared))));
    Running { server, service, accepting: Some(accepting), runtime: Some(runtime), _turn: turn }
}

impl Running {
    pub fn address(&self) -> SocketAddr {
        self.server.local_addr().unwrap()
    }

    pub fn connect(&self) -> TcpStream {
        connect(self.address())
    }

    /// Stops the server. How many connections had to be given up.
    pub fn stop(&mut self) -> usize {
        let left = self.server.stop();
        if let Some(accepting) = self.accepting.take() {
            accepting.join().unwrap();
        }
        left
    }

    /// Waits until there are so many connections.
    pub fn wait_for_connections(&self, count: usize) {
        let until = std::time::Instant::now() + PATIENCE;
        while self.server.connections() != count {
            assert!(std::time::Instant::now() < until, "{} connections", self.server.connections());
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop();
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown();
        }
    }
}

pub fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect_timeout(&address, PATIENCE).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream.set_nodelay(true).unwrap();
    stream
}

/// Sends a request and expects exactly this reply.
#[track_caller]
pub fn ask(stream: &mut TcpStream, request: &str, expected: &str) {
    stream.write_all(request.as_bytes()).unwrap();
    let mut reply = vec![0; expected.len()];
    stream.read_exact(&mut reply).unwrap();
    assert_eq!(String::from_utf8_lossy(&reply), expected, "{request:?}");
}

/// Reads to the end of the connection, also when the server breaks it off.
pub fn rest(stream: &mut TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    match stream.read_to_end(&mut bytes) {
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
        Err(error) => panic!("{error}"),
    }
    bytes
}
