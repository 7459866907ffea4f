//! A stack whose only host is this process: what a `Stack` must do, without a network.
//!
//! One lock for all, announcements under it, as in a stack that is made of shards. What is needed
//! later is allocated when a socket is made: calls come with preemption disabled.

use quaver::NoPreempt;
use quaver::net::stack::{Announcer, Kind, Opt, Readiness, Received, Socket, Stack};
use std::collections::VecDeque;
use std::io::{self, IoSlice, IoSliceMut};
use std::net::{IpAddr, Shutdown, SocketAddr};
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What a stream or a datagram socket has room for.
const ROOM: usize = 1 << 16;
const DATAGRAMS: usize = 128;
const QUEUE: usize = 512;
const SOCKETS: usize = 8192;

fn error<T>(errno: i32) -> io::Result<T> {
    Err(io::Error::from_raw_os_error(errno))
}

/// Serves the loopback addresses.
pub struct InMemory(Arc<Mutex<World>>);

struct World {
    ports: Vec<(Kind, SocketAddr, usize)>,
    ends: Vec<Option<End>>,
    next_port: u16,
}

/// The number of an end in the world.
type Id = usize;

#[derive(Default)]
struct End {
    local: Option<SocketAddr>,
    peer: Option<SocketAddr>,
    other: Option<Id>,
    /// What becomes the other end when it connects.
    spare: Option<Id>,
    /// It wants to.
    asks: bool,
    /// Those that have connected, and their other ends.
    queue: VecDeque<(Id, Id)>,
    /// Those for which there is no room in the queue.
    asking: VecDeque<Id>,
    backlog: Option<usize>,
    stream: VecDeque<u8>,
    datagrams: VecDeque<(SocketAddr, usize)>,
    ended: bool,
    no_reads: bool,
    no_writes: bool,
    error: Option<i32>,
    resets: bool,
    was_refused: bool,
    is_closed: bool,
    announcer: Option<Announcer>,
}

impl End {
    fn new(kind: Kind) -> End {
        let mut end = End { stream: VecDeque::with_capacity(ROOM), ..End::default() };
        match kind {
            Kind::Stream => {
                end.queue.reserve(QUEUE);
                end.asking.reserve(QUEUE);
            }
            Kind::Datagram => end.datagrams.reserve(DATAGRAMS),
        }
        end
    }
}

impl InMemory {
    pub fn new() -> InMemory {
        let (ports, ends) = (Vec::with_capacity(SOCKETS), Vec::with_capacity(SOCKETS));
        InMemory(Arc::new(Mutex::new(World { ports, ends, next_port: 40_000 })))
    }
}

impl Stack for InMemory {
    fn owns(&self, local: IpAddr) -> bool {
        local.is_loopback() || local.is_unspecified()
    }

    fn reaches(&self, remote: IpAddr) -> bool {
        remote.is_loopback()
    }

    fn socket(&self, kind: Kind) -> io::Result<Arc<dyn Socket>> {
        let made = [Some(End::new(kind)), (kind == Kind::Stream).then(|| End::new(kind))];
        let mut ids = [None; 2];
        let world = self.0.clone();
        let mut locked = lock(&world);
        for (end, id) in made.into_iter().zip(&mut ids).filter(|(end, _)| end.is_some()) {
            let free = locked.ends.iter().position(Option::is_none);
            let at = free.unwrap_or(locked.ends.len());
            if at == locked.ends.len() {
                assert!(at < SOCKETS);
                locked.ends.push(None);
            }
            locked.ends[at] = end;
            *id = Some(at);
        }
        locked.end(ids[0].unwrap()).spare = ids[1];
        drop(locked);
        Ok(Arc::new(Handle { world, kind, id: ids[0].unwrap() }))
    }
}

/// The world, locked: dropped in this order.
struct Locked<'a>(MutexGuard<'a, World>, #[allow(dead_code, reason = "held")] NoPreempt);

impl Deref for Locked<'_> {
    type Target = World;

    fn deref(&self) -> &World {
        &self.0
    }
}

impl DerefMut for Locked<'_> {
    fn deref_mut(&mut self) -> &mut World {
        &mut self.0
    }
}

/// Whoever has it is not preempted: others wait for it who cannot be, either.
fn lock(world: &Mutex<World>) -> Locked<'_> {
    let quiet = NoPreempt::new();
    Locked(world.lock().unwrap_or_else(PoisonError::into_inner), quiet)
}

/// A socket.
struct Handle {
    world: Arc<Mutex<World>>,
    kind: Kind,
    id: Id,
}

impl World {
    fn end(&mut self, id: Id) -> &mut End {
        self.ends[id].as_mut().unwrap()
    }

    fn announce(&self, id: Id, what: Readiness) {
        let end = self.ends[id].as_ref().filter(|end| !end.is_closed);
        if let Some(announcer) = end.and_then(|end| end.announcer.as_ref()) {
            announcer(what);
        }
    }

    fn bind(&mut self, id: Id, kind: Kind, mut address: SocketAddr) -> io::Result<SocketAddr> {
        if self.end(id).local.is_some() {
            return error(libc::EINVAL);
        }
        let is_free = |world: &World, address: SocketAddr| {
            world.ports.iter().all(|(k, a, _)| *k != kind || a.port() != address.port())
        };
        if address.port() == 0 {
            loop {
                address.set_port(self.next_port);
                self.next_port = self.next_port.checked_add(1).unwrap_or(40_000);
                if is_free(self, address) {
                    break;
                }
            }
        } else if !is_free(self, address) {
            return error(libc::EADDRINUSE);
        }
        self.ports.push((kind, address, id));
        self.end(id).local = Some(address);
        Ok(address)
    }

    fn bind_if_not_bound(&mut self, id: Id, kind: Kind, peer: SocketAddr) -> SocketAddr {
        let loopback = if peer.is_ipv4() { "127.0.0.1:0" } else { "[::1]:0" };
        match self.end(id).local {
            Some(local) => local,
            None => self.bind(id, kind, loopback.parse().unwrap()).unwrap(),
        }
    }

    fn bound_to(&self, kind: Kind, address: SocketAddr) -> Option<Id> {
        let is_it = |(k, a, _): &&(Kind, SocketAddr, Id)| *k == kind && a.port() == address.port();
        self.ports.iter().find(is_it).map(|(_, _, id)| *id)
    }

    fn readiness(&self, id: Id, kind: Kind) -> Readiness {
        let Some(end) = &self.ends[id] else { return Readiness::HANG_UP };
        let mut is = Readiness::NONE;
        if end.error.is_some() {
            is |= Readiness::ERROR | Readiness::READABLE | Readiness::WRITABLE;
        }
        if end.backlog.is_some() {
            return if end.queue.is_empty() && !end.no_reads {
                is
            } else {
                is | Readiness::READABLE
            };
        }
        let ended = end.ended || end.no_reads;
        if !end.stream.is_empty() || !end.datagrams.is_empty() || ended {
            is |= Readiness::READABLE;
        }
        if ended {
            is |= Readiness::END;
        }
        if kind == Kind::Datagram {
            return is | Readiness::WRITABLE;
        }
        match end.other.and_then(|other| self.ends[other].as_ref()) {
            Some(other) if other.stream.len() < ROOM || end.no_writes => is |= Readiness::WRITABLE,
            Some(_) => {}
            // Never connected, or the peer has closed.
            None if end.peer.is_none() => is |= Readiness::HANG_UP | Readiness::WRITABLE,
            None if end.ended => is |= Readiness::WRITABLE,
            None => {}
        }
        if ended && end.no_writes {
            is |= Readiness::HANG_UP;
        }
        is
    }
}

const NEWS: Readiness = Readiness::READABLE;

impl Socket for Handle {
    fn bind(&self, address: SocketAddr) -> io::Result<()> {
        lock(&self.world).bind(self.id, self.kind, address).map(|_| ())
    }

    fn listen(&self, backlog: usize) -> io::Result<()> {
        let mut world = lock(&self.world);
        let end = world.end(self.id);
        if end.peer.is_some() {
            return error(libc::EINVAL);
        }
        end.backlog = Some(backlog.min(QUEUE - 1));
        Ok(())
    }

    fn accept(&self) -> io::Result<(Arc<dyn Socket>, SocketAddr)> {
        let mut world = lock(&self.world);
        let end = world.end(self.id);
        if end.backlog.is_none() || end.no_reads {
            return error(libc::EINVAL);
        }
        let Some((_, mine)) = end.queue.pop_front() else { return error(libc::EAGAIN) };
        let peer = world.end(mine).peer.unwrap();
        while let Some(client) = world.end(self.id).asking.pop_front() {
            let asks = |end: &&End| end.asks && !end.is_closed;
            if let Some(end) = world.ends[client].as_ref().filter(asks) {
                let addresses = (end.local.unwrap(), end.peer.unwrap());
                world.establish(client, self.id, addresses);
                break;
            }
        }
        drop(world);
        let (world, kind) = (self.world.clone(), self.kind);
        let accepted = Handle { world, kind, id: mine };
        Ok((Arc::new(accepted), peer))
    }

    fn connect(&self, peer: SocketAddr) -> io::Result<()> {
        let mut world = lock(&self.world);
        if self.kind == Kind::Datagram {
            world.bind_if_not_bound(self.id, self.kind, peer);
            world.end(self.id).peer = Some(peer);
            return Ok(());
        }
        if world.end(self.id).peer.is_some() {
            return error(libc::EISCONN);
        }
        let local = world.bind_if_not_bound(self.id, self.kind, peer);
        let listener = world.bound_to(self.kind, peer);
        let is_open = |&id: &Id| world.ends[id].as_ref().is_some_and(|end| end.backlog.is_some());
        let Some(listener) = listener.filter(is_open) else {
            world.end(self.id).error = Some(libc::ECONNREFUSED);
            world.announce(self.id, Readiness::ERROR | Readiness::HANG_UP);
            return error(libc::EINPROGRESS);
        };
        let end = world.end(self.id);
        (end.peer, end.asks) = (Some(peer), true);
        let end = world.end(listener);
        if end.queue.len() > end.backlog.unwrap() {
            // Asked again when there is room.
            end.asking.push_back(self.id);
        } else {
            world.establish(self.id, listener, (local, peer));
        }
        error(libc::EINPROGRESS)
    }

    fn receive(&self, into: &mut [IoSliceMut<'_>], peek: bool) -> io::Result<Received> {
        let mut world = lock(&self.world);
        let end = world.end(self.id);
        let (is_over, other) = (end.ended || end.no_reads, end.other);
        let (mut from, mut whole) = (None, end.stream.len());
        if let Some(errno) = end.error.take() {
            return error(errno);
        }
        if self.kind == Kind::Datagram {
            match end.datagrams.front() {
                Some(&(sender, len)) => (from, whole) = (Some(sender), len),
                // Also if it was shut down, as the kernel: who would have waited is told the end by
                // the overlay.
                None => return error(libc::EAGAIN),
            }
        } else if end.stream.is_empty() {
            return match (is_over, end.peer) {
                (true, _) => Ok(Received { len: 0, whole: 0, from: None }),
                (_, None) => error(libc::ENOTCONN),
                _ => error(libc::EAGAIN),
            };
        }
        let was_full = whole >= ROOM;
        let mut len = 0;
        for buffer in into {
            let n = buffer.len().min(whole - len);
            for (to, from) in buffer[..n].iter_mut().zip(end.stream.range(len..len + n)) {
                *to = *from;
            }
            len += n;
        }
        if self.kind == Kind::Stream {
            whole = len;
        }
        if !peek {
            drop(end.stream.drain(..whole));
            end.datagrams.pop_front();
            if let Some(other) = other.filter(|_| was_full) {
                world.announce(other, Readiness::WRITABLE);
            }
        }
        Ok(Received { len, whole, from })
    }

    fn send(&self, from: &[IoSlice<'_>], to: Option<SocketAddr>) -> io::Result<usize> {
        let mut world = lock(&self.world);
        let wanted: usize = from.iter().map(|buffer| buffer.len()).sum();
        let end = world.end(self.id);
        if self.kind == Kind::Datagram {
            let Some(to) = to.or(end.peer) else { return error(libc::EDESTADDRREQ) };
            if wanted > 65_507 {
                return error(libc::EMSGSIZE);
            }
            if let Some(errno) = end.error.take() {
                return error(errno);
            }
            let me = world.bind_if_not_bound(self.id, self.kind, to);
            let target = world.bound_to(self.kind, to);
            let hears =
                |&id: &Id| world.ends[id].as_ref().is_some_and(|t| t.peer.is_none_or(|p| p == me));
            let Some(target) = target.filter(hears) else {
                let end = world.end(self.id);
                if end.peer.is_some() {
                    end.error = Some(libc::ECONNREFUSED);
                    world.announce(self.id, Readiness::ERROR);
                }
                return Ok(wanted);
            };
            let end = world.end(target);
            if end.stream.len() + wanted <= ROOM && end.datagrams.len() < DATAGRAMS {
                from.iter().for_each(|buffer| end.stream.extend(buffer.iter()));
                end.datagrams.push_back((me, wanted));
                world.announce(target, NEWS);
            }
            return Ok(wanted);
        }
        if let Some(errno) = end.error.take() {
            return error(errno);
        }
        if end.no_writes || end.was_refused {
            return error(libc::EPIPE);
        }
        let Some(other) = end.other else {
            return error(if end.ended || end.peer.is_none() { libc::EPIPE } else { libc::EAGAIN });
        };
        let end = world.end(other);
        let room = ROOM - end.stream.len();
        if room == 0 && wanted > 0 {
            return error(libc::EAGAIN);
        }
        let mut sent = 0;
        for buffer in from {
            let n = buffer.len().min(room - sent);
            end.stream.extend(&buffer[..n]);
            sent += n;
        }
        world.announce(other, NEWS);
        Ok(sent)
    }

    fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        let mut world = lock(&self.world);
        let end = world.end(self.id);
        let is_connected = end.peer.is_some() || end.backlog.is_some();
        end.no_reads |= how != Shutdown::Write;
        end.no_writes |= how != Shutdown::Read;
        let other = end.other.filter(|_| how != Shutdown::Read);
        world.announce(self.id, NEWS | Readiness::END | Readiness::WRITABLE);
        if let Some(other) = other {
            world.end(other).ended = true;
            world.announce(other, NEWS | Readiness::END);
        }
        if is_connected { Ok(()) } else { error(libc::ENOTCONN) }
    }

    fn readiness(&self) -> Readiness {
        let mut world = lock(&self.world);
        let is = world.readiness(self.id, self.kind);
        // Under way: nothing is ready.
        if world.end(self.id).asks { Readiness::NONE } else { is }
    }

    fn announce_to(&self, announcer: Announcer) {
        lock(&self.world).end(self.id).announcer = Some(announcer);
    }

    fn take_error(&self) -> Option<io::Error> {
        lock(&self.world).end(self.id).error.take().map(io::Error::from_raw_os_error)
    }

    fn pending(&self) -> usize {
        let mut world = lock(&self.world);
        let end = world.end(self.id);
        match self.kind {
            Kind::Stream => end.stream.len(),
            Kind::Datagram => end.datagrams.front().map_or(0, |(_, len)| *len),
        }
    }

    fn state(&self) -> Option<u8> {
        let mut world = lock(&self.world);
        let end = world.end(self.id);
        Some(match (end.backlog, end.peer) {
            (Some(_), _) => 10,
            _ if end.asks => 2,
            (None, Some(_)) if end.ended && end.error.is_none() => 8,
            (None, Some(_)) if end.other.is_some() => 1,
            _ => 7,
        })
    }

    fn set(&self, option: Opt) -> io::Result<()> {
        if let Opt::Linger(time) = option {
            lock(&self.world).end(self.id).resets = time.is_some_and(|time| time.is_zero());
        }
        Ok(())
    }

    fn local_addr(&self) -> SocketAddr {
        lock(&self.world).end(self.id).local.unwrap_or_else(|| "0.0.0.0:0".parse().unwrap())
    }

    fn peer_addr(&self) -> Option<SocketAddr> {
        let mut world = lock(&self.world);
        let end = world.end(self.id);
        end.peer.filter(|_| self.kind == Kind::Datagram || end.other.is_some() || end.ended)
    }

    fn close(&self) {
        let mut world = lock(&self.world);
        let resets = world.end(self.id).resets;
        world.end(self.id).is_closed = true;
        while let Some((client, mine)) = world.end(self.id).queue.pop_front() {
            world.hang_up(mine, client, true);
        }
        if let Some(other) = world.end(self.id).other {
            world.hang_up(self.id, other, resets);
        }
        world.forget(self.id);
    }
}

impl World {
    /// There is room in the listener's queue.
    fn establish(&mut self, client: Id, listener: Id, (local, peer): (SocketAddr, SocketAddr)) {
        let end = self.end(client);
        let other = end.spare.take().unwrap();
        (end.other, end.asks) = (Some(other), false);
        let end = self.end(other);
        (end.local, end.peer, end.other) = (Some(peer), Some(local), Some(client));
        self.end(listener).queue.push_back((client, other));
        self.announce(client, Readiness::WRITABLE);
        self.announce(listener, NEWS);
    }

    /// `id` goes, and its other end hears of it.
    fn hang_up(&mut self, id: Id, other: Id, resets: bool) {
        self.end(id).other = None;
        let Some(end) = self.ends[other].as_mut() else { return };
        (end.other, end.ended) = (None, true);
        if resets {
            end.stream.clear();
            (end.error, end.was_refused) = (Some(libc::ECONNRESET), true);
        }
        self.announce(other, NEWS | Readiness::END | Readiness::WRITABLE | Readiness::ERROR);
    }

    fn forget(&mut self, id: Id) {
        self.ports.retain(|(_, _, other)| *other != id);
        // Given back later: nothing is freed while preemption is disabled.
        if let Some(end) = &mut self.ends[id] {
            end.backlog = None;
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        let mut world = lock(&self.world);
        let mine = world.ends[self.id].take();
        // An other end that nobody has accepted, or that has never been one.
        let spare = mine.as_ref().and_then(|end| end.spare).and_then(|id| world.ends[id].take());
        drop(world);
        drop((mine, spare));
    }
}
