//! What one preemption takes of a worker's time on this machine.
//!
//! Nobody can read that from the time-stamp counter inside a handler: most of it passes in the
//! kernel (and in a hypervisor), before the handler begins. So a thread that does nothing but look
//! at the time is interrupted a few times as a clock would interrupt it, and the gaps are what it
//! costs. What follows in caches is not in it.

use crate::config::{Clock, Config};
use crate::kernel_thread;
use crate::preempt::probe;
use crate::sys;
use crate::tsc::{self, Ticks};
use core::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, AtomicUsize, Ordering::*};
use quaver_sched::Tax;
use quaver_sched::clock::Pace;
use std::sync::OnceLock;
use std::time::Duration;

/// Interruptions of one measurement. The lower quartile of the gaps counts: what else comes between
/// makes them longer.
const TIMES: usize = 16;
/// Between two of them.
const APART: Duration = Duration::from_micros(40);
/// No further interruption is waited for after this: a busy machine must not be long in starting.
const PATIENCE: Duration = Duration::from_millis(5);
/// Where nothing could be measured, and at least: an interruption of a bare machine.
const LEAST: Duration = Duration::from_micros(1);
/// At most: on a machine that is busy with other things all gaps are others' turns, and a price of
/// milliseconds would end preemption.
const MOST: Duration = Duration::from_micros(50);

/// What a preemption takes of the threads' own time, on average: each goes on with caches and
/// branch predictors that the other one has filled. With the store of `quaver demo`, where GETs
/// preempt SCANs at probes, both take 2 to 3 µs longer for each preemption.
const COLD_CACHES: Duration = Duration::from_micros(2);

/// What bounds preemptions by the clock, and those at probes where there are any; one account pays
/// for both.
pub(crate) fn taxes(config: &Config, price: Option<Ticks>) -> [Option<Tax>; 2] {
    // Who has named a quantum has asked for it; who has not shall not lose.
    let cold = if config.auto_quantum { tsc::from_duration(COLD_CACHES) } else { 0 };
    let savings = tsc::from_duration(Tax::SAVINGS);
    let tax = |price| Some(Tax::new(config.tax?, price? + cold, savings));
    let at_probe = price.filter(|_| config.probes).map(probe::price);
    [tax(price), tax(at_probe)]
}

/// How much later clocks look while that is in vain, and a worker's own timer does so, which is the
/// second notification where there are probes.
pub(crate) fn paces(
    config: &Config,
    quantum: Option<Ticks>,
    price: Option<Ticks>,
) -> [Option<Pace>; 2] {
    let given = quantum.zip(price);
    let usual = given.map(|(quantum, price)| Pace::new(quantum, price, tsc::from_duration));
    let rare = |(quantum, price)| Pace::backstop(quantum, price, tsc::from_duration);
    [usual, if config.probes { given.map(rare) } else { usual }]
}

/// The price of a preemption by this clock, which has no CPU of its own if it `shares` the
/// workers': then what it takes itself is a worker's time, too. Measured at the first call, which
/// takes about a millisecond. The handler of `signal` is installed, and does nothing on the calling
/// thread. The program's signals wait meanwhile: a handler of its own may be on an alternate stack
/// that has no room for our frames as well.
pub(crate) fn price(clock: Clock, shares: bool, signal: i32) -> Ticks {
    static BY_TIMER: OnceLock<Ticks> = OnceLock::new();
    static BY_SIGNAL: OnceLock<SignalPrice> = OnceLock::new();
    match clock {
        Clock::PosixTimer | Clock::DelegatedTimer | Clock::Auto => {
            *BY_TIMER.get_or_init(|| kernel_thread::with_only(signal, || by_timer(signal)))
        }
        Clock::TimerThread | Clock::TimerCore => {
            let measure = || kernel_thread::with_only(signal, || by_signal(signal));
            let SignalPrice { received, sent } = *BY_SIGNAL.get_or_init(measure);
            let sent = if shares { sent } else { 0 };
            (received + sent).min(tsc::from_duration(MOST))
        }
    }
}

/// What a signal takes that another thread sends.
#[derive(Clone, Copy)]
struct SignalPrice {
    received: Ticks,
    /// Of the sender's CPU, with waking up for it.
    sent: Ticks,
}

/// Of a timer that expires, and of setting it again.
fn by_timer(signal: i32) -> Ticks {
    let Ok(timer) = sys::timer_create(sys::gettid(), signal) else { return least() };
    let mut gaps = [0; TIMES];
    for gap in &mut gaps {
        let begin = tsc::now();
        if sys::timer_settime_once(timer, APART).is_err() {
            break;
        }
        let armed = tsc::now();
        let end = armed + 2 * tsc::from_duration(APART);
        *gap = armed - begin + longest_gap(|now| now < end);
    }
    sys::timer_delete(timer);
    lower_quartile(gaps)
}

/// Of a signal that another thread sends.
fn by_signal(signal: i32) -> SignalPrice {
    static SENDER: SignalSender = SignalSender {
        to: AtomicI32::new(0),
        cpu: AtomicUsize::new(0),
        signal: AtomicI32::new(0),
        sent: AtomicUsize::new(0),
        took_ns: AtomicU64::new(0),
        state: AtomicU32::new(WAITING),
    };
    SENDER.to.store(sys::gettid(), Relaxed);
    // SAFETY: no requirements.
    let cpu = usize::try_from(unsafe { libc::sched_getcpu() }).unwrap_or(usize::MAX);
    SENDER.cpu.store(cpu, Relaxed);
    SENDER.signal.store(signal, Relaxed);
    if kernel_thread::start(kernel_thread::ThreadPurpose::Service, &SENDER, send).is_err() {
        return SignalPrice { received: least(), sent: least() };
    }
    let end = tsc::now() + tsc::from_duration(PATIENCE);
    // The sender may be kept from its CPU.
    let gap = |i| (tsc::now() < end).then(|| longest_gap(|_| SENDER.sent.load(Acquire) == i));
    let gaps = core::array::from_fn(|i| gap(i).unwrap_or(0));
    // A signal that came later would be taken for somebody else's: this thread may wait for those
    // some time, in the kernel.
    while SENDER.state.compare_exchange(WAITING, OVER, AcqRel, Relaxed) == Err(SENDING) {
        sys::sched_yield();
    }
    // What has been sent arrives at the latest on the way out of the kernel.
    sys::sched_yield();
    let sent = Duration::from_nanos(SENDER.took_ns.load(Relaxed));
    SignalPrice { received: lower_quartile(gaps), sent: tsc::from_duration(sent) }
}

/// States of the sender.
const WAITING: u32 = 0;
/// About to send, or sending.
const SENDING: u32 = 1;
/// It sends nothing any more.
const OVER: u32 = 2;

struct SignalSender {
    to: AtomicI32,
    /// Where the interrupted thread runs.
    cpu: AtomicUsize,
    signal: AtomicI32,
    sent: AtomicUsize,
    /// CPU time of a wake-up with what is sent then, on average until now.
    took_ns: AtomicU64,
    state: AtomicU32,
}

/// The other thread, on another CPU where there is one: the kernel may leave both on the same, and
/// then the gaps are its turns.
extern "C" fn send(s: &'static SignalSender) {
    kernel_thread::name(c"quaver-price");
    // Allocates, which a thread of the runtime must not do before it has set out; but while one is
    // built no user thread runs.
    let from = s.cpu.load(Relaxed);
    let others: Vec<usize> = sys::affinity().into_iter().filter(|&cpu| cpu != from).collect();
    if !others.is_empty() {
        let _ = sys::pin_to_cpus(&others);
    }
    let pid = std::process::id() as i32;
    let begin = sys::cpu_time_of_this_thread();
    for i in 1..=TIMES {
        std::thread::sleep(APART);
        if s.state.compare_exchange(WAITING, SENDING, AcqRel, Relaxed).is_err() {
            return;
        }
        let _ = sys::tgkill(pid, s.to.load(Relaxed), s.signal.load(Relaxed));
        let took = sys::cpu_time_of_this_thread().saturating_sub(begin) / i as u32;
        s.took_ns.store(took.as_nanos() as u64, Relaxed);
        s.state.store(WAITING, Release);
        s.sent.store(i, Release);
    }
}

/// The longest time between two looks at the clock, while `go_on`.
fn longest_gap(mut go_on: impl FnMut(Ticks) -> bool) -> Ticks {
    let (mut last, mut longest) = (tsc::now(), 0);
    loop {
        let more = go_on(last);
        let now = tsc::now();
        longest = longest.max(now.saturating_sub(last));
        last = now;
        if !more {
            return longest;
        }
    }
}

fn lower_quartile(gaps: [Ticks; TIMES]) -> Ticks {
    // Where the thread was not running when it was interrupted, it has seen nothing.
    let mut seen: Vec<Ticks> = gaps.into_iter().filter(|&gap| gap >= least() / 2).collect();
    seen.sort_unstable();
    let most = tsc::from_duration(MOST);
    seen.get(seen.len() / 4).map_or(least(), |&gap| gap.clamp(least(), most))
}

fn least() -> Ticks {
    tsc::from_duration(LEAST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interruption_costs_something() {
        tsc::init();
        // SAFETY: a handler that does nothing.
        unsafe {
            extern "C" fn nothing(_: i32) {}
            libc::signal(libc::SIGUSR2, nothing as *const () as libc::sighandler_t);
        }
        for clock in [Clock::PosixTimer, Clock::TimerThread] {
            let found = price(clock, false, libc::SIGUSR2);
            assert!(found >= least() && found <= tsc::from_duration(MOST), "{clock}: {found}");
            assert_eq!(price(clock, false, libc::SIGUSR2), found);
            let shared = price(clock, true, libc::SIGUSR2);
            let more = clock == Clock::TimerThread && found < tsc::from_duration(MOST);
            assert_eq!(shared > found, more, "{clock}: {shared}, {found}");
        }
    }

    #[test]
    fn disturbed_measurements_do_not_count() {
        tsc::init();
        let mut gaps = [5 * least(); TIMES];
        gaps[3..TIMES / 2].fill(1000 * least());
        assert_eq!(lower_quartile(gaps), 5 * least());
        // Half of them not seen.
        gaps[TIMES / 2..].fill(0);
        gaps[..TIMES / 2].fill(5 * least());
        assert_eq!(lower_quartile(gaps), 5 * least());
        assert_eq!(lower_quartile([0; TIMES]), least());
        assert_eq!(lower_quartile([1000 * least(); TIMES]), tsc::from_duration(MOST));
    }
}
