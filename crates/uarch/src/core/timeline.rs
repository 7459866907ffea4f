//! When the steps of interrupts retire: what the paper saw from outside (xUI Fig. 2).

use serde::{Deserialize, Serialize};

use super::window::Place;

/// Mean cycles from one step of an interrupt to the next, each when it retires. A step that no
/// interrupt had is 0.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Steps {
    /// From the program's last instruction to the first store to the UPID, which clears ON.
    pub cleared: f64,
    /// From there to the next one, which clears the requests.
    pub taken: f64,
    /// From there, or without notification from the program's last instruction, to the first push.
    pub first_push: f64,
    /// From there to the last push.
    pub last_push: f64,
    /// From there to the handler's first instruction.
    pub handler: f64,
    /// From the instruction before UIRET to the program's next one.
    pub uiret: f64,
}

impl Steps {
    /// From the first store to the UPID to the handler: notification and delivery.
    pub fn delivery(&self) -> f64 {
        self.taken + self.first_push + self.last_push + self.handler
    }
}

/// What collects them.
#[derive(Default)]
pub(super) struct Timeline {
    /// The program's last instruction, and the one before the handler's last.
    program: u64,
    handler: [u64; 2],
    /// What the interrupt on its way has done: stores to the UPID, first and last push.
    upid: [Option<u64>; 2],
    push: Option<[u64; 2]>,
    /// In a handler.
    inside: bool,
    sums: [u64; 6],
    counts: [u64; 6],
}

impl Timeline {
    fn add(&mut self, step: usize, cycles: u64) {
        self.sums[step] += cycles;
        self.counts[step] += 1;
    }

    /// A uop of an interrupt's microcode retires.
    pub(super) fn microcode(&mut self, place: Option<Place>, upid: u64, cycle: u64) {
        let Some(place) = place.filter(|place| place.store) else { return };
        if place.address == upid {
            let free = self.upid.iter_mut().find(|time| time.is_none());
            free.into_iter().for_each(|time| *time = Some(cycle));
        } else {
            let first = self.push.map_or(cycle, |[first, _]| first);
            self.push = Some([first, cycle]);
        }
    }

    /// A handler's first instruction retires.
    pub(super) fn enters(&mut self, cycle: u64) {
        let mut from = self.program;
        for (step, time) in std::mem::take(&mut self.upid).into_iter().enumerate() {
            if let Some(time) = time {
                self.add(step, time - from);
                from = time;
            }
        }
        if let Some([first, last]) = self.push.take() {
            self.add(2, first - from);
            self.add(3, last - first);
            from = last;
        }
        self.add(4, cycle - from);
        self.inside = true;
        self.handler = [cycle; 2];
    }

    /// An instruction of the program, or of the model's handler, retires.
    pub(super) fn instruction(&mut self, of_handler: bool, cycle: u64) {
        if of_handler {
            self.handler = [self.handler[1], cycle];
            return;
        }
        if std::mem::take(&mut self.inside) {
            self.add(5, cycle - self.handler[0]);
        }
        self.program = cycle;
    }

    pub(super) fn steps(&self) -> Steps {
        let mean = |step: usize| self.sums[step] as f64 / self.counts[step].max(1) as f64;
        Steps {
            cleared: mean(0),
            taken: mean(1),
            first_push: mean(2),
            last_push: mean(3),
            handler: mean(4),
            uiret: mean(5),
        }
    }
}
