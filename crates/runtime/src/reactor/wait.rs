//! Waiting for files.

use super::file::{self, ANY, File, FileKind, FileState};
use super::heard::{self, Seen};
use super::waits::CountedWait;
use super::{REACTOR, epoll};
use crate::os::pages::Pages;
use crate::overlay;
use crate::park::{self, Waiter};
use crate::runtime::Inner;
use crate::sync::list::{Node, Signal, WaitList};
use crate::sys;
use crate::thread::raw;
use core::mem::MaybeUninit;
use core::ptr::NonNull;
use core::sync::atomic::Ordering::*;
use std::time::{Duration, Instant};

/// Events after which reading does not wait.
pub(super) const READS: u32 = (libc::EPOLLIN | libc::EPOLLRDHUP | libc::EPOLLPRI) as u32;
/// Events after which writing does not wait.
pub(super) const WRITES: u32 = libc::EPOLLOUT as u32;
/// Any event.
pub(super) const ANYTHING: u32 = READS | WRITES | ANY;
/// Events that are not about data, or not about data alone.
pub(super) const SPECIAL: u32 = (libc::EPOLLRDHUP | libc::EPOLLPRI) as u32 | ANY;

/// What sources are registered for.
const fn source(writes: bool) -> u32 {
    libc::EPOLLET as u32 | READS | if writes { WRITES } else { 0 }
}

const ONE_SHOT: u32 = libc::EPOLLONESHOT as u32;

/// Files of others for which a thread waits at once.
pub(crate) const MOST: usize = 32;

/// A file of others and what is wanted of it.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// Its descriptor; negative: nothing is waited for here.
    pub fd: i32,
    /// Events of `poll`, which are those of epoll.
    pub events: i16,
    /// What was seen of it before it was found not to be ready. Reads or writes, not both.
    pub seen: Seen,
}

impl Wanted {
    /// A file of which nothing else is known.
    pub fn new(fd: i32, events: i16) -> Wanted {
        Wanted { fd, events, seen: Seen::Nothing }
    }
}

/// How a wait for files of others ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FileWait {
    /// One of the files may be ready, or may have been closed or replaced: look.
    Ready,
    /// The deadline came.
    TimedOut,
    /// Interrupted, as the caller has asked.
    Interrupted,
    /// One of these files cannot be waited for here, or there are too many, or the caller is not a
    /// user thread: it must wait in the kernel.
    Impossible,
}

/// Takes a waiter out of the list that `bits` concern.
pub(super) fn pop_matching(list: &mut WaitList<u32>, bits: u32) -> Option<Waiter> {
    // SAFETY: `list` is locked by the caller, and so it stays until the node has been taken.
    unsafe {
        let mut at = list.after(None)?;
        while bits & (at.payload() | ANY) == 0 {
            at = list.after(Some(at))?;
        }
        Some(list.take(at).signal(Signal::Woken))
    }
}

/// The calling user thread is about to be parked. Its worker polls, or will be missed by the
/// watcher. Somebody who has no worker must see to it that one of those that sleep listens.
fn be_heard() {
    let Some(rt) = Inner::latest() else { return };
    if REACTOR.lacks_listener() && raw::has_no_worker() {
        rt.idle.wake_to_listen(rt);
    }
    rt.watch.is_wanted(rt);
}

/// Sees to it that the epoll instance knows the source, and for a wait for writing that it reports
/// that; if it can be written to now, at once. The error is the errno.
pub(super) fn register(
    state: &mut FileState,
    file: &File,
    fd: i32,
    writes: bool,
) -> Result<(), i32> {
    let first = match state.kind {
        FileKind::Source { writes: has } if writes && !has => libc::EPOLL_CTL_MOD,
        FileKind::Source { .. } | FileKind::Served => return Ok(()),
        FileKind::Foreign => libc::EPOLL_CTL_ADD,
    };
    add_or_change(REACTOR.instance_or_new()?, first, fd, source(writes))?;
    if state.kind == FileKind::Foreign {
        file.special.store(false, Relaxed);
    }
    state.kind = FileKind::Source { writes };
    Ok(())
}

/// Adds a file that the instance may know from before, or changes one that it may not know any
/// more.
fn add_or_change(epoll: i32, first: i32, fd: i32, events: u32) -> Result<(), i32> {
    // The number comes back with the events.
    let control = |operation| epoll::control(epoll, (operation, fd, events), fd as u64);
    match control(first) {
        Err(libc::EEXIST) => control(libc::EPOLL_CTL_MOD),
        Err(libc::ENOENT) => control(libc::EPOLL_CTL_ADD),
        done => done,
    }
}

/// Forgets a source that is about to be closed or given away.
pub(super) fn forget_source(fd: i32) {
    let Some(file) = file::known(fd) else { return };
    let mut state = file.state.lock();
    if let FileKind::Source { .. } = state.kind {
        if let Some(epoll) = REACTOR.instance() {
            // A duplicate would keep it in the instance after it has been closed.
            let _ = epoll::control(epoll, (libc::EPOLL_CTL_DEL, fd, 0), 0);
        }
        heard::forget(file, &mut state);
        state.kind = FileKind::Foreign;
    }
}

/// Waits, as a user thread, until there has been an event in this direction since the count was
/// `seen`. `Ok(false)`: the deadline came first. The error is the errno.
pub(super) fn wait_source(
    file: &File,
    fd: i32,
    direction: super::Direction,
    seen: u32,
    deadline: Option<Instant>,
) -> Result<bool, i32> {
    let (count, bits) = match direction {
        super::Direction::Read => (&file.reads, READS),
        super::Direction::Write => (&file.writes, WRITES),
    };
    let me = park::current();
    let node = Node::new(me, bits);
    let mut state = file.state.lock();
    register(&mut state, file, fd, direction == super::Direction::Write)?;
    if count.load(Relaxed) != seen {
        return Ok(true);
    }
    let mut wait = CountedWait::begin(&REACTOR.waits);
    // SAFETY: new, in no list; it stays where it is until it has been signalled, or is removed
    // below.
    unsafe { state.waiters.push_back(NonNull::from(&node)) };
    drop(state);
    let _waiting = park::waits_for(c"file", core::ptr::without_provenance::<()>(fd as usize));
    be_heard();
    let told = node.wait_deadline(deadline).is_some() || !leave_list(file, &node);
    if told {
        wait.was_told();
    }
    Ok(told)
}

/// A stack in user space serves this descriptor from now on; who waits for it looks again.
/// `false`: such numbers are not known here.
pub(crate) fn serve(fd: i32) -> bool {
    let Some(file) = file::of(fd) else { return false };
    forget_source(fd);
    file.state.lock().kind = FileKind::Served;
    super::announce(fd, ANYTHING);
    // That was no event of the stack's: it announces its own from now on.
    file.special.store(false, Relaxed);
    true
}

/// It does no more.
pub(crate) fn unserve(fd: i32) {
    let Some(file) = file::known(fd) else { return };
    file.state.lock().kind = FileKind::Foreign;
    super::announce(fd, ANYTHING);
}

/// Takes a node out of its file's list. `false`: somebody else has, with a signal.
fn leave_list(file: &File, node: &Node<u32>) -> bool {
    let mut state = file.state.lock();
    let was_there = node.signal() == Signal::Waiting;
    if was_there {
        // SAFETY: its signal says under the lock that it is in the list.
        unsafe { state.waiters.remove(node) };
    }
    was_there
}

/// Makes the epoll instance report what the waiters of a file wait for.
pub(super) fn arm(epoll: i32, state: &FileState, fd: i32) -> Result<(), i32> {
    let (mut events, mut at) = (0, None);
    // SAFETY: the list is locked by whoever has `state`.
    while let Some(node) = unsafe { state.waiters.after(at) } {
        events |= node.payload();
        at = Some(node);
    }
    // A source's registration reports everything already; changing it makes the kernel look again.
    let events = match state.kind {
        FileKind::Source { writes } => source(writes || events & WRITES != 0),
        _ => events | ONE_SHOT,
    };
    add_or_change(epoll, libc::EPOLL_CTL_MOD, fd, events)
}

/// A place in the list of a file.
type WaitPlace = MaybeUninit<(Node<u32>, &'static File)>;

/// Waits, as a user thread, until one of the files is ready. May end early.
pub(crate) fn wait_foreign(
    files: &[Wanted],
    deadline: Option<Instant>,
    interrupted: impl Fn() -> bool,
) -> FileWait {
    if !raw::may_park() {
        return FileWait::Impossible;
    }
    if files.len() > MOST {
        let Some(mut pages) = Pages::new(files.len()) else { return FileWait::Impossible };
        let places: &mut [WaitPlace] = pages.places();
        return wait_in(places, files, deadline, interrupted);
    }
    let mut places: [WaitPlace; MOST] = [const { MaybeUninit::uninit() }; MOST];
    wait_in(&mut places, files, deadline, interrupted)
}

/// As [`wait_foreign`], for kernel threads, too, and for any number of files. A kernel thread hears
/// of files of the kernel's only while a runtime runs: without one that is impossible.
pub(crate) fn wait_anywhere(files: &[Wanted], deadline: Option<Instant>) -> FileWait {
    let may_wait = match raw::current() {
        Some(_) => raw::may_park(),
        None => !raw::attached() && (Inner::running().is_some() || are_served(files)),
    };
    if !may_wait {
        return FileWait::Impossible;
    }
    let mut places: Vec<WaitPlace> = files.iter().map(|_| MaybeUninit::uninit()).collect();
    wait_in(&mut places, files, deadline, || false)
}

/// Does a stack serve all of them?
fn are_served(files: &[Wanted]) -> bool {
    let is_served = |file: &File| -> bool { file.state.lock().kind == FileKind::Served };
    files.iter().all(|wanted| wanted.fd < 0 || file::known(wanted.fd).is_some_and(is_served))
}

/// Does one thread wait?
pub(super) fn is_single(state: &FileState) -> bool {
    // SAFETY: the list is locked by whoever has `state`.
    unsafe {
        state.waiters.after(None).is_some_and(|first| state.waiters.after(Some(first)).is_none())
    }
}

/// Sees to it that a thread in the list of a file will hear of what it wants. `Ok(false)`: that may
/// be there already. The error is the errno.
fn prepare(state: &mut FileState, file: &File, wanted: &Wanted) -> Result<bool, i32> {
    let writes = wanted.events & libc::POLLOUT != 0;
    if u32::from(wanted.events as u16) & !ANYTHING != 0 {
        heard::cannot_be_source(file, state);
    }
    match (state.kind, wanted.seen) {
        (FileKind::Served, _) => Ok(true),
        (FileKind::Source { .. }, Seen::Events(before)) => {
            register(state, file, wanted.fd, writes)?;
            let count = if writes { &file.writes } else { &file.reads };
            // Of some ends a call that does not wait tells nothing (a socket of UDP that was shut
            // down and is not connected), and they come once.
            let has_ended = || {
                file.special.load(Relaxed)
                    && sys::poll(wanted.fd, wanted.events, Some(Duration::ZERO)) != Ok(0)
            };
            Ok(count.load(Relaxed) == before && !has_ended())
        }
        (_, Seen::New) if heard::become_source(file, state, wanted.fd, writes) => Ok(true),
        _ => {
            let epoll = REACTOR.instance_or_new()?;
            arm(epoll, state, wanted.fd).map(|()| true)
        }
    }
}

/// Waits in the lists of the files; there are as many places.
fn wait_in(
    places: &mut [WaitPlace],
    files: &[Wanted],
    deadline: Option<Instant>,
    interrupted: impl Fn() -> bool,
) -> FileWait {
    let me = park::current();
    let mut wait = CountedWait::begin(&REACTOR.waits);
    let mut used = 0;
    let mut end = None;
    for wanted in files.iter().filter(|wanted| wanted.fd >= 0) {
        let Some(file) = file::of(wanted.fd) else {
            end = Some(FileWait::Impossible);
            break;
        };
        let place = places[used].write((Node::new(me, u32::from(wanted.events as u16)), file));
        used += 1;
        let mut state = file.state.lock();
        // SAFETY: new, in no list; it stays where it is until it has left the list below.
        unsafe { state.waiters.push_back(NonNull::from(&place.0)) };
        let armed = prepare(&mut state, file, wanted);
        drop(state);
        match armed {
            Ok(true) => {}
            Ok(false) => end = Some(FileWait::Ready),
            Err(_) => end = Some(FileWait::Impossible),
        }
        if end.is_some() {
            break;
        }
        // Its news that came before are announced to nobody. Not under the lock: a stack announces
        // with its own locks held.
        if overlay::is_news(wanted.fd, wanted.events) {
            end = Some(FileWait::Ready);
            break;
        }
    }
    // SAFETY: the first `used` have been written.
    let places = unsafe { places[..used].assume_init_ref() };
    let _waiting = park::waits_for(c"files", core::ptr::null::<()>());
    if end.is_none() {
        be_heard();
    }
    let end = end.unwrap_or_else(|| {
        loop {
            if places.iter().any(|(node, _)| node.signal() == Signal::Woken) {
                return FileWait::Ready;
            }
            if interrupted() {
                return FileWait::Interrupted;
            }
            if !park::park_deadline(me, deadline) {
                return FileWait::TimedOut;
            }
        }
    });
    for (node, file) in places {
        if !leave_list(file, node) {
            wait.was_told();
        }
    }
    end
}
