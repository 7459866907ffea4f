//! LU decomposition of a dense matrix, block by block, each block contiguous. No pivoting: the
//! diagonal dominates.
mod common;
use common::{Rng, at_least, fail, finish, mix_double, start};

const BLOCK: usize = 16;
const SIZE: usize = BLOCK * BLOCK;

type Block = [f64; SIZE];

fn factor(a: &mut Block) {
    for k in 0..BLOCK {
        for i in k + 1..BLOCK {
            a[i * BLOCK + k] /= a[k * BLOCK + k];
            let f = a[i * BLOCK + k];
            for j in k + 1..BLOCK {
                a[i * BLOCK + j] -= f * a[k * BLOCK + j];
            }
        }
    }
}

/// a = L^-1 a with the diagonal block's unit lower triangle.
fn solve_lower(a: &mut Block, diagonal: &Block) {
    for k in 0..BLOCK {
        for i in k + 1..BLOCK {
            for j in 0..BLOCK {
                a[i * BLOCK + j] -= diagonal[i * BLOCK + k] * a[k * BLOCK + j];
            }
        }
    }
}

/// a = a U^-1 with the diagonal block's upper triangle.
fn solve_upper(a: &mut Block, diagonal: &Block) {
    for i in 0..BLOCK {
        for k in 0..BLOCK {
            a[i * BLOCK + k] /= diagonal[k * BLOCK + k];
            let f = a[i * BLOCK + k];
            for j in k + 1..BLOCK {
                a[i * BLOCK + j] -= f * diagonal[k * BLOCK + j];
            }
        }
    }
}

fn update(c: &mut Block, a: &Block, b: &Block) {
    for i in 0..BLOCK {
        for k in 0..BLOCK {
            let f = a[i * BLOCK + k];
            for j in 0..BLOCK {
                c[i * BLOCK + j] -= f * b[k * BLOCK + j];
            }
        }
    }
}

fn decompose(matrix: &mut [Block], blocks: usize) {
    let at = |i: usize, j: usize| i * blocks + j;
    for k in 0..blocks {
        factor(&mut matrix[at(k, k)]);
        let diagonal = matrix[at(k, k)];
        for j in k + 1..blocks {
            solve_lower(&mut matrix[at(k, j)], &diagonal);
        }
        let (above, below) = matrix.split_at_mut(at(k + 1, 0));
        for row in below.chunks_exact_mut(blocks) {
            solve_upper(&mut row[k], &diagonal);
            let (left, right) = row.split_at_mut(k + 1);
            for (c, b) in right.iter_mut().zip(&above[at(k, k + 1)..]) {
                update(c, &left[k], b);
            }
        }
    }
}

fn main() {
    let blocks = at_least(4, 144.0 * start().cbrt());
    let n = blocks * BLOCK;
    let mut matrix = vec![[0.0; SIZE]; blocks * blocks];
    let (mut wanted, mut x) = (vec![0.0; n], vec![0.0; n]);
    let mut rng = Rng(8);
    for value in matrix.iter_mut().flatten() {
        *value = rng.between(-1.0, 1.0);
    }
    for i in 0..n {
        matrix[i / BLOCK * (blocks + 1)][i % BLOCK * (BLOCK + 1)] += n as f64;
        wanted[i] = rng.between(-1.0, 1.0);
    }
    let place =
        |i: usize, j: usize| (i / BLOCK * blocks + j / BLOCK, i % BLOCK * BLOCK + j % BLOCK);
    // The right side of which the solution is known.
    for i in 0..n {
        for j in 0..n {
            let (block, at) = place(i, j);
            x[i] += matrix[block][at] * wanted[j];
        }
    }
    decompose(&mut matrix, blocks);
    let element = |i: usize, j: usize| {
        let (block, at) = place(i, j);
        matrix[block][at]
    };
    for i in 0..n {
        for j in 0..i {
            x[i] -= element(i, j) * x[j];
        }
    }
    for i in (0..n).rev() {
        for j in i + 1..n {
            x[i] -= element(i, j) * x[j];
        }
        x[i] /= element(i, i);
    }
    let mut sum = 0;
    for i in 0..n {
        if !((x[i] - wanted[i]).abs() < 1e-11) {
            fail!("x[{i}] is {} instead of {}", x[i], wanted[i]);
        }
        sum = mix_double(sum, x[i]);
    }
    finish("lu", sum);
}
