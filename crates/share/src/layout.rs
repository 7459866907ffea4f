//! What the broker and its members share: the table, which the broker writes, and a page of each
//! member, which that member writes. Everyone reads all of them.
//!
//! Every field is an atomic word, and any value is one that a reader can live with: see the README.

use std::sync::atomic::{AtomicU32, AtomicU64};

/// Cores that one broker can share out.
pub const MOST_PLACES: usize = 62;
/// Applications that one broker can have at a time.
pub const MOST_APPS: usize = 32;
/// Bytes of the table, and of a member's page.
pub(crate) const SIZE: usize = 4096;

/// At the beginning of the table and of each page.
pub(crate) const MAGIC: u32 = u32::from_ne_bytes(*b"QvSh");
/// Of the table, the pages and the messages.
pub(crate) const VERSION: u32 = 1;

/// Words of a place: the worker of a latency-critical application runs, or has nothing to do with
/// this core.
pub(crate) const AWAKE: u32 = 0;
/// It has given the core up and sleeps.
pub(crate) const PARKED: u32 = 1;
/// It sleeps, and has work.
pub(crate) const RUNG: u32 = 2;

/// What the broker tells everyone.
#[repr(C, align(4096))]
pub(crate) struct Table {
    pub(crate) magic: AtomicU32,
    pub(crate) version: AtomicU32,
    /// How many cores are shared.
    pub(crate) places: AtomicU32,
    /// Ticks of the TSC in a microsecond.
    pub(crate) ticks_per_us: AtomicU32,
    /// How long who rings waits for an answer, in ticks.
    pub(crate) bound: AtomicU64,
    /// When the broker looked at the bells last, in ticks; 0: it does not.
    pub(crate) guarded_at: AtomicU64,
    /// What it takes to give a core up and have it back, in ticks.
    pub(crate) cycle: AtomicU64,
    /// Which applications are latency-critical: bit `i` for number `i`.
    pub(crate) critical: AtomicU32,
    /// Which are best-effort, and may answer bells.
    pub(crate) best_effort: AtomicU32,
    /// The CPU of each place.
    pub(crate) cpus: [AtomicU32; MOST_PLACES],
}

/// What a member says of one core. Its worker there writes it, except where another is named.
#[repr(C, align(64))]
pub(crate) struct Place {
    /// Of a latency-critical member: [`AWAKE`], [`PARKED`], [`RUNG`]. Also written by who rings.
    pub(crate) word: AtomicU32,
    /// How often the bell was rung. By who rings.
    pub(crate) rings: AtomicU32,
    /// Of a best-effort member: 1 while it looks at bells at least every microsecond or so.
    pub(crate) looking: AtomicU32,
    /// Of a best-effort member: the ring that it has answered last, see [`ring_of`].
    pub(crate) heard: AtomicU32,
    /// When the bell was rung, in ticks. By who rings.
    pub(crate) rung_at: AtomicU64,
    /// How often it parked.
    pub(crate) parks: AtomicU64,
    /// Of a latency-critical member: rings that somebody has answered. By who rings. Of a
    /// best-effort one: rings that it has answered.
    pub(crate) answered: AtomicU64,
    /// Rings that nobody has answered in time. By who rings.
    pub(crate) forced: AtomicU64,
    /// Ticks from rings until the worker ran, in all.
    pub(crate) waited: AtomicU64,
}

/// A member's page.
#[repr(C, align(4096))]
pub(crate) struct Page {
    pub(crate) magic: AtomicU32,
    pub(crate) version: AtomicU32,
    unused: [AtomicU32; 30],
    pub(crate) places: [Place; MOST_PLACES],
}

const _: () = assert!(size_of::<Table>() == SIZE && size_of::<Page>() == SIZE);
const _: () = assert!(size_of::<Place>() == 64 && MOST_APPS <= 32);

/// A ring of the application of this number, as `heard` names it. Never 0.
pub(crate) fn ring_of(app: usize, rings: u32) -> u32 {
    (app as u32 + 1) << 24 | rings & 0xff_ffff
}

#[cfg(feature = "broker")]
impl Page {
    /// What is wrong with what its owner has written, if anything is.
    pub(crate) fn check(&self, places: usize) -> Result<(), &'static str> {
        use std::sync::atomic::Ordering::Relaxed;
        if self.magic.load(Relaxed) != MAGIC || self.version.load(Relaxed) != VERSION {
            return Err("the head of its page was overwritten");
        }
        if self.unused.iter().any(|word| word.load(Relaxed) != 0) {
            return Err("an unused word of its page was written");
        }
        for (i, place) in self.places.iter().enumerate() {
            let (word, looking) = (place.word.load(Relaxed), place.looking.load(Relaxed));
            if word > RUNG || looking > 1 {
                return Err("a state of a core that does not exist");
            }
            if i >= places && (word != AWAKE || looking != 0 || place.heard.load(Relaxed) != 0) {
                return Err("a core that is not shared");
            }
        }
        Ok(())
    }
}
