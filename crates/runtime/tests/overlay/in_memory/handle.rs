//! What is done with a socket.

use super::{DATAGRAMS, End, Id, NEWS, QUEUE, ROOM, World, error, lock};
use quaver::net::stack::{Announcer, Kind, Opt, Readiness, Received, Socket};
use std::io::{self, IoSlice, IoSliceMut};
use std::net::{Shutdown, SocketAddr};
use std::sync::{Arc, Mutex};

/// A socket.
pub(super) struct Handle {
    pub(super) world: Arc<Mutex<World>>,
    pub(super) kind: Kind,
    pub(super) id: Id,
}

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
