//! What the runtime's steps cost on this machine, measured on the worker that serves afterwards.
//!
//! * *request*: a burst of short requests is served without a break; what each takes beyond its own
//!   length;
//! * *send*: what the client needs to hand one of them over;
//! * *preemption*: two threads take turns, each for a quantum; the time between two turns;
//! * *late*: how much longer than a quantum their turns are, which the clock ends;
//! * *look*: what an interruption for nothing takes, among the short requests;
//! * *start*: from the moment when the client hands work to a worker that sleeps until it begins;
//! * *deliver*: a thread has had its quantum; the client brings work, and interrupts it itself. How
//!   long it still runs.
//!
//! What rounds show of them counts instead, as far as they do
//! ([`calibration`](super::calibration)).
//!
//! The first two are medians. The others are kept as they are, for a mean says nothing of the few
//! that are late by hundreds of microseconds, because a clock's thread had to wait for its CPU, or
//! the host of a virtual machine had halted a CPU.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use quaver::Clock;
use quaver_sim::Delay;
use serde::Serialize;

use super::median;
use super::real::{self, Speed};
use super::stops::{PIECE, Witness};
use super::turns::{Turn, Turns};

const BURST: u64 = 500;
/// An odd number of tries has a median.
const TRIES: usize = 7;
const SHORT: Duration = Duration::from_micros(20);
/// Of the policy `rr` for the threads that take turns.
const QUANTUM: Duration = Duration::from_micros(200);
/// How long they take turns: more than a thousand times.
const TURNS: Duration = Duration::from_millis(700);
/// How often the client brings work, and how often it does so.
const BRING: Duration = Duration::from_millis(1);
const BROUGHT: u32 = 300;
/// How often a sleeping worker is woken, after pauses of 1 to 13 of these.
const WOKEN: usize = 1_000;
/// As long as it takes at the most, where others have the CPUs, too.
const WAKING: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_micros(100);

/// Times in nanoseconds.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Prices {
    /// For each request on the worker.
    pub request_ns: u64,
    /// The part of it that each turn of a request costs.
    pub turn_ns: u64,
    /// The part that only its first turn does.
    pub entry_ns: u64,
    /// For each request on the client.
    pub send_ns: u64,
    /// For each preemption on the worker: the median.
    pub preemption_ns: u64,
    /// The same as it was measured.
    pub preemption: Delay,
    /// Of an interruption for nothing on the worker, as it was measured.
    pub look: Delay,
    /// What the runtime takes an interruption to cost.
    pub interruption_ns: u64,
    /// From the end of a quantum until the thread stops: the median.
    pub late_ns: u64,
    /// The same as it was measured.
    pub late: Delay,
    /// The part of it before the clock sends the interruption.
    pub wake: Delay,
    /// From an interruption by who brings work until the thread stops.
    pub deliver: Delay,
    /// From handing work to a worker that sleeps until it begins, beyond `send_ns`: the median.
    pub start_ns: u64,
    /// The same as it was measured.
    pub start: Delay,
}

impl Prices {
    /// Nothing costs anything.
    #[cfg(test)]
    pub fn none() -> Prices {
        let none = Delay::default;
        Prices {
            request_ns: 0,
            turn_ns: 0,
            entry_ns: 0,
            send_ns: 0,
            preemption_ns: 0,
            preemption: none(),
            look: none(),
            interruption_ns: 0,
            late_ns: 0,
            late: none(),
            wake: none(),
            deliver: none(),
            start_ns: 0,
            start: none(),
        }
    }

    /// Measures with a runtime of its own.
    ///
    /// # Errors
    ///
    /// When the runtime cannot be built, or nothing was preempted.
    pub fn measure(client: usize, worker: usize, clock: Clock) -> Result<(Prices, Speed)> {
        let policy = format!("rr:quantum={}us", QUANTUM.as_micros());
        let runtime = super::runtime(&policy, worker, clock)?;
        // The client's CPU may be a part of the worker's core: it has to be as busy as it is later.
        let (speed, turns) = beside_spinning(client, || {
            let witness = Witness::of(runtime.handle());
            let speed = runtime.run(|| Speed::measure(Some(&witness)));
            Ok((speed, take_turns(&runtime)))
        })?;
        let mut looks = Vec::new();
        let bursts: Result<Vec<_>> = (0..TRIES)
            .map(|_| real::client(client).run(|| burst(&runtime, speed, &mut looks)))
            .collect();
        let bursts = bursts?;
        let of = |i: usize| median(bursts.iter().map(|pair| pair[i])).expect("there were tries");
        let send_ns = of(1);
        let (between, late) = lateness(&turns)?;
        let brought = real::client(client).run(|| bring_work(&runtime))?;
        let start = real::client(client).run(|| wake_up(&runtime))?;
        let start: Vec<u64> = start.iter().map(|ns| ns.saturating_sub(send_ns)).collect();
        let deliver: Vec<u64> = brought.iter().map(|ns| ns.saturating_sub(send_ns)).collect();
        // None where others had the CPUs all the time: then nothing is known of it.
        let delivered = median(deliver.iter().copied()).unwrap_or(0);
        let wake: Vec<u64> = late.iter().map(|ns| ns.saturating_sub(delivered)).collect();
        let prices = Prices {
            request_ns: of(0),
            turn_ns: of(0),
            entry_ns: 0,
            send_ns,
            preemption_ns: median(between.iter().copied()).unwrap_or(0),
            look: usual(if looks.is_empty() { between.clone() } else { looks }),
            preemption: usual(between),
            interruption_ns: runtime.preemption_price().map_or(0, |price| price.as_nanos() as u64),
            late_ns: median(late.iter().copied()).unwrap_or(0),
            late: usual(late),
            wake: usual(wake),
            deliver: usual(deliver),
            start_ns: median(start.iter().copied()).unwrap_or(0),
            start: usual(start),
        };
        Ok((prices, speed))
    }
}

/// A distribution without the longest of a hundred. Those are stops of the machine, which come when
/// they like: what stops it while it serves is told separately, and one of some ms that fell into
/// this measurement would be simulated again and again.
fn usual(mut values: Vec<u64>) -> Delay {
    values.sort_unstable();
    values.truncate(values.len() - values.len() / 100);
    Delay::measured(&mut values)
}

/// Does `work` while the client's CPU looks at the clock all the time, as it does between two
/// requests.
fn beside_spinning<T>(client: usize, work: impl FnOnce() -> Result<T>) -> Result<T> {
    let end = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let spin = || {
            real::client(client).run(|| {
                while !end.load(SeqCst) {
                    black_box(Instant::now());
                }
                Ok(())
            })
        };
        let spinning = scope.spawn(spin);
        let result = work();
        end.store(true, SeqCst);
        spinning.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        result
    })
}

/// What a request costs the worker, and the client; what interruptions for nothing took is added
/// to `looks`.
fn burst(runtime: &quaver::Runtime, speed: Speed, looks: &mut Vec<u64>) -> Result<[u64; 2]> {
    let handle = runtime.handle();
    let witness = Arc::new(Witness::of(handle));
    let (begin, done) = (Instant::now(), Arc::new([const { AtomicU64::new(0) }; 3]));
    for _ in 0..BURST {
        let (done, witness) = (Arc::clone(&done), Arc::clone(&witness));
        let serve = move || {
            witness.pieces(speed.turns(SHORT), speed.turns(PIECE));
            let now = begin.elapsed().as_nanos() as u64;
            let [count, first, last] = &*done;
            first.compare_exchange(0, now, SeqCst, SeqCst).ok();
            last.fetch_max(now, SeqCst);
            count.fetch_add(1, SeqCst);
        };
        handle.spawn_detached(serve).context("cannot start a request")?;
    }
    let sent = begin.elapsed().as_nanos() as u64;
    while done[0].load(SeqCst) < BURST {
        black_box(Instant::now());
    }
    let seen = witness.seen(0).looks;
    let all = done[2].load(SeqCst) - done[1].load(SeqCst);
    let each = all.saturating_sub(seen.iter().sum()) / (BURST - 1);
    looks.extend(seen);
    Ok([each.saturating_sub(SHORT.as_nanos() as u64), sent / BURST])
}

/// The turns of two threads beside each other, in their order.
fn take_turns(runtime: &quaver::Runtime) -> Vec<Turn> {
    let mut all = runtime.run(|| {
        let (turns, end) = (Arc::new(Turns::default()), Instant::now() + TURNS);
        let both = [(); 2].map(|()| {
            let turns = Arc::clone(&turns);
            quaver::spawn(move || turns.watch(end))
        });
        both.map(|thread| thread.join().expect("looking at the clock does not panic")).concat()
    });
    all.sort_unstable();
    all
}

/// What a preemption costs, and how late each came.
fn lateness(turns: &[Turn]) -> Result<(Vec<u64>, Vec<u64>)> {
    // A thread that was stopped by the machine at its very first step has seen nothing of its turn.
    let whole = |turn: &&Turn| turn.to - turn.from > QUANTUM / 2;
    let late: Vec<u64> = turns
        .iter()
        .filter(whole)
        .map(|turn| (turn.to - turn.from).saturating_sub(QUANTUM).as_nanos() as u64)
        .collect();
    let between = turns.windows(2).map(|pair| pair[1].from.saturating_duration_since(pair[0].to));
    let prices = between.map(|gap| gap.as_nanos() as u64).collect();
    ensure!(late.len() > 1, "two threads ran beside each other without a preemption");
    Ok((prices, late))
}

/// For how long a thread that has had its quantum goes on, from the moment when the client begins
/// to bring work.
fn bring_work(runtime: &quaver::Runtime) -> Result<Vec<u64>> {
    let turns = Arc::new(Turns::default());
    let begin = Instant::now();
    let end = begin + BRING * (BROUGHT + 1);
    let (watching, watched) = std::sync::mpsc::channel();
    let watch = Arc::clone(&turns);
    let handle = runtime.handle();
    handle
        .spawn_detached(move || {
            let _ = watching.send(watch.watch(end));
        })
        .context("cannot start a thread")?;
    let mut brought = Vec::with_capacity(BROUGHT as usize);
    for number in 1..=BROUGHT {
        while begin.elapsed() < BRING * number {
            std::hint::spin_loop();
        }
        let turns = Arc::clone(&turns);
        brought.push(Instant::now());
        let work = move || {
            turns.begin();
        };
        handle.spawn_detached(work).context("cannot bring work")?;
    }
    let seen = watched.recv().context("a thread ended without what it has seen")?;
    Ok(ends(&brought, &seen))
}

/// How long it takes, again and again, until a worker that has nothing to do begins with what the
/// client brings.
fn wake_up(runtime: &quaver::Runtime) -> Result<Vec<u64>> {
    let handle = runtime.handle();
    let (begin, mut next) = (Instant::now(), Duration::ZERO);
    let mut taken = Vec::with_capacity(WOKEN);
    for number in 0..WOKEN {
        if begin.elapsed() > WAKING {
            break;
        }
        // Pauses of many lengths, as between requests.
        next = next.max(begin.elapsed()) + PAUSE * (1 + (number * 7 % 13) as u32);
        while begin.elapsed() < next {
            std::hint::spin_loop();
        }
        let began = Arc::new(AtomicU64::new(0));
        let tell = Arc::clone(&began);
        let sent = begin.elapsed().as_nanos() as u64;
        let work = move || tell.store(begin.elapsed().as_nanos() as u64, SeqCst);
        handle.spawn_detached(work).context("cannot wake the worker")?;
        while began.load(SeqCst) == 0 {
            std::hint::spin_loop();
        }
        taken.push(began.load(SeqCst) - sent);
    }
    Ok(taken)
}

/// From each of these moments to the end of the turn that it fell into; those that fell into none
/// do not count.
fn ends(moments: &[Instant], turns: &[Turn]) -> Vec<u64> {
    let end = |at: &Instant| {
        let turn = turns.iter().find(|turn| turn.to >= *at)?;
        (turn.from <= *at).then(|| (turn.to - *at).as_nanos() as u64)
    };
    moments.iter().filter_map(end).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turns(of: &[(u64, u64)]) -> (Instant, Vec<Turn>) {
        let start = Instant::now();
        let at = |us: u64| start + Duration::from_micros(us);
        (start, of.iter().map(|&(from, to)| Turn { from: at(from), to: at(to) }).collect())
    }

    #[test]
    fn a_turns_length_says_how_late_its_end_came() {
        let (_, seen) =
            turns(&[(0, 210), (215, 430), (435, 436), (441, 645), (651, 851), (856, 1500)]);
        let (prices, late) = lateness(&seen).unwrap();
        assert_eq!(median(prices.into_iter()), Some(5_000));
        // One turn was none.
        assert_eq!(late, [10_000, 15_000, 4_000, 0, 444_000]);
        assert!(lateness(&[]).is_err());
    }

    #[test]
    fn a_stop_of_the_machine_is_no_delay_of_the_clock() {
        let values = |longest| (1..=100).map(|i| if i == 7 { longest } else { 10 }).collect();
        assert_eq!(usual(values(5_000_000)), usual(values(10)));
        assert_eq!(usual(vec![900, 1, 2]), Delay::measured(&mut [1, 2, 900]));
        assert_eq!(usual(Vec::new()), Delay::default());
    }

    #[test]
    fn work_that_nobody_was_there_to_notice_does_not_count() {
        let (start, seen) = turns(&[(0, 100), (110, 300)]);
        let at = |us: u64| start + Duration::from_micros(us);
        assert_eq!(ends(&[at(92), at(105), at(270), at(400)], &seen), [8_000, 30_000]);
    }
}
