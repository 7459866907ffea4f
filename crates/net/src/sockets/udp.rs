//! Datagrams.

use crate::lock::Lock;
use crate::net::Net;
use crate::stack::errno;
use crate::stack::udp::Datagrams;
use quaver::net::stack::{Announcer, Opt, Readiness, Received, Socket};
use std::io::{self, IoSlice, IoSliceMut};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, SocketAddrV4};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

/// The longest datagram of IPv4.
const LONGEST: usize = 65_507;

/// A UDP socket.
pub(crate) struct Udp {
    net: Arc<Net>,
    local: Lock<SocketAddrV4>,
    datagrams: Arc<Datagrams>,
    /// 0: not set.
    ttl: AtomicU8,
}

impl Udp {
    pub(crate) fn new(net: Arc<Net>) -> Udp {
        let shard = net.any_shard();
        let datagrams = Arc::new(Datagrams::new(net.config.datagram_buffer, shard));
        let local = Lock::new(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0));
        Udp { net, local, datagrams, ttl: AtomicU8::new(0) }
    }

    /// Takes a port, and lets all shards know.
    fn take(&self, local: &mut SocketAddrV4, wanted: SocketAddrV4) -> io::Result<()> {
        let port = self.net.udp_ports.lock().take(wanted.port())?;
        *local = SocketAddrV4::new(*wanted.ip(), port);
        for shard in &self.net.shards {
            shard.look(|state| state.core.datagrams.insert(port, self.datagrams.clone()));
        }
        Ok(())
    }

    /// The local port; one is taken if there is none.
    fn port(&self) -> io::Result<u16> {
        let mut local = self.local.lock();
        if local.port() == 0 {
            let wanted = *local;
            self.take(&mut local, wanted)?;
        }
        Ok(local.port())
    }
}

impl Socket for Udp {
    fn bind(&self, address: SocketAddr) -> io::Result<()> {
        let wanted = self.net.local(address)?;
        let mut local = self.local.lock();
        if local.port() != 0 {
            return Err(errno(libc::EINVAL));
        }
        self.take(&mut local, wanted)
    }

    fn listen(&self, _: usize) -> io::Result<()> {
        Err(errno(libc::EOPNOTSUPP))
    }

    fn accept(&self) -> io::Result<(Arc<dyn Socket>, SocketAddr)> {
        Err(errno(libc::EOPNOTSUPP))
    }

    fn connect(&self, peer: SocketAddr) -> io::Result<()> {
        let peer = self.net.remote(peer)?;
        self.port()?;
        *self.local.lock() = SocketAddrV4::new(self.net.config.subnet.address, self.port()?);
        self.datagrams.connect(peer);
        Ok(())
    }

    fn receive(&self, into: &mut [IoSliceMut<'_>], peek: bool) -> io::Result<Received> {
        self.datagrams.receive(into, peek)
    }

    fn send(&self, from: &[IoSlice<'_>], to: Option<SocketAddr>) -> io::Result<usize> {
        self.net.fails()?;
        // As the kernel: it has a port even if nothing is sent.
        let port = self.port()?;
        if from.iter().map(|slice| slice.len()).sum::<usize>() > LONGEST {
            return Err(errno(libc::EMSGSIZE));
        }
        let to = match to {
            Some(to) if to.port() == 0 => return Err(errno(libc::EINVAL)),
            Some(to) => self.net.remote(to)?,
            None => self.datagrams.peer().ok_or_else(|| errno(libc::EDESTADDRREQ))?,
        };
        self.datagrams.may_send()?;
        let ttl = Some(self.ttl.load(Relaxed)).filter(|&ttl| ttl != 0);
        let shard = &self.net.shards[self.datagrams.shard.load(Relaxed)];
        shard.call(|state| {
            let egress = &mut state.egress;
            state.core.send_datagram(egress, &self.datagrams, port, to, from, ttl)
        })
    }

    fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        self.datagrams.shutdown(how);
        match self.datagrams.peer() {
            Some(_) => Ok(()),
            None => Err(errno(libc::ENOTCONN)),
        }
    }

    fn readiness(&self) -> Readiness {
        self.datagrams.readiness()
    }

    fn announce_to(&self, announcer: Announcer) {
        self.datagrams.announce_to(Some(announcer));
    }

    fn take_error(&self) -> Option<io::Error> {
        self.datagrams.take_error().map(errno)
    }

    fn pending(&self) -> usize {
        self.datagrams.pending()
    }

    fn set(&self, option: Opt) -> io::Result<()> {
        match option {
            Opt::Ttl(0) => return Err(errno(libc::EINVAL)),
            Opt::Ttl(ttl) => self.ttl.store(ttl, Relaxed),
            Opt::NoDelay(_) => return Err(errno(libc::ENOPROTOOPT)),
            // As the kernel: they can be set, and change nothing.
            Opt::KeepAlive(_) | Opt::Linger(_) => {}
        }
        Ok(())
    }

    fn local_addr(&self) -> SocketAddr {
        (*self.local.lock()).into()
    }

    fn peer_addr(&self) -> Option<SocketAddr> {
        self.datagrams.peer().map(SocketAddr::from)
    }

    fn close(&self) {
        let port =
            std::mem::replace(&mut *self.local.lock(), SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0))
                .port();
        if port != 0 {
            for shard in &self.net.shards {
                shard.look(|state| state.core.datagrams.remove(&port));
            }
            self.net.udp_ports.lock().release(port);
        }
        self.datagrams.close();
    }
}

impl Drop for Udp {
    fn drop(&mut self) {
        self.close();
    }
}
