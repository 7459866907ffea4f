//! Waiting for files.

use super::file::{self, ANY, File, Kind, State};
use super::{REACTOR, Reactor, epoll};
use crate::park::{self, Waiter};
use crate::runtime::Inner;
use crate::sync::list::{Node, Signal, WaitList};
use crate::thread::raw;
use core::mem::MaybeUninit;
use core::ptr::NonNull;
use core::sync::atomic::Ordering::*;
use std::time::Instant;

/// Events after which reading does not wait.
pub(super) const READS: u32 = (libc::EPOLLIN | libc::EPOLLRDHUP | libc::EPOLLPRI) as u32;
/// Events after which writing does not wait.
pub(super) const WRITES: u32 = libc::EPOLLOUT as u32;
/// Events that are not about data, or not about data alone.
pub(super) const SPECIAL: u32 = (libc::EPOLLRDHUP | libc::EPOLLPRI) as u32 | ANY;
/// What sources are registered for.
const SOURCE: u32 = READS | WRITES | libc::EPOLLET as u32;
const ONE_SHOT: u32 = libc::EPOLLONESHOT as u32;

/// Files of others for which a thread waits at once.
pub(crate) const MOST: usize = 32;

/// A file of others and what is wanted of it: events of `poll`, which are those of epoll.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    pub(crate) fd: i32,
    pub(crate) events: u32,
}

/// How a wait for files of others ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum End {
    Ready,
    TimedOut,
    Interrupted,
    /// A file that epoll does not know, or too many, or no memory.
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

/// Counts a thread that waits.
struct Waits;

impl Waits {
    fn begin() -> Waits {
        REACTOR.waiting.fetch_add(1, SeqCst);
        Waits
    }
}

impl Drop for Waits {
    fn drop(&mut self) {
        REACTOR.waiting.fetch_sub(1, Relaxed);
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

/// Sees to it that the epoll instance knows the source. The error is the errno.
fn register(state: &mut State, file: &File, fd: i32) -> Result<(), i32> {
    let epoll = REACTOR.instance_or_new()?;
    let epoch = REACTOR.epoch.load(Relaxed);
    if state.kind == Kind::Source && state.epoch == epoch {
        return Ok(());
    }
    add_or_change(epoll, libc::EPOLL_CTL_ADD, fd, SOURCE)?;
    (state.kind, state.epoch) = (Kind::Source, epoch);
    file.special.store(false, Relaxed);
    Ok(())
}

/// Adds a file that the instance may know from before, or changes one that it may not know any
/// more.
fn add_or_change(epoll: i32, first: i32, fd: i32, events: u32) -> Result<(), i32> {
    match epoll::control(epoll, first, fd, events) {
        Err(libc::EEXIST) => epoll::control(epoll, libc::EPOLL_CTL_MOD, fd, events),
        Err(libc::ENOENT) => epoll::control(epoll, libc::EPOLL_CTL_ADD, fd, events),
        done => done,
    }
}

/// Forgets a source that is about to be closed or given away.
pub(super) fn forget_source(fd: i32) {
    let Some(file) = file::known(fd) else { return };
    let mut state = file.state.lock();
    if state.kind == Kind::Source {
        if state.epoch == REACTOR.epoch.load(Relaxed)
            && let Some(epoll) = REACTOR.instance()
        {
            // A duplicate would keep it in the instance after it has been closed.
            let _ = epoll::control(epoll, libc::EPOLL_CTL_DEL, fd, 0);
        }
        state.kind = Kind::Foreign;
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
    register(&mut state, file, fd)?;
    if count.load(Relaxed) != seen {
        return Ok(true);
    }
    let waits = Waits::begin();
    // SAFETY: new, in no list; it stays where it is until it has been signalled, or is removed
    // below.
    unsafe { state.waiters.push_back(NonNull::from(&node)) };
    drop(state);
    let _waiting = park::waits_for(c"file", core::ptr::without_provenance::<()>(fd as usize));
    be_heard();
    let mut came = node.wait_deadline(deadline).is_some();
    if !came {
        let mut state = file.state.lock();
        if node.signal() == Signal::Waiting {
            // SAFETY: its signal says under the lock that it is in the list.
            unsafe { state.waiters.remove(&node) };
        } else {
            came = true;
        }
    }
    drop(waits);
    Ok(came)
}

/// Makes the epoll instance report what the waiters of a file of others wait for.
pub(super) fn arm_foreign(reactor: &Reactor, state: &mut State, fd: i32) {
    if let Some(epoll) = reactor.instance() {
        let _ = try_arm(epoll, state, fd);
    }
}

fn try_arm(epoll: i32, state: &mut State, fd: i32) -> Result<(), i32> {
    let (mut events, mut at) = (0, None);
    // SAFETY: the list is locked by whoever has `state`.
    while let Some(node) = unsafe { state.waiters.after(at) } {
        events |= node.payload();
        at = Some(node);
    }
    // A source's registration reports everything already; changing it makes the kernel look again.
    let events = if state.kind == Kind::Source { SOURCE } else { events | ONE_SHOT };
    add_or_change(epoll, libc::EPOLL_CTL_MOD, fd, events)
}

/// Waits, as a user thread, until one of the files is ready. May end early.
pub(crate) fn wait_foreign(
    files: impl ExactSizeIterator<Item = Wanted> + Clone,
    deadline: Option<Instant>,
    interrupted: &dyn Fn() -> bool,
) -> End {
    let me = park::current();
    let Ok(epoll) = REACTOR.instance_or_new() else { return End::Impossible };
    if files.len() > MOST || !matches!(me, Waiter::User { .. }) {
        return End::Impossible;
    }
    let _waits = Waits::begin();
    let mut places: [MaybeUninit<(Node<u32>, &File)>; MOST] =
        [const { MaybeUninit::uninit() }; MOST];
    let mut used = 0;
    let mut end = None;
    for wanted in files.filter(|wanted| wanted.fd >= 0) {
        let Some(file) = file::of(wanted.fd) else {
            end = Some(End::Impossible);
            break;
        };
        let place = places[used].write((Node::new(me, wanted.events), file));
        used += 1;
        let mut state = file.state.lock();
        // SAFETY: new, in no list; it stays where it is until `Places` has taken it out.
        unsafe { state.waiters.push_back(NonNull::from(&place.0)) };
        let armed = try_arm(epoll, &mut state, wanted.fd);
        drop(state);
        if armed.is_err() {
            end = Some(End::Impossible);
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
                return End::Ready;
            }
            if interrupted() {
                return End::Interrupted;
            }
            if !raw::park_current(deadline) {
                return End::TimedOut;
            }
        }
    });
    for (node, file) in places {
        let mut state = file.state.lock();
        if node.signal() == Signal::Waiting {
            // SAFETY: its signal says under the lock that it is in the list.
            unsafe { state.waiters.remove(node) };
        }
    }
    end
}
