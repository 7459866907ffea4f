//! Preemptive user-level threads for Linux.
//!
//! Many *user threads* run on few *workers*; a running thread is interrupted after a quantum of
//! microseconds when, and only when, something else is waiting. So a 1 µs request never waits
//! behind a 500 µs one, and no code has to be written for it: any Rust (or C) code is preempted at
//! any instruction.
//!
//! ```
//! #[quaver::main(workers = 1)]
//! fn main() {
//!     let busy = quaver::spawn(|| (0..10_000_000u64).fold(0, |a, b| a ^ b.wrapping_mul(a | 1)));
//!     let quick = quaver::spawn(|| "does not wait for the busy one");
//!     println!("{}", quick.join().unwrap());
//!     busy.join().unwrap();
//! }
//! ```
//!
//! # Where to look
//!
//! * [`spawn`], [`scope`], [`JoinHandle`], [`yield_now`], [`sleep`], [`thread`]: threads, as in
//!   `std::thread`.
//! * [`sync`]: locks, condition variables, channels, as in `std::sync`, for user threads and kernel
//!   threads alike; [`select`](sync::select) and [`CancelToken`](sync::CancelToken).
//! * [`net`]: sockets, as in `std::net`; waiting for other files.
//! * [`Builder`], [`Runtime`], [`Handle`]: starting a runtime, using it from other kernel threads.
//! * [`no_preempt`]: short regions that must not be interrupted; [`Guarded`]: an allocator in such
//!   regions.
//! * [`block_in_place`]: calls that block in the kernel. [`block_on`]: futures.
//! * [`Stats`], [`Lateness`]: what the runtime has done.
//!
//! # What you can rely on
//!
//! * `thread_local!` variables, `errno` and panics belong to the user thread and move with it
//!   (unless you choose [`Tls::Shared`]).
//! * Locks of `std` and `parking_lot`, and waits for sockets and pipes, `std`'s too, park the user
//!   thread. Any other lock or blocking call that waits in the kernel never stops a worker for
//!   long: its place is given to another kernel thread.
//! * A signal interrupts what waits in the kernel: calls that Linux does not restart (`select`,
//!   `semop`) can return `EINTR`, as after any signal. `std` retries where its documentation says
//!   so.
//! * Signal masks belong to the kernel thread: do not change them on a user thread.
//!
//! # Needs
//!
//! Linux 5.9 or newer on x86-64, glibc 2.34 or newer, dynamically linked.

#[cfg(not(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu")))]
compile_error!("quaver needs Linux on x86-64 with glibc");

// With `--cfg loom` only what the models need is compiled.
#[cfg(not(loom))]
mod arch;
#[cfg(not(loom))]
mod block;
#[cfg(not(loom))]
mod calls;
#[cfg(not(loom))]
mod clock;
#[cfg(loom)]
mod clock {
    mod sleep;
}
#[cfg(not(loom))]
mod config;
#[cfg(any(not(loom), all(test, shuttle)))]
mod deadline;
#[cfg(not(loom))]
mod debugger;
#[doc(hidden)]
pub mod foreign;
#[cfg(not(loom))]
mod future;
#[cfg(not(loom))]
mod guarded;
mod idle;
#[cfg(not(loom))]
mod interpose;
#[cfg(not(loom))]
mod kernel_thread;
#[cfg(not(loom))]
mod lateness;
#[cfg(not(loom))]
pub mod monitor;
#[cfg(not(loom))]
pub mod net;
#[cfg(not(loom))]
mod os;
#[cfg(not(loom))]
mod overlay;
#[cfg(not(loom))]
mod panics;
mod park;
#[cfg(not(loom))]
pub mod platform;
#[cfg(not(loom))]
mod policy;
#[cfg(not(loom))]
mod preempt;
#[cfg(loom)]
mod preempt {
    mod in_library;
    mod request;
}
#[cfg(not(loom))]
mod reactor;
#[cfg(not(loom))]
mod runtime;
#[cfg(not(loom))]
mod segments;
#[cfg(not(loom))]
mod share;
#[cfg(not(loom))]
mod stats;
pub mod sync;
#[cfg(not(loom))]
mod sys;
#[cfg(not(loom))]
pub mod thread;
#[cfg(loom)]
mod thread {
    mod life;
}
#[cfg(not(loom))]
mod time;
#[cfg(not(loom))]
mod tls;
#[cfg(not(loom))]
mod tsc;
#[cfg(not(loom))]
mod uintr;
#[cfg(not(loom))]
mod worker;
#[cfg(loom)]
mod worker {
    mod seat;
}

#[cfg(not(loom))]
pub use block::block_in_place;
#[cfg(not(loom))]
pub use config::{
    BuildError, Builder, Clock, DEFAULT_STACK_SIZE, MAX_WORKERS, Notification, Resume, Tls,
    UnknownName,
};
#[cfg(not(loom))]
pub use future::block_on;
#[cfg(not(loom))]
pub use guarded::Guarded;
#[cfg(not(loom))]
pub use lateness::Lateness;
#[cfg(not(loom))]
pub use policy::{ActivePolicy, PolicyRoom};
#[cfg(all(feature = "inspect", not(loom)))]
#[doc(hidden)]
pub use preempt::inspect;
#[cfg(not(loom))]
pub use preempt::{NoPreempt, is_preemptible, no_preempt};
#[cfg(not(loom))]
pub use quaver_macros::{main, test};
#[cfg(not(loom))]
pub use quaver_sched::{self as sched, Policy, Spec as PolicySpec};
#[cfg(not(loom))]
pub use runtime::{Handle, Leftover, NoRuntime, Runtime, ShutDown};
#[cfg(not(loom))]
pub use stats::Stats;
#[cfg(not(loom))]
pub use thread::{JoinHandle, scope, spawn, spawn_detached, yield_now};
#[cfg(not(loom))]
pub use time::{sleep, sleep_until};
#[cfg(not(loom))]
pub use tls::{Unsupported as TlsUnsupported, shared::Unshareable as TlsUnshareable};

/// For the macros.
#[cfg(not(loom))]
#[doc(hidden)]
pub mod __private {
    use crate::{BuildError, Builder};
    use std::time::{Duration, Instant};

    /// Runs a test on a runtime of its own; tests in one process take turns.
    pub fn test<T: Send>(builder: Builder, body: impl FnOnce() -> T + Send) -> T {
        let patience = Instant::now() + Duration::from_secs(600);
        loop {
            match builder.clone().build() {
                Ok(rt) => return rt.run(body),
                Err(BuildError::AlreadyRunning) if Instant::now() < patience => {
                    std::thread::sleep(Duration::from_millis(1));
                }
                Err(e) => panic!("cannot build a runtime for the test: {e}"),
            }
        }
    }
}
