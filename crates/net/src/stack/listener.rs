//! Sockets that listen.

use super::connection::{Id, Options};
use crate::lock::Lock;
use quaver::net::stack::{Announcer, Readiness};
use std::collections::VecDeque;
use std::net::SocketAddrV4;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// As the kernel's `somaxconn`.
const MOST: usize = 4096;

/// A socket that listens, on all shards.
pub(crate) struct Listener {
    pub(crate) local: SocketAddrV4,
    /// What its connections inherit.
    options: Lock<Options>,
    backlog: AtomicUsize,
    queue: Lock<Queue>,
}

#[derive(Default)]
struct Queue {
    /// Connections to accept.
    ready: VecDeque<Arrived>,
    announcer: Option<Announcer>,
    closed: bool,
}

/// A connection to accept.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrived {
    pub(crate) shard: usize,
    pub(crate) id: Id,
}

impl Listener {
    pub(crate) fn new(local: SocketAddrV4, backlog: usize, options: Options) -> Listener {
        let backlog = AtomicUsize::new(backlog.min(MOST));
        Listener { local, options: Lock::new(options), backlog, queue: Lock::default() }
    }

    pub(crate) fn options(&self) -> Options {
        *self.options.lock()
    }

    pub(crate) fn set_options(&self, options: Options) {
        *self.options.lock() = options;
    }

    pub(crate) fn set_backlog(&self, backlog: usize) {
        self.backlog.store(backlog.min(MOST), Relaxed);
    }

    /// Connections on each shard that may be half open.
    pub(crate) fn most_half_open(&self) -> usize {
        self.backlog.load(Relaxed).max(1)
    }

    /// Is there no room for another to accept?
    pub(crate) fn is_full(&self) -> bool {
        self.queue.lock().ready.len() > self.backlog.load(Relaxed)
    }

    /// A handshake is complete. `false`: nobody listens any more.
    pub(crate) fn arrived(&self, shard: usize, id: Id) -> bool {
        let mut queue = self.queue.lock();
        if queue.closed {
            return false;
        }
        queue.ready.push_back(Arrived { shard, id });
        if let Some(announcer) = &queue.announcer {
            announcer(Readiness::READABLE);
        }
        true
    }

    pub(crate) fn pop(&self) -> Option<Arrived> {
        self.queue.lock().ready.pop_front()
    }

    pub(crate) fn readiness(&self) -> Readiness {
        match self.queue.lock().ready.is_empty() {
            true => Readiness::NONE,
            false => Readiness::READABLE,
        }
    }

    pub(crate) fn announce_to(&self, announcer: Option<Announcer>) {
        self.queue.lock().announcer = announcer;
    }

    /// The shard has failed: whoever waits should look.
    pub(crate) fn fail(&self) {
        if let Some(announcer) = &self.queue.lock().announcer {
            announcer(Readiness::READABLE | Readiness::ERROR | Readiness::HANG_UP);
        }
    }

    /// Nobody listens any more. Returns those that nobody has accepted.
    pub(crate) fn close(&self) -> VecDeque<Arrived> {
        let mut queue = self.queue.lock();
        queue.closed = true;
        queue.announcer = None;
        std::mem::take(&mut queue.ready)
    }
}
