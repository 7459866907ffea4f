//! When threads that make calls on files give way at them.

use crate::support::{on_runtime, spin, stats};
use quaver::net::Shutdown;
use quaver::net::unix::UnixStream;
use quaver::{Builder, Clock, PolicySpec, Stats};
use std::io::{Read, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Threads whose calls always find what they want, and one that waits for data: they give way at
/// calls, and clocks need not interrupt them, unless something else takes their CPU.
#[test]
fn who_calls_gives_way() {
    for clock in [Clock::TimerThread, Clock::PosixTimer] {
        let mut tries = (0..100).map(|_| {
            let counted = calling_threads(clock);
            println!("{clock}: {counted:?}");
            counted.preempt_useful < counted.preempt_at_call / 2
        });
        assert!(tries.any(|fewer| fewer), "{clock}");
    }
}

/// Runs some until they have given way often.
fn calling_threads(clock: Clock) -> Stats {
    const TIMES: u64 = 50;
    let quantum = Some(Duration::from_micros(200));
    on_runtime(Builder::new().workers(1).quantum(quantum).clock(clock), || {
        let (outside, here) = UnixStream::pair().unwrap();
        let heard = Arc::new(AtomicBool::new(false));
        let reader = quaver::spawn(move || (0..20).for_each(|_| echo(&here)));
        let outside = std::thread::spawn(move || {
            for _ in 0..20 {
                (&outside).write_all(b"?").unwrap();
                (&outside).read_exact(&mut [0]).unwrap();
            }
        });
        let callers = [(); 2].map(|()| {
            let heard = heard.clone();
            quaver::spawn(move || {
                let (one, other) = UnixStream::pair().unwrap();
                while !heard.load(SeqCst) || stats().preempt_at_call < TIMES {
                    (&one).write_all(b"?").unwrap();
                    (&other).read_exact(&mut [0]).unwrap();
                }
            })
        });
        reader.join().unwrap();
        heard.store(true, SeqCst);
        callers.into_iter().for_each(|caller| caller.join().unwrap());
        outside.join().unwrap();
        stats()
    })
}

/// Threads that run for less than their quantum have not had it, however seldom the worker reads
/// the time: none of them is queued behind those that run for long.
#[test]
fn short_threads_do_not_give_way() {
    const MESSAGES: u64 = 2_500;
    let quantum = Some(Duration::from_micros(50));
    let mut tries = (0..10).map(|_| {
        let pairs: Vec<_> = (0..4).map(|_| UnixStream::pair().unwrap()).collect();
        let gave_way = on_runtime(Builder::new().workers(1).quantum(quantum), || {
            let ends = pairs.iter().flat_map(|(one, other)| [one, other]);
            quaver::scope(|s| {
                for end in ends {
                    s.spawn(move || {
                        for _ in 0..MESSAGES {
                            (&*end).read_exact(&mut [0]).unwrap();
                            spin(200);
                            (&*end).write_all(b"!").unwrap();
                        }
                    });
                }
                pairs.iter().for_each(|(one, _)| (&*one).write_all(b"!").unwrap());
            });
            stats().preempt_at_call
        });
        let messages = 8 * MESSAGES;
        println!("{gave_way} of {messages}");
        gave_way < messages / 20
    });
    assert!(tries.any(|few| few));
}

/// A thread that serves one short request after the other for a quantum does not wait behind all
/// new work afterwards, as one does that computes for long.
#[test]
fn who_gives_way_once_keeps_its_place() {
    const TIMES: usize = 31;
    let quantum = Some(Duration::from_micros(200));
    let policy = "two-queue".parse::<PolicySpec>().unwrap();
    let runtime = Builder::new().workers(1).quantum(quantum).policy(policy);
    let pairs: Vec<_> = (0..4).map(|_| UnixStream::pair().unwrap()).collect();
    let (over, messages) = (AtomicBool::new(false), AtomicU64::new(0));
    let mut meanwhile = on_runtime(runtime, || {
        quaver::scope(|s| {
            for end in pairs.iter().flat_map(|(one, other)| [one, other]) {
                s.spawn(|| {
                    while !over.load(SeqCst) {
                        if (&*end).read_exact(&mut [0]).is_ok() {
                            spin(50);
                            messages.fetch_add(1, SeqCst);
                            let _ = (&*end).write_all(b"!");
                        }
                    }
                });
            }
            pairs.iter().for_each(|(one, _)| (&*one).write_all(b"!").unwrap());
            let caller = s.spawn(|| {
                let (one, other) = UnixStream::pair().unwrap();
                let once = || {
                    quaver::sleep(Duration::from_millis(1));
                    loop {
                        let before = (stats().preempt_at_call, messages.load(SeqCst));
                        (&one).write_all(b"?").unwrap();
                        (&other).read_exact(&mut [0]).unwrap();
                        if stats().preempt_at_call > before.0 {
                            break messages.load(SeqCst) - before.1;
                        }
                    }
                };
                let all: Vec<u64> = (0..TIMES).map(|_| once()).collect();
                over.store(true, SeqCst);
                pairs.iter().for_each(|(one, _)| one.shutdown(Shutdown::Both).unwrap());
                all
            });
            caller.join().unwrap()
        })
    });
    meanwhile.sort_unstable();
    println!("{meanwhile:?}");
    assert!(meanwhile[TIMES / 2] < 100, "{meanwhile:?}");
}

/// Both always find what they want, and let each other pass long before their quanta end.
#[test]
fn requests_that_are_there_take_turns() {
    const MOST: u64 = 100;
    let quantum = Some(Duration::from_millis(20));
    let mut in_a_row = on_runtime(Builder::new().workers(1).quantum(quantum), || {
        let (last, over) = (AtomicU64::new(0), AtomicBool::new(false));
        quaver::scope(|s| {
            let callers = [1, 2].map(|me| {
                let (last, over) = (&last, &over);
                s.spawn(move || {
                    let (one, other) = UnixStream::pair().unwrap();
                    let (mut all, mut row) = (Vec::new(), 0);
                    while all.len() < 200 && !over.load(SeqCst) {
                        (&one).write_all(b"?").unwrap();
                        (&other).read_exact(&mut [0]).unwrap();
                        row += 1;
                        if last.swap(me, SeqCst) != me {
                            all.push(std::mem::take(&mut row));
                        }
                    }
                    over.store(true, SeqCst);
                    all
                })
            });
            callers.map(|caller| caller.join().unwrap()).concat()
        })
    });
    in_a_row.sort_unstable();
    println!("{in_a_row:?}");
    assert!(in_a_row[in_a_row.len() / 2] < MOST, "{in_a_row:?}");
}

/// A thread that always finds its next short request has every other quantum, however many compute
/// beside it.
#[test]
fn short_requests_are_not_queued_behind_those_that_compute() {
    let mut shares = (0..10).map(|_| {
        let share = share_beside_computation();
        println!("{share:.2}");
        share > 0.3
    });
    assert!(shares.any(|is_fair| is_fair));
}

/// Which part of a worker such a thread has beside four that compute.
fn share_beside_computation() -> f64 {
    const REQUESTS: u64 = 20_000;
    let policy = "two-queue".parse::<PolicySpec>().unwrap();
    let runtime = Builder::new().workers(1).quantum(Some(Duration::from_micros(200)));
    on_runtime(runtime.policy(policy).tax(100), || {
        let over = AtomicBool::new(false);
        let serve = || {
            let (one, other) = UnixStream::pair().unwrap();
            let begun = Instant::now();
            for _ in 0..REQUESTS {
                (&one).write_all(b"?").unwrap();
                (&other).read_exact(&mut [0]).unwrap();
                spin(1000);
            }
            over.store(true, SeqCst);
            begun.elapsed()
        };
        let alone = serve();
        over.store(false, SeqCst);
        let beside = quaver::scope(|s| {
            for _ in 0..4 {
                s.spawn(|| {
                    while !over.load(SeqCst) {
                        spin(1000);
                    }
                });
            }
            s.spawn(serve).join().unwrap()
        });
        alone.as_secs_f64() / beside.as_secs_f64()
    })
}

/// Many short requests in a row are no long one for a policy that remembers.
#[test]
fn each_request_has_a_history_of_its_own() {
    assert!((0..20).any(|_| order_after_requests() == ["short", "long"]));
}

/// One thread computes for long, another has as much to do in many requests. Then both wait, and
/// are woken in this order: in which they run.
fn order_after_requests() -> Vec<&'static str> {
    const LONG: Duration = Duration::from_millis(5);
    let policy = "two-queue:quantum=50ms,history=2ms";
    on_runtime(Builder::new().workers(1).policy_str(policy), || {
        let (order, waiting) = (Mutex::new(Vec::new()), AtomicU64::new(0));
        let run = |name: &'static str, step: &dyn Fn()| {
            let begun = Instant::now();
            while begun.elapsed() < LONG {
                step();
            }
            waiting.fetch_add(1, SeqCst);
            quaver::thread::park();
            order.lock().unwrap().push(name);
        };
        let until = |done: &dyn Fn() -> bool| {
            while !done() {
                quaver::sleep(Duration::from_micros(100));
            }
        };
        quaver::scope(|s| {
            let long = s.spawn(|| run("long", &|| _ = spin(1000)));
            let short = s.spawn(|| {
                let (one, other) = UnixStream::pair().unwrap();
                run("short", &|| {
                    (&one).write_all(b"?").unwrap();
                    (&other).read_exact(&mut [0]).unwrap();
                    spin(1000);
                });
            });
            until(&|| waiting.load(SeqCst) == 2);
            long.thread().unpark();
            short.thread().unpark();
            until(&|| order.lock().unwrap().len() == 2);
        });
        order.into_inner().unwrap()
    })
}

fn echo(stream: &UnixStream) {
    (&*stream).read_exact(&mut [0]).unwrap();
    (&*stream).write_all(b"!").unwrap();
}
