//! A pool of connections, and the loop over it.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use rustix::event::epoll::{self, EventFlags};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::{Deserialize, Serialize};

use super::connection::{Connection, Received};
use super::protocol::{About, Protocol, Reply, Transport};
use super::{Operation, below, value};
use crate::clock::{Clock, RealClock};
use crate::open_loop::{OpenLoop, Sent};
use crate::recorder::Recorder;
use crate::schedule::{Request, Schedule};
use crate::summary::Summary;

/// What is sent, and where.
#[derive(Clone, Debug)]
pub struct Options {
    /// The protocol.
    pub protocol: Protocol,
    /// The server.
    pub to: SocketAddr,
    /// Connections; over UDP sockets, each with a port of its own.
    pub connections: usize,
    /// Requests on one connection at a time; over UDP any number.
    pub depth: usize,
    /// Keys, of which each request names one.
    pub keys: u64,
    /// Bytes of the values that are written.
    pub value_bytes: usize,
    /// Rows that a `range` reads.
    pub rows: u64,
}

/// Why there is no pool.
#[derive(Debug, thiserror::Error)]
pub enum PoolError {
    /// The server does not accept.
    #[error("cannot connect to {to}, connection {number}")]
    Connect {
        /// The server.
        to: SocketAddr,
        /// Which connection, from 1.
        number: usize,
        /// What the system says.
        source: io::Error,
    },
    /// The protocol has no such request.
    #[error("{protocol} has no request for class {class}: choose others, or another protocol")]
    Operation {
        /// The protocol.
        protocol: &'static str,
        /// The class.
        class: String,
    },
    /// A limit of the system.
    #[error("cannot wait for connections")]
    System(#[from] io::Error),
}

/// Requests of a class that got no good reply.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClassErrors {
    /// The class.
    pub name: String,
    /// The server answered with an error, or found nothing.
    pub refused: u64,
    /// The connection broke before the reply.
    pub lost: u64,
}

/// What became of a schedule.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Offered {
    /// Latencies and counts.
    pub summary: Summary,
    /// Errors of each class.
    pub errors: Vec<ClassErrors>,
    /// Connections that broke.
    pub broken_connections: u64,
}

/// Connections to a server.
pub struct Pool {
    options: Options,
    epoll: OwnedFd,
    /// `None` where one has broken.
    connections: Vec<Option<Connection>>,
    /// Those with room, longest unused first.
    free: VecDeque<usize>,
    broken: u64,
}

/// Sends without a wait after which it is looked for replies.
const SENDS: u32 = 4;
/// Events taken at once.
const EVENTS: usize = 64;

impl Pool {
    /// Opens all connections.
    ///
    /// # Errors
    ///
    /// The server does not accept one of them.
    pub fn connect(options: Options) -> Result<Pool, PoolError> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(io::Error::from)?;
        let mut connections = Vec::with_capacity(options.connections);
        for index in 0..options.connections {
            let to = options.to;
            let open = Connection::open(options.protocol, to)
                .map_err(|source| PoolError::Connect { to, number: index + 1, source })?;
            let events = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
            epoll::add(&epoll, &open, epoll::EventData::new_u64(index as u64), events)
                .map_err(io::Error::from)?;
            connections.push(Some(open));
        }
        let free = (0..connections.len()).collect();
        Ok(Pool { options, epoll, connections, free, broken: 0 })
    }

    /// Sends the requests of a schedule at their times, and receives the replies. `limits` are
    /// those of the loop, which runs on the calling kernel thread.
    ///
    /// # Errors
    ///
    /// The protocol has no request for a class.
    pub fn offer<'a>(
        &mut self,
        schedule: &Schedule,
        operations: &[Operation],
        recorder: &'a Recorder,
        clock: RealClock,
        limits: impl FnOnce(OpenLoop<'a>) -> OpenLoop<'a>,
    ) -> Result<Offered, PoolError> {
        let protocol = self.options.protocol;
        protocol.check(schedule.classes(), operations)?;
        let errors = schedule
            .classes()
            .iter()
            .map(|name| ClassErrors { name: name.clone(), ..ClassErrors::default() });
        let run = RefCell::new(Run {
            value: value(0, self.options.value_bytes),
            pool: self,
            operations,
            recorder,
            clock,
            waiting: VecDeque::new(),
            errors: errors.collect(),
            sends: 0,
        });
        let network = Network { run: &run, clock };
        let outcome = limits(OpenLoop::new(recorder))
            .run(schedule, &network, |request| run.borrow_mut().take(request));
        let summary = outcome.summary(recorder);
        let run = run.into_inner();
        Ok(Offered { summary, errors: run.errors, broken_connections: run.pool.broken })
    }
}

/// The clock of the loop: while it waits, it receives.
struct Network<'r, 'a> {
    run: &'r RefCell<Run<'a>>,
    clock: RealClock,
}

impl Clock for Network<'_, '_> {
    fn now_ns(&self) -> u64 {
        self.clock.now_ns()
    }

    fn wait_until(&self, time_ns: u64) {
        loop {
            let now = self.clock.now_ns();
            if now >= time_ns {
                return;
            }
            let sleep = (time_ns - now).saturating_sub(self.clock.spin_ns());
            self.run.borrow_mut().receive(sleep);
        }
    }
}

/// A schedule under way.
struct Run<'a> {
    pool: &'a mut Pool,
    operations: &'a [Operation],
    recorder: &'a Recorder,
    clock: RealClock,
    /// Requests for which no connection has had room.
    waiting: VecDeque<Request>,
    errors: Vec<ClassErrors>,
    value: Vec<u8>,
    /// Since the last look for replies.
    sends: u32,
}

impl Run<'_> {
    /// Sends a request that is due, or lets it wait for a connection.
    fn take(&mut self, request: &Request) -> Sent {
        self.sends += 1;
        if self.sends >= SENDS {
            self.receive(0);
        }
        if self.pool.connections.iter().all(Option::is_none) {
            self.errors[request.class as usize].lost += 1;
            return Sent::Refused;
        }
        self.waiting.push_back(*request);
        self.send_waiting();
        Sent::Accepted
    }

    /// Sends what waits as long as there is room.
    fn send_waiting(&mut self) {
        while let Some(request) = self.waiting.front().copied() {
            let Some(&index) = self.pool.free.front() else { return };
            let Some(connection) = self.pool.connections[index].as_mut() else {
                self.pool.free.pop_front();
                continue;
            };
            self.waiting.pop_front();
            self.pool.free.pop_front();
            let Options { protocol, depth, keys, rows, .. } = self.pool.options;
            let operation = self.operations[request.class as usize];
            let key = below(request.key_random, keys);
            let about = About { id: request.id, key, value: &self.value, rows };
            let sent = connection.send(request.id, request.class, |out| {
                protocol.request(operation, about, out);
            });
            let is_udp = protocol.transport() == Transport::Udp;
            match sent {
                Ok(()) => {
                    if is_udp || connection.depth() < depth {
                        self.pool.free.push_back(index);
                    }
                }
                // A datagram that the system does not take is lost as one that the network loses.
                Err(_) if is_udp => self.pool.free.push_back(index),
                Err(_) => self.give_up(index),
            }
        }
    }

    /// Waits for replies, `sleep_ns` at most, and takes all that have arrived.
    fn receive(&mut self, sleep_ns: u64) {
        self.sends = 0;
        if sleep_ns > 0 {
            let timeout = Timespec {
                tv_sec: (sleep_ns / 1_000_000_000) as i64,
                tv_nsec: (sleep_ns % 1_000_000_000) as i64,
            };
            // By `poll`, because `epoll_wait` is told milliseconds.
            let mut ready = [PollFd::new(&self.pool.epoll, PollFlags::IN)];
            if !matches!(poll(&mut ready, Some(&timeout)), Ok(1..)) {
                return;
            }
        }
        let mut events = Vec::with_capacity(EVENTS);
        let none = Timespec { tv_sec: 0, tv_nsec: 0 };
        let space = rustix::buffer::spare_capacity(&mut events);
        if epoll::wait(&self.pool.epoll, space, Some(&none)).is_err() {
            return;
        }
        for event in events {
            let flags = event.flags;
            let ended = flags.intersects(EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR);
            self.handle(event.data.u64() as usize, ended);
        }
        self.send_waiting();
    }

    fn handle(&mut self, index: usize, ended: bool) {
        let Some(connection) = self.pool.connections[index].as_mut() else { return };
        let depth = self.pool.options.depth;
        let was_full = connection.depth() >= depth;
        let (recorder, clock) = (self.recorder, &self.clock);
        let (operations, errors) = (self.operations, &mut self.errors);
        let mut outcome = connection.flush();
        if outcome.is_ok() {
            outcome = connection.receive(ended, |received| {
                let (id, class, reply) = match received {
                    Received::InOrder(id, class, reply) => (id, class, reply),
                    Received::Datagram(message, reply) => {
                        (message.id.into(), class_of(operations, message.kind), reply)
                    }
                };
                match reply {
                    // One that comes twice is counted by the recorder.
                    Reply::Done => drop(recorder.complete(id, clock.now_ns())),
                    Reply::Refused => {
                        if recorder.refused(id) {
                            errors[class as usize].refused += 1;
                        }
                    }
                }
            });
        }
        let is_tcp = self.pool.options.protocol.transport() == Transport::Tcp;
        if outcome.is_err() {
            self.give_up(index);
        } else if is_tcp && was_full && connection.depth() < depth {
            self.pool.free.push_back(index);
        }
    }

    /// Closes a connection that is of no use any more.
    fn give_up(&mut self, index: usize) {
        let Some(mut connection) = self.pool.connections[index].take() else { return };
        self.pool.broken += 1;
        for (id, class) in connection.lost() {
            if self.recorder.refused(id) {
                self.errors[class as usize].lost += 1;
            }
        }
        if self.pool.connections.iter().all(Option::is_none) {
            for request in self.waiting.drain(..) {
                if self.recorder.refused(request.id) {
                    self.errors[request.class as usize].lost += 1;
                }
            }
        }
    }
}

/// The first class whose requests are of this kind.
fn class_of(operations: &[Operation], kind: u32) -> u32 {
    let kind = kind & !super::aspen::REFUSED;
    let is = |operation: &Operation| match *operation {
        Operation::Get | Operation::Incr => kind == super::aspen::GET,
        Operation::Range => kind == super::aspen::SCAN,
        Operation::Set => kind == super::aspen::SET,
        Operation::Kernel(kernel) => kind == kernel,
    };
    operations.iter().position(is).unwrap_or_default() as u32
}
