//! The measurements. Everything that handlers touch is atomic.

use std::arch::x86_64::_rdtsc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering::*};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use quaver::platform::user_interrupts_alone::Alone;
use quaver_bench_common::{Outcome, Sample};

use super::super::stats::Summary;
use super::{How, NotifySpec, timer_core, user};

/// When the handler last began, and how often it ran.
pub(super) static HANDLED_AT: AtomicU64 = AtomicU64::new(0);
pub(super) static HANDLED: AtomicU64 = AtomicU64::new(0);
/// The longest gap that the receiver has seen since this was set to 0.
static GAP: AtomicU64 = AtomicU64::new(0);
static STOP: AtomicBool = AtomicBool::new(false);
static RECEIVER: AtomicI32 = AtomicI32::new(0);

/// For the receiver to notice its gap.
const SETTLE: Duration = Duration::from_micros(20);
/// For notifications to arrive, however busy the machine.
const PATIENCE: Duration = Duration::from_secs(5);
/// Between two expiries.
const PERIOD_US: i64 = 500;

fn ticks() -> u64 {
    // SAFETY: every x86-64 CPU has it, and Linux allows it.
    unsafe { _rdtsc() }
}

extern "C" fn handler(_: i32) {
    HANDLED_AT.store(ticks(), Relaxed);
    HANDLED.fetch_add(1, Release);
}

pub(super) fn run(spec: &NotifySpec) -> anyhow::Result<Outcome> {
    let per_ns = ticks_per_ns();
    let start = Instant::now();
    let mut sample = Sample { ops: spec.count, ..Sample::default() };
    match spec.how {
        How::Signal | How::KernelIpi | How::UserIpi => {
            let seen = between_cores(spec)?;
            let ns = |values: &[f64]| Some(Summary::of(values)?.median / per_ns);
            let send = ns(&seen.send).context("nothing was sent")?;
            sample = sample.with("send_ns", send);
            // An emulator's counter may stand still meanwhile.
            if send > 0.0 {
                sample = sample.with("workers", 5_000.0 / send);
            }
            for (metric, values) in [("receive_ns", &seen.receive), ("delivery_ns", &seen.delivery)]
            {
                if let Some(value) = ns(values) {
                    sample = sample.with(metric, value);
                }
            }
        }
        How::Setitimer => {
            let gap = of_a_timer(spec.count, per_ns)?;
            sample = sample.with("receive_ns", gap / per_ns);
        }
        How::UserTimer => {
            pin(spec.cpus[0])?;
            let period = Duration::from_micros(PERIOD_US as u64);
            let gap = user::with_timer(period, || expiries(spec.count, per_ns))??;
            sample = sample.with("receive_ns", gap / per_ns);
        }
        How::TimerCore { source, tells } => {
            for (metric, value) in timer_core::run(spec, source, tells)? {
                sample = sample.with(metric, value);
            }
        }
        How::Gate => sample = sample.with("section_ns", gate(spec.count)? / per_ns),
        How::Mask => sample = sample.with("section_ns", mask(spec.count)? / per_ns),
        How::CluiStui => sample = sample.with("section_ns", flag(spec.count) / per_ns),
    }
    sample.wall_ns = start.elapsed().as_nanos() as u64;
    Ok(sample.into())
}

fn ticks_per_ns() -> f64 {
    let (since, from) = (Instant::now(), ticks());
    while since.elapsed() < Duration::from_millis(20) {
        std::hint::spin_loop();
    }
    (ticks() - from) as f64 / since.elapsed().as_nanos() as f64
}

pub(super) fn pin(cpu: usize) -> anyhow::Result<()> {
    // SAFETY: a complete CPU set for the calling thread.
    let pinned = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        libc::sched_setaffinity(0, size_of_val(&set), &raw const set)
    };
    ensure!(pinned == 0, "cannot run on CPU {cpu}: {}", std::io::Error::last_os_error());
    Ok(())
}

pub(super) fn handle(signal: i32) -> anyhow::Result<()> {
    // SAFETY: a complete sigaction; the handler touches atomics only.
    let set = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as extern "C" fn(i32) as usize;
        action.sa_flags = libc::SA_RESTART;
        libc::sigaction(signal, &raw const action, std::ptr::null_mut())
    };
    ensure!(set == 0, "cannot handle signal {signal}: {}", std::io::Error::last_os_error());
    Ok(())
}

/// In ticks, one value for each notification.
#[derive(Default)]
struct Seen {
    send: Vec<f64>,
    receive: Vec<f64>,
    delivery: Vec<f64>,
}

fn between_cores(spec: &NotifySpec) -> anyhow::Result<Seen> {
    let &[worker, helper] = &spec.cpus[..] else { anyhow::bail!("it takes two CPUs") };
    handle(libc::SIGUSR1)?;
    let register = libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED;
    // SAFETY: a call without memory.
    let registered = unsafe { libc::syscall(libc::SYS_membarrier, register, 0, 0) };
    ensure!(registered == 0, "no membarrier: {}", std::io::Error::last_os_error());
    pin(helper)?;
    let user = (spec.how == How::UserIpi).then(user::find).transpose()?;
    beside_receiver(worker, user, || send(spec, user))
}

/// Calls `work` while a thread on `cpu` looks at the counter, and takes user interrupts if `user`
/// has them.
pub(super) fn beside_receiver<T>(
    cpu: usize,
    user: Option<Alone>,
    work: impl FnOnce() -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let receiver = std::thread::spawn(move || receive(cpu, user));
    while RECEIVER.load(Acquire) == 0 && !receiver.is_finished() {
        std::thread::yield_now();
    }
    // Without a receiver there is nothing to measure, and it says why.
    let done = (RECEIVER.load(Acquire) != 0).then(work);
    STOP.store(true, Release);
    receiver.join().map_err(|_| anyhow::anyhow!("the receiver panicked"))??;
    done.context("there is no receiver")?
}

/// Looks at the counter until it is stopped.
fn receive(cpu: usize, user: Option<Alone>) -> anyhow::Result<()> {
    pin(cpu)?;
    let registration = user.map(user::receive).transpose()?;
    // SAFETY: no arguments.
    RECEIVER.store(unsafe { libc::gettid() }, Release);
    let mut last = ticks();
    while !STOP.load(Relaxed) {
        let now = ticks();
        if now - last > GAP.load(Relaxed) {
            GAP.store(now - last, Relaxed);
        }
        last = now;
    }
    if let (Some(alone), Some(registration)) = (user, registration) {
        alone.end(registration);
    }
    Ok(())
}

fn send(spec: &NotifySpec, user: Option<Alone>) -> anyhow::Result<Seen> {
    let mut seen = Seen::default();
    let handled = spec.how != How::KernelIpi;
    let operand = user.map_or(Ok(0), user::sender)?;
    for i in 0..spec.count {
        GAP.store(0, Relaxed);
        spin(SETTLE);
        GAP.store(0, Relaxed);
        let before = ticks();
        // SAFETY: calls without memory; the receiver lives until it is stopped, and this thread
        // has the operand from `sender`.
        let sent = unsafe {
            match spec.how {
                How::UserIpi => {
                    user::send(operand);
                    0
                }
                How::Signal => {
                    let tid = RECEIVER.load(Acquire);
                    libc::syscall(libc::SYS_tgkill, libc::getpid(), tid, libc::SIGUSR1)
                }
                _ => {
                    let barrier = libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED;
                    libc::syscall(libc::SYS_membarrier, barrier, 0, 0)
                }
            }
        };
        let after = ticks();
        ensure!(sent == 0, "cannot notify: {}", std::io::Error::last_os_error());
        if handled {
            let since = Instant::now();
            while HANDLED.load(Acquire) <= i {
                ensure!(since.elapsed() < PATIENCE, "a notification was not handled");
                std::hint::spin_loop();
            }
            seen.delivery.push(HANDLED_AT.load(Relaxed).saturating_sub(before) as f64);
        }
        spin(SETTLE);
        seen.send.push((after - before) as f64);
        seen.receive.push(GAP.load(Relaxed) as f64);
    }
    Ok(seen)
}

fn spin(time: Duration) {
    let since = Instant::now();
    while since.elapsed() < time {
        std::hint::spin_loop();
    }
}

/// What an expiry of `setitimer` takes of the program, in ticks.
fn of_a_timer(count: u64, per_ns: f64) -> anyhow::Result<f64> {
    handle(libc::SIGALRM)?;
    itimer(Duration::from_micros(PERIOD_US as u64))?;
    let median = expiries(count, per_ns);
    itimer(Duration::ZERO)?;
    median
}

/// Sets the timer of `setitimer`; 0 stops it.
pub(super) fn itimer(period: Duration) -> anyhow::Result<()> {
    let time = libc::timeval { tv_sec: 0, tv_usec: i64::from(period.subsec_micros()) };
    let timer = libc::itimerval { it_interval: time, it_value: time };
    // SAFETY: the kernel reads the structure.
    let set = unsafe { libc::setitimer(libc::ITIMER_REAL, &raw const timer, std::ptr::null_mut()) };
    ensure!(set == 0, "no timer: {}", std::io::Error::last_os_error());
    Ok(())
}

/// What an expiry of the timer that is running takes of the program, in ticks.
fn expiries(count: u64, per_ns: f64) -> anyhow::Result<f64> {
    let mut gaps = Vec::new();
    let (mut last, mut handled) = (ticks(), HANDLED.load(Relaxed));
    let until = last + (per_ns * PATIENCE.as_nanos() as f64) as u64;
    // A few expiries are enough, and take time.
    while (gaps.len() as u64) < count.min(1_000) {
        let (seen, now) = (HANDLED.load(Relaxed), ticks());
        ensure!(now < until, "the timer has expired only {} times", gaps.len());
        if seen != handled {
            gaps.push((now - last) as f64);
            handled = seen;
        }
        last = ticks();
    }
    Ok(Summary::of(&gaps).context("the timer never expired")?.median)
}

const SECTIONS: u64 = 1_000;

/// A section that the runtime's gate keeps free of preemption, in ticks.
fn gate(count: u64) -> anyhow::Result<f64> {
    let runtime = quaver::Builder::new().workers(1).build()?;
    Ok(runtime.run(|| median_of(count, || quaver::no_preempt(|| std::hint::black_box(())))))
}

/// The same by the kernel's mask of signals.
fn mask(count: u64) -> anyhow::Result<f64> {
    // SAFETY: all zeros is a valid set, which is emptied and filled before it is used.
    let set = unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, libc::SIGURG);
        set
    };
    // SAFETY: a valid set; nobody wants the old one.
    let change = |how| unsafe { libc::pthread_sigmask(how, &set, std::ptr::null_mut()) };
    ensure!(change(libc::SIG_UNBLOCK) == 0, "the mask of signals cannot be changed");
    Ok(median_of(count, || _ = change(libc::SIG_BLOCK) + change(libc::SIG_UNBLOCK)))
}

/// The same by the processor's flag.
fn flag(count: u64) -> f64 {
    // SAFETY: user interrupts are switched on: the plan has asked. No handler is registered.
    median_of(count, || unsafe {
        std::arch::asm!(
            ".byte 0xf3, 0x0f, 0x01, 0xee", // clui
            ".byte 0xf3, 0x0f, 0x01, 0xef", // stui
            options(nostack, preserves_flags)
        );
    })
}

fn median_of(count: u64, mut section: impl FnMut()) -> f64 {
    let values: Vec<f64> = (0..count.div_ceil(10))
        .map(|_| {
            let start = ticks();
            (0..SECTIONS).for_each(|_| section());
            (ticks() - start) as f64 / SECTIONS as f64
        })
        .collect();
    Summary::of(&values).map_or(0.0, |summary| summary.median)
}
