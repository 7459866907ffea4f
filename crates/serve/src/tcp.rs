//! A server of connections: accepts them, gives each a user thread, and ends them all.
//!
//! # How it stops
//!
//! 1. The listening socket is shut down: `accept` fails, and nobody is accepted any more.
//! 2. Each connection is shut down for reading: requests that have arrived are read and answered,
//!    then its thread finds the end of its input, and closes.
//! 3. Connections that have not ended after [`Limits::grace`] are shut down in both directions: a
//!    client that does not take its replies, or sends without end.

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use quaver::sync::{Condvar, Mutex};
use socket2::{SockRef, TcpKeepalive};

use crate::connection::{self, Protocol, Refusal, Shared};
use crate::limits::Limits;
use crate::net::{Shutdown, SocketAddr, TcpListener, TcpStream};

/// A server of connections.
pub struct TcpServer {
    listener: TcpListener,
    shared: Shared,
    stopping: AtomicBool,
    ids: AtomicU64,
    open: Mutex<HashMap<u64, Arc<TcpStream>>>,
    /// A connection has ended.
    ended: Condvar,
}

/// How long to wait when the system has no room for another connection.
const NO_ROOM: Duration = Duration::from_millis(20);

/// A client that says nothing is asked after this time whether it is still there.
const ALIVE: Duration = Duration::from_secs(60);

impl TcpServer {
    /// A server that listens at this address.
    ///
    /// # Errors
    ///
    /// The address is in use, is not one of this machine, or needs rights.
    pub fn bind(address: SocketAddr, limits: Limits) -> io::Result<TcpServer> {
        let budget = Arc::clone(&limits.buffers);
        Ok(TcpServer {
            listener: TcpListener::bind(address)?,
            shared: Shared { limits, budget },
            stopping: AtomicBool::new(false),
            ids: AtomicU64::new(0),
            open: Mutex::new(HashMap::new()),
            ended: Condvar::new(),
        })
    }

    /// Where it listens.
    ///
    /// # Errors
    ///
    /// The system does not say so.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Accepts connections until the server is [stopped](Self::stop), and serves each on a user
    /// thread of its own by the protocol that `protocol` makes. To be called on a user thread.
    pub fn run<P: Protocol + 'static>(self: &Arc<Self>, mut protocol: impl FnMut() -> P) {
        while !self.stopping.load(Ordering::Acquire) {
            match self.listener.accept() {
                Ok((stream, _)) => self.admit(stream, &mut protocol),
                Err(error) if is_passing(&error) => {}
                // No descriptors or no memory: connections that end make room.
                Err(_) if !self.stopping.load(Ordering::Acquire) => quaver::sleep(NO_ROOM),
                Err(_) => {}
            }
        }
    }

    fn admit<P: Protocol + 'static>(
        self: &Arc<Self>,
        stream: TcpStream,
        protocol: &mut impl FnMut() -> P,
    ) {
        let alive = TcpKeepalive::new().with_time(ALIVE).with_interval(ALIVE);
        let _ = SockRef::from(&stream).set_tcp_keepalive(&alive);
        let id = self.ids.fetch_add(1, Ordering::Relaxed);
        let stream = Arc::new(stream);
        {
            let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
            if open.len() >= self.shared.limits.connections {
                drop(open);
                return refuse::<P>(&stream, Refusal::Clients);
            }
            open.insert(id, Arc::clone(&stream));
        }
        // Whoever stops the server either finds the connection in the table, or has said so before.
        if self.stopping.load(Ordering::Acquire) {
            let _ = stream.shutdown(Shutdown::Read);
        }
        let (server, protocol) = (Arc::clone(self), protocol());
        let served = Arc::clone(&stream);
        let spawned = quaver::Handle::current().map_err(io::Error::other).and_then(|handle| {
            handle.spawn_detached(move || {
                let _open = Open { server: &server, id };
                connection::serve(&served, protocol, &server.shared);
            })
        });
        if spawned.is_err() {
            self.forget(id);
            refuse::<P>(&stream, Refusal::Memory);
        }
    }

    /// Asks the server to end. Does not wait.
    fn ask_to_stop(&self) {
        self.stopping.store(true, Ordering::Release);
        let _ = SockRef::from(&self.listener).shutdown(Shutdown::Both);
        self.shut_down(Shutdown::Read);
    }

    /// Stops the server: nobody is accepted any more, what has arrived is answered, and all
    /// connections end. Returns when they have, or should have; how many have not.
    pub fn stop(&self) -> usize {
        self.ask_to_stop();
        if self.wait(self.shared.limits.grace) == 0 {
            return 0;
        }
        self.shut_down(Shutdown::Both);
        self.wait(Duration::from_secs(1))
    }

    /// How many connections there are.
    pub fn connections(&self) -> usize {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    fn shut_down(&self, how: Shutdown) {
        for stream in self.open.lock().unwrap_or_else(PoisonError::into_inner).values() {
            let _ = stream.shutdown(how);
        }
    }

    /// Waits until there is no connection; how many there still are.
    fn wait(&self, limit: Duration) -> usize {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.ended.wait_timeout_while(open, limit, |open| !open.is_empty());
        waited.unwrap_or_else(PoisonError::into_inner).0.len()
    }

    fn forget(&self, id: u64) {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
        self.ended.notify_all();
    }
}

/// A connection in the table, until its thread ends, however it does.
struct Open<'a> {
    server: &'a TcpServer,
    id: u64,
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.server.forget(self.id);
    }
}

/// Tells a client why it is not served. It is not waited for.
fn refuse<P: Protocol>(stream: &TcpStream, reason: Refusal) {
    use io::Write;

    let mut message = Vec::new();
    P::refuse(reason, &mut message);
    if stream.set_nonblocking(true).is_ok() {
        let _ = (&*stream).write_all(&message);
    }
}

/// An error of the connection that was to be accepted, or none at all.
fn is_passing(error: &io::Error) -> bool {
    use io::ErrorKind as Kind;

    matches!(error.kind(), Kind::Interrupted | Kind::ConnectionAborted | Kind::ConnectionReset)
}
