//! A socket of a stack that serves descriptors, and who hears of its news.

use super::epoll::Member;
use super::options::Heirlooms;
use super::table::{self, DescriptorEntry, Descriptors};
use crate::net::stack::{Announcer, Kind, Readiness, Socket};
use crate::park::SpinLock;
use crate::reactor;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering::*};
use std::net::{Shutdown, SocketAddr};
use std::sync::Arc;

/// A result of the kernel's.
pub(super) fn failed(error: i32) -> isize {
    -(error as isize)
}

pub(super) fn errno_of(error: &std::io::Error) -> isize {
    failed(error.raw_os_error().unwrap_or(libc::EIO))
}

/// What a call on a socket comes to.
pub(super) fn result(result: std::io::Result<usize>) -> isize {
    result.map_or_else(|e| errno_of(&e), |n| n as isize)
}

/// Who is told of what a socket announces.
pub(super) struct News {
    heard: SpinLock<Heard>,
}

struct Heard {
    descriptors: Descriptors,
    members: Vec<Arc<Member>>,
}

impl News {
    /// Wakes those who wait for one of the descriptors, or for an epoll instance. Made with the
    /// stack's locks held.
    fn announce(&self, bits: u32) {
        let heard = self.heard.lock();
        for fd in heard.descriptors.iter() {
            reactor::announce(fd, bits);
        }
        for member in &heard.members {
            member.announce(bits);
        }
    }

    /// Of all the memberships, those that `which` says.
    pub(super) fn find(&self, which: impl Fn(&Member) -> bool) -> Option<Arc<Member>> {
        self.heard.lock().members.iter().find(|member| which(member)).cloned()
    }

    /// Adds a membership, unless there is one as `like` says.
    pub(super) fn add(&self, new: &Arc<Member>, like: impl Fn(&Member) -> bool) -> bool {
        let mut room: Vec<Arc<Member>> = Vec::new();
        loop {
            let mut heard = self.heard.lock();
            if heard.members.iter().any(|member| like(member)) {
                return false;
            }
            let len = heard.members.len();
            if heard.members.capacity() > len {
                heard.members.push(new.clone());
                return true;
            }
            if room.capacity() > len {
                room.append(&mut heard.members);
                core::mem::swap(&mut room, &mut heard.members);
                continue;
            }
            // Not under the lock.
            drop(heard);
            room.reserve(2 * len + 2);
        }
    }

    /// Takes a membership out.
    pub(super) fn remove(&self, member: &Arc<Member>) -> Option<Arc<Member>> {
        let mut heard = self.heard.lock();
        let at = heard.members.iter().position(|m| Arc::ptr_eq(m, member))?;
        Some(heard.members.swap_remove(at))
    }
}

/// A socket, and what the overlay remembers of it.
pub(super) struct Served {
    socket: Arc<dyn Socket>,
    pub(super) kind: Kind,
    /// The placeholder is one of IPv6, so addresses are such.
    pub(super) is_v6: bool,
    pub(super) news: Arc<News>,
    /// Descriptors, and one while it is being set up.
    descriptors: AtomicU32,
    pub(super) listens: AtomicBool,
    /// A connection is under way of which nobody has heard the outcome.
    pub(super) connects: AtomicBool,
    /// What accepted sockets get from this one.
    pub(super) heirlooms: Heirlooms,
    /// It listens no more: `accept` says so, and does not wait.
    has_listened: AtomicBool,
    /// The stack has gone.
    dead: AtomicBool,
    closed: AtomicBool,
}

impl Served {
    /// `is_v6`: the family of the descriptor that it will serve.
    pub(super) fn new(socket: Arc<dyn Socket>, kind: Kind, is_v6: bool) -> Arc<Served> {
        let heard = Heard { descriptors: Descriptors::new(), members: Vec::new() };
        Arc::new(Served {
            socket,
            kind,
            is_v6,
            news: Arc::new(News { heard: SpinLock::new(heard) }),
            descriptors: AtomicU32::new(0),
            listens: AtomicBool::new(false),
            connects: AtomicBool::new(false),
            heirlooms: Heirlooms::default(),
            has_listened: AtomicBool::new(false),
            dead: AtomicBool::new(false),
            closed: AtomicBool::new(false),
        })
    }

    /// Calls the socket. The error is what the call comes to.
    pub(super) fn with<R>(&self, f: impl FnOnce(&dyn Socket) -> R) -> Result<R, isize> {
        if self.dead.load(Acquire) {
            return Err(failed(libc::ENETDOWN));
        }
        Ok(f(&*self.socket))
    }

    /// [`with`](Self::with), for what says what it comes to.
    pub(super) fn call(&self, f: impl FnOnce(&dyn Socket) -> std::io::Result<usize>) -> isize {
        self.with(f).map_or_else(|e| e, result)
    }

    /// Events of `poll` that there are.
    pub(super) fn readiness(&self) -> u32 {
        let ready = self.with(|socket| socket.readiness()).map_or(Self::DEAD, Readiness::bits);
        if self.has_listened.load(Acquire) { ready | Self::ENDED } else { ready }
    }

    /// Is an error pending? A call that has done a part leaves it to the next one.
    pub(super) fn has_error(&self) -> bool {
        self.readiness() & Readiness::ERROR.bits() != 0
    }

    const ENDED: u32 = (libc::POLLIN | libc::POLLHUP | libc::POLLRDHUP) as u32;

    /// Nothing waits for a stack that has ended.
    const DEAD: u32 =
        (libc::POLLIN | libc::POLLOUT | libc::POLLERR | libc::POLLHUP | libc::POLLRDHUP) as u32;

    /// `shutdown`.
    pub(super) fn shut_down(&self, how: Shutdown) -> isize {
        let done = self.call(|socket| socket.shutdown(how).map(|()| 0));
        if how != Shutdown::Write && self.listens.swap(false, SeqCst) {
            self.has_listened.store(true, SeqCst);
        }
        // Those who wait look again: a stack may take that for no news, and even a call that fails
        // may have done something.
        self.news.announce(Self::DEAD);
        done
    }

    /// How many bytes can be received (`FIONREAD`).
    pub(super) fn pending(&self) -> Result<i32, isize> {
        if self.listens.load(Relaxed) {
            return Err(failed(libc::EINVAL));
        }
        self.with(|socket| socket.pending().min(i32::MAX as usize) as i32)
    }

    pub(super) fn local_addr(&self) -> Result<SocketAddr, isize> {
        self.with(|socket| socket.local_addr())
    }

    /// Another descriptor is served by this from now on. `false`: there is no room for such
    /// numbers.
    pub(super) fn serve(self: &Arc<Self>, fd: i32) -> bool {
        let serves = self.serve_silently(fd);
        if serves {
            // The end, say, was announced to the others before.
            reactor::announce(fd, self.readiness());
        }
        serves
    }

    fn serve_silently(self: &Arc<Self>, fd: i32) -> bool {
        if !table::make_room(fd) || !reactor::serve(fd) {
            return false;
        }
        self.descriptors.fetch_add(1, SeqCst);
        self.news.heard.lock().descriptors.add(fd);
        let before = table::replace(fd, DescriptorEntry::Socket(self.clone()));
        super::epoll::taken_over(fd, before, self);
        true
    }

    /// [`serve`](Self::serve) for the first descriptor, from which on news are heard.
    pub(super) fn begin(self: &Arc<Self>, fd: i32) -> bool {
        if !self.serve_silently(fd) {
            return false;
        }
        let news = self.news.clone();
        let announcer: Announcer = Arc::new(move |bits: Readiness| news.announce(bits.bits()));
        let _ = self.with(|socket| socket.announce_to(announcer));
        // What has come before is announced by nobody else.
        self.news.announce(self.readiness());
        true
    }

    /// The descriptor, which has just been taken out of the table, goes.
    pub(super) fn leave(&self, fd: i32) {
        self.news.heard.lock().descriptors.remove(fd);
        reactor::unserve(fd);
        if self.descriptors.fetch_sub(1, SeqCst) == 1 {
            self.close();
        }
    }

    fn close(&self) {
        let members = core::mem::take(&mut self.news.heard.lock().members);
        members.iter().for_each(|member| member.remove());
        drop(members);
        if !self.closed.swap(true, SeqCst) {
            self.socket.close();
        }
    }

    /// The stack goes: no call reaches the socket any more.
    pub(super) fn begin_to_end(&self) {
        self.dead.store(true, SeqCst);
    }

    /// The stack has gone.
    pub(super) fn end(&self) {
        if !self.closed.swap(true, SeqCst) {
            self.socket.close();
        }
        self.news.announce(Self::DEAD);
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        if !*self.closed.get_mut() {
            self.socket.close();
        }
    }
}
