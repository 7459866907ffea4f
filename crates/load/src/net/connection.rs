//! A connection of the pool: never waits.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use super::aspen::{Message, REFUSED};
use super::protocol::{Protocol, Reply, Transport};

/// How long the server may take to accept.
const CONNECT: Duration = Duration::from_secs(5);
/// Received at once.
const READ: usize = 64 * 1024;

enum Link {
    Tcp(TcpStream),
    Udp(UdpSocket),
}

/// A connection.
pub(super) struct Connection {
    link: Link,
    protocol: Protocol,
    /// To be sent, from `sent` on.
    out: Vec<u8>,
    sent: usize,
    /// Received, from `read` on.
    input: Vec<u8>,
    read: usize,
    /// Numbers and classes of the requests on their way, in their order. Datagrams say it
    /// themselves.
    under_way: VecDeque<(u64, u32)>,
}

/// A reply that has been received.
pub(super) enum Received {
    /// To the request of this number and class.
    InOrder(u64, u32, Reply),
    /// A datagram.
    Datagram(Message, Reply),
}

impl Connection {
    /// A connection to a server, which is waited for.
    pub(super) fn open(protocol: Protocol, to: SocketAddr) -> io::Result<Connection> {
        let link = match protocol.transport() {
            Transport::Tcp => {
                let stream = TcpStream::connect_timeout(&to, CONNECT)?;
                stream.set_nodelay(true)?;
                stream.set_nonblocking(true)?;
                Link::Tcp(stream)
            }
            Transport::Udp => {
                let any: SocketAddr = match to {
                    SocketAddr::V4(_) => ([0; 4], 0).into(),
                    SocketAddr::V6(_) => ([0_u16; 8], 0).into(),
                };
                let socket = UdpSocket::bind(any)?;
                socket.connect(to)?;
                socket.set_nonblocking(true)?;
                Link::Udp(socket)
            }
        };
        Ok(Connection {
            link,
            protocol,
            out: Vec::new(),
            sent: 0,
            input: Vec::new(),
            read: 0,
            under_way: VecDeque::new(),
        })
    }

    /// How many requests are on their way.
    pub(super) fn depth(&self) -> usize {
        self.under_way.len()
    }

    /// Sends a request that `write` appends, as far as the system takes it.
    ///
    /// # Errors
    ///
    /// The connection is broken; or a datagram cannot be sent, now.
    pub(super) fn send(
        &mut self,
        id: u64,
        class: u32,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> io::Result<()> {
        write(&mut self.out);
        if let Link::Udp(socket) = &self.link {
            let sent = socket.send(&self.out);
            self.out.clear();
            return sent.map(drop);
        }
        self.under_way.push_back((id, class));
        self.flush()
    }

    /// Sends what is left of earlier requests.
    ///
    /// # Errors
    ///
    /// The connection is broken.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        let Link::Tcp(stream) = &mut self.link else { return Ok(()) };
        while self.sent < self.out.len() {
            match stream.write(&self.out[self.sent..]) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(n) => self.sent += n,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        self.out.clear();
        self.sent = 0;
        Ok(())
    }

    /// Receives all that has arrived, and shows each reply. `ended`: the server may have closed the
    /// connection behind it.
    ///
    /// # Errors
    ///
    /// The connection is broken, or what has arrived is no reply.
    pub(super) fn receive(
        &mut self,
        ended: bool,
        mut each: impl FnMut(Received),
    ) -> io::Result<()> {
        if let Link::Udp(socket) = &self.link {
            let mut bytes = [0; 64];
            loop {
                match socket.recv(&mut bytes) {
                    Ok(n) => {
                        if let Some(message) = Message::decode(&bytes[..n]) {
                            let refused = message.kind & REFUSED != 0;
                            let reply = if refused { Reply::Refused } else { Reply::Done };
                            each(Received::Datagram(message, reply));
                        }
                    }
                    // An earlier datagram met nobody: it is lost.
                    Err(error) if error.kind() == ErrorKind::ConnectionRefused => {}
                    Err(_) => return Ok(()),
                }
            }
        }
        loop {
            let Some(n) = self.fill()? else { return Ok(()) };
            self.replies(&mut each)?;
            // Less than there was room for: that was all, unless the end came with the same event.
            if n < READ && !ended {
                return Ok(());
            }
        }
    }

    /// Reads once; `None`: nothing is there.
    fn fill(&mut self) -> io::Result<Option<usize>> {
        let Link::Tcp(stream) = &mut self.link else { return Ok(None) };
        let end = self.input.len();
        self.input.resize(end + READ, 0);
        let got = loop {
            match stream.read(&mut self.input[end..]) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break Ok(None),
                Ok(0) => break Err(ErrorKind::UnexpectedEof.into()),
                got => break got.map(Some),
            }
        };
        self.input.truncate(end + got.as_ref().map_or(0, |read| read.unwrap_or(0)));
        got
    }

    fn replies(&mut self, each: &mut impl FnMut(Received)) -> io::Result<()> {
        while self.read < self.input.len() {
            match self.protocol.reply(&self.input[self.read..]) {
                Ok(None) => break,
                Ok(Some((used, reply))) => {
                    self.read += used;
                    let request = self.under_way.pop_front();
                    let (id, class) = request.ok_or(ErrorKind::InvalidData)?;
                    each(Received::InOrder(id, class, reply));
                }
                Err(_) => return Err(ErrorKind::InvalidData.into()),
            }
        }
        self.input.drain(..self.read);
        self.read = 0;
        Ok(())
    }

    /// The requests that will get no reply any more.
    pub(super) fn lost(&mut self) -> impl Iterator<Item = (u64, u32)> + '_ {
        self.under_way.drain(..)
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.link {
            Link::Tcp(stream) => stream.as_fd(),
            Link::Udp(socket) => socket.as_fd(),
        }
    }
}
