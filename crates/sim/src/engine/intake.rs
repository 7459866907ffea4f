//! Requests come, and wait in the sockets of ports for a thread where the number of threads is
//! limited.

use std::collections::VecDeque;

use quaver_load::Request;
use quaver_sched::{Attributes, Place, Task, Why};

use super::{ARRIVALS, DISPATCHER, Engine, MOST_TASKS};
use crate::calendar::NEVER;
use crate::job::Kind;
use crate::offer::Offer;
use crate::scenario::{Queues, Server};

/// What is still to come, and what has not reached a thread.
pub(super) struct Intake {
    requests: Option<Box<dyn Iterator<Item = Request>>>,
    next: Option<Request>,
    /// How many threads each port has; `None`: one for each request.
    threads: Option<u64>,
    ports: Vec<Port>,
}

/// The threads of one worker's port, of which there is a limited number.
#[derive(Clone, Debug, Default)]
struct Port {
    serving: u64,
    socket: VecDeque<u32>,
}

impl Intake {
    /// Of what is offered, if anything is.
    pub(super) fn new(offer: Option<Offer>, server: &Server) -> Self {
        let ports = if server.threads.is_some() { server.workers } else { 0 };
        Intake {
            requests: offer.map(|offer| Box::new(offer.iter()) as _),
            next: None,
            threads: server.threads,
            ports: vec![Port::default(); ports],
        }
    }

    /// Nothing more will come.
    pub(super) fn is_empty(&self) -> bool {
        self.next.is_none()
    }

    /// How many requests wait in sockets.
    pub(super) fn in_sockets(&self) -> usize {
        self.ports.iter().map(|port| port.socket.len()).sum()
    }
}

impl Engine<'_> {
    pub(super) fn fetch_request(&mut self) {
        self.intake.next = self.intake.requests.as_mut().and_then(Iterator::next);
        let time = match &self.intake.next {
            Some(request) => request.intended_ns,
            None => {
                self.close_books();
                NEVER
            }
        };
        self.calendar.set(ARRIVALS, time);
    }

    pub(super) fn arrive(&mut self) {
        let request = self.intake.next.take().expect("a request is due");
        let task = self.new_job(Kind::Request, request.class, request.service_ns);
        self.jobs[task].counted = self.books.arrives(request.service_ns);
        self.books.overrun = self.jobs.len() as u32 >= MOST_TASKS - 1;
        if self.rules.dispatcher {
            let done = self.core.occupy(self.now, self.rules.system.ingest);
            let next = self.core.ingest(done, task);
            self.calendar.set(DISPATCHER, next);
        } else {
            let count = self.workers.len() as u128;
            let port = ((u128::from(request.key_random) * count) >> 64) as usize;
            self.jobs[task].port = port as u32;
            match (self.intake.threads, self.intake.ports.get_mut(port)) {
                (Some(threads), Some(full)) if full.serving >= threads => {
                    full.socket.push_back(task);
                }
                (_, here) => {
                    if let Some(here) = here {
                        here.serving += 1;
                    }
                    self.policy.task_init(Task(task), &Attributes::default(), self.now);
                    let place = match self.rules.queues {
                        Queues::Single => Place::Shared,
                        Queues::Rss => Place::Local(port),
                    };
                    self.make_runnable(place, task, Why::New);
                }
            }
        }
        self.fetch_request();
    }

    /// A thread of this port has served a request on `worker`: it takes another from the socket, or
    /// waits.
    pub(super) fn thread_is_free(&mut self, port: u32, worker: usize) {
        let Some(here) = self.intake.ports.get_mut(port as usize) else { return };
        match here.socket.pop_front() {
            Some(task) => {
                self.policy.task_init(Task(task), &Attributes::default(), self.now);
                self.make_runnable(Place::Local(worker), task, Why::New);
            }
            None => here.serving -= 1,
        }
    }
}
