//! Simulated annealing of a chip's layout: swaps random elements where that makes their wires
//! shorter, or hardly longer.
mod common;
use common::{Rng, at_least, fail, finish, mix, start};

const TEMPERATURES: usize = 40;
const WIRES: usize = 3;
const MOST_NEAR: usize = 12;

#[derive(Clone, Default)]
struct Element {
    x: i32,
    y: i32,
    wires: usize,
    /// Numbers of elements; either end knows the other.
    wire: [usize; MOST_NEAR],
}

impl Element {
    fn near(&self) -> &[usize] {
        &self.wire[..self.wires]
    }

    fn add(&mut self, other: usize) {
        self.wire[self.wires] = other;
        self.wires += 1;
    }
}

fn length(a: &Element, b: &Element) -> i64 {
    i64::from((a.x - b.x).abs()) + i64::from((a.y - b.y).abs())
}

fn connect(elements: &mut [Element], a: usize, b: usize) {
    if a == b || elements[a].wires == MOST_NEAR || elements[b].wires == MOST_NEAR {
        return;
    }
    elements[a].add(b);
    elements[b].add(a);
}

/// How much longer the wires of `a` are if it goes to the place of `b`, and `b` away from there.
fn change(elements: &[Element], a: usize, b: usize) -> i64 {
    let (from, to) = (&elements[a], &elements[b]);
    let mut sum = 0;
    for &other in from.near() {
        if other != b {
            sum += length(to, &elements[other]) - length(from, &elements[other]);
        }
    }
    sum
}

fn total_length(elements: &[Element]) -> i64 {
    let of = |a: &Element| a.near().iter().map(|&b| length(a, &elements[b])).sum::<i64>();
    elements.iter().map(of).sum::<i64>() / 2
}

/// Elements at random places; most wires lead to elements with a number nearby, so that there are
/// good layouts.
fn build(side: usize, rng: &mut Rng) -> Vec<Element> {
    let count = side * side;
    let mut place: Vec<usize> = (0..count).collect();
    for i in 0..count {
        place.swap(i, rng.below(i as u32 + 1) as usize);
    }
    let at = |&place: &usize| Element {
        x: (place % side) as i32,
        y: (place / side) as i32,
        ..Element::default()
    };
    let mut elements: Vec<Element> = place.iter().map(at).collect();
    for i in 0..count {
        for w in 0..WIRES {
            let (dx, dy) = (rng.below(5) as usize, rng.below(5) as usize);
            if w > 0 {
                connect(&mut elements, i, (i + dx + dy * side) % count);
                continue;
            }
            let anywhere = rng.below(count as u32) as usize;
            if i % 8 == 0 {
                connect(&mut elements, i, anywhere);
            }
        }
    }
    elements
}

fn main() {
    let scale = start();
    let side = at_least(8, 80.0 * scale.sqrt().sqrt());
    let count = side * side;
    let moves = at_least(1, 75.0 * scale.sqrt()) * count;
    let mut rng = Rng(22);
    let mut elements = build(side, &mut rng);
    let before = total_length(&elements);
    let (mut now, mut accepted, mut temperature) = (before, 0, side as f64);
    for _ in 0..TEMPERATURES {
        for _ in 0..moves {
            let a = rng.below(count as u32) as usize;
            let b = rng.below(count as u32) as usize;
            if a == b {
                continue;
            }
            let longer = change(&elements, a, b) + change(&elements, b, a);
            if longer > 0 && rng.between(0.0, 1.0) >= (-(longer as f64) / temperature).exp() {
                continue;
            }
            let place = |e: &Element| (e.x, e.y);
            let (of_a, of_b) = (place(&elements[a]), place(&elements[b]));
            (elements[a].x, elements[a].y) = of_b;
            (elements[b].x, elements[b].y) = of_a;
            now += longer;
            accepted += 1;
        }
        temperature *= 0.85;
    }
    if now != total_length(&elements) {
        fail!("a length of {now} instead of {}", total_length(&elements));
    }
    if now >= before * 3 / 4 {
        fail!("the length only went from {before} to {now}");
    }
    let mut taken = vec![false; count];
    let mut sum = mix(accepted, now as u64);
    for element in &elements {
        let at = element.y as usize * side + element.x as usize;
        if std::mem::replace(&mut taken[at], true) {
            fail!("two elements at {}, {}", element.x, element.y);
        }
        sum = mix(sum, at as u64);
    }
    finish("canneal", sum);
}
