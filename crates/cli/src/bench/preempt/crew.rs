//! The threads of a measurement, each with a fixed amount of work.

use std::time::Duration;

use anyhow::Result;
use quaver_bench_common::iterations_lasting;
use quaver_bench_common::store::Store;

use super::mix::{Kind, Mix};

/// A store that a cache of the second level holds; loaded in milliseconds.
const KEYS: u64 = 20_000;
const SEED: u64 = 8;
/// The rows of a SCAN: some hundred microseconds.
const SCAN_ROWS: usize = 5000;

/// Who computes, and what.
pub struct Crew {
    store: Option<Store>,
    members: Vec<Member>,
}

struct Member {
    kind: Kind,
    iterations: u64,
}

impl Crew {
    /// One that computes for about `time` in all, each member for as long; measured in CPU time,
    /// because others may use the machine. The calling kernel thread should be where it will work.
    ///
    /// # Errors
    ///
    /// When the store cannot be loaded.
    pub fn lasting(mix: &Mix, time: Duration) -> Result<Crew> {
        let members: Vec<_> = mix.threads().map(|kind| Member { kind, iterations: 1 }).collect();
        let with_store = members.iter().any(|member| matches!(member.kind, Kind::Get | Kind::Scan));
        let store = if with_store { Some(Store::load(KEYS, SEED)?) } else { None };
        let mut crew = Crew { store, members };
        let each = time / crew.len() as u32;
        for which in 0..crew.len() {
            let same = crew.members[..which].iter().find(|m| m.kind == crew.members[which].kind);
            crew.members[which].iterations = match same {
                Some(same) => same.iterations,
                None => {
                    let kind = crew.members[which].kind;
                    iterations_lasting(each, |n| {
                        std::hint::black_box(crew.work(kind, which, n));
                    })
                }
            };
        }
        Ok(crew)
    }

    /// How many threads there are.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Does the work of one member; the result is the same every time.
    pub fn compute(&self, which: usize) -> u64 {
        let member = &self.members[which];
        self.work(member.kind, which, member.iterations)
    }

    /// What all compute, one after the other.
    pub fn compute_all(&self) -> Vec<u64> {
        (0..self.len()).map(|which| self.compute(which)).collect()
    }

    fn work(&self, kind: Kind, which: usize, iterations: u64) -> u64 {
        let seed = which as u64 + 1;
        let right = |request: &dyn Fn(&Store, u64) -> bool| {
            let store = self.store.as_ref().expect("whoever asks the store has loaded it");
            let random = |i: u64| (seed << 32 | i).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            (0..iterations).filter(|&i| request(store, random(i))).count() as u64
        };
        match kind {
            Kind::Loop(work) => work.run(seed, iterations),
            Kind::Get => right(&|store, random| store.get(random, 1).is_ok()),
            Kind::Scan => right(&|store, random| store.scan(random, SCAN_ROWS).is_ok()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_do_different_work_and_all_of_it() {
        let mix: Mix = "scalar*2+get+scan".parse().unwrap();
        let crew = Crew::lasting(&mix, Duration::from_millis(20)).unwrap();
        let results = crew.compute_all();
        assert_eq!(results, crew.compute_all());
        assert_ne!(results[0], results[1]);
        assert_eq!(results[2..], [2, 3].map(|which: usize| crew.members[which].iterations));
    }
}
