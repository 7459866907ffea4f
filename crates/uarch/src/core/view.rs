//! What uops did, for a pipeline viewer: as data, and in the format `Kanata 0004`, which Konata
//! shows.

use std::fmt::Write as _;
use std::ops::Range;

use super::window::{Entry, NEVER, Origin};
use crate::decode;
use crate::memory::Memory;

/// What a uop belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// An instruction of the program.
    Program,
    /// One of a handler of the model's own.
    Handler,
    /// Microcode of an interrupt.
    Interrupt,
}

/// What a uop did, in cycles.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Traced {
    /// Its instruction's address.
    pub address: u64,
    /// The instruction; of its second and later uops `...`.
    pub text: String,
    /// What it belongs to.
    pub kind: Kind,
    /// When it was fetched.
    pub fetched: u64,
    /// When it was renamed, if it was.
    pub renamed: Option<u64>,
    /// When it was issued, if it was.
    pub issued: Option<u64>,
    /// When its result was there, if it was issued.
    pub done: Option<u64>,
    /// When it retired or was squashed.
    pub left: u64,
    /// It retired.
    pub retired: bool,
}

struct Record {
    /// Which came first.
    stamp: u64,
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
            stamp: entry.stamp,
            address: entry.address,
            origin: entry.origin,
            first: entry.first,
            times,
            done: entry.done.min(cycle),
            left: cycle,
            retired,
        });
    }

    /// What the uops did, in the order of their fetch.
    pub(super) fn traced(&self, memory: &Memory) -> Vec<Traced> {
        let mut order: Vec<&Record> = self.records.iter().collect();
        order.sort_by_key(|record| record.stamp);
        let traced = order.into_iter().map(|r| {
            let text = match r.origin {
                Origin::Interrupt => "interrupt".to_owned(),
                _ if r.first => decode::disassemble(memory, r.address),
                _ => "...".to_owned(),
            };
            let kind = match r.origin {
                Origin::Interrupt => Kind::Interrupt,
                _ if super::handler::contains(r.address) => Kind::Handler,
                _ => Kind::Program,
            };
            let [fetched, renamed, issued] = r.times;
            let happened = |time: u64| (time != NEVER && time <= r.left).then_some(time);
            let issued = happened(issued);
            Traced {
                address: r.address,
                text,
                kind,
                fetched,
                renamed: happened(renamed),
                issued,
                done: issued.and_then(|_| happened(r.done)),
                left: r.left,
                retired: r.retired,
            }
        });
        traced.collect()
    }

    /// The file's text.
    pub(super) fn text(&self, memory: &Memory) -> String {
        let mut events: Vec<(u64, usize, String)> = Vec::new();
        let mut retired = 0;
        for (id, uop) in self.traced(memory).into_iter().enumerate() {
            let Traced { address, text, fetched, left, .. } = &uop;
            let label = format!("I\t{id}\t{id}\t0\nL\t{id}\t0\t{address:x}: {text}\n");
            events.push((*fetched, id, format!("{label}S\t{id}\t0\tF\n")));
            for (time, stage) in [(uop.renamed, "Rn"), (uop.issued, "Ex"), (uop.done, "Cm")] {
                events.extend(time.map(|time| (time, id, format!("S\t{id}\t0\t{stage}\n"))));
            }
            let kind = u8::from(!uop.retired);
            events.push((*left, id, format!("R\t{id}\t{retired}\t{kind}\n")));
            retired += u64::from(uop.retired);
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
