//! A thread is preempted at each instruction of `asm`, and the counter says whether it was in a
//! critical section there.
//!
//! The instruction is replaced by a jump to itself. So the thread stays there, with the registers
//! it has there, until the bytes are put back; another thread on the same CPU takes turns with it,
//! and reads the counter whenever it runs itself.

use crate::algorithm::{AWAITED, FREE, HELD};
use crate::asm::{self, WINDOW_NAMES};
use crate::cell::cell;
use crate::monitor::{self, Source, counts, skip_without};
use crate::node::{self, FIRST, NONE, Node, WAITING};
use crate::page;
use crate::raw::Lock;
use iced_x86::{Decoder, DecoderOptions, Mnemonic};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicI32};
use std::time::Duration;

/// The handle of nobody's node: it stands for another thread's.
const ANOTHER: u32 = u32::MAX;
/// How often the counter is looked at, at each instruction.
const LOOKS: usize = 5;

/// What a thread does, and since when it counts.
struct Case {
    name: &'static str,
    /// The window's number; its function is the one that is stepped through.
    window: usize,
    /// In the thread that is stopped; returns what `after` gets.
    before: fn(&Lock),
    /// The call whose instructions are stopped at.
    call: fn(&Lock),
    /// Puts the thread's cell and the lock back.
    after: fn(&Lock),
    /// Whether another thread takes the lock just before the instruction that decides.
    raced: bool,
    /// Whether the thread counts before the instruction that decides, and behind it.
    counts: [bool; 2],
}

fn own() -> (&'static Node, u32) {
    node::own().expect("memory")
}

fn set(lock: &Lock, word: u32) {
    lock.word.store(word, Relaxed);
}

fn call_try(lock: &Lock) {
    // SAFETY: any lock will do.
    unsafe { asm::try_word(&lock.word) };
}

fn call_mark(lock: &Lock) {
    // SAFETY: any lock will do.
    unsafe { asm::mark(&lock.word) };
}

fn call_release(lock: &Lock) {
    // SAFETY: `before` has taken it.
    unsafe { asm::release(&lock.word) };
}

fn call_enqueue(lock: &Lock) {
    let (node, handle) = own();
    node.lock.store((&raw const lock.word).cast_mut(), Relaxed);
    // SAFETY: the node is in no queue.
    unsafe { asm::enqueue(&lock.tail, node, handle) };
}

fn call_dequeue(lock: &Lock) {
    let (node, handle) = own();
    // SAFETY: the node is first, or waits.
    unsafe { asm::dequeue(&lock.tail, node, handle) };
}

static NEXT: Node = Node::new();

fn call_pass(_: &Lock) {
    NEXT.place.store(WAITING, Relaxed);
    // SAFETY: both are nodes.
    unsafe { asm::pass(&NEXT, own().0) }
    assert_eq!(NEXT.place.load(Relaxed), FIRST);
}

/// Somebody else is in the queue.
fn before_another(lock: &Lock) {
    own();
    lock.tail.store(ANOTHER, Relaxed);
}

/// In the queue, and not first.
fn behind_another(lock: &Lock) {
    before_another(lock);
    call_enqueue(lock);
    assert_eq!(own().0.place.load(Relaxed), WAITING);
}

/// Neither holds a lock nor is in a queue.
fn clear(lock: &Lock) {
    let cell = cell();
    own().0.place.store(NONE, Relaxed);
    lock.tail.store(0, Relaxed);
    set(lock, FREE);
    // SAFETY: the calling thread's.
    unsafe { (&raw mut (*cell).held).write_volatile(0) };
}

const CASES: &[Case] = &[
    Case {
        name: "takes a free lock",
        window: 0,
        before: |_| (),
        call: call_try,
        after: clear,
        raced: false,
        counts: [false, true],
    },
    Case {
        name: "comes too late for a free lock",
        window: 0,
        before: |_| (),
        call: call_try,
        after: clear,
        raced: true,
        counts: [false, false],
    },
    Case {
        name: "marks a free lock",
        window: 1,
        before: |_| (),
        call: call_mark,
        after: clear,
        raced: false,
        counts: [false, true],
    },
    Case {
        name: "marks a held lock",
        window: 1,
        before: |lock| set(lock, HELD),
        call: call_mark,
        after: clear,
        raced: false,
        counts: [false, false],
    },
    Case {
        name: "marks a marked lock",
        window: 1,
        before: |lock| set(lock, AWAITED),
        call: call_mark,
        after: clear,
        raced: false,
        counts: [false, false],
    },
    Case {
        name: "frees a lock",
        window: 2,
        before: call_try,
        call: call_release,
        after: clear,
        raced: false,
        counts: [true, false],
    },
    Case {
        name: "joins an empty queue",
        window: 3,
        before: |_| _ = own(),
        call: call_enqueue,
        after: clear,
        raced: false,
        counts: [false, true],
    },
    Case {
        name: "joins a queue",
        window: 3,
        before: before_another,
        call: call_enqueue,
        after: clear,
        raced: false,
        counts: [false, true],
    },
    Case {
        name: "leaves a queue as its last",
        window: 4,
        before: call_enqueue,
        call: call_dequeue,
        after: clear,
        raced: false,
        counts: [true, false],
    },
    Case {
        name: "gives up as the last, behind another",
        window: 4,
        before: behind_another,
        call: call_dequeue,
        after: clear,
        raced: false,
        counts: [true, false],
    },
    Case {
        name: "cannot leave a queue, somebody came",
        window: 4,
        before: |lock| {
            call_enqueue(lock);
            lock.tail.store(ANOTHER, Relaxed);
        },
        call: call_dequeue,
        after: clear,
        raced: false,
        counts: [true, true],
    },
    Case {
        name: "tells the next",
        window: 5,
        before: call_enqueue,
        call: call_pass,
        after: clear,
        raced: false,
        counts: [true, false],
    },
    Case {
        name: "gives up in the middle",
        window: 5,
        before: behind_another,
        call: call_pass,
        after: clear,
        raced: false,
        counts: [true, false],
    },
];

/// Two bytes of code that are replaced by a jump to themselves.
struct Stop {
    at: *mut u8,
    were: [u8; 2],
}

impl Stop {
    fn at(address: u64) -> Self {
        let at = address as *mut u8;
        // SAFETY: code of this test, made writable; x86 sees writes to its code.
        unsafe {
            let were = at.cast::<[u8; 2]>().read();
            at.cast::<[u8; 2]>().write_volatile([0xeb, 0xfe]);
            Self { at, were }
        }
    }
}

impl Drop for Stop {
    fn drop(&mut self) {
        // From behind: a thread at the first byte goes on only when both are right.
        // SAFETY: as above.
        unsafe {
            self.at.add(1).write_volatile(self.were[1]);
            self.at.write_volatile(self.were[0]);
        }
    }
}

fn pin(cpu: usize) {
    // SAFETY: a set of our own.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        assert_eq!(libc::sched_setaffinity(0, size_of_val(&set), &set), 0);
    }
}

fn some_cpu() -> usize {
    // SAFETY: no arguments.
    unsafe { libc::sched_getcpu() as usize }
}

/// Instructions of the function of a window: the address, and whether the one that decides is
/// before it.
fn instructions(window: usize) -> Vec<(u64, bool)> {
    let text = asm::text();
    let window = asm::windows()[window];
    // SAFETY: the code is there.
    let code = unsafe {
        let len = (text.end - text.start) as usize;
        std::slice::from_raw_parts(text.start as *const u8, len)
    };
    let all: Vec<_> =
        Decoder::with_ip(64, code, text.start, DecoderOptions::NONE).into_iter().collect();
    // A function ends with the last `ret` before padding or the next one's beginning.
    let inside = |ip: u64| ip - text.start >= u64::from(window.start);
    let at = all.iter().position(|i| inside(i.ip())).expect("in the code");
    let is_start = |i: usize| {
        i == 0 || (all[i - 1].mnemonic() == Mnemonic::Nop) || {
            all[i - 1].mnemonic() == Mnemonic::Ret && all[i].ip().is_multiple_of(16)
        }
    };
    let first = (0..=at).rev().find(|&i| is_start(i)).expect("a beginning");
    let last = (at..all.len()).find(|&i| {
        all[i].mnemonic() == Mnemonic::Ret
            && all
                .get(i + 1)
                .is_none_or(|n| n.mnemonic() == Mnemonic::Nop || n.ip().is_multiple_of(16))
    });
    // The atomic instruction itself is the last one before the window, or, for RELEASE, in it.
    let atomic = (first..all.len())
        .find(|&i| matches!(all[i].mnemonic(), Mnemonic::Xchg | Mnemonic::Cmpxchg))
        .expect("each has one");
    all[first..=last.expect("an end")].iter().map(|i| (i.ip(), i.ip() > all[atomic].ip())).collect()
}

/// Waits until the thread with this clock has run for a while, so that it is where it stops.
fn arrive(clock: libc::clockid_t, done: &AtomicBool) {
    let run = || {
        let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: `t` is ours. A clock of a thread that has ended yields an error.
        unsafe { libc::clock_gettime(clock, &mut t) };
        Duration::new(t.tv_sec as u64, t.tv_nsec as u32)
    };
    let before = run();
    while run() < before + Duration::from_millis(1) && !done.load(Acquire) {
        std::thread::sleep(Duration::from_micros(500));
    }
}

/// Stops a thread at `address` during the case's call. Returns what the counters of the system and
/// of the lock said while it was preempted there, or nothing if it does not come by.
fn preempted_at(case: &Case, address: u64, deciding: u64, cpu: usize) -> Option<Vec<[i64; 2]>> {
    let lock = &Lock::new();
    let clock = &AtomicI32::new(0);
    let (ready, go, done) =
        (&AtomicBool::new(false), &AtomicBool::new(false), &AtomicBool::new(false));
    std::thread::scope(|s| {
        s.spawn(move || {
            (case.before)(lock);
            pin(cpu);
            let mut own = 0;
            // SAFETY: this thread's clock, into a variable.
            unsafe { libc::pthread_getcpuclockid(libc::pthread_self(), &mut own) };
            clock.store(own, Relaxed);
            ready.store(true, Release);
            while !go.load(Acquire) {
                std::thread::yield_now();
            }
            (case.call)(lock);
            done.store(true, Release);
            (case.after)(lock);
        });
        while !ready.load(Acquire) {
            std::thread::sleep(Duration::from_micros(100));
        }
        let early = case.raced.then(|| Stop::at(deciding));
        let late = (!case.raced).then(|| Stop::at(address));
        go.store(true, Release);
        let stop = late.unwrap_or_else(|| {
            arrive(clock.load(Relaxed), done);
            set(lock, HELD);
            let stop = Stop::at(address);
            drop(early);
            stop
        });
        arrive(clock.load(Relaxed), done);
        let mut seen = Vec::new();
        for _ in 0..LOOKS {
            // The other thread has the CPU meanwhile, and must be taken from it afterwards.
            std::thread::sleep(Duration::from_millis(2));
            let all = counts().expect("the monitor is here").preempted_now;
            seen.push([all, page::of_lock(&lock.word).load(Relaxed)]);
            if done.load(Acquire) {
                break;
            }
        }
        let came_by = !done.load(Acquire);
        drop(stop);
        came_by.then_some(seen)
    })
}

#[test]
fn the_counter_is_right_at_each_instruction() {
    let _turn = crate::TURN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    match monitor::attach() {
        Ok(Source::Own) => {}
        // Other processes count there, too.
        Ok(Source::Lockd) => return eprintln!("skipped: a lockd runs on this machine"),
        Err(e) => return skip_without(&e.second.unwrap_or(e.first)).unwrap_or_default(),
    }
    let text = asm::text();
    let (from, to) = (text.start & !4095, text.end.next_multiple_of(4096));
    // SAFETY: code stays code; this test alone writes to it.
    let writable = unsafe {
        let rwx = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
        libc::mprotect(from as *mut _, (to - from) as usize, rwx)
    };
    assert_eq!(writable, 0);
    let cpu = some_cpu();
    pin(cpu);
    let mut stops = 0;
    for case in CASES {
        let window = WINDOW_NAMES[case.window];
        let instructions = instructions(case.window);
        let deciding = instructions.iter().rfind(|(_, behind)| !behind).expect("it exists").0;
        for (address, behind) in instructions {
            if case.raced && !behind {
                continue;
            }
            let Some(seen) = preempted_at(case, address, deciding, cpu) else { continue };
            let expected = [i64::from(case.counts[usize::from(behind)]); 2];
            // The monitor may miss a switch, and then says 0.
            let right = seen.iter().filter(|&&n| n == expected).count();
            assert!(
                right * 2 > seen.len() && seen.iter().all(|n| *n == expected || *n == [0; 2]),
                "{window}: {} at +{}: {expected:?} expected, {seen:?} seen",
                case.name,
                address - text.start,
            );
            stops += 1;
        }
    }
    // All windows, and all instructions of their functions.
    assert!(stops > 50, "{stops}");
    std::thread::sleep(Duration::from_millis(1));
    assert_eq!(counts().expect("the monitor is here").preempted_now, 0);
    eprintln!("{stops} instructions, {:?}", counts());
}
