//! The steps of which programs are made.

mod cancel;
mod files;
mod interrupt;
mod locks;
mod messages;
mod signals;
mod sockets;
mod threads;
mod waits;

use super::program::{Builder, Chain};
use crate::torture::Rng;

type Step = fn(&mut Chain<'_>);

/// Signals: standard ones, and some that queue.
const STANDARD: [i64; 5] = [10, 12, 28, 29, 14];
const QUEUED: [i64; 4] = [36, 37, 40, 50];

/// All steps, and how often each is chosen.
const ALL: [(&str, Step, u64); 60] = [
    ("mutex", locks::mutex, 4),
    ("contended mutex", locks::contended_mutex, 3),
    ("robust mutex", locks::robust, 3),
    ("libc's own mutex", locks::libc_mutex, 2),
    ("read-write lock", locks::rwlock, 3),
    ("contended read-write lock", locks::contended_rwlock, 2),
    ("spin lock", locks::spin, 1),
    ("barrier", locks::barrier, 2),
    ("condition", waits::condition, 3),
    ("condition that times out", waits::timeout, 2),
    ("turns by a condition", waits::pong, 2),
    ("semaphore", waits::semaphore, 2),
    ("turns by semaphores", waits::semaphore_pong, 2),
    ("once", waits::once, 1),
    ("sleep", waits::sleep, 1),
    ("futex", waits::futex, 2),
    ("signal that is pending", signals::pending, 3),
    ("signal that is allowed", signals::allowed, 3),
    ("signal to the process", signals::process, 3),
    ("signal that is waited for", signals::waited_for, 3),
    ("sigsuspend", signals::suspend, 2),
    ("signal raised", signals::raise, 2),
    ("dispositions", signals::dispositions, 1),
    ("alternate stack", signals::alternate, 1),
    ("inherited mask", signals::inherited, 1),
    ("queued signals", signals::queued, 2),
    ("interrupted call", interrupt::interrupted, 3),
    ("call that goes on", interrupt::restarted, 1),
    ("wait with a mask", interrupt::masked, 4),
    ("handler during a wait", interrupt::handler_in_wait, 2),
    ("timer", interrupt::timer, 2),
    ("timerfd", interrupt::timerfd, 2),
    ("blocking read", files::blocking_read, 3),
    ("stream", files::stream, 2),
    ("non-blocking", files::nonblocking, 2),
    ("ready", files::ready, 3),
    ("eventfd", files::eventfd, 2),
    ("sockets", files::sockets, 2),
    ("connection", sockets::connection, 3),
    ("acceptors", sockets::acceptors, 2),
    ("all of it", sockets::whole, 2),
    ("lost descriptor", sockets::lost, 3),
    ("replaced descriptor", sockets::replaced, 3),
    ("several files", sockets::several, 2),
    ("shared epoll", sockets::shared_epoll, 2),
    ("several datagrams", messages::datagrams, 3),
    ("several messages of a stream", messages::streams, 2),
    ("questions to sockets", messages::questions, 2),
    ("full queue of a listener", messages::backlog, 2),
    ("many files", messages::crowd, 2),
    ("shared offset", files::records, 1),
    ("file", files::file, 1),
    ("lines", files::lines, 1),
    ("cancelled wait", cancel::waits, 3),
    ("cancelled computation", cancel::computes, 1),
    ("cancelled later", cancel::later, 2),
    ("thread", threads::thread, 3),
    ("keys", threads::keys, 1),
    ("crowds", threads::crowds, 3),
    ("computation", threads::compute, 3),
];

fn choose(seed: u64) -> &'static (&'static str, Step, u64) {
    let mut rest = Rng(!seed).below(ALL.iter().map(|s| s.2).sum());
    for step in &ALL {
        if rest < step.2 {
            return step;
        }
        rest -= step.2;
    }
    &ALL[0]
}

/// Adds the step of this seed.
pub(super) fn add(builder: &mut Builder, seed: u64) {
    choose(seed).1(&mut Chain::new(builder, seed));
}

/// The name of the step of this seed.
pub(super) fn name(seed: u64) -> &'static str {
    choose(seed).0
}

/// A wait of `thread` that something else ends: the operation and its arguments, and who ends it
/// how. Objects are made by `by`.
struct Wait {
    name: &'static str,
    arguments: Vec<i64>,
    release: (&'static str, Vec<i64>),
    /// Then `EINTR` is what a handler makes of it.
    breaks: bool,
}

/// One of the calls that wait for ever.
fn any_wait(c: &mut Chain<'_>, by: usize) -> Wait {
    let o = c.object();
    let wait = |name, arguments: &[i64], release, with: &[i64], breaks| Wait {
        name,
        arguments: arguments.into(),
        release: (release, with.into()),
        breaks,
    };
    match c.rng.below(12) {
        0 => {
            c.step(by, "sem_init", &[o, 0]);
            wait("sem_wait", &[o], "sem_post", &[o, 1], true)
        }
        1 => {
            c.step(by, "sem_init", &[o, 0]);
            let clock = c.pick(&[0, 1]);
            wait("sem_timedwait", &[o, 600_000, clock], "sem_post", &[o, 1], true)
        }
        2 => {
            c.step(by, "pipe", &[o, 0, 0]);
            wait("read", &[o, 0, 100, 0], "write", &[o, 1, 40, 0, 5], true)
        }
        3 => {
            c.step(by, "eventfd", &[o, 0, 0, 0]);
            wait("eventfd_get", &[o], "eventfd_add", &[o, 3], true)
        }
        4 | 5 => {
            c.step(by, "pipe", &[o, 0, 0]);
            let how = c.pick(&[0, 1, 2, 3, 4, 5]);
            let ms = c.pick(&[-1, 600_000]);
            wait("wait_fd", &[how, o, 0, 1, ms, 0], "write", &[o, 1, 1, 0, 5], true)
        }
        6 => {
            c.step(by, "sockets", &[o, 0]);
            let how = c.pick(&[0, 1, 2, 4]);
            wait("read", &[o, 0, 100, how], "write", &[o, 1, 40, 2, 5], true)
        }
        7 => {
            let p = c.object();
            c.step(by, "listen", &[o]);
            wait("accept", &[p, o, 0], "connect", &[p, o], true)
        }
        8 => {
            c.step(by, "sockets", &[o, 0]);
            wait("recv_all", &[o, 0, 40], "write", &[o, 1, 40, 2, 5], true)
        }
        9 => {
            c.step(by, "udp", &[o]);
            wait("recv_several", &[o, 0, 1, 64, 0, -1], "write", &[o, 1, 40, 2, 5], true)
        }
        10 => {
            let m = c.object();
            let kind = c.pick(&[0, 1, 2]);
            c.step(by, "mutex_init", &[m, kind, 0, 0, 0]);
            c.step(by, "cond_init", &[o, 0]);
            wait("cond_await", &[o, m, 1], "cond_set", &[o, m, 1, 1, 0], false)
        }
        _ => {
            c.step(by, "pipe", &[o, 0, 0]);
            wait("line_get", &[o], "line_put", &[o, 17], false)
        }
    }
}
