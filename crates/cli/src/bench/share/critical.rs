//! The latency-critical server: one worker, and how it waits for requests.

use std::sync::atomic::Ordering::{Acquire, Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, fence};
use std::sync::mpsc::{Receiver, SendError, Sender, channel};
use std::time::Duration;

use quaver_bench_common::client::Answers;
use quaver_share::{Doors, Rest};
use rustix::thread::futex;

use quaver_validate::real::{Speed, turn};

/// How the worker waits.
pub enum Waiting<'a> {
    /// It spins.
    Spin,
    /// It sleeps at once; 1 while it does.
    Futex(AtomicU32),
    /// It gives its core up to best-effort applications.
    Bell {
        /// The bells.
        doors: &'a Doors,
        /// The core.
        place: usize,
    },
}

/// Requests on their way, and who waits for them.
pub struct Server<'a> {
    waiting: Waiting<'a>,
    sent: AtomicU64,
    closed: AtomicBool,
}

/// No sleep is longer: where a wake-up is lost that is a fault, and seen in the latencies.
const LIMIT: Duration = Duration::from_secs(1);

impl<'a> Server<'a> {
    /// Without requests; the client's end, and the worker's.
    pub fn new(waiting: Waiting<'a>) -> (Server<'a>, Sender<u64>, Receiver<u64>) {
        let (to, from) = channel();
        (Server { waiting, sent: AtomicU64::new(0), closed: AtomicBool::new(false) }, to, from)
    }

    /// A request of the client's.
    pub fn send(&self, to: &Sender<u64>, id: u64) -> Result<(), SendError<u64>> {
        let sent = to.send(id);
        self.sent.fetch_add(1, SeqCst);
        self.ring();
        sent
    }

    /// The worker ends when it has served everything.
    pub fn close(&self) {
        self.closed.store(true, SeqCst);
        self.ring();
    }

    fn ring(&self) {
        match &self.waiting {
            Waiting::Spin => {}
            Waiting::Futex(word) => {
                fence(SeqCst);
                if word.load(Relaxed) == 1 && word.swap(0, SeqCst) == 1 {
                    let _ = futex::wake(word, futex::Flags::PRIVATE, 1);
                }
            }
            Waiting::Bell { doors, place } => drop(doors.ring(*place)),
        }
    }

    /// The worker, which is the calling thread.
    pub fn work(&self, from: Receiver<u64>, service: Duration, speed: Speed, answers: &Answers) {
        let turns = speed.turns(service);
        let mut rest = match &self.waiting {
            Waiting::Bell { doors, .. } => Some(Rest::new(doors)),
            _ => None,
        };
        let mut served = 0;
        loop {
            if let Ok(id) = from.try_recv() {
                turn(turns);
                answers.complete(id);
                served += 1;
                continue;
            }
            let has_work = || self.sent.load(SeqCst) != served || self.closed.load(Acquire);
            if !has_work() {
                self.wait(&mut rest, has_work);
            } else if self.sent.load(SeqCst) == served {
                return;
            }
        }
    }

    fn wait(&self, rest: &mut Option<Rest>, has_work: impl Fn() -> bool) {
        match (&self.waiting, rest) {
            (Waiting::Bell { doors, place }, Some(rest)) => {
                rest.wait(doors, *place, has_work, Some(LIMIT));
            }
            (Waiting::Futex(word), _) => {
                word.store(1, Relaxed);
                fence(SeqCst);
                if !has_work() {
                    let limit = LIMIT.try_into().expect("a second");
                    let _ = futex::wait(word, futex::Flags::PRIVATE, 1, Some(&limit));
                }
                word.store(0, Relaxed);
            }
            _ => std::hint::spin_loop(),
        }
    }
}
