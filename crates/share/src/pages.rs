//! Everyone's pages, as one process sees them.
//!
//! A page that has been mapped stays mapped for as long as the process lives, although its
//! application may be gone: a worker may be reading it at any moment. What is reused is the room of
//! its number. So a broker whose members come and go costs each of them a page a time, up to
//! [`MOST_KEPT`]; beyond that, further applications are not seen, which makes bells slower and
//! nothing else.

use crate::layout::{MOST_APPS, Page};
use crate::map::Mapping;
use std::array;
use std::ptr::null_mut;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicPtr, AtomicUsize};

/// Pages that one process maps at most, in its life.
const MOST_KEPT: usize = 16 * 1024;

/// The pages of all applications, by their numbers.
#[derive(Debug)]
pub(crate) struct Pages {
    pages: [AtomicPtr<Page>; MOST_APPS],
    kept: AtomicUsize,
}

impl Pages {
    pub(crate) fn new() -> Pages {
        Pages { pages: array::from_fn(|_| AtomicPtr::new(null_mut())), kept: AtomicUsize::new(0) }
    }

    /// The page of this application, if it is there.
    #[inline]
    pub(crate) fn get(&self, app: usize) -> Option<&Page> {
        // SAFETY: null, or a mapping that is never removed.
        unsafe { self.pages.get(app)?.load(Acquire).as_ref() }
    }

    /// Uses this page for that application from now on.
    pub(crate) fn set(&self, app: usize, page: Mapping) {
        if app < MOST_APPS && self.kept.fetch_add(1, Relaxed) < MOST_KEPT {
            // SAFETY: a page consists of atomics.
            let at = std::ptr::from_ref::<Page>(unsafe { page.cast() }).cast_mut();
            // Release: its contents are seen by who sees its address.
            self.pages[app].store(at, Release);
            std::mem::forget(page);
        }
    }

    /// The application is gone.
    pub(crate) fn clear(&self, app: usize) {
        if let Some(page) = self.pages.get(app) {
            page.swap(null_mut(), AcqRel);
        }
    }
}
