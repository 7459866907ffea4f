//! The socket, the requests, and the loop.

use super::claim::Claim;
use super::cycle;
use super::freezer::{self, Freezer};
use super::guard::Guard;
use super::member::Member;
use super::peer::Peer;
use super::queue;
use super::ranks::{self, Binding, Rank, Rights};
use super::status::Expulsion;
use super::table::OwnTable;
use super::throttle;
use super::watch::TICK;
use super::{Options, Policy};
use crate::class::{self, Class};
use crate::layout::{MAGIC, MOST_APPS, MOST_PLACES, Page, VERSION};
use crate::map::{self, Mapping};
use crate::pages::Pages;
use crate::wire::{self, Message, Subject};
use quaver_sched::share::{MAX_SHARE_WEIGHT, Turns};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SendFlags, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, listen,
    send, socket_with,
};
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Relaxed, Release};
use std::time::{Duration, Instant};

/// Connections whose request has not come yet: at most, and for how long.
const PENDING: usize = 64;
const PATIENCE: Duration = Duration::from_secs(1);
/// Expulsions and notes that are remembered.
pub(super) const REMEMBERED: usize = 16;

/// Why there is no broker.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BrokerError {
    /// Another one serves this socket.
    #[error("another broker serves {}; stop it, or give another path", .0.display())]
    Running(PathBuf),
    /// The socket cannot be made.
    #[error("cannot listen at {path}: {error}", path = path.display())]
    Socket {
        /// Where.
        path: PathBuf,
        /// Why not.
        error: io::Error,
    },
    /// The CPUs cannot be shared.
    #[error("cannot share CPU {cpu}: {why}")]
    Cpu {
        /// Which one.
        cpu: usize,
        /// Why not.
        why: &'static str,
    },
    /// No or too many CPUs.
    #[error("{0} CPUs cannot be shared: give 1 to {MOST_PLACES}")]
    Cpus(usize),
    /// The kernel's classes cannot be used.
    #[error("binding `{0}` needs CAP_SYS_NICE; run as root, or use `idle`")]
    Rights(&'static str),
    /// Anything else.
    #[error("cannot {what}: {error}")]
    System {
        /// What was tried.
        what: &'static str,
        /// Why it failed.
        error: io::Error,
    },
}

/// A broker. When it is dropped its socket is removed and its members get back the class that
/// everyone has; after a kill the next broker replaces the socket, and members go on as they are.
#[derive(Debug)]
pub struct Broker {
    pub(super) options: Options,
    pub(super) binding: Binding,
    listener: OwnedFd,
    pending: Vec<(OwnedFd, Instant)>,
    pub(super) members: Vec<Option<Member>>,
    pub(super) table: Arc<OwnTable>,
    pages: Arc<Pages>,
    pub(super) turns: Turns,
    /// Processes that may not join again.
    outcasts: Vec<Peer>,
    /// Those of them that could not be held down otherwise, until the broker ends.
    pub(super) frozen: Vec<Freezer>,
    pub(super) expelled: VecDeque<Expulsion>,
    pub(super) notes: Vec<String>,
    pub(super) begun: Instant,
    pub(super) looked: Instant,
    /// The common queue.
    pub(super) queue: Option<queue::Queue>,
    /// Watches until it is dropped.
    _guard: Option<Guard>,
    /// The last one: it is dropped after everything else.
    _claim: Claim,
}

/// What a request came to.
enum Served {
    /// The connection is done with.
    Done,
    /// It belongs to the member of this number now.
    Member(usize),
}

impl Broker {
    /// Claims the socket, and chooses how cores are bound. Takes some ten milliseconds.
    ///
    /// # Errors
    ///
    /// Another broker runs there; CPUs that cannot be used; missing rights for the binding that was
    /// asked for; or what the system says.
    pub fn bind(options: Options) -> Result<Broker, BrokerError> {
        if options.cpus.is_empty() || options.cpus.len() > MOST_PLACES {
            return Err(BrokerError::Cpus(options.cpus.len()));
        }
        let allowed = allowed_cpus();
        for &cpu in options.cpus.iter().chain(&options.guard) {
            if !allowed.contains(&cpu) {
                return Err(BrokerError::Cpu { cpu, why: "this process may not use it" });
            }
        }
        if let Some(cpu) = options.guard.filter(|cpu| options.cpus.contains(cpu)) {
            return Err(BrokerError::Cpu { cpu, why: "the guard spins there" });
        }
        let path = &options.socket;
        let failed = |error: io::Error| BrokerError::Socket { path: path.clone(), error };
        let claim = Claim::take(path).map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => BrokerError::Running(path.clone()),
            _ => failed(error),
        })?;
        let system = |what| move |error: io::Error| BrokerError::System { what, error };
        let free: Vec<usize> =
            allowed.iter().copied().filter(|cpu| !options.cpus.contains(cpu)).collect();
        let (rights, throttles) = (Rights::find(), throttle::throttles_fifo());
        let binding = match options.binding {
            Some(binding) if binding.needs() > rights => {
                return Err(BrokerError::Rights(binding.name()));
            }
            Some(binding) => binding,
            None => Binding::choose(rights, !free.is_empty(), throttles),
        };
        let cycle = options.cycle.unwrap_or_else(|| cycle::measure(options.cpus[0], binding));
        let table = OwnTable::new(&options, cycle).map_err(|e| system("share memory")(e.into()))?;
        let (table, pages) = (Arc::new(table), Arc::new(Pages::new()));
        let guard = options
            .guard
            .map(|cpu| Guard::start(cpu, table.clone(), pages.clone()))
            .transpose()
            .map_err(system("watch the bells"))?;
        freezer::clear();
        let queue = queue::create(&options).map_err(system("make the common queue"))?;
        let mut notes = Vec::new();
        if rights == Rights::None {
            notes.push(
                "without CAP_SYS_NICE latency-critical applications are not raised, and \
                        best-effort ones share evenly, without weights"
                    .to_owned(),
            );
        }
        if matches!(binding, Binding::Fifo | Binding::Mixed) && throttles {
            notes.push(throttle::NOTE.to_owned());
        }
        // Above everyone where that takes nothing from them, else between.
        let (placed, class) = match free.is_empty() {
            true => (Ok(()), ranks::BETWEEN),
            false => (class::pin(&free), ranks::ABOVE),
        };
        let ranked = if rights == Rights::Fifo { class.set(0) } else { Ok(()) };
        if let Err(e) = placed.and(ranked) {
            notes.push(format!("the broker keeps its own rank: {e}"));
        }
        let listener = listen_at(path).map_err(failed)?;
        let now = Instant::now();
        Ok(Broker {
            binding,
            listener,
            pending: Vec::new(),
            members: (0..MOST_APPS).map(|_| None).collect(),
            table,
            pages,
            turns: Turns::new(),
            outcasts: Vec::new(),
            frozen: Vec::new(),
            expelled: VecDeque::new(),
            notes,
            begun: now,
            looked: now,
            queue,
            options,
            _guard: guard,
            _claim: claim,
        })
    }

    /// By which classes cores are bound.
    pub fn binding(&self) -> Binding {
        self.binding
    }

    /// What it could not do, one sentence each.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Serves until `stop` says true; asks it at least ten times a second, and after a signal.
    ///
    /// # Errors
    ///
    /// When waiting for requests fails.
    pub fn run(&mut self, stop: impl Fn() -> bool) -> io::Result<()> {
        while !stop() {
            let tick = self.tick();
            self.wait(tick.saturating_sub(self.looked.elapsed()).min(TICK))?;
            self.look_after(tick);
        }
        Ok(())
    }

    pub(super) fn joined(&self) -> impl Iterator<Item = &Member> {
        self.members.iter().flatten().filter(|m| m.joined)
    }

    /// Waits for requests and ends, at most so long, and serves those that have come.
    fn wait(&mut self, timeout: Duration) -> io::Result<()> {
        // What each descriptor is about: a pending connection, or a member's end or message.
        let mut fds = vec![PollFd::new(&self.listener, PollFlags::IN)];
        fds.extend(self.pending.iter().map(|(s, _)| PollFd::new(s, PollFlags::IN)));
        let mut members = Vec::new();
        for m in self.members.iter().flatten() {
            members.push((m.number, false));
            fds.push(PollFd::new(&m.peer.process, PollFlags::IN));
            if let Some(socket) = &m.socket {
                members.push((m.number, true));
                fds.push(PollFd::new(socket, PollFlags::IN));
            }
        }
        let timeout = Timespec::try_from(timeout).expect("short");
        match poll(&mut fds, Some(&timeout)) {
            Ok(_) => {}
            Err(Errno::INTR) => return Ok(()),
            Err(e) => return Err(e.into()),
        }
        let ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        let (ready, ready_members) = ready.split_at(1 + self.pending.len());
        for (&(number, by_socket), ready) in members.iter().zip(ready_members) {
            match ready {
                true if by_socket => self.hear(number),
                true => self.leave(number, false),
                false => {}
            }
        }
        let pending = std::mem::take(&mut self.pending);
        for ((socket, since), &ready) in pending.into_iter().zip(&ready[1..]) {
            if ready || since.elapsed() >= PATIENCE {
                // The last look is now: this thread may have had no CPU since it looked.
                self.serve(socket);
            } else {
                self.pending.push((socket, since));
            }
        }
        if ready[0] {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            // The rest stays in the backlog; what else goes wrong concerns one client.
            while self.pending.len() < PENDING {
                let Ok(socket) = accept_with(&self.listener, flags) else { break };
                self.pending.push((socket, Instant::now()));
            }
        }
        Ok(())
    }

    /// The first message of a connection.
    fn serve(&mut self, socket: OwnedFd) {
        let message = match wire::receive(&socket) {
            Ok(Some((Ok(message), _))) => message,
            Ok(Some((Err(why), _))) => {
                let _ = wire::send(&socket, &Message::with_text(Subject::Refused, why), &[]);
                return;
            }
            Ok(None) | Err(_) => return,
        };
        let result = match message.subject {
            Subject::Status => {
                self.look_after(TICK);
                let text = serde_json::to_vec(&self.status()).expect("numbers and text");
                let _ = send(&socket, &text, SendFlags::NOSIGNAL);
                Ok(Served::Done)
            }
            Subject::Join => self.admit(&socket, &message),
            Subject::Queue => self.lend_queue(&socket).map(|()| Served::Done),
            _ => Err("a message that nobody expects".to_owned()),
        };
        match result {
            Ok(Served::Done) => {}
            Ok(Served::Member(number)) => {
                if let Some(member) = &mut self.members[number] {
                    member.socket = Some(socket);
                }
            }
            Err(why) => {
                let _ = wire::send(&socket, &Message::with_text(Subject::Refused, why), &[]);
            }
        }
    }

    /// Looks at who wants to join; gives it a number and a page.
    fn admit(&mut self, socket: &OwnedFd, join: &Message) -> Result<Served, String> {
        let peer = Peer::of(socket)?;
        let own = rustix::process::geteuid().as_raw();
        if peer.uid != 0 && peer.uid != own && !self.options.users.contains(&peer.uid) {
            return Err(format!("user {} may not join (--users)", peer.uid));
        }
        self.outcasts.retain(|outcast| !outcast.has_ended());
        if self.outcasts.iter().any(|outcast| outcast.pid == peer.pid) {
            return Err("it was expelled".into());
        }
        if self.members.iter().flatten().any(|m| m.peer.pid == peer.pid) {
            return Err("this process is a member already".into());
        }
        let [critical, weight, plain, _] = join.words;
        if critical > 1 || plain > 1 || critical + plain > 1 {
            return Err("a role that does not exist".into());
        }
        if !(1..=MAX_SHARE_WEIGHT).contains(&weight) {
            return Err(format!("a weight is from 1 to {MAX_SHARE_WEIGHT}"));
        }
        let number = self.members.iter().position(Option::is_none);
        let number = number.ok_or_else(|| format!("there are {MOST_APPS} already"))?;
        let system = |e: Errno| e.to_string();
        if plain == 1 {
            let mut member = Member::new(number, peer, join, None, self.options.budget);
            member.bind(&self.options.cpus).map_err(|e| format!("cannot bind it: {e}"))?;
            member.joined = true;
            let admitted = Message::new(Subject::Admitted, [number as u32, 0, 0, 0]);
            wire::send(socket, &admitted, &[]).map_err(system)?;
            wire::send(socket, &Message::new(Subject::Welcome, [0; 4]), &[]).map_err(system)?;
            self.members[number] = Some(member);
            return Ok(Served::Done);
        }
        let file = map::page("quaver-share-page").map_err(system)?;
        let mapping = Mapping::new(&file, true).map_err(system)?;
        // SAFETY: a page consists of atomics.
        let page: &Page = unsafe { mapping.cast() };
        page.version.store(VERSION, Relaxed);
        page.magic.store(MAGIC, Release);
        let class = self.binding.class(if critical == 1 { Rank::Critical } else { Rank::Last });
        let ranked = critical == 1 && self.options.policy == Policy::Shenango;
        let class = if ranked { class } else { Class::Idle };
        let (kind, value) = if ranked { class.to_words() } else { (u32::MAX, 0) };
        if ranked && class != ranks::USUAL {
            // Who cannot be allowed it may have the right.
            let _ = ranks::allow(peer.pid, Some(class));
        }
        let admitted = Message::new(Subject::Admitted, [number as u32, kind, value, 0]);
        wire::send(socket, &admitted, &[self.table.file(), file.as_fd()]).map_err(system)?;
        let page = Some((file, mapping));
        self.members[number] = Some(Member::new(number, peer, join, page, self.options.budget));
        Ok(Served::Member(number))
    }

    /// A member has said something, or hung up.
    fn hear(&mut self, number: usize) {
        let Some(member) = &mut self.members[number] else { return };
        let Some(socket) = &member.socket else { return };
        match wire::receive(socket) {
            Ok(Some((Ok(message), _))) if message.subject == Subject::Mapped && !member.joined => {
                self.welcome(number);
            }
            Err(Errno::AGAIN | Errno::INTR) => {}
            Ok(Some(_)) => self.expel(number, "a message that nobody expects"),
            Ok(None) | Err(_) => self.leave(number, true),
        }
    }

    /// A member has mapped its page: nobody else can write to it from now on, and everyone may see
    /// it.
    fn welcome(&mut self, number: usize) {
        let Some(member) = &mut self.members[number] else { return };
        let Some((file, _)) = &member.page else { return };
        let copy = file.try_clone();
        let (Ok(()), Ok(file)) = (map::seal(file), copy) else {
            return self.leave(number, false);
        };
        member.joined = true;
        match Mapping::new(&file, false) {
            Ok(mapping) => self.pages.set(number, mapping),
            Err(_) => return self.leave(number, false),
        }
        let critical = self.members[number].as_ref().is_some_and(Member::is_critical);
        let table = self.table.get();
        let mask = if critical { &table.critical } else { &table.best_effort };
        mask.fetch_or(1 << number, AcqRel);
        let news = Message::new(Subject::Page, [number as u32, 0, 0, 0]);
        for other in self.members.iter_mut().flatten() {
            if other.number != number && other.joined {
                other.tell(&news, Some(&file));
            }
        }
        self.tell_all(number);
        if let Some(member) = &mut self.members[number] {
            member.tell(&Message::new(Subject::Welcome, [0; 4]), None);
        }
        self.look(Duration::ZERO);
    }

    /// Tells a member of all others.
    pub(super) fn tell_all(&mut self, number: usize) {
        let others: Vec<(usize, OwnedFd)> = self
            .joined()
            .filter(|m| m.number != number)
            .filter_map(|m| Some((m.number, m.page.as_ref()?.0.try_clone().ok()?)))
            .collect();
        let Some(member) = &mut self.members[number] else { return };
        member.behind = false;
        for (other, file) in &others {
            let news = Message::new(Subject::Page, [*other as u32, 0, 0, 0]);
            if !member.tell(&news, Some(file)) {
                return;
            }
        }
    }

    /// A member is one no more: its process has ended, or it `goes_on` without us.
    pub(super) fn leave(&mut self, number: usize, goes_on: bool) {
        let Some(mut member) = self.members[number].take() else { return };
        let mask = !(1u32 << number);
        self.table.get().critical.fetch_and(mask, AcqRel);
        self.table.get().best_effort.fetch_and(mask, AcqRel);
        self.pages.clear(number);
        if goes_on {
            member.release(ranks::USUAL);
        }
        let gone = Message::new(Subject::Gone, [number as u32, 0, 0, 0]);
        for other in self.members.iter_mut().flatten().filter(|m| m.joined) {
            other.tell(&gone, None);
        }
    }

    /// A member has broken a rule: it goes on below everyone, and may not come back.
    pub(super) fn expel(&mut self, number: usize, why: &str) {
        let Some(mut member) = self.members[number].take() else { return };
        member.tell_expelled(why);
        member.release(Class::Idle);
        let expulsion =
            Expulsion { pid: member.peer.pid, name: member.name.clone(), why: why.into() };
        eprintln!("quaver share: expelled {} (process {}): {why}", expulsion.name, expulsion.pid);
        self.expelled.push_front(expulsion);
        self.expelled.truncate(REMEMBERED);
        if self.outcasts.len() < 1024
            && let Ok(process) = member.peer.process.try_clone()
        {
            let Peer { pid, uid, .. } = member.peer;
            self.outcasts.push(Peer { pid, uid, process });
        }
        self.members[number] = Some(member);
        self.leave(number, false);
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        for member in self.members.iter_mut().flatten() {
            member.release(ranks::USUAL);
            member.tell_ended();
        }
    }
}

fn allowed_cpus() -> Vec<usize> {
    let set = rustix::thread::sched_getaffinity(None);
    let is_set = |cpu: &usize| set.as_ref().is_ok_and(|set| set.is_set(*cpu));
    (0..rustix::thread::CpuSet::MAX_CPU).filter(is_set).collect()
}

/// A socket to which any user may connect: who may join is decided later.
fn listen_at(path: &std::path::Path) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let listener = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
    bind(&listener, &SocketAddrUnix::new(path)?)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o666))?;
    listen(&listener, 1024)?;
    Ok(listener)
}
