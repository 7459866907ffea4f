//! A worker of a key-value store, for Fig. 7: threads that serve GETs and SCANs, scheduled by a
//! policy of `quaver-sched` and preempted by user interrupts. It runs on the model only, beside
//! clients that write requests to a ring (`quaver_ring`) and see where it writes (`quaver_done`).
//!
//! ```text
//!   server POLICY QUANTUM timer|sender|none REQUESTS LOOKUPS ENTRIES
//!
//!   QUANTUM   cycles from a dispatch to the interrupt: by the core's own timer, or by a sender,
//!             which reads `quaver_deadline`
//!   LOOKUPS   keys that a GET looks up; ENTRIES: what a SCAN sums up
//! ```
//!
//! UIF is clear in the scheduler, which has the main stack, and set in threads. A thread that is
//! preempted stays in its handler, on its own stack, until it is dispatched again.

use std::arch::{asm, global_asm};
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use quaver_sched::{Place, Policy, Running, Spec, Task, Why};

/// Requests are numbers of these; so many at most.
const MOST: usize = 1 << 16;
/// A request is there when its word is not 0: 1 is a GET, 2 a SCAN, and above them is a key.
#[unsafe(no_mangle)]
static quaver_ring: [AtomicU64; MOST] = [const { AtomicU64::new(0) }; MOST];
/// Written when the server is ready, the first word, and when a request is done, the others.
#[unsafe(no_mangle)]
static quaver_done: [AtomicU64; 1 + MOST] = [const { AtomicU64::new(0) }; 1 + MOST];
/// When the running thread is to be interrupted; 0 is never.
#[unsafe(no_mangle)]
static quaver_deadline: AtomicU64 = AtomicU64::new(0);

const THREADS: usize = 512;
const STACK: usize = 16 << 10;
const KEYS: u64 = 1 << 15;

global_asm!(
    // switch(from, to): the stack pointers of who leaves and of who goes on.
    "server_switch:",
    "push rbx", "push rbp", "push r12", "push r13", "push r14", "push r15",
    "mov [rdi], rsp", "mov rsp, [rsi]",
    "pop r15", "pop r14", "pop r13", "pop r12", "pop rbp", "pop rbx", "ret",
    // The handler. On the stack: vector, rip, flags, rsp; aligned to 16.
    "server_entry:",
    "push rax", "push rcx", "push rdx", "push rsi", "push rdi",
    "push r8", "push r9", "push r10", "push r11",
    "sub rsp, 264",
    "movups [rsp], xmm0", "movups [rsp + 16], xmm1", "movups [rsp + 32], xmm2",
    "movups [rsp + 48], xmm3", "movups [rsp + 64], xmm4", "movups [rsp + 80], xmm5",
    "movups [rsp + 96], xmm6", "movups [rsp + 112], xmm7", "movups [rsp + 128], xmm8",
    "movups [rsp + 144], xmm9", "movups [rsp + 160], xmm10", "movups [rsp + 176], xmm11",
    "movups [rsp + 192], xmm12", "movups [rsp + 208], xmm13", "movups [rsp + 224], xmm14",
    "movups [rsp + 240], xmm15",
    "call {interrupted}",
    "movups xmm0, [rsp]", "movups xmm1, [rsp + 16]", "movups xmm2, [rsp + 32]",
    "movups xmm3, [rsp + 48]", "movups xmm4, [rsp + 64]", "movups xmm5, [rsp + 80]",
    "movups xmm6, [rsp + 96]", "movups xmm7, [rsp + 112]", "movups xmm8, [rsp + 128]",
    "movups xmm9, [rsp + 144]", "movups xmm10, [rsp + 160]", "movups xmm11, [rsp + 176]",
    "movups xmm12, [rsp + 192]", "movups xmm13, [rsp + 208]", "movups xmm14, [rsp + 224]",
    "movups xmm15, [rsp + 240]",
    "add rsp, 264",
    "pop r11", "pop r10", "pop r9", "pop r8",
    "pop rdi", "pop rsi", "pop rdx", "pop rcx", "pop rax",
    "add rsp, 8",
    ".byte 0xf3, 0x0f, 0x01, 0xec", // uiret
    interrupted = sym interrupted,
);

unsafe extern "C" {
    fn server_switch(from: *mut u64, to: *const u64);
    fn server_entry();
}

/// What makes an interrupt come at the deadline.
#[derive(Clone, Copy, PartialEq)]
enum By {
    Timer,
    Sender,
    Nobody,
}

struct Thread {
    stack_pointer: u64,
    request: usize,
    stack: Box<[u64]>,
}

struct Server {
    policy: Box<dyn Policy>,
    quantum: u64,
    by: By,
    requests: usize,
    lookups: u64,
    entries: u64,
    store: Vec<(u64, u64)>,
    threads: Vec<Thread>,
    free: Vec<usize>,
    /// Requests that have a thread, and that are done.
    taken: usize,
    done: usize,
    running: Option<Running>,
    ended: bool,
    scheduler: u64,
    /// Cycles in which there was nothing to run.
    idle: u64,
    interrupts: u64,
    preemptions: u64,
}

static mut SERVER: *mut Server = std::ptr::null_mut();

/// The server. Nobody keeps a reference over a switch or over an instruction that allows
/// interrupts.
fn server() -> &'static mut Server {
    // SAFETY: set before any thread runs, by a leaked box; there is one kernel thread, and its
    // handler runs only where UIF is set: in `serve`, which has no such reference.
    unsafe { &mut *SERVER }
}

fn now() -> u64 {
    // SAFETY: every x86-64 CPU has it.
    unsafe { std::arch::x86_64::_rdtsc() }
}

impl Server {
    /// Gives what has arrived to threads, as long as there are any.
    fn poll(&mut self) {
        while self.taken < self.requests && quaver_ring[self.taken].load(Relaxed) != 0 {
            let Some(thread) = self.free.pop() else { return };
            self.threads[thread].request = self.taken;
            self.taken += 1;
            self.policy.task_enqueue(Place::Local(0), Task(thread as u32), Why::New, now());
        }
    }

    /// An interrupt shall come at `time`.
    fn arm(&self, time: u64) {
        match self.by {
            // SAFETY: xUI's `set_timer`, once.
            By::Timer => unsafe {
                asm!(".byte 0x66, 0x0f, 0x01, 0xec", in("rax") time, in("edx") 0);
            },
            By::Sender => quaver_deadline.store(time, Relaxed),
            By::Nobody => {}
        }
    }

    fn disarm(&self) {
        match self.by {
            // SAFETY: xUI's `clear_timer`.
            By::Timer => unsafe { asm!(".byte 0x66, 0x0f, 0x01, 0xed") },
            By::Sender => quaver_deadline.store(0, Relaxed),
            By::Nobody => {}
        }
    }

    /// Chooses what runs next; nothing if there is nothing.
    fn pick(&mut self, idle_since: &mut Option<u64>) -> Option<usize> {
        self.poll();
        let time = now();
        let pick = self.policy.task_dequeue(0, time).or_else(|| self.policy.balance(0, time));
        let Some(pick) = pick else {
            idle_since.get_or_insert(time);
            return None;
        };
        self.idle += time - idle_since.take().unwrap_or(time);
        self.running = Some(Running { task: pick.task, since: time, class: pick.class });
        self.ended = false;
        self.arm(time + self.quantum);
        Some(pick.task.0 as usize)
    }

    /// The thread is back in the scheduler, because its request is done or it was preempted.
    fn came_back(&mut self, thread: usize) {
        self.disarm();
        let (time, task) = (now(), Task(thread as u32));
        if self.policy.accounts() {
            self.policy.task_stopped(0, task, time - self.running.unwrap().since);
        }
        if self.ended {
            self.done += 1;
            quaver_done[1 + self.threads[thread].request].store(1, Relaxed);
            self.free.push(thread);
        } else {
            self.policy.task_enqueue(Place::Local(0), task, Why::Preempted, time);
        }
    }
}

/// The scheduler, on the main stack, UIF clear.
fn run() {
    let mut idle_since = None;
    while server().done < server().requests {
        let Some(thread) = server().pick(&mut idle_since) else { continue };
        // SAFETY: the thread has a stack that it has left by a switch, or a new one; no reference
        // is kept.
        unsafe {
            let to = &raw const (&(*SERVER).threads)[thread].stack_pointer;
            server_switch(&raw mut (*SERVER).scheduler, to);
        }
        server().came_back(thread);
    }
}

/// The handler's part in Rust, on the stack of the thread that runs, UIF clear.
extern "C" fn interrupted() {
    let server = server();
    server.interrupts += 1;
    server.poll();
    let (time, running) = (now(), server.running.unwrap());
    if server.policy.preempt_at(0, &running, None).is_some_and(|due| due <= time) {
        server.preemptions += 1;
        // The reference ends here.
        leave(running.task.0 as usize);
    } else {
        server.arm(time + server.quantum);
    }
}

/// Goes to the scheduler, until the thread is dispatched again.
fn leave(thread: usize) {
    // SAFETY: the scheduler has left by a switch.
    unsafe {
        let from = &raw mut server().threads[thread].stack_pointer;
        server_switch(from, &raw const (*SERVER).scheduler);
    }
}

/// A thread: serves one request after the other.
extern "C" fn serve() -> ! {
    loop {
        let thread = server().running.unwrap().task.0 as usize;
        let request = quaver_ring[server().threads[thread].request].load(Relaxed);
        let store: *const [(u64, u64)] = &raw const *server().store;
        // SAFETY: nobody changes the store.
        let (store, lookups, entries) = unsafe { (&*store, server().lookups, server().entries) };
        // SAFETY: the handler is registered, and this is a thread's stack.
        unsafe { asm!(".byte 0xf3, 0x0f, 0x01, 0xef") }; // stui
        let key = request >> 8;
        black_box(if request & 0xff == 1 {
            get(store, key, lookups)
        } else {
            scan(store, key, entries)
        });
        // SAFETY: as above.
        unsafe { asm!(".byte 0xf3, 0x0f, 0x01, 0xee") }; // clui
        server().ended = true;
        leave(thread);
    }
}

fn mixed(key: u64) -> u64 {
    key.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29).wrapping_mul(0xbf58_476d_1ce4_e5b9)
}

/// Looks keys up that follow from one another.
#[inline(never)]
fn get(store: &[(u64, u64)], mut key: u64, lookups: u64) -> u64 {
    for _ in 0..lookups {
        let wanted = mixed(key);
        let place = store.partition_point(|entry| entry.0 < wanted) % store.len();
        key = key.wrapping_add(store[place].1 | 1);
    }
    key
}

/// Sums entries up, from some key on and round the end.
#[inline(never)]
fn scan(store: &[(u64, u64)], key: u64, entries: u64) -> u64 {
    let mut place = key as usize % store.len();
    let mut sum = 0u64;
    for _ in 0..entries {
        let (key, value) = store[place];
        sum = (sum ^ key).wrapping_add(value);
        place = if place + 1 == store.len() { 0 } else { place + 1 };
    }
    sum
}

fn thread() -> Thread {
    let mut stack = vec![0u64; STACK / 8].into_boxed_slice();
    // As after a call of `serve`: six registers, and where to go.
    let top = stack.as_ptr_range().end as u64 & !15;
    let at = (top - 16 - stack.as_ptr() as u64) / 8;
    stack[at as usize] = serve as *const () as u64;
    Thread { stack_pointer: top - 16 - 48, request: 0, stack }
}

fn main() {
    let words: Vec<String> = std::env::args().collect();
    let number = |i: usize| words[i].parse::<u64>().expect("a number");
    let spec: Spec = words[1].parse().expect("a policy");
    let policy = spec.build(1, THREADS as u32, |span| span.as_nanos() as u64 * 2);
    let by = match &*words[3] {
        "timer" => By::Timer,
        "sender" => By::Sender,
        _ => By::Nobody,
    };
    let mut store: Vec<_> = (0..KEYS).map(|i| (mixed(i), i)).collect();
    store.sort_unstable();
    let made = Box::leak(Box::new(Server {
        policy,
        quantum: number(2),
        by,
        requests: number(4) as usize,
        lookups: number(5),
        entries: number(6),
        store,
        threads: (0..THREADS).map(|_| thread()).collect(),
        free: (0..THREADS).rev().collect(),
        taken: 0,
        done: 0,
        running: None,
        ended: false,
        scheduler: 0,
        idle: 0,
        interrupts: 0,
        preemptions: 0,
    }));
    // Reserved by now, as a runtime's would be.
    made.threads.iter_mut().for_each(|thread| thread.stack[STACK / 16] = 1);
    // SAFETY: there is no thread yet.
    unsafe { SERVER = made };
    let call = |number: u64, a: u64| {
        let result: i64;
        // SAFETY: calls of the model's kernel.
        unsafe {
            asm!("syscall", inlateout("rax") number => result, in("rdi") a, in("rsi") 0,
                out("rcx") _, out("r11") _);
        }
        assert!(result >= 0, "call {number}: {result}");
    };
    if by != By::Nobody {
        call(471, server_entry as *const () as u64);
        call(473, 1);
    }
    if by == By::Timer {
        call(0x7855_0001, 1);
    }
    // Both kinds of requests, so that the first of a client does not meet cold caches.
    let Server { store, lookups, .. } = server();
    black_box(get(store, 1, *lookups) ^ scan(store, 1, KEYS));
    quaver_done[0].store(1, Relaxed);
    run();
    let Server { idle, interrupts, preemptions, .. } = server();
    println!("idle {idle}\ninterrupts {interrupts}\npreemptions {preemptions}");
}
