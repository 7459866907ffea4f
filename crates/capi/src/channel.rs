//! Bounded channels of pointers, for any number of senders and receivers.

use crate::report;
use crate::runtime::timeout;
use crate::status::{Failure, Status};
use core::cell::UnsafeCell;
use core::ffi::{c_int, c_void};
use core::sync::atomic::AtomicU32;
use quaver::foreign::condvar::Condvar;
use quaver::foreign::futex::{Deadline, End, Limits};
use quaver::foreign::lock;
use std::collections::VecDeque;

/// `quaver_channel`.
pub struct Channel {
    guard: AtomicU32,
    state: UnsafeCell<State>,
    not_empty: Condvar,
    not_full: Condvar,
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
        Ok(())
    }

    fn receive(&self, limits: &Limits<'_>) -> Result<*mut c_void, Status> {
        let mut guard = self.guard();
        let item = loop {
            let state = guard.state();
            if let Some(item) = state.items.pop_front() {
                break item;
            }
            if state.closed {
                return Err(Status::Closed);
            }
            if guard.wait(&self.not_empty, limits) != End::Woken {
                return Err(Status::TimedOut);
            }
        };
        drop(guard);
        self.not_full.notify(1);
        Ok(item)
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
    Status::Ok as c_int
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
