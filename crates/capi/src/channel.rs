//! Bounded channels of pointers, for any number of senders and receivers.

use crate::report;
use crate::runtime::timeout;
use crate::status::{Failure, Status};
use core::cell::UnsafeCell;
use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed};
use quaver::foreign::condvar::Condvar;
use quaver::foreign::futex::{Deadline, End, Limits};
use quaver::foreign::lock;
use quaver::foreign::watch::{self, Watched};
use quaver::sync::CancelToken;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// `quaver_channel`.
pub struct Channel {
    guard: AtomicU32,
    state: UnsafeCell<State>,
    not_empty: Condvar,
    not_full: Condvar,
    /// Woken with everything that is sent.
    watched: Watched,
}

struct State {
    items: VecDeque<*mut c_void>,
    capacity: usize,
    closed: bool,
}

struct Guard<'a>(&'a Channel);

impl Guard<'_> {
    fn state(&mut self) -> &mut State {
        // SAFETY: the guard is held.
        unsafe { &mut *self.0.state.get() }
    }

    /// Takes the oldest item out; [`Status::Closed`] if there is none and will never be one.
    fn take(&mut self) -> Result<Option<*mut c_void>, Status> {
        let state = self.state();
        match state.items.pop_front() {
            None if state.closed => Err(Status::Closed),
            item => Ok(item),
        }
    }

    /// Waits on `condvar` with the guard released; holds it again afterwards.
    fn wait(&mut self, condvar: &Condvar, limits: &Limits<'_>) -> End {
        let registered = condvar.register();
        lock::unlock(&self.0.guard);
        let end = condvar.wait(registered, limits);
        lock::lock(&self.0.guard, &Limits::NONE);
        end
    }
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        lock::unlock(&self.0.guard);
    }
}

impl Channel {
    fn guard(&self) -> Guard<'_> {
        lock::lock(&self.guard, &Limits::NONE);
        Guard(self)
    }

    fn send(&self, item: *mut c_void, limits: &Limits<'_>) -> Result<(), Status> {
        let mut guard = self.guard();
        loop {
            let state = guard.state();
            if state.closed {
                return Err(Status::Closed);
            }
            if state.items.len() < state.capacity {
                state.items.push_back(item);
                break;
            }
            if guard.wait(&self.not_full, limits) != End::Woken {
                return Err(Status::TimedOut);
            }
        }
        drop(guard);
        self.not_empty.notify(1);
        self.watched.wake();
        Ok(())
    }

    fn receive(&self, limits: &Limits<'_>) -> Result<*mut c_void, Status> {
        let mut guard = self.guard();
        let item = loop {
            if let Some(item) = guard.take()? {
                break item;
            }
            if guard.wait(&self.not_empty, limits) != End::Woken {
                return Err(Status::TimedOut);
            }
        };
        drop(guard);
        self.not_full.notify(1);
        Ok(item)
    }

    /// Receives without waiting; `None` if there is nothing.
    fn try_receive(&self) -> Option<Result<*mut c_void, Status>> {
        let item = self.guard().take().transpose()?;
        if item.is_ok() {
            self.not_full.notify(1);
        }
        Some(item)
    }
}

fn limits(nanoseconds: i64) -> Limits<'static> {
    Limits { deadline: timeout(nanoseconds).map(Deadline::after), ..Limits::NONE }
}

fn null(function: &str) -> c_int {
    Failure::new(Status::Invalid, format!("{function}: a pointer is null")).report()
}

/// See `quaver.h`.
#[unsafe(no_mangle)]
pub extern "C" fn quaver_channel_new(capacity: usize) -> *mut Channel {
    if capacity == 0 {
        Failure::new(Status::Invalid, "quaver_channel_new: a capacity of 0").report();
        return core::ptr::null_mut();
    }
    Box::into_raw(Box::new(Channel {
        guard: AtomicU32::new(lock::FREE),
        state: UnsafeCell::new(State {
            items: VecDeque::with_capacity(capacity.min(1 << 16)),
            capacity,
            closed: false,
        }),
        not_empty: Condvar::default(),
        not_full: Condvar::default(),
        watched: Watched::new(),
    }))
}

/// See `quaver.h`.
///
/// # Safety
///
/// `channel` is null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quaver_channel_send(
    channel: *const Channel,
    item: *mut c_void,
    timeout: i64,
) -> c_int {
    // SAFETY: the caller's contract.
    let Some(channel) = (unsafe { channel.as_ref() }) else { return null("quaver_channel_send") };
    report(channel.send(item, &limits(timeout)))
}

/// See `quaver.h`.
///
/// # Safety
///
/// `channel` is null or valid, `item` writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quaver_channel_receive(
    channel: *const Channel,
    item: *mut *mut c_void,
    timeout: i64,
) -> c_int {
    // SAFETY: the caller's contract.
    let Some(channel) = (unsafe { channel.as_ref() }).filter(|_| !item.is_null()) else {
        return null("quaver_channel_receive");
    };
    // SAFETY: the caller's contract; not null.
    report(channel.receive(&limits(timeout)).map(|received| unsafe { item.write(received) }))
}

/// See `quaver.h`.
///
/// # Safety
///
/// `channel` is null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quaver_channel_close(channel: *const Channel) -> c_int {
    // SAFETY: the caller's contract.
    let Some(channel) = (unsafe { channel.as_ref() }) else { return null("quaver_channel_close") };
    channel.guard().state().closed = true;
    channel.not_empty.notify(u32::MAX);
    channel.not_full.notify(u32::MAX);
    channel.watched.wake();
    Status::Ok as c_int
}

/// See `quaver.h`.
///
/// # Safety
///
/// `channels` points to `count` valid channels; `token` is null or valid; `index` and `item` are
/// null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quaver_select(
    channels: *const *mut Channel,
    count: usize,
    token: *const CancelToken,
    timeout: i64,
    index: *mut usize,
    item: *mut *mut c_void,
) -> c_int {
    if channels.is_null() && count != 0 {
        return null("quaver_select");
    }
    // SAFETY: the caller's contract; a null pointer to channels is replaced.
    let (channels, token) = unsafe {
        let none = core::ptr::NonNull::dangling().as_ptr();
        let at = if count == 0 { none } else { channels.cast::<Option<&Channel>>() };
        (core::slice::from_raw_parts(at, count), token.as_ref())
    };
    let Some(channels) = channels.iter().copied().collect::<Option<Vec<&Channel>>>() else {
        return null("quaver_select");
    };
    let found = select(&channels, token, crate::runtime::timeout(timeout));
    let (place, received) = match found {
        Some(found) => found,
        None => (count, Err(Status::TimedOut)),
    };
    if !index.is_null() {
        // SAFETY: the caller's contract.
        unsafe { index.write(place) };
    }
    report(received.map(|received| {
        if !item.is_null() {
            // SAFETY: the caller's contract.
            unsafe { item.write(received) };
        }
    }))
}

/// The place of a channel with what it gave, or the place behind them for a token that was
/// cancelled.
fn select(
    channels: &[&Channel],
    token: Option<&CancelToken>,
    timeout: Option<Duration>,
) -> Option<(usize, Result<*mut c_void, Status>)> {
    /// Where the next one begins to look, so that no channel is always behind another.
    static TURN: AtomicUsize = AtomicUsize::new(0);
    let turn = TURN.fetch_add(1, Relaxed) % channels.len().max(1);
    let ready = || {
        if token.is_some_and(CancelToken::is_cancelled) {
            return Some((channels.len(), Err(Status::Cancelled)));
        }
        let places = (turn..channels.len()).chain(0..turn);
        places.filter_map(|i| Some((i, channels[i].try_receive()?))).next()
    };
    let watched = channels.iter().map(|channel| &channel.watched);
    let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    watch::wait(watched.chain(token.map(watch::token)), deadline, ready)
}

/// See `quaver.h`.
///
/// # Safety
///
/// `channel` is null, or came from `quaver_channel_new` and nobody uses it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quaver_channel_free(channel: *mut Channel) {
    if !channel.is_null() {
        // SAFETY: the caller's contract.
        drop(unsafe { Box::from_raw(channel) });
    }
}
