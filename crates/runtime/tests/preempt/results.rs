//! Programs compute what they compute undisturbed.

use crate::support::{Rng, Setup, until_preempted};
use std::collections::HashMap;

/// Programs whose result is known.
fn compute(kind: usize) -> u64 {
    match kind {
        0 => {
            (1..4_000u64).fold(0f64, |a, i| a + (i as f64).sqrt().sin() / (a.abs() + 1.0)).to_bits()
        }
        1 => {
            let mut rng = Rng(5);
            let mut values: Vec<u64> = (0..3_000).map(|_| rng.next()).collect();
            values.sort_unstable();
            values.iter().fold(0, |a: u64, v| a.rotate_left(7) ^ v)
        }
        2 => {
            let mut words: HashMap<String, usize> = HashMap::new();
            for i in 0..400usize {
                *words.entry(format!("{:x}", i * i % 97)).or_default() += i;
            }
            let mut words: Vec<_> = words.into_iter().collect();
            words.sort();
            words.iter().fold(0, |a, (k, v)| a.rotate_left(9) ^ (k.len() + v) as u64)
        }
        _ => {
            let (mut a, mut b) = ([[1.25f32; 24]; 24], [[0.75f32; 24]; 24]);
            for _ in 0..6 {
                let mut c = [[0f32; 24]; 24];
                for (row, out) in a.iter().zip(&mut c) {
                    for (k, x) in row.iter().enumerate() {
                        out.iter_mut().zip(&b[k]).for_each(|(o, y)| *o += x * y * 0.01);
                    }
                }
                (a, b) = (b, c);
            }
            a.iter().chain(&b).flatten().fold(0, |a, v| a.rotate_left(9) ^ u64::from(v.to_bits()))
        }
    }
}

#[test]
fn results_are_those_of_an_undisturbed_run() {
    let expected: Vec<u64> = (0..4).map(compute).collect();
    for setup in Setup::all() {
        setup.run(|| {
            quaver::scope(|s| {
                for i in 0..6 {
                    let expected = &expected;
                    s.spawn(move || {
                        let goal = setup.preemptions(150);
                        until_preempted(goal, |step| {
                            let kind = (i + step as usize) % 4;
                            assert_eq!(compute(kind), expected[kind], "{kind}");
                        });
                    });
                }
            });
        });
    }
}
