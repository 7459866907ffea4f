//! On which cores children run.

use std::fs;

use anyhow::bail;

use crate::doctor::detect::cpus;
use crate::parse::cpulist;

/// The cores of one benchmark run; all children get the same ones.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Place {
    /// The core that is measured: the worker's.
    pub worker: usize,
    /// Another one for clients and timer threads that spin, on another physical core where there is
    /// one.
    pub helper: Option<usize>,
    /// All that this process may use, the worker's first.
    pub all: Vec<usize>,
}

impl Place {
    /// Chooses among the CPUs that this process may use.
    ///
    /// # Errors
    ///
    /// When these cannot be found out.
    pub fn choose() -> anyhow::Result<Self> {
        let allowed = cpus::allowed();
        match Self::among(&allowed, siblings) {
            Some(place) => Ok(place),
            None => bail!("cannot find out which CPUs may be used: is /proc mounted?"),
        }
    }

    /// The highest core works: the lowest ones get most of the interrupts of devices.
    fn among(allowed: &[usize], siblings: impl Fn(usize) -> Vec<usize>) -> Option<Self> {
        let (&worker, others) = allowed.split_last()?;
        let near = siblings(worker);
        let helper = others.iter().find(|cpu| !near.contains(cpu)).or(others.first()).copied();
        let all = allowed.iter().rev().copied().collect();
        Some(Self { worker, helper, all })
    }

    /// The worker's core and the helper's.
    pub fn both(&self) -> Vec<usize> {
        std::iter::once(self.worker).chain(self.helper).collect()
    }
}

/// CPUs that share the physical core of `cpu`, itself included; empty where the kernel does not
/// say.
fn siblings(cpu: usize) -> Vec<usize> {
    let path = format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
    fs::read_to_string(path).ok().and_then(|list| cpulist::parse(&list).ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_helper_avoids_the_workers_sibling() {
        // Siblings are 0-1 and 2-3.
        let pairs = |cpu: usize| vec![cpu & !1, cpu | 1];
        let place = Place::among(&[1, 2, 3], pairs).unwrap();
        assert_eq!(place, Place { worker: 3, helper: Some(1), all: vec![3, 2, 1] });
        assert_eq!(place.both(), [3, 1]);
        // Better a sibling than none.
        assert_eq!(Place::among(&[2, 3], pairs).unwrap().helper, Some(2));
    }

    #[test]
    fn one_core_has_no_helper() {
        let place = Place::among(&[4], |_| vec![]).unwrap();
        assert_eq!(place, Place { worker: 4, helper: None, all: vec![4] });
        assert_eq!(place.both(), [4]);
        assert_eq!(Place::among(&[], |_| vec![]), None);
    }
}
