//! Watching the bells from a CPU of the broker's own: a ring that nobody answers within the bound
//! is answered here, so who rings need not wait.

use super::table::OwnTable;
use crate::class::{self, Class};
use crate::door::{bits, ticks};
use crate::futex;
use crate::layout::{MOST_APPS, MOST_PLACES, RUNG};
use crate::pages::Pages;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::thread::JoinHandle;

/// The thread that watches; it ends when this is dropped.
#[derive(Debug)]
pub(super) struct Guard {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Guard {
    /// Starts to watch, on this CPU.
    pub(super) fn start(cpu: usize, table: Arc<OwnTable>, pages: Arc<Pages>) -> io::Result<Guard> {
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, told) = (stop.clone(), std::sync::mpsc::channel());
        let thread = std::thread::Builder::new().name("quaver-guard".into()).spawn(move || {
            let ready = class::pin(&[cpu]);
            // Not a class that starves others: it never sleeps. Without rights it stays as it is.
            let _ = Class::Other(-20).set(0);
            let failed = ready.is_err();
            let _ = told.0.send(ready);
            if !failed {
                watch(&table, &pages, &stopped);
            }
        })?;
        let guard = Guard { stop, thread: Some(thread) };
        told.1.recv().map_err(|_| io::Error::other("the thread has ended"))??;
        Ok(guard)
    }
}

fn watch(table: &OwnTable, pages: &Pages, stop: &AtomicBool) {
    let t = table.get();
    // When a ring was seen first: what a page says of that is its owner's word.
    let mut seen = [[(0u32, 0u64); MOST_PLACES]; MOST_APPS];
    while !stop.load(Relaxed) {
        let now = ticks();
        t.guarded_at.store(now, Relaxed);
        let (places, bound) = (t.places.load(Relaxed) as usize, t.bound.load(Relaxed));
        for app in bits(t.critical.load(Relaxed)) {
            let Some(page) = pages.get(app) else { continue };
            for (place, seen) in page.places.iter().zip(&mut seen[app]).take(places) {
                if place.word.load(Acquire) != RUNG {
                    *seen = (0, 0);
                    continue;
                }
                let rings = place.rings.load(Relaxed);
                match *seen {
                    // Answered here already: the worker is on its way, or has no thread.
                    (same, u64::MAX) if same == rings => {}
                    (same, since) if same == rings && since != 0 => {
                        if now.saturating_sub(since) > bound {
                            futex::wake(&place.word);
                            *seen = (rings, u64::MAX);
                        }
                    }
                    _ => *seen = (rings, now),
                }
            }
        }
        std::hint::spin_loop();
    }
    t.guarded_at.store(0, Relaxed);
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
