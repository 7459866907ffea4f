//! The highest load that passes, on a ladder, with as few loads offered as decide it.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// What a load has come to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// It meets the objective.
    Passes,
    /// It does not.
    Fails,
    /// It does not, and the client was kept from its work: which means nothing if a higher load
    /// passes.
    Disturbed,
}

/// What is known of a ladder of loads: what each that was offered came to.
#[derive(Debug)]
pub struct Tried<T> {
    loads: Vec<u32>,
    /// By index.
    results: BTreeMap<usize, T>,
}

impl<T> Tried<T> {
    /// Nothing yet, of these loads, which ascend.
    pub fn new(loads: Vec<u32>) -> Tried<T> {
        Tried { loads, results: BTreeMap::new() }
    }

    /// The result of a load, which is offered if it was not yet. One that is not on the ladder gets
    /// a step there.
    ///
    /// # Errors
    ///
    /// Those of `offer`.
    pub fn result<E>(
        &mut self,
        load: u32,
        offer: impl FnOnce(u32) -> Result<T, E>,
    ) -> Result<&mut T, E> {
        let index = match self.loads.binary_search(&load) {
            Ok(index) => index,
            Err(index) => {
                self.loads.insert(index, load);
                let above = self.results.split_off(&index);
                self.results.extend(above.into_iter().map(|(i, result)| (i + 1, result)));
                index
            }
        };
        Ok(match self.results.entry(index) {
            Entry::Occupied(there) => there.into_mut(),
            Entry::Vacant(place) => place.insert(offer(load)?),
        })
    }

    /// The highest load such that it passes and no lower one that was offered fails, and the lowest
    /// that fails; by bisection between the loads that were offered before. What passes is taken to
    /// be a prefix of the ladder.
    ///
    /// A load that was disturbed fails, unless a higher one passes. `judge` may offer a load again
    /// and change its result.
    ///
    /// # Errors
    ///
    /// Those of `offer` and `judge`.
    pub fn highest<E>(
        &mut self,
        mut offer: impl FnMut(u32) -> Result<T, E>,
        mut judge: impl FnMut(u32, &mut T) -> Result<Verdict, E>,
    ) -> Result<(Option<u32>, Option<u32>), E> {
        // Invariant: everything below `low` passes, nothing from `high` on does.
        let (mut low, mut high) = (0, self.loads.len());
        let mut disturbed = None;
        for (&index, result) in &mut self.results {
            match judge(self.loads[index], result)? {
                Verdict::Passes => (low, disturbed) = (index + 1, None),
                Verdict::Disturbed => _ = disturbed.get_or_insert(index),
                Verdict::Fails => {
                    high = index;
                    break;
                }
            }
        }
        high = disturbed.unwrap_or(high);
        while low < high {
            let middle = low + (high - low) / 2;
            let load = self.loads[middle];
            let result = self.result(load, &mut offer)?;
            if judge(load, result)? == Verdict::Passes {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok((low.checked_sub(1).map(|i| self.loads[i]), self.loads.get(high).copied()))
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    fn verdict(passes: bool) -> Verdict {
        if passes { Verdict::Passes } else { Verdict::Fails }
    }

    fn search(tried: &mut Tried<u32>, boundary: u32) -> ((Option<u32>, Option<u32>), Vec<u32>) {
        let mut offered = Vec::new();
        let found = tried.highest(
            |load| {
                offered.push(load);
                Ok::<_, Infallible>(load)
            },
            |_, result| Ok(verdict(*result <= boundary)),
        );
        (found.unwrap(), offered)
    }

    #[test]
    fn every_boundary_is_found_in_few_tries() {
        let loads: Vec<u32> = (1..=26).map(|step| 5 * step).collect();
        for boundary in 0..140 {
            let ((best, worst), offered) = search(&mut Tried::new(loads.clone()), boundary);
            assert_eq!(best, loads.iter().copied().rfind(|load| *load <= boundary));
            assert_eq!(worst, loads.iter().copied().find(|load| *load > boundary));
            assert!(offered.len() <= 5, "{boundary}: {offered:?}");
        }
    }

    #[test]
    fn what_was_offered_is_not_offered_again() {
        let mut tried = Tried::new((1..=13).map(|step| 10 * step).collect());
        for load in [20, 40, 60, 80] {
            tried.result(load, Ok::<_, Infallible>).unwrap();
        }
        // Between 40 and 60 there is one load to try.
        assert_eq!(search(&mut tried, 50), ((Some(50), Some(60)), vec![50]));
        assert_eq!(search(&mut tried, 55), ((Some(50), Some(60)), vec![]));
        assert_eq!(search(&mut tried, 10), ((Some(10), Some(20)), vec![10]));
    }

    #[test]
    fn a_load_beside_the_ladder_gets_a_step() {
        let mut tried = Tried::new(vec![10, 30, 50]);
        tried.result(30, Ok::<_, Infallible>).unwrap();
        tried.result(25, Ok::<_, Infallible>).unwrap();
        assert_eq!(*tried.result(30, |_| Err("again")).unwrap(), 30);
        assert_eq!(search(&mut tried, 27), ((Some(25), Some(30)), vec![]));
    }

    #[test]
    fn a_failure_below_counts_more_than_a_success_above() {
        let mut tried = Tried::new(vec![10, 20, 30, 40]);
        for load in [20, 40] {
            tried.result(load, Ok::<_, Infallible>).unwrap();
        }
        let found = tried.highest(Ok::<_, Infallible>, |load, _| Ok(verdict(load != 20))).unwrap();
        assert_eq!(found, (Some(10), Some(20)));
    }

    #[test]
    fn a_disturbance_counts_only_where_nothing_higher_passes() {
        let highest = |disturbed: &[u32], fails: u32| {
            let mut tried = Tried::new((1..=12).map(|step| 10 * step).collect());
            for load in [20, 40, 60, 80] {
                tried.result(load, Ok::<_, Infallible>).unwrap();
            }
            let judge = |load, _: &mut u32| {
                Ok(if disturbed.contains(&load) {
                    Verdict::Disturbed
                } else {
                    verdict(load < fails)
                })
            };
            tried.highest(Ok::<_, Infallible>, judge).unwrap()
        };
        assert_eq!(highest(&[20], 70), (Some(60), Some(70)));
        assert_eq!(highest(&[20, 40], 70), (Some(60), Some(70)));
        assert_eq!(highest(&[60], 70), (Some(50), Some(60)));
        assert_eq!(highest(&[60, 80], 90), (Some(50), Some(60)));
        assert_eq!(highest(&[20, 40, 60, 80], 90), (Some(10), Some(20)));
        assert_eq!(highest(&[20], 30), (Some(10), Some(20)));
    }
}
