//! A TCP connection: smoltcp's socket and what the calls need beside it.

use super::egress::Route;
use super::listener::Listener;
use super::table::Key;
use super::{NEVER, errno};
use crate::config::Config;
use quaver::net::stack::{Announcer, Readiness};
use smoltcp::iface::{SocketHandle, SocketSet, SocketStorage};
use smoltcp::socket::tcp::{CongestionControl, Socket, SocketBuffer, State};
use smoltcp::time::Duration;
use std::io;
use std::net::SocketAddrV4;
use std::sync::Arc;

const SECOND: u64 = 1_000_000;
/// How long a connection that is being opened may take.
const OPENING: u64 = 127 * SECOND;
/// How long a client may take to complete the handshake.
const HALF_OPEN: u64 = 10 * SECOND;
/// How long what was sent may remain unacknowledged.
const UNACKNOWLEDGED: u64 = 924 * SECOND;
/// The same, and how long a peer may take to end, when nobody has the connection any more.
const ORPHAN: u64 = 60 * SECOND;
/// Between questions whether the peer is alive, and how many of them there are.
const PROBES: u64 = 9;
const PROBE_INTERVAL: u64 = 75 * SECOND;

/// A connection of a shard. Its place may have been given to another since: then it is not found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Id {
    pub(crate) slot: u32,
    pub(crate) generation: u32,
}

/// Where a connection is, as far as calls care.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Phase {
    /// Never connected, or not any more and told so.
    Fresh,
    /// It is being opened, by us or by a peer.
    Opening,
    Live,
    /// Nothing is sent or received any more. What has been received can be read.
    Dead,
}

/// Options of a socket.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Options {
    pub(crate) no_delay: bool,
    /// Microseconds.
    pub(crate) keep_alive: Option<u64>,
    /// Reset when closed.
    pub(crate) abort: bool,
    pub(crate) ttl: Option<u8>,
}

/// A connection.
pub(crate) struct Connection {
    /// One socket: smoltcp would search through more.
    pub(crate) set: SocketSet<'static>,
    handle: SocketHandle,
    pub(crate) key: Key,
    pub(crate) local: SocketAddrV4,
    pub(crate) remote: SocketAddrV4,
    pub(crate) phase: Phase,
    /// smoltcp's state, when it was last looked at.
    state: State,
    /// `connect` has said that it is connected.
    pub(crate) told: bool,
    /// It was shut down after it had failed and before `connect` was told: it can never be
    /// connected again, as with the kernel.
    pub(crate) stuck: bool,
    /// There is a socket whose descriptor is open.
    pub(crate) owned: bool,
    /// `SO_ERROR`.
    pub(crate) error: Option<i32>,
    pub(crate) announcer: Option<Announcer>,
    /// What was ready when it was last looked at.
    pub(crate) ready: Readiness,
    /// More has been received since.
    pub(crate) more: bool,
    /// The peer has said that it sends no more.
    ended: bool,
    pub(crate) read_shut: bool,
    pub(crate) write_shut: bool,
    pub(crate) options: Options,
    /// Whose queue it stands in, until it is accepted.
    pub(crate) listener: Option<Arc<Listener>>,
    /// Where its frames go, as of an epoch of the neighbours.
    pub(crate) route: Option<(Route, u32)>,
    /// In the list of those to be looked after.
    pub(crate) touched: bool,
    /// When its timer is set.
    pub(crate) armed: u64,
    /// When the peer was last heard, or should have begun to answer.
    heard: u64,
    waits: bool,
    /// The peer's last segment: its end, and what it acknowledges.
    pub(crate) last: (u32, u32),
    /// The peer's first sequence number, with the bytes that the user has taken since.
    taken: u32,
}

impl Connection {
    pub(crate) fn new(
        config: &Config,
        local: SocketAddrV4,
        remote: SocketAddrV4,
        options: Options,
        now: u64,
    ) -> Connection {
        let mut set = SocketSet::new(vec![SocketStorage::EMPTY]);
        let handle = set.add(new_socket(config));
        let mut new = Connection {
            set,
            handle,
            key: Key::new(remote, local.port()),
            local,
            remote,
            phase: Phase::Opening,
            state: State::Closed,
            told: false,
            stuck: false,
            owned: false,
            error: None,
            announcer: None,
            ready: Readiness::NONE,
            more: false,
            ended: false,
            read_shut: false,
            write_shut: false,
            options,
            listener: None,
            route: None,
            touched: false,
            armed: NEVER,
            heard: now,
            waits: true,
            last: (0, 0),
            taken: 0,
        };
        new.apply_options();
        new
    }

    /// Another attempt to connect, of the same socket.
    pub(crate) fn renew(&mut self, new: Connection) {
        let announcer = self.announcer.take();
        let (touched, armed) = (self.touched, self.armed);
        *self = Connection { announcer, touched, armed, ..new };
    }

    pub(crate) fn socket(&mut self) -> &mut Socket<'static> {
        self.set.get_mut(self.handle)
    }

    pub(crate) fn peek_socket(&self) -> &Socket<'static> {
        self.set.get(self.handle)
    }

    /// smoltcp's state as it was last looked at.
    pub(crate) fn state(&self) -> State {
        self.state
    }

    /// Takes smoltcp's state as it is now, after a call that was ours.
    pub(crate) fn sync_state(&mut self) {
        self.state = self.peek_socket().state();
    }

    /// Its state as the kernel numbers it.
    pub(crate) fn number_of_state(&self) -> u8 {
        if matches!(self.phase, Phase::Fresh | Phase::Dead) {
            return 7;
        }
        match self.state {
            State::Established => 1,
            State::SynSent => 2,
            State::SynReceived => 3,
            State::FinWait1 => 4,
            State::FinWait2 => 5,
            State::TimeWait => 6,
            State::Closed => 7,
            State::CloseWait => 8,
            State::LastAck => 9,
            State::Listen => 10,
            State::Closing => 11,
        }
    }

    pub(crate) fn apply_options(&mut self) {
        let options = self.options;
        let socket = self.socket();
        socket.set_nagle_enabled(!options.no_delay);
        socket.set_keep_alive(options.keep_alive.map(Duration::from_micros));
        socket.set_hop_limit(options.ttl);
    }

    /// The peer has sent a segment, which smoltcp has taken. Says whether it has completed the
    /// handshake.
    pub(crate) fn heard(&mut self, received_before: usize, now: u64) -> bool {
        self.heard = now;
        let socket = self.peek_socket();
        let (old, new) = (self.state, socket.state());
        let more = socket.recv_queue() > received_before;
        self.more |= more;
        if more && self.read_shut && matches!(new, State::FinWait1 | State::FinWait2) {
            // As the kernel: neither direction is wanted any more, and there is data all the same.
            self.more = false;
            if received_before == 0 {
                self.discard();
            }
            self.abort(Some(libc::ECONNRESET));
            return false;
        }
        if old == new {
            return false;
        }
        self.state = new;
        self.ended |= has_ended(new);
        match (old, new) {
            (_, State::Closed | State::Listen) => {
                let error = match old {
                    State::SynSent => Some(libc::ECONNREFUSED),
                    State::CloseWait => Some(libc::EPIPE),
                    State::LastAck | State::Closing | State::TimeWait => None,
                    _ => Some(libc::ECONNRESET),
                };
                self.die(error);
                false
            }
            (State::SynSent | State::SynReceived, State::Established | State::CloseWait) => {
                self.phase = Phase::Live;
                true
            }
            _ => false,
        }
    }

    /// Nothing more is sent or received.
    pub(crate) fn die(&mut self, error: Option<i32>) {
        self.phase = Phase::Dead;
        self.error = self.error.or(error);
    }

    /// The peer has said where its sequence numbers begin.
    pub(crate) fn begins(&mut self, seq: u32) {
        self.taken = seq.wrapping_add(1);
    }

    /// The sequence number that is expected next.
    pub(crate) fn next_expected(&self) -> u32 {
        let waiting = self.peek_socket().recv_queue() as u32;
        self.taken.wrapping_add(waiting).wrapping_add(self.ended.into())
    }

    /// It is a new socket again.
    pub(crate) fn disconnect(&mut self) {
        self.phase = Phase::Fresh;
        (self.ended, self.read_shut, self.write_shut) = (false, false, false);
        self.discard();
    }

    /// Throws away what has been received.
    fn discard(&mut self) {
        while self.socket().recv(|bytes| (bytes.len(), !bytes.is_empty())) == Ok(true) {}
    }

    /// Resets it.
    pub(crate) fn abort(&mut self, error: Option<i32>) {
        self.socket().abort();
        self.sync_state();
        self.die(error);
    }

    /// Has it a reset to send?
    pub(crate) fn resets(&self) -> bool {
        self.state == State::Closed && self.peek_socket().remote_endpoint().is_some()
    }

    /// Has it waited too long? Call after each change.
    pub(crate) fn deadline(&mut self, now: u64) -> u64 {
        let socket = self.peek_socket();
        let opening = matches!(self.state, State::SynSent | State::SynReceived);
        let ending = matches!(self.state, State::FinWait1 | State::Closing | State::LastAck);
        let waits = opening || ending || socket.send_queue() > 0;
        if waits && !self.waits {
            self.heard = now;
        }
        self.waits = waits;
        let orphan = !self.owned && self.listener.is_none();
        let limit = match self.options.keep_alive {
            _ if opening && self.listener.is_some() => HALF_OPEN,
            _ if opening => OPENING,
            _ if orphan => ORPHAN,
            _ if waits => UNACKNOWLEDGED,
            Some(idle) => idle + PROBES * idle.min(PROBE_INTERVAL),
            None => return NEVER,
        };
        self.heard + limit
    }

    /// What can be done.
    pub(crate) fn readiness(&self) -> Readiness {
        let mut ready = match self.phase {
            Phase::Opening => Readiness::NONE,
            Phase::Fresh => fresh(self.read_shut),
            Phase::Dead => {
                Readiness::READABLE | Readiness::WRITABLE | Readiness::END | Readiness::HANG_UP
            }
            Phase::Live => {
                let socket = self.peek_socket();
                let ended = self.read_shut || self.ended;
                let mut ready = Readiness::NONE;
                if ended || socket.can_recv() {
                    ready |= Readiness::READABLE;
                }
                if ended {
                    ready |= Readiness::END;
                }
                if ended && self.write_shut {
                    ready |= Readiness::HANG_UP;
                }
                let (used, capacity) = (socket.send_queue(), socket.send_capacity());
                // As the kernel: a third, or those who wait are woken for every few bytes.
                if self.write_shut || 3 * (capacity - used) >= capacity {
                    ready |= Readiness::WRITABLE;
                }
                ready
            }
        };
        if self.error.is_some() {
            ready |= Readiness::ERROR;
        }
        ready
    }

    /// Tells whoever waits what has become ready.
    pub(crate) fn announce(&mut self) {
        let ready = self.readiness();
        let mut news = ready.bits() & !self.ready.bits();
        if std::mem::take(&mut self.more) {
            news |= Readiness::READABLE.bits();
        }
        self.ready = ready;
        if news != 0
            && let Some(announcer) = &self.announcer
        {
            announcer(super::readiness(news));
        }
    }

    /// After a call of the user: what is ready now is not news.
    pub(crate) fn look(&mut self) {
        self.ready = self.readiness();
    }

    /// Takes what is to be read.
    pub(crate) fn receive(
        &mut self,
        into: &mut [io::IoSliceMut<'_>],
        peek: bool,
    ) -> io::Result<usize> {
        let socket = self.set.get_mut::<Socket<'_>>(self.handle);
        if socket.can_recv() {
            let n = copy_out(socket, into, peek);
            if !peek {
                self.taken = self.taken.wrapping_add(n as u32);
            }
            return Ok(n);
        }
        // The end is known even if a reset has followed.
        if self.ended {
            return Ok(0);
        }
        if let Some(error) = self.error.take() {
            return Err(errno(error));
        }
        match self.phase {
            Phase::Dead => Ok(0),
            _ if self.read_shut => Ok(0),
            Phase::Fresh => Err(errno(libc::ENOTCONN)),
            _ => Err(errno(libc::EAGAIN)),
        }
    }

    /// Takes what is to be sent. Says how much of it there was room for.
    pub(crate) fn send(&mut self, from: &[io::IoSlice<'_>]) -> io::Result<usize> {
        if self.phase == Phase::Opening && self.error.is_none() {
            return Err(errno(libc::EAGAIN));
        }
        if let Some(error) = self.error.take() {
            return Err(errno(error));
        }
        if self.phase != Phase::Live || self.write_shut {
            return Err(errno(libc::EPIPE));
        }
        let socket = self.set.get_mut::<Socket<'_>>(self.handle);
        let (mut sent, mut empty) = (0, true);
        for slice in from.iter().filter(|slice| !slice.is_empty()) {
            empty = false;
            match socket.send_slice(slice) {
                Ok(n) => sent += n,
                Err(_) => return Err(errno(libc::EPIPE)),
            }
        }
        if sent == 0 && !empty { Err(errno(libc::EAGAIN)) } else { Ok(sent) }
    }
}

/// Has the peer said that it sends no more?
fn has_ended(state: State) -> bool {
    use State::{CloseWait, Closing, LastAck, TimeWait};
    matches!(state, CloseWait | Closing | LastAck | TimeWait)
}

/// What can be done with a socket that is not connected: it ends at once.
pub(crate) fn fresh(read_shut: bool) -> Readiness {
    let ready = Readiness::WRITABLE | Readiness::HANG_UP;
    if read_shut { ready | Readiness::READABLE | Readiness::END } else { ready }
}

fn new_socket(config: &Config) -> Socket<'static> {
    let buffer = |size| SocketBuffer::new(vec![0; size]);
    let mut socket = Socket::new(buffer(config.receive_buffer), buffer(config.send_buffer));
    socket.set_congestion_control(CongestionControl::Cubic);
    socket
}

fn copy_out(socket: &mut Socket<'_>, into: &mut [io::IoSliceMut<'_>], peek: bool) -> usize {
    let mut done = 0;
    for slice in into {
        if !peek {
            done += socket.recv_slice(slice).unwrap_or(0);
            continue;
        }
        // The ring is in two pieces at most; smoltcp lends them from its beginning only.
        if done == 0 {
            done = socket.peek_slice(slice).unwrap_or(0);
        } else {
            let mut all = vec![0; done + slice.len()];
            let n = socket.peek_slice(&mut all).unwrap_or(0);
            slice[..n - done].copy_from_slice(&all[done..n]);
            done = n;
        }
    }
    done
}
