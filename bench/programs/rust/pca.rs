//! Principal components: the means and covariances of a matrix's rows in integers, then the first
//! eigenvector.
mod common;
use common::{Rng, at_least, fail, finish, mix, mix_double, start};

const ITERATIONS: usize = 40;
const FACTORS: usize = 3;

fn subtract_means(data: &mut [i32], columns: usize) {
    for row in data.chunks_exact_mut(columns) {
        let sum: i64 = row.iter().map(|&value| i64::from(value)).sum();
        let mean = (sum / columns as i64) as i32;
        row.iter_mut().for_each(|value| *value -= mean);
    }
}

fn covariances(data: &[i32], columns: usize) -> Vec<i64> {
    let rows = data.len() / columns;
    let mut covariance = vec![0; rows * rows];
    for (i, a) in data.chunks_exact(columns).enumerate() {
        for (j, b) in data.chunks_exact(columns).enumerate().skip(i) {
            let sum: i64 = a.iter().zip(b).map(|(a, b)| i64::from(a * b)).sum();
            covariance[i * rows + j] = sum;
            covariance[j * rows + i] = sum;
        }
    }
    covariance
}

/// Rows of a few hidden factors, of which the first counts most, and noise.
fn build(rows: usize, columns: usize, rng: &mut Rng) -> Vec<i32> {
    let factor: Vec<i32> = (0..columns * FACTORS).map(|_| rng.below(41) as i32 - 20).collect();
    let mut data = Vec::with_capacity(rows * columns);
    for _ in 0..rows {
        let weight: [i32; FACTORS] = std::array::from_fn(|f| rng.below(13 >> f) as i32 - (6 >> f));
        for factors in factor.chunks_exact(FACTORS) {
            let noise = 500 + rng.below(21) as i32;
            data.push(weight.iter().zip(factors).fold(noise, |value, (w, f)| value + w * f));
        }
    }
    data
}

fn main() {
    let scale = start();
    let rows = at_least(20, 1150.0 * scale.cbrt());
    let columns = at_least(30, 3200.0 * scale.cbrt());
    let mut rng = Rng(13);
    let mut data = build(rows, columns, &mut rng);
    subtract_means(&mut data, columns);
    let covariance = covariances(&data, columns);
    // For signs s: s C s is the sum of squares of the rows' sum with these signs.
    let signs: Vec<i64> = (0..rows).map(|_| if rng.below(2) == 1 { 1 } else { -1 }).collect();
    let mut quadratic = 0;
    for (row, sign) in covariance.chunks_exact(rows).zip(&signs) {
        quadratic += sign * row.iter().zip(&signs).map(|(c, other)| c * other).sum::<i64>();
    }
    let mut squares = 0;
    for k in 0..columns {
        let column = data.iter().skip(k).step_by(columns);
        let sum: i64 = column.zip(&signs).map(|(&value, sign)| i64::from(value) * sign).sum();
        squares += sum * sum;
    }
    if quadratic != squares {
        fail!("the covariances give {quadratic} instead of {squares}");
    }
    let mut vector: Vec<f64> = (0..rows).map(|_| rng.between(-1.0, 1.0)).collect();
    let (mut next, mut value, mut off) = (vec![0.0; rows], 0.0, 0.0);
    for _ in 0..ITERATIONS {
        let mut length = 0.0;
        for (next, row) in next.iter_mut().zip(covariance.chunks_exact(rows)) {
            *next = row.iter().zip(&vector).fold(0.0, |sum, (&c, v)| sum + c as f64 * v);
            length += *next * *next;
        }
        value = f64::sqrt(length);
        off = 0.0;
        for (now, next) in vector.iter_mut().zip(&next) {
            let before = std::mem::replace(now, next / value);
            off += (*now - before) * (*now - before);
        }
    }
    if !(off < 1e-12) {
        fail!("the eigenvector still moves by {}", off.sqrt());
    }
    finish("pca", covariance.iter().fold(mix_double(0, value), |sum, &c| mix(sum, c as u64)));
}
