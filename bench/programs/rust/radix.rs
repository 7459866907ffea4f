//! Radix sort of 32-bit keys, 11 bits at a time, with each key's old place.
mod common;
use common::{Rng, at_least, fail, finish, mix, start};

const BITS: u32 = 11;
const BUCKETS: usize = 1 << BITS;
const PASSES: u32 = 3;
const ITEMS: usize = 150000;

#[derive(Clone, Copy, Default)]
struct Item {
    key: u32,
    place: u32,
}

fn sort_by(from: &[Item], to: &mut [Item], shift: u32) {
    let bucket = |item: &Item| (item.key >> shift) as usize & (BUCKETS - 1);
    let (mut count, mut total) = ([0; BUCKETS], 0);
    for item in from {
        count[bucket(item)] += 1;
    }
    for place in &mut count {
        total += std::mem::replace(place, total);
    }
    for item in from {
        let place = &mut count[bucket(item)];
        to[*place] = *item;
        *place += 1;
    }
}

fn main() {
    let rounds = at_least(1, 1050.0 * start());
    let (mut rng, mut sum) = (Rng(6), 0);
    let mut keys = vec![0u32; ITEMS];
    let (mut a, mut b) = (vec![Item::default(); ITEMS], vec![Item::default(); ITEMS]);
    for round in 0..rounds {
        // Keys of many or of few bits.
        for i in 0..ITEMS {
            keys[i] = (rng.next() as u32) >> (round % 24);
            a[i] = Item { key: keys[i], place: i as u32 };
        }
        for pass in 0..PASSES {
            sort_by(&a, &mut b, pass * BITS);
            std::mem::swap(&mut a, &mut b);
        }
        // Sorted, equal keys in their old order: then no place can be there twice, and this is a
        // permutation.
        for (i, item) in a.iter().enumerate() {
            if keys.get(item.place as usize) != Some(&item.key) {
                fail!("item {i} has the key of another");
            }
            if i > 0 && (a[i - 1].key, a[i - 1].place) >= (item.key, item.place) {
                fail!("items {} and {i} are not in order", i - 1);
            }
        }
        for item in a.iter().step_by(97) {
            sum = mix(sum, u64::from(item.key) << 32 | u64::from(item.place));
        }
    }
    finish("radix", sum);
}
