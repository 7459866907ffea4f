//! A stack whose only host is this process: what a `Stack` must do, without a network.
//!
//! One lock for all, announcements under it, as in a stack that is made of shards. What is needed
//! later is allocated when a socket is made: calls come with preemption disabled.

mod handle;

use handle::Handle;
use quaver::NoPreempt;
use quaver::net::stack::{Announcer, Kind, Readiness, Socket, Stack};
use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What a stream or a datagram socket has room for.
const ROOM: usize = 1 << 16;
const DATAGRAMS: usize = 128;
const QUEUE: usize = 512;
const SOCKETS: usize = 8192;

const NEWS: Readiness = Readiness::READABLE;

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
