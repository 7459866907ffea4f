//! Calls of C on files in which a user thread may have to wait: what the functions that this crate
//! defines for Rust programs (`interpose::files`) and `quaver-shim` have in common.
//!
//! # How
//!
//! A call is an [`Operation`]. It is first tried in a form that does not wait (`MSG_DONTWAIT`,
//! `RWF_NOWAIT`, a timeout of 0). If it would have to wait, the thread parks until the reactor says
//! that the file may be ready ([`reactor::wait_foreign`]), and it is tried again ([`park`]). What
//! the reactor cannot wait for blocks in the kernel ([`Operation::block`]).
//!
//! Who makes the calls is a [`Caller`]: signals, cancellation and the way to block in the kernel
//! are its affair.
//!
//! What is known of a file's events when it is tried ([`Tried`]) may tell that a try would have to
//! wait, and spares the file from being armed for each wait.
//!
//! # Files that are closed meanwhile
//!
//! In the kernel a call that waits keeps its file, whatever becomes of the descriptor. Here nothing
//! is in the kernel. So those that wait stand in a table (`waiting`); whoever closes or replaces
//! their descriptor gives each of them a duplicate first ([`descriptors`]), and it goes on with
//! that. A call that starts again after a handler looks its descriptor up again, as in the kernel.
//!
//! # Readiness that is none
//!
//! `poll` may say that a file is ready although a call would wait: a full queue of a datagram
//! socket that is not connected, an eventfd with too little room. After a few times in a row the
//! thread blocks in the kernel.

mod connection;
pub mod descriptors;
mod many;
mod receive;
mod selection;
mod send;
mod several;
mod waiting;

pub use connection::{accept, connect};
pub use many::{Epoll, Span, epoll_wait, poll};
pub use receive::{read, receive};
pub(crate) use selection::Sets;
pub use selection::select;
pub use send::{send_message, send_to, write};
pub use several::{receive_several, send_several};
pub(crate) use waiting::forget_all;

use crate::deadline::Deadline;
use crate::os::pages::Pages;
use crate::overlay;
use crate::preempt;
use crate::reactor::{self, Direction, FileWait, Seen, Wanted, heard};
use crate::thread::raw;
use core::ffi::{c_int, c_long};
use core::mem::MaybeUninit;
use std::time::Duration;
use waiting::{Entered, WaitEntries, WaitEntry};

/// The result of an attempt that would have to wait.
pub const WOULD_WAIT: isize = isize::MIN;

pub(crate) const EAGAIN: isize = -(libc::EAGAIN as isize);
const EINTR: isize = -(libc::EINTR as isize);

/// For how many files there is room on a stack. More take memory from the kernel.
const MANY: usize = reactor::MOST;
/// How often a file may be ready in vain before the call blocks in the kernel.
const VAIN: u32 = 4;

/// How long a call waits.
#[derive(Clone, Copy, Debug)]
pub enum Patience {
    /// For ever.
    Endless,
    /// Until then.
    Until(Deadline),
    /// As this option of the socket says: `SO_RCVTIMEO` or `SO_SNDTIMEO`.
    OfSocket(c_int),
}

/// Who makes calls.
pub trait Caller: Copy {
    /// Makes a system call of the program's, whose arguments are the program's own.
    fn call(self, number: c_long, arguments: [usize; 6]) -> isize;

    /// Performs an operation, and waits where it has to. `restarts`: handlers with `SA_RESTART` do
    /// not end it. The result is the kernel's.
    fn perform(self, restarts: bool, operation: &mut impl Operation) -> isize;
}

/// A call that may have to wait. Results are the kernel's: negative errors.
pub trait Operation {
    /// Tries without waiting; [`WOULD_WAIT`]. `EINTR`: it may be tried again.
    fn first(&mut self) -> isize;

    /// The same with these descriptors, in the order of [`wanted`](Self::wanted), which may be
    /// others than the program's by now.
    fn attempt(&mut self, files: &[i32]) -> isize;

    /// How many files it waits for; `usize::MAX`: it must block in the kernel.
    fn count(&self) -> usize {
        1
    }

    /// Does it ask for something to do: data, a connection, an event?
    fn asks(&self) -> bool {
        true
    }

    /// May a try transfer a part? Then the call has begun for all to see, and keeps its file from
    /// before the first try on: [`park`] makes that.
    fn keeps_file(&self) -> bool {
        false
    }

    /// Writes down what it waits for, [`count`](Self::count) entries.
    fn wanted(&self, wanted: &mut [Wanted]);

    /// Of one that waits for one file: what was known of it at the last try.
    fn tried(&self) -> Tried {
        Tried::NOTHING
    }

    /// How long.
    fn patience(&self) -> Patience;

    /// Makes the call in the kernel, where it waits. `again`: not for the first time. `broken`: has
    /// a handler of the program ended it? An error is not yet what the call comes to:
    /// [`end`](Self::end).
    fn block(&mut self, again: bool, broken: &dyn Fn() -> bool) -> isize;

    /// How much has been transferred.
    fn progress(&self) -> usize {
        0
    }

    /// What the call returns if it ends with this error: a part may have been transferred.
    fn end(&self, error: isize) -> isize {
        error
    }

    /// What it returns when its time is over.
    fn timed_out(&self) -> isize {
        self.end(EAGAIN)
    }
}

/// A file on which an operation was tried, and what was known of it before.
#[derive(Clone, Copy, Debug)]
pub struct Tried {
    fd: i32,
    seen: Seen,
}

impl Tried {
    const NOTHING: Tried = Tried { fd: -1, seen: Seen::Nothing };

    /// About to be.
    fn now(fd: i32, direction: Direction) -> Tried {
        Tried { fd, seen: heard::look(fd, direction) }
    }

    /// Has all been read that had come?
    fn is_drained(self) -> bool {
        heard::is_drained(self.fd, self.seen)
    }

    /// It would have to wait, and so would others until there is another event.
    fn is_empty(self) {
        heard::is_empty(self.fd, self.seen);
    }

    /// A read that takes what it returns has returned this, `wanted` bytes at most.
    fn has_read(self, got: isize, wanted: impl FnOnce() -> usize) {
        if let (Seen::Events(_), Ok(got)) = (self.seen, usize::try_from(got)) {
            heard::has_read(self.fd, self.seen, got, wanted());
        }
    }
}

/// How a call ended, or why not.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Parked {
    /// With this result.
    Done(isize),
    /// Its time is over.
    TimedOut,
    /// It was interrupted, and must be tried again with the program's descriptors.
    Interrupted,
    /// It must block in the kernel.
    Impossible,
}

/// When a call's patience ends, and whether that is said by an option of its socket: then handlers
/// always end it (`signal(7)`).
pub fn deadline(operation: &impl Operation) -> (Option<Deadline>, bool) {
    match operation.patience() {
        Patience::Endless => (None, false),
        Patience::Until(at) => (Some(at), false),
        Patience::OfSocket(option) => {
            let mut file = [Wanted::new(-1, 0)];
            operation.wanted(&mut file);
            let at = heard::timeout_of(file[0].fd, option).map(Deadline::after);
            (at, at.is_some())
        }
    }
}

/// The operation has come to this without waiting, and [`at_call`](preempt::at_call) has said
/// before that the turn was over.
pub fn has_not_waited(operation: &impl Operation, result: isize) {
    if result > 0 && operation.asks() {
        preempt::has_got();
    }
}

/// May the caller wait as a user thread? Not on kernel threads, not in a handler that has
/// interrupted the runtime, and not where the worker has been given away already.
#[inline]
pub fn can_park() -> bool {
    raw::current().is_some_and(|t| t.no_preempt.get() == 0 && t.blocking.get() == 0)
}

/// Waits as a user thread, and tries the operation whenever that may help; before it waits for the
/// first time as well if the operation [keeps its file](Operation::keeps_file). `deadline` is asked
/// when it has to wait; an error: it must not. `interrupted` is asked before the thread sleeps and
/// whenever it has been woken.
pub fn park<O: Operation>(
    operation: &mut O,
    deadline: impl FnOnce(&O) -> Result<Option<Deadline>, CannotWait>,
    interrupted: &dyn Fn() -> bool,
) -> Parked {
    match operation.count() {
        _ if !can_park() => Parked::Impossible,
        0 | 1 => park_for::<1, O>(operation, deadline, interrupted),
        2..=MANY => park_for::<MANY, O>(operation, deadline, interrupted),
        usize::MAX => Parked::Impossible,
        count => {
            let pages = (Pages::new(count), Pages::new(count), Pages::new(count));
            let (Some(mut entries), Some(mut wanted), Some(mut numbers)) = pages else {
                return Parked::Impossible;
            };
            let room = WaitRoom {
                entries: entries.places(),
                wanted: write_all(wanted.places(), NOTHING),
                numbers: write_all(numbers.places(), -1),
            };
            park_in(room, operation, deadline, interrupted)
        }
    }
}

/// The caller must not wait here.
#[derive(Clone, Copy, Debug)]
pub struct CannotWait;

const NOTHING: Wanted = Wanted { fd: -1, events: 0, seen: Seen::Nothing };

/// Fills places with a value.
fn write_all<T: Copy>(places: &mut [MaybeUninit<T>], value: T) -> &mut [T] {
    places.iter_mut().for_each(|place| _ = place.write(value));
    // SAFETY: all have been written.
    unsafe { places.assume_init_mut() }
}

/// What it takes to wait for as many files as these are long.
struct WaitRoom<'a> {
    entries: &'a mut [MaybeUninit<WaitEntry>],
    wanted: &'a mut [Wanted],
    numbers: &'a mut [i32],
}

fn park_for<const N: usize, O: Operation>(
    operation: &mut O,
    deadline: impl FnOnce(&O) -> Result<Option<Deadline>, CannotWait>,
    interrupted: &dyn Fn() -> bool,
) -> Parked {
    // A call on no files waits for its end all the same.
    let count = operation.count().max(1);
    let (mut wanted, mut numbers) = ([NOTHING; N], [-1; N]);
    let room = WaitRoom {
        entries: &mut [const { MaybeUninit::uninit() }; N],
        wanted: &mut wanted[..count],
        numbers: &mut numbers,
    };
    park_in(room, operation, deadline, interrupted)
}

fn park_in<O: Operation>(
    room: WaitRoom<'_>,
    operation: &mut O,
    deadline: impl FnOnce(&O) -> Result<Option<Deadline>, CannotWait>,
    interrupted: &dyn Fn() -> bool,
) -> Parked {
    let WaitRoom { entries, wanted, numbers } = room;
    operation.wanted(wanted);
    let entries = WaitEntries::new(entries, wanted);
    let waiting = entries.enter();
    if operation.keeps_file()
        && let Some(end) = try_twice(operation, &waiting, numbers, interrupted)
    {
        return end;
    }
    let Ok(deadline) = deadline(operation) else { return Parked::Impossible };
    let mut vain = 0;
    loop {
        if operation.count() > wanted.len() || !waiting.update(wanted) {
            return Parked::Impossible;
        }
        if let [file] = wanted {
            let tried = operation.tried();
            file.seen = if tried.fd == file.fd { tried.seen } else { Seen::Nothing };
        }
        let wanted = &*wanted;
        let look_up = || interrupted() || waiting.has_moved(wanted);
        match reactor::wait_foreign(wanted, deadline.map(Deadline::at), look_up) {
            FileWait::Ready => {}
            FileWait::TimedOut => return Parked::TimedOut,
            // Its number has gone meanwhile.
            FileWait::Impossible if waiting.has_moved(wanted) => continue,
            FileWait::Impossible => return Parked::Impossible,
            FileWait::Interrupted if interrupted() => return Parked::Interrupted,
            FileWait::Interrupted => continue,
        }
        let before = operation.progress();
        if let Some(end) = try_held(operation, &waiting, numbers, interrupted) {
            return end;
        }
        vain = match wanted {
            _ if operation.progress() > before => 0,
            [file] if is_ready(file.fd, file.events) => vain + 1,
            _ => 0,
        };
        if vain == VAIN {
            return Parked::Impossible;
        }
    }
}

/// Tries with the descriptors that the file has now, which stay meanwhile.
fn try_held<O: Operation>(
    operation: &mut O,
    waiting: &Entered<'_>,
    numbers: &mut [i32],
    interrupted: &dyn Fn() -> bool,
) -> Option<Parked> {
    loop {
        let held = waiting.hold(numbers);
        match operation.attempt(held.files()) {
            WOULD_WAIT => return None,
            // Or by a signal of the runtime's.
            EINTR if interrupted() => return Some(Parked::Interrupted),
            EINTR => {}
            result => return Some(Parked::Done(result)),
        }
    }
}

/// Tries; if it would have to wait, others run before it is tried again: they may be the ones that
/// are waited for.
fn try_twice<O: Operation>(
    operation: &mut O,
    waiting: &Entered<'_>,
    numbers: &mut [i32],
    interrupted: &dyn Fn() -> bool,
) -> Option<Parked> {
    let first = try_held(operation, waiting, numbers, interrupted);
    if first.is_some() || !raw::try_yield_before_wait() {
        return first;
    }
    try_held(operation, waiting, numbers, interrupted)
}

/// Is the file ready, or in error? Also if there is none.
fn is_ready(fd: i32, events: i16) -> bool {
    look(fd, events) != 0
}

/// What `poll` says of a file.
fn look(fd: i32, events: i16) -> i16 {
    overlay::poll_one(fd, events, Some(Duration::ZERO)).unwrap_or(0)
}

/// Does a call on a file wait? Asked when it is first of interest.
#[derive(Clone, Copy, Debug)]
enum Waits {
    Unknown,
    No,
    Yes,
}

impl Waits {
    /// Those of a call with these flags.
    fn unless(never: bool) -> Waits {
        if never { Waits::No } else { Waits::Unknown }
    }

    fn on(&mut self, fd: i32) -> bool {
        if let Waits::Unknown = self {
            *self = if heard::is_nonblocking(fd) { Waits::No } else { Waits::Yes };
        }
        matches!(self, Waits::Yes)
    }

    /// What a call that says `EAGAIN` comes to.
    fn refused(&mut self, fd: i32) -> isize {
        if self.on(fd) { WOULD_WAIT } else { EAGAIN }
    }
}

/// Calls of a program whose signals are the kernel's affair.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plain;

impl Caller for Plain {
    fn call(self, number: c_long, arguments: [usize; 6]) -> isize {
        // SAFETY: the program's own arguments.
        unsafe { overlay::call_or_kernel(number, arguments) }
    }

    fn perform(self, _: bool, operation: &mut impl Operation) -> isize {
        let turn_is_over = preempt::at_call();
        if !operation.keeps_file() {
            let result = try_plainly(operation);
            if turn_is_over {
                has_not_waited(operation, result);
            }
            if result != WOULD_WAIT {
                return result;
            }
        }
        match park(operation, |operation| Ok(deadline(operation).0), &|| false) {
            Parked::Done(result) => result,
            Parked::TimedOut => operation.timed_out(),
            Parked::Interrupted | Parked::Impossible => {
                let result = operation.block(false, &|| false);
                if result < 0 { operation.end(result) } else { result }
            }
        }
    }
}

fn try_plainly(operation: &mut impl Operation) -> isize {
    let mut has_yielded = false;
    loop {
        match operation.first() {
            // Even what does not wait says so when a signal comes with it.
            EINTR => {}
            WOULD_WAIT if !has_yielded && raw::try_yield_before_wait() => has_yielded = true,
            result => return result,
        }
    }
}
