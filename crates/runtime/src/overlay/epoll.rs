//! Members of a program's epoll instances that are sockets of a stack.

use super::served::{Served, failed};
use super::table::{self, DescriptorEntry, Descriptors};
use super::{Words, address, kernel};
use crate::park::SpinLock;
use crate::reactor;
use crate::sync::Mutex;
use core::cell::UnsafeCell;
use core::ptr;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering::*};
use libc::{
    EBADF, EEXIST, EFAULT, EINVAL, ENOENT, EPOLL_CTL_ADD, EPOLL_CTL_DEL, EPOLL_CTL_MOD, EPOLLERR,
    EPOLLET, EPOLLEXCLUSIVE, EPOLLHUP, EPOLLIN, EPOLLONESHOT, EPOLLWAKEUP, SYS_epoll_ctl,
    SYS_epoll_pwait, epoll_event,
};
use std::sync::Arc;

const ALWAYS: u32 = (EPOLLERR | EPOLLHUP) as u32;
/// Bits that are no events.
const HOW: u32 = (EPOLLET | EPOLLONESHOT | EPOLLEXCLUSIVE | EPOLLWAKEUP) as u32;

/// An epoll instance: what it has besides the kernel's.
pub(super) struct Set {
    state: SpinLock<ReadyMembers>,
    /// Descriptors of it.
    descriptors: AtomicU32,
    closed: AtomicBool,
    /// Whose events are taken first next time.
    kernel_first: AtomicBool,
}

/// Members of which there may be events, each with a count of its own.
struct ReadyMembers {
    first: *const Member,
    last: *const Member,
    len: usize,
    descriptors: Descriptors,
}

// SAFETY: the pointers are counts of members, which are `Sync`.
unsafe impl Send for ReadyMembers {}

/// A socket in an instance.
pub(super) struct Member {
    set: Arc<Set>,
    /// The descriptor that it was added by.
    fd: i32,
    served: Arc<Served>,
    /// Under the set's lock.
    state: UnsafeCell<MemberState>,
}

struct MemberState {
    events: u32,
    data: u64,
    /// One-shot, and it has been.
    is_spent: bool,
    is_queued: bool,
    is_gone: bool,
    next: *const Member,
}

// SAFETY: the state is accessed under the set's lock.
unsafe impl Send for Member {}
// SAFETY: as above.
unsafe impl Sync for Member {}

impl ReadyMembers {
    /// # Safety
    ///
    /// This is the locked queue of the member's set.
    unsafe fn push(&mut self, member: &Member) {
        // SAFETY: the caller's contract.
        let state = unsafe { &mut *member.state.get() };
        if state.is_queued || state.is_gone {
            return;
        }
        state.is_queued = true;
        state.next = ptr::null();
        // SAFETY: members are in an `Arc`; its count is the queue's from here on.
        unsafe { Arc::increment_strong_count(member) };
        // SAFETY: it is queued, so it lives; the lock is held.
        match unsafe { self.last.as_ref() } {
            None => self.first = member,
            // SAFETY: as above.
            Some(last) => unsafe { (*last.state.get()).next = member },
        }
        self.last = member;
        self.len += 1;
    }

    /// What is dropped must be so without the lock.
    fn pop(&mut self) -> Option<Arc<Member>> {
        if self.first.is_null() {
            return None;
        }
        // SAFETY: queued, so the count is the queue's, and given away here; the lock is held.
        let member = unsafe { Arc::from_raw(self.first) };
        // SAFETY: as above.
        let state = unsafe { &mut *member.state.get() };
        state.is_queued = false;
        self.first = state.next;
        if self.first.is_null() {
            self.last = ptr::null();
        }
        self.len -= 1;
        Some(member)
    }

    fn wake(&self) {
        for fd in self.descriptors.iter() {
            reactor::announce(fd, EPOLLIN as u32);
        }
    }
}

impl Member {
    /// The socket has news. With locks of the stack held.
    pub(super) fn announce(&self, bits: u32) {
        let mut queue = self.set.state.lock();
        // SAFETY: the lock is held.
        let state = unsafe { &*self.state.get() };
        let wanted = bits & (state.events | ALWAYS) != 0;
        if wanted && !state.is_spent && !self.set.closed.load(Relaxed) {
            // SAFETY: the locked queue of its set.
            unsafe { queue.push(self) };
            queue.wake();
        }
    }

    /// It is no member any more.
    pub(super) fn remove(&self) {
        let _queue = self.set.state.lock();
        // SAFETY: the lock is held.
        unsafe { (*self.state.get()).is_gone = true };
    }

    fn change(&self, events: u32, data: u64) {
        let _queue = self.set.state.lock();
        // SAFETY: the lock is held.
        let state = unsafe { &mut *self.state.get() };
        (state.events, state.data, state.is_spent) = (events, data, false);
    }

    /// The event that there is now, if it is to be reported.
    fn look(&self) -> Option<epoll_event> {
        let bits = self.served.readiness();
        let _queue = self.set.state.lock();
        // SAFETY: the lock is held.
        let state = unsafe { &*self.state.get() };
        let events = bits & ((state.events & !HOW) | ALWAYS);
        let is_there = events != 0 && !state.is_spent && !state.is_gone;
        is_there.then_some(epoll_event { events, u64: state.data })
    }

    /// Its event was reported: what becomes of it?
    fn reported(&self) {
        let mut queue = self.set.state.lock();
        // SAFETY: the lock is held.
        let state = unsafe { &mut *self.state.get() };
        state.is_spent = state.events & EPOLLONESHOT as u32 != 0;
        if state.events & (EPOLLONESHOT | EPOLLET) as u32 == 0 {
            // SAFETY: the locked queue of its set.
            unsafe { queue.push(self) };
        }
    }
}

impl Set {
    fn new() -> Arc<Set> {
        let descriptors = Descriptors::new();
        let queue = ReadyMembers { first: ptr::null(), last: ptr::null(), len: 0, descriptors };
        Arc::new(Set {
            state: SpinLock::new(queue),
            descriptors: AtomicU32::new(0),
            closed: AtomicBool::new(false),
            kernel_first: AtomicBool::new(false),
        })
    }

    /// Is known by this descriptor, too.
    pub(super) fn serve(self: &Arc<Self>, fd: i32) -> bool {
        if !table::make_room(fd) {
            return false;
        }
        self.descriptors.fetch_add(1, SeqCst);
        self.state.lock().descriptors.add(fd);
        drop(table::replace(fd, DescriptorEntry::Set(self.clone())));
        true
    }

    /// The descriptor, which has just been taken out of the table, goes.
    pub(super) fn leave(&self, fd: i32) {
        self.state.lock().descriptors.remove(fd);
        if self.descriptors.fetch_sub(1, SeqCst) > 1 {
            return;
        }
        self.closed.store(true, SeqCst);
        loop {
            let mut queue = self.state.lock();
            let member = queue.pop();
            drop(queue);
            if member.is_none() {
                return;
            }
        }
    }

    /// May there be something to report? For those that will look.
    pub(super) fn may_be_ready(&self) -> bool {
        self.state.lock().len != 0
    }

    /// Is there something to report?
    pub(super) fn is_ready(&self) -> bool {
        let mut left = self.state.lock().len;
        while left > 0
            && let Some(member) = self.pop()
        {
            left -= 1;
            if member.look().is_some() {
                let mut queue = self.state.lock();
                // SAFETY: the locked queue of its set.
                unsafe { queue.push(&member) };
                // Who has looked meanwhile has not found it, and waits.
                queue.wake();
                return true;
            }
        }
        false
    }

    fn pop(&self) -> Option<Arc<Member>> {
        self.state.lock().pop()
    }

    /// Takes up to `n` events; how many there were.
    ///
    /// # Safety
    ///
    /// There is room for `n`.
    unsafe fn take(&self, events: *mut epoll_event, n: usize) -> usize {
        let (mut taken, mut left) = (0, self.state.lock().len);
        while taken < n
            && left > 0
            && let Some(member) = self.pop()
        {
            left -= 1;
            if let Some(event) = member.look() {
                // SAFETY: the caller's contract.
                unsafe { events.add(taken).write_unaligned(event) };
                taken += 1;
                member.reported();
            }
        }
        if taken > 0 {
            let queue = self.state.lock();
            // For others that wait for the instance.
            if queue.len > 0 {
                queue.wake();
            }
        }
        taken
    }

    /// `epoll_pwait` that does not wait.
    ///
    /// # Safety
    ///
    /// As for the call; `n` is positive.
    pub(super) unsafe fn wait_now(&self, a: Words) -> isize {
        let (events, n) = (a[1] as *mut epoll_event, a[2]);
        // SAFETY: the caller's contract.
        let ours = |from: usize| unsafe { self.take(events.add(from), n - from) };
        // SAFETY: as above.
        let theirs = |from: usize| unsafe {
            let at = events.add(from) as usize;
            kernel(SYS_epoll_pwait, [a[0], at, n - from, 0, a[4], a[5]])
        };
        let kernel_first = self.kernel_first.fetch_xor(true, Relaxed);
        if kernel_first {
            let found = theirs(0);
            let room = found >= 0 && (found as usize) < n;
            return if room { found + ours(found as usize) as isize } else { found };
        }
        let found = ours(0);
        if found == n {
            return n as isize;
        }
        match theirs(found) {
            r if r < 0 && found > 0 => found as isize,
            r if r < 0 => r,
            r => r + found as isize,
        }
    }
}

/// A socket of the kernel's that may be taken over, and its memberships.
pub(super) struct Candidate(Mutex<Vec<(i32, Arc<Set>, epoll_event)>>);

/// `epoll_ctl`; `None`: it is the kernel's affair.
///
/// # Safety
///
/// As for the call.
pub(super) unsafe fn control(a: Words) -> Option<isize> {
    let (epoll, operation, fd) = (a[0] as i32, a[1] as i32, a[2] as i32);
    let event = a[3] as *const epoll_event;
    // SAFETY: the caller's contract.
    let event = || unsafe { (!event.is_null()).then(|| event.read_unaligned()) };
    match table::get(fd) {
        Some(DescriptorEntry::Socket(served)) => {
            Some(change(epoll, operation, fd, event(), &served))
        }
        Some(DescriptorEntry::Candidate(candidate)) => {
            // SAFETY: the caller's contract.
            let done = unsafe { kernel(SYS_epoll_ctl, a) };
            if done == 0 {
                candidate.note(epoll, operation, event());
            }
            Some(done)
        }
        None if operation == EPOLL_CTL_ADD && address::kind_of(fd).is_some() => {
            // SAFETY: the caller's contract.
            let done = unsafe { kernel(SYS_epoll_ctl, a) };
            if done == 0 && address::is_unbound(fd) && table::make_room(fd) {
                let candidate = Arc::new(Candidate(Mutex::new(Vec::new())));
                candidate.note(epoll, operation, event());
                drop(table::replace(fd, DescriptorEntry::Candidate(candidate)));
            }
            Some(done)
        }
        _ => None,
    }
}

impl Candidate {
    /// The kernel has accepted this.
    fn note(&self, epoll: i32, operation: i32, event: Option<epoll_event>) {
        let Some(set) = set_of(epoll) else { return };
        let Ok(mut all) = self.0.lock() else { return };
        all.retain(|(_, other, _)| !Arc::ptr_eq(other, &set));
        if operation != EPOLL_CTL_DEL
            && let Some(event) = event
        {
            all.push((epoll, set, event));
        }
    }
}

/// `fd` is served from now on: what it was before was this. Its memberships move.
pub(super) fn taken_over(fd: i32, before: DescriptorEntry, served: &Arc<Served>) {
    let DescriptorEntry::Candidate(candidate) = before else { return };
    let Ok(mut all) = candidate.0.lock() else { return };
    for (epoll, set, event) in all.drain(..) {
        // SAFETY: no memory.
        unsafe {
            kernel(SYS_epoll_ctl, [epoll as usize, EPOLL_CTL_DEL as usize, fd as usize, 0, 0, 0])
        };
        join(set, fd, event, served);
    }
}

/// The instance behind a descriptor.
fn set_of(epoll: i32) -> Option<Arc<Set>> {
    match table::get(epoll) {
        Some(DescriptorEntry::Set(set)) => Some(set),
        Some(_) => None,
        None => {
            let set = Set::new();
            set.serve(epoll).then_some(set)
        }
    }
}

fn join(set: Arc<Set>, fd: i32, event: epoll_event, served: &Arc<Served>) -> isize {
    let state = MemberState {
        events: event.events,
        data: event.u64,
        is_spent: false,
        is_queued: false,
        is_gone: false,
        next: ptr::null(),
    };
    let state = UnsafeCell::new(state);
    let member = Arc::new(Member { set, fd, served: served.clone(), state });
    if !served.news.add(&member, |m| m.fd == fd && Arc::ptr_eq(&m.set, &member.set)) {
        return failed(EEXIST);
    }
    member.announce(served.readiness());
    0
}

/// `epoll_ctl` of a socket of a stack.
fn change(
    epoll: i32,
    operation: i32,
    fd: i32,
    event: Option<epoll_event>,
    served: &Arc<Served>,
) -> isize {
    // Is it an instance? The placeholder may be in it from before the stack was installed.
    let probe = [epoll as usize, EPOLL_CTL_DEL as usize, fd as usize, 0, 0, 0];
    // SAFETY: no memory.
    match unsafe { kernel(SYS_epoll_ctl, probe) } {
        0 => {}
        r if r == failed(ENOENT) => {}
        r => return r,
    }
    let Some(set) = set_of(epoll) else { return failed(EBADF) };
    let find = || served.news.find(|m| m.fd == fd && Arc::ptr_eq(&m.set, &set));
    match (operation, event) {
        (EPOLL_CTL_ADD | EPOLL_CTL_MOD, None) => failed(EFAULT),
        (EPOLL_CTL_ADD, Some(event)) => join(set, fd, event, served),
        (EPOLL_CTL_MOD, Some(event)) => match find() {
            Some(member) => {
                member.change(event.events, event.u64);
                member.announce(served.readiness());
                0
            }
            None => failed(ENOENT),
        },
        (EPOLL_CTL_DEL, _) => match find() {
            Some(member) => {
                member.remove();
                drop(served.news.remove(&member));
                0
            }
            None => failed(ENOENT),
        },
        _ => failed(EINVAL),
    }
}
