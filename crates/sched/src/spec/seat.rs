//! Where a policy lies: on the heap, or in memory that several processes share.
//!
//! A policy consists of atomics, and of tables of them whose addresses it holds. So it can be used
//! by every process that has the same memory at the same address; each brings its own code, which
//! must be the same.

use alloc::boxed::Box;
use core::{alloc::Layout, any::TypeId, hash, hash::Hasher, ptr::NonNull, time::Duration};

use super::Spec;
use crate::{Policy, Time, table::site};

/// Where to put a policy.
#[derive(Clone, Copy)]
pub(super) enum Site {
    Heap,
    /// Made there.
    Made(NonNull<[u8]>),
    /// It lies there.
    Found(NonNull<[u8]>),
}

/// A policy that was made, and what identifies its type.
pub(super) struct Seat {
    policy: Held,
    form: (TypeId, Layout),
}

enum Held {
    Own(Box<dyn Policy>),
    Lent(&'static dyn Policy),
}

impl Site {
    pub(super) fn seat<P: Policy + 'static>(self, make: impl FnOnce() -> P) -> Seat {
        let layout = Layout::new::<P>();
        let at_front = || site::take(layout).map(NonNull::cast::<P>);
        let policy = match self {
            Site::Heap => {
                at_front();
                Held::Own(Box::new(make()))
            }
            // SAFETY: memory for this policy alone, as `build_at` demands; it begins with room for
            // a `P`.
            Site::Made(memory) => Held::Lent(unsafe {
                site::within(memory, || {
                    let at = at_front().expect("a site with memory");
                    at.write(make());
                    at.as_ref()
                })
            }),
            // SAFETY: `build_at` has made it there, of this type, as `open_at` demands.
            Site::Found(memory) => Held::Lent(unsafe { memory.cast::<P>().as_ref() }),
        };
        Seat { policy, form: (TypeId::of::<P>(), layout) }
    }
}

impl Seat {
    pub(super) fn boxed(self) -> Box<dyn Policy> {
        match self.policy {
            Held::Own(policy) => policy,
            Held::Lent(_) => unreachable!("made on the heap"),
        }
    }

    fn lent(self) -> &'static dyn Policy {
        match self.policy {
            Held::Lent(policy) => policy,
            Held::Own(_) => unreachable!("made in memory"),
        }
    }
}

/// What memory a policy needs, and what every process that uses it there must agree on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Footprint {
    /// Bytes.
    pub size: usize,
    /// Names the policy's type, its parameters and tables, and the compiler and version of this
    /// crate.
    pub mark: u64,
}

impl Spec {
    /// What [`build_at`](Self::build_at) needs for the same arguments. Makes a policy and drops it.
    ///
    /// # Panics
    ///
    /// As [`build`](Self::build).
    pub fn footprint(&self, workers: usize, max_tasks: u32) -> Footprint {
        let mut form = None;
        let size = site::measure(|| {
            form = Some(self.seated(workers, max_tasks, &|_| 1, Site::Heap).form);
        });
        let mut mark = Fnv(0xcbf2_9ce4_8422_2325);
        hash::Hash::hash(&(form, size, self, workers, max_tasks), &mut mark);
        hash::Hash::hash(env!("CARGO_PKG_VERSION"), &mut mark);
        Footprint { size, mark: mark.finish() }
    }

    /// As [`build`](Self::build), in memory of the caller's, which other processes may have, too.
    /// All its tables are there. Made again in the same memory for the same arguments, everything
    /// is where it was.
    ///
    /// # Panics
    ///
    /// As [`build`](Self::build); if the memory is smaller than [`footprint`](Self::footprint)
    /// says.
    ///
    /// # Safety
    ///
    /// The memory is aligned to 4096 bytes, zeroed and used by nobody else during the call. It
    /// stays where it is for as long as the process lives, and nobody writes it but through the
    /// policy, or to make it again while nobody uses it.
    pub unsafe fn build_at(
        &self,
        memory: NonNull<[u8]>,
        workers: usize,
        max_tasks: u32,
        to_time: impl Fn(Duration) -> Time,
    ) -> &'static dyn Policy {
        self.seated(workers, max_tasks, &to_time, Site::Made(memory)).lent()
    }

    /// The policy that [`build_at`](Self::build_at) has made in this memory, which is that
    /// process's memory at the same address.
    ///
    /// # Safety
    ///
    /// As for [`build_at`](Self::build_at), for the same arguments, and both processes have found
    /// the same [`footprint`](Self::footprint). It is complete, and nobody makes it again while it
    /// is used.
    pub unsafe fn open_at(
        &self,
        memory: NonNull<[u8]>,
        workers: usize,
        max_tasks: u32,
    ) -> &'static dyn Policy {
        self.seated(workers, max_tasks, &|_| 1, Site::Found(memory)).lent()
    }
}

/// FNV-1a: the same in every process, unlike the standard library's hashers.
struct Fnv(u64);

impl Hasher for Fnv {
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::{Place, Task, Why};
    use std::vec::Vec;

    fn page_aligned(size: usize) -> NonNull<[u8]> {
        let layout = Layout::from_size_align(size.max(1), 4096).unwrap();
        // SAFETY: not of size 0; never freed, as the policy in it demands.
        let at = unsafe { std::alloc::alloc_zeroed(layout) };
        NonNull::slice_from_raw_parts(NonNull::new(at).unwrap(), size)
    }

    /// The order in which a policy runs tasks that come from two sides.
    fn order(policy: &dyn Policy) -> Vec<u32> {
        for i in 0..300 {
            let place = if i % 3 == 0 { Place::Shared } else { Place::Local(i % 2) };
            policy.task_enqueue(place, Task(i as u32), Why::New, i as u64);
        }
        let take = |i: u64| {
            let worker = (i % 2) as usize;
            policy.task_dequeue(worker, 300 + i).or_else(|| policy.balance(worker, 300 + i))
        };
        (0..300).map(|i| take(i).expect("300 wait").task.0).collect()
    }

    #[test]
    fn every_policy_is_the_same_in_memory_as_on_the_heap() {
        for (name, _) in Spec::names() {
            let spec: Spec = name.parse().unwrap();
            let Footprint { size, mark } = spec.footprint(2, 1000);
            assert_eq!(spec.footprint(2, 1000).mark, mark);
            assert_ne!(spec.footprint(3, 1000).mark, mark);
            let memory = page_aligned(size);
            let ns = |d: Duration| d.as_nanos() as u64;
            let expected = order(&*spec.build(2, 1000, ns));
            for _ in 0..2 {
                // SAFETY: nobody uses the memory, which is zeroed before the second time, too.
                let (made, found) = unsafe {
                    memory.cast::<u8>().write_bytes(0, size);
                    (spec.build_at(memory, 2, 1000, ns), spec.open_at(memory, 2, 1000))
                };
                made.task_enqueue(Place::Shared, Task(999), Why::New, 0);
                assert_eq!(found.waiting(), 1, "{name}");
                found.task_dequeue(0, 0).or_else(|| found.balance(0, 0)).unwrap();
                // SAFETY: as above.
                let made = unsafe {
                    memory.cast::<u8>().write_bytes(0, size);
                    spec.build_at(memory, 2, 1000, ns)
                };
                assert_eq!(order(made), expected, "{name}");
            }
        }
    }

    #[test]
    #[should_panic(expected = "too small")]
    fn memory_that_is_too_small_is_refused() {
        let spec = Spec::default();
        let size = spec.footprint(2, 1000).size - 1;
        // SAFETY: nobody uses the memory.
        unsafe { spec.build_at(page_aligned(size), 2, 1000, |_| 1) };
    }
}
