//! The six-step fast Fourier transform: a square matrix of complex numbers, transposed thrice, with
//! transforms of rows.
mod common;
use common::{Rng, at_least, fail, finish_rounded, start};
use std::f64::consts::PI;

const TILE: usize = 16;

#[derive(Clone, Copy, Default)]
struct Complex {
    re: f64,
    im: f64,
}

fn mul(a: Complex, b: Complex) -> Complex {
    Complex { re: a.re * b.re - a.im * b.im, im: a.re * b.im + a.im * b.re }
}

fn transpose(to: &mut [Complex], from: &[Complex], side: usize) {
    for i in (0..side).step_by(TILE) {
        for j in (0..side).step_by(TILE) {
            for k in i..i + TILE {
                let row = &from[k * side + j..][..TILE];
                for (l, &value) in (j..).zip(row) {
                    to[l * side + k] = value;
                }
            }
        }
    }
}

/// `roots`: as many of unity as the square of the row's length.
fn row_transform(row: &mut [Complex], roots: &[Complex]) {
    let (side, mut j) = (row.len(), 0);
    for i in 1..side {
        let mut bit = side >> 1;
        while j & bit != 0 {
            j ^= bit;
            bit >>= 1;
        }
        j ^= bit;
        if i < j {
            row.swap(i, j);
        }
    }
    let mut half = 1;
    while half < side {
        let stride = roots.len() / (2 * half);
        for block in row.chunks_exact_mut(2 * half) {
            let (low, high) = block.split_at_mut(half);
            let roots = roots.iter().step_by(stride);
            for ((p, q), w) in low.iter_mut().zip(high).zip(roots) {
                let t = mul(*q, *w);
                *q = Complex { re: p.re - t.re, im: p.im - t.im };
                *p = Complex { re: p.re + t.re, im: p.im + t.im };
            }
        }
        half *= 2;
    }
}

/// The transform of `data`, in place; with another space of the same size.
fn transform(data: &mut [Complex], space: &mut [Complex], roots: &[Complex], side: usize) {
    transpose(space, data, side);
    for (i, row) in space.chunks_exact_mut(side).enumerate() {
        row_transform(row, roots);
        for (j, value) in row.iter_mut().enumerate() {
            *value = mul(*value, roots[i * j]);
        }
    }
    transpose(data, space, side);
    for row in data.chunks_exact_mut(side) {
        row_transform(row, roots);
    }
    transpose(space, data, side);
    data.copy_from_slice(space);
}

fn power(data: &[Complex]) -> f64 {
    data.iter().fold(0.0, |sum, value| sum + (value.re * value.re + value.im * value.im))
}

fn main() {
    let wanted = 50.0 * 512.0 * 512.0 * start();
    let mut side = 512;
    while side > 32 && (side * side) as f64 > wanted / 4.0 {
        side /= 2;
    }
    let n = side * side;
    let (pairs, size) = (at_least(1, wanted / n as f64), n as f64);
    let root = |i: usize| {
        let angle = -2.0 * PI * i as f64 / size;
        Complex { re: angle.cos(), im: angle.sin() }
    };
    let roots: Vec<Complex> = (0..n).map(root).collect();
    let mut rng = Rng(7);
    let mut random = || Complex { re: rng.between(-1.0, 1.0), im: rng.between(-1.0, 1.0) };
    let input: Vec<Complex> = (0..n).map(|_| random()).collect();
    let mut data = input.clone();
    let mut space = vec![Complex::default(); n];
    let (before, mut first) = (power(&data), 0.0);
    for pair in 0..pairs {
        transform(&mut data, &mut space, &roots, side);
        let after = power(&data) / size;
        if !((after - before).abs() < 1e-9 * before) {
            fail!("transform {pair}: the power went from {before} to {after}");
        }
        if pair == 0 {
            first = data[1].re;
        }
        // Forth again, of the conjugate, is back.
        for value in &mut data {
            value.im = -value.im;
        }
        transform(&mut data, &mut space, &roots, side);
        for value in &mut data {
            *value = Complex { re: value.re / size, im: -value.im / size };
        }
    }
    // The first coefficient by its definition.
    let direct = input.iter().zip(&roots).fold(0.0, |sum, (&a, &w)| sum + mul(a, w).re);
    if !((direct - first).abs() < 1e-8 * size.sqrt()) {
        fail!("the first coefficient is {first} instead of {direct}");
    }
    for (i, (now, then)) in data.iter().zip(&input).enumerate() {
        if !((now.re - then.re).abs() + (now.im - then.im).abs() < 1e-10) {
            fail!("number {i} did not come back");
        }
    }
    finish_rounded("fft", first);
}
