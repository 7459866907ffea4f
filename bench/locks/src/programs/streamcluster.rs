//! After Streamcluster: points find their nearest centre, centres move to the middle of their
//! points, and barriers separate these steps. The barrier is a counter behind a lock, and the last
//! one wakes the others. Where waiters of the lock spin, threads that no one waits for *yet* lose
//! their CPUs, and the barrier comes late. (FlexGuard 5.3, Figure 3q-t, loses up to 82 % here.)

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Release};

use super::{Locked, Ran, Size};
use crate::locks::{BenchLock, Use, sleep_at, wake_at};
use crate::work::random::Random;

const POINTS: usize = 4096;
const CENTRES: usize = 10;
const DIMENSIONS: usize = 8;
/// Steps at full size, with two barriers each.
const STEPS: u64 = 200;

type Point = [i64; DIMENSIONS];

/// The program.
pub struct Streamcluster {
    /// How it runs.
    pub size: Size,
}

/// Sums and counts of the points of each centre. Integers: the order of additions changes nothing.
#[derive(Clone, Copy, Default)]
struct Sums {
    sums: [Point; CENTRES],
    counts: [i64; CENTRES],
}

impl Sums {
    fn add(&mut self, other: &Sums) {
        for (mine, theirs) in self.sums.iter_mut().zip(&other.sums) {
            mine.iter_mut().zip(theirs).for_each(|(a, b)| *a += b);
        }
        self.counts.iter_mut().zip(&other.counts).for_each(|(a, b)| *a += b);
    }

    /// The middles of the points; a centre without any stays.
    fn centres(&self, before: &[Point; CENTRES]) -> [Point; CENTRES] {
        std::array::from_fn(|i| match self.counts[i] {
            0 => before[i],
            count => self.sums[i].map(|sum| sum / count),
        })
    }
}

fn assign(points: &[Point], centres: &[Point; CENTRES]) -> Sums {
    let mut sums = Sums::default();
    for point in points {
        let far =
            |centre: &Point| centre.iter().zip(point).map(|(a, b)| (a - b) * (a - b)).sum::<i64>();
        let nearest = (0..CENTRES).min_by_key(|&i| far(&centres[i])).expect("there are some");
        sums.sums[nearest].iter_mut().zip(point).for_each(|(sum, part)| *sum += part);
        sums.counts[nearest] += 1;
    }
    sums
}

/// Threads wait here for each other.
struct Meeting<L> {
    arrived: Locked<L, usize>,
    round: AtomicU32,
    threads: usize,
}

impl<L: BenchLock> Meeting<L> {
    fn new(threads: usize) -> Self {
        Self { arrived: Locked::new(0), round: AtomicU32::new(0), threads }
    }

    /// The last one to come does `last`, before all go on.
    fn wait(&self, node: &mut L::Node, last: impl FnOnce()) {
        let round = self.round.load(Acquire);
        let is_last = self.arrived.with(node, |arrived| {
            *arrived = (*arrived + 1) % self.threads;
            *arrived == 0
        });
        if is_last {
            last();
            self.round.store(round.wrapping_add(1), Release);
            wake_at(self.round.as_ptr(), i32::MAX as u32);
        } else {
            while self.round.load(Acquire) == round {
                sleep_at(&self.round, round, None);
            }
        }
    }
}

fn points() -> Vec<Point> {
    let mut random = Random::new(9);
    (0..POINTS).map(|_| std::array::from_fn(|_| (random.number() % 10_000) as i64)).collect()
}

impl Use for Streamcluster {
    type Out = Ran;

    fn with<L: BenchLock>(self) -> Ran {
        let (points, steps) = (points(), self.size.of(STEPS));
        let begin: [Point; CENTRES] = std::array::from_fn(|i| points[i]);
        let centres: Locked<L, _> = Locked::new(begin);
        let total: Locked<L, Sums> = Locked::new(Sums::default());
        let meeting = Meeting::<L>::new(self.size.threads);
        let share = POINTS.div_ceil(self.size.threads);
        let (_, took) = self.size.run(|index| {
            let mut node = L::Node::default();
            let mine = points.chunks(share).nth(index).unwrap_or_default();
            for _ in 0..steps {
                let at = centres.with(&mut node, |centres| *centres);
                let sums = assign(mine, &at);
                total.with(&mut node, |total| total.add(&sums));
                let mut another = L::Node::default();
                meeting.wait(&mut node, || {
                    let sums = total.with(&mut another, std::mem::take);
                    centres.with(&mut another, |centres| *centres = sums.centres(centres));
                });
            }
        });
        let got = centres.into_inner();
        let wanted = (0..steps).fold(begin, |at, _| assign(&points, &at).centres(&at));
        let wrong = (got != wanted).then(|| "the centres are others than of one thread".into());
        Ran { ops: steps * self.size.threads as u64, took, wrong }
    }
}
