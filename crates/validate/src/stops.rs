//! When the worker's CPU did nothing for the worker, although it had a request to serve: the kernel
//! ran others there, or the host of a virtual machine did, or an interrupt took long.
//!
//! The requests themselves are the witnesses. Each is served in pieces of known length, between
//! which it looks at the clock. A piece that took longer by its own length was stopped for so long,
//! unless another request had its turn meanwhile ([`Turns`]), or the runtime has interrupted it for
//! nothing, which its counters say: a *look*. So nothing that the runtime does to a request is
//! mistaken for a stop, and no other program or thread has to run beside it to see them.
//!
//! Long stops seldom end like that: others come meanwhile, a preemption is asked for, and it is the
//! first thing that happens when the worker goes on; or the worker was asleep, and is late to
//! begin. So these times are watched, too, and what goes beyond the usual is a stop:
//!
//! | from | to | usual |
//! |---|---|---|
//! | the last reading of a turn that was preempted | the next turn | [`is_usual`] |
//! | the piece should have ended that met a look | its end | [`is_usual`] |
//! | when a request was sent that found the worker asleep | its first turn | [`is_usual`] |
//! | the end of a request beside which another waits | that one's next turn | the price of a request |
//!
//! What is usual of the first three is what they cost: prices that differ from one occurrence to
//! the next, and are told to the simulator as such.
//!
//! [`is_usual`]: super::spans::is_usual

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use quaver::Handle;

use super::median;
use super::real::{Speed, turn};
use super::spans::Spans;
pub use super::stop::{Stop, Stops, Summary};
use super::turns::Turns;

/// How long a piece is, about.
pub const PIECE: Duration = Duration::from_micros(4);
/// A worker that has had nothing to do for so long is asleep when work comes.
pub const SPIN: Duration = Duration::from_micros(20);
/// So many waits behind others say what a request costs.
const ENOUGH: usize = 20;
/// How many numbers of turns are told apart.
const NUMBERS: u64 = 1 << 24;

/// What the requests of one run have seen.
#[derive(Debug)]
pub struct Witness {
    turns: Turns,
    /// How often the worker was interrupted, and how often until a request looked last.
    count: Count,
    counted: AtomicU64,
    watched_ns: AtomicU64,
    /// Of the pieces that nothing disturbed, but for the first of each turn: how long they took
    /// and should have.
    took_ns: AtomicU64,
    should_ns: AtomicU64,
    epoch: Instant,
    /// The last reading of the clock in the turn under way, with its number; 0 when a request has
    /// ended.
    last: AtomicU64,
    /// When a request has ended.
    ended_ns: AtomicU64,
    /// Pieces that took longer than their length.
    pieces: Spans,
    /// By how much the first piece of a request, for which no cache is warm, took longer.
    entries: Spans,
    /// What interruptions for nothing took.
    looks: Spans,
    /// Turns that were preempted.
    preempted: Spans,
    /// Those of them whose requests had been preempted before.
    again: Spans,
    /// Between two turns, of which the first was preempted.
    gaps: Spans,
    /// Between a request's end and the first turn of one that waited.
    waits: Spans,
    /// Between a request's end and the next turn of one that was preempted.
    resumptions: Spans,
    /// The same, in which the worker was interrupted for nothing.
    held_up: Spans,
    /// Until the first turn of one that found the worker asleep.
    starts: Spans,
}

impl Default for Witness {
    fn default() -> Self {
        Witness {
            turns: Turns::default(),
            count: Count(Box::new(|| 0)),
            counted: AtomicU64::new(0),
            watched_ns: AtomicU64::new(0),
            took_ns: AtomicU64::new(0),
            should_ns: AtomicU64::new(0),
            epoch: Instant::now(),
            last: AtomicU64::new(0),
            ended_ns: AtomicU64::new(0),
            pieces: Spans::default(),
            entries: Spans::default(),
            looks: Spans::default(),
            preempted: Spans::default(),
            again: Spans::default(),
            gaps: Spans::default(),
            waits: Spans::default(),
            resumptions: Spans::default(),
            held_up: Spans::default(),
            starts: Spans::default(),
        }
    }
}

impl Witness {
    /// Of requests on this runtime.
    pub fn of(runtime: Handle) -> Witness {
        let count = Count(Box::new(move || runtime.stats().preempt_received));
        Witness { count, ..Witness::default() }
    }

    /// How often the worker was interrupted since this was called last.
    fn interruptions(&self) -> u64 {
        let now = (self.count.0)();
        // Another request may have looked later, where this one was preempted in between.
        now.saturating_sub(self.counted.fetch_max(now, Relaxed))
    }

    /// One that waited has its turn, after another's end.
    fn waited(&self, usual: &Spans, from: u64, to: u64) {
        let spans = if self.interruptions() > 0 { &self.held_up } else { usual };
        spans.push(from, to);
    }

    /// A loop that takes as long as this at that speed, on the calling thread: a request that was
    /// sent then.
    pub fn serve(&self, sent: Instant, time: Duration, speed: Speed) {
        let waited = self.last.load(Relaxed) == 0;
        let first = self.begins();
        if waited {
            let (sent, ended) = (self.since_epoch(sent), self.ended_ns.load(Relaxed));
            let asleep = ended == 0 || sent.saturating_sub(ended) > SPIN.as_nanos() as u64;
            let (from, to) = (ended.max(sent), self.since_epoch(first.1));
            if asleep { self.starts.push(from, to) } else { self.waited(&self.waits, from, to) }
        }
        self.watch(first, speed.turns(time), speed.turns(PIECE));
    }

    /// A loop of so many turns, of which `piece` take as long as a piece.
    pub fn pieces(&self, turns: u64, piece: u64) {
        self.watch(self.begins(), turns, piece);
    }

    fn watch(&self, first: (u64, Instant), turns: u64, piece: u64) {
        let (piece, should_ns) = (piece.max(1), PIECE.as_nanos() as u64);
        let (mut left, mut watched) = (turns, 0);
        let (mut number, mut last) = first;
        let (mut began, mut before, mut begins) = (last, false, true);
        self.interruptions();
        while left > 0 {
            // What remains is too short to be told from a stop: it belongs to the last piece.
            let here = if left < 2 * piece { left } else { piece };
            turn(here);
            left -= here;
            let now = Instant::now();
            if self.turns.is_still(number) {
                self.last.store(self.reading(now, number), Relaxed);
                let took = (now - last).as_nanos() as u64;
                let should = here * should_ns / piece;
                let late = took.saturating_sub(should);
                watched += took;
                let now_ns = self.since_epoch(now);
                match self.interruptions() {
                    0 if late > should_ns => self.pieces.push(now_ns - late, now_ns),
                    0 if begins && !before => self.entries.push(now_ns - late, now_ns),
                    0 if begins => {}
                    0 => {
                        self.took_ns.fetch_add(took, Relaxed);
                        self.should_ns.fetch_add(should, Relaxed);
                    }
                    looks => (0..looks).for_each(|_| {
                        self.looks.push(now_ns - late / looks, now_ns);
                    }),
                }
                (last, begins) = (now, false);
            } else {
                begins = true;
                let turn = [began, last].map(|at| self.since_epoch(at));
                self.preempted.push(turn[0], turn[1]);
                if before {
                    self.again.push(turn[0], turn[1]);
                }
                before = true;
                let ended = (self.last.load(Relaxed) == 0).then(|| self.ended_ns.load(Relaxed));
                (number, last) = self.begins();
                began = last;
                if let Some(ended) = ended {
                    // First it has worked on the rest of its piece.
                    let to = self.since_epoch(last);
                    self.waited(&self.resumptions, (ended + should_ns / 2).min(to), to);
                }
                self.interruptions();
            }
        }
        self.ended_ns.store(self.since_epoch(last), Relaxed);
        self.last.store(0, Relaxed);
        self.watched_ns.fetch_add(watched, Relaxed);
    }

    /// A turn begins now. If the one before was preempted, this is the end of a gap.
    fn begins(&self) -> (u64, Instant) {
        let (number, now) = (self.turns.begin(), Instant::now());
        let here = self.reading(now, number);
        let last = self.last.swap(here, Relaxed);
        // A thread that was preempted between reading the clock and storing that has stored it in a
        // later turn.
        if last != 0 && (last + 1) % NUMBERS == here % NUMBERS {
            self.gaps.push(last / NUMBERS, here / NUMBERS);
        }
        (number, now)
    }

    /// A reading of the clock in a turn: nanoseconds since `epoch`, for 18 minutes, and the end of
    /// the turn's number.
    fn reading(&self, now: Instant, number: u64) -> u64 {
        self.since_epoch(now) * NUMBERS + number % NUMBERS
    }

    fn since_epoch(&self, now: Instant) -> u64 {
        now.saturating_duration_since(self.epoch).as_nanos() as u64
    }

    /// The turns that were preempted since `start`, from then on, in nanoseconds; all requests have
    /// ended.
    pub fn preempted(&self, start: Instant) -> Vec<(u64, u64)> {
        self.since(start, &self.preempted)
    }

    /// Those of them whose requests had been preempted before.
    pub fn preempted_again(&self, start: Instant) -> Vec<(u64, u64)> {
        self.since(start, &self.again)
    }

    fn since(&self, start: Instant, spans: &Spans) -> Vec<(u64, u64)> {
        let start = self.since_epoch(start);
        let since = |ns: u64| ns.checked_sub(start);
        spans.all().filter_map(|(from, to)| Some((since(from)?, since(to)?))).collect()
    }

    /// What preemptions, looks and wake-ups took, those outside the usual too, in nanoseconds. A
    /// request costs the worker `request_ns`.
    pub fn seen(&self, request_ns: u64) -> Seen {
        let lengths = |spans: &Spans| spans.all().map(|(from, to)| to - from).collect();
        let looks = self.looks.beyond(0, 0).chain(self.held_up.beyond(request_ns, 0));
        Seen {
            gaps: lengths(&self.gaps),
            looks: looks.map(|(_, ns)| ns).collect(),
            starts: lengths(&self.starts),
            waits: lengths(&self.waits),
            resumptions: lengths(&self.resumptions),
            entries: lengths(&self.entries),
            took_ns: self.took_ns.load(Relaxed),
            should_ns: self.should_ns.load(Relaxed),
        }
    }

    /// What a request costs the worker: from the end of one to the next turn of one that waited.
    /// `None`: too few have waited.
    pub fn request_ns(&self) -> Option<u64> {
        let waits: Vec<_> = self.waits.all().map(|(from, to)| to - from).collect();
        (waits.len() >= ENOUGH).then(|| median(waits.into_iter())).flatten()
    }

    /// The stops that were seen since `start`, beyond what is usual; all requests have ended. A
    /// request costs the worker `request_ns`.
    pub fn stops(&self, start: Instant, request_ns: u64) -> Stops {
        let piece = PIECE.as_nanos() as u64;
        let start = self.since_epoch(start);
        let mut all: Vec<_> = (self.pieces.beyond(0, piece))
            .chain(self.gaps.unusual())
            .chain(self.looks.unusual())
            .chain(self.held_up.unusual())
            .chain(self.starts.unusual())
            .chain(self.waits.beyond(request_ns, piece))
            .chain(self.resumptions.beyond(request_ns, piece))
            .filter_map(|(from, ns)| Some(Stop { at_ns: from.checked_sub(start)?, ns }))
            .collect();
        all.sort_unstable();
        let gaps: u64 = self.gaps.all().map(|(from, to)| to - from).sum();
        Stops { watched_ns: self.watched_ns.load(Relaxed) + gaps, all }
    }
}

/// A count that only grows.
struct Count(Box<dyn Fn() -> u64 + Send + Sync>);

impl fmt::Debug for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (self.0)().fmt(f)
    }
}

/// What a run's preemptions, looks and wake-ups took.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Seen {
    /// Between two turns, of which the first was preempted, from its last reading of the clock.
    pub gaps: Vec<u64>,
    /// Interruptions for nothing.
    pub looks: Vec<u64>,
    /// From when a request was sent to its first turn, where that found the worker asleep.
    pub starts: Vec<u64>,
    /// From the end of a request to the first turn of one that waited.
    pub waits: Vec<u64>,
    /// From the end of a request to the next turn of one that was preempted.
    pub resumptions: Vec<u64>,
    /// By how much the first piece of a request took longer than it should.
    pub entries: Vec<u64>,
    /// How long undisturbed work took, but for the first piece of each turn.
    pub took_ns: u64,
    /// How long it should have, by the speed measured before.
    pub should_ns: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spans(spans: &Spans) -> Vec<u64> {
        spans.all().map(|(from, to)| to - from).collect()
    }

    fn pass(time: Duration) {
        let begin = Instant::now();
        while begin.elapsed() < time {}
    }

    const LONG: Duration = Duration::from_millis(2);
    const ANY: Speed = Speed { per_us: 1.0, spread_percent: 0.0 };

    #[test]
    fn stops_add_up() {
        let stops = |all: &[(u64, u64)]| Stops {
            watched_ns: 1_000_000,
            all: all.iter().map(|&(at_ns, ns)| Stop { at_ns, ns }).collect(),
        };
        let both = stops(&[(0, 5_000)]).and(&stops(&[(0, 1_000), (9, 20_000)])).summary();
        assert!((both.per_second - 1_500.0).abs() < 1e-6 && (both.percent - 1.3).abs() < 1e-6);
        assert!((both.longest_us - 20.0).abs() < 1e-9);
        let long = stops(&[(0, 5_000), (7, 30_000)]).percent_beyond(Duration::from_micros(5));
        assert!((long - 3.0).abs() < 1e-9, "{long}");
    }

    #[test]
    fn turns_of_others_are_no_stops() {
        let witness = Witness::default();
        // Far more turns in a piece than any machine does in that time.
        witness.pieces(1 << 22, 1 << 20);
        let stops = witness.stops(witness.epoch, 0);
        assert!(!stops.all.is_empty() && stops.summary().percent < 100.0);
        let number = witness.turns.begin();
        assert!(witness.turns.is_still(number));
        witness.turns.begin();
        assert!(!witness.turns.is_still(number));
    }

    /// A witness of interruptions that come whenever it looks, from the first time on.
    fn interrupted() -> Witness {
        let count = AtomicU64::new(0);
        let count = Count(Box::new(move || count.fetch_add(1, Relaxed)));
        Witness { count, ..Witness::default() }
    }

    #[test]
    fn what_an_interruption_takes_is_no_stop() {
        let witness = interrupted();
        // As slow as in a stop.
        witness.pieces(1 << 22, 1 << 20);
        assert!(spans(&witness.pieces).is_empty());
        let looks = witness.seen(0).looks;
        assert!(looks.len() == 4 && looks.iter().all(|&ns| ns > 0), "{looks:?}");
        // One that is far longer than the others is a stop all the same.
        let usual = median(looks.into_iter()).unwrap();
        witness.looks.push(0, 100 * usual);
        assert!(witness.stops(witness.epoch, 0).all.iter().any(|stop| stop.ns == 99 * usual));
        // Between the ends and beginnings of requests.
        let sent = Instant::now();
        witness.serve(sent, Duration::ZERO, ANY);
        pass(LONG);
        witness.serve(sent, Duration::ZERO, ANY);
        let (waits, held_up) = (spans(&witness.waits), spans(&witness.held_up));
        let ns = LONG.as_nanos() as u64;
        assert!(waits.is_empty() && held_up.iter().any(|&h| h >= ns), "{waits:?} {held_up:?}");
        assert!(witness.seen(ns / 2).looks.iter().any(|&look| look >= ns / 2));
    }

    /// The first to go on after a request may be one that was preempted.
    #[test]
    fn a_late_resumption_is_seen() {
        let witness = Witness::default();
        let first = witness.begins();
        // Another one ends, which began meanwhile, and then the worker is stopped.
        witness.pieces(1, 1);
        pass(LONG);
        witness.watch(first, 2, 1);
        let waits = spans(&witness.resumptions);
        assert!(waits.len() == 1 && waits[0] >= LONG.as_nanos() as u64 / 2, "{waits:?}");
        let stops = witness.stops(witness.epoch, 0);
        assert!(stops.all.iter().any(|stop| stop.ns == waits[0]), "{stops:?}");
        assert_eq!([witness.preempted(witness.epoch).len(), spans(&witness.again).len()], [1, 0]);
    }

    #[test]
    fn a_stop_that_ends_with_a_preemption_is_seen() {
        let witness = Witness::default();
        // A turn that ends by a preemption, and the next one's turn, which ends its request.
        witness.begins();
        pass(LONG);
        witness.pieces(1, 1);
        // Nothing runs: the worker is idle, not stopped.
        pass(LONG);
        witness.pieces(1, 1);
        let gaps = spans(&witness.gaps);
        assert!(gaps.len() == 1 && gaps[0] >= LONG.as_nanos() as u64, "{gaps:?}");
        // Some that are usual.
        (0..4).for_each(|at| witness.gaps.push(at, at + 100_000));
        let stops = witness.stops(witness.epoch, 0);
        assert_eq!(stops.all.iter().map(|stop| stop.ns).max(), Some(gaps[0] - 100_000));
        assert_eq!(witness.seen(0).gaps.len(), 5);
        // What was before the run is not of it.
        assert_eq!(witness.stops(Instant::now(), 0).all, []);
    }

    #[test]
    fn late_beginnings_are_seen() {
        let witness = Witness::default();
        // The worker is asleep, and late to begin.
        let sent = Instant::now();
        pass(LONG);
        witness.serve(sent, Duration::ZERO, ANY);
        // The next one has been waiting since before that ended.
        pass(LONG);
        witness.serve(sent, Duration::ZERO, ANY);
        // This one finds the worker awake.
        let sent = Instant::now();
        witness.ended_ns.store(witness.since_epoch(sent) - SPIN.as_nanos() as u64 / 2, Relaxed);
        witness.serve(sent, Duration::ZERO, ANY);
        let (starts, waits) = (spans(&witness.starts), spans(&witness.waits));
        assert!(starts.len() == 1 && waits.len() == 2, "{starts:?} {waits:?}");
        let ns = LONG.as_nanos() as u64;
        assert!(starts[0] >= ns && waits[0] >= ns, "{starts:?} {waits:?}");
        assert_eq!(witness.seen(0).starts, starts);
        let seen = |request| witness.stops(witness.epoch, request).all.len();
        assert_eq!([seen(0) > 0, seen(u64::MAX) == 0], [true, true]);
        // Beside those that are usual, it was stopped.
        (0..2).for_each(|at| witness.starts.push(at, at + starts[0] / 4));
        assert_eq!(seen(u64::MAX), 1);
    }
}
