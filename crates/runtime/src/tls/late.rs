//! Static TLS of libraries that were loaded after the layout was found.
//!
//! Their variables lie in every block, too, in what the loader had left free for that. It gives
//! them their initial values when it loads the library, in the blocks that exist
//! ([`ThreadList`](super::list::ThreadList)), and in new ones. On a recycled block that is left to
//! us, and cannot be done as for the others ([`Layout::reset`](super::Layout::reset)): the library
//! may be unloaded at any moment, and its place given to another. So the loader is asked, by the
//! ending thread itself, which may wait for it.

use super::modules::{self, ModuleTable};
use super::{descriptors, symbol};

pub(super) struct Late {
    table: Option<ModuleTable>,
    /// The loader's `_dl_tls_static_used`, how far static TLS reaches now. It follows two words
    /// after the pointer to its table of modules.
    used: Option<*const usize>,
    /// How far it reached when the process started.
    at_start: usize,
}

// SAFETY: a variable of the dynamic loader, read as a whole word.
unsafe impl Send for Late {}
// SAFETY: as above.
unsafe impl Sync for Late {}

impl Late {
    /// `now` is how far the static TLS of all loaded modules reaches.
    pub(super) fn find(table: Option<ModuleTable>, now: usize, at_start: usize) -> Late {
        // Since glibc 2.41 the area for rseq lies behind the modules that were there at the start.
        let now = now.max(rseq());
        let at_start = at_start.max(rseq());
        // SAFETY: a word of the loader's variables, whatever it means in this version: only the
        // right value is accepted.
        let right = |p: &*const usize| unsafe { p.read_volatile() } == now;
        let used = descriptors::in_loader(c"_thread_db_rtld_global__dl_tls_dtv_slotinfo_list")
            .map(|p| p.cast::<usize>().cast_const().wrapping_add(2))
            .filter(right);
        Late { table, used, at_start }
    }

    /// Can there be such a library now? Always, if the loader's word was not found.
    #[inline]
    pub(super) fn any(&self) -> bool {
        // SAFETY: as in `find`.
        self.used.is_none_or(|p| unsafe { p.read_volatile() } != self.at_start)
    }

    /// Gives the variables of such libraries in the block at `tp` their initial values. Waits while
    /// one is loaded or unloaded.
    ///
    /// # Safety
    ///
    /// The block is complete, and nobody uses these variables of it any more.
    #[cold]
    pub(super) unsafe fn reset(&self, tp: usize) {
        let Some(table) = &self.table else { return };
        modules::each(Some(table), |m| {
            if let Some(image) = m.image.filter(|_| !m.from_start) {
                // SAFETY: the caller's contract; the module stays while it is listed.
                unsafe { image.write(tp) };
            }
        });
    }
}

/// How far the area for rseq reaches below the thread pointer, if it lies there; otherwise 0.
fn rseq() -> usize {
    // SAFETY: a constant of libc's, of this type.
    let offset = symbol(c"__rseq_offset").map_or(0, |p| unsafe { *p.cast::<isize>() });
    offset.min(0).unsigned_abs()
}

#[cfg(test)]
mod tests {
    use super::super::layout;

    #[test]
    fn the_loaders_word_is_found() {
        let late = &layout().unwrap().late;
        assert!(late.table.is_some() && late.used.is_some());
        assert!(!late.any());
    }
}
