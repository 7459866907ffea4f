//! Products of dense matrices, in tiles; checked by multiplying them with a vector.
mod common;
use common::{Rng, at_least, fail, finish, mix_double, start};

const TILE: usize = 48;

fn multiply(c: &mut [f64], a: &[f64], b: &[f64], n: usize) {
    for kk in (0..n).step_by(TILE) {
        for jj in (0..n).step_by(TILE) {
            for i in 0..n {
                for k in kk..kk + TILE {
                    let f = a[i * n + k];
                    let (c, b) = (&mut c[i * n + jj..][..TILE], &b[k * n + jj..][..TILE]);
                    for (c, b) in c.iter_mut().zip(b) {
                        *c += f * b;
                    }
                }
            }
        }
    }
}

fn apply(matrix: &[f64], vector: &[f64]) -> Vec<f64> {
    let product = |row: &[f64]| row.iter().zip(vector).fold(0.0, |sum, (a, b)| sum + a * b);
    matrix.chunks_exact(vector.len()).map(product).collect()
}

fn main() {
    let scale = start();
    let n = at_least(2, 14.0 * scale.sqrt().cbrt()) * TILE;
    let products = at_least(1, 16.0 * scale.sqrt());
    let (mut a, mut c) = (vec![0.0; n * n], vec![0.0; n * n]);
    let (mut rng, mut sum) = (Rng(17), 0);
    // Small whole numbers: every sum is exact.
    let b: Vec<f64> = (0..n * n).map(|_| f64::from(rng.below(201)) - 100.0).collect();
    for product in 0..products {
        a.fill_with(|| f64::from(rng.below(201)) - 100.0);
        c.fill(0.0);
        multiply(&mut c, &a, &b, n);
        let v: Vec<f64> = (0..n).map(|_| f64::from(rng.below(1001)) - 500.0).collect();
        if apply(&c, &v) != apply(&a, &apply(&b, &v)) {
            fail!("product {product} is wrong");
        }
        sum = c.iter().fold(sum, |sum, &value| mix_double(sum, value));
    }
    finish("matrix_multiply", sum);
}
