//! A server of datagrams: each request is a user thread, as in Aspen and Caladan.
//!
//! One thread receives. It spawns a thread for each request, which answers by the same socket. So
//! a long request keeps nobody waiting but for its quantum. More requests than
//! [`Limits::connections`] at the same time are answered as refused.
//!
//! The receiver gives way after each request. If it went on while there is something to receive, it
//! would outlive its quantum at every burst, and then wait behind the longest requests.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use quaver_load::net::aspen::{Message, REFUSED};
use socket2::SockRef;

use crate::limits::Limits;
use crate::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

/// What answers requests.
pub trait Answer: Send + Sync {
    /// Serves the request; the kind and number of the reply are those of the request unless it
    /// says otherwise.
    fn answer(&self, request: &Message) -> Message;
}

/// A server of datagrams.
pub struct UdpServer {
    socket: UdpSocket,
    limits: Limits,
    answers: Arc<dyn Answer>,
    stopping: AtomicBool,
    under_way: AtomicUsize,
}

/// Bytes of datagrams that may wait to be received: a burst of thousands.
const RECEIVED: usize = 4 << 20;

/// How long to wait after an error of the socket, so that one that stays costs little.
const AFTER_ERROR: Duration = Duration::from_millis(1);

impl UdpServer {
    /// A server that receives at this address.
    ///
    /// # Errors
    ///
    /// The address cannot be used.
    pub fn bind(
        address: SocketAddr,
        limits: Limits,
        answers: Arc<dyn Answer>,
    ) -> io::Result<UdpServer> {
        let socket = UdpSocket::bind(address)?;
        // The system takes as much of it as it allows.
        let _ = SockRef::from(&socket).set_recv_buffer_size(RECEIVED);
        Ok(UdpServer {
            socket,
            limits,
            answers,
            stopping: AtomicBool::new(false),
            under_way: AtomicUsize::new(0),
        })
    }

    /// Where it receives.
    ///
    /// # Errors
    ///
    /// The system does not say so.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Receives until the server is [stopped](Self::stop). To be called on a user thread. What is
    /// no request is ignored.
    pub fn run(self: &Arc<Self>) {
        let mut bytes = [0; 2048];
        while !self.stopping.load(Ordering::Acquire) {
            let (n, from) = match self.socket.recv_from(&mut bytes) {
                Ok(received) => received,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) => {
                    quaver::sleep(AFTER_ERROR);
                    continue;
                }
            };
            if let Some(request) = Message::decode(&bytes[..n]) {
                self.serve(request, from);
                quaver::yield_now();
            }
        }
    }

    fn serve(self: &Arc<Self>, request: Message, from: SocketAddr) {
        if self.under_way.fetch_add(1, Ordering::Relaxed) >= self.limits.connections {
            self.under_way.fetch_sub(1, Ordering::Relaxed);
            self.reply(&Message { kind: request.kind | REFUSED, ..request }, from);
            return;
        }
        let server = Arc::clone(self);
        let spawned = quaver::Handle::current().map_err(io::Error::other).and_then(|handle| {
            handle.spawn_detached(move || {
                let _one = UnderWay(&server.under_way);
                let begun = Instant::now();
                let mut reply = server.answers.answer(&request);
                reply.run_ns = u32::try_from(begun.elapsed().as_nanos()).unwrap_or(u32::MAX);
                server.reply(&reply, from);
            })
        });
        if spawned.is_err() {
            self.under_way.fetch_sub(1, Ordering::Relaxed);
            self.reply(&Message { kind: request.kind | REFUSED, ..request }, from);
        }
    }

    /// A reply that cannot be sent is lost, as one that the network loses.
    fn reply(&self, reply: &Message, to: SocketAddr) {
        let _ = self.socket.send_to(&reply.encode(), to);
    }

    /// Stops the server: nothing is received any more, and what has been is answered. Returns when
    /// it is, or should be; how many requests are not.
    pub fn stop(&self) -> usize {
        self.stopping.store(true, Ordering::Release);
        self.wake_receiver();
        let until = Instant::now() + self.limits.grace;
        loop {
            let left = self.under_way.load(Ordering::Acquire);
            if left == 0 || Instant::now() >= until {
                return left;
            }
            quaver::sleep(Duration::from_millis(1));
        }
    }
}

impl UdpServer {
    /// Sends the receiver a datagram, which wakes it. One for which there is no room is not missed.
    fn wake_receiver(&self) {
        let Ok(mut address) = self.local_addr() else { return };
        match address.ip() {
            IpAddr::V4(ip) if ip.is_unspecified() => address.set_ip(Ipv4Addr::LOCALHOST.into()),
            IpAddr::V6(ip) if ip.is_unspecified() => address.set_ip(Ipv6Addr::LOCALHOST.into()),
            _ => {}
        }
        let _ = self.socket.send_to(&[], address);
    }
}

/// A request under way, until its thread ends, however it does.
struct UnderWay<'a>(&'a AtomicUsize);

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Release);
    }
}
