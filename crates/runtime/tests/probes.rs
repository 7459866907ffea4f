//! Preemption at probes, in loops written as `quaver-as` writes them.

#[macro_use]
#[path = "support/probed.rs"]
mod probed;
#[path = "support/mod.rs"]
mod support;

use probed::probed;
use quaver::{Builder, Clock, Notification, Tls};
use std::arch::asm;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;
use support::{on_runtime, spin, stats};

/// A quantum for which threads look themselves, whatever a signal takes here.
fn builder() -> Builder {
    Builder::new()
        .workers(1)
        .clock(Clock::PosixTimer)
        .policy("rr".parse().unwrap())
        .quantum(Some(Duration::from_micros(5)))
        .notification(Notification::Probe)
}

/// Two threads on one worker: runs `body` in both until `enough`.
fn two(body: impl Fn(u64) + Sync, enough: impl Fn() -> bool + Sync) {
    let done = AtomicBool::new(false);
    quaver::scope(|s| {
        for me in 0..2 {
            let (body, enough, done) = (&body, &enough, &done);
            s.spawn(move || {
                while !done.load(SeqCst) {
                    body(me);
                    if enough() {
                        done.store(true, SeqCst);
                    }
                }
            });
        }
    });
}

#[test]
fn threads_are_preempted_at_probes() {
    on_runtime(builder(), || {
        two(|_| probed::<0>(1_000_000), || stats().preempt_at_probe >= 200);
        let stats = stats();
        assert!(stats.preempt_at_probe <= stats.preempt_useful, "{stats:?}");
    });
}

/// What is further off than ten interruptions is the clock's: nothing is counted until then.
#[test]
fn a_long_quantum_ends_by_a_signal() {
    on_runtime(builder().quantum(Some(Duration::from_millis(10))), || {
        two(|_| probed::<0>(1_000_000), || stats().preempt_useful >= 20);
        let stats = stats();
        assert!(stats.preempt_at_probe <= stats.preempt_useful / 2, "{stats:?}");
    });
}

/// Where the clock has a thread of its own, that sets the word then.
#[test]
fn a_long_quantum_ends_at_a_probe_if_a_thread_keeps_time() {
    let quantum = Duration::from_millis(10);
    on_runtime(builder().clock(Clock::TimerThread).quantum(Some(quantum)), || {
        two(|_| probed::<0>(1_000_000), || stats().preempt_useful >= 20);
        let stats = stats();
        assert!(stats.preempt_at_probe >= stats.preempt_useful / 2, "{stats:?}");
    });
}

/// So short a quantum that no signal could keep it.
#[test]
fn quanta_of_microseconds() {
    on_runtime(builder().quantum(Some(Duration::from_micros(2))), || {
        two(|_| probed::<2>(1_000_000), || stats().preempt_at_probe >= 1_000);
    });
    let e = builder().notification(Notification::Signal).quantum(Some(Duration::from_micros(2)));
    assert!(e.build().unwrap_err().to_string().contains("10us"));
}

#[test]
fn a_signal_follows_where_there_is_no_probe() {
    on_runtime(builder(), || {
        two(|_| _ = spin(100_000), || stats().preempt_useful >= 20);
        assert_eq!(stats().preempt_at_probe, 0);
    });
}

#[test]
fn the_other_clocks_send_the_signal_where_there_is_no_probe() {
    on_runtime(builder().clock(Clock::TimerThread), || {
        two(|_| probed::<0>(1_000_000), || stats().preempt_at_probe >= 50);
        let before = stats();
        two(|_| _ = spin(100_000), || stats().preempt_useful >= before.preempt_useful + 20);
        // Who waits sets words itself: the clock sends no word before the signal.
        let after = stats();
        assert!(after.preempt_sent <= after.preempt_received / 4 * 7 + 2, "{after:?}");
    });
}

/// A thread that is alone meets no probe that looks at the clock.
#[test]
fn nobody_waits_nobody_stops() {
    on_runtime(builder(), || {
        probed::<0>(50_000_000);
        assert_eq!((stats().preempt_useful, stats().preempt_sent), (0, 0));
    });
}

#[test]
fn regions_are_left_before_a_preemption() {
    let (inside, seen) = (AtomicU64::new(0), AtomicU64::new(0));
    on_runtime(builder(), move || {
        let body = |_| {
            quaver::no_preempt(|| {
                if inside.fetch_add(1, SeqCst) != 0 {
                    seen.fetch_add(1, SeqCst);
                }
                probed::<0>(50_000);
                inside.fetch_sub(1, SeqCst);
            });
        };
        two(body, || stats().preempt_useful >= 50);
        assert_eq!(seen.load(SeqCst), 0, "a thread was preempted in its region");
    });
}

#[test]
fn kernel_threads_pass_probes() {
    on_runtime(builder(), || {
        let other = std::thread::spawn(|| probed::<0>(10_000_000));
        two(|_| probed::<0>(10_000), || stats().preempt_at_probe >= 20);
        other.join().unwrap();
    });
}

macro_rules! registers {
    ($name:ident, $class:literal, $feature:tt, $set:literal, $get:literal, $($reg:tt)*) => {
        #[test]
        fn $name() {
            if !is_x86_feature_detected!($feature) {
                eprintln!("left out: this CPU has no {}", $feature);
                return;
            }
            on_runtime(builder(), || {
                let body = |me: u64| {
                    let mut n = 20_000u64;
                    $(
                        let want = me * 1_000 + $reg;
                        let got: u64;
                        // SAFETY: the loop of `probed`; the register that it names is declared.
                        unsafe {
                            asm!(
                                $set,
                                probed_loop!(),
                                $get,
                                n = inout(reg) n,
                                want = inout(reg) want => _,
                                got = out(reg) got,
                                class = const $class,
                                r = const $reg,
                                out("xmm0") _, out("xmm1") _, out("xmm15") _,
                                out("k1") _,
                            );
                        }
                        assert_eq!(got, want, "register {} of {}", $reg, stringify!($name));
                        n += 20_000;
                    )*
                    let _ = n;
                };
                two(body, || stats().preempt_at_probe >= 100);
            });
        }
    };
}

registers!(xmm_live, 1, "sse2", "movq xmm{r}, {want}", "movq {got}, xmm{r}", 0 1 15);
registers!(
    ymm_live, 2, "avx2",
    "vmovq xmm{r}, {want}\nvinserti128 ymm{r}, ymm{r}, xmm{r}, 1",
    "vextracti128 xmm{r}, ymm{r}, 1\nvmovq {got}, xmm{r}", 0 1 15);
registers!(
    zmm_live, 3, "avx512bw",
    "vpbroadcastq zmm{r}, {want}\nkmovq k1, {want}",
    "vextracti64x4 ymm{r}, zmm{r}, 1\nvmovq {got}, xmm{r}\nkmovq {want}, k1\n\
     cmp {got}, {want}\nje 6f\nxor {got:e}, {got:e}\n6:",
    0 1 15);
registers!(all_live, 4, "sse2", "movq xmm{r}, {want}", "movq {got}, xmm{r}", 0 1 15);

#[test]
fn threads_without_variables_of_their_own_are_refused() {
    let e = builder().tls(Tls::Shared).build().unwrap_err().to_string();
    assert!(e.contains("tls=private") && e.contains("notification=signal"), "{e}");
}
