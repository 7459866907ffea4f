//! Schedulers and ports: the oldest uops whose sources are there, each on the first free port that
//! has its unit.

use std::cmp::Reverse;
use std::collections::VecDeque;

use super::Core;
use super::parameters::{Class, PORTS};
use super::window::{Forward, Name, Place};

/// A store that is not yet in the cache.
struct Store {
    name: Name,
    place: Place,
    /// The register that loads wait for.
    token: u16,
    /// When its line is there.
    line: u64,
    retired: bool,
}

/// The stores in program order, those that have retired included.
#[derive(Default)]
pub(super) struct Stores {
    all: VecDeque<Store>,
}

impl Stores {
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    pub(super) fn push(&mut self, name: Name, place: Place, token: u16) {
        self.all.push_back(Store { name, place, token, line: 0, retired: false });
    }

    /// The youngest store that has bytes of a load, and whether it has all of them.
    pub(super) fn overlap(&self, load: Place) -> Option<(u16, bool)> {
        let end = |place: Place| place.address.wrapping_add(u64::from(place.bytes));
        let store = self
            .all
            .iter()
            .rev()
            .find(|store| store.place.address < end(load) && load.address < end(store.place))?;
        let whole = store.place.address <= load.address && end(load) <= end(store.place);
        Some((store.token, whole))
    }

    fn find(&mut self, name: Name) -> &mut Store {
        let place = self.all.iter().rposition(|store| store.name == name);
        &mut self.all[place.expect("a store in flight is in the queue")]
    }

    pub(super) fn retire(&mut self, name: Name) {
        self.find(name).retired = true;
    }

    /// The youngest store is squashed: its register.
    pub(super) fn undo(&mut self) -> u16 {
        let store = self.all.pop_back().expect("it is in the queue");
        debug_assert!(!store.retired, "what has retired stays");
        store.token
    }

    /// When the oldest store may be written, if it has retired.
    pub(super) fn next(&self) -> Option<u64> {
        self.all.front().filter(|store| store.retired).map(|store| store.line)
    }
}

impl Core {
    /// Writes stores that have retired to the cache.
    pub(super) fn drain_stores(&mut self) {
        for _ in 0..self.p.window.drain {
            match self.stores.next() {
                Some(line) if line <= self.cycle => {
                    let store = self.stores.all.pop_front().expect("it was looked at");
                    self.registers.release(store.token);
                    self.moved = true;
                }
                _ => break,
            }
        }
    }

    /// Begins the execution of uops that are ready.
    pub(super) fn issue(&mut self) {
        while let Some(&Reverse((time, name))) = self.awake.peek() {
            if time > self.cycle {
                break;
            }
            self.awake.pop();
            let place = self.ready.partition_point(|&other| other < name);
            self.ready.insert(place, name);
        }
        if self.ready.is_empty() {
            return;
        }
        let mut ready = std::mem::take(&mut self.ready);
        let mut left = self.p.window.issue;
        ready.retain(|&name| {
            if left == 0 {
                return true;
            }
            let Some(entry) = self.window.get(name) else { return false };
            let class = entry.needs.class;
            if !self.take_ports(class) {
                return true;
            }
            left -= 1;
            self.execute(name);
            false
        });
        self.ready = ready;
    }

    /// Occupies a port for this class, if one is free.
    fn take_ports(&mut self, class: Class) -> bool {
        let free = |busy: &[u64; PORTS], class: Class| {
            let ports = &self.units[class as usize].ports;
            ports.iter().map(|&port| usize::from(port)).find(|&port| busy[port] <= self.cycle)
        };
        let Some(port) = free(&self.busy, class) else { return false };
        if class == Class::StoreAddress {
            let Some(data) = free(&self.busy, Class::StoreData) else { return false };
            self.busy[data] = self.cycle + 1;
        }
        self.busy[port] = self.cycle + self.units[class as usize].busy;
        true
    }

    fn execute(&mut self, name: Name) {
        self.moved = true;
        let cycle = self.cycle;
        let entry = self.window.get(name).expect("it was looked at");
        let unit = &self.units[entry.needs.class as usize];
        let latency = if entry.latency > 0 { entry.latency } else { unit.latency };
        let memory = &self.p.memory;
        let done = match (entry.place, entry.forward) {
            (Some(place), _) if place.store => {
                // The line is asked for as soon as the address is known.
                let line = self.memory.store(place.address, place.bytes, cycle);
                self.stores.find(name).line = line;
                cycle + latency
            }
            (Some(_), Forward::Whole) => cycle + memory.forward,
            (Some(_), Forward::Part) => cycle + memory.forward + memory.forward_fails,
            (Some(place), Forward::No) => {
                let time = self.memory.load(place.address, place.bytes, entry.address, cycle);
                time + if entry.vector { memory.vector_load } else { 0 }
            }
            (None, _) => cycle + latency.max(1),
        };
        entry.issued = true;
        entry.done = done;
        entry.times[2] = cycle;
        self.waiting -= 1;
        if entry.needs.class == Class::Serialize {
            self.serial = Some(done);
        }
        if entry.resolves.is_some() {
            self.resolving.push(Reverse((done, name)));
        }
        let store = entry.place.is_some_and(|place| place.store);
        let mut results = [None; 4];
        for (i, &register) in entry.needs.writes.iter().enumerate() {
            results[i] = (register != super::class::NONE).then_some(entry.new[i]);
        }
        if store {
            results[3] = Some(self.stores.find(name).token);
        }
        for number in results.into_iter().flatten() {
            let waiting = self.registers.set(number, done);
            for &name in &waiting {
                let Some(entry) = self.window.get(name) else { continue };
                entry.pending -= 1;
                entry.ready = entry.ready.max(done);
                if entry.pending == 0 {
                    self.awake.push(Reverse((entry.ready.max(cycle + 1), name)));
                }
            }
            self.registers.recycle(number, waiting);
        }
    }
}
