//! What uops did, for a pipeline viewer: the format `Kanata 0004`, which Konata shows.

use std::fmt::Write as _;
use std::ops::Range;

use super::window::{Entry, NEVER, Origin};
use crate::decode;
use crate::memory::Memory;

struct Record {
    address: u64,
    origin: Origin,
    first: bool,
    /// Fetched, renamed, issued.
    times: [u64; 3],
    done: u64,
    left: u64,
    retired: bool,
}

/// The uops fetched in a range of cycles.
pub(super) struct View {
    cycles: Range<u64>,
    records: Vec<Record>,
}

impl View {
    pub(super) fn new(cycles: Range<u64>) -> View {
        View { cycles, records: Vec::new() }
    }

    /// An entry retires or is squashed.
    pub(super) fn leave(&mut self, entry: &Entry, cycle: u64, retired: bool) {
        if !self.cycles.contains(&entry.times[0]) {
            return;
        }
        let mut times = entry.times;
        if !entry.renamed {
            times[1] = NEVER;
        }
        if !entry.issued {
            times[2] = NEVER;
        }
        self.records.push(Record {
            address: entry.address,
            origin: entry.origin,
            first: entry.first,
            times,
            done: entry.done.min(cycle),
            left: cycle,
            retired,
        });
    }

    /// The file's text.
    pub(super) fn text(&self, memory: &Memory) -> String {
        let mut events: Vec<(u64, usize, String)> = Vec::new();
        let mut retired = 0;
        // In program order as far as the viewer can tell: by the cycle of fetch.
        let mut order: Vec<usize> = (0..self.records.len()).collect();
        order.sort_by_key(|&i| (self.records[i].times[0], self.records[i].address));
        for (id, &i) in order.iter().enumerate() {
            let r = &self.records[i];
            let name = match r.origin {
                Origin::Interrupt => "interrupt".to_owned(),
                _ if r.first => decode::disassemble(memory, r.address),
                _ => "...".to_owned(),
            };
            let label = format!("I\t{id}\t{id}\t0\nL\t{id}\t0\t{:x}: {name}\n", r.address);
            events.push((r.times[0], id, format!("{label}S\t{id}\t0\tF\n")));
            for (time, stage) in [(r.times[1], "Rn"), (r.times[2], "Ex"), (r.done, "Cm")] {
                if time <= r.left && (stage != "Cm" || r.times[2] != NEVER) {
                    events.push((time, id, format!("S\t{id}\t0\t{stage}\n")));
                }
            }
            let kind = u8::from(!r.retired);
            events.push((r.left, id, format!("R\t{id}\t{retired}\t{kind}\n")));
            retired += u64::from(r.retired);
        }
        events.sort_by_key(|&(time, id, _)| (time, id));
        let mut cycle = events.first().map_or(0, |&(time, ..)| time);
        let mut text = format!("Kanata\t0004\nC=\t{cycle}\n");
        for (time, _, event) in events {
            if time > cycle {
                // Writing to a string does not fail.
                let _ = writeln!(text, "C\t{}", time - cycle);
                cycle = time;
            }
            text.push_str(&event);
        }
        text
    }
}
