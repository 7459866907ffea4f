//! Caches, translation and the prefetcher: tags and times, no content.

use super::parameters;

/// A set-associative cache, least recently used line out first.
pub(super) struct Cache {
    sets: usize,
    ways: usize,
    /// Of each way: line + 1 (0: empty), and when it is there. The youngest first.
    lines: Vec<(u64, u64)>,
}

impl Cache {
    pub(super) fn new(lines: usize, ways: usize) -> Cache {
        Cache { sets: lines / ways, ways, lines: vec![(0, 0); lines] }
    }

    fn set(&mut self, line: u64) -> &mut [(u64, u64)] {
        let set = line as usize % self.sets;
        &mut self.lines[set * self.ways..(set + 1) * self.ways]
    }

    /// When the line is there, if it is or will be.
    pub(super) fn find(&mut self, line: u64) -> Option<u64> {
        let set = self.set(line);
        let way = set.iter().position(|&(at, _)| at == line + 1)?;
        set[..=way].rotate_right(1);
        Some(set[0].1)
    }

    /// Brings a line, which is there at `time`.
    pub(super) fn fill(&mut self, line: u64, time: u64) {
        let set = self.set(line);
        set.rotate_right(1);
        set[0] = (line + 1, time);
    }

    /// Whether the line is there or on its way.
    pub(super) fn holds(&self, line: u64) -> bool {
        let set = line as usize % self.sets;
        self.lines[set * self.ways..(set + 1) * self.ways].iter().any(|&(at, _)| at == line + 1)
    }

    /// Drops a line.
    pub(super) fn drop(&mut self, line: u64) {
        let set = self.set(line);
        if let Some(way) = set.iter().position(|&(at, _)| at == line + 1) {
            set[way..].rotate_left(1);
            set[set.len() - 1] = (0, 0);
        }
    }
}

/// What a load with a stride has done.
#[derive(Clone, Copy, Default)]
struct Stride {
    instruction: u64,
    last: u64,
    step: i64,
    sure: u8,
}

/// The memory hierarchy as a core sees it.
pub(super) struct Hierarchy {
    p: parameters::Memory,
    line: u32,
    code: Cache,
    data: Cache,
    second: Cache,
    third: Cache,
    pages: Cache,
    more_pages: Cache,
    /// When the misses of the first level that wait are over.
    waiting: Vec<u64>,
    strides: Vec<Stride>,
    /// Lines that another core has written, and how long they take from there.
    remote: Vec<(u64, u64)>,
    pub(super) l1_misses: u64,
    pub(super) l2_misses: u64,
}

const PAGE_BITS: u32 = 12;

impl Hierarchy {
    pub(super) fn new(p: &parameters::Memory) -> Hierarchy {
        let cache = |c: &parameters::Cache| Cache::new(c.size / p.line as usize, c.ways);
        // Four ways are no parameter: they matter where all pages fall into a few sets. Fully
        // associative where four do not fit.
        let table = |n: usize| Cache::new(n, if n.is_multiple_of(4) { 4 } else { n });
        Hierarchy {
            line: p.line.trailing_zeros(),
            code: cache(&p.code),
            data: cache(&p.data),
            second: cache(&p.second),
            third: cache(&p.third),
            pages: table(p.page_table.first),
            more_pages: table(p.page_table.second),
            waiting: Vec::new(),
            strides: vec![Stride::default(); p.prefetch_entries],
            remote: Vec::new(),
            l1_misses: 0,
            l2_misses: 0,
            p: p.clone(),
        }
    }

    /// Cycles that instruction bytes take beyond those that the front end hides.
    pub(super) fn code(&mut self, address: u64, now: u64) -> u64 {
        let line = address >> self.line;
        if let Some(time) = self.code.find(line) {
            return self.p.code.latency + time.saturating_sub(now);
        }
        let time = self.beyond(line, now);
        self.code.fill(line, time);
        // Fetch runs ahead of itself.
        if self.code.find(line + 1).is_none() {
            let next = self.beyond(line + 1, now);
            self.code.fill(line + 1, next);
        }
        time - now
    }

    /// When a load that begins `now` has its data. `instruction`: its address, for the prefetcher.
    pub(super) fn load(&mut self, address: u64, bytes: u8, instruction: u64, now: u64) -> u64 {
        let begin = now + self.translate(address, now);
        let mut time = self.line_at(address >> self.line, begin) + self.p.data.latency;
        let last = address.wrapping_add(u64::from(bytes).max(1) - 1);
        if last >> self.line != address >> self.line {
            time = time.max(self.line_at(last >> self.line, begin) + self.p.data.latency) + 1;
        }
        self.prefetch(address, instruction, now);
        time
    }

    /// When a store that begins `now` may be written: its line is there.
    pub(super) fn store(&mut self, address: u64, bytes: u8, now: u64) -> u64 {
        let begin = now + self.translate(address, now);
        let last = address.wrapping_add(u64::from(bytes).max(1) - 1);
        let time = self.line_at(address >> self.line, begin);
        if last >> self.line == address >> self.line {
            return time;
        }
        time.max(self.line_at(last >> self.line, begin))
    }

    /// Whether a line of data is here, so that another core must ask for it before it writes.
    pub(super) fn holds(&self, address: u64) -> bool {
        let line = address >> self.line;
        self.data.holds(line) || self.second.holds(line)
    }

    /// Another core writes a line. From here it takes `latency` cycles then.
    pub(super) fn written_elsewhere(&mut self, address: u64, latency: u64) {
        let line = address >> self.line;
        self.data.drop(line);
        self.second.drop(line);
        self.third.drop(line);
        self.remote.retain(|&(known, _)| known != line);
        self.remote.push((line, latency));
    }

    /// A device writes these bytes: their lines are in the third-level cache.
    pub(super) fn written_by_device(&mut self, address: u64, bytes: u64) {
        for line in address >> self.line..=(address + bytes.max(1) - 1) >> self.line {
            self.data.drop(line);
            self.second.drop(line);
            self.remote.retain(|&(known, _)| known != line);
            if self.third.find(line).is_none() {
                self.third.fill(line, 0);
            }
        }
    }

    /// When the line is in the first-level data cache.
    fn line_at(&mut self, line: u64, now: u64) -> u64 {
        if let Some(time) = self.data.find(line) {
            return time.max(now);
        }
        self.l1_misses += 1;
        let begin = self.slot(now);
        let time = self.beyond(line, begin);
        self.data.fill(line, time);
        self.waiting.push(time);
        time
    }

    /// When there is room for one more miss.
    fn slot(&mut self, now: u64) -> u64 {
        self.waiting.retain(|&time| time > now);
        if self.waiting.len() < self.p.misses {
            return now;
        }
        let first = (0..self.waiting.len()).min_by_key(|&i| self.waiting[i]).expect("some wait");
        self.waiting.swap_remove(first)
    }

    /// When a line comes from the second level or beyond.
    fn beyond(&mut self, line: u64, now: u64) -> u64 {
        if let Some(place) = self.remote.iter().position(|&(remote, _)| remote == line) {
            let (_, latency) = self.remote.swap_remove(place);
            self.second.fill(line, now + latency);
            return now + latency;
        }
        let second = now + self.p.second.latency - self.p.data.latency;
        if let Some(time) = self.second.find(line) {
            return time.max(second);
        }
        self.l2_misses += 1;
        let third = now + self.p.third.latency - self.p.data.latency;
        let time = match self.third.find(line) {
            Some(time) => time.max(third),
            None => {
                let time = third + self.p.dram;
                self.third.fill(line, time);
                time
            }
        };
        self.second.fill(line, time);
        time
    }

    fn translate(&mut self, address: u64, now: u64) -> u64 {
        let page = address >> PAGE_BITS;
        if self.pages.find(page).is_some() {
            return 0;
        }
        self.pages.fill(page, now);
        if self.more_pages.find(page).is_some() {
            return self.p.page_table.second_latency;
        }
        self.more_pages.fill(page, now);
        self.p.page_table.walk
    }

    fn prefetch(&mut self, address: u64, instruction: u64, now: u64) {
        let place = (instruction ^ instruction >> 8) as usize & (self.strides.len() - 1);
        let known = &mut self.strides[place];
        if known.instruction != instruction {
            *known = Stride { instruction, last: address, step: 0, sure: 0 };
            return;
        }
        let step = address.wrapping_sub(known.last) as i64;
        if step == 0 {
            return;
        }
        known.last = address;
        if step != known.step {
            (known.step, known.sure) = (step, 0);
            return;
        }
        // The same stride three times. No parameter: Intel does not say how its prefetcher learns.
        known.sure = (known.sure + 1).min(3);
        if known.sure < 2 {
            return;
        }
        // At least a line each time, and within the page.
        let bytes = step.unsigned_abs().max(1 << self.line) as i64 * step.signum();
        let ahead = address.wrapping_add_signed(bytes * self.p.prefetch_distance as i64);
        let line = ahead >> self.line;
        if ahead >> PAGE_BITS == address >> PAGE_BITS && self.data.find(line).is_none() {
            let time = self.beyond(line, now);
            self.data.fill(line, time);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::Parameters;

    #[test]
    fn the_oldest_line_goes_and_a_dropped_one_is_gone() {
        let mut cache = Cache::new(8, 2);
        for line in [0, 4, 8] {
            cache.fill(line, line);
        }
        assert_eq!((cache.find(0), cache.find(4), cache.find(8)), (None, Some(4), Some(8)));
        cache.find(4);
        cache.fill(12, 0);
        assert_eq!((cache.find(4), cache.find(8)), (Some(4), None));
        cache.drop(4);
        assert_eq!((cache.find(4), cache.find(12)), (None, Some(0)));
    }

    #[test]
    fn each_level_has_its_latency() {
        let p = Parameters::default().memory;
        let mut memory = Hierarchy::new(&p);
        let at = 0x10_0000;
        let cold = memory.load(at, 8, 0, 1000) - 1000;
        assert_eq!(cold, p.page_table.walk + p.third.latency + p.dram);
        assert_eq!(memory.load(at, 8, 0, 2000) - 2000, p.data.latency);
        // Lines of the same set on other pages push it out of the first level, of both kinds.
        for i in 1..=128 {
            memory.load(at + i * 4096, 8, 0, 3000);
        }
        let again = memory.load(at, 8, 0, 9000) - 9000;
        assert_eq!(again, p.second.latency + p.page_table.second_latency);
        memory.written_elsewhere(at, 333);
        memory.written_elsewhere(at + 64, 444);
        assert_eq!(memory.load(at, 8, 0, 20_000) - 20_000, 333 + p.data.latency);
        assert_eq!(memory.load(at + 64, 8, 0, 20_000) - 20_000, 444 + p.data.latency);
        memory.written_elsewhere(at, 333);
        memory.written_by_device(at, 65);
        for line in [at, at + 64] {
            assert_eq!(memory.load(line, 8, 0, 30_000) - 30_000, p.third.latency);
        }
    }

    #[test]
    fn misses_wait_for_each_other_when_there_are_too_many() {
        let p = Parameters::default().memory;
        let mut memory = Hierarchy::new(&p);
        let times: Vec<u64> =
            (0..40).map(|i| memory.load(0x20_0000 + i * 64, 8, i * 977, 0)).collect();
        assert!(times[39] >= 2 * times[0] - 100, "{times:?}");
    }

    /// 600 loads of one instruction, far apart in time: how many of the last 400 have their line.
    fn hits(at: impl Fn(u64) -> u64) -> usize {
        let p = Parameters::default().memory;
        let mut memory = Hierarchy::new(&p);
        let mut hits = 0;
        for i in 0..600 {
            let now = 10_000 * i;
            let took = memory.load(at(i), 8, 0x40_0010, now) - now;
            let here = p.data.latency + p.page_table.walk;
            hits += usize::from(i >= 200 && took <= here);
        }
        hits
    }

    #[test]
    fn strides_are_prefetched_and_random_loads_are_not() {
        let up = |step: u64| hits(|i| 0x100_0000 + step * i);
        // Every line of a page but those at its begin, which no load on the page foretells.
        let distance = Parameters::default().memory.prefetch_distance as usize;
        let most = 400 - 400 / 64 * distance - 2 * distance;
        assert!(up(64) >= most, "{}", up(64));
        let down = hits(|i| 0x200_0000 - 64 * i);
        assert!(down >= most, "{down}");
        // Many loads of a line: all but the first hit anyway.
        assert!(up(8) >= 400 - 2 * distance, "{}", up(8));
        // A stride beyond the page is not followed.
        assert_eq!(up(4096), 0);
        // xorshift: each line once.
        let mut at = Vec::new();
        let mut x = 0x1234_5678_9abc_def1_u64;
        for _ in 0..600 {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            at.push(0x4000_0000 + x % (1 << 24) * 64);
        }
        assert_eq!(hits(|i| at[i as usize]), 0);
    }

    #[test]
    fn a_random_walk_fetches_no_line_more() {
        let p = Parameters::default().memory;
        let mut memory = Hierarchy::new(&p);
        let (mut x, mut lines) = (0x1234_5678_9abc_def1_u64, std::collections::HashSet::new());
        for i in 0..2000 {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            let at = 0x4000_0000 + x % 4096 / 64 * 64;
            memory.load(at, 8, 0x40_0010, 1000 * i);
            lines.insert(at);
        }
        assert_eq!(memory.l1_misses, lines.len() as u64);
        assert_eq!(memory.l2_misses, memory.l1_misses);
    }
}
