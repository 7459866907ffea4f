//! The client of all servers: one kernel thread, one epoll instance, system calls without the C
//! library. What it costs is the same for all.

use std::collections::VecDeque;
use std::net::{SocketAddr, TcpStream};
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use hdrhistogram::Histogram;
use quaver_bench_common::clock::monotonic_ns;
use quaver_bench_common::net::ROOM;
use quaver_load::Recorder;
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::fd::OwnedFd;
use rustix::io::Errno;

use super::dialogue::Dialogue;

/// How long to wait for the last answers: longer than any server computes.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// Connections to one server.
pub struct Client {
    epoll: OwnedFd,
    events: Vec<epoll::Event>,
    connections: Vec<Connection>,
    classes: Vec<Class>,
    next_id: u64,
    /// Closed loops go on.
    looping: bool,
    /// Of requests that are not part of a closed loop.
    recorder: Option<Rc<Recorder>>,
}

/// Connections that ask for the same.
pub struct Class {
    dialogue: Dialogue,
    /// Whoever has got an answer asks again.
    closed: bool,
    /// Answers to closed loops.
    pub answers: u64,
    /// How long these took, in ns.
    pub latency: Histogram<u64>,
}

struct Connection {
    stream: TcpStream,
    class: usize,
    inbox: Box<[u8; ROOM]>,
    filled: usize,
    /// Requests without an answer, and when they were sent.
    sent: VecDeque<(u64, u64)>,
}

/// How to wait for answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wait {
    /// In the kernel.
    Sleep,
    /// By asking again and again.
    Spin,
}

impl Client {
    /// Without connections.
    ///
    /// # Errors
    ///
    /// The kernel's.
    pub fn new() -> anyhow::Result<Client> {
        Ok(Client {
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC).context("cannot make an epoll")?,
            events: Vec::with_capacity(256),
            connections: Vec::new(),
            classes: Vec::new(),
            next_id: 0,
            looping: false,
            recorder: None,
        })
    }

    /// Connects `count` times, and gets an answer on each connection, so that the server has
    /// accepted it. Returns the number of the class of these connections.
    ///
    /// # Errors
    ///
    /// The server refuses, or does not answer.
    pub fn connect(
        &mut self,
        server: SocketAddr,
        count: usize,
        dialogue: Dialogue,
        closed: bool,
    ) -> anyhow::Result<usize> {
        let class = self.classes.len();
        self.classes.push(Class { dialogue, closed, answers: 0, latency: histogram() });
        for n in 0..count {
            let stream = TcpStream::connect(server)
                .with_context(|| format!("cannot connect to {server} for the {n}th time"))?;
            stream.set_nodelay(true)?;
            stream.set_nonblocking(true)?;
            let number = self.connections.len();
            let data = epoll::EventData::new_u64(number as u64);
            epoll::add(&self.epoll, &stream, data, epoll::EventFlags::IN)?;
            self.connections.push(Connection {
                stream,
                class,
                inbox: Box::new([0; ROOM]),
                filled: 0,
                sent: VecDeque::new(),
            });
            self.ask(number)?;
            self.settle()?;
        }
        Ok(class)
    }

    /// A class and its answers.
    pub fn class(&self, number: usize) -> &Class {
        &self.classes[number]
    }

    /// Where answers to [`send`](Self::send) are recorded from now on.
    pub fn record_in(&mut self, recorder: Rc<Recorder>) {
        self.recorder = Some(recorder);
    }

    /// Forgets answers.
    pub fn forget(&mut self) {
        for class in &mut self.classes {
            class.answers = 0;
            class.latency.reset();
        }
    }

    /// Starts the closed loops.
    ///
    /// # Errors
    ///
    /// The server does not read.
    pub fn start_loops(&mut self) -> anyhow::Result<()> {
        self.looping = true;
        (0..self.connections.len())
            .filter(|&n| self.classes[self.connections[n].class].closed)
            .collect::<Vec<_>>()
            .into_iter()
            .try_for_each(|n| self.ask(n))
    }

    /// Ends the closed loops, and waits for the last answers.
    ///
    /// # Errors
    ///
    /// They do not come.
    pub fn stop_loops(&mut self) -> anyhow::Result<()> {
        self.looping = false;
        self.settle()
    }

    /// Deals with answers until `end_ns` of the monotonic clock.
    ///
    /// # Errors
    ///
    /// An answer is wrong, or a connection broken.
    pub fn go_on_until(&mut self, end_ns: u64, wait: Wait) -> anyhow::Result<()> {
        loop {
            let now = monotonic_ns();
            if now >= end_ns {
                return Ok(());
            }
            let left = if wait == Wait::Spin { 0 } else { end_ns - now };
            self.step(Duration::from_nanos(left))?;
        }
    }

    /// Sends request `id`, which the recorder knows, by the `nth` connection of a class, whether or
    /// not earlier ones have been answered.
    ///
    /// # Errors
    ///
    /// The server does not read.
    pub fn send(&mut self, class: usize, nth: usize, id: u64) -> anyhow::Result<()> {
        let mut all = (0..self.connections.len()).filter(|&n| self.connections[n].class == class);
        let number = all.nth(nth).expect("there are so many connections");
        self.send_by(number, id)
    }

    /// Sends the next request of this connection's class.
    fn ask(&mut self, number: usize) -> anyhow::Result<()> {
        self.next_id += 1;
        self.send_by(number, self.next_id)
    }

    fn send_by(&mut self, number: usize, id: u64) -> anyhow::Result<()> {
        let connection = &mut self.connections[number];
        let dialogue = self.classes[connection.class].dialogue;
        connection.sent.push_back((id, monotonic_ns()));
        let written = dialogue.request(id, |bytes| {
            rustix::io::write(&connection.stream, bytes).map(|n| n == bytes.len())
        });
        match written {
            Ok(true) => Ok(()),
            Ok(false) | Err(Errno::AGAIN) => bail!("the server does not read what it is sent"),
            Err(error) => Err(error).context("cannot send a request"),
        }
    }

    /// Waits until nothing is left to be answered.
    fn settle(&mut self) -> anyhow::Result<()> {
        let end = monotonic_ns() + PATIENCE.as_nanos() as u64;
        loop {
            let waiting: usize = self.connections.iter().map(|one| one.sent.len()).sum();
            if waiting == 0 {
                return Ok(());
            }
            let now = monotonic_ns();
            ensure!(now < end, "{waiting} requests have got no answer for {PATIENCE:?}");
            self.step(Duration::from_nanos(end - now))?;
        }
    }

    /// Waits once, and deals with what has come.
    fn step(&mut self, timeout: Duration) -> anyhow::Result<()> {
        let timeout = Timespec::try_from(timeout)?;
        self.events.clear();
        match epoll::wait(&self.epoll, spare_capacity(&mut self.events), Some(&timeout)) {
            Ok(_) => {}
            Err(Errno::INTR) => return Ok(()),
            Err(error) => return Err(error).context("cannot wait for answers"),
        }
        for i in 0..self.events.len() {
            let number = self.events[i].data.u64() as usize;
            self.receive(number)?;
        }
        Ok(())
    }

    fn receive(&mut self, number: usize) -> anyhow::Result<()> {
        let connection = &mut self.connections[number];
        match rustix::io::read(&connection.stream, &mut connection.inbox[connection.filled..]) {
            Ok(0) => bail!("the server has closed a connection"),
            Ok(n) => connection.filled += n,
            Err(Errno::AGAIN | Errno::INTR) => return Ok(()),
            Err(error) => return Err(error).context("cannot receive answers"),
        }
        loop {
            let connection = &mut self.connections[number];
            if connection.filled == 0 {
                return Ok(());
            }
            let Some(&(id, sent_at)) = connection.sent.front() else {
                bail!("the server has answered what nobody asked");
            };
            let class = &mut self.classes[connection.class];
            let arrived = &connection.inbox[..connection.filled];
            let Some(length) = class.dialogue.answer(id, arrived)? else {
                ensure!(connection.filled < ROOM, "an answer has more than {ROOM} bytes");
                return Ok(());
            };
            connection.inbox.copy_within(length..connection.filled, 0);
            connection.filled -= length;
            connection.sent.pop_front();
            let now = monotonic_ns();
            if class.closed {
                class.answers += 1;
                class.latency.saturating_record(now - sent_at);
                if self.looping {
                    self.ask(number)?;
                }
            } else if let Some(recorder) = &self.recorder {
                recorder.complete(id, now);
            }
        }
    }
}

/// Of nanoseconds, up to a minute.
fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 60_000_000_000, 3).expect("the bounds are in order")
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::thread;

    use quaver_bench_common::net::{ADDRESS, Kind, MESSAGE, converse};
    use quaver_load::Request;

    use super::*;

    const GET: Dialogue = Dialogue::Message(Kind::Get);

    /// A server that serves each connection by `serve`, until the test ends.
    fn server(serve: impl Fn(TcpStream) + Clone + Send + 'static) -> SocketAddr {
        let listener = TcpListener::bind(ADDRESS).unwrap();
        let address = listener.local_addr().unwrap();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let serve = serve.clone();
                thread::spawn(move || serve(stream.unwrap()));
            }
        });
        address
    }

    fn echo() -> SocketAddr {
        server(|mut stream| drop(converse(&mut stream, 1)))
    }

    #[test]
    fn closed_loops_ask_until_they_are_stopped() {
        let mut client = Client::new().unwrap();
        let class = client.connect(echo(), 5, GET, true).unwrap();
        // One for each connection.
        assert_eq!(client.class(class).answers, 5);
        client.forget();
        client.start_loops().unwrap();
        while client.class(class).answers < 100 {
            client.go_on_until(monotonic_ns() + 1_000_000, Wait::Sleep).unwrap();
        }
        client.stop_loops().unwrap();
        let class = client.class(class);
        assert_eq!(class.answers, class.latency.len());
        assert!(class.latency.min() > 0);
    }

    #[test]
    fn requests_of_an_open_loop_are_recorded() {
        let mut client = Client::new().unwrap();
        let closed = client.connect(echo(), 2, GET, true).unwrap();
        let open = client.connect(echo(), 3, GET, false).unwrap();
        let recorder = Rc::new(Recorder::new(["get"], 100).unwrap());
        client.record_in(Rc::clone(&recorder));
        for id in 0..100 {
            let request = Request {
                id,
                intended_ns: monotonic_ns(),
                class: 0,
                service_ns: 0,
                key_random: 0,
                warm_up: false,
            };
            assert!(recorder.sent(&request));
            client.send(open, id as usize % 3, id).unwrap();
        }
        client.stop_loops().unwrap();
        assert_eq!(recorder.outstanding(), 0);
        assert_eq!((client.class(closed).answers, client.class(open).answers), (2, 0));
    }

    #[test]
    fn answers_in_parts_are_put_together() {
        let address = server(|mut stream| {
            let mut message = [0; MESSAGE];
            while stream.read_exact(&mut message).is_ok() {
                for part in message.chunks(MESSAGE / 2) {
                    stream.write_all(part).unwrap();
                }
            }
        });
        let mut client = Client::new().unwrap();
        let class = client.connect(address, 2, GET, true).unwrap();
        assert_eq!(client.class(class).answers, 2);
    }

    fn error(serve: impl Fn(TcpStream) + Clone + Send + 'static) -> String {
        let connected = Client::new().unwrap().connect(server(serve), 1, GET, true);
        format!("{:#}", connected.unwrap_err())
    }

    #[test]
    fn bad_servers_are_errors() {
        let closes = |mut stream: TcpStream| {
            stream.read_exact(&mut [0; MESSAGE]).unwrap();
        };
        assert!(error(closes).contains("closed a connection"));
        let lies = |mut stream: TcpStream| {
            stream.read_exact(&mut [0; MESSAGE]).unwrap();
            stream.write_all(&[0; MESSAGE]).unwrap();
        };
        assert!(error(lies).contains("came back changed"));
        let talks = |mut stream: TcpStream| {
            let mut message = [0; MESSAGE];
            stream.read_exact(&mut message).unwrap();
            stream.write_all(&[message, message].concat()).unwrap();
        };
        assert!(error(talks).contains("what nobody asked"));
    }
}
