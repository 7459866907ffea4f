//! Streams.

use crate::lock::Lock;
use crate::net::Net;
use crate::stack::connection::{Connection, Id, Options, Phase, fresh};
use crate::stack::listener::{Arrived, Listener};
use crate::stack::{State, errno};
use quaver::net::stack::{Announcer, Opt, Readiness, Received, Socket};
use std::io::{self, IoSlice, IoSliceMut};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, SocketAddrV4};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

const UNBOUND: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0);

/// A TCP socket: new, listening, or with a connection in a shard.
pub(crate) struct Tcp {
    net: Arc<Net>,
    setup: Lock<Setup>,
    /// Its connection, once there has been one. A later one takes its place.
    connection: OnceLock<(usize, Id)>,
    listens: AtomicBool,
}

struct Setup {
    /// Stays to be seen when the port has been given back, as the kernel's.
    local: SocketAddrV4,
    /// It has a port: its own, or one of its connection.
    has_port: bool,
    /// The port is taken.
    bound: bool,
    options: Options,
    announcer: Option<Announcer>,
    listener: Option<Arc<Listener>>,
    /// The user has asked for this port: it stays when the connection has ended.
    locked: bool,
    /// It was given back, when the connection ended.
    given_back: bool,
    /// Shut down before there was a connection.
    read_shut: bool,
    write_shut: bool,
    closed: bool,
}

impl Tcp {
    pub(crate) fn new(net: Arc<Net>) -> Tcp {
        Tcp::with(net, UNBOUND, Options::default(), OnceLock::new())
    }

    fn with(
        net: Arc<Net>,
        local: SocketAddrV4,
        options: Options,
        connection: OnceLock<(usize, Id)>,
    ) -> Tcp {
        let setup = Setup {
            local,
            has_port: local.port() != 0,
            bound: false,
            options,
            announcer: None,
            listener: None,
            locked: false,
            given_back: false,
            read_shut: false,
            write_shut: false,
            closed: false,
        };
        Tcp { net, setup: Lock::new(setup), connection, listens: AtomicBool::new(false) }
    }

    /// Looks at the connection; `None`: there is none.
    fn look<R>(&self, f: impl FnOnce(&mut Connection) -> R) -> Option<R> {
        let &(shard, id) = self.connection.get()?;
        self.net.shards[shard].look(|state| state.core.get(id).map(f))
    }

    /// Does something to the connection, and sends what comes of it.
    fn call<R>(&self, f: impl FnOnce(&mut State, Id) -> R) -> Option<R> {
        let &(shard, id) = self.connection.get()?;
        Some(self.net.shards[shard].call(|state| f(state, id)))
    }

    fn listener(&self) -> Option<Arc<Listener>> {
        self.setup.lock().listener.clone()
    }

    /// A port that nobody asked for is given back when its connection has ended.
    fn give_back_port(&self, setup: &mut Setup) {
        let over = || {
            let over = |connection: &mut Connection| {
                matches!(connection.phase, Phase::Fresh | Phase::Dead)
            };
            setup.listener.is_none() && self.look(over) == Some(true)
        };
        if !setup.locked && !setup.given_back && setup.has_port && over() {
            setup.given_back = true;
            self.release(setup);
        }
    }

    fn release(&self, setup: &mut Setup) {
        if std::mem::take(&mut setup.bound) {
            self.net.tcp_ports.lock().release(setup.local.port());
        }
        setup.has_port = false;
    }

    /// Begins to connect.
    fn open(&self, setup: &mut Setup, remote: SocketAddrV4) -> io::Result<()> {
        let net = &*self.net;
        let (shard, earlier) = match self.connection.get() {
            Some(&(shard, id)) => (shard, Some(id)),
            None => (net.any_shard(), None),
        };
        let ip = net.config.subnet.address;
        let attempt = |port: u16| -> io::Result<Id> {
            let local = SocketAddrV4::new(ip, port);
            net.shards[shard].call(|state| {
                let id = state.core.connect(earlier, local, remote, setup.options)?;
                let connection = state.core.get(id).expect("it is new");
                connection.announcer = setup.announcer.clone();
                if earlier.is_none() {
                    connection.read_shut = setup.read_shut;
                    connection.write_shut = setup.write_shut;
                }
                Ok(id)
            })
        };
        let (id, port) = if setup.bound {
            (attempt(setup.local.port())?, setup.local.port())
        } else {
            let candidates = net.tcp_ports.lock().candidates();
            let mut found = Err(errno(libc::EADDRNOTAVAIL));
            for port in candidates {
                if net.tcp_ports.lock().is_taken(port) {
                    continue;
                }
                match attempt(port) {
                    Err(e) if e.raw_os_error() == Some(libc::EADDRNOTAVAIL) => {}
                    id => {
                        found = id.map(|id| (id, port));
                        break;
                    }
                }
            }
            let found = found?;
            net.tcp_ports.lock().used(found.1);
            found
        };
        setup.local = SocketAddrV4::new(ip, port);
        (setup.has_port, setup.given_back) = (true, false);
        self.connection.get_or_init(|| (shard, id));
        Ok(())
    }

    /// Nobody listens any more.
    fn stop_listening(&self, listener: &Arc<Listener>) {
        let port = listener.local.port();
        for shard in &self.net.shards {
            shard.call(|state| state.core.unlisten(port, listener));
        }
        for Arrived { shard, id } in listener.close() {
            self.net.shards[shard].call(|state| {
                if let Some(connection) = state.core.get(id) {
                    connection.listener = None;
                    connection.options.abort = true;
                    state.core.close(&mut state.egress, id);
                }
            });
        }
    }
}

impl Socket for Tcp {
    fn bind(&self, address: SocketAddr) -> io::Result<()> {
        let local = self.net.local(address)?;
        let mut setup = self.setup.lock();
        self.give_back_port(&mut setup);
        if setup.has_port {
            return Err(errno(libc::EINVAL));
        }
        let port = self.net.tcp_ports.lock().take(local.port())?;
        setup.locked = local.port() != 0;
        setup.local = SocketAddrV4::new(*local.ip(), port);
        (setup.bound, setup.has_port) = (true, true);
        Ok(())
    }

    fn listen(&self, backlog: usize) -> io::Result<()> {
        self.net.fails()?;
        if self.look(|connection| connection.phase) != Some(Phase::Fresh)
            && self.connection.get().is_some()
        {
            return Err(errno(libc::EINVAL));
        }
        let mut setup = self.setup.lock();
        if let Some(listener) = &setup.listener {
            listener.set_backlog(backlog);
            return Ok(());
        }
        self.give_back_port(&mut setup);
        if !setup.bound {
            let port = self.net.tcp_ports.lock().take(0)?;
            setup.local = SocketAddrV4::new(*setup.local.ip(), port);
            (setup.bound, setup.has_port) = (true, true);
        }
        let listener = Arc::new(Listener::new(setup.local, backlog, setup.options));
        listener.announce_to(setup.announcer.clone());
        setup.listener = Some(listener.clone());
        self.listens.store(true, Relaxed);
        drop(setup);
        for shard in &self.net.shards {
            shard.look(|state| state.core.listen(&listener));
        }
        Ok(())
    }

    fn accept(&self) -> io::Result<(Arc<dyn Socket>, SocketAddr)> {
        let Some(listener) = self.listener() else { return Err(errno(libc::EINVAL)) };
        self.net.fails()?;
        while let Some(Arrived { shard, id }) = listener.pop() {
            let found = self.net.shards[shard].look(|state| {
                let connection = state.core.get(id)?;
                connection.listener = None;
                connection.owned = true;
                connection.look();
                Some((connection.local, connection.remote, connection.options))
            });
            let Some((local, remote, options)) = found else { continue };
            let connection = OnceLock::from((shard, id));
            let socket = Tcp::with(self.net.clone(), local, options, connection);
            return Ok((Arc::new(socket), remote.into()));
        }
        Err(errno(libc::EAGAIN))
    }

    fn connect(&self, peer: SocketAddr) -> io::Result<()> {
        self.net.fails()?;
        let mut setup = self.setup.lock();
        if setup.listener.is_some() {
            return Err(errno(libc::EISCONN));
        }
        let earlier = self.look(|connection| match connection.phase {
            Phase::Fresh => None,
            _ if connection.stuck => Some(Err(errno(libc::EINVAL))),
            Phase::Opening => Some(Err(errno(libc::EALREADY))),
            _ if connection.told => Some(Err(errno(libc::EISCONN))),
            Phase::Live => {
                connection.told = true;
                Some(Ok(()))
            }
            Phase::Dead => {
                connection.disconnect();
                let error = connection.error.take().unwrap_or(libc::ECONNABORTED);
                connection.look();
                Some(Err(errno(error)))
            }
        });
        if let Some(Some(result)) = earlier {
            return result;
        }
        self.give_back_port(&mut setup);
        let remote = self.net.remote(peer).map_err(|e| match e.raw_os_error() {
            // A stream to everybody: there is none.
            Some(libc::EACCES) => errno(libc::ENETUNREACH),
            _ => e,
        })?;
        if remote.port() == 0 {
            return Err(errno(libc::ECONNREFUSED));
        }
        self.open(&mut setup, remote)?;
        Err(errno(libc::EINPROGRESS))
    }

    fn receive(&self, into: &mut [IoSliceMut<'_>], peek: bool) -> io::Result<Received> {
        if self.listens.load(Relaxed) {
            return Err(errno(libc::ENOTCONN));
        }
        let received = self.connection.get().map(|&(shard, id)| {
            self.net.shards[shard].look_first(|state| -> io::Result<usize> {
                let core = &mut state.core;
                let connection = core.get(id).ok_or_else(|| errno(libc::EBADF))?;
                let n = connection.receive(into, peek)?;
                connection.look();
                if n > 0 && !peek {
                    core.has_read(id);
                }
                Ok(n)
            })
        });
        let len = match received {
            Some(received) => received?,
            None if self.setup.lock().read_shut => 0,
            None => return Err(errno(libc::ENOTCONN)),
        };
        Ok(Received { len, whole: len, from: None })
    }

    fn send(&self, from: &[IoSlice<'_>], _: Option<SocketAddr>) -> io::Result<usize> {
        let sent = self.call(|state, id| {
            let connection = state.core.get(id).ok_or_else(|| errno(libc::EBADF))?;
            let n = connection.send(from);
            connection.look();
            if n.is_ok() {
                state.core.touch(id.slot);
            }
            n
        });
        sent.unwrap_or_else(|| Err(errno(libc::EPIPE)))
    }

    fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        let listens = self.listens.load(Relaxed);
        if let Some(listener) = listens.then(|| self.listener()).flatten() {
            if how != Shutdown::Write {
                let mut setup = self.setup.lock();
                setup.listener = None;
                // As the kernel: it is a new socket again.
                (setup.read_shut, setup.write_shut) = (false, false);
                self.listens.store(false, Relaxed);
                if !setup.locked {
                    self.release(&mut setup);
                }
                drop(setup);
                self.stop_listening(&listener);
            }
            return Ok(());
        }
        if let Some(done) = self.call(|state, id| state.core.shutdown(id, how)) {
            return done;
        }
        let mut setup = self.setup.lock();
        setup.read_shut |= how != Shutdown::Write;
        setup.write_shut |= how != Shutdown::Read;
        if let Some(announcer) = &setup.announcer {
            announcer(fresh(setup.read_shut));
        }
        Err(errno(libc::ENOTCONN))
    }

    fn readiness(&self) -> Readiness {
        if self.listens.load(Relaxed)
            && let Some(listener) = self.listener()
        {
            return listener.readiness();
        }
        let ready = self.look(|connection| connection.readiness());
        ready.unwrap_or_else(|| fresh(self.setup.lock().read_shut))
    }

    fn announce_to(&self, announcer: Announcer) {
        let mut setup = self.setup.lock();
        if let Some(listener) = &setup.listener {
            listener.announce_to(Some(announcer.clone()));
        }
        self.look(|connection| connection.announcer = Some(announcer.clone()));
        setup.announcer = Some(announcer);
    }

    fn take_error(&self) -> Option<io::Error> {
        let taken = self.look(|connection| {
            let error = connection.error.take();
            connection.look();
            error
        });
        taken.flatten().map(errno)
    }

    fn pending(&self) -> usize {
        self.look(|connection| connection.peek_socket().recv_queue()).unwrap_or(0)
    }

    fn state(&self) -> Option<u8> {
        const LISTENS: u8 = 10;
        const CLOSED: u8 = 7;
        if self.listens.load(Relaxed) {
            return Some(LISTENS);
        }
        Some(self.look(|connection| connection.number_of_state()).unwrap_or(CLOSED))
    }

    fn set(&self, option: Opt) -> io::Result<()> {
        let mut setup = self.setup.lock();
        let options = &mut setup.options;
        match option {
            Opt::NoDelay(on) => options.no_delay = on,
            Opt::KeepAlive(idle) => {
                options.keep_alive = idle.map(|idle| idle.as_micros().max(1) as u64);
            }
            Opt::Linger(time) => options.abort = time.is_some_and(|time| time.is_zero()),
            Opt::Ttl(0) => return Err(errno(libc::EINVAL)),
            Opt::Ttl(ttl) => options.ttl = Some(ttl),
        }
        let options = *options;
        if let Some(listener) = &setup.listener {
            listener.set_options(options);
        }
        self.call(|state, id| {
            if let Some(connection) = state.core.get(id) {
                connection.options = options;
                connection.apply_options();
                state.core.touch(id.slot);
            }
        });
        Ok(())
    }

    fn local_addr(&self) -> SocketAddr {
        self.setup.lock().local.into()
    }

    fn peer_addr(&self) -> Option<SocketAddr> {
        self.look(|connection| (connection.phase == Phase::Live).then(|| connection.remote.into()))
            .flatten()
    }

    fn close(&self) {
        let mut setup = self.setup.lock();
        if std::mem::replace(&mut setup.closed, true) {
            return;
        }
        setup.announcer = None;
        let listener = setup.listener.take();
        self.listens.store(false, Relaxed);
        let port = std::mem::take(&mut setup.bound).then(|| setup.local.port());
        drop(setup);
        if let Some(listener) = listener {
            self.stop_listening(&listener);
        }
        self.call(|state, id| state.core.close(&mut state.egress, id));
        if let Some(port) = port {
            self.net.tcp_ports.lock().release(port);
        }
    }
}

impl Drop for Tcp {
    fn drop(&mut self) {
        self.close();
    }
}
