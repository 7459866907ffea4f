//! `select` and `pselect`.

use super::many::{NOT_AT_ALL, Span, pointer};
use super::{Caller, Operation, Patience};
use crate::reactor::Wanted;
use core::ffi::c_int;
use core::ptr;
use libc::{EBADF, FD_SETSIZE, POLLIN, POLLOUT, POLLPRI, SYS_pselect6, fd_set, timespec};

/// `select` and `pselect`; `mask` is what the kernel is to be told.
///
/// # Safety
///
/// As for the call.
pub unsafe fn select<C: Caller>(
    caller: C,
    n: c_int,
    sets: [*mut fd_set; 3],
    span: Span,
    mask: usize,
) -> isize {
    // SAFETY: the caller's contract.
    let wanted = unsafe { Sets::read(sets, n) };
    let mut select = Select { caller, n, sets, wanted, span, mask };
    let result = caller.perform(false, &mut select);
    if result < 0 {
        // An error leaves them as they were.
        select.restore();
    }
    result
}

const BITS: usize = u64::BITS as usize;
const WORDS: usize = FD_SETSIZE / BITS;
const EVENTS: [i16; 3] = [POLLIN, POLLOUT, POLLPRI];

/// Three sets, of which the program's have room for `words` words.
#[derive(Clone, Copy)]
pub(crate) struct Sets {
    bits: [[u64; WORDS]; 3],
    words: usize,
    /// Descriptors from here on are not asked for.
    n: usize,
}

impl Sets {
    fn new(n: usize) -> Sets {
        Sets { bits: [[0; WORDS]; 3], words: n.div_ceil(BITS), n }
    }

    /// As long as these, and empty.
    pub(crate) fn empty(&self) -> Sets {
        Sets::new(self.n)
    }

    /// # Safety
    ///
    /// Null, or sets with room for `n` descriptors.
    pub(crate) unsafe fn read(at: [*mut fd_set; 3], n: c_int) -> Sets {
        let mut sets = Sets::new(n.clamp(0, FD_SETSIZE as c_int) as usize);
        for (from, to) in at.iter().zip(&mut sets.bits) {
            if !from.is_null() {
                // SAFETY: the caller's contract.
                unsafe { ptr::copy_nonoverlapping(from.cast(), to.as_mut_ptr(), sets.words) };
            }
        }
        sets
    }

    /// # Safety
    ///
    /// As for [`read`](Self::read).
    pub(crate) unsafe fn write(&self, at: [*mut fd_set; 3]) {
        for (to, from) in at.iter().zip(&self.bits) {
            if !to.is_null() {
                // SAFETY: the caller's contract.
                unsafe { ptr::copy_nonoverlapping(from.as_ptr(), to.cast(), self.words) };
            }
        }
    }

    /// Which sets have `fd`, as events.
    pub(crate) fn events(&self, fd: usize) -> i16 {
        let of = |(set, event): (&[u64; WORDS], i16)| {
            if set[fd / BITS] >> (fd % BITS) & 1 != 0 { event } else { 0 }
        };
        self.bits.iter().zip(EVENTS).map(of).fold(0, |all, event| all | event)
    }

    /// Puts `fd` into the sets of these events.
    pub(crate) fn add(&mut self, fd: usize, events: i16) {
        for (set, event) in self.bits.iter_mut().zip(EVENTS) {
            if events & event != 0 {
                set[fd / BITS] |= 1 << (fd % BITS);
            }
        }
    }

    /// The descriptors in them.
    pub(crate) fn files(&self) -> impl Iterator<Item = usize> {
        let all = |i: usize| self.bits[0][i] | self.bits[1][i] | self.bits[2][i];
        (0..self.words).flat_map(move |i| {
            let word = all(i);
            let set = (0..BITS).filter(move |bit| word >> bit & 1 != 0);
            set.map(move |bit| i * BITS + bit).filter(|&fd| fd < self.n)
        })
    }
}

struct Select<C> {
    caller: C,
    n: c_int,
    sets: [*mut fd_set; 3],
    /// What was in them; every try overwrites them.
    wanted: Sets,
    span: Span,
    mask: usize,
}

impl<C: Caller> Select<C> {
    fn call(&self, n: usize, sets: [*mut fd_set; 3], time: Option<&timespec>) -> isize {
        let mask = [self.mask, 8];
        let [r, w, e] = sets.map(|set| set as usize);
        self.caller.call(SYS_pselect6, [n, r, w, e, pointer(time), &raw const mask as usize])
    }

    /// Its result if it has found something.
    fn found(&self, result: isize) -> isize {
        if result == 0 { self.span.nothing() } else { result }
    }

    fn restore(&self) {
        // SAFETY: the program's sets.
        unsafe { self.wanted.write(self.sets) };
    }
}

impl<C: Caller> Operation for Select<C> {
    fn first(&mut self) -> isize {
        self.restore();
        self.found(self.call(self.n as usize, self.sets, Some(&NOT_AT_ALL)))
    }

    fn attempt(&mut self, files: &[i32]) -> isize {
        if self.wanted.files().zip(files).all(|(given, &fd)| given as i32 == fd) {
            return self.first();
        }
        let mut moved = Sets::new(FD_SETSIZE);
        for (given, &fd) in self.wanted.files().zip(files) {
            match usize::try_from(fd) {
                Ok(fd) if fd < FD_SETSIZE => moved.add(fd, self.wanted.events(given)),
                _ => return -(EBADF as isize),
            }
        }
        let bits = moved.bits.each_mut().map(|set| set.as_mut_ptr().cast::<fd_set>());
        let result = self.call(FD_SETSIZE, bits, Some(&NOT_AT_ALL));
        if result >= 0 {
            let mut found = self.wanted.empty();
            for (given, &fd) in self.wanted.files().zip(files) {
                found.add(given, moved.events(fd as usize));
            }
            // SAFETY: the program's sets.
            unsafe { found.write(self.sets) };
        }
        self.found(result)
    }

    fn count(&self) -> usize {
        self.wanted.files().count()
    }

    fn wanted(&self, wanted: &mut [Wanted]) {
        for (wanted, fd) in wanted.iter_mut().zip(self.wanted.files()) {
            *wanted = Wanted::new(fd as i32, self.wanted.events(fd));
        }
    }

    fn patience(&self) -> Patience {
        self.span.patience()
    }

    fn block(&mut self, again: bool, _: &dyn Fn() -> bool) -> isize {
        self.restore();
        self.call(self.n as usize, self.sets, self.span.left(again).as_ref())
    }

    fn timed_out(&self) -> isize {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_know_their_files() {
        let mut sets = Sets::new(70);
        sets.add(0, POLLIN);
        sets.add(69, POLLIN | POLLPRI);
        sets.add(64, POLLOUT);
        // Not asked for.
        sets.bits[0][1] |= 1 << 10;
        assert_eq!(sets.files().collect::<Vec<_>>(), [0, 64, 69]);
        assert_eq!([0, 64, 69].map(|fd| sets.events(fd)), [POLLIN, POLLOUT, POLLIN | POLLPRI]);
        let mut given = [[7u64; 3]; 3];
        let at = given.each_mut().map(|set| set.as_mut_ptr().cast());
        // SAFETY: room for two words each; the third belongs to somebody else.
        unsafe { sets.write([at[0], ptr::null_mut(), at[2]]) };
        assert_eq!(given, [[1, 1 << 10 | 1 << 5, 7], [7; 3], [0, 1 << 5, 7]]);
    }
}
