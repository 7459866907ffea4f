//! What gdb looks at: children of this program, with threads in all states.

use crate::support::{Setup, spin, until_preempted, with_runtime};
use std::hint::black_box;
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

static BUSY: AtomicBool = AtomicBool::new(false);
static READING: AtomicBool = AtomicBool::new(false);

#[inline(never)]
fn parked_inner() -> u64 {
    quaver::sleep(std::time::Duration::MAX);
    black_box(1)
}

#[inline(never)]
fn parked_outer() -> u64 {
    black_box(parked_inner()) + 1
}

#[inline(never)]
fn busy_inner() -> u64 {
    BUSY.store(true, SeqCst);
    loop {
        black_box(&BUSY);
    }
}

#[inline(never)]
fn busy_outer() -> u64 {
    black_box(busy_inner()) + 1
}

/// With another name than it was given first.
#[inline(never)]
fn renamed_busy_outer() -> u64 {
    quaver::foreign::thread::current().unwrap().set_label(*b"busy one\0not it\0");
    busy_outer()
}

#[inline(never)]
fn reading_outer(pipe: i32) -> isize {
    let mut byte = 0u8;
    let handovers = || quaver::Handle::current().unwrap().stats().handovers;
    loop {
        let before = handovers();
        // Until there was a spare kernel thread, so that the worker has been given away.
        let n = quaver::block_in_place(|| {
            (handovers() > before).then(|| {
                READING.store(true, SeqCst);
                // SAFETY: room for one byte.
                unsafe { libc::read(pipe, (&raw mut byte).cast(), 1) }
            })
        });
        if let Some(n) = n {
            return black_box(n) + 1;
        }
        quaver::yield_now();
    }
}

#[inline(never)]
fn never_begun() -> u64 {
    black_box(1)
}

#[inline(never)]
fn holding_outer() {
    println!("ready");
    let _ = std::io::stdout().flush();
    loop {
        spin(1_000);
    }
}

/// In a child: a thread in every state. The last one does not give up the only worker.
pub fn play(setup: Setup) {
    let mut pipe = [0; 2];
    // SAFETY: room for two descriptors.
    assert_eq!(unsafe { libc::pipe(pipe.as_mut_ptr()) }, 0);
    // Few threads: what is reserved for them is part of the core file.
    with_runtime(setup.builder().max_threads(100), |rt| {
        rt.run(|| {
            let named = |name: &str| quaver::thread::Builder::new().name(name.into());
            let ended = quaver::spawn(|| 1);
            named("parked one").spawn(parked_outer).unwrap();
            named("reading one").spawn(move || reading_outer(pipe[0])).unwrap();
            named("idle one").spawn(renamed_busy_outer).unwrap();
            // Asleep, so that one that is preempted on its way gets on.
            let pause = || quaver::sleep(std::time::Duration::from_millis(5));
            while !ended.is_finished() || !BUSY.load(SeqCst) || !READING.load(SeqCst) {
                pause();
            }
            pause();
            quaver::no_preempt(|| {
                named("new one").spawn(|| never_begun() + 1).unwrap();
                holding_outer();
            });
        });
    });
}

/// In a child: two threads that preempt each other for ever.
pub fn play_two(setup: Setup) {
    with_runtime(setup.builder(), |rt| {
        rt.run(|| {
            let other = quaver::spawn(busy_outer);
            println!("ready");
            busy_outer();
            other.join().unwrap();
        });
    });
}

#[inline(never)]
fn fault_inner(n: u64) -> u64 {
    // SAFETY: none; this is the fault that is looked at.
    unsafe { black_box(std::ptr::without_provenance_mut::<u64>(8)).write_volatile(n) };
    black_box(n)
}

#[inline(never)]
fn fault_outer(n: u64) -> u64 {
    black_box(fault_inner(n)) + 1
}

/// In a child: a thread crashes, beside others, after it has been preempted.
pub fn play_fault(setup: Setup) {
    with_runtime(setup.builder(), |rt| {
        rt.run(|| {
            quaver::spawn_detached(|| _ = busy_outer());
            let thread = quaver::thread::Builder::new().name("crashing one".into());
            let crashes = thread.spawn(|| {
                until_preempted(5, |_| _ = spin(500));
                fault_outer(7)
            });
            crashes.unwrap().join().unwrap();
        });
    });
}

/// In a child: two threads that wait for each other's lock, and others that wait for other things.
pub fn play_stand_still(setup: Setup) {
    use quaver::sync::{Condvar, Mutex};
    let locks = [Mutex::new(()), Mutex::new(())];
    let held = [AtomicBool::new(false), AtomicBool::new(false)];
    let never = Condvar::new();
    let (_sender, receiver) = quaver::sync::mpsc::channel::<()>();
    with_runtime(setup.builder(), |rt| {
        rt.run(|| {
            let named = |name: &str| quaver::thread::Builder::new().name(name.into());
            quaver::scope(|s| {
                let (locks, held, never) = (&locks, &held, &never);
                for (i, name) in ["first", "second"].into_iter().enumerate() {
                    let both = move || {
                        let _mine = locks[i].lock();
                        held[i].store(true, SeqCst);
                        while !held[1 - i].load(SeqCst) {
                            quaver::yield_now();
                        }
                        let _other = locks[1 - i].lock();
                    };
                    named(name).spawn_scoped(s, both).unwrap();
                }
                let notified = move || {
                    let other = Mutex::new(());
                    drop(never.wait(other.lock().unwrap()));
                };
                named("notified").spawn_scoped(s, notified).unwrap();
                named("receiving").spawn_scoped(s, move || receiver.recv()).unwrap();
                let sleeping = || quaver::sleep(std::time::Duration::MAX);
                let sleeping = named("sleeping").spawn_scoped(s, sleeping).unwrap();
                named("joining").spawn_scoped(s, move || sleeping.join()).unwrap();
                println!("ready");
                let _ = std::io::stdout().flush();
            });
        });
    });
}
