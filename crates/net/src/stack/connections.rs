//! The life of connections in a shard.

use super::NEVER;
use super::connection::{Connection, Id, Options, Phase};
use super::core::{Core, Listening};
use super::egress::{Egress, Port, Route, Sink};
use super::errno;
use super::listener::Listener;
use super::neighbours::Wanting;
use super::table::Key;
use quaver::sched::Task;
use smoltcp::iface::PollResult;
use smoltcp::socket::tcp::State;
use smoltcp::wire::IpEndpoint;
use std::collections::VecDeque;
use std::io;
use std::net::{Shutdown, SocketAddrV4};
use std::sync::Arc;

/// How long a connection waits for its neighbour before it asks again, in microseconds.
const ASK_AGAIN: u64 = 1_000_000;

impl Core {
    /// A place for a new connection.
    ///
    /// # Errors
    ///
    /// `ENOBUFS`: there are too many.
    pub(crate) fn insert(
        &mut self,
        local: SocketAddrV4,
        remote: SocketAddrV4,
        options: Options,
    ) -> io::Result<Id> {
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None if self.connections.len() < self.config.connections as usize => {
                self.connections.push(None);
                self.generations.push(0);
                (self.connections.len() - 1) as u32
            }
            None => return Err(errno(libc::ENOBUFS)),
        };
        let new = Connection::new(&self.config, local, remote, options, self.now);
        self.table.insert(new.key, slot);
        self.connections[slot as usize] = Some(Box::new(new));
        Ok(Id { slot, generation: self.generations[slot as usize] })
    }

    /// Begins to connect: with the place of an earlier attempt, if there was one.
    ///
    /// # Errors
    ///
    /// `EADDRNOTAVAIL`: there is such a connection already; `ENOBUFS`.
    pub(crate) fn connect(
        &mut self,
        earlier: Option<Id>,
        local: SocketAddrV4,
        remote: SocketAddrV4,
        options: Options,
    ) -> io::Result<Id> {
        let key = Key::new(remote, local.port());
        if self.is_used(key) || !self.steering.claim(key, self.shard) {
            return Err(errno(libc::EADDRNOTAVAIL));
        }
        let place = match earlier {
            None => self.insert(local, remote, options),
            Some(id) => {
                let new = Connection::new(&self.config, local, remote, options, self.now);
                match self.get(id) {
                    Some(old) => {
                        old.renew(new);
                        self.table.insert(key, id.slot);
                        Ok(id)
                    }
                    None => Err(errno(libc::EBADF)),
                }
            }
        };
        let id = place.inspect_err(|_| self.steering.forget(key, self.shard))?;
        let Core { interface, connections, .. } = self;
        let connection = connections[id.slot as usize].as_deref_mut().expect("it was put there");
        connection.owned = true;
        let (to, from) = (endpoint(remote), endpoint(local));
        if connection.socket().connect(interface.context(), to, from).is_err() {
            return Err(errno(libc::EADDRNOTAVAIL));
        }
        connection.sync_state();
        connection.look();
        self.touch(id.slot);
        Ok(id)
    }

    /// Is there such a connection, or was there one a moment ago?
    pub(crate) fn is_used(&self, key: Key) -> bool {
        self.table.contains_key(&key) || self.time_waits.get(key).is_some()
    }

    /// The neighbour does not answer, or somebody on the way has said that it cannot be done.
    pub(crate) fn unreachable(&mut self, id: Id, error: i32) {
        if let Some(connection) = self.get(id)
            && connection.phase == Phase::Opening
            && connection.listener.is_none()
        {
            // Silently: nobody is there to be told.
            connection.die(Some(error));
            self.touch(id.slot);
        }
    }

    /// Looks after those that were touched.
    pub(crate) fn settle(&mut self, egress: &mut Egress) {
        self.settle_news(egress);
        while let Some(slot) = self.touched.pop() {
            self.serve(egress, slot);
        }
        self.replies.drain(egress);
    }

    /// Sends what a connection has to send, sets its timer, tells its user what has become ready,
    /// and removes it if nobody needs it any more.
    fn serve(&mut self, egress: &mut Egress, slot: u32) {
        let now = self.now;
        let generation = self.generations[slot as usize];
        let id = Id { slot, generation };
        let Some(connection) = self.connections[slot as usize].as_deref_mut() else { return };
        connection.touched = false;
        let abandoned = !connection.owned && connection.listener.is_none();
        if abandoned && connection.phase == Phase::Live && connection.peek_socket().can_recv() {
            // Nobody will read it; the peer should know.
            connection.abort(None);
        }
        let mut due = NEVER;
        if connection.phase == Phase::Opening || connection.phase == Phase::Live {
            due = connection.deadline(now);
            if due <= now {
                if connection.state() == State::SynReceived {
                    connection.die(Some(libc::ETIMEDOUT));
                } else {
                    connection.abort(Some(libc::ETIMEDOUT));
                }
                due = NEVER;
            }
        }
        let connection = self.connections[slot as usize].as_deref_mut().expect("it is there");
        let sends = matches!(connection.phase, Phase::Opening | Phase::Live) || connection.resets();
        if sends {
            due = due.min(self.send_all(egress, id));
        }
        let Some(connection) = self.connections[slot as usize].as_deref_mut() else { return };
        if connection.phase == Phase::Live && connection.state() == State::TimeWait {
            connection.die(None);
            let (ack, seq) = connection.last;
            let key = connection.key;
            if let Some(gone) = self.time_waits.insert(key, seq, ack, now) {
                self.steering.forget(gone, self.shard);
            }
            self.table.remove(&key);
        }
        if connection.phase == Phase::Dead && !connection.resets() {
            due = NEVER;
            if self.table.get(&connection.key) == Some(&slot) {
                self.table.remove(&connection.key);
                self.steering.forget(connection.key, self.shard);
            }
        }
        connection.announce();
        let over = matches!(connection.phase, Phase::Dead | Phase::Fresh)
            && !connection.owned
            && !connection.resets();
        // One that waits to be accepted stays: the queue has it.
        if over && (connection.listener.is_none() || !connection.told) {
            return self.remove(id);
        }
        self.arm(id, due);
    }

    /// Sends what there is to send; says when to look again.
    fn send_all(&mut self, egress: &mut Egress, id: Id) -> u64 {
        let (time, now) = (self.time(), self.now);
        let epoch = self.neighbours.epoch;
        let connection = self.connections[id.slot as usize].as_deref_mut().expect("it is there");
        let to = match connection.route {
            Some((to, of)) if of == epoch => to,
            _ => {
                let ip = *connection.remote.ip();
                let Some(to) = self.route(ip, Wanting::Connection(id)) else {
                    return now + ASK_AGAIN;
                };
                let epoch = self.neighbours.epoch;
                self.connections[id.slot as usize].as_deref_mut().expect("it is there").route =
                    Some((to, epoch));
                to
            }
        };
        let Core { interface, connections, capabilities, .. } = self;
        let connection = connections[id.slot as usize].as_deref_mut().expect("it is there");
        let mut sender = Port { packet: None, sink: &mut *egress, to, capabilities };
        // Asking is cheaper than a try that sends nothing, for which the window is computed first.
        loop {
            match interface.poll_at(time, &connection.set) {
                None => return NEVER,
                Some(at) if at > time => return (at.total_micros() as u64).max(now + 1),
                Some(_) => {}
            }
            if interface.poll_egress(time, &mut sender, &mut connection.set)
                != PollResult::SocketStateChanged
            {
                break;
            }
        }
        if egress.has_room() {
            // It may have changed its mind: something was due, and is not any more.
            return match interface.poll_at(time, &connection.set) {
                Some(at) => (at.total_micros() as u64).max(now + 1),
                None => NEVER,
            };
        }
        self.stalled.push(id);
        NEVER
    }

    /// Sets a connection's timer. One that is set for an earlier time stays: it finds then that
    /// there is nothing to do, and is set again. So a timer is not moved with each segment.
    fn arm(&mut self, id: Id, due: u64) {
        let connection = self.connections[id.slot as usize].as_deref_mut().expect("it is there");
        if due < connection.armed {
            connection.armed = due;
            self.timers.insert(Task(id.slot), due);
        }
    }

    pub(crate) fn remove(&mut self, id: Id) {
        let slot = id.slot as usize;
        let Some(connection) = self.connections[slot].take() else { return };
        self.timers.cancel(Task(id.slot));
        if self.table.get(&connection.key) == Some(&id.slot) {
            self.table.remove(&connection.key);
            self.steering.forget(connection.key, self.shard);
        }
        self.leave_half_open(&connection);
        self.generations[slot] = self.generations[slot].wrapping_add(1);
        self.free.push(id.slot);
    }

    /// One that never became complete leaves its listener's list.
    fn leave_half_open(&mut self, connection: &Connection) {
        if let Some(listener) = &connection.listener
            && !connection.told
            && let Some(port) = self.listeners.get_mut(&connection.local.port())
            && Arc::ptr_eq(&port.listener, listener)
        {
            port.half_open_now = port.half_open_now.saturating_sub(1);
        }
    }

    /// The user's descriptor is closed.
    pub(crate) fn close(&mut self, egress: &mut Egress, id: Id) {
        let Some(connection) = self.get(id) else { return };
        connection.owned = false;
        connection.announcer = None;
        match connection.phase {
            Phase::Opening => {
                connection.die(None);
                return self.remove(id);
            }
            Phase::Live if connection.options.abort || connection.peek_socket().can_recv() => {
                connection.abort(None);
            }
            Phase::Live => {
                connection.socket().close();
                connection.sync_state();
            }
            Phase::Fresh | Phase::Dead => {}
        }
        self.touch(id.slot);
        self.settle(egress);
    }

    /// `shutdown(2)`.
    ///
    /// # Errors
    ///
    /// `ENOTCONN`
    pub(crate) fn shutdown(&mut self, id: Id, how: Shutdown) -> io::Result<()> {
        let connection = self.get(id).ok_or_else(|| errno(libc::EBADF))?;
        match connection.phase {
            Phase::Fresh | Phase::Dead => {
                connection.read_shut |= how != Shutdown::Write;
                connection.write_shut |= how != Shutdown::Read;
                connection.stuck |= connection.phase == Phase::Dead && !connection.told;
                self.touch(id.slot);
                return Err(errno(libc::ENOTCONN));
            }
            Phase::Opening => {
                // As the kernel: it is a new socket again.
                connection.disconnect();
                let key = connection.key;
                self.table.remove(&key);
                self.steering.forget(key, self.shard);
            }
            Phase::Live => {
                connection.told = true;
                connection.read_shut |= how != Shutdown::Write;
                if how != Shutdown::Read {
                    connection.write_shut = true;
                    connection.socket().close();
                    connection.sync_state();
                }
            }
        }
        self.touch(id.slot);
        Ok(())
    }

    /// The user has read: does the peer have to know that there is room?
    pub(crate) fn has_read(&mut self, id: Id) {
        let time = self.time();
        let Core { interface, connections, .. } = self;
        let Some(connection) = &connections[id.slot as usize] else { return };
        if connection.phase == Phase::Live
            && interface.poll_at(time, &connection.set).is_some_and(|at| at <= time)
        {
            self.touch(id.slot);
        }
    }

    /// Somebody listens.
    pub(crate) fn listen(&mut self, listener: &Arc<Listener>) {
        let listening =
            Listening { listener: listener.clone(), half_open: VecDeque::new(), half_open_now: 0 };
        self.listeners.insert(listener.local.port(), listening);
    }

    /// Nobody listens any more: handshakes that are not complete are forgotten.
    pub(crate) fn unlisten(&mut self, port: u16, listener: &Arc<Listener>) {
        if !self.listeners.get(&port).is_some_and(|found| Arc::ptr_eq(&found.listener, listener)) {
            return;
        }
        let Some(listening) = self.listeners.remove(&port) else { return };
        for (id, _) in listening.half_open {
            if self
                .get(id)
                .is_some_and(|connection| connection.listener.is_some() && !connection.told)
            {
                self.remove(id);
            }
        }
    }

    /// The device is gone.
    pub(crate) fn fail(&mut self) {
        self.failed = true;
        for slot in 0..self.connections.len() {
            if let Some(connection) = self.connections[slot].as_deref_mut()
                && connection.phase != Phase::Fresh
            {
                connection.die(Some(libc::ENETDOWN));
                connection.announce();
            }
        }
        for port in self.listeners.values() {
            port.listener.fail();
        }
        for socket in self.datagrams.values() {
            socket.fail(libc::ENETDOWN);
        }
    }
}

fn endpoint(address: SocketAddrV4) -> IpEndpoint {
    IpEndpoint::new((*address.ip()).into(), address.port())
}

/// Nothing is sent back to a hardware address that is nobody's.
pub(crate) fn reply_route(from: [u8; 6], looped: bool) -> Route {
    if looped { Route::Own } else { Route::Mac(from) }
}
