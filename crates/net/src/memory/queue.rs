//! One direction of a wire.

use super::Wire;
use super::faults::{Dice, Faults};
use crate::clock::Clock;
use crate::lock::Lock;
use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// Frames on their way, and where they go.
#[derive(Debug)]
pub(super) struct Direction {
    state: Lock<State>,
    /// One for each queue, readable while it may have frames.
    events: Vec<OwnedFd>,
    clock: Clock,
}

#[derive(Debug)]
struct State {
    queues: Vec<Queue>,
    faults: Faults,
    capacity: usize,
    dice: Dice,
    /// Frames that have been sent, by which those that arrive at the same time are ordered.
    sent: u64,
    /// Buffers of frames that have been received.
    spare: Vec<Vec<u8>>,
}

#[derive(Default, Debug)]
struct Queue {
    /// By the time of arrival in microseconds.
    frames: BTreeMap<(u64, u64), Vec<u8>>,
    /// The queue's event has been signalled since it was last found empty.
    signalled: bool,
}

impl Direction {
    pub(super) fn new(wire: &Wire, seed: u64) -> io::Result<Direction> {
        let state = State {
            queues: (0..wire.queues).map(|_| Queue::default()).collect(),
            faults: wire.faults,
            capacity: wire.capacity,
            dice: Dice::new(seed),
            sent: 4,
            spare: Vec::new(),
        };
        let events = (0..wire.queues).map(|_| event()).collect::<io::Result<_>>()?;
        Ok(Direction { state: Lock::new(state), events, clock: wire.clock.clone() })
    }

    /// A frame is sent.
    pub(super) fn send(&self, frame: &[u8]) {
        let now = self.clock.now();
        let mut locked = self.state.lock();
        let state = &mut *locked;
        let faults = state.faults;
        if state.dice.falls(faults.loss) {
            return;
        }
        let copies = 1 + usize::from(state.dice.falls(faults.duplication));
        for _ in 0..copies {
            let queue = steer(frame, state.queues.len());
            if state.put(queue, frame, now, self.clock.is_simulated()) {
                self.signal(state, queue);
            }
        }
    }

    fn signal(&self, state: &mut State, queue: usize) {
        if self.clock.is_simulated() || std::mem::replace(&mut state.queues[queue].signalled, true)
        {
            return;
        }
        let one = 1u64.to_ne_bytes();
        // SAFETY: eight bytes that are read during the call.
        unsafe { libc::write(self.events[queue].as_raw_fd(), one.as_ptr().cast(), 8) };
    }

    /// Takes the next frame that has arrived into `buffer`. `false`: there is none.
    pub(super) fn receive(&self, queue: usize, buffer: &mut Vec<u8>) -> bool {
        let now = self.clock.now();
        let mut locked = self.state.lock();
        let state = &mut *locked;
        let from = &mut state.queues[queue];
        if let Some(first) = from.frames.first_entry().filter(|first| first.key().0 <= now) {
            state.spare.push(std::mem::replace(buffer, first.remove()));
            return true;
        }
        if std::mem::take(&mut from.signalled) {
            let mut count = [0u8; 8];
            // SAFETY: eight bytes that are written during the call.
            unsafe { libc::read(self.events[queue].as_raw_fd(), count.as_mut_ptr().cast(), 8) };
        }
        false
    }

    /// When the next frame arrives that is on its way to this queue.
    pub(super) fn next_arrival(&self, queue: usize) -> Option<u64> {
        self.state.lock().queues[queue].frames.first_key_value().map(|(&(at, _), _)| at)
    }

    pub(super) fn set_faults(&self, faults: Faults) {
        self.state.lock().faults = faults;
    }

    pub(super) fn event(&self, queue: usize) -> Option<BorrowedFd<'_>> {
        (!self.clock.is_simulated()).then(|| self.events[queue].as_fd())
    }
}

impl State {
    /// Puts a frame into a queue. `false`: it is full.
    fn put(&mut self, queue: usize, frame: &[u8], now: u64, simulated: bool) -> bool {
        if self.queues[queue].frames.len() >= self.capacity {
            return false;
        }
        let mut bytes = self.spare.pop().unwrap_or_default();
        bytes.clear();
        bytes.extend_from_slice(frame);
        if self.dice.falls(self.faults.corruption) {
            let at = self.dice.below(bytes.len());
            bytes[at] ^= 1 << self.dice.below(8);
        }
        let mut at = if simulated { now + self.faults.delay.as_micros() as u64 } else { 0 };
        let mut order = self.sent;
        self.sent += 2;
        if self.dice.falls(self.faults.reordering) {
            if simulated {
                at += (self.faults.delay.as_micros() as f64 * 10.0 * self.dice.fraction()) as u64;
            } else {
                order = order.saturating_sub(3);
            }
        }
        self.queues[queue].frames.insert((at, order), bytes);
        true
    }
}

/// The queue for a frame. The same for both directions of a connection, whose 4-tuples are each
/// other's mirror images; frames that are neither TCP nor UDP go to the first.
fn steer(frame: &[u8], queues: usize) -> usize {
    let [0x08, 0x00, 0x45, ..] = frame.get(12..).unwrap_or_default() else { return 0 };
    let Some(bytes) = frame.get(23..38) else { return 0 };
    if queues == 1 || ![6, 17].contains(&bytes[0]) {
        return 0;
    }
    let word = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap());
    let ports = word(11);
    let mixed = u64::from(word(3) ^ word(7)) << 16 | u64::from((ports >> 16 ^ ports) & 0xffff);
    (mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33) as usize % queues
}

fn event() -> io::Result<OwnedFd> {
    // SAFETY: takes no pointer.
    match unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) } {
        // SAFETY: a new descriptor, which nobody else knows.
        fd @ 0.. => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(io::Error::last_os_error()),
    }
}
