//! Becoming a member, and hearing of the others.

use crate::SOCKET;
use crate::class::{self, Class, USUAL};
use crate::common::Files;
use crate::door::Doors;
use crate::files::{complain, have_own, out_of_the_way};
use crate::layout::{MAGIC, MOST_APPS, Page, Table, VERSION};
use crate::map::Mapping;
use crate::threads::put_all;
use crate::wire::{self, Message, Subject};
use quaver_sched::Service;
use quaver_sched::share::Membership;
use rustix::io::{Errno, retry_on_intr};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, Shutdown, SocketAddrUnix, SocketFlags, SocketType, connect, shutdown,
    socket_with,
};
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use std::sync::{Arc, mpsc};
use std::time::Duration;

/// Beside the values of [`State`]: this process has left.
const LEFT: u32 = 3;

/// A broker that needs longer for an answer is not there.
const PATIENCE: Duration = Duration::from_secs(10);

/// Why a process is no member.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JoinError {
    /// Nobody listens there.
    #[error("no broker at {}: {error}; start one: quaver share --cpus LIST", path.display())]
    NoBroker {
        /// Its socket.
        path: PathBuf,
        /// What went wrong.
        error: io::Error,
    },
    /// The broker says no.
    #[error("the broker at {path} refuses: {why}", path = path.display())]
    Refused {
        /// Its socket.
        path: PathBuf,
        /// Its reason.
        why: String,
    },
}

/// How a program takes part.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// By a page of its own.
    Library,
    /// It knows nothing of it; best-effort.
    Plain,
}

/// Whether a member is one still.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// The broker is there.
    Member,
    /// The broker has gone. If it was killed, the kernel still ranks latency-critical applications
    /// as it did, and this process, if it is best-effort, has lowered itself to `SCHED_IDLE`:
    /// nobody takes its turn away any more.
    Alone,
    /// The broker has expelled this process, which has said why on standard error.
    Expelled,
}

/// The membership of this process; it ends when this is dropped.
#[derive(Debug)]
pub struct Member {
    doors: Arc<Doors>,
    service: Service,
    class: Option<Class>,
    socket: Arc<OwnedFd>,
    state: Arc<AtomicU32>,
}

/// The path of the broker's socket for this membership: its own, that in `QUAVER_SHARE_SOCKET`, or
/// [`SOCKET`].
pub fn socket_path(membership: &Membership) -> PathBuf {
    let named = membership.socket.as_ref().map(PathBuf::from);
    let named = named.or_else(|| std::env::var_os("QUAVER_SHARE_SOCKET").map(PathBuf::from));
    named.unwrap_or_else(|| SOCKET.into())
}

/// Connects to the broker at `path`.
pub(crate) fn dial(path: &Path) -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
    // Not after connecting: where the table of descriptors grows, it may take half a second, and
    // the broker hangs up on who says nothing.
    let socket = out_of_the_way(socket);
    for direction in [Timeout::Recv, Timeout::Send] {
        set_socket_timeout(&socket, direction, Some(PATIENCE))?;
    }
    retry_on_intr(|| connect(&socket, &SocketAddrUnix::new(path)?))?;
    Ok(socket)
}

/// A failed exchange with the broker.
enum Failure {
    System(Errno),
    Refused(String),
}

impl From<Errno> for Failure {
    fn from(error: Errno) -> Failure {
        Failure::System(error)
    }
}

impl From<&str> for Failure {
    fn from(why: &str) -> Failure {
        Failure::Refused(why.into())
    }
}

/// The next message, which must be there soon.
fn next(socket: &OwnedFd) -> Result<(Message, Vec<OwnedFd>), Failure> {
    // One with a time limit ends when the process is stopped and goes on, too.
    let received = retry_on_intr(|| wire::receive(socket))?;
    let (message, files) = received.ok_or("it has hung up")?;
    let message = message?;
    match message.subject {
        Subject::Refused | Subject::Expelled => Err(Failure::Refused(message.text)),
        _ => Ok((message, files)),
    }
}

fn map(file: Option<&OwnedFd>, writes: bool) -> Result<Mapping, Failure> {
    Ok(Mapping::new(file.ok_or("an answer without memory")?, writes)?)
}

impl Member {
    /// Joins, as the membership says, under `name`. Starts a kernel thread that hears of other
    /// members. Takes up to ten seconds if the broker hangs.
    ///
    /// # Errors
    ///
    /// There is no broker, or it says no.
    pub fn join(membership: &Membership, name: &str) -> Result<Member, JoinError> {
        let path = socket_path(membership);
        Member::exchange(&path, membership, name).map_err(|failure| failed(path, failure))
    }

    fn exchange(path: &Path, m: &Membership, name: &str) -> Result<Member, Failure> {
        if m.common {
            return Err("the common queue has no such members: use `Common::join`".into());
        }
        let socket = Arc::new(dial(path)?);
        let (doors, class) = introduce(&socket, m, Kind::Library, name)?;
        let doors = Arc::new(doors.ok_or("an answer without memory")?);
        wire::send(&*socket, &Message::new(Subject::Mapped, [0; 4]), &[])?;
        loop {
            let (message, files) = next(&socket)?;
            match message.subject {
                Subject::Welcome => break,
                _ => heed(&doors, &message, files),
            }
        }
        let state = Arc::new(AtomicU32::new(State::Member as u32));
        let thread = Listener {
            socket: socket.clone(),
            doors: doors.clone(),
            state: state.clone(),
            service: m.service,
        };
        set_socket_timeout(&*socket, Timeout::Recv, None)?;
        let (ready, is_ready) = mpsc::channel();
        std::thread::Builder::new()
            .name("quaver-share".into())
            .spawn(move || {
                let thread = thread.with_own_files();
                let _ = ready.send(());
                thread.listen();
            })
            .map_err(|e| Failure::Refused(format!("no thread can be made here: {e}")))?;
        let _ = is_ready.recv();
        let class = class.filter(|_| m.service == Service::LatencyCritical);
        Ok(Member { doors, service: m.service, class, socket, state })
    }

    /// The bells.
    pub fn doors(&self) -> &Arc<Doors> {
        &self.doors
    }

    /// Latency-critical or best-effort.
    pub fn service(&self) -> Service {
        self.service
    }

    /// Whether it still is a member.
    pub fn state(&self) -> State {
        match self.state.load(Acquire) {
            0 => State::Member,
            1 => State::Alone,
            _ => State::Expelled,
        }
    }

    /// The calling kernel thread becomes the worker of this core: it runs there only, and has the
    /// rank of a latency-critical one if this member is that. Ranks of best-effort members are the
    /// broker's affair.
    ///
    /// # Errors
    ///
    /// The CPU is not allowed here, or the rank is not, any more.
    ///
    /// # Panics
    ///
    /// If there is no such core.
    pub fn work_at(&self, place: usize) -> io::Result<()> {
        // The rank first: a best-effort application of this thread's class may compute there, and
        // would never let it run.
        self.rank()?;
        class::pin(&[self.doors.cpu(place)])
    }

    /// The calling kernel thread gets the rank of a latency-critical one, if this member is that.
    /// What it starts has not.
    ///
    /// # Errors
    ///
    /// The broker does not allow it any more.
    pub fn rank(&self) -> io::Result<()> {
        self.class.map_or(Ok(()), |class| class.set_alone(0))
    }

    /// The membership ends, for this process as a whole. A second time nothing happens. Bells go on
    /// working for workers that have not heard of it.
    pub fn leave(&self) {
        for place in 0..self.doors.places() {
            self.doors.looks(place, false);
        }
        let alone = self.state.swap(LEFT, AcqRel) == State::Alone as u32;
        if alone && self.service == Service::BestEffort {
            // It had lowered itself, and nobody else would raise it.
            put_all(&[std::process::id() as i32], USUAL);
        }
        // The thread that listens ends, and the broker knows.
        let _ = shutdown(&*self.socket, Shutdown::Both);
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.leave();
    }
}

fn failed(path: PathBuf, failure: Failure) -> JoinError {
    match failure {
        Failure::System(error) => JoinError::NoBroker { path, error: error.into() },
        Failure::Refused(why) => JoinError::Refused { path, why },
    }
}

/// The common queue of the membership's broker, for [`Common::join`]. Takes up to ten seconds if
/// the broker hangs.
///
/// # Errors
///
/// There is no broker, it has no such queue, or this is not its user.
///
/// [`Common::join`]: crate::common::Common::join
pub fn common_queue(membership: &Membership) -> Result<Files, JoinError> {
    let path = socket_path(membership);
    let exchange = || -> Result<Files, Failure> {
        let socket = dial(&path)?;
        wire::send(&socket, &Message::new(Subject::Queue, [0; 4]), &[])?;
        let mut files = next(&socket)?.1.into_iter();
        let memory = files.next().ok_or("an answer without memory")?;
        Ok(Files { memory, device: files.next() })
    };
    exchange().map_err(|failure| failed(path, failure))
}

/// What the broker gives to a member: the bells, unless it is a plain program, and the class of
/// its threads.
fn introduce(
    socket: &OwnedFd,
    m: &Membership,
    kind: Kind,
    name: &str,
) -> Result<(Option<Doors>, Option<Class>), Failure> {
    let critical = m.service == Service::LatencyCritical;
    let words = [u32::from(critical), m.weight, u32::from(kind == Kind::Plain), 0];
    let join = Message { text: name.into(), ..Message::new(Subject::Join, words) };
    wire::send(socket, &join, &[])?;
    let (message, files) = next(socket)?;
    let [number, kind_of_class, value, _] = message.words;
    if message.subject != Subject::Admitted || number as usize >= MOST_APPS {
        return Err("it does not speak the language of quaver-share".into());
    }
    let class = Class::from_words(kind_of_class, value);
    if kind == Kind::Plain {
        return Ok((None, class));
    }
    let table = map(files.first(), false)?;
    let page = map(files.get(1), true)?;
    let doors = Doors::new(table, page, number as usize);
    let (table, page): (&Table, &Page) = (doors.table(), doors.own());
    for (magic, version) in [(&table.magic, &table.version), (&page.magic, &page.version)] {
        if (magic.load(Relaxed), version.load(Relaxed)) != (MAGIC, VERSION) {
            return Err("its memory is of another version".into());
        }
    }
    Ok((Some(doors), class))
}

/// Makes this process, which is about to become another program, a best-effort member. It then has
/// the lowest rank, and may run on the shared CPUs only: all of that is inherited.
///
/// # Errors
///
/// There is no broker, or it says no.
pub fn join_plain(membership: &Membership, name: &str) -> Result<(), JoinError> {
    let path = socket_path(membership);
    let exchange = || -> Result<(), Failure> {
        let socket = dial(&path)?;
        introduce(&socket, membership, Kind::Plain, name)?;
        // By then the broker has set CPUs and rank.
        while next(&socket)?.0.subject != Subject::Welcome {}
        Ok(())
    };
    exchange().map_err(|failure| failed(path.clone(), failure))
}

/// What a broker says of itself, as JSON.
///
/// # Errors
///
/// There is no broker.
pub fn status(path: &Path) -> Result<String, JoinError> {
    let ask = || -> Result<String, Failure> {
        let socket = dial(path)?;
        wire::send(&socket, &Message::new(Subject::Status, [0; 4]), &[])?;
        let mut text = vec![0; 1 << 18];
        let flags = rustix::net::RecvFlags::empty();
        let (length, _) =
            retry_on_intr(|| rustix::net::recv(socket.as_fd(), &mut text[..], flags))?;
        text.truncate(length);
        String::from_utf8(text).map_err(|_| "its answer is no text".into())
    };
    ask().map_err(|failure| failed(path.into(), failure))
}

/// What the broker has to say later.
fn heed(doors: &Doors, message: &Message, files: Vec<OwnedFd>) {
    let app = message.words[0] as usize;
    match message.subject {
        Subject::Page => {
            if let Some(page) = files.first().and_then(|file| Mapping::new(file, false).ok()) {
                doors.pages.set(app, page);
            }
        }
        Subject::Gone => doors.pages.clear(app),
        _ => {}
    }
}

/// The thread that hears of others.
struct Listener {
    socket: Arc<OwnedFd>,
    doors: Arc<Doors>,
    state: Arc<AtomicU32>,
    service: Service,
}

impl Listener {
    /// On the thread that listens, while others have the socket, too. What the broker sends takes
    /// no descriptor of the program's then.
    fn with_own_files(self) -> Listener {
        if !have_own(Some(self.socket.as_fd())) {
            return self;
        }
        // SAFETY: this thread's own descriptor from now on; the other one is that of the member,
        // which has not been told yet that this thread is there.
        let own = unsafe { OwnedFd::from_raw_fd(self.socket.as_raw_fd()) };
        Listener { socket: Arc::new(own), ..self }
    }

    fn listen(&self) {
        let (ended, orderly) = self.hear();
        let own = [std::process::id() as i32];
        let member = State::Member as u32;
        // A broker that was killed takes no turns back. Nobody waits for this: the kernel ranks
        // latency-critical applications above it in any case.
        let lowers = self.state.load(Acquire) == member
            && self.service == Service::BestEffort
            && ended == State::Alone
            && !orderly;
        if lowers {
            put_all(&own, Class::Idle);
        }
        let left = self.state.compare_exchange(member, ended as u32, AcqRel, Acquire).is_err();
        if left && lowers {
            put_all(&own, USUAL);
        }
    }

    /// Until there is nothing more to hear: what became of the membership, and whether the broker
    /// has said so.
    fn hear(&self) -> (State, bool) {
        loop {
            match wire::receive(&*self.socket) {
                Err(Errno::INTR) => {}
                Ok(Some((Ok(message), files))) => match message.subject {
                    Subject::Expelled => {
                        complain(&format!("expelled by the broker: {}", message.text));
                        return (State::Expelled, true);
                    }
                    Subject::Ended => return (State::Alone, true),
                    _ => heed(&self.doors, &message, files),
                },
                Ok(Some((Err(_), _))) => {}
                Ok(None) | Err(_) => return (State::Alone, false),
            }
        }
    }
}
