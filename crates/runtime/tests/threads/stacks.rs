//! Alignment and least size of stacks.

use crate::cooperative;
use crate::support::{Setup, on_runtime, spin, until_preempted};
use std::hint::black_box;

/// The stack pointer of a thread's code is aligned as the ABI demands, whatever lies above it.
#[test]
fn stacks_are_aligned() {
    fn aligned<const N: usize>() {
        #[repr(align(16))]
        struct Sixteen([u8; 16]);
        let odd = [1u8; N];
        let t = quaver::spawn(move || {
            let local = Sixteen(black_box([odd[0]; 16]));
            let at = black_box(&raw const local) as usize;
            assert_eq!(at % 16, 0);
            local.0[3]
        });
        assert_eq!(t.join().unwrap(), 1);
    }
    on_runtime(cooperative(), || {
        aligned::<1>();
        aligned::<7>();
        aligned::<8>();
        aligned::<17>();
        aligned::<40>();
    });
}

#[test]
fn the_smallest_stack_survives_preemption() {
    let smallest = quaver::platform::facts().min_stack_size;
    for setup in Setup::all() {
        setup.run_with(setup.builder().stack_size(smallest), || {
            quaver::scope(|s| {
                for _ in 0..3 {
                    s.spawn(|| until_preempted(setup.preemptions(100), |_| _ = spin(500)));
                }
            });
        });
    }
}
