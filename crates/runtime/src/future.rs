//! Waiting for futures.

use crate::park::{self, Section, Waiter};
use core::future::Future;
use core::pin::pin;
use core::sync::atomic::{AtomicBool, Ordering::*};
use core::task::{Context, Poll, Waker};
use std::sync::Arc;
use std::task::Wake;

/// Who waits for a future. Wakers outlive it: waking a thread that has ended does no harm.
struct FutureWaiter {
    waiter: Waiter,
    woken: AtomicBool,
}

impl Wake for FutureWaiter {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // Preempted in between, the waker would keep the caller waiting.
        let _quiet = Section::new();
        if !self.woken.swap(true, AcqRel) {
            park::unpark(self.waiter);
        }
    }
}

/// Runs a future on the calling thread and returns what it gives.
///
/// While the future waits, a user thread lets others of its worker run and a kernel thread sleeps.
/// While it computes, it is preempted like any other code: a future that does not yield for
/// milliseconds holds up nobody else. Futures that are polled by the same call do wait for each
/// other, so give each its own user thread.
///
/// This is no executor: futures that need tokio's must be run by tokio, whose threads may be user
/// threads (see the page on asynchronous programs).
///
/// Calls nest. Not in the papers.
///
/// ```
/// # quaver::Builder::new().workers(1).build().unwrap().run(|| {
/// let double = quaver::spawn(|| quaver::block_on(async { 2 * 21 }));
/// assert_eq!(double.join().unwrap(), 42);
/// # });
/// ```
pub fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let me = Arc::new(FutureWaiter { waiter: park::current(), woken: AtomicBool::new(false) });
    let waker = Waker::from(me.clone());
    let mut context = Context::from_waker(&waker);
    loop {
        if let Poll::Ready(result) = future.as_mut().poll(&mut context) {
            return result;
        }
        let _waiting = park::waits_for(c"future", Arc::as_ptr(&me));
        while !me.woken.swap(false, AcqRel) {
            park::park(me.waiter);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Builder;
    use std::sync::Mutex;

    /// Ready when somebody has said so.
    #[derive(Default)]
    struct Doorbell(Mutex<(bool, Option<Waker>)>);

    impl Doorbell {
        fn ring(&self) {
            let waker = {
                let mut state = self.0.lock().unwrap();
                state.0 = true;
                state.1.take()
            };
            waker.into_iter().for_each(Waker::wake);
        }

        async fn heard(&self) {
            core::future::poll_fn(|context| {
                let mut state = self.0.lock().unwrap();
                state.1 = Some(context.waker().clone());
                if state.0 { Poll::Ready(()) } else { Poll::Pending }
            })
            .await;
        }
    }

    #[test]
    fn threads_wait_for_each_others_futures() {
        crate::__private::test(Builder::new().workers(2), || {
            let bells: Arc<Vec<Doorbell>> =
                Arc::new((0..100).map(|_| Doorbell::default()).collect());
            let threads: Vec<_> = (0..99)
                .map(|i| {
                    let bells = bells.clone();
                    crate::spawn(move || {
                        block_on(bells[i].heard());
                        bells[i + 1].ring();
                    })
                })
                .collect();
            let first = std::thread::spawn({
                let bells = bells.clone();
                move || bells[0].ring()
            });
            block_on(bells[99].heard());
            first.join().unwrap();
            threads.into_iter().for_each(|t| t.join().unwrap());
        });
    }

    #[test]
    fn a_kernel_thread_waits_too() {
        let bell = Arc::new(Doorbell::default());
        let ringer = std::thread::spawn({
            let bell = bell.clone();
            move || bell.ring()
        });
        block_on(bell.heard());
        ringer.join().unwrap();
    }

    #[test]
    fn a_future_that_wakes_itself_goes_on() {
        let mut left = 1_000;
        let counted = core::future::poll_fn(|context| {
            context.waker().wake_by_ref();
            left -= 1;
            if left == 0 { Poll::Ready(7) } else { Poll::Pending }
        });
        assert_eq!(block_on(counted), 7);
    }
}
