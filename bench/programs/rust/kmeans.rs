//! Clusters points in space around means (Lloyd's algorithm).
mod common;
use common::{Rng, at_least, fail, finish, mix, mix_double, start};

const MEANS: usize = 50;
const MOST_ROUNDS: usize = 30;

type Point = [f64; 3];

fn distance2(a: &Point, b: &Point) -> f64 {
    let mut sum = 0.0;
    for (x, y) in a.iter().zip(b) {
        sum += (x - y) * (x - y);
    }
    sum
}

/// Gives each point to its nearest mean; how many go to another than before, and the sum of the
/// distances.
fn assign(points: &[Point], means: &[Point], cluster: &mut [usize]) -> (usize, f64) {
    let (mut changed, mut total) = (0, 0.0);
    for (point, cluster) in points.iter().zip(cluster) {
        let (mut nearest, mut best) = (0, f64::INFINITY);
        for (m, mean) in means.iter().enumerate() {
            let d = distance2(point, mean);
            if d < best {
                (best, nearest) = (d, m);
            }
        }
        changed += usize::from(*cluster != nearest);
        *cluster = nearest;
        total += best;
    }
    (changed, total)
}

fn find_means(points: &[Point], cluster: &[usize], means: &mut [Point]) -> [usize; MEANS] {
    let (mut sums, mut members) = ([[0.0; 3]; MEANS], [0; MEANS]);
    for (point, &c) in points.iter().zip(cluster) {
        members[c] += 1;
        for (sum, x) in sums[c].iter_mut().zip(point) {
            *sum += x;
        }
    }
    for m in (0..MEANS).filter(|&m| members[m] > 0) {
        for k in 0..3 {
            means[m][k] = sums[m][k] / members[m] as f64;
        }
    }
    members
}

fn main() {
    let n = at_least(MEANS, 520000.0 * start());
    let mut rng = Rng(24);
    let (mut squares, mut total, mut last) = (0.0, 0.0, f64::INFINITY);
    let mut points = vec![[0.0; 3]; n];
    for point in &mut points {
        let ball = rng.below(MEANS as u32);
        for (k, x) in (0..).zip(point) {
            let middle = f64::from(ball * (7 + 4 * k) % MEANS as u32);
            *x = middle + rng.between(-6.0, 6.0);
            squares += *x * *x;
        }
    }
    let mut cluster = vec![0; n];
    let mut means = points[..MEANS].to_vec();
    let mut members = [0; MEANS];
    for round in 0..MOST_ROUNDS {
        let changed;
        (changed, total) = assign(&points, &means, &mut cluster);
        if !(total <= last * (1.0 + 1e-12)) {
            fail!("round {round}: the distances grew from {last} to {total}");
        }
        last = total;
        members = find_means(&points, &cluster, &mut means);
        if round > 0 && changed == 0 {
            break;
        }
    }
    // The squares of the points are those of the means and of the distances to these.
    let pairs = || points.iter().zip(&cluster);
    let of_distances: f64 = pairs().map(|(point, &c)| distance2(point, &means[c])).sum();
    let (mut of_means, mut sum) = (0.0, 0);
    for m in 0..MEANS {
        sum = mix(sum, members[m] as u64);
        for x in means[m] {
            of_means += members[m] as f64 * x * x;
            sum = mix_double(sum, x);
        }
    }
    if members.iter().sum::<usize>() != n
        || !((squares - of_means - of_distances).abs() < 1e-9 * squares)
    {
        fail!("squares of {squares} + {of_means} instead of {of_distances}; {total}");
    }
    assign(&points, &means, &mut cluster);
    let nearer = |(point, &c): (&Point, &usize)| {
        means.iter().any(|mean| distance2(point, mean) < distance2(point, &means[c]) - 1e-9)
    };
    if points.iter().zip(&cluster).step_by(n / MEANS).any(nearer) {
        fail!("a point is nearer to another mean than to its own");
    }
    finish("kmeans", sum);
}
